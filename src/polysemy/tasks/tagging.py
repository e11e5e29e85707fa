"""A label for each word: names (spans in IOB1, IOB2, BIOES, BMES or BILOU) or plain tags such as parts of speech."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from polysemy.core.errors import InputError
from polysemy.core.ledger import Ledger
from polysemy.core.metrics import accuracy, by_class, macro_f1, micro, span_agreement
from polysemy.data.batch import Batch
from polysemy.data.readers.conll import Sentence, read_conll
from polysemy.data.readers.conllu import looks_like_conllu, read_conllu
from polysemy.data.readers.lines import read_lines
from polysemy.data.schemes import LETTERS, Mode, Scheme, convert, detect_scheme, ill_formed, parse, spans, to_iob2
from polysemy.nn.crf import Transitions, constrained, log_likelihood, viterbi
from polysemy.objectives.loss import Loss
from polysemy.tasks.example import Columns, Example
from polysemy.tasks.heads import HeadConfig, TaggingHead, TagScores

SNIFFED_LINES = 200
Inner = Literal["IOB2", "BIOES"]
MODES: tuple[Mode, Mode] = ("strict", "lenient")


class Tagging:
    """Spans are scored strictly, as exact (start, end, type) in IOB2; plain tags by accuracy.  The mode is named.

    Tags are held in IOB2 whatever the file has, predicted in ``inner``, and never left ill-formed: only legal
    sequences are decoded.
    """

    name = "tagging"
    per_word = True

    def __init__(self, columns: Columns | None = None, *, inner: Inner = "IOB2") -> None:
        self.columns, self.inner = columns or Columns(), inner
        self.scheme: Scheme | None = None  # of the file that is read first, the training file
        self.labels: list[str] = []  # in ``inner`` (plain tags as they are), O first

    @property
    def has_spans(self) -> bool:
        """Whether tags stand for spans of words; known once the training file is read."""
        return self.scheme not in (None, "none")

    @property
    def metric(self) -> str:
        """The main score, and the one that dev is watched by."""
        return "f1" if self.has_spans else "accuracy"

    @property
    def mode(self) -> str:
        """How predictions are scored, in words."""
        return f"strict span F1 (IOB2; the file has {self.scheme})" if self.has_spans else "accuracy of tags"

    def read(self, path: Path, ledger: Ledger) -> list[Example]:
        """CoNLL columns or CoNLL-U; span tags become IOB2.  The file that is read first decides whether tags are spans.

        Raises InputError at file:line.
        """
        sentences = self._sentences(path, ledger)
        scheme = detect_scheme(sentence.tags for sentence in sentences)
        if self.scheme is None:
            self.scheme = scheme
        elif self.scheme == "none":
            scheme = "none"
        elif scheme == "none":
            raise InputError(
                "the tags are plain labels, those of the training file stand for spans", where=str(path),
                do="Give a file with tags such as O, B-PER and I-PER, or name the tag column.",
            )  # fmt: skip
        out = []
        for sentence in sentences:
            if broken := ill_formed(sentence.tags, scheme):
                ledger.add("repaired", f"ill-formed {scheme} tags, read leniently", broken, place=sentence.place)
            tags = sentence.tags if scheme == "none" else to_iob2(sentence.tags, scheme)
            out.append(Example(tuple(sentence.words), tuple(tags), sentence.place, sentence.document))
        return out

    def _sentences(self, path: Path, ledger: Ledger) -> list[Sentence]:
        encoding = self.columns.encoding
        head = [line for _, line in islice(read_lines(path, encoding=encoding), SNIFFED_LINES)]
        if looks_like_conllu(head):
            return read_conllu(path, self.columns.label or "upos", encoding=encoding, ledger=ledger)
        return read_conll(
            path, token_column=self.columns.token, tag_column=self.columns.tag, encoding=encoding, ledger=ledger
        )

    def fit(self, examples: Sequence[Example]) -> None:
        """Take the labels of the training examples.  Raises InputError when there is only one."""
        seen = {tag for example in examples for tag in self._inner(example.label)}
        if len(seen) < 2:
            found = f"only one label ({next(iter(seen))!r})" if seen else "no labels"
            raise InputError(
                f"the training file has {found}", where=examples[0].place if examples else None,
                do="Check which column holds the tags, and give examples of at least two labels.",
            )  # fmt: skip
        self.labels = sorted(seen, key=lambda tag: (tag != "O", tag))

    def _inner(self, tags: Sequence[str]) -> Sequence[str]:
        return convert(tags, "IOB2", self.inner) if self.has_spans else tags

    def targets(self, examples: Sequence[Example], ledger: Ledger) -> list[NDArray[np.int64]]:
        """Label numbers of each word; -1 for a label that training does not know (counted)."""
        number = {label: i for i, label in enumerate(self.labels)}
        out = []
        for example in examples:
            tags = self._inner(example.label)
            for tag in tags:
                if tag not in number:
                    ledger.add("unknown", "labels absent from train", place=example.place, excerpt=tag)
            out.append(np.array([number.get(tag, -1) for tag in tags], dtype=np.int64))
        return out

    def head(self, dim: int, num_layers: int, config: HeadConfig) -> nn.Module:
        return TaggingHead(dim, num_layers, len(self.labels), config)

    def loss(self, output: TagScores, batch: Batch) -> Loss:
        """Negative log-likelihood, summed; counted in labelled words, so that long sentences weigh more."""
        assert batch.labels is not None
        assert batch.word_mask is not None
        labelled = (batch.labels >= 0) & batch.word_mask
        if output.transitions is not None:
            total = -log_likelihood(output.emissions, batch.labels, batch.word_mask, output.transitions).sum()
        else:
            if batch.word_positions is not None:
                labelled = labelled & (batch.word_positions >= 0)  # a word without pieces has no state to learn from
            total = F.cross_entropy(output.emissions[labelled], batch.labels[labelled], reduction="sum")
        return Loss(total, int(labelled.sum()))

    def predict(self, output: TagScores, batch: Batch) -> list[list[str]]:
        """The best legal labels of each sequence, in ``inner``."""
        assert batch.word_mask is not None
        transitions = output.transitions or _no_preference(len(self.labels), output.emissions)
        if self.has_spans:
            transitions = constrained(transitions, self.legal(output.emissions.device))
        best = viterbi(output.emissions.detach(), batch.word_mask, transitions)
        return [[self.labels[i] for i in row if i >= 0] for row in best.tolist()]

    def legal(self, device: torch.device | None = None) -> Transitions:
        """Which label may follow which, begin and end (True = legal)."""
        first, _, last, only = LETTERS[self.inner]
        between = [[_may_follow(a, b, self.inner) for b in self.labels] for a in self.labels]
        start = [parse(b)[0] in ("O", first, only) for b in self.labels]
        end = [parse(a)[0] in ("O", last, only) for a in self.labels]
        return Transitions(*(torch.tensor(x, dtype=torch.bool, device=device) for x in (between, start, end)))

    def outer(self, tags: Sequence[str]) -> list[str]:
        """Predicted labels as they are scored and written: IOB2, plain tags as they are."""
        return convert(tags, self.inner, "IOB2") if self.has_spans else list(tags)

    def score(self, gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, Any]:
        """Both in IOB2 or plain tags, one list a sentence."""
        flat = [tag for tags in gold for tag in tags], [tag for tags in predicted for tag in tags]
        if not self.has_spans:
            rows = by_class(*flat)
            return {
                "accuracy": accuracy(*flat),
                "macro_f1": macro_f1(rows),
                "by_label": {label: row.to_json() for label, row in rows.items()},
                "mode": self.mode,
                "words": len(flat[0]),
            }
        strict, lenient = (
            span_agreement([spans(t, mode=mode) for t in gold], [spans(t, mode=mode) for t in predicted])
            for mode in MODES
        )
        total = micro(strict)
        return {
            "f1": total.f1,
            "precision": total.precision,
            "recall": total.recall,
            "f1_lenient": micro(lenient).f1,
            "accuracy": accuracy(*flat),
            "by_type": {kind: row.to_json() for kind, row in strict.items()},
            "mode": self.mode,
            "words": len(flat[0]),
        }

    def to_json(self) -> dict[str, Any]:
        return {"task": self.name, "labels": self.labels, "scheme": self.scheme, "inner": self.inner, "unit": "word",
                "metric": self.metric, "mode": self.mode}  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any], columns: Columns | None = None) -> Tagging:
        task = cls(columns, inner=data["inner"])
        task.scheme, task.labels = data["scheme"], list(data["labels"])
        return task


def _may_follow(a: str, b: str, scheme: Inner) -> bool:
    """Whether label ``b`` may stand after ``a``."""
    (x, kind), (y, other) = parse(a), parse(b)
    if scheme == "IOB2":
        return y != "I" or (x in "BI" and kind == other)
    return (y in "IE" and kind == other) if x in "BI" else y in "OBS"


def _no_preference(num_tags: int, like: torch.Tensor) -> Transitions:
    zero = like.new_zeros(num_tags, num_tags)
    return Transitions(zero, zero[0], zero[0])
