from __future__ import annotations

from pathlib import Path

import pytest

from polysemy.core.errors import InputError
from polysemy.text.fit import fit
from polysemy.text.tokenizer import load_tokenizer, train_tokenizer
from polysemy.text.vocabulary import CharacterTokenizer, WordTokenizer, count_words
from polysemy.text.words import Segmenter


def test_counting() -> None:
    counts = count_words(["Ndị e\u0301 na-agba", "", "Ndị é\x00"], Segmenter())
    assert counts == {"Ndị": 2, "é": 2, "na": 1, "-": 1, "agba": 1}


def test_order_of_a_word_vocabulary() -> None:
    counts = {"b": 2, "a": 2, "c": 3, "rare": 1}
    tokenizer = train_tokenizer("words", counts, segmenter=Segmenter(), vocab_size=10, min_count=2)
    assert isinstance(tokenizer, WordTokenizer)
    assert tokenizer.vocabulary == ["<unk>", "c", "a", "b"]
    assert tokenizer.words_index == {"c": 1, "a": 2, "b": 3}
    again = train_tokenizer("words", dict(reversed(counts.items())), segmenter=Segmenter(), vocab_size=3)
    assert again.vocabulary == ["<unk>", "c", "a"]
    assert again.special.unk == 0
    assert (again.special.pad, again.special.begin, again.special.end, again.special.mask) == (None,) * 4


def test_words_keep_their_capitals_beside_a_lower_case_vocabulary() -> None:
    tokenizer = train_tokenizer("words", {"Awka": 1, "awka": 2}, segmenter=Segmenter(), vocab_size=9, lowercase=True)
    tokens = tokenizer.encode("AWKA")
    assert tokenizer.vocabulary == ["<unk>", "awka"]
    assert (tokens.words, tokens.ids, tokens.spans) == (["AWKA"], [1], [(0, 4)])


def test_characters_read_the_folded_word() -> None:
    tokenizer = train_tokenizer("characters", {"Awka": 1}, segmenter=Segmenter(), vocab_size=9, lowercase=True)
    tokens = tokenizer.encode("AWKA x")
    assert (tokens.words, tokens.ids, tokens.unknown) == (["awka", "x"], [3, 0], 1)
    assert tokenizer.vocabulary[:3] == ["<unk>", "<s>", "</s>"]
    assert (tokenizer.special.unk, tokenizer.special.begin, tokenizer.special.end) == (0, 1, 2)


def test_long_words_are_counted_as_truncated(tmp_path: Path) -> None:
    tokenizer = CharacterTokenizer(["a"], Segmenter(), slots=10)
    tokens = tokenizer.encode("aaaaaaaa aaaaaaaaa ọọọ")
    assert tokens.truncated == 2
    found = fit(tokenizer, ["aaaaaaaa aaaaaaaaa ọọọ"])
    assert (found.truncated_words, found.characters_lost) == (2, 2)
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = load_tokenizer(tmp_path / "tokenizer.json")
    assert isinstance(loaded, CharacterTokenizer)
    assert loaded.slots == 10


def test_text_that_spells_a_special_name_is_unknown() -> None:
    segmenter = Segmenter("whitespace")
    counts = count_words(["<unk> a </s>"], segmenter)
    tokenizer = train_tokenizer("characters", counts, segmenter=segmenter, vocab_size=9)
    assert tokenizer.vocabulary == ["<unk>", "<s>", "</s>", "a"]
    assert tokenizer.encode("<s> a").ids == [0, 3]


def test_words_without_anything_to_see_have_no_piece() -> None:
    tokens = WordTokenizer(["a", "b"], Segmenter()).encode(["a", "", "\u200b", "b"])
    assert (tokens.ids, tokens.word_of, len(tokens.words)) == ([1, 2], [0, 3], 4)


def test_decoding_leaves_sentence_marks_out_and_shows_the_unknown() -> None:
    tokenizer = CharacterTokenizer(["北", "京", "x"], Segmenter())
    assert tokenizer.decode([1, 3, 4, 5, 0, 2]) == "北京 x <unk>"


def test_fit_counts() -> None:
    tokenizer = WordTokenizer(["the", "cat"], Segmenter())
    found = fit(tokenizer, ["the cat\x00 sat", "the dog ran"])
    assert (found.words, found.pieces, found.unknown_pieces, found.unknown_words) == (6, 6, 3, 3)
    assert found.characters_lost == len("sat") + len("dog") + len("ran") + 1
    assert found.unknown_rate == pytest.approx(0.5)
    assert found.pieces_per_word == 1.0
    assert fit(tokenizer, []).unknown_rate == 0.0


@pytest.mark.parametrize(
    ("kind", "counts", "size", "message"),
    [
        ("word", {"a": 1}, 9, "Did you mean 'words'"),
        ("words", {}, 9, "no words"),
        ("words", {"a": 1}, 1, "fits a vocabulary of 1"),
        ("bpe", {"a": 1}, 100, "at least 261"),
        ("wordpiece", {"a": 1}, 5, "no room"),
        ("unigram", {"a": 1}, 5, "no room"),
    ],
)
def test_what_cannot_be_trained_is_said(kind: str, counts: dict[str, int], size: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        train_tokenizer(kind, counts, segmenter=Segmenter(), vocab_size=size)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "no such file"),
        (b"\xff\xfe", "not a tokenizer file"),
        (b"{", "not a tokenizer file"),
        (b'{"version": "1.0", "model": {}}', "of format 1"),
        (b'{"format": 1, "kind": "wordpieces"}', "Did you mean 'wordpiece'"),
    ],
)
def test_files_that_are_no_tokenizer(data: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(InputError, match=message):
        load_tokenizer(path)
