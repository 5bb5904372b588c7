"""Concat, split, slice and pad: conformance, and types on symbolic sizes."""

from __future__ import annotations

import numpy as np
import pytest
from conformance import check, random
from hypothesis import given
from hypothesis import strategies as st

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array, Floats
from tensmith.formula.expr import tensor
from tensmith.formula.poly import Dim, Poly
from tensmith.ir.op import OPS, Run, Symbolic, Typed
from tensmith.ir.ops.slicing import resolve_slice
from tensmith.ir.types import TensorType

S = Poly.symbol("S")
FAR = 2**63 - 1


def ints(*values: int) -> Array:
    return np.array(values, dtype=np.int64)


def test_concat() -> None:
    check("concat", [random(2, 3), random(2, 1), random(2, 2)], {"axis": 1})
    check("concat", [random(2, 3), random(1, 3)], {"axis": -2})


def test_concat_of_shapes_that_disagree_is_an_error() -> None:
    with pytest.raises(ProgramError, match="cannot be joined"):
        OPS["concat"].infer(
            Typed({"axis": 0}, (TensorType("f32", (2, 3)), TensorType("f32", (2, 4))), (None, None))
        )


def test_split() -> None:
    check("split", [random(6, 4)], {"axis": 0}, n_outputs=3, opset=13)
    check("split", [random(7, 4)], {"num_outputs": 3}, n_outputs=3, symbolic=False)
    check("split", [random(7, 4), ints(1, 3)], {"axis": 1}, n_outputs=2)


def test_parts_must_add_up() -> None:
    with pytest.raises(ProgramError, match="do not add up"):
        OPS["split"].infer(
            Typed(
                {"axis": 0, "num_outputs": None},
                (TensorType("f32", (5,)), TensorType("i64", (2,))),
                (None, ints(2, 2)),
                2,
            )
        )


@pytest.mark.parametrize(
    ("start", "end", "axis", "step"),
    [
        (1, 3, 0, 1),
        (0, FAR, 1, 2),
        (-1, -FAR, 0, -1),
        (3, -FAR, 0, -2),
        (-3, -1, 1, 1),
        (5, 1, 1, -1),
        (-100, 100, 0, 1),
        (100, -100, 0, -3),
        (4, -6, 1, -1),
        (3, 1, 0, 1),
        (-100, -FAR, 0, -1),
        (-7, -100, 1, -2),
        (-100, 0, 0, -1),
    ],
)
def test_slice(start: int, end: int, axis: int, step: int) -> None:
    check("slice", [random(5, 6), ints(start), ints(end), ints(axis), ints(step)], symbolic=False)


@pytest.mark.parametrize(
    ("name", "attrs", "given"),
    [
        ("slice", {}, (None, ints(1, 0), ints(3, 2), ints(0, -2))),
        ("pad", {"mode": "constant"}, (None, ints(1, 0, 1, 2), None, ints(1, -1))),
    ],
)
def test_an_axis_is_named_once(name: str, attrs: dict[str, str], given: tuple[Array | None, ...]) -> None:
    types = [None if each is None else TensorType.of(each) for each in given[1:]]
    with pytest.raises(ProgramError, match="name one axis twice"):
        OPS[name].infer(Typed(attrs, (TensorType("f32", (5, 6)), *types), given))


def test_slice_of_every_axis_by_default() -> None:
    check("slice", [random(5, 6), ints(1, 2), ints(4, -1)], symbolic=False)
    check("slice", [random(5, 6), ints(1, 2), ints(4, -1), None, ints(2, 1)], symbolic=False)


bounds = st.integers(-9, 9) | st.sampled_from([FAR, -FAR])


@given(st.integers(0, 6), bounds, bounds, st.sampled_from([-3, -2, -1, 1, 2, 3]))
def test_resolved_slices_are_those_of_the_standard(size: int, start: int, end: int, step: int) -> None:
    first, count = resolve_slice(size, start, end, step)
    assert isinstance(first, int) and isinstance(count, int)
    low, high = ((0, 0), size) if step > 0 else ((0, -1), size - 1)
    begin, stop = (
        min(max(bound + size * (bound < 0), least), high) for bound, least in zip((start, end), low)
    )
    assert list(range(begin, stop, step)) == [first + step * i for i in range(count)]


