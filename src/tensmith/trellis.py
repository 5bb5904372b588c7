"""Dependent quantization: which numbers a weight may have follows from those of the weights before it.

Of a grid, quantizer 0 has the even numbers, quantizer 1 the odd ones and 0. A number stands for a code: half
of it, in quantizer 1 rounded away from zero. Parities of codes lead a machine of four states from one
quantizer to the other (trellis-coded quantization, Marcellin & Fischer 1990, in the form of H.266 and ISO/IEC
15938-17; Schwarz et al. 2021). A weight takes the bits of a grid twice as coarse and errs less, for a row has
most of the fine grid's numbers to choose from. Who multiplies sees plain integers.

What comes one after the other are the elements along a tensor's first axis, from state 0 on.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Truths: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

STATES = 4
# Fewer rows gain nothing, for each column begins in state 0 anew; of more, or of narrow ones, a reader that
# takes a row at a time would be slow.
_ROWS, _LEAST_COLUMNS = range(16, 4097), 32


def serves(rows: int, columns: int) -> bool:
    """Whether rows of so many are made, and read, by a trellis."""
    return rows in _ROWS and columns >= _LEAST_COLUMNS


def has_odd(states: Integers) -> Truths:
    """Whether the quantizer of each state is the one of odd numbers."""
    return states >= STATES // 2


def following(states: Integers, numbers: Integers) -> Integers:
    """The state after each one, by the number that its quantizer gave."""
    odd = states >> 1
    parities = np.abs(numbers) + odd >> 1
    found: Integers = ((parities ^ states) & 1) << 1 | odd
    return found


def quantizers(numbers: Integers) -> Truths | None:
    """Whether each of `numbers` [n, ...] is of the quantizer of odd ones; None where they are of none."""
    states, found = np.zeros(numbers.shape[1:], np.int64), np.empty(numbers.shape, np.bool_)
    for place, row in enumerate(numbers):
        odd = found[place] = has_odd(states)
        if ((row & 1 != odd) & ((row != 0) | ~odd)).any():
            return None
        states = following(states, row)
    return found
