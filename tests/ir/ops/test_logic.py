"""Comparisons, Booleans, bits, and casts."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from conformance import check, random

from tensmith.errors import ProgramError
from tensmith.formula.arith import Floats, PrimeField
from tensmith.formula.poly import Poly
from tensmith.ir.op import OPS, Run, Typed
from tensmith.ir.types import TensorType

X, Y = np.round(random(2, 3, 4)), np.round(random(3, 1, seed=1))
A, B = X > 0, Y > 0
N = Poly.symbol("N")
COMPARISONS = ["equal", "less", "greater", "less_or_equal", "greater_or_equal"]


def compare_sizes(name: str, a: object, b: object) -> bool:
    """A comparison of two sizes."""
    arrays = (np.array([a], dtype=object), np.array([b], dtype=object))
    types = (TensorType("i64", (1,)),) * 2
    return bool(OPS[name].run(Run({}, arrays, types, (TensorType("bool", (1,)),)), Floats())[0][0])


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons(name: str) -> None:
    check(name, [X, Y])
    check(name, [X.astype(np.int64), Y.astype(np.int64)])


def test_mirrored_comparisons_are_one_function_in_the_field() -> None:
    field = PrimeField(2097143, 1)
    a, b = field.random("a", (64,)), field.random("b", (64,))
    types = (TensorType("f32", (64,)),) * 2
    greater = OPS["greater"].run(Run({}, (a, b), types, (None,)), field)[0]
    assert np.array_equal(greater, OPS["less"].run(Run({}, (b, a), types, (None,)), field)[0])
    assert greater.any() and not greater.all()


def test_comparisons_of_sizes_answer_only_what_holds_for_all() -> None:
    assert not compare_sizes("equal", N, -1)
    assert not compare_sizes("equal", N + 1, N)
    assert compare_sizes("less", 0, N)
    assert compare_sizes("greater_or_equal", N * 2, N)
    assert not compare_sizes("less_or_equal", N + 1, N)
    for name in COMPARISONS:
        with pytest.raises(ProgramError, match="depends on the sizes"):
            compare_sizes(name, N, 4)


@pytest.mark.parametrize("name", ["n%7", "n.y.0", "m.y.1", "n..rows"])
def test_a_size_that_data_decides_may_be_0(name: str) -> None:
    count = Poly.symbol(name)
    assert compare_sizes("greater_or_equal", count, 0)
    for comparison in ("equal", "less"):
        with pytest.raises(ProgramError, match="depends on the sizes"):
            compare_sizes(comparison, 0, count)
    assert compare_sizes("less", 0, Poly.symbol("n.0"))  # of an input called n


@pytest.mark.parametrize("name", ["and", "or", "xor"])
def test_logic(name: str) -> None:
    check(name, [A, B])


def test_not() -> None:
    check("not", [A])


def test_where() -> None:
    check("where", [A, X, Y])
    check("where", [A, X.astype(np.int64), Y.astype(np.int64)])


def test_nan_and_infinity() -> None:
    x = np.array([1, np.nan, np.inf, -np.inf], np.float32)
    check("isnan", [x])
    for signs in ((1, 1), (1, 0), (0, 1)):
        check("isinf", [x], {"detect_negative": signs[0], "detect_positive": signs[1]})


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bits(name: str) -> None:
    check(name, [np.array([5, -3, 12]), np.array([3, 9, 10])])


def test_bitwise_not_and_shifts() -> None:
    check("bitwise_not", [np.array([5, -3], np.int32)])
    for direction in ("LEFT", "RIGHT"):
        check("bit_shift", [np.array([16, 4, 1], np.uint8)] * 2, {"direction": direction}, formula=False)


@pytest.mark.parametrize("to", ["FLOAT16", "DOUBLE", "INT64", "INT8", "BOOL", "BFLOAT16"])
def test_cast_of_floats(to: str) -> None:
    code = onnx.TensorProto.DataType.Value(to)
    # The formula of a cast to a narrower float is the number itself: equal up to that float's rounding.
    check("cast", [random(2, 5)], {"to": code}, rtol=1e-2)


def test_cast_of_others() -> None:
    check("cast", [A], {"to": onnx.TensorProto.FLOAT})
    check("cast", [X.astype(np.int32)], {"to": onnx.TensorProto.FLOAT})
    check("cast", [X.astype(np.int32)], {"to": onnx.TensorProto.BOOL})
    check("cast_like", [X, np.array(1)], formula=False)


def test_cast_of_sizes_keeps_them_whole_numbers() -> None:
    sizes = np.array([N, 3], dtype=object)
    call = Run(
        {"to": onnx.TensorProto.INT64, "saturate": 1, "round_mode": "up"},
        (sizes,), (TensorType("i64", (2,)),), (None,),
    )  # fmt: skip
    assert OPS["cast"].run(call, Floats())[0] is sizes
    with pytest.raises(ProgramError, match="symbolic sizes have no value as bool"):
        OPS["cast"].run(Run({**call.attrs, "to": 9}, call.inputs, call.types, (None,)), Floats())


@pytest.mark.parametrize(("source", "target"), [("f32", "string"), ("string", "i64")])
def test_text_is_not_claimed(source: str, target: str) -> None:
    """ONNX Runtime writes 1, NaN and INF, the standard's reference 1.0, nan and inf."""
    types = (TensorType(source, (2,)), TensorType(target, ()))
    for name in ("cast", "cast_like"):
        attrs = {
            **OPS[name].attributes,
            "to": getattr(onnx.TensorProto, {"i64": "INT64"}.get(target, "STRING")),
        }
        assert OPS[name].accepts(Typed(attrs, types, (None, None)))


def test_cast_saturates_to_small_floats() -> None:
    attrs = {"to": onnx.TensorProto.FLOAT8E4M3FN, "saturate": 1, "round_mode": "up"}
    call = Run(attrs, (np.array([1e6], np.float32),), (TensorType("f32", (1,)),), (None,))
    assert OPS["cast"].run(call, Floats())[0] == np.array([448], ml_dtypes.float8_e4m3fn)
