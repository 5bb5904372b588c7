"""Shapes read, made and renamed: conformance, and types on symbolic sizes."""

from __future__ import annotations

import numpy as np
import pytest
from conformance import check, random

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array, Floats
from tensmith.formula.poly import Dim, Poly
from tensmith.ir.op import OPS, Run, Typed
from tensmith.ir.types import TensorType

B, S = Poly.symbol("B"), Poly.symbol("S")


def ints(*values: int) -> Array:
    return np.array(values, dtype=np.int64)


def objects(*values: Dim) -> Array:
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result


def shape_of(name: str, shape: tuple[Dim, ...], *values: Array, **attrs: object) -> tuple[Dim, ...] | None:
    """The inferred shape of an op on x: f32[shape] and known integer inputs."""
    op = OPS[name]
    types = (TensorType("f32", shape), *(TensorType("i64", v.shape) for v in values))
    (found,) = op.infer(Typed({**op.attributes, **attrs}, types, (None, *values)))
    assert found is not None
    return found.shape


@pytest.mark.parametrize("attrs", [{}, {"start": 1}, {"start": -2, "end": -1}, {"start": 5}])
def test_shape(attrs: dict[str, int]) -> None:
    check("shape", [random(2, 3, 4)], attrs)


def test_size() -> None:
    check("size", [random(2, 3)])


@pytest.mark.parametrize(
    "value", [None, np.array([2.5], np.float32), np.array([7], np.int64), np.array([True])]
)
def test_constant_of_shape(value: Array | None) -> None:
    target = ints(2, 3)
    (y,) = OPS["constant_of_shape"].run(
        Run({"value": value}, (target,), (TensorType.of(target),), (None,)), Floats()
    )
    assert y.shape == (2, 3)
    assert np.all(y == (0 if value is None else value[0]))


@pytest.mark.parametrize("bounds", [(1, 10, 3), (10, 1, -4), (5, 5, 1), (3, 1, 1)])
def test_range(bounds: tuple[int, int, int]) -> None:
    check("range", [np.array(value) for value in bounds])


def test_range_of_vectors_of_one_number() -> None:
    check("range", [ints(1), ints(10), ints(3)])
    with pytest.raises(ProgramError, match="limit of a range is"):
        OPS["range"].infer(
            Typed({"stash_type": 1}, tuple(TensorType("f32", s) for s in ((), (2,), ())), (None,) * 3)
        )


def test_expand_both_ways() -> None:
    check("expand", [random(3, 1), ints(2, 1, 6)])
    check("expand", [random(3, 4), ints(1, 1)])


@pytest.mark.parametrize(
    ("shape", "target"),
    [
        ((2, 3, 4), (4, -1)),
        ((2, 3, 4), (0, 2, -1)),
        ((2, 3, 4), (2, 1, 3, 4, 1)),
        ((1, 3, 1, 4), (12,)),
        ((6, 4, 5), (2, 3, 2, 10)),
        ((12,), (3, 4)),
    ],
)
def test_reshape(shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    check("reshape", [random(*shape), ints(*target)], symbolic=-1 in target and 0 in target)


def test_reshape_of_nothing_keeps_zeros_when_told() -> None:
    check("reshape", [random(0, 3), ints(3, 0)], {"allowzero": 1})


@pytest.mark.parametrize("axis", [0, 1, -1, 3])
def test_flatten(axis: int) -> None:
    check("flatten", [random(2, 3, 4)], {"axis": axis})


def test_squeeze_and_unsqueeze() -> None:
    check("squeeze", [random(1, 3, 1)])
    check("squeeze", [random(1, 3, 1), ints(-1)])
    check("unsqueeze", [random(3, 4), ints(0, -1)])
    check("unsqueeze", [random(3, 4), ints(1)])


@pytest.mark.parametrize("perm", [None, (1, 0, 2), (2, 0, 1)])
def test_transpose(perm: tuple[int, ...] | None) -> None:
    check("transpose", [random(2, 3, 4)], {"perm": perm})


def test_tile() -> None:
    check("tile", [random(2, 1, 3), ints(2, 2, 1)])


def test_reshape_keeps_symbolic_sizes() -> None:
    assert shape_of("reshape", (B, S, 768), ints(0, 0, 12, -1)) == (B, S, 12, 64)
    assert shape_of("reshape", (B, S, 12, 64), objects(B, S, -1)) == (B, S, 768)
    assert shape_of("reshape", (B, S, 768), ints(-1, 768)) == (B * S, 768)
    assert shape_of("reshape", (B * S + B, 768), objects(-1, S + 1, 768)) == (B, S + 1, 768)
    assert shape_of("reshape", (B, 3, 8, 8), objects(B, -1)) == (B, 192)


def test_unknown_target_gives_fresh_sizes_of_the_right_rank() -> None:
    op = OPS["reshape"]
    types = (TensorType("f32", (B, 4)), TensorType("i64", (3,)))
    (found,) = op.infer(Typed(op.attributes, types, (None, None)))
    assert found is not None and found.shape is not None
    assert len(set(found.shape)) == 3


def test_expand_and_tile_on_symbolic_targets() -> None:
    assert shape_of("expand", (1, 4), objects(B, 1)) == (B, 4)
    assert shape_of("tile", (1, S), objects(B, 1)) == (B, S)


@pytest.mark.parametrize(
    ("name", "shape", "value", "message"),
    [
        ("reshape", (2, 3), ints(4, 2), "do not fit"),
        ("reshape", (2, 3), ints(-1, -1), "more than one -1"),
        ("reshape", (2,), ints(1, 0), "rank 1 lacks"),
        ("squeeze", (2, 3), ints(0), "only axes of size 1"),
        ("unsqueeze", (2, 3), ints(0, 0), "twice"),
        ("tile", (2, 3), ints(2), "1 repeats"),
    ],
)
def test_wrong_uses_say_why(name: str, shape: tuple[int, ...], value: Array, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        shape_of(name, shape, value)
