"""Tables of names lead there and back."""

from __future__ import annotations

from polysemy.interop.table import inverse, rename

ROWS = [("h.{i}.attn.weight", "layers.{i}.attention.weight"), ("wte.weight", "embed.weight")]


def test_there_and_back() -> None:
    theirs = ["h.0.attn.weight", "h.11.attn.weight", "wte.weight"]
    ours = rename(theirs, ROWS)
    assert ours == {
        "h.0.attn.weight": "layers.0.attention.weight",
        "h.11.attn.weight": "layers.11.attention.weight",
        "wte.weight": "embed.weight",
    }
    assert list(rename([name for name in ours.values() if name], inverse(ROWS)).values()) == theirs


def test_only_whole_names_are_covered() -> None:
    names = ["h.x.attn.weight", "h.0.attn.weight.more", "a.wte.weight", "wteXweight"]
    assert rename(names, ROWS) == dict.fromkeys(names)
