"""Compiles a C or C++ source as it stands and calls its functions: what emitted code is held against.

Every call goes through a shim made from the compiler's own view of the signature. Signed overflow, division
by zero, shifts too far, subscripts outside of arrays of known extent and of vectors, and floats too large for
an integer type leave the call: such inputs have no meaning in the source, and `Meaningless` says so.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.formula.types import MachineType
from tensmith.lifting.loops import Array, Function, Struct
from tensmith.lifting.second.values import CallResult, Meaningless, dtype

NATIVE = Path(__file__).resolve().parent / "native"
SANITIZE = (
    "-fsanitize=signed-integer-overflow,integer-divide-by-zero,shift,bounds,float-cast-overflow,vla-bound"
)
PROTOTYPE = re.compile(r"^/\* (.*?):\d+:NF \*/ extern (.*?)(\w+) \((.*?)\); /\*", re.MULTILINE)
CALLED = re.compile(r"\(\*\w*\) *\(")  # a pointer to a function; one to rows is passed like others
PAD = 8  # elements around every flat array that a function must leave alone
PADDING = b"\x5a"  # what their bytes are


class Slot(ctypes.Structure):
    """See native/slots.hpp."""

    _fields_ = (("data", ctypes.c_void_p), ("shape", ctypes.c_long * 3))


@functools.cache
def padding(element: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """What stands on each side of a flat array."""
    return np.frombuffer(PADDING * (PAD * element.itemsize), element)


def address(array: np.ndarray[Any, Any]) -> int:
    """Where an array's elements are; `array.ctypes` would take longer than many a call."""
    return int(array.__array_interface__["data"][0])


def thunks_c(source: Path) -> str:
    """C code with a function `call_NAME(slots, result)` for each function of a C file."""
    with tempfile.TemporaryDirectory(prefix="tensmith-thunks-") as folder:
        listing = Path(folder) / "prototypes"  # which gcc deletes where it fails
        command = ["gcc", "-fsyntax-only", "-w", "-aux-info", listing, source]
        subprocess.run(command, capture_output=True, check=True)
        listed = listing.read_text()
    lines = ['#include "guards.h"', f'#include "{source}"', "struct slot { void *data; long shape[3]; };"]
    for file, kind, name, parameters in PROTOTYPE.findall(listed):
        if file != str(source) or "..." in parameters or CALLED.search(parameters):
            continue
        given = []
        for i, parameter in enumerate(p for p in parameters.split(", ") if p != "void"):
            declared = re.sub(r"\w+$", "", parameter).strip()
            pointer = "*" in parameter or "[" in parameter
            given.append(f"slots[{i}].data" if pointer else f"*({declared} *)slots[{i}].data")
        call = f"{name}({', '.join(given)})"
        kind = kind.removeprefix("static ").strip()
        body = f"{call};" if kind == "void" else f"*({kind} *)result->data = {call};"
        lines.append(
            f"int call_{name}(struct slot *slots, struct slot *result) {{ "
            f"if (setjmp(leave_call)) return 1; {body} return 0; }}"
        )
    return "\n".join(lines) + "\n"


def thunks_cpp(source: Path, functions: Sequence[str]) -> str:
    """The same for C++, where templates read the signatures."""
    lines = ['#include "guards.h"', '#include "slots.hpp"', f'#include "{source}"']
    for name in functions:
        lines.append(f'extern "C" int call_{name}(Slot *slots, Slot *result)')
        lines.append(f"{{ return guarded(::{name}, slots, result); }}")
    return "\n".join(lines) + "\n"


CHECKED = ("-O1", "-ffp-contract=off", SANITIZE)


def build(
    source: Path, functions: Sequence[str], folder: Path, flags: Sequence[str] = CHECKED
) -> ctypes.CDLL:
    """The shared library of a source and its shims, compiled into `folder`; with other flags, unchecked."""
    source = source.resolve()
    cpp = source.suffix == ".cpp"
    text = thunks_cpp(source, functions) if cpp else thunks_c(source)
    name = f"{source.stem}_{hashlib.sha256(str(source).encode()).hexdigest()[:8]}"
    shim, library = folder / f"{name}_shim{source.suffix}", folder / f"{name}.so"
    shim.write_text(text)
    compiler = ["g++", "-std=c++17"] if cpp else ["gcc"]
    checks = ["-D_GLIBCXX_ASSERTIONS"] if SANITIZE in flags else []
    # Linked without -fsanitize: the handlers are ours.
    unit = library.with_suffix(".o")
    command = [*compiler, *flags, *checks, "-w", "-fPIC", f"-I{NATIVE}", "-c", shim, "-o", unit]
    subprocess.run(command, check=True)
    subprocess.run([compiler[0], "-shared", "-Wl,-Bsymbolic", unit, "-o", library, "-lm"], check=True)
    return ctypes.CDLL(str(library))


def compilers() -> bool:
    """Whether C and C++ can be compiled here."""
    return bool(shutil.which("gcc") and shutil.which("g++"))


