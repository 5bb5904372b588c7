"""Models compiled by tensmith itself: kernels chosen layer by layer, one C library, one thread.

An ONNX file is compiled when it is first loaded, in a process of its own, and kept in the user's cache; a
folder written by the native backend is loaded as it is. Only programs whose every node has a native kernel
run here; the error names the node that has none.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import tensmith
from tensmith.backend.native import loader
from tensmith.engine.base import (
    Arrays,
    Session,
    check_inputs,
    engine,
    first_line,
    on_request,
    refuse,
    sizes_of,
)
from tensmith.engine.signature import Signature, TensorSpec, read_signature
from tensmith.errors import EngineError, OutputError
from tensmith.files import sha256_bytes

_LONGEST_SECONDS = 1200.0
_ROOMS = ("kernel", "backend/native", "rewrite", "frontend", "ir")


class NativeSession(Session):
    """One compiled folder for each set of input sizes that was asked for."""

    def __init__(self, signature: Signature, build: Callable[[Mapping[str, int]], loader.Model]) -> None:
        self.inputs, self.outputs = signature.inputs, signature.outputs
        self.operators = signature.operators
        self._build = build
        self._models: dict[tuple[tuple[str, int], ...], loader.Model] = {}

    def load(self, sizes: Mapping[str, int]) -> loader.Model:
        """The model for these sizes, compiled at first use."""
        key = tuple(sorted(sizes.items()))
        if key not in self._models:
            self._models[key] = self._build(sizes)
        return self._models[key]

    def run(self, inputs: Arrays) -> dict[str, np.ndarray[Any, Any]]:
        return self.load(sizes_of(self.inputs, inputs))(**inputs)

    def bind(self, inputs: Arrays) -> Callable[[], object]:
        check_inputs(self.inputs, inputs)
        step, _ = self.load(sizes_of(self.inputs, inputs)).bind(dict(inputs))
        return step

    def close(self) -> None:
        self._models.clear()


@on_request
@engine
class Native:
    """No settings. It computes in one thread, however many it is given."""

    name = "native"

    def missing(self) -> str | None:
        here = any(map(shutil.which, ("cc", "gcc", "clang"))) or importlib.util.find_spec("ziglang")
        return None if here else "no C compiler is installed: pip install 'tensmith[native]'"

    def version(self) -> str:
        return tensmith.__version__

    def start(self) -> None:
        if reason := self.missing():
            raise EngineError(reason)

    def prepare(
        self, path: Path, threads: int, *, sizes: Mapping[str, int] | None = None, **settings: str
    ) -> Session:
        refuse(self.name, settings)
        self.start()
        if path.is_dir():
            model = _load(path)
            return NativeSession(_signature(model), lambda _: model)
        signature = read_signature(path)
        session = NativeSession(signature, functools.partial(compiled, path))
        symbols = {d for spec in signature.inputs for d in spec.shape or () if isinstance(d, str)}
        session.load({symbol: (sizes or {}).get(symbol, 1) for symbol in sorted(symbols)})
        return session


def compiled(path: Path, sizes: Mapping[str, int]) -> loader.Model:
    """The ONNX model at `path` for these sizes, from the cache or compiled now."""
    folder = _cache() / _key(path, sizes)
    if not folder.exists():
        _compile(path, folder, sizes)
    return _load(folder)


def _load(folder: Path) -> loader.Model:
    try:
        return loader.Model(folder)
    except loader.ModelError as error:
        raise EngineError(f"native cannot load {folder}: {error}") from error


def _compile(path: Path, folder: Path, sizes: Mapping[str, int]) -> None:
    words = [f"{name}={size}" for name, size in sizes.items()]
    command = [sys.executable, "-m", "tensmith.backend.native", str(path), str(folder), *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_LONGEST_SECONDS, stdin=subprocess.DEVNULL,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"native cannot load {path}: compiling took over {_LONGEST_SECONDS:g} s") from error
    except OSError as error:
        raise OutputError(f"native cannot start its compiler: {error.strerror}") from error
    if done.returncode != 0 and not folder.exists():  # another process may have been faster
        reason = first_line(RuntimeError(done.stderr or f"the compiler ended with {done.returncode}"))
        raise EngineError(f"native cannot load {path}: {reason}")


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tensmith" / "models"


def _key(path: Path, sizes: Mapping[str, int]) -> str:
    """What a compiled folder depends on: the file and those it names, the sizes, this CPU and this code."""
    with path.open("rb") as file:
        content = file.read()
    digest = hashlib.sha256(content)
    for sibling in sorted(path.parent.iterdir()):
        if sibling.is_file() and sibling != path and sibling.name.encode() in content:
            with sibling.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    words = [f"{name}={size}" for name, size in sorted(sizes.items())]
    flags = " ".join(sorted(loader.cpu_flags()))
    return sha256_bytes("\0".join((digest.hexdigest(), *words, flags, _code())).encode())[:40]


@functools.cache
def _code() -> str:
    """A hash of the code that compiles."""
    root = Path(tensmith.__file__).parent
    digest = hashlib.sha256(tensmith.__version__.encode())
    for room in _ROOMS:
        for source in sorted((root / room).rglob("*.py")):
            digest.update(source.read_bytes())
    return digest.hexdigest()


def _signature(model: loader.Model) -> Signature:
    inputs, outputs = (
        tuple(TensorSpec(spec["name"], spec["dtype"], tuple(spec["shape"])) for spec in specs)
        for specs in (model.inputs, model.outputs)
    )
    return Signature(inputs, outputs, frozenset())
