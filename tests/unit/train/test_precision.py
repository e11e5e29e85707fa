"""Which numbers, on which machine."""

from __future__ import annotations

import pytest
import torch

from polysemy.core.errors import InputError
from polysemy.train import precision
from polysemy.train.precision import GROW_AFTER, LossScale, choose_device, choose_precision


@pytest.mark.parametrize(
    ("flags", "dtype"),
    [
        ({"avx2", "avx512f"}, torch.float32),
        ({"amx_bf16"}, torch.bfloat16),
        ({"avx512_bf16"}, torch.bfloat16),
        (set(), torch.float32),
    ],
)
def test_auto_is_bf16_where_the_processor_multiplies_it(monkeypatch, flags, dtype):
    monkeypatch.setattr(precision, "cpu_flags", lambda: flags)
    assert choose_precision("auto", torch.device("cpu")) == dtype
    assert choose_precision("fp32", torch.device("cpu")) == torch.float32


@pytest.mark.parametrize(("capability", "dtype"), [((8, 0), torch.bfloat16), ((7, 5), torch.float16)])
def test_auto_is_fp16_on_older_gpus(monkeypatch, capability, dtype):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert choose_precision("auto", torch.device("cuda")) == dtype


def test_an_unknown_or_absent_device_is_an_input_error(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto").type == "cpu"
    for name in ("gpu", "cuda"):
        with pytest.raises(InputError, match=name):
            choose_device(name)


def test_the_loss_scale_grows_slowly_and_gives_up_when_it_cannot_be_the_reason():
    scale = LossScale(8.0)
    for _ in range(GROW_AFTER):
        scale.up()
    assert scale == LossScale(16.0, 0)
    halvings = 0
    while scale.down():
        halvings += 1
    assert halvings == 18  # from 2^4 to 2^-14
