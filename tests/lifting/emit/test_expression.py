"""Printed expressions mean what they were made of, however operators are nested."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tensmith.ir import Node
from tensmith.lifting.emit.expression import ARITHMETIC, ExpressionText
from tensmith.lifting.emit.python_writer import ON_SIZES

MEANS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": operator.neg,
    "less": operator.lt, "less_or_equal": operator.le, "greater": operator.gt,
    "greater_or_equal": operator.ge, "equal": operator.eq, "bitwise_and": operator.and_,
    "bitwise_or": operator.or_, "bitwise_xor": operator.xor, "bitwise_not": operator.invert,
    "and": lambda a, b: a and b, "or": lambda a, b: a or b, "not": operator.not_,
}  # fmt: skip
ONE = {"neg", "bitwise_not", "not"}
BITWISE = {name: ARITHMETIC[name] for name in MEANS if name.startswith("bitwise")}

Printed = tuple[ExpressionText, Any]


def numbers() -> st.SearchStrategy[Printed]:
    return st.integers(0, 5).map(lambda n: (ExpressionText(str(n)), n))


@st.composite
def applied(draw: st.DrawFn, inner: st.SearchStrategy[Printed]) -> Printed:
    name = draw(st.sampled_from(sorted(MEANS)))
    operands = [draw(inner) for _ in range(1 if name in ONE else 2)]
    rule = (ON_SIZES | BITWISE)[name]
    text = rule(None, Node(name, (), ("t",)), [text for text, _ in operands])
    return text, MEANS[name](*(value for _, value in operands))


@given(st.recursive(numbers(), applied, max_leaves=12))
def test_text_and_value_agree(printed: Printed) -> None:
    text, value = printed
    assert eval(text.code, {}) == value, text.code
