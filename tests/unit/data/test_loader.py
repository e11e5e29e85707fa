"""Loaders: every piece once an epoch, pure functions of (seed, step), and honest labels of next sentences."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from polysemy.core.errors import InputError
from polysemy.data.loader import (
    BlockLoader,
    LengthLoader,
    PackedLoader,
    PairLoader,
    Prefetch,
    SentenceLoader,
    batches_by_length,
)
from polysemy.data.order import shuffled
from polysemy.data.shards import build_shards
from polysemy.text.characters import SENTENCE_BEGIN, SENTENCE_END, character_ids
from polysemy.text.tokens import Special, Tokens

SPECIAL = Special(pad=0, unk=1, begin=2, end=3, mask=4)


def shards(documents, *, starts=None, lexicon=None, folder=None):
    """Shards of documents given as lists of sentences of ids; each piece is a word unless ``starts`` says else."""
    sentences = [s for d in documents for s in d]
    ids = np.asarray([i for s in sentences for i in s], dtype=np.int32)
    begins = np.ones(len(ids), np.uint8) if starts is None else np.asarray(starts, np.uint8)
    return SimpleNamespace(
        ids=ids,
        starts=begins,
        sentences=np.cumsum([0, *map(len, sentences)], dtype=np.int64),
        documents=np.cumsum([0, *map(len, documents)], dtype=np.int64),
        words=int(begins.sum()),
        lexicon=lexicon,
        folder=folder,
    )


def random_documents(count=20, seed=0, longest=30, first_id=5):
    """Documents of sentences whose pieces are all distinct ids, so that each can be traced."""
    draw, at, documents = np.random.default_rng(seed), first_id, []
    for _ in range(count):
        sentences = []
        for _ in range(draw.integers(1, 8)):
            length = int(draw.integers(1, longest))
            sentences.append(list(range(at, at + length)))
            at += length
        documents.append(sentences)
    return documents


def epoch(loader, number=0):
    return [loader.batch(number * loader.steps_per_epoch + i) for i in range(loader.steps_per_epoch)]


@pytest.mark.parametrize("size", [1, 2, 3, 10, 64, 65, 1000])
def test_shuffled_is_a_permutation_and_depends_on_its_seed(size):
    orders = [shuffled(np.arange(size), size, seed) for seed in range(20)]
    assert all(sorted(order.tolist()) == list(range(size)) for order in orders)
    if size >= 10:
        assert len({tuple(order.tolist()) for order in orders}) == 20
        assert not any((order == np.arange(size)).mean() > 0.6 for order in orders)


def test_shuffled_sends_every_index_everywhere():
    places = Counter(int(shuffled(np.asarray([3]), 10, seed)[0]) for seed in range(2000))
    assert set(places) == set(range(10))
    assert min(places.values()) > 120


@pytest.mark.parametrize(
    "special", [SPECIAL, Special(unk=0), Special(unk=0, end=3)], ids=["begin and end", "neither", "end"]
)
def test_packed_uses_every_piece_once_an_epoch_in_a_new_order(special):
    documents = random_documents()
    loader = PackedLoader(shards(documents), special, length=16, batch_size=4, seed=1)
    expected = [i for d in documents for s in d for i in s]
    seen = []
    for number in (0, 1):
        batches = epoch(loader, number)
        pieces = [i for b in batches for i in b.ids[b.words >= 0].tolist()]
        assert sorted(pieces) == expected
        assert sum(loader.words(number * loader.steps_per_epoch + i) for i in range(len(batches))) == len(expected)
        padded = [row for b in batches for row in (~b.mask).sum(1).tolist() if row]
        assert len(padded) <= 1  # the ring leaves one short sequence at most
        seen.append(pieces)
    assert seen[0] != seen[1]


def test_packed_sequence_is_begin_consecutive_pieces_with_ends_between_end():
    loader = PackedLoader(shards([[[10, 11, 12], [13, 14]], [[15, 16, 17, 18]]]), SPECIAL, length=8, batch_size=9)
    stream = [10, 11, 12, 3, 13, 14, 3, 15, 16, 17, 18, 3] * 2
    for batch in epoch(loader) + epoch(loader, 1):
        for ids, mask, words in zip(batch.ids.tolist(), batch.mask.tolist(), batch.words.tolist(), strict=True):
            kept = [i for i, m in zip(ids, mask, strict=True) if m]
            assert kept[0] == 2
            assert kept[-1] == 3
            inner = kept[1:-1]
            assert any(stream[i : i + len(inner)] == inner for i in range(12))
            assert [w for w in words if w >= 0] == list(range(len([i for i in inner if i != 3])))
            assert all((w == -1) == (i in (0, 2, 3)) for i, w in zip(ids, words, strict=True))


def test_packed_words_group_the_pieces_of_a_word_also_where_it_was_cut():
    pieces = shards([[[10, 11, 12, 13, 14, 15]]], starts=[1, 0, 0, 1, 0, 1])
    loader = PackedLoader(pieces, Special(unk=0), length=4, batch_size=1)
    word_of = {10: "a", 11: "a", 12: "a", 13: "b", 14: "b", 15: "c"}
    for step in range(20):
        batch = loader.batch(step)
        ids, words = batch.ids[batch.mask].tolist(), batch.words[batch.mask].tolist()
        assert words[0] == 0
        for (i, w), (j, v) in zip(zip(ids, words, strict=True), list(zip(ids, words, strict=True))[1:], strict=False):
            assert v - w == (word_of[i] != word_of[j] or j == 10)


def test_loaders_are_functions_of_seed_and_step_alone():
    pieces = shards(random_documents())
    for make in (
        lambda seed: PackedLoader(pieces, SPECIAL, length=16, batch_size=4, seed=seed),
        lambda seed: PairLoader(pieces, SPECIAL, length=32, batch_size=4, seed=seed),
    ):
        one, other, third = make(0), make(0), make(1)
        last = one.batch(7)
        for step in (3, 12, 7):
            again = other.batch(step)
        assert (last.ids == again.ids).all()
        assert (last.words == again.words).all()
        assert last.ids.shape != third.batch(7).ids.shape or (last.ids != third.batch(7).ids).any()


def test_loaders_refuse_a_text_without_pieces_and_say_when_it_fills_no_batch():
    with pytest.raises(InputError, match="no pieces"):
        PackedLoader(shards([]), SPECIAL)
    assert not PackedLoader(shards([[[5, 6]]]), SPECIAL, batch_size=32).fills_batch
    assert PackedLoader(shards([[[5, 6]]]), SPECIAL, length=3, batch_size=2).fills_batch


def test_pairs_are_truly_next_or_truly_from_another_document():
    documents = random_documents(30, seed=3)
    place = {i: (d, s) for d, doc in enumerate(documents) for s, sentence in enumerate(doc) for i in sentence}
    loader = PairLoader(shards(documents), SPECIAL, length=48, batch_size=8, seed=2)
    labels, seen = Counter(), Counter()
    for number in range(6):
        for batch in epoch(loader, number):
            assert batch.ids.shape[1] <= 48
            for row in range(batch.size):
                kept = batch.ids[row][batch.mask[row]].tolist()
                middle = kept.index(3)
                first, second = kept[1:middle], kept[middle + 1 : -1]
                assert kept[0] == 2
                assert kept[-1] == 3
                assert kept.count(3) == 2
                assert batch.segments[row].tolist()[: len(kept)] == [0] * (middle + 1) + [1] * (len(second) + 1)
                label = int(batch.labels[row])
                if label == 0:
                    assert second[0] == first[-1] + 1
                    assert place[first[-1]][0] == place[second[0]][0]
                else:
                    assert place[first[0]][0] != place[second[0]][0]
                labels[label] += 1
                seen.update(first + second)
    assert abs(labels[0] - labels[1]) < 0.2 * sum(labels.values())
    pieces = [i for doc in documents for s in doc for i in s]
    assert set(seen) == set(pieces)
    assert 5.5 < np.mean([seen[i] for i in pieces]) < 9  # once an epoch, and again beside single sentences


def test_pairs_that_another_document_repeats_are_not_called_random():
    twin = [[10, 11], [12, 13]]
    loader = PairLoader(shards([twin] * 8), SPECIAL, length=16, batch_size=8, seed=0)
    found = Counter()
    for batch in (b for number in range(10) for b in epoch(loader, number)):
        for row in range(batch.size):
            found[tuple(batch.ids[row][batch.mask[row]].tolist()), int(batch.labels[row])] += 1
    neighbours = (2, 10, 11, 3, 12, 13, 3)
    assert found[neighbours, 0] == 80
    assert not found[neighbours, 1]


def test_pairs_split_a_sentence_that_fills_the_sequence_between_words():
    long = shards([[list(range(10, 40)), list(range(40, 44))], [[50], [51]]], starts=[1, 0] * 15 + [1] * 6)
    loader = PairLoader(long, SPECIAL, length=13, batch_size=8)
    seen = [
        batch.ids[row][batch.mask[row]].tolist()
        for number in range(6)
        for batch in epoch(loader, number)
        for row in range(batch.size)
        if batch.labels[row] == 0
    ]
    inside = [kept[kept.index(3) + 1] for kept in seen if kept[1] < 40 and kept[-2] < 40]
    assert inside
    assert all((i - 10) % 2 == 0 for i in inside)


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([[[5], [6], [7]]], "1 documents"),
        ([[[5]], [[6]], [[7]]], "3 documents, longest has 1 sentence"),
    ],
)
def test_pairs_refuse_text_that_gives_a_single_class(documents, message):
    with pytest.raises(InputError, match=message):
        PairLoader(shards(documents), SPECIAL)


def characters_loader(tmp_path, sentences, lexicon, **settings):
    known = {word: i + 3 for i, word in enumerate(lexicon[: len(lexicon) // 2])}
    tokenizer = SimpleNamespace(special=Special(unk=0, begin=1, end=2), slots=50, words_index=known)
    return SentenceLoader(shards([sentences], lexicon=lexicon, folder=tmp_path), tokenizer, **settings), known


def test_sentences_are_all_read_once_by_characters_and_predicted_by_number(tmp_path):
    draw = np.random.default_rng(0)
    lexicon = [f"ụm{i}" for i in range(40)]
    sentences = [draw.integers(0, 40, draw.integers(1, 25)).tolist() for _ in range(700)]
    loader, known = characters_loader(tmp_path, sentences, lexicon, batch_words=60, max_words=10, seed=4)
    rows = {tuple(character_ids(word)): i for i, word in enumerate(lexicon)}
    expected = []
    for sentence in sentences:
        parts = -(-len(sentence) // 10)
        expected += [
            tuple(sentence[len(sentence) * p // parts : len(sentence) * (p + 1) // parts]) for p in range(parts)
        ]
    assert loader.steps_per_epoch > 100  # several pools
    orders = []
    for number in (0, 1):
        read = []
        for batch in epoch(loader, number):
            table = batch.characters.tolist()
            assert not any(table[0])
            assert table[1] == SENTENCE_BEGIN
            assert table[2] == SENTENCE_END
            for types, target, mask in zip(batch.types.tolist(), batch.target_ids.tolist(), batch.mask, strict=True):
                n = int(mask.sum())
                assert mask.tolist() == [True] * n + [False] * (len(types) - n)
                assert types[0] == 1
                assert types[n - 1] == 2
                assert not any(types[n:])
                assert set(target[n:]) <= {-1}
                words = [rows[tuple(table[t])] for t in types[1 : n - 1]]
                assert target[:n] == [1, *(known.get(lexicon[w], 0) for w in words), 2]
                read.append(tuple(words))
        assert Counter(read) == Counter(expected)
        orders.append(read)
    assert orders[0] != orders[1]
    steps = range(loader.steps_per_epoch)
    words = [loader.words(step) for step in steps]
    assert sum(words) == sum(map(len, sentences))
    assert 25 < np.mean(words[:64]) < 75
    assert max(words) < 130


def test_sentences_of_any_number_fill_every_batch(tmp_path):
    for count in range(1, 40):
        loader, _ = characters_loader(tmp_path, [[0, 1] * (1 + i % 3) for i in range(count)], ["a", "b"], batch_words=1)
        assert sum(b.size for b in epoch(loader)) == count
        assert all(b.size for b in epoch(loader))


def test_blocks_hold_the_whole_corpus_and_cut_no_sentence():
    documents = random_documents(50)
    loader = BlockLoader(shards(documents), block_words=100, seed=1)
    expected = sorted(tuple(s) for d in documents for s in d)
    assert loader.steps_per_epoch > 5
    orders = []
    for number in (0, 1):
        read = []
        for i, block in enumerate(epoch(loader, number)):
            assert block.offsets[0] == 0
            assert block.offsets[-1] == len(block.ids) == loader.words(number * loader.steps_per_epoch + i)
            read += [tuple(block.ids[a:b].tolist()) for a, b in zip(block.offsets, block.offsets[1:], strict=False)]
        assert sorted(read) == expected
        orders.append(read)
    assert orders[0] != orders[1]


def test_block_of_one_line_of_ten_thousand_words_is_whole():
    block = BlockLoader(shards([[[5] * 10_000 + [6]]]), block_words=1000).batch(0)
    assert len(block.ids) == 10_001
    assert block.ids[-1] == 6


def test_batches_by_length_hold_every_example_once_within_the_cap_in_a_fixed_number_of_batches():
    lengths = np.random.default_rng(0).integers(1, 80, 500)
    lengths[17] = 5000
    sizes = set()
    for number in range(5):
        batches = batches_by_length(lengths, 512, seed=1, epoch=number, max_rows=20)
        assert sorted(np.concatenate(batches).tolist()) == list(range(500))
        assert all(len(b) <= 20 for b in batches)
        assert all(len(b) * lengths[b].max() <= 512 * 1.15 for b in batches if 17 not in b)
        sizes.add(tuple(sorted(map(len, batches))))
    assert len(sizes) == 1
    assert batches_by_length([], 10, 0, 0) == []


def test_length_loader_changes_its_batches_each_epoch():
    loader = LengthLoader([3, 4, 5, 6] * 25, lambda rows: rows, batch_tokens=30, seed=0)
    assert sorted(np.concatenate(epoch(loader)).tolist()) == list(range(100))
    assert [b.tolist() for b in epoch(loader)] != [b.tolist() for b in epoch(loader, 1)]
    assert loader.words(0) == sum([3, 4, 5, 6][i % 4] for i in loader.batch(0))


def test_prefetch_gives_the_same_batches_and_passes_errors_on():
    loader = PackedLoader(shards(random_documents()), SPECIAL, length=16, batch_size=4)
    on, off = Prefetch(loader, last=30), Prefetch(loader, last=30, enabled=False)
    for step in (0, 1, 2, 9, 10, 4, 29):
        (one, words), (other, same) = on.get(step), off.get(step)
        assert (one.ids == other.ids).all()
        assert words == same
    on.close()

    def fail(rows):
        raise InputError("bad row")

    broken = Prefetch(LengthLoader([1, 2], fail), last=2)
    with pytest.raises(InputError, match="bad row"):
        broken.get(0)
    broken.close()


def test_loaders_read_shards_that_were_built_on_disk(tmp_path):
    def tokens(text):
        words = text.split()
        ids = [5 + "abcdef".index(word) for word in words]
        return Tokens(text, words, [(0, 0)] * len(words), ids, list(range(len(words))), [(0, 0)] * len(words))

    lines = [(0, "a b c"), (0, "d a"), (1, "f"), (1, "e e b")]
    items = [(document, tokens(line)) for document, line in lines]
    pieces = build_shards(tmp_path / "pieces", items, lexicon=False)
    words = build_shards(tmp_path / "words", items, lexicon=True)
    expected = sorted("abcdafeeb")
    packed = [b.ids[b.words >= 0].tolist() for b in epoch(PackedLoader(pieces, SPECIAL, length=6, batch_size=2))]
    assert sorted("abcdef"[i - 5] for ids in packed for i in ids) == expected
    assert sum(b.size for b in epoch(PairLoader(pieces, SPECIAL, length=16, batch_size=2))) == 2
    blocks = epoch(BlockLoader(pieces, block_words=4))
    assert sorted("abcdef"[i - 5] for block in blocks for i in block.ids.tolist()) == expected
    tokenizer = SimpleNamespace(special=Special(unk=0, begin=1, end=2), slots=50, words_index={"a": 3, "e": 4})
    read = epoch(SentenceLoader(words, tokenizer, batch_words=4))
    assert sorted(t for b in read for t in b.target_ids[b.mask].tolist()) == sorted([1, 2] * 4 + [3, 3, 4, 4] + [0] * 5)


def test_lexicon_characters_stay_on_disk(tmp_path):
    loader, _ = characters_loader(tmp_path, [[0, 1]], ["ọma", "z" * 80])
    assert [p.name for p in Path(tmp_path).iterdir()] == ["characters-50.npy"]
    assert loader.characters.base is not None  # a view of the file
    assert loader.characters.tolist() == [character_ids("ọma"), character_ids("z" * 80)]
