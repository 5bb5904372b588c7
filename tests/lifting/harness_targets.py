"""Emitted code of each target, loaded and called the way its users would.

A target takes the arguments by parameter and gives the outputs in the order of the contract as NumPy arrays;
it raises `ValueError` where a requirement is not met. ONNX models state requirements and cannot check them.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from harness_native import address

from tensmith.formula.poly import Poly
from tensmith.formula.types import MachineType
from tensmith.lifting.lifted import Lifted
from tensmith.lifting.loops import Array
from tensmith.lifting.second.cell import Fields
from tensmith.lifting.second.inputs import evaluated
from tensmith.lifting.second.values import dtype, flat, folded


def known(values: Mapping[str, Any]) -> dict[str, int]:
    """Integer parameters and lengths of arrays."""
    found = {name: int(value) for name, value in values.items() if isinstance(value, int)}
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            found |= {f"len({name}, {axis})": extent for axis, extent in enumerate(value.shape)}
    return found


class Loaded(ABC):
    """A lifted function, ready to be called."""

    needs: ClassVar[str] = ""  # the package it runs in
    guards: ClassVar[bool] = True  # whether it can refuse an input
    python: ClassVar[bool] = False  # whether arguments may be None

    def __init__(self, lifted: Lifted, folder: Path) -> None:
        self.lifted, self.folder = lifted, folder
        self.name = lifted.function.name

    @abstractmethod
    def __call__(self, arguments: Mapping[str, Any]) -> list[Any]:
        """The outputs."""

    def again(self, values: Mapping[str, Any]) -> list[Any]:
        """The outputs, for values by field, where many of the same sizes and scalars follow."""
        return self(folded(values))

    def ready(self, arguments: Mapping[str, Any]) -> Callable[[], Any]:
        """A call to be timed: arguments converted, the result waited for."""
        return lambda: self(arguments)

    @classmethod  # noqa: B027
    def prepare(cls, names: Sequence[str], folder: Path) -> None:
        """Whatever is done once for all the functions of a folder."""

    @classmethod
    def missing(cls) -> bool:
        """Whether its package is not installed."""
        return bool(cls.needs) and importlib.util.find_spec(cls.needs) is None


class PythonModule(Loaded):
    """F.py; arguments go as the library's own arrays."""

    python = True

    def __init__(self, lifted: Lifted, folder: Path) -> None:
        super().__init__(lifted, folder)
        path = folder / f"{self.name}.py"
        names: dict[str, Any] = {"__name__": f"emitted_{self.name}"}
        exec(compile(path.read_text(), str(path), "exec"), names)
        self.function = names[self.name]

    def give(self, value: Any) -> Any:
        """An array as the library's users pass it."""
        return value

    def take(self, value: Any) -> Any:
        """A result as a NumPy array."""
        return np.asarray(value)

    def wait(self, result: Any) -> None:
        """Until the result is there, where calls return before."""

    def __call__(self, arguments: Mapping[str, Any]) -> list[Any]:
        with np.errstate(all="ignore"):
            found = self.function(*self.given(arguments))
        return self.taken(found)

    def taken(self, found: Any) -> list[Any]:
        """Results as NumPy arrays."""
        return [self.take(part) for part in (found if isinstance(found, tuple) else (found,))]

    def ready(self, arguments: Mapping[str, Any]) -> Callable[[], Any]:
        given = self.given(arguments)

        def run() -> Any:
            result = self.function(*given)
            self.wait(result)
            return result

        return run

    def given(self, arguments: Mapping[str, Any]) -> list[Any]:
        """The arguments as the library's own."""

        def one(value: Any) -> Any:
            if isinstance(value, Fields):
                return Fields((name, one(part)) for name, part in value.items())
            return self.give(value) if isinstance(value, np.ndarray) else value

        return [one(value) for value in arguments.values()]


class Numpy(PythonModule):
    """NumPy."""


class Torch(PythonModule):
    """PyTorch on the processor."""

    needs = "torch"

    def give(self, value: Any) -> Any:
        import torch

        return torch.from_numpy(value)

    def take(self, value: Any) -> Any:
        return value.numpy() if hasattr(value, "numpy") else np.asarray(value)


class Traced(PythonModule):
    """A library that compiles functions for the sizes and scalars of their first call."""

    def __init__(self, lifted: Lifted, folder: Path) -> None:
        super().__init__(lifted, folder)
        self.compiled: dict[Any, Callable[..., Any]] = {}

    @abstractmethod
    def compile(self, function: Callable[..., Any], given: Sequence[Any]) -> Callable[..., Any]:
        """A function of arrays compiled for the types and shapes of these."""

    def again(self, values: Mapping[str, Any]) -> list[Any]:
        arrays = {n: v for n, v in values.items() if isinstance(v, np.ndarray)}
        fixed = {n: v for n, v in values.items() if n not in arrays}
        key = (*fixed.items(), *(array.shape for array in arrays.values()))
        given = [self.give(array) for array in arrays.values()]
        if key not in self.compiled:

            def function(*parts: Any) -> Any:
                filled = {**fixed, **dict(zip(arrays, parts))}
                return self.function(*folded({name: filled[name] for name in values}).values())

            self.compiled[key] = self.compile(function, given)
        return self.taken(self.compiled[key](*given))


