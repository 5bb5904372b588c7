"""Types of TensIR values: an element type and a shape whose sizes may be symbolic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import ml_dtypes
import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.formula.poly import Dim, Poly, simplify_dim

Shape: TypeAlias = tuple[Dim, ...]


class UnknownType(ProgramError):
    """A type, or a rank, is asked for that is known only when the program runs."""


# TensIR's short names, in the order of NumPy's and ml_dtypes' own.
DTYPES: dict[str, np.dtype] = {
    "f64": np.dtype(np.float64), "f32": np.dtype(np.float32), "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn), "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "f8e4m3fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz), "f8e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f4e2m1": np.dtype(ml_dtypes.float4_e2m1fn), "f8e8m0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "i64": np.dtype(np.int64), "i32": np.dtype(np.int32), "i16": np.dtype(np.int16), "i8": np.dtype(np.int8),
    "i4": np.dtype(ml_dtypes.int4), "i2": np.dtype(ml_dtypes.int2),
    "u64": np.dtype(np.uint64), "u32": np.dtype(np.uint32), "u16": np.dtype(np.uint16),
    "u8": np.dtype(np.uint8),
    "u4": np.dtype(ml_dtypes.uint4), "u2": np.dtype(ml_dtypes.uint2),
    "bool": np.dtype(np.bool_), "c64": np.dtype(np.complex64), "c128": np.dtype(np.complex128),
    "string": np.dtype(object),
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
BITS: dict[str, int] = {"f4e2m1": 4, "i4": 4, "u4": 4, "i2": 2, "u2": 2, "string": 64}


def bit_fields(packed: Array, bits: int, run: int = 1) -> Array:
    """Bytes [n, m] as fields of so many bits [n, m * 8 / bits]: of each run of bytes the lowest, then the
    next ones."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    runs: Array = packed.reshape(len(packed), -1, 1, run) >> shifts & np.uint8((1 << bits) - 1)
    return runs.reshape(len(packed), -1)


def dtype_name(dtype: np.dtype) -> str:
    """TensIR's name of a NumPy element type; strings of any width are "string"."""
    if dtype.kind in "OUS":
        return "string"
    if dtype not in _NAMES:
        raise ProgramError(f"element type {dtype} has no TensIR name; convert the array first")
    return _NAMES[dtype]


@dataclass(frozen=True)
class TensorType:
    """Element type and shape. `shape` is None where not even the rank is known."""

    dtype: str
    shape: Shape | None

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ProgramError(f"unknown element type '{self.dtype}'; known: {', '.join(DTYPES)}")
        if self.shape is not None:
            object.__setattr__(self, "shape", tuple(map(simplify_dim, self.shape)))

    @staticmethod
    def of(array: Array) -> TensorType:
        """The type of an array."""
        return TensorType(dtype_name(array.dtype), array.shape)

    @property
    def numpy(self) -> np.dtype:
        """The NumPy element type."""
        return DTYPES[self.dtype]

    @property
    def floating(self) -> bool:
        """Whether elements stand for real numbers."""
        return self.dtype[0] == "f" or self.dtype == "bf16"

    @property
    def bits(self) -> int:
        """Bits an element takes when packed."""
        return BITS.get(self.dtype, self.numpy.itemsize * 8)

    @property
    def dims(self) -> Shape:
        """The shape, where the rank must be known."""
        if self.shape is None:
            raise UnknownType("a tensor of unknown rank stands where a shape is needed")
        return self.shape

    @property
    def rank(self) -> int | None:
        """Number of dimensions, None if unknown."""
        return None if self.shape is None else len(self.shape)

    @property
    def static(self) -> tuple[int, ...] | None:
        """The shape if every size is a number."""
        if self.shape is None or any(isinstance(dim, Poly) for dim in self.shape):
            return None
        return tuple(int(dim) for dim in self.shape)  # type: ignore[arg-type]

    def with_shape(self, shape: Sequence[Dim] | None) -> TensorType:
        """The same element type with another shape."""
        return TensorType(self.dtype, None if shape is None else tuple(shape))

    def with_dtype(self, dtype: str) -> TensorType:
        """The same shape with another element type."""
        return TensorType(dtype, self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{'*' if self.shape is None else ', '.join(map(str, self.shape))}]"
