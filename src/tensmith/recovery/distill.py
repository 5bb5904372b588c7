"""How far a network's answers are from those of the original (Hinton et al. 2015; Kim et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch.nn import functional

from tensmith.recovery.meanings import Tensor

# What the first output tells apart: classes of a sample, tokens at each of its places [n, length, tokens],
# or nothing, as numbers.
Tells = Literal["classes", "tokens", "nothing"]

_TINY = 1e-9


def spreads(wanted: Sequence[Sequence[Tensor]], tells: Tells) -> list[float]:
    """The variance of each output over a batch whose answers came in parts; 1 of what does not vary, and of a
    first one that tells something apart, which needs none."""
    found = []
    for place, parts in enumerate(zip(*wanted)):
        floats = isinstance(parts[0], torch.Tensor) and (place or tells == "nothing")
        variance = float(torch.cat([part.reshape(-1) for part in parts]).var(correction=0)) if floats else 0.0
        found.append(variance if variance > _TINY else 1.0)
    return found


def distillation(
    answers: Sequence[Tensor], wanted: Sequence[Tensor], spread: Sequence[float], tells: Tells, samples: int
) -> Tensor:
    """The loss of answers to so many samples, where the original gave the `wanted` ones.

    spread: see `spreads`. Where the first output tells something apart it is the divergence of that, which is
    what flips answers: to soften them, or to ask for the very logits, spends what few bits can say on classes
    that nobody would have chosen.
    """
    first = int(tells != "nothing")
    squares = [_squares(*each) for each in zip(answers[first:], wanted[first:], spread[first:])]
    loss = sum(squares, start=0.0)
    if not first:
        return loss
    return loss + _divergence(*_logits(answers[0], wanted[0], tells, samples))


def _logits(ours: Tensor, theirs: Tensor, tells: Tells, samples: int) -> tuple[Tensor, Tensor]:
    """Answers as rows of logits [n, classes]; of probabilities their logarithms."""
    both = [
        answer.reshape((-1, answer.shape[-1]) if tells == "tokens" else (samples, -1))
        for answer in (ours, theirs)
    ]
    sums = both[1].sum(-1)
    if bool((both[1] >= 0).all()) and torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
        both = [torch.log(answer.clamp(min=_TINY)) for answer in both]
    return both[0], both[1]


def _divergence(ours: Tensor, theirs: Tensor) -> Tensor:
    """The mean Kullback-Leibler divergence of rows."""
    logs = [functional.log_softmax(answer, -1) for answer in (ours, theirs)]
    return functional.kl_div(logs[0], logs[1], reduction="batchmean", log_target=True)


def _squares(ours: Tensor, theirs: Tensor, spread: float) -> Tensor:
    """The mean squared difference, in shares of the variance of what is wanted; 0 of what is no float."""
    if not isinstance(theirs, torch.Tensor):
        return 0.0
    return functional.mse_loss(ours, theirs) / spread
