"""Matrix products and Einstein sums."""

from __future__ import annotations

import numpy as np
import pytest
from conformance import check, random

from tensmith.errors import ProgramError
from tensmith.formula.poly import Poly
from tensmith.ir.op import OPS, Typed
from tensmith.ir.types import TensorType


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 4), (4, 5)),
        ((4,), (4,)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((2, 1, 3, 4), (3, 4, 5)),
        ((2, 3, 4), (4,)),
        ((1, 1), (1, 1)),
    ],
)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    check("matmul", [random(*a), random(*b, seed=1)], rtol=1e-4)


def test_integer_matmul() -> None:
    check("matmul", [np.arange(6).reshape(2, 3), np.arange(6).reshape(3, 2)])


@pytest.mark.parametrize("turned_a", [0, 1])
@pytest.mark.parametrize("turned_b", [0, 1])
@pytest.mark.parametrize("bias", [(5,), (3, 5), (3, 1), (), None])
def test_gemm(turned_a: int, turned_b: int, bias: tuple[int, ...] | None) -> None:
    a, b = random(*((4, 3) if turned_a else (3, 4))), random(*((5, 4) if turned_b else (4, 5)), seed=1)
    c = None if bias is None else random(*bias, seed=2)
    inputs = [a, b] if c is None else [a, b, c]
    check("gemm", inputs, {"alpha": 0.3, "beta": 2.0, "transA": turned_a, "transB": turned_b}, rtol=1e-4)


def test_cost_counts_multiply_adds() -> None:
    types = (TensorType("f32", (2, 3, 4)), TensorType("f32", (4, 5)))
    call = Typed({}, types, (None, None))
    assert OPS["matmul"].cost(call, OPS["matmul"].infer(call)) == 2 * 3 * 4 * 5


def test_inner_sizes_must_agree() -> None:
    types = (TensorType("f32", (2, 3)), TensorType("f32", (4, 5)))
    with pytest.raises(ProgramError, match=r"inner sizes of f32\[2, 3\] and f32\[4, 5\] differ: 3 and 4"):
        OPS["matmul"].infer(Typed({}, types, (None, None)))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("ij,jk", [(3, 4), (4, 5)]),
        ("ij->ji", [(3, 4)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("ij->", [(3, 4)]),
        ("...ij,...jk->...ik", [(2, 1, 3, 4), (3, 4, 5)]),
        ("i,j,k->kji", [(2,), (3,), (4,)]),
        ("ab,cd->ad", [(2, 3), (4, 5)]),
        ("ij,ij,jk->ik", [(2, 3), (2, 3), (3, 4)]),
    ],
)
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    inputs = [random(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    check("einsum", inputs, {"equation": equation}, rtol=1e-4, atol=1e-5)


def test_einsum_errors_name_the_equation() -> None:
    square = TensorType("f32", (3, 3))
    for equation, message in [
        ("ij,jk->ik", "has 2 terms for 1 operands"),
        ("ijk->i", "does not fit operands of ranks"),
        ("ij->k", "no operand of the einsum has the result's axes k"),
    ]:
        with pytest.raises(ProgramError, match=message):
            OPS["einsum"].infer(Typed({"equation": equation}, (square,), (None,)))


@pytest.mark.parametrize(
    ("name", "types", "attrs"),
    [
        ("matmul", "f32 f32", {}),
        ("matmul_integer", "u8 u8", {}),
        ("q_linear_matmul", "u8 f32 u8 u8 f32 u8 f32 u8", {}),
        ("einsum", "f32 f32", {"equation": "bij,bjk->bik"}),
        ("einsum", "f32 f32", {"equation": "...ij,...jk->...ik"}),
    ],
)
def test_products_say_where_an_open_size_may_be_1(name: str, types: str, attrs: dict[str, str]) -> None:
    """One of two open sizes that meet may be 1, and then the other one is the result's."""
    n, m = map(Poly.symbol, "nm")
    places = (0, 3) if name == "q_linear_matmul" else (0, 1)
    for second, presumed in ((n, False), (1, False), (m, True)):
        shapes = {places[0]: (n, 2, 3), places[1]: (second, 3, 2)}
        tensors = tuple(TensorType(dtype, shapes.get(at, ())) for at, dtype in enumerate(types.split()))
        call = Typed({**OPS[name].attributes, **attrs}, tensors, (None,) * len(tensors))
        assert OPS[name].presumes(call) == presumed
