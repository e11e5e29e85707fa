"""What stands on top of a system: word states in, tag scores or class scores out.

b: sequences, L: layers, w: words of the longest, d: dim.  Masks are boolean, True = word.  Nothing that stands in
padding changes anything, and neither do the rows beside a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from polysemy.data.batch import Batch
from polysemy.nn.crf import CRF, Transitions
from polysemy.nn.dropout import Dropout
from polysemy.nn.pool import AttentivePooling, ScalarMix
from polysemy.text.characters import CHARACTERS

ATTENTION_DIM = 100  # of the scores that weigh the words of a text


@dataclass(frozen=True)
class HeadConfig:
    """``bilstm`` reads the words of a system that has not learned the task (tagging); ``attention`` weighs them (texts:
    an LSTM over hundreds of words costs much and brings little); ``linear`` stands on a system that is trained whole."""

    kind: Literal["bilstm", "attention", "linear"]
    characters: bool = False  # a character CNN beside the system's vectors
    crf: bool = False  # tagging: score neighbouring tags together
    dropout: float = 0.5
    hidden_size: int = 200  # of the LSTM, in each direction
    character_dim: int = 30
    character_filters: int = 30
    character_width: int = 3  # characters that a filter sees

    def __post_init__(self) -> None:
        if min(self.hidden_size, self.character_dim, self.character_filters, self.character_width) < 1:
            raise ValueError("sizes must be above zero")
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError("dropout must be at least 0 and below 1")


class TagScores(NamedTuple):
    """What a tagging head says of each word."""

    emissions: Tensor  # (b, w, tags)
    transitions: Transitions | None  # learned scores of neighbouring tags


class CharacterCNN(nn.Module):
    """A vector of a word from its spelling: convolution and max over positions (Ma and Hovy 2016, section 2.1)."""

    def __init__(self, dim: int, filters: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(CHARACTERS, dim, padding_idx=0)
        self.convolution = nn.Conv1d(dim, filters, width, padding=width // 2)
        bound = (3 / dim) ** 0.5
        nn.init.uniform_(self.embed.weight, -bound, bound)
        with torch.no_grad():
            self.embed.weight[0] = 0.0

    def forward(self, characters: Tensor) -> Tensor:
        """(t, c) character ids, 0 = padding -> (t, filters); zeros for a row of padding"""
        present = characters != 0
        longest = int(present.sum(1).max()) if characters.numel() else 0
        characters, present = characters[:, : max(longest, 1)], present[:, : max(longest, 1)]
        x = self.convolution(self.embed(characters).transpose(1, 2))[..., : characters.size(1)]  # (t, filters, c)
        vector: Tensor = x.masked_fill(~present[:, None], float("-inf")).amax(2)
        return vector.masked_fill(~present[:, :1], 0.0)


class BiLSTM(nn.Module):
    """One layer in both directions (Graves and Schmidhuber 2005); each row is reversed within its own length.

    Two plain LSTMs over padded rows: twice as fast on a CPU as torch's packed sequences.
    """

    def __init__(self, dim: int, hidden_size: int) -> None:
        super().__init__()
        self.ahead = nn.LSTM(dim, hidden_size, batch_first=True)
        self.back = nn.LSTM(dim, hidden_size, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(b, w, d), (b, w) with each row's words first -> (b, w, 2 hidden_size), zeros in padding"""
        if x.size(0) == 0 or x.size(1) == 0:
            return x.new_zeros(x.size(0), x.size(1), 2 * self.ahead.hidden_size)
        x = x.masked_fill(~mask[..., None], 0.0)
        position = torch.arange(x.size(1), device=x.device)[None]
        mirrored = torch.where(mask, mask.sum(1, keepdim=True) - 1 - position, position)[..., None]
        ahead, _ = self.ahead(x)
        back, _ = self.back(x.gather(1, mirrored.expand_as(x)))
        both = torch.cat([ahead, back.gather(1, mirrored.expand_as(back))], -1)
        return both.masked_fill(~mask[..., None], 0.0)


