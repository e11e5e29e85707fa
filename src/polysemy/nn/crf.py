"""Linear-chain conditional random field (Lafferty et al. 2001), over a whole batch at once.

b: sentences, w: words of the longest, k: tags.  Masks are boolean, True = word, and each row's words stand first.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

FORBIDDEN = -1e4  # finite, so that a best path exists even where every path breaks a rule


class Transitions(NamedTuple):
    """Scores of neighbouring tags."""

    between: Tensor  # (k, k), [i, j] of tag i before tag j
    start: Tensor  # (k,), of the first tag
    end: Tensor  # (k,), of the last tag


class CRF(nn.Module):
    """Learned transition scores, zero at first."""

    def __init__(self, num_tags: int) -> None:
        super().__init__()
        self.between = nn.Parameter(torch.zeros(num_tags, num_tags))
        self.start = nn.Parameter(torch.zeros(num_tags))
        self.end = nn.Parameter(torch.zeros(num_tags))

    def forward(self) -> Transitions:
        return Transitions(self.between, self.start, self.end)


def log_likelihood(emissions: Tensor, tags: Tensor, mask: Tensor, transitions: Transitions) -> Tensor:
    """(b,) log p(tags | emissions); 0 for a row without words.

    ``emissions`` (b, w, k), ``tags`` (b, w) long, ``mask`` (b, w).  A tag below 0 on a word is unobserved: the
    probability is then that of all sequences that agree with the tags that are observed.
    """
    emissions = emissions.masked_fill(~mask[..., None], 0.0)  # nothing that stands in padding gets further
    if bool(((tags < 0) & mask).any()):
        other = torch.arange(emissions.size(-1), device=tags.device) != tags[..., None]
        observed = emissions.masked_fill(other & (tags >= 0)[..., None], FORBIDDEN)
        score = log_partition(observed, mask, transitions)
    else:
        score = path_score(emissions, tags, mask, transitions)
    return score - log_partition(emissions, mask, transitions)


def path_score(emissions: Tensor, tags: Tensor, mask: Tensor, transitions: Transitions) -> Tensor:
    """(b,) sum of the scores along ``tags``."""
    if emissions.size(1) == 0:
        return emissions.sum((1, 2))
    tags = tags.clamp(min=0)
    local = emissions.gather(2, tags[..., None])[..., 0].masked_fill(~mask, 0.0).sum(1)
    steps = transitions.between[tags[:, :-1], tags[:, 1:]].masked_fill(~mask[:, 1:], 0.0).sum(1)
    last = tags.gather(1, (mask.sum(1, keepdim=True) - 1).clamp(min=0))[:, 0]
    ends = (transitions.start[tags[:, 0]] + transitions.end[last]).masked_fill(~mask[:, 0], 0.0)
    return local + steps + ends


def log_partition(emissions: Tensor, mask: Tensor, transitions: Transitions) -> Tensor:
    """(b,) log of the summed exponentials of all paths' scores (the forward algorithm); 0 for a row without words."""
    if emissions.size(1) == 0:
        return emissions.sum((1, 2))
    between = transitions.between[None]
    steps = emissions.unbind(1)  # views: one backward for all of them
    alpha = transitions.start + steps[0]  # (b, k)
    for t in range(1, len(steps)):
        nxt = torch.logsumexp(alpha[:, :, None] + between, 1) + steps[t]
        alpha = torch.where(mask[:, t, None], nxt, alpha)
    return torch.logsumexp(alpha + transitions.end, 1).masked_fill(~mask[:, 0], 0.0)


@torch.no_grad()
def viterbi(emissions: Tensor, mask: Tensor, transitions: Transitions) -> Tensor:
    """(b, w) long: the best path of each row, -1 in padding; the lowest tag wins a tie."""
    b, w, k = emissions.shape
    if w == 0:
        return emissions.new_empty(b, 0, dtype=torch.long)
    emissions = emissions.masked_fill(~mask[..., None], 0.0)
    score = transitions.start + emissions[:, 0]
    back = []
    stay = torch.arange(k, device=emissions.device).expand(b, k)
    for t in range(1, w):
        best, came = (score[:, :, None] + transitions.between).max(1)  # (b, k)
        here = mask[:, t, None]
        score = torch.where(here, best + emissions[:, t], score)
        back.append(torch.where(here, came, stay))  # beyond its end a row stays on its last tag
    tag = (score + transitions.end).argmax(1)
    path = [tag]
    for came in reversed(back):
        tag = came.gather(1, tag[:, None])[:, 0]
        path.append(tag)
    return torch.stack(path[::-1], 1).masked_fill(~mask, -1)


def constrained(transitions: Transitions, allowed: Transitions) -> Transitions:
    """The scores, with what ``allowed`` (boolean, True = legal) forbids made all but impossible."""
    return Transitions(*(t.masked_fill(~a, FORBIDDEN) for t, a in zip(transitions, allowed, strict=True)))
