"""Operands that are read beside the one whose shape the result has: other sizes than its axes are refused."""

from __future__ import annotations

from typing import Any

import pytest

from tensmith.errors import ProgramError
from tensmith.ir.op import OPS, Typed
from tensmith.ir.types import TensorType

IMAGES, FILTERS = "u8[2,4,6,6]", "u8[6,4,3,3]"


def infer(name: str, operands: str, attrs: dict[str, Any]) -> None:
    types = []
    for word in operands.split():
        dtype, sizes = word.rstrip("]").split("[")
        types.append(TensorType(dtype, tuple(int(size) for size in sizes.split(",") if size)))
    OPS[name].infer(Typed({**OPS[name].attributes, **attrs}, tuple(types), (None,) * len(types)))


@pytest.mark.parametrize(
    ("name", "right", "wrong", "attrs"),
    [
        ("gemm", "f32[3,5] f32[5,4] f32[3,1]", "f32[3,5] f32[5,4] f32[18,4]", {}),
        ("gemm", "f32[1,5] f32[5,4] f32[4]", "f32[1,5] f32[5,4] f32[3,4]", {}),
        ("conv", "f32[1,4,5,5] f32[4,2,3,3] f32[4]", "f32[1,4,5,5] f32[4,2,3,3] f32[3]", {"group": 2}),
        ("conv", "f32[1,4,5,5] f32[6,2,3,3]", "f32[1,4,5,5] f32[3,2,3,3]", {"group": 2}),
        ("conv_transpose", "f32[1,4,5,5] f32[4,2,3,3]", "f32[1,3,5,5] f32[3,2,3,3]", {"group": 2}),
        (
            "conv_transpose",
            "f32[1,4,5,5] f32[4,2,3,3] f32[4]",
            "f32[1,4,5,5] f32[4,2,3,3] f32[2]",
            {"group": 2},
        ),
        ("matmul_integer", "u8[4,3] u8[3,2] u8[4] u8[2]", "u8[4,3] u8[3,2] u8[2]", {}),
        ("matmul_integer", "u8[4,3] u8[3,2] u8[1] u8[]", "u8[4,3] u8[3,2] u8[] u8[18]", {}),
        (
            "q_linear_matmul",
            "u8[4,3] f32[] u8[] u8[3,2] f32[2] u8[2] f32[1] u8[]",
            "u8[4,3] f32[] u8[] u8[3,2] f32[9] u8[2] f32[1] u8[]",
            {},
        ),
        (
            "q_linear_matmul",
            "u8[3] f32[] u8[1] u8[3,2] f32[] u8[] f32[] u8[]",
            "u8[3] f32[] u8[3] u8[3,2] f32[] u8[] f32[] u8[]",
            {},
        ),
        ("conv_integer", f"{IMAGES} {FILTERS} u8[1] u8[6]", f"{IMAGES} {FILTERS} u8[2] u8[6]", {}),
        ("conv_integer", f"{IMAGES} {FILTERS} u8[]", f"{IMAGES} {FILTERS} u8[] u8[5]", {}),
        (
            "q_linear_conv",
            f"{IMAGES} f32[] u8[] {FILTERS} f32[6] u8[6] f32[] u8[] i32[6]",
            f"{IMAGES} f32[] u8[] {FILTERS} f32[6] u8[6] f32[] u8[] i32[5]",
            {},
        ),
        ("instance_normalization", "f32[2,4,5] f32[4] f32[4]", "f32[4] f32[4] f32[4]", {}),
        ("reverse_sequence", "f32[4,3] i64[3]", "f32[4,3] i64[4]", {}),
        ("reverse_sequence", "f32[4,3] i64[4]", "f32[4] i64[4]", {"time_axis": 1, "batch_axis": 0}),
        ("trilu", "f32[3,4] i64[]", "f32[3,4] i64[0]", {}),
        ("trilu", "f32[3,4] i64[1]", "f32[4] i64[1]", {}),
        ("lrn", "f32[3,4,5]", "f32[4]", {"size": 3}),
        ("eye_like", "f32[3,4]", "f32[3]", {}),
        ("rotary_embedding", "f32[1,2,3,4] f32[9,2] f32[9,2]", "f32[1,2,3,4,5] f32[9,2] f32[9,2]", {}),
        ("expand", "f32[3,1] i64[2]", "f32[3,1] i64[]", {}),
        ("reshape", "f32[3,1] i64[2]", "f32[3,1] i64[1,2]", {}),
    ],
)
def test_other_sizes_are_refused(name: str, right: str, wrong: str, attrs: dict[str, Any]) -> None:
    infer(name, right, attrs)
    with pytest.raises(ProgramError):
        infer(name, wrong, attrs)
