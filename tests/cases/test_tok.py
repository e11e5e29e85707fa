"""Cases of vocabularies and tokenizers: each with the value that is right."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from polysemy.data.collate import collate
from polysemy.text.fit import fit
from polysemy.text.normalize import Normalizer, normalize
from polysemy.text.subwords import SubwordTokenizer
from polysemy.text.tokenizer import KINDS, load_tokenizer, train_tokenizer
from polysemy.text.tokens import Tokenizer
from polysemy.text.vocabulary import count_words
from polysemy.text.words import Segmenter

SINHALA = "ක්\u200dර"
PERSIAN = "می\u200cروم"
HANGUL = "\ud55c\uae00's"  # 4 code points composed, 8 decomposed


def train(kind: str, text: str, vocab_size: int = 400, unit: str = "word", *, lowercase: bool = False) -> Tokenizer:
    segmenter = Segmenter(unit=unit)
    counts = count_words([text], segmenter)
    return train_tokenizer(kind, counts, segmenter=segmenter, vocab_size=vocab_size, lowercase=lowercase)


def pieces(tokenizer: Tokenizer, text: str | list[str]) -> list[str]:
    return [tokenizer.vocabulary[id_] for id_ in tokenizer.encode(text).ids]


def test_cor_02_a_vocabulary_with_crlf(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(b"the\r\n##s\r\n")
    tokenizer = SubwordTokenizer.from_vocab(tmp_path / "vocab.txt")
    assert pieces(tokenizer, "thes") == ["the", "##s"]
    assert tokenizer.encode("thes").unknown == 0
    assert fit(tokenizer, ["thes"]).unknown_rate == 0.0


def test_cor_02_a_high_unknown_rate_is_measured(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(b"[UNK]\nthe\n")
    found = fit(SubwordTokenizer.from_vocab(tmp_path / "vocab.txt"), ["the cat sat", "the end"])
    assert found.unknown_rate == pytest.approx(3 / 5)
    assert found.characters_lost == len("catsatend")


@pytest.mark.parametrize("kind", KINDS)
def test_tok_01_lower_case_keeps_hindi_vowel_signs(kind: str) -> None:
    text = "में के"
    assert normalize(text, lowercase=True).text == text
    assert normalize(text, lowercase=True, strip_accents=True).text == "म क"
    tokenizer = train(kind, f"{text} {text}", lowercase=True)
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert [len(word) for word in tokenizer.encode(text).words] == [3, 2]


def test_tok_02_lower_case_and_accents_are_two_switches(tmp_path: Path) -> None:
    text = "Müssen llegó"
    assert normalize(text, lowercase=True).text == "müssen llegó"
    assert normalize(text, lowercase=True, strip_accents=True).text == "mussen llego"
    assert normalize(text, strip_accents=True).text == "Mussen llego"
    segmenter = Segmenter()
    for strip, expected in ((False, "müssen llegó"), (True, "mussen llego")):
        counts = count_words([text], segmenter)
        tokenizer = train_tokenizer(
            "words", counts, segmenter=segmenter, vocab_size=9, lowercase=True, strip_accents=strip
        )
        tokenizer.save(tmp_path / "tokenizer.json")
        loaded = load_tokenizer(tmp_path / "tokenizer.json")
        assert loaded.decode(loaded.encode("MÜSSEN LLEGÓ").ids) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_tok_04_the_zero_width_joiner_stays_in_its_word(kind: str) -> None:
    tokenizer = train(kind, f"{SINHALA} {SINHALA}")
    tokens = tokenizer.encode(SINHALA)
    assert tokens.words == [SINHALA]
    assert tokens.unknown == 0
    assert tokenizer.decode(tokens.ids) == SINHALA


@pytest.mark.parametrize("kind", KINDS)
def test_tok_05_the_zero_width_non_joiner_is_not_cleaned_away(kind: str) -> None:
    assert len(PERSIAN) == 6
    assert len(normalize(PERSIAN).text) == 6
    tokens = train(kind, f"{PERSIAN} {PERSIAN}").encode(PERSIAN)
    assert tokens.words == [PERSIAN]
    assert tokens.word_spans == [(0, 6)]
    assert (tokens.spans[0][0], tokens.spans[-1][1]) == (0, 6)


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_tok_07_a_character_that_becomes_two_letters_is_one_word(kind: str) -> None:
    trained = train(kind, "東 コ ト 東 コ ト", unit="char")
    assert isinstance(trained, SubwordTokenizer)
    tokenizer = SubwordTokenizer(
        kind,
        trained.vocabulary,
        trained.special,
        trained.segmenter,
        Normalizer("NFKC"),
        merges=trained.merges,
        scores=trained.scores,
    )
    tokens = tokenizer.encode(["東", "\u30ff"])
    assert len(tokens.words) == 2
    assert set(tokens.word_of) == {0, 1}
    of_second = [i for i, word in enumerate(tokens.word_of) if word == 1]
    assert [tokens.spans[i] for i in of_second] == [(2, 3)] * len(of_second)
    assert tokenizer.decode([tokens.ids[i] for i in of_second]) == "コト"
    positions = collate([tokens], tokenizer).word_positions
    assert positions is not None
    assert [tokens.word_of[p - 1] for p in positions[0].tolist()] == [0, 1]  # first pieces, one a label


def test_tok_08_decomposed_hangul_keeps_its_offsets(tmp_path: Path) -> None:
    found = normalize(HANGUL, "NFD")
    assert len(found.text) == 8
    assert found.offsets[found.text.index("'")] == (2, 3)
    vocabulary = ["[UNK]", "'", "s", "한", "##글"]
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    tokenizer = SubwordTokenizer.from_vocab(tmp_path / "vocab.txt", lowercase=True)
    tokens = tokenizer.encode(HANGUL)
    assert [tokenizer.vocabulary[id_] for id_ in tokens.ids] == ["한", "##글", "'", "s"]
    assert tokens.spans == [(0, 1), (1, 2), (2, 3), (3, 4)]


@pytest.mark.parametrize("kind", KINDS)
def test_tok_08_offsets_are_in_order_and_inside_the_source(kind: str) -> None:
    for source in (HANGUL, normalize(HANGUL, "NFD").text):
        tokens = train(kind, HANGUL).encode(source)
        for spans in (tokens.word_spans, tokens.spans):
            assert spans
            assert all(0 <= start <= end <= len(source) for start, end in spans)
            assert [start for start, _ in spans] == sorted(start for start, _ in spans)


@pytest.mark.parametrize("kind", KINDS)
def test_tok_10_unknown_characters_become_unk_and_are_covered(kind: str) -> None:
    tokenizer = train(kind, "hug pug")
    text = "mug 😀"
    tokens = tokenizer.encode(text)
    covered = {i for start, end in tokens.spans for i in range(start, end)}
    assert covered == {0, 1, 2, 4}
    unknown = [span for id_, span in zip(tokens.ids, tokens.spans, strict=True) if id_ == tokenizer.special.unk]
    assert tokens.unknown == len(unknown)
    expected = {
        "words": [(0, 3), (4, 5)],
        "characters": [(0, 3), (4, 5)],
        "wordpiece": [(0, 1), (4, 5)],
        "bpe": [],  # every byte is known
        "unigram": [(0, 1), (4, 5)],
    }
    assert unknown == expected[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_tok_11_special_names_travel_with_the_vocabulary(kind: str, tmp_path: Path) -> None:
    tokenizer = train(kind, "hug pug")
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = load_tokenizer(tmp_path / "tokenizer.json")
    assert loaded.special == tokenizer.special
    assert loaded.special.unk is not None
    assert loaded.vocabulary[loaded.special.unk] in ("<unk>", "[UNK]")
    tokens = loaded.encode("zzz")
    if kind != "bpe":
        assert tokens.ids[-1] == loaded.special.unk
        assert tokens.unknown == 1


@pytest.mark.parametrize("kind", KINDS)
def test_tok_13_empty_and_blank_texts(kind: str) -> None:
    tokenizer = train(kind, "ok ok")
    start = time.perf_counter()
    first, *rest = [tokenizer.encode(text) for text in ("ok", " \t\n", "")]
    assert time.perf_counter() - start < 1.0
    assert first.words == ["ok"]
    assert all((tokens.words, tokens.ids, tokens.spans) == ([], [], []) for tokens in rest)
    assert len(rest) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_tok_14_a_word_without_pieces_moves_no_label(kind: str) -> None:
    words = ["Ravi", "\n", "joined", "Orbis", "today"]
    tokenizer = train(kind, "Ravi joined Orbis today " * 3)
    tokens = tokenizer.encode(words)
    assert len(tokens.words) == 5
    assert 1 not in tokens.word_of
    assert {0, 2, 3, 4} == set(tokens.word_of)
    alone = tokenizer.encode(["Orbis"]).ids
    assert [id_ for id_, word in zip(tokens.ids, tokens.word_of, strict=True) if word == 3] == alone
    batch = collate([tokens], tokenizer)
    assert batch.word_positions is not None
    assert batch.ids is not None
    assert batch.word_positions[0, 1] == -1
    assert batch.ids[0, batch.word_positions[0, 3]] == alone[0]


SCRIPT = """
import sys
from pathlib import Path
from polysemy.text.tokenizer import train_tokenizer
from polysemy.text.vocabulary import count_words
from polysemy.text.words import Segmenter
text, folder = sys.argv[1], Path(sys.argv[2])
segmenter = Segmenter()
counts = count_words([text], segmenter)
for argument in sys.argv[3:]:
    kind, size = argument.split(":")
    train_tokenizer(kind, counts, segmenter=segmenter, vocab_size=int(size)).save(folder / f"{kind}.json")
