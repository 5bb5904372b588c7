"""Sessions of engines that compile for fixed sizes: a compiled model for each of the sizes used last."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from tensmith.engine.base import Arrays, Session, kinds_of, sizes_of
from tensmith.engine.frame import Array
from tensmith.engine.signature import ModelSignature


class CompiledModel(Protocol):
    """A model of fixed sizes, ready to run, by several threads at once too."""

    def __call__(self, /, **inputs: Array) -> dict[str, Array]:
        """One inference."""

    def bind(self, inputs: dict[str, Array]) -> tuple[Callable[[], object], dict[str, Array]]:
        """(a call that repeats one inference, the arrays in which it leaves its answers)."""


# Models that a session keeps: each has its own copy of the weights.
MOST_MODELS = 16

_Key: TypeAlias = tuple[tuple[str, int], ...]
Build = Callable[[Mapping[str, int]], CompiledModel]


class SizedSession(Session):
    """Compiles what `build` gives for the sizes of the inputs, at first use.

    It keeps the MOST_MODELS models used last, and compiles for other sizes again.
    """

    def __init__(self, signature: ModelSignature, build: Build) -> None:
        self.inputs, self.outputs = signature.inputs, signature.outputs
        self.operators = signature.operators
        self._build = build
        self._models: dict[_Key, CompiledModel] = {}  # those used last stand last
        self._takes: dict[object, _Key] = {}  # the sizes of inputs of known kinds
        self._building, self._ordering = threading.Lock(), threading.Lock()

    def load(self, sizes: Mapping[str, int]) -> CompiledModel:
        """The model for these sizes."""
        return self._model(_key(sizes))

    def run(self, inputs: Arrays) -> dict[str, Array]:
        kinds = kinds_of(inputs)
        key = self._takes.get(kinds)
        if key is None:
            key = self._takes[kinds] = _key(sizes_of(self.inputs, inputs))
        return self._model(key)(**inputs)

    def bind(self, inputs: Arrays) -> Callable[[], object]:
        step, _ = self.load(sizes_of(self.inputs, inputs)).bind(dict(inputs))
        return step

    def close(self) -> None:
        self._models.clear()
        self._takes.clear()

    def _model(self, key: _Key) -> CompiledModel:
        model = self._used(key)
        if model is None:
            with self._building:  # once, and not by every thread that waits for it
                model = self._used(key) or self._used(key, self._build(dict(key)))
        assert model is not None
        return model

    def _used(self, key: _Key, made: CompiledModel | None = None) -> CompiledModel | None:
        """The model kept for a key, or else `made`, which is the last one used from here on."""
        with self._ordering:
            model = self._models.pop(key, made)
            if model is not None:
                self._models[key] = model
            if len(self._models) > MOST_MODELS:
                del self._models[next(iter(self._models))]
                self._takes.clear()  # found again by what the inputs say
            return model


def _key(sizes: Mapping[str, int]) -> _Key:
    return tuple(sorted(sizes.items()))


def opened(signature: ModelSignature, build: Build, sizes: Mapping[str, int] | None) -> SizedSession:
    """A session that has compiled for `sizes`, and for 1 where they say nothing."""
    given = sizes or {}
    session = SizedSession(signature, build)
    symbols = {d for spec in signature.inputs for d in spec.shape or () if isinstance(d, str)}
    session.load({symbol: given.get(symbol, 1) for symbol in sorted(symbols)})
    session.samples = next((given.get(str(s.shape[0]), 1) for s in signature.inputs if s.shape), None)
    return session
