"""What languages like C write differently; the rest of this room is the same for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

CTYPES = {
    "f64": "double", "f32": "float", "i64": "int64_t", "i32": "int32_t", "i16": "int16_t", "i8": "int8_t",
    "u64": "uint64_t", "u32": "uint32_t", "u16": "uint16_t", "u8": "uint8_t", "bool": "bool",
}  # fmt: skip


@dataclass(frozen=True)
class Dialect:
    """By element type: its name, how wide `literals` are written, what the `least` integer is called.

    `unsigned` is the pattern of types in which sums wrap. `index` is the type of positions. `function` stands
    before the functions of a file. If `suffixed`, the mathematical functions of floats end in f.
    """

    types: Mapping[str, str] = field(default_factory=lambda: CTYPES)
    literals: Mapping[str, str] = field(
        default_factory=lambda: {"i64": "INT64_C({})", "u64": "UINT64_C({})", "u32": "UINT32_C({})"}
    )
    least: Mapping[str, str] = field(default_factory=lambda: {"i64": "INT64_MIN", "i32": "INT32_MIN"})
    unsigned: str = "uint{}_t"
    index: str = "int64_t"
    function: str = "static inline"
    suffixed: bool = True


C = Dialect()
# C without <stdbool.h>, whose truth values are bytes in memory.
PLAIN_C = replace(C, types=CTYPES | {"bool": "uint8_t"})
# OpenCL C and CUDA C in the words of one prelude; both know functions of floats by the types of arguments.
DEVICE = Dialect(
    {
        "f32": "float", "i64": "i64", "i32": "i32", "i16": "i16", "i8": "i8", "u32": "u32", "u16": "u16",
        "u8": "u8", "bool": "u8",
    },
    {}, {"i64": "(-9223372036854775807 - 1)"}, "u{}", "int", "FUNCTION", False,
)  # fmt: skip