class Native:
    """A function of a compiled library, called with NumPy arrays and Python scalars."""

    def __init__(self, library: ctypes.CDLL, function: Function) -> None:
        self.function = function
        self.call = getattr(library, f"call_{function.name}")
        self.flush = library.flush_subnormals

    def flushed(self, arguments: Mapping[str, Any]) -> CallResult:
        """The same where results too small for a normal float are 0, as TensorFlow and XLA have it."""
        self.flush(1)
        try:
            return self(arguments)
        finally:
            self.flush(0)

    def __call__(self, arguments: Mapping[str, Any]) -> CallResult:
        """Run on copies of the arguments ({parameter: array, number, or for structs a mapping of these})."""
        frame = Frame()
        slots = (Slot * max(1, len(self.function.parameters)))()
        for slot, parameter in zip(slots, self.function.parameters):
            frame.fill(slot, parameter.name, parameter.type, arguments[parameter.name])
        result = Slot()
        returned = np.zeros(2, "u8")
        result.data = address(returned)
        if self.call(slots, ctypes.byref(result)):
            raise Meaningless
        return CallResult(self.returned(result, returned), frame.arrays(slots))

    def prepare(self, arguments: Mapping[str, Any]) -> tuple[Callable[[], Any], Callable[[], None]]:
        """A call that may be repeated, and what restores the arrays that it changed. C only."""
        frame = Frame()
        slots = (Slot * max(1, len(self.function.parameters)))()
        for slot, parameter in zip(slots, self.function.parameters):
            frame.fill(slot, parameter.name, parameter.type, arguments[parameter.name])
        result = Slot()
        returned = np.zeros(2, "u8")
        result.data = address(returned)
        before = {name: held.copy() for name, (held, _) in frame.padded.items()}

        def run() -> Any:
            self.call(slots, ctypes.byref(result))
            return returned

        def restore() -> None:
            for name, (held, _) in frame.padded.items():
                held[:] = before[name]

        return run, restore

    def returned(self, result: Slot, plain: np.ndarray[Any, Any]) -> Any:
        kind = self.function.returns
        if kind is None:
            return None
        if isinstance(kind, MachineType):
            return plain.view(dtype(kind))[0]
        shape = tuple(result.shape[: kind.rank])
        element = dtype(kind.element)
        size = int(np.prod(shape)) * element.itemsize
        value = np.frombuffer(ctypes.string_at(result.data, size), element).reshape(shape)
        free = ctypes.CDLL(None).free
        free.argtypes = [ctypes.c_void_p]
        free(result.data)
        return value


class Frame:
    """The memory of one call, kept alive until its results are read."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.padded: dict[str, tuple[np.ndarray[Any, Any], int]] = {}
        self.nested: dict[str, tuple[int, np.ndarray[Any, Any]]] = {}

    def fill(self, slot: Slot, name: str, kind: MachineType | Array | Struct, value: Any) -> None:
        """Point a slot at a copy of a value."""
        if isinstance(kind, Struct):
            slot.data = self.struct(name, kind, value)
        elif isinstance(kind, MachineType):
            held = np.array([value], dtype(kind))
            self.kept.append(held)
            slot.data = address(held)
        elif kind.memory == "nested":
            held = np.array(value, dtype(kind.element), order="C", copy=True)
            slot.data = address(held)
            slot.shape[: held.ndim] = held.shape
            self.nested[name] = (len(self.nested), held)
        else:
            slot.data = self.flat(name, kind, value)

    def flat(self, name: str, kind: Array, value: Any) -> int:
        """The address of a copy of an array, padded on both sides."""
        array = np.asarray(value, dtype(kind.element)).reshape(-1)
        held = np.empty(array.size + 2 * PAD, array.dtype)
        held[:PAD] = held[PAD + array.size :] = padding(array.dtype)
        held[PAD : PAD + array.size] = array
        self.padded[name] = (held, array.size)
        return address(held) + PAD * array.itemsize

    def struct(self, name: str, kind: Struct, value: Mapping[str, Any]) -> int:
        """The address of a struct whose array fields are pointers."""
        members, values = [], {}
        for field, part in kind.fields:
            if isinstance(part, Array):
                members.append((field, ctypes.c_void_p))
                values[field] = self.flat(f"{name}.{field}", part, value[field])
            else:
                members.append((field, np.ctypeslib.as_ctypes_type(dtype(part))))
                values[field] = value[field]
        held = type(kind.name, (ctypes.Structure,), {"_fields_": members})(**values)
        self.kept.append(held)
        return ctypes.addressof(held)

    def arrays(self, slots: Any) -> dict[str, np.ndarray[Any, Any]]:
        """The arrays after the call; writing outside of one is an error of the inputs given."""
        found = {name: held for name, (_, held) in self.nested.items()}
        for name, (held, size) in self.padded.items():
            pad = PADDING * (PAD * held.itemsize)
            if held[:PAD].tobytes() != pad or held[PAD + size :].tobytes() != pad:
                raise AssertionError(f"the source wrote outside of {name}")
            found[name] = held[PAD : PAD + size]
        return found