class WordReader(nn.Module):
    """Layers of a system (and the spelling of words) -> one vector a word, in the light of the sentence.

    Systems differ a hundredfold in the size of their numbers, and an LSTM learns slowly from small ones: ``scale`` brings
    each layer to a mean square of 1.  It is measured once, on training texts, so that no vector depends on its batch.
    """

    scale: Tensor  # (num_layers,)

    def __init__(self, dim: int, num_layers: int, config: HeadConfig) -> None:
        super().__init__()
        self.config = config
        self.dropout = Dropout(config.dropout)
        self.mix = ScalarMix(num_layers) if config.kind != "linear" else None
        self.register_buffer("scale", torch.ones(num_layers))
        self.characters = (
            CharacterCNN(config.character_dim, config.character_filters, config.character_width)
            if config.characters
            else None
        )
        width = dim + (config.character_filters if config.characters else 0)
        self.lstm = BiLSTM(width, config.hidden_size) if config.kind == "bilstm" else None
        self.out_dim = 2 * config.hidden_size if config.kind == "bilstm" else width

    def forward(self, layers: Tensor, batch: Batch) -> Tensor:
        """(b, L, w, d) -> (b, w, out_dim)"""
        assert batch.word_mask is not None
        if self.mix is None:
            x: Tensor = layers[:, -1]
        else:
            x = self.mix(list((layers * self.scale[:, None, None]).unbind(1)))
        if self.characters is not None:
            x = torch.cat([x, self.spelling(batch)], -1)
        x = self.dropout(x)
        if self.lstm is not None:
            x = self.dropout(self.lstm(x, batch.word_mask))
        return x

    def spelling(self, batch: Batch) -> Tensor:
        """(b, w, filters), zeros for a word without pieces"""
        assert self.characters is not None
        assert batch.types is not None
        assert batch.characters is not None
        assert batch.word_positions is not None
        rows = batch.types.gather(1, batch.word_positions.clamp(min=0)).masked_fill(batch.word_positions < 0, 0)
        spelled: Tensor = self.characters(batch.characters)[rows]
        return spelled


class TaggingHead(nn.Module):
    """A score for each tag of each word."""

    def __init__(self, dim: int, num_layers: int, num_tags: int, config: HeadConfig) -> None:
        super().__init__()
        self.reader = WordReader(dim, num_layers, config)
        self.output = nn.Linear(self.reader.out_dim, num_tags)
        self.crf = CRF(num_tags) if config.crf else None

    def forward(self, layers: Tensor, batch: Batch) -> TagScores:
        """(b, L, w, d) -> emissions (b, w, tags), in fp32 whatever the precision below"""
        emissions = self.output(self.reader(layers, batch)).float()
        return TagScores(emissions, None if self.crf is None else self.crf())


class ClassificationHead(nn.Module):
    """A score for each class of each text.

    ``linear`` takes the mean of the word states rather than the state of [CLS]: a small BERT that was pretrained
    without next-sentence prediction has never learned anything at [CLS].
    """

    def __init__(self, dim: int, num_layers: int, num_classes: int, config: HeadConfig) -> None:
        super().__init__()
        self.reader = WordReader(dim, num_layers, config)
        self.pool = AttentivePooling(self.reader.out_dim, ATTENTION_DIM) if config.kind != "linear" else None
        self.output = nn.Linear(self.reader.out_dim, num_classes)

    def forward(self, layers: Tensor, batch: Batch) -> Tensor:
        """(b, L, w, d) -> (texts, classes).  Sequences with the same number in ``batch.rows``, windows of one long text,
        are averaged: their words with ``linear``, their vectors otherwise."""
        x, here = self.reader(layers, batch), pooled_words(batch)
        if self.pool is not None:
            sums, counts = self.pool(x, here), here.new_ones(len(here), dtype=torch.long)
        else:
            sums, counts = x.masked_fill(~here[..., None], 0.0).sum(1), here.sum(1)
        if batch.rows is not None:
            size = int(batch.rows.max()) + 1 if batch.rows.numel() else 0
            sums = sums.new_zeros(size, sums.size(1)).index_add(0, batch.rows, sums)
            counts = counts.new_zeros(size).index_add(0, batch.rows, counts)
        logits: Tensor = self.output(sums / counts.clamp(min=1)[:, None]).float()
        return logits


def pooled_words(batch: Batch) -> Tensor:
    """(b, w) bool: the words that stand for the text, which are those with pieces."""
    assert batch.word_mask is not None
    return batch.word_mask if batch.word_positions is None else batch.word_mask & (batch.word_positions >= 0)
