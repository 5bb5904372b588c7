"""Printed formulas compute what the interpreter of formulas computes, in C and on OpenCL devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from printed import Array, Tensors, function, in_c, in_opencl

from opencl_device import needs_opencl
from tensmith.ctext.dialect import PLAIN_C
from tensmith.ctext.names import Names
from tensmith.ctext.scalar import CBlock, CUnit
from tensmith.formula.arith import FUNCTIONS, Floats
from tensmith.formula.evaluate import evaluate
from tensmith.formula.expr import (
    Call,
    Expr,
    Formula,
    Num,
    Pow,
    Read,
    Reduce,
    Size,
    as_expr,
    call,
    compute,
    fresh,
    guard,
    inside,
)
from tensmith.formula.poly import Poly

Run = Callable[[Sequence[Formula], Tensors], list[Array]]
SHAPE = (4, 3)
# Each attempt at a smaller example would be compiled.
SOME = settings(max_examples=6, deadline=None, phases=(Phase.generate,))


def on_a_device(formulas: Sequence[Formula], tensors: Tensors) -> list[Array]:
    from tensmith.engine.engines.opencl import find_device

    return in_opencl(formulas, tensors, find_device(1))


RUNS = [
    pytest.param(in_c, id="C"),
    pytest.param(on_a_device, id="OpenCL", marks=needs_opencl),
]


def check(run: Run, formulas: Sequence[Formula], tensors: Tensors, rtol: float = 0.0) -> None:
    for formula, found in zip(formulas, run(formulas, tensors)):
        with np.errstate(all="ignore"):
            expected = evaluate(formula, tensors, {}, Floats())
        np.testing.assert_allclose(found, expected, rtol, rtol, err_msg=str(formula.body))


def positions(names: list[str]) -> st.SearchStrategy[Poly]:
    """Positions below 5, above -9, some of them quotients of negative numbers."""
    place = st.sampled_from([Poly.symbol(name) for name in names])
    shifted = st.builds(lambda a, b, shift: a - b + shift, place, place, st.integers(-3, 0))
    divided = st.builds(lambda top, bottom: top // bottom, shifted, st.integers(2, 3))
    return place | shifted | divided


@st.composite
def numbers(draw: Any, tensors: list[str], names: list[str], depth: int, extremes: bool) -> Expr:
    """Expressions of few steps. Every function is exact for the numbers of `tensors`."""

    def inner(more: tuple[str, ...] = ()) -> Expr:
        return draw(numbers(tensors, [*names, *more], depth - 1, extremes))  # type: ignore[no-any-return]

    kind = draw(st.sampled_from(["read", "read", "number", "size"] if not depth else _KINDS))
    position = draw(positions(names))
    if kind == "read":
        name = draw(st.sampled_from(tensors))
        return guard(inside(position, 5), Read(name, (position,)))
    if kind == "number":
        return Num(Fraction(draw(st.integers(-3, 3))))
    if kind == "size":
        return Size(position)
    if kind == "add":
        return inner() + inner() if draw(st.booleans()) else inner() - inner()
    if kind == "mul":
        return inner() * inner()
    if kind == "square":
        return Pow(inner(), Fraction(2))
    if kind == "guard":
        return guard((position, draw(positions(names)) + 1), inner())
    if kind == "fold":
        var = fresh()
        return Reduce(draw(st.sampled_from(["sum", "max", "min"])), var, Poly.of(5), inner((var,)))
    if kind == "where":
        return call("where", inner(), inner(), inner())
    functions = [*_EXACT, *(_OF_INTEGERS if extremes else ())]
    name, arity = draw(st.sampled_from(functions))
    return call(name, *(inner() for _ in range(arity)))


_KINDS = ["add", "mul", "square", "guard", "fold", "where", "call", "call", "call"]
_EXACT = [
    ("maximum", 2), ("minimum", 2), ("less", 2), ("less_equal", 2), ("equal", 2), ("abs", 1), ("sign", 1),
    ("mod", 2), ("fmod", 2), ("floor", 1), ("ceil", 1), ("trunc", 1), ("isnan", 1), ("isinf", 1),
    ("isposinf", 1), ("isneginf", 1), ("round", 1),
]  # fmt: skip
_OF_INTEGERS = [("bitwise_and", 2), ("bitwise_or", 2), ("bitwise_xor", 2), ("bitwise_not", 1)]


@st.composite
def formulas(draw: Any, tensors: list[str], extremes: bool = False) -> Formula:
    names = [fresh("i") for _ in SHAPE]
    return Formula(tuple(map(Poly.of, SHAPE)), tuple(names), draw(numbers(tensors, names, 3, extremes)))


def mixed(seed: int) -> Tensors:
    """Quarters, some of them special, and small whole numbers: floats are exact, in 24 bits as in 53."""
    random = np.random.default_rng(seed)
    special = random.choice([0.25, -0.5, 1.75, 2.5, np.nan, np.inf, -np.inf, 0.0], 5).astype(np.float32)
    return {
        "quarters": (random.integers(-9, 10, 5) / 4).astype(np.float32),
        "special": special,
        "whole": random.integers(-4, 5, 5),
        "bytes": random.integers(0, 5, 5).astype(np.uint8),
        "truths": random.integers(0, 2, 5).astype(np.bool_),
    }


def extreme(seed: int) -> Tensors:
    """Integers of every size, the least and the largest among them."""
    random = np.random.default_rng(seed)
    info = np.iinfo(np.int64)
    ends = np.array([info.min, info.max, -1, 0, 1 << 40], np.int64)
    return {
        "wide": random.integers(info.min, info.max, 5, endpoint=True),
        "ends": random.permutation(ends),
        "narrow": random.integers(-(2**31), 2**31, 5).astype(np.int32),
        "bytes": random.integers(0, 256, 5).astype(np.uint8),
    }


@pytest.mark.parametrize("run", RUNS)
@SOME
@given(st.lists(formulas(list(mixed(0))), min_size=12, max_size=12), st.integers(0, 2**31))
def test_floats_and_small_integers(run: Run, made: list[Formula], seed: int) -> None:
    check(run, made, mixed(seed))


@pytest.mark.parametrize("run", RUNS)
@SOME
@given(st.lists(formulas(list(extreme(0)), True), min_size=12, max_size=12), st.integers(0, 2**31))
def test_integers_wrap_and_nothing_traps(run: Run, made: list[Formula], seed: int) -> None:
    check(run, made, extreme(seed))


@pytest.mark.parametrize("run", RUNS)
def test_functions_of_floats(run: Run) -> None:
    x = {"x": np.array([0.125, 0.25, 0.5, 0.75, 0.875], np.float32)}
    unary = [
        "exp", "log", "log1p", "sqrt", "sin", "cos", "tan", "tanh", "erf", "asin", "acos", "atan", "sinh",
        "cosh", "asinh", "atanh",
    ]  # fmt: skip
    assert set(unary) < set(FUNCTIONS)
    made = [compute((5,), lambda i, name=name: call(name, Read("x", (i,)))) for name in unary]
    made.append(compute((5,), lambda i: call("acosh", 1 + Read("x", (i,)))))
    made += [
        compute((5,), lambda i, e=e: Pow(Read("x", (i,)), Fraction(e)))
        for e in ("1/2", "-1/2", "-1", "3", "-2", "0.3", "-0.75")
    ]
    made.append(compute((5,), lambda i: call("pow", Read("x", (i,)), Read("x", (i,)))))
    made.append(compute((5,), lambda i: Size(i + 1) / Size(i + 3) - as_expr(Fraction(1, 3))))
    # OpenCL allows exp, sinh and the like 5 ulp, tan, pow and erf up to 16 (OpenCL C 1.2, table 7.1).
    check(run, made, x, rtol=16 * float(np.finfo(np.float32).eps))


def test_positions_may_exceed_32_bits() -> None:
    far = compute((3,), lambda i: Size((i + 1) * 2**40 + (i - 2) // 3 * 2**33))
    check(in_c, [far], {})


def test_parts_met_twice_are_computed_once() -> None:
    def element(i: Poly) -> Expr:
        k = fresh()
        mean = Reduce("sum", k, Poly.of(5), Read("x", (Poly.symbol(k),)))
        return (Read("x", (i,)) - mean) * (Read("x", (i,)) - mean)

    text = function("f", compute((5,), element), {"x": np.zeros(5, np.float32)}, PLAIN_C)
    assert text.count("+=") == 1
    assert text.index("+=") < text.index("y[")


def test_what_a_reduction_binds_is_not_computed_outside_of_it() -> None:
    k, m = fresh(), fresh()
    places = Poly.symbol(k) + Poly.symbol(m)
    inner = Reduce("max", m, Poly.of(2), Read("x", (places,)))

    def element(i: Poly, j: Poly) -> Expr:
        return Reduce("sum", k, Poly.of(4), inner + Size(i * j))

    check(in_c, [compute((2, 3), element)], {"x": np.arange(5, dtype=np.float32)})


def test_a_value_that_is_gone_is_not_taken_for_another() -> None:
    scope = CBlock(CUnit(Names(), str, {}, {}))
    for n in range(100):
        scope.keep(Call("exp", (Num(n, "f32"),), "f32"), "something_long(x)")
        assert scope.value(Call("exp", (Num(n, "f32"),), "f32")) == f"expf({n}.0f)"
