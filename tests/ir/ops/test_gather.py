"""Picking and putting elements: conformance with ONNX."""

from __future__ import annotations

import numpy as np
import pytest
from conformance import check, random

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array, Floats
from tensmith.formula.evaluate import evaluate
from tensmith.formula.expr import tensor
from tensmith.formula.poly import Poly
from tensmith.ir.op import OPS, Run, Symbolic, Typed
from tensmith.ir.types import Shape, TensorType


def choose(low: int, high: int, *shape: int) -> Array:
    return np.random.default_rng(1).integers(low, high, shape)


@pytest.mark.parametrize(
    ("indices", "axis"), [(np.array([1, 3]), 1), (np.array(-1), 0), (np.array([[0, 3], [-1, 2]]), 1)]
)
def test_gather(indices: Array, axis: int) -> None:
    check("gather", [random(4, 5, 6), indices], {"axis": axis})


def test_gather_by_unknown_indices_is_a_sum_of_comparisons() -> None:
    x, indices = random(4, 3), np.array([[2, -1], [0, 3]])
    reads = (tensor("x", 4, 3), tensor("i", 2, 2))
    (formula,) = OPS["gather"].formula(Symbolic({"axis": 0}, reads, (None, None)))
    np.testing.assert_allclose(evaluate(formula, {"x": x, "i": indices}, {}, Floats()), x[indices])


def test_gather_on_a_symbolic_shape() -> None:
    sizes = np.array([Poly.symbol("B"), 3], dtype=object)
    op = OPS["gather"]
    types = (TensorType("i64", (2,)), TensorType("i64", ()))
    assert op.infer(Typed({"axis": 0}, types, (sizes, np.array(0)))) == (TensorType("i64", ()),)


@pytest.mark.parametrize("x", [np.array([Poly.symbol("B"), 3], dtype=object), np.array(["a", "b"], object)])
def test_one_index_gives_an_array_of_what_numpy_holds_as_objects(x: Array) -> None:
    run = Run({"batch_dims": 0}, (x, np.array([0])), (None, None), (None,))
    (y,) = OPS["gather_nd"].run(run, Floats())
    assert (y.shape, y.dtype, y.item()) == ((), x.dtype, x[0])


def test_gather_elements() -> None:
    check("gather_elements", [random(4, 5), choose(-4, 4, 3, 5)], {"axis": 0}, formula=False)
    check("gather_elements", [random(4, 5, 3), choose(-5, 5, 4, 2, 2)], {"axis": 1}, formula=False)


def test_gather_nd() -> None:
    check("gather_nd", [random(4, 5, 6), choose(-4, 4, 3, 2)], formula=False, open_shape=True)
    check("gather_nd", [random(2, 5, 6), choose(0, 5, 2, 3, 1)], {"batch_dims": 1}, formula=False)


@pytest.mark.parametrize(
    ("x", "indices", "batch"),
    [((4, 5), (1, 1), 1), ((4, 5), (4, 1), 2), ((4, 5, 6), (4, 1), 2), ((), (1, 1), 0)],
)
def test_batches_of_indices_are_those_of_x(x: Shape, indices: Shape, batch: int) -> None:
    op, given = OPS["gather_nd"], (TensorType("f32", x), TensorType("i64", indices))
    with pytest.raises(ProgramError, match=f"share no {batch} leading axes"):
        op.infer(Typed({"batch_dims": batch}, given, (None, None)))


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
def test_scatter_combines_repeated_positions(reduction: str) -> None:
    attrs = {"reduction": reduction}
    check("scatter_elements", [random(6, 5), choose(0, 6, 4, 5), random(4, 5, seed=2)], attrs, formula=False)
    check("scatter_nd", [random(6, 5), choose(-6, 6, 7, 1), random(7, 5, seed=2)], attrs, formula=False)


def test_scatter_replaces() -> None:
    places = np.array([[0, 1, 2], [3, 4, 5]])
    check("scatter_elements", [random(6, 3), places, random(2, 3, seed=2)], formula=False)
    check("scatter_nd", [random(6, 3), np.array([[5], [-5]]), random(2, 3, seed=2)], formula=False)


@pytest.mark.parametrize(
    ("name", "x", "indices", "updates"),
    [
        ("scatter_elements", (2, 3), (5, 3), (5, 3)),
        ("scatter_elements", (2, 3), (2, 3), (1, 1)),
        ("scatter_elements", (2, 3), (2,), (2,)),
        ("scatter_nd", (2,), (9, 1), (1,)),
        ("scatter_nd", (2, 3), (4, 1), (4, 2)),
        ("scatter_nd", (2,), (4, 2), (4,)),
    ],
)
def test_updates_fit_the_indices_and_these_lie_in_x(
    name: str, x: Shape, indices: Shape, updates: Shape
) -> None:
    given = (TensorType("f32", x), TensorType("i64", indices), TensorType("f32", updates))
    attrs = {**OPS[name].attributes} | ({"axis": 1} if len(x) > 1 and name == "scatter_elements" else {})
    with pytest.raises(ProgramError, match=r"updates f32|indices"):
        OPS[name].infer(Typed(attrs, given, (None,) * 3))


def test_updates_of_open_sizes_and_of_another_type() -> None:
    op, size = OPS["scatter_nd"], Poly.symbol("B")
    types = (TensorType("f32", (6, 5)), TensorType("i64", (size, 1)), TensorType("f32", (7, 5)))
    assert op.infer(Typed(op.attributes, types, (None,) * 3)) == types[:1]
    with pytest.raises(ProgramError, match="updates f16"):
        op.infer(Typed(op.attributes, (*types[:2], types[2].with_dtype("f16")), (None,) * 3))


def test_one_hot() -> None:
    check("one_hot", [np.array([1, -1, 7, 2]), np.array(4), random(2)], formula=False)
    check("one_hot", [np.array([[1, -1], [7, 2]]), np.array([4]), random(2)], {"axis": 1}, formula=False)


def test_compress_and_non_zero() -> None:
    condition = np.array([True, False, True])
    check("compress", [random(4, 5), condition], {"axis": 0}, formula=False)
    check("compress", [random(4, 5), condition], formula=False)
    check("non_zero", [choose(0, 2, 3, 4)], formula=False, symbolic=False)


def test_top_k() -> None:
    k = np.array([3])
    check("top_k", [choose(0, 5, 3, 7), k], n_outputs=2, formula=False)
    check("top_k", [random(5, 4, 7), k], {"axis": 0, "largest": 0}, n_outputs=2, formula=False)