class Tensorflow(Traced):
    """TensorFlow on the processor."""

    needs = "tensorflow"

    @classmethod
    def prepare(cls, names: Sequence[str], folder: Path) -> None:
        import tensorflow

        with contextlib.suppress(RuntimeError):  # it has run already, with as many threads as it has
            tensorflow.config.threading.set_inter_op_parallelism_threads(1)
            tensorflow.config.threading.set_intra_op_parallelism_threads(1)

    def compile(self, function: Callable[..., Any], given: Sequence[Any]) -> Callable[..., Any]:
        import tensorflow

        found: Callable[..., Any] = tensorflow.function(function, autograph=False).get_concrete_function(
            *given
        )
        return found

    def give(self, value: Any) -> Any:
        import tensorflow

        return tensorflow.constant(value)

    def take(self, value: Any) -> Any:
        return value.numpy() if hasattr(value, "numpy") else np.asarray(value)


class Jax(Traced):
    """JAX on the processor, with 64-bit types."""

    needs = "jax"

    def __init__(self, lifted: Lifted, folder: Path) -> None:
        super().__init__(lifted, folder)
        import jax

        jax.config.update("jax_enable_x64", True)

    def give(self, value: Any) -> Any:
        import jax

        return jax.numpy.asarray(value)

    def compile(self, function: Callable[..., Any], given: Sequence[Any]) -> Callable[..., Any]:
        import jax

        found: Callable[..., Any] = jax.jit(function)
        return found

    def wait(self, result: Any) -> None:
        import jax

        jax.block_until_ready(result)


class Mlx(PythonModule):
    """MLX on the processor."""

    needs = "mlx"

    def give(self, value: Any) -> Any:
        import mlx.core

        mlx.core.set_default_device(mlx.core.cpu)
        kind = "bool_" if value.dtype == bool else value.dtype.name
        return mlx.core.array(value, getattr(mlx.core, kind))  # doubles would be halved

    def wait(self, result: Any) -> None:
        import mlx.core

        mlx.core.eval(result)

    def take(self, value: Any) -> Any:
        return np.array(value)


class C(Loaded):
    """F.c and F.h, compiled; arrays are passed as in the header: pointer and lengths, then where to write."""

    FLAGS: ClassVar[tuple[str, ...]] = ("-std=c11", "-O1", "-w")

    @classmethod
    def prepare(cls, names: Sequence[str], folder: Path) -> None:
        sources = [folder / f"{name}.c" for name in names if (folder / f"{name}.c").exists()]
        if sources:
            command = ["gcc", *cls.FLAGS, "-shared", "-fPIC", *sources, "-o", folder / "all.so", "-lm"]
            subprocess.run(command, check=True)

    def __init__(self, lifted: Lifted, folder: Path) -> None:
        super().__init__(lifted, folder)
        self.fields = [
            (name, None, np.ctypeslib.as_ctypes_type(dtype(kind)))
            if isinstance(kind, MachineType)
            else (name, dtype(kind.element), None)
            for name, kind in lifted.function.fields
        ]
        self.function = getattr(ctypes.CDLL(str(folder / "all.so")), self.name)
        self.written = {o.view.array for o in lifted.outputs if o.view is not None}

    def __call__(self, arguments: Mapping[str, Any]) -> list[Any]:
        values = flat(self.lifted.function, arguments)
        passed: list[Any] = []
        kept: dict[str, Any] = {}
        for name, element, number in self.fields:
            if number is not None:
                passed.append(number(values[name]))
                continue
            array = np.ascontiguousarray(values[name], element)
            kept[name] = array
            passed += [ctypes.c_void_p(address(array)), *map(ctypes.c_size_t, array.shape)]
        results = []
        for name in kept:
            if name in self.written:
                results.append(np.full_like(kept[name], 99))
                passed.append(ctypes.c_void_p(address(results[-1])))
        for output in self.lifted.outputs:
            if output.view is None:
                results.append(np.zeros(self.shape(output.name, values), dtype(output.type)))
                passed.append(ctypes.c_void_p(address(results[-1])))
                passed += [ctypes.c_size_t(results[-1].size)] if results[-1].ndim else []
        if self.function(*passed):
            raise ValueError(f"{self.name}: a requirement is not met")
        return results

    def shape(self, name: str, values: Mapping[str, Any]) -> tuple[int, ...]:
        """Extents of what is returned."""
        dims = self.lifted.program.type(name).dims
        return tuple(evaluated(self.lifted, Poly.of(extent), known(values)) for extent in dims)


class Onnx(Loaded):
    """F.onnx in ONNX Runtime."""

    needs = "onnxruntime"
    guards = False

    def __init__(self, lifted: Lifted, folder: Path) -> None:
        super().__init__(lifted, folder)
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        content = (folder / f"{self.name}.onnx").read_bytes()
        self.session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        taken = {entry.name for entry in self.session.get_inputs()}
        kinds = {n: k.element if isinstance(k, Array) else k for n, k in lifted.function.fields}
        self.types = {name: dtype(kind) for name, kind in kinds.items() if name in taken}

    def __call__(self, arguments: Mapping[str, Any]) -> list[Any]:
        values = flat(self.lifted.function, arguments)
        given = {name: np.asarray(values[name], type_) for name, type_ in self.types.items()}
        return list(self.session.run(None, given))


TARGETS: dict[str, type[Loaded]] = {
    "numpy": Numpy,
    "torch": Torch,
    "c": C,
    "onnx": Onnx,
    "tensorflow": Tensorflow,
    "jax": Jax,
    "mlx": Mlx,
}
