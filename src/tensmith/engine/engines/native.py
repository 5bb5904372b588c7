"""Models compiled by tensmith itself: kernels chosen layer by layer, one C library, one thread.

An ONNX file is compiled when it is first loaded (engine.compiled); a folder written by the native backend is
loaded as it is. Only programs whose every node has a native kernel run here; the error names the node that
has none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import tensmith
from tensmith.backend.native import loader
from tensmith.engine import compiled
from tensmith.engine.base import Arrays, Session, check_inputs, engine, refuse, sizes_of
from tensmith.engine.signature import Signature, TensorSpec, read_signature
from tensmith.errors import EngineError
from tensmith.kernel.toolchain import has_compiler


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


@engine
class Native:
    """Setting `tuning`: "tuned" (what `tensmith tune` measured counts) or "untuned" (estimates alone).

    It computes in one thread, however many it is given.
    """

    name = compiled.NATIVE

    def missing(self) -> str | None:
        return None if has_compiler() else "no C compiler is installed: pip install 'tensmith[native]'"

    def version(self) -> str:
        return tensmith.__version__

    def start(self) -> None:
        if reason := self.missing():
            raise EngineError(reason)

    def prepare(
        self, path: Path, threads: int, *, sizes: Mapping[str, int] | None = None, **settings: str
    ) -> Session:
        tuning = settings.pop("tuning", compiled.TUNED)
        refuse(self.name, settings)
        if tuning not in (compiled.TUNED, compiled.UNTUNED):
            raise EngineError(f"native's tuning is {compiled.TUNED} or {compiled.UNTUNED}, not '{tuning}'")
        if path.is_dir():
            model = compiled.load(path)
            return NativeSession(_signature(model), lambda _: model)
        self.start()
        signature = read_signature(path)
        session = NativeSession(signature, functools.partial(compiled.compiled, path, tuning=tuning))
        symbols = {d for spec in signature.inputs for d in spec.shape or () if isinstance(d, str)}
        session.load({symbol: (sizes or {}).get(symbol, 1) for symbol in sorted(symbols)})
        session.samples = next(
            ((sizes or {}).get(str(s.shape[0]), 1) for s in signature.inputs if s.shape), None
        )
        return session


def _signature(model: loader.Model) -> Signature:
    inputs, outputs = (
        tuple(TensorSpec(spec["name"], spec["dtype"], tuple(spec["shape"])) for spec in specs)
        for specs in (model.inputs, model.outputs)
    )
    return Signature(inputs, outputs, frozenset())
