"""Arrays in the text form: literals that read back to the same bits, hashes, and base64."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir.types import TensorType

_LITERAL_SIZE = 8


def literal(array: Array) -> str | None:
    """The elements as nested lists; None where that would be long or not give the same bits back."""
    if array.dtype == object:
        return _nested(array.tolist())
    if array.size > _LITERAL_SIZE or array.dtype.kind == "c":
        return None
    nested = _shortest(array).tolist()
    same = array_bytes_of(literal_array(nested, TensorType.of(array))) == array_bytes_of(array)
    return _nested(nested) if same else None


def _shortest(array: Array) -> Array:
    """The elements as bool, integers or float64; float32 by its own shortest decimals."""
    if array.dtype.kind in "iub":
        return array
    if TensorType.of(array).dtype[0] in "iu":
        return array.astype(np.int64)
    if array.dtype != np.float32:
        numbers = array.astype(np.float64)
        return np.where(np.isnan(numbers), np.nan, numbers)  # a literal says of a NaN no more
    decimals = [float(str(item)) for item in array.reshape(-1)]
    return np.array(decimals, np.float64).reshape(array.shape)


def _nested(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_nested, value))}]"
    return json.dumps(value) if isinstance(value, str) else number(value)


def number(value: Any) -> str:
    """A scalar: floats always have a point, an exponent, or are inf or nan."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    return repr(float(value)) if isinstance(value, (float, np.floating)) else str(int(value))


def literal_array(nested: Any, type_: TensorType) -> Array:
    """The array of a parsed literal. Raises ProgramError if its nesting or elements are not of `type_`."""
    shape = type_.static
    if shape is None:
        raise ProgramError(f"a constant must have a static shape, not {type_}")
    items = list(_flat(nested, shape, type_))
    if type_.dtype == "string":
        array = np.empty(len(items), dtype=object)
        array[:] = items
        return array.reshape(shape)
    try:
        if type_.floating:
            return np.array(items, np.float64).astype(type_.numpy).reshape(shape)
        if type_.numpy.kind in "iub":
            return np.array(items, type_.numpy).reshape(shape)
        return np.array(items, np.int64).astype(type_.numpy).reshape(shape)
    except (OverflowError, TypeError, ValueError) as error:
        raise ProgramError(f"the literal does not fit {type_}: {error}") from error


def _flat(nested: Any, shape: tuple[int, ...], type_: TensorType) -> Iterator[Any]:
    if not shape:
        if isinstance(nested, list) or isinstance(nested, str) != (type_.dtype == "string"):
            raise ProgramError(f"the literal is not nested as {type_}")
        yield nested
        return
    if not isinstance(nested, list) or len(nested) != shape[0]:
        raise ProgramError(f"the literal is not nested as {type_}")
    for item in nested:
        yield from _flat(item, shape[1:], type_)


def array_bytes_of(array: Array) -> memoryview:
    """The bytes of an array in row-major order: a view where it is contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def array_of_bytes(data: bytes, type_: TensorType) -> Array:
    """The array of those bytes. Raises ProgramError if they are not as many as `type_` takes."""
    shape = type_.static
    if shape is None or type_.dtype == "string":
        raise ProgramError(f"bytes cannot stand for {type_}")
    try:
        return np.frombuffer(data, type_.numpy).reshape(shape)
    except ValueError as error:
        raise ProgramError(f"{len(data)} bytes do not make {type_}") from error


def array_digest(array: Array) -> str:
    """SHA-256 of the type as it prints, a newline, and the row-major bytes; of strings, the literal."""
    digest = hashlib.sha256(f"{TensorType.of(array)}\n".encode())
    digest.update(_nested(array.tolist()).encode() if array.dtype == object else array_bytes_of(array))
    return digest.hexdigest()


def same_array(a: Array, b: Array) -> bool:
    """Whether two arrays have one type, one shape and the same bits; strings, the same letters."""
    if a is b or a.dtype != b.dtype or a.shape != b.shape:
        return a is b
    parts = (a, b) if a.dtype == object else map(array_bytes_of, (a, b))
    return np.array_equal(*parts)


def base64_text(data: bytes | memoryview) -> str:
    """Bytes as the text form writes them."""
    return f'base64"{base64.b64encode(data).decode()}"'
