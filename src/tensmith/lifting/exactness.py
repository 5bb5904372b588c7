"""Calls in which a lifted Python function may do otherwise than Python: they are noticed, and refused.

A lift states what it assumes, and whoever calls a function that is decorated reads no statement. So what
Python's unbounded integers would hold and 64 bits do not, and an answer that is no finite number where Python
may raise, are for the function itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensmith.formula.poly import Poly
from tensmith.lifting.assumptions import INTEGERS, NARROWED, Excuse, excused
from tensmith.lifting.emit.ranges import Interval, overflowing
from tensmith.lifting.lifted import Lifted
from tensmith.lifting.loops import Array
from tensmith.lifting.running import fields
from tensmith.lifting.second.inputs import symbols
from tensmith.lifting.summary import length_symbol

_RAISES = frozenset({Excuse.DIVISION, Excuse.DOMAIN, Excuse.COMPLEX, Excuse.OVERFLOW})


def exact(form: Callable[..., Any], lifted: Lifted) -> Callable[..., Any]:
    """`form`, raising ValueError for calls in which it may not do what Python does."""
    unbounded = any(sentence in (INTEGERS(), NARROWED()) for sentence in lifted.assumes)
    may_raise = not _RAISES.isdisjoint(excused(lifted.assumes))

    def call(*arguments: Any) -> Any:
        if unbounded and _may_overflow(lifted, arguments):
            raise ValueError("integers may not fit in 64 bits")
        with np.errstate(all="ignore"):
            found = form(*arguments)
        if may_raise and not _finite(found):
            raise ValueError("an answer is no finite number, where Python may raise")
        return found

    return call


def _may_overflow(lifted: Lifted, arguments: tuple[Any, ...]) -> bool:
    """Whether bounds from the arguments leave it open that an integer leaves its type."""
    given, known = fields(lifted.function, arguments), dict[str, int]()
    seen: dict[str, Interval] = {}
    for name, type_ in lifted.function.fields:
        array = np.asarray(given[name])
        if isinstance(type_, Array):
            known |= {length_symbol(name, axis): size for axis, size in enumerate(array.shape)}
        elif array.dtype.kind in "iub":
            known[name] = int(array)
        if array.dtype.kind in "iub":
            seen[name] = Interval(int(array.min()), int(array.max())) if array.size else Interval(0, 0)
        elif array.dtype.kind == "O":  # integers beyond 64 bits
            return True
    sizes = symbols(lifted, known)
    inputs: dict[str, Interval] = {}
    for each in lifted.inputs:
        source = each.view.array if each.view is not None else each.scalar
        if source in seen:
            inputs[each.name] = seen[source]
        elif each.positions is not None:
            inputs[each.name] = Interval(0, max(0, int(Poly.of(each.positions).evaluate(sizes)) - 1))
    return bool(overflowing(lifted.program, inputs, sizes))


def _finite(found: Any) -> bool:
    """Whether all numbers are finite, of what NumPy can read."""
    parts = found if isinstance(found, (tuple, list)) else (found,)
    arrays = [np.asarray(part) for part in parts]
    return all(np.isfinite(array).all() for array in arrays if array.dtype.kind == "f")
