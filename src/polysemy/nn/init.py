"""How weights begin: one function a convention, named after the paper it comes from.

All draw from torch's global generator, which the recipe seeds.
"""

from __future__ import annotations

from torch import nn


def init_bert(module: nn.Module, std: float = 0.02) -> None:
    """Truncated normal of two deviations for every matrix, zeros for biases, ones for norms (Devlin et al. 2019, code).

    In place.  ``std`` is the deviation before the cut; after it, it is 0.88 of that.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.trunc_normal_(part.weight, std=std, a=-2 * std, b=2 * std)
        elif isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
        bias = getattr(part, "bias", None)
        if isinstance(bias, nn.Parameter):
            nn.init.zeros_(bias)
