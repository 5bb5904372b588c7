"""The conformance check notices a wrong type, value, formula and field meaning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conformance import check, random

from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Formula, compute
from tensmith.ir.op import OPS, Run, Symbolic, Typed
from tensmith.ir.ops.arithmetic import Div
from tensmith.ir.types import TensorType

X, Y = random(2, 3), random(2, 3, seed=1)


class WrongType(Div):
    """Claims doubles."""

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        return (call.type(0).with_dtype("f64"),)


class WrongShape(Div):
    """Forgets broadcasting."""

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        return (call.type(1),)


class WrongValue(Div):
    """Multiplies."""

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        return (arith.mul(call[0], call[1]),)


class WrongFormula(Div):
    """Divides the other way round."""

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        a, b = call[0], call[1]
        return (compute(a.shape, lambda *i: b[i] / a[i]),)


class WrongField(Div):
    """Right in floats alone."""

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        return (arith.mul(call[0], call[1]),) if arith.exact else super().run(call, arith)


@pytest.fixture
def instead_of_div(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def replace(wrong: type[Div]) -> None:
        wrong.name = "div"
        monkeypatch.setitem(OPS._items, "div", wrong())

    yield replace


@pytest.mark.parametrize("wrong", [WrongType, WrongValue, WrongFormula, WrongField])
def test_wrong_twins_are_refuted(wrong: type[Div], instead_of_div: Any) -> None:
    check("div", [X, Y])
    instead_of_div(wrong)
    with pytest.raises(AssertionError):
        check("div", [X, Y])


def test_a_forgotten_broadcast_is_refuted(instead_of_div: Any) -> None:
    check("div", [X, np.float32([2.0])])
    instead_of_div(WrongShape)
    with pytest.raises(AssertionError):
        check("div", [X, np.float32([2.0])])
