"""Sessions of engines that compile for fixed sizes: one compiled model for each set of sizes asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from tensmith.engine.base import Arrays, Session, kinds_of, sizes_of
from tensmith.engine.frame import Array
from tensmith.engine.signature import ModelSignature


class CompiledModel(Protocol):
    """A model of fixed sizes, ready to run, by several threads at once too."""

    def __call__(self, /, **inputs: Array) -> dict[str, Array]:
        """One inference."""

    def bind(self, inputs: dict[str, Array]) -> tuple[Callable[[], object], dict[str, Array]]:
        """(a call that repeats one inference, the arrays in which it leaves its answers)."""


Build = Callable[[Mapping[str, int]], CompiledModel]


class SizedSession(Session):
    """Compiles what `build` gives for the sizes of the inputs, at first use."""

    def __init__(self, signature: ModelSignature, build: Build) -> None:
        self.inputs, self.outputs = signature.inputs, signature.outputs
        self.operators = signature.operators
        self._build = build
        self._models: dict[tuple[tuple[str, int], ...], CompiledModel] = {}
        self._takes: dict[object, CompiledModel] = {}  # the model that takes inputs of known kinds
        self._building = threading.Lock()

    def load(self, sizes: Mapping[str, int]) -> CompiledModel:
        """The model for these sizes."""
        key = tuple(sorted(sizes.items()))
        model = self._models.get(key)
        if model is None:
            with self._building:  # once, and not by every thread that waits for it
                model = self._models.get(key) or self._build(sizes)
                self._models[key] = model
        return model

    def run(self, inputs: Arrays) -> dict[str, Array]:
        kinds = kinds_of(inputs)
        model = self._takes.get(kinds)
        if model is None:
            model = self._takes[kinds] = self.load(sizes_of(self.inputs, inputs))
        return model(**inputs)

    def bind(self, inputs: Arrays) -> Callable[[], object]:
        step, _ = self.load(sizes_of(self.inputs, inputs)).bind(dict(inputs))
        return step

    def close(self) -> None:
        self._models.clear()
        self._takes.clear()


def opened(signature: ModelSignature, build: Build, sizes: Mapping[str, int] | None) -> SizedSession:
    """A session that has compiled for `sizes`, and for 1 where they say nothing."""
    given = sizes or {}
    session = SizedSession(signature, build)
    symbols = {d for spec in signature.inputs for d in spec.shape or () if isinstance(d, str)}
    session.load({symbol: given.get(symbol, 1) for symbol in sorted(symbols)})
    session.samples = next((given.get(str(s.shape[0]), 1) for s in signature.inputs if s.shape), None)
    return session
