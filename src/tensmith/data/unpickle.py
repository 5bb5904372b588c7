"""Reads the pickle files that datasets are published in, without ever running what they say.

A pickle is a program for a stack machine, and Python's own loader calls whatever function it names. Here
`pickletools.genops` only splits the file into instructions, and the few that build numbers, strings, lists,
dicts and NumPy arrays are carried out by the small machine below. Everything else is refused by name.
"""

from __future__ import annotations

import math
import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from tensmith.data.dataset import Array
from tensmith.errors import DataError

_NUMPY_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray")
_BUFFER_MODULES = ("numpy.core.numeric", "numpy._core.numeric")
_SPARE_BYTES = 1 << 20
_DTYPES = {f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)} | {"f2", "f4", "f8", "b1"}


class _Refused(Exception):
    """The file holds something that no data file needs."""


@dataclass
class _DType:
    """A NumPy dtype under construction: its code ("u1"), then its byte order."""

    code: str
    order: Literal["<", ">", "|", "="] = "="


@dataclass
class _ArrayBox:
    """An array under construction: NumPy pickles create it empty and fill it later."""

    value: Array | None = None


@dataclass
class _Machine:
    """The stack machine: `marks` are stack heights, `memo` the values stored for reuse.

    left: how many bytes strings may still be turned into, which values stored for reuse are each time.
    """

    left: int
    stack: list[Any] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def since_mark(self) -> list[Any]:
        height = self.marks.pop()
        items = self.stack[height:]
        del self.stack[height:]
        return items

    def pop(self, count: int) -> list[Any]:
        if count > len(self.stack):
            raise _Refused("more values taken than there are")
        items = self.stack[-count:]
        del self.stack[-count:]
        return items

    def encoded(self, text: str) -> bytes:
        """The bytes that stand in a string, one a character."""
        self.left -= len(text)
        if self.left < 0:
            raise _Refused("it makes far more bytes than it has")
        return text.encode("latin-1")


def load_arrays(data: bytes, where: str) -> dict[str, Any]:
    """The dictionary that a pickle file holds: keys as str, arrays as NumPy, everything else as it is.

    Python 2 strings come as str, one character a byte. Raises DataError for any other content.
    """
    machine = _Machine(_SPARE_BYTES + 2 * len(data))
    try:
        for opcode, argument, _ in pickletools.genops(data):
            _step(machine, opcode.name, argument)
        (result,) = machine.stack
    except (_Refused, ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError) as error:
        raise DataError(
            f"{where} is not a plain pickle of arrays ({error}); get the file again, or save it as .npz"
        ) from error
    if not isinstance(result, dict):
        raise DataError(
            f"{where} holds a {type(result).__name__}, not a dictionary of arrays; get the file again"
        )
    return {_key(key): item.value if isinstance(item, _ArrayBox) else item for key, item in result.items()}


def _key(key: object) -> str:
    return key.decode("latin-1") if isinstance(key, bytes) else str(key)


_INTEGERS = {"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"}
_FLOATS = {"FLOAT", "BINFLOAT"}
_STRINGS = {
    "STRING",
    "BINSTRING",
    "SHORT_BINSTRING",
    "UNICODE",
    "BINUNICODE",
    "SHORT_BINUNICODE",
    "BINUNICODE8",
}
_BYTES = {"BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"}
_CONSTANTS = _INTEGERS | _FLOATS | _STRINGS | _BYTES
_FIXED: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
}
_COLLECTED: dict[str, Callable[[list[Any]], Any]] = {
    "TUPLE": tuple,
    "LIST": list,
    "DICT": lambda items: _filled({}, items),
}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def _step(machine: _Machine, name: str, argument: Any) -> None:
    """Carries out one instruction."""
    stack = machine.stack
    if name in ("PROTO", "FRAME", "STOP"):
        return
    if name in _CONSTANTS:
        stack.append(argument)
    elif name in _FIXED:
        stack.append(_FIXED[name]())
    elif name == "MARK":
        machine.marks.append(len(stack))
    elif name in _COLLECTED:
        stack.append(_COLLECTED[name](machine.since_mark()))
    elif name in _TUPLES:
        stack.append(tuple(machine.pop(_TUPLES[name])))
    elif name in ("APPEND", "SETITEM"):
        items = machine.pop(1 if name == "APPEND" else 2)
        _filled(stack[-1], items)
    elif name in ("APPENDS", "SETITEMS"):
        items = machine.since_mark()
        _filled(stack[-1], items)
    elif name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
        machine.memo[len(machine.memo) if name == "MEMOIZE" else argument] = stack[-1]
    elif name in ("GET", "BINGET", "LONG_BINGET"):
        stack.append(machine.memo[argument])
    elif name == "GLOBAL":
        stack.append(_constructor(*argument.split(" ", 1)))
    elif name == "STACK_GLOBAL":
        stack.append(_constructor(*machine.pop(2)))
    elif name == "REDUCE":
        function, arguments = machine.pop(2)
        stack.append(_called(machine, function, arguments))
    elif name == "BUILD":
        (state,) = machine.pop(1)
        _built(machine, stack[-1], state)
    else:
        raise _Refused(f"instruction {name}")


