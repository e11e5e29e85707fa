"""BERT: size and cost from the configuration, and how it begins."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from polysemy.nn.attend import record_attention
from polysemy.systems.bert import BERT, SIZES, BERTConfig, flops_per_token, parameters


@pytest.mark.parametrize("size", SIZES)
def test_parameters_of_every_size(size: str) -> None:
    config = BERTConfig(**SIZES[size])
    with torch.device("meta"):
        assert sum(p.numel() for p in BERT(config).parameters()) == parameters(config)


def test_parameters_of_the_paper() -> None:
    """110M and 340M (section 3); without the heads of pretraining 109.5M and 335.1M are known of the released files."""
    encoder = 109_482_240, 335_141_888
    for size, expected in zip(("base", "large"), encoder, strict=True):
        config = BERTConfig(**SIZES[size])
        square = config.dim**2 + config.dim
        heads = square + 2 * config.dim + config.vocab_size + 2 * config.dim + 2  # the pooler counts as the encoder's
        assert parameters(config) - heads == expected


@pytest.mark.parametrize("size", ["tiny", "mini"])
def test_flops_are_those_that_are_counted(size: str) -> None:
    config = BERTConfig(**SIZES[size], vocab_size=100)
    model, counter = BERT(config).eval(), FlopCounterMode(display=False)
    with counter, record_attention(), torch.no_grad():  # recorded attention is made of products that are counted
        model(torch.zeros(2, config.max_length, dtype=torch.long))
    assert counter.get_total_flops() == pytest.approx(2 * config.max_length * flops_per_token(config), rel=0.01)


def test_it_begins_as_the_paper_does() -> None:
    torch.manual_seed(0)
    model = BERT(BERTConfig(**SIZES["tiny"], vocab_size=2000))
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2:
            assert float(parameter.detach().abs().max()) <= 0.04 + 1e-6
            assert 0.015 < float(parameter.detach().std()) < 0.02, name
        else:
            assert bool((parameter == (1.0 if name.endswith("norm.weight") else 0.0)).all()), name
    torch.manual_seed(0)
    again = BERT(BERTConfig(**SIZES["tiny"], vocab_size=2000))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


def test_a_padding_symbol_has_no_part_in_anything() -> None:
    model = BERT(BERTConfig(**SIZES["tiny"], vocab_size=50)).eval()
    mask = torch.tensor([[True, True, True, False]])
    one, other = (model(torch.tensor([[7, 8, 9, pad]]), mask=mask).layers for pad in (0, 33))
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(ValueError, match="dim 10 is not a multiple of num_heads 4"):
        BERT(BERTConfig(dim=10, num_heads=4))
