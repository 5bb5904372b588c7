"""How far a network's answers are from those of the original (Hinton et al. 2015; Kim et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch.nn import functional

from tensmith.formula.arith import Array

Tensor: TypeAlias = Any

_TEMPERATURE = 2.0
# What squared differences of the answers, and the labels, weigh beside the divergence.
_SQUARES, _LABELS = 0.5, 0.2
_TINY = 1e-9


def distillation(
    answers: Sequence[Tensor], wanted: Sequence[Tensor], labels: Array | None, classes: bool
) -> Tensor:
    """The loss of answers, where the original gave the `wanted` ones.

    classes: whether the first output tells classes (or tokens) apart; labels below 0 do not count.
    """
    loss = sum((_squares(ours, theirs) for ours, theirs in zip(answers[1:], wanted[1:])), start=0.0)
    if not classes:
        return loss + _squares(answers[0], wanted[0])
    ours, theirs = _logits(answers[0], wanted[0])
    loss = loss + _divergence(ours, theirs) + _SQUARES * _squares(ours, theirs)
    if labels is None:
        return loss
    truth = torch.as_tensor(labels.reshape(-1), device=ours.device).long()
    return loss + _LABELS * functional.cross_entropy(ours, truth.clamp(min=-1), ignore_index=-1)


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
    """Kullback-Leibler divergence of softened answers, scaled so that gradients keep their size."""
    soft = [functional.log_softmax(answer / _TEMPERATURE, -1) for answer in (ours, theirs)]
    return _TEMPERATURE**2 * functional.kl_div(soft[0], soft[1], reduction="batchmean", log_target=True)


def _squares(ours: Tensor, theirs: Tensor) -> Tensor:
    """The mean squared difference, in shares of the variance of what is wanted; 0 of what is no float."""
    if not isinstance(theirs, torch.Tensor):
        return 0.0
    return functional.mse_loss(ours, theirs) / (theirs.var() + _TINY)
