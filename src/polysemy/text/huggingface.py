"""Tokenizers that came with a model: ``tokenizer.json`` of the ``tokenizers`` library, or BERT's ``vocab.txt``.

They keep their own normalisation and read a whole raw text in one call.  Our words are laid over their pieces by the
source characters that each covers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import regex  # type: ignore[import-untyped]
from tokenizers import Tokenizer

from polysemy.core.errors import InputError
from polysemy.core.files import write_atomic
from polysemy.text import saved
from polysemy.text.subwords import CONTINUES, read_pieces
from polysemy.text.tokens import Span, Special, Tokens
from polysemy.text.words import Segmenter

KIND = "huggingface"
CONFIG = "tokenizer_config.json"
# Where the files name a special symbol, and how it is called where they do not.
SPECIAL: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "pad": (("pad_token",), ("[PAD]", "<pad>")),
    "unk": (("unk_token",), ("[UNK]", "<unk>")),
    "begin": (("cls_token", "bos_token"), ("[CLS]", "<s>")),
    "end": (("sep_token", "eos_token"), ("[SEP]", "</s>")),
    "mask": (("mask_token",), ("[MASK]", "<mask>")),
}
# Classes whose vocab.txt is read by BERT's rules; others (Japanese ones, say) cut words by rules of their own.
BERT_CLASSES = (None, "BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast")
# Settings of tokenizer_config.json that stand above those of BERT's normaliser in tokenizer.json, as in transformers.
BERT_SETTINGS = {
    "do_lower_case": "lowercase", "strip_accents": "strip_accents", "tokenize_chinese_chars": "handle_chinese_chars",
}  # fmt: skip
_SURROGATE = regex.compile("[\ud800-\udfff]")


class HuggingFaceTokenizer:
    """Pieces of the ``tokenizers`` library over words of our ``segmenter``.

    A piece belongs to the word that holds its first character; one that begins between words (the marker of a space),
    to the word after it.  A word that begins inside a piece has none of its own.  Text that spells the name of a
    special symbol is text.  Nothing is ever truncated, padded or left to chance, and no call changes a setting, so that
    threads may share one tokenizer.
    """

    kind: str = KIND

    def __init__(self, library: Tokenizer, special: Special, segmenter: Segmenter | None = None) -> None:
        """``library`` as ``open_library`` makes it."""
        self._library, self.special, self.segmenter = library, special, segmenter or Segmenter()
        by_id = {id_: piece for piece, id_ in library.get_vocab().items()}
        self.vocabulary = [by_id.get(id_, "") for id_ in range(max(by_id, default=-1) + 1)]
        self._hidden = {i for i in (special.pad, special.begin, special.end, special.mask) if i is not None}

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str | Sequence[str]) -> Tokens:
        """Pieces of raw text, or of the text that words cut by the user make with single spaces between them."""
        found = self.segmenter.split(text)
        # The library takes no half of a surrogate pair; BERT drops U+FFFD as it would drop that.
        encoded = self._library.encode(_SURROGATE.sub("\ufffd", found.source), add_special_tokens=False)
        ids = encoded.ids if found.spans else []
        word_of, spans = lay_over(found.spans, encoded.offsets)
        unknown = -1 if self.special.unk is None else self.special.unk
        return Tokens(found.source, found.words, found.spans, ids, word_of, spans, ids.count(unknown))

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the pieces, as the library writes it; specials are left out, the unknown symbol shows."""
        kept = [id_ for id_ in ids if id_ not in self._hidden]
        return self._library.decode(kept, skip_special_tokens=False)

    def save(self, path: Path) -> None:
        data = {
            "format": saved.FORMAT,
            "kind": KIND,
            "segmenter": self.segmenter.to_json(),
            "special": asdict(self.special),
            "library": json.loads(self._library.to_str()),
        }
        write_atomic(path, json.dumps(data, ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> HuggingFaceTokenizer:
        return cls(open_library(data["library"]), Special(**data["special"]), Segmenter.from_json(data["segmenter"]))


def open_library(data: Mapping[str, Any]) -> Tokenizer:
    """The library's tokenizer from the content of its file, without the settings that belong to one use of it:
    truncation, padding, dropout of merges.  Raises ValueError where it is no such content."""
    model = {name: value for name, value in data.get("model", {}).items() if name != "dropout"}
    try:
        library = Tokenizer.from_str(json.dumps({**data, "model": model, "truncation": None, "padding": None}))
    except Exception as error:  # the library raises nothing narrower
        raise ValueError(str(error)) from error
    library.encode_special_tokens = True
    return library


def lay_over(words: Sequence[Span], pieces: Sequence[Span]) -> tuple[list[int], list[Span]]:
    """The word of each piece, and its span without what stands before that word.  Without words there are no pieces."""
    word_of: list[int] = []
    spans: list[Span] = []
    word, last = 0, len(words) - 1
    if last < 0:
        return word_of, spans
    begin, stop = words[0]
    for start, end in pieces:
        while stop <= start and word < last:
            word += 1
            begin, stop = words[word]
        word_of.append(word)
        spans.append((start, end) if start >= begin else (begin, max(begin, end)))
    return word_of, spans


def read_huggingface(folder: Path, segmenter: Segmenter | None = None) -> HuggingFaceTokenizer:
    """The tokenizer of a model's folder: ``tokenizer.json``, else ``vocab.txt`` read by BERT's rules.

    Raises InputError for a missing or broken file, and for a ``vocab.txt`` to which some other rules belong.
    """
    settings: dict[str, Any] = {}
    for name in ("special_tokens_map.json", CONFIG):
        if (folder / name).is_file():
            settings |= _read_json(folder / name)
    path = folder / "tokenizer.json"
    if path.is_file():
        data = _with_settings(_read_json(path), settings)
    elif (folder / "vocab.txt").is_file():
        path = folder / "vocab.txt"
        data = _of_vocabulary(path, settings)
    else:
        raise InputError("no tokenizer here", where=str(folder), do="Expected tokenizer.json or vocab.txt.")
    try:
        library = open_library(data)
    except (ValueError, AttributeError) as error:
        raise InputError(f"not a tokenizer of the tokenizers library: {error}", where=str(path)) from error
    index = library.get_vocab()
    unknown = getattr(library.model, "unk_token", None)
    if unknown is not None and unknown not in index:
        raise InputError(f"the vocabulary lacks its unknown symbol {unknown}", where=str(path), do="Add it.")
    special = Special(**{field: _special_id(field, settings, index) for field in SPECIAL})
    return HuggingFaceTokenizer(library, special, segmenter)


def _special_id(field: str, settings: Mapping[str, Any], index: Mapping[str, int]) -> int | None:
    keys, usual = SPECIAL[field]
    names = (*(_name(settings.get(key)) for key in keys), *usual)
    return next((index[name] for name in names if name in index), None)


def _name(symbol: Any) -> str:
    """A special symbol is stored as its text, or as an object that holds it."""
    return str(symbol.get("content") if isinstance(symbol, Mapping) else symbol)


def _with_settings(data: dict[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    normalizer = data.get("normalizer")
    if not isinstance(normalizer, dict) or normalizer.get("type") != "BertNormalizer":
        return data
    stated = {ours: settings[theirs] for theirs, ours in BERT_SETTINGS.items() if theirs in settings}
    return {**data, "normalizer": {**normalizer, **stated}}


def _of_vocabulary(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What ``tokenizer.json`` would hold.  Where nothing says whether capitals count, they do if the vocabulary has
    any."""
    if settings.get("tokenizer_class") not in BERT_CLASSES:
        raise InputError(
            f"{settings['tokenizer_class']} is not read from vocab.txt", where=str(path.parent / CONFIG),
            do="Readable: vocab.txt of BertTokenizer, or any tokenizer.json.",
        )  # fmt: skip
    pieces = read_pieces(path)
    capitals = any(piece != piece.lower() for piece in pieces if not piece.startswith("["))
    normalizer = {
        "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
        "lowercase": not capitals,
    }  # fmt: skip
    model = {
        "type": "WordPiece", "unk_token": _name(settings.get("unk_token", "[UNK]")),
        "continuing_subword_prefix": CONTINUES, "max_input_chars_per_word": 100,
        "vocab": {piece: id_ for id_, piece in enumerate(pieces)},
    }  # fmt: skip
    data: dict[str, Any] = {
        "version": "1.0", "added_tokens": [], "normalizer": normalizer, "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": None, "decoder": {"type": "WordPiece", "prefix": CONTINUES, "cleanup": True}, "model": model,
    }  # fmt: skip
    return _with_settings(data, settings)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"not a JSON file: {error}", where=str(path)) from error
    if not isinstance(data, dict):
        raise InputError("expected a JSON object", where=str(path))
    return data