"""


def in_processes(text: str, folder: Path, processes: int, kinds: dict[str, int]) -> list[Path]:
    folders = [folder / str(seed) for seed in range(processes)]
    for seed, made in enumerate(folders):
        made.mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": str(seed), "OMP_NUM_THREADS": "1"}
        arguments = [text, str(made), *(f"{kind}:{size}" for kind, size in kinds.items())]
        subprocess.run([sys.executable, "-c", SCRIPT, *arguments], check=True, env=environment)
    return folders


def test_tok_16_ties_go_by_code_points(tmp_path: Path) -> None:
    folders = in_processes("cd ab cd ab", tmp_path, 2, {"wordpiece": 5 + 8 + 1, "bpe": 5 + 256 + 1})
    for name in ("wordpiece.json", "bpe.json"):
        assert folders[0].joinpath(name).read_bytes() == folders[1].joinpath(name).read_bytes()
        assert load_tokenizer(folders[0] / name).vocabulary[-1] == "ab"


def test_tok_16_five_processes_write_the_same_file(tmp_path: Path) -> None:
    text = "dị na-agba ụgbọ n’oge ọbụla 中国人 東京に สวัสดี 😀 " * 2 + "the then than thus this that " * 3
    folders = in_processes(text, tmp_path, 5, dict.fromkeys(KINDS, 300))
    for kind in KINDS:
        assert len({folder.joinpath(f"{kind}.json").read_bytes() for folder in folders}) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_tok_17_chinese_mixed_with_english_by_character(kind: str) -> None:
    text = "安装 google app"
    expected = [(0, 1), (1, 2), (3, 9), (10, 13)]
    assert Segmenter(unit="char").spans(text) == expected
    tokenizer = train(kind, f"{text} {text}", unit="char", vocab_size=600)
    tokens = tokenizer.encode(text)
    assert tokens.word_spans == expected
    assert not any(text[start:end].isspace() for start, end in tokens.spans)
    if kind in ("words", "characters"):
        assert tokens.spans == expected
