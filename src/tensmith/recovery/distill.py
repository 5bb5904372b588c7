"""How far a network's answers are from those of the original (Hinton et al. 2015; Kim et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch.nn import functional

Tensor: TypeAlias = Any

_TINY = 1e-9


def distillation(answers: Sequence[Tensor], wanted: Sequence[Tensor], classes: bool) -> Tensor:
    """The loss of answers, where the original gave the `wanted` ones.

    classes: whether the first output tells classes (or tokens) apart. Then it is their divergence, which is
    what flips answers: to soften them, or to ask for the very logits, spends what few bits can say on classes
    that nobody would have chosen.
    """
    loss = sum((_squares(ours, theirs) for ours, theirs in zip(answers[1:], wanted[1:])), start=0.0)
    if not classes:
        return loss + _squares(answers[0], wanted[0])
    return loss + _divergence(*_logits(answers[0], wanted[0]))


def _logits(ours: Tensor, theirs: Tensor) -> tuple[Tensor, Tensor]:
    """Answers as rows of logits [n, classes]; of probabilities their logarithms."""
    both = [
        answer.reshape(-1, answer.shape[-1]) if answer.ndim == 3 else answer.flatten(1)
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


def _squares(ours: Tensor, theirs: Tensor) -> Tensor:
    """The mean squared difference, in shares of the variance of what is wanted; 0 of what is no float."""
    if not isinstance(theirs, torch.Tensor):
        return 0.0
    return functional.mse_loss(ours, theirs) / (theirs.var() + _TINY)