def _filled(target: Any, items: list[Any]) -> Any:
    """Adds `items` to a list, or key, value, key, value, ... to a dict."""
    if isinstance(target, list):
        target.extend(items)
    elif isinstance(target, dict):
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | bytes | int):
                raise _Refused(f"a dictionary key of type {type(key).__name__}")
            target[key] = value
    else:
        raise _Refused(f"items added to a {type(target).__name__}")
    return target


@dataclass(frozen=True)
class _Constructor:
    """One of the functions a pickled array names; `ndarray` is only ever handed on as an argument."""

    name: str


def _constructor(module: object, name: object) -> _Constructor:
    known = {
        "_reconstruct": _NUMPY_MODULES,
        "ndarray": ("numpy",),
        "dtype": ("numpy",),
        "_frombuffer": _BUFFER_MODULES,
        "encode": ("_codecs",),
        "bytes": ("__builtin__",),
    }
    if not isinstance(name, str) or module not in known.get(name, ()):
        raise _Refused(f"it names {module}.{name}")
    return _Constructor(name)


def _called(machine: _Machine, function: Any, arguments: Any) -> Any:
    match function, arguments:
        case _Constructor("_reconstruct"), (_Constructor("ndarray"), *_):
            return _ArrayBox()
        case _Constructor("dtype"), (str(code), *_) if code in _DTYPES:
            return _DType(code)
        case _Constructor("_frombuffer"), (bytes() | bytearray() as data, _DType() as dtype, shape, order):
            return _ArrayBox(_array(shape, dtype, order == "F", data))
        case _Constructor("encode"), (str(text), "latin1"):  # how Python 3 writes bytes for Python 2
            return machine.encoded(text)
        case _Constructor("bytes"), ():  # and empty ones
            return b""
    raise _Refused(f"a call of {getattr(function, 'name', type(function).__name__)} with other arguments")


def _built(machine: _Machine, target: Any, state: Any) -> None:
    match target, state:
        case _DType(), (int(), "<" | ">" | "|" | "=" as order, *_):
            target.order = order
        case _ArrayBox(), (int(), shape, _DType() as dtype, fortran, str() | bytes() as data):
            raw = machine.encoded(data) if isinstance(data, str) else data
            target.value = _array(shape, dtype, bool(fortran), raw)
        case _:
            raise _Refused(f"a state set on a {type(target).__name__}")


def _array(shape: Any, dtype: _DType, fortran: bool, raw: bytes | bytearray) -> Array:
    if not isinstance(shape, tuple) or not all(isinstance(size, int) and size >= 0 for size in shape):
        raise _Refused("an array without a shape")
    numpy_dtype = np.dtype(dtype.code).newbyteorder(dtype.order)
    if math.prod(shape) * numpy_dtype.itemsize != len(raw):
        raise _Refused(f"an array of shape {shape} in {len(raw)} bytes")
    return np.frombuffer(raw, numpy_dtype).reshape(shape, order="F" if fortran else "C")
