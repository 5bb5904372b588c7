"""Loading what an emitter wrote, so that it can be called here: Python modules, C libraries, ONNX models.

Only text that tensmith itself emitted is ever run; the lifted file is not.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.errors import EngineError, TensmithError
from tensmith.formula.poly import Poly
from tensmith.formula.types import MachineType
from tensmith.kernel.toolchain import find_compiler, has_compiler, run_compiler
from tensmith.lifting.lifted import Lifted
from tensmith.lifting.loops import Array, Function
from tensmith.lifting.runnable import MODULES
from tensmith.lifting.second.inputs import evaluated
from tensmith.lifting.second.values import dtype, flat, is_flat
from tensmith.lifting.summary import length_symbol

Callee = Callable[..., Any]

_COMPILE = ("-std=c11", "-O3", "-march=native", "-shared", "-fPIC", "-w")


def installed(target: str) -> bool:
    """Whether the target's output can run here."""
    if target == "c":
        return has_compiler()
    module = MODULES.get(target)
    return module is not None and importlib.util.find_spec(module) is not None


def load(target: str, lifted: Lifted, files: Mapping[str, bytes]) -> Callee:
    """The emitted function as a callable of the source's parameters, in order.

    Python targets take and return what their emitters say; C and ONNX take and return NumPy arrays. Raises
    EngineError where the target cannot run here, ValueError from a call that a guard refuses.
    """
    if not installed(target):
        raise EngineError(f"{target} cannot run here; install it, or choose another --to")
    name = lifted.function.name
    if target == "c":
        return LiftedLibrary(lifted, files)
    if target == "onnx":
        return _model(lifted, files[f"{name}.onnx"])
    return _module(name, files[f"{name}.py"], target)


def _module(name: str, text: bytes, target: str) -> Callee:
    space: dict[str, Any] = {"__name__": f"tensmith.lifted.{target}.{name}"}
    exec(compile(text, f"<{name} by tensmith for {target}>", "exec"), space)
    function: Callee = space[name]
    return function


def fields(function: Function, arguments: Sequence[Any]) -> dict[str, Any]:
    """The argument of every scalar and array, the fields of structs one by one."""
    names = [parameter.name for parameter in function.parameters]
    return flat(function, dict(zip(names, arguments, strict=True)))


def _array(name: str, value: Any, type_: MachineType | Array) -> np.ndarray[Any, Any]:
    """The argument in the source's type. Raises ValueError where an integer or its shape would change."""
    element, rank = (type_.element, type_.axes) if isinstance(type_, Array) else (type_, 0)
    wanted = dtype(element)
    given = np.asarray(value, wanted if wanted.kind == "f" and not rank else None)
    if given.dtype == object:
        raise ValueError(f"{name} is no {'array of numbers' if rank else 'number'}")
    with np.errstate(invalid="ignore"):
        array = np.asarray(given, wanted, order="C")
    if given.dtype != wanted and wanted.kind != "f" and not np.array_equal(given, array):
        raise ValueError(f"{name} holds values that {wanted} does not")
    if is_flat(type_):
        return array.reshape(-1)
    if array.size == 0 and array.ndim < rank:
        array = array.reshape(array.shape + (0,) * (rank - array.ndim))
    if array.ndim != rank:
        raise ValueError(f"{name} must have {rank} axes, not {array.ndim}")
    return array


class LiftedLibrary:
    """F.c compiled, and called by its contract: lengths after arrays, then places for what is written."""

    def __init__(self, lifted: Lifted, files: Mapping[str, bytes]) -> None:
        self.lifted = lifted
        name = lifted.function.name
        folder = Path(tempfile.mkdtemp(prefix="tensmith-lift-"))
        self._removed = weakref.finalize(self, shutil.rmtree, folder, True)
        for file, content in files.items():
            (folder / file).write_bytes(content)
        library = folder / f"{name}.so"
        command = (*find_compiler().command, *_COMPILE, f"{name}.c", "-o", str(library), "-lm")
        try:
            run_compiler(command, str(folder))
        except TensmithError:
            self._removed()
            raise
        declared = re.search(r"^int (\w+)\(", files[f"{name}.h"].decode(), re.MULTILINE)
        assert declared is not None, "the header declares the function, where C leaves it its name"
        loaded = ctypes.CDLL(str(library))
        self._entry, self._requirement = (loaded[declared[1] + end] for end in ("", "_requirement"))
        self._requirement.restype = ctypes.c_char_p

    def __call__(self, *arguments: Any) -> Any:
        return self.prepared(*arguments)()

    def prepared(self, *arguments: Any) -> Callable[[], Any]:
        """A call that may be repeated, with memory for its results, the same each time, as C's callers do."""
        lifted = self.lifted
        passed: list[Any] = []
        outputs: list[Any] = []
        given = fields(lifted.function, arguments)
        known: dict[str, int] = {}  # integer parameters, and lengths of arrays
        for name, type_ in lifted.function.fields:
            if isinstance(type_, Array):
                array = given[name] = _array(name, given[name], type_)
                passed += [_address(array), *map(ctypes.c_size_t, array.shape)]
                known |= {length_symbol(name, axis): size for axis, size in enumerate(array.shape)}
                continue
            number = _array(name, given[name], type_).item()
            passed.append(np.ctypeslib.as_ctypes_type(dtype(type_))(number))
            if type_.kind == "int":
                known[name] = number
        for name in lifted.written:
            outputs.append(np.empty_like(given[name]))
            passed.append(_address(outputs[-1]))
        for result in lifted.returned.values():
            extents = lifted.program.type(result.name).dims
            shape = [evaluated(lifted, Poly.of(extent), known) for extent in extents]
            outputs.append(np.empty(shape, dtype(result.type)))
            passed.append(_address(outputs[-1]))
            passed += [ctypes.c_size_t(outputs[-1].size)] if extents else []

        def run() -> Any:
            if status := self._entry(*passed):
                raise ValueError(f"{lifted.function.name} requires {self._requirement(status).decode()}")
            return outputs[0] if len(outputs) == 1 else tuple(outputs)

        return run


def _address(array: np.ndarray[Any, Any]) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)  # which keeps the array alive


def _model(lifted: Lifted, model: bytes) -> Callee:
    """An ONNX model on the CPU."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = {item.name for item in session.get_inputs()}

    def call(*arguments: Any) -> Any:
        given = fields(lifted.function, arguments)
        kinds = dict(lifted.function.fields)
        fed = {name: _array(name, given[name], kinds[name]) for name in kinds if name in names}
        outputs = session.run(None, fed)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    return call
