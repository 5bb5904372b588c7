"""Weights changed a column at a time, the columns not yet treated making up for the error.

For a layer y = w x with calibration moment H = E[x x^T], changing column j of w by -e costs least when the
later columns move by -e / U[j,j] * U[j, j+1:], with U upper triangular and U^T U = H^-1: optimal brain
surgeon (Hassibi & Stork 1993) in the order and form of GPTQ (Frantar et al. 2023) and SparseGPT (Frantar &
Alistarh 2023). Rows are independent and treated together; columns go in blocks, so that most of the work is
matrix products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array

# (column [rows], its index in the weights) -> what the column becomes.
TreatColumn: TypeAlias = Callable[[Array, int], Array]
# (columns of the block [rows, b], their indices [b], diagonal of U [b]) -> how to treat each column.
BeginBlock: TypeAlias = Callable[[Array, Array, Array], TreatColumn]

_BLOCK = 128
# Added to the diagonal of moments, as a share of its mean.
_DAMPING = 0.01


def damped(second: Array, damping: float = _DAMPING) -> Array:
    """second [d, d] with `damping` times its mean diagonal added to the diagonal: positive definite.

    An all-zero matrix (inputs never active) becomes the identity.
    """
    if not np.isfinite(second).all():
        raise ProgramError("calibration gave values that are not finite; check the data and the model")
    mean = float(np.trace(second)) / max(1, len(second))
    symmetric = (second + second.T) / 2
    return np.asarray(symmetric + (damping * mean if mean > 0 else 1.0) * np.eye(len(second)))


def damped_cholesky(second: Array) -> Array:
    """U [d, d], upper triangular, with U^T U = damped(second)^-1."""
    # The Cholesky factor of the reversed matrix is, reversed back, an upper factor V with V V^T = H.
    return _upper_inverse(cholesky(damped(second)[::-1, ::-1])[::-1, ::-1])


def cholesky(moments: Array) -> Array:
    """The lower factor of finite moments [d, d], not all zero; damped more where little but rounding is left
    of them: those of inputs that hardly vary, about their means."""
    more = _DAMPING * float(np.abs(moments).max(initial=0.0))
    while True:
        try:
            return np.linalg.cholesky(moments)
        except np.linalg.LinAlgError:
            moments = moments + more * np.eye(len(moments))
            more *= 10


def _upper_inverse(upper: Array) -> Array:
    """The inverse of an upper triangular matrix, by halves."""
    d = len(upper)
    if d <= _BLOCK:
        return np.triu(np.linalg.inv(upper))
    half = d // 2
    first, last = _upper_inverse(upper[:half, :half]), _upper_inverse(upper[half:, half:])
    corner = -first @ (upper[:half, half:] @ last)
    return np.block([[first, corner], [np.zeros((d - half, half)), last]])


@dataclass(frozen=True)
class Compensation:
    """What inputs of moment H say about the columns of weights: their order, and U of them in that order."""

    order: Array
    factor: Array

    @staticmethod
    def of(second: Array) -> Compensation:
        """For the moment [d, d] of the inputs.

        Columns go in falling order of their input's energy, so that the ones that matter most have the most
        columns left to make up for them.
        """
        order = np.argsort(-np.diag(second), kind="stable")
        return Compensation(order, damped_cholesky(second[np.ix_(order, order)]))

    @property
    def costs(self) -> Array:
        """What a squared error in each column [d] costs when the later ones make up for it."""
        costs = np.empty(len(self.order))
        costs[self.order] = np.diag(self.factor) ** -2.0
        return costs

    def applied(self, weights: Array, begin_block: BeginBlock, block: int = _BLOCK) -> Array:
        """weights [rows, d] with every column treated, a block at a time, and the error fed forward."""
        order, factor = self.order, self.factor
        result = weights[:, order].astype(np.float64)
        for start in range(0, len(order), block):
            stop = min(start + block, len(order))
            columns, local = result[:, start:stop], factor[start:stop, start:stop]  # a view: changed in place
            treat = begin_block(columns, order[start:stop], np.diag(local))
            errors = np.empty_like(columns)
            for j in range(stop - start):
                column = treat(columns[:, j], int(order[start + j]))
                errors[:, j] = (columns[:, j] - column) / local[j, j]
                columns[:, j:] -= np.outer(errors[:, j], local[j, j:])
                columns[:, j] = column
            result[:, stop:] -= errors @ factor[start:stop, stop:]
        restored = np.empty_like(result)
        restored[:, order] = result
        return restored


def compensated_rounding(weights: Array, second: Array, round_column: TreatColumn) -> Array:
    """weights [rows, d] with `round_column(column [rows], index)` applied to every column (GPTQ).

    second: the moment [d, d] of the inputs.
    """
    return Compensation.of(second).applied(weights, lambda *_: round_column)