@pytest.mark.parametrize("end", [2**31 - 1, FAR])
def test_a_backward_slice_that_runtimes_read_otherwise_is_not_claimed(end: int) -> None:
    """ONNX Runtime ends at the front there, the standard and its reference at the other end."""
    types = (TensorType("f32", (3,)), *[TensorType("i64", (1,))] * 4)
    for step, claimed in ((-1, False), (1, True)):
        call = Typed({}, types, (None, ints(0), ints(end), ints(0), ints(step)))
        assert (OPS["slice"].accepts(call) is None) == claimed


@pytest.mark.parametrize(
    ("start", "end", "step", "expected"),
    [
        (1, FAR, 1, (1, S - 1)),
        (0, -1, 1, (0, S - 1)),
        (0, 1, 1, (0, 1)),
        (-1, FAR, 1, (S - 1, 1)),
        (-1, -FAR, -1, (S - 1, S)),
        (0, FAR, 2, (0, (S + 1) // 2)),
        (FAR, -FAR, -1, (S - 1, S)),
    ],
)
def test_slices_of_symbolic_sizes(start: int, end: int, step: int, expected: tuple[Dim, Dim]) -> None:
    assert resolve_slice(S, start, end, step) == expected


def test_what_is_not_provable_is_a_fresh_size() -> None:
    """S may be 3, and then S[:5] has 3 elements."""
    _, count = resolve_slice(S, 0, 5, 1)
    assert isinstance(count, Poly) and count != 5 and count != S
    first, _ = resolve_slice(S, -FAR, -FAR, -1)
    assert isinstance(first, Poly)


def test_of_a_size_that_may_be_0_nothing_is_cut_for_sure() -> None:
    """Nothing follows its first element; so many elements before the end may be all of them."""
    count = Poly.symbol("n.y.0")
    assert resolve_slice(count, 1, FAR, 1)[1] != count - 1
    assert resolve_slice(S, 0, -count, 1)[1] != S - count
    assert resolve_slice(S, 0, -S, 1)[1] == 0


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_pad(mode: str) -> None:
    check("pad", [random(4, 5), ints(1, 2, 2, 1)], {"mode": mode})
    check("pad", [random(4, 5), ints(2, 1), None, ints(-1)], {"mode": mode})


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_what_is_cut_is_not_repeated(mode: str) -> None:
    check("pad", [random(4, 5), ints(-1, 3, 2, -1)], {"mode": mode}, symbolic=False)


@pytest.mark.parametrize("pads", [(3, 0), (0, 3), (2, -1), (1, -2)])
def test_what_is_reflected_twice_has_no_formula(pads: tuple[int, int]) -> None:
    call = Symbolic({"mode": "reflect"}, (tensor("x", 3), tensor("p", 2)), (None, ints(*pads)))
    with pytest.raises(ProgramError, match="reflects an axis of size"):
        OPS["pad"].formula(call)


def test_pad_with_a_value_and_cuts() -> None:
    value = np.array(3.5, np.float32)
    check("pad", [random(4, 5), ints(1, 2, 2, 1), value])
    check("pad", [random(4, 5), ints(1, -2, -1, 1), value])
    check("pad", [random(4, 5), ints(1, 0, 0, 1), np.array(-np.inf, np.float32)], field=False)


@pytest.mark.parametrize("pads", [(4, -5), (-4, 5), (-4, 1), (4, -3), (1, -4), (-3, 3)])
def test_pad_that_cuts_more_than_there_is(pads: tuple[int, int]) -> None:
    """What the other pad put there is cut too, if it is a constant."""
    check("pad", [random(3), ints(*pads), np.array(3.5, np.float32)], symbolic=False)


def test_pads_that_cut_more_than_all() -> None:
    x, pads = random(3), ints(0, -4)
    call = Run({"mode": "constant"}, (x, pads), (TensorType.of(x), TensorType.of(pads)), (None,))
    with pytest.raises(ProgramError, match="cut more than there is"):
        OPS["pad"].run(call, Floats())


def test_texts_are_padded_with_empty_ones() -> None:
    x, wanted = (np.array(texts, dtype=object) for texts in (["a", "b"], ["", "a", "b", "", ""]))
    check("pad", [x, ints(1, 2)], formula=False, expected=[wanted])


def test_pad_of_integers() -> None:
    check("pad", [np.arange(6).reshape(2, 3), ints(1, 0, 0, 2), np.array(9)])
