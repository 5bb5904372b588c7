"""Sessions of engines that compile for fixed sizes: a compiled model for each of the sizes used last."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Protocol, TypeAlias

from tensmith.engine.base import Arrays, Session, kinds_of, sizes_of
from tensmith.engine.frame import Array
from tensmith.engine.signature import ModelSignature


class CompiledModel(Protocol):
    """A model of fixed sizes, ready to run, by several threads at once too."""

    @property
    def bytes(self) -> int:
        """Of memory: its weights, and what a call needs beside them."""

    def __call__(self, /, **inputs: Array) -> dict[str, Array]:
        """One inference."""

    def bind(self, inputs: dict[str, Array]) -> tuple[Callable[[], object], dict[str, Array]]:
        """(a call that repeats one inference, the arrays in which it leaves its answers)."""


# Models that a session keeps, each with its own copy of the weights: so many, and more while all are small.
KEPT_MODELS, MOST_MODELS, MOST_BYTES = 16, 256, 1 << 30

_Key: TypeAlias = tuple[tuple[str, int], ...]
Build = Callable[[Mapping[str, int]], CompiledModel]


class SizedSession(Session):
    """Compiles what `build` gives for the sizes of the inputs, at first use.

    It keeps the models used last, and compiles for other sizes again.
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
        model = self._kept(key)
        if model is None:
            with self._building:  # once, and not by every thread that waits for it
                model = self._kept(key)
                if model is None:
                    model = self._build(dict(key))
                    self._keep(key, model)
        return model

    def _kept(self, key: _Key) -> CompiledModel | None:
        """The model kept for a key, which is the last one used from here on."""
        with self._ordering:
            model = self._models.pop(key, None)
            if model is not None:
                self._models[key] = model
            return model

    def _keep(self, key: _Key, model: CompiledModel) -> None:
        """Keeps a new model, and those used last beside it."""
        with self._ordering:
            self._models[key] = model
            while len(self._models) > _as_many(self._models.values()):
                del self._models[next(iter(self._models))]
                self._takes.clear()  # found again by what the inputs say


def _as_many(models: Collection[CompiledModel]) -> int:
    """How many of some models may be kept."""
    return MOST_MODELS if sum(model.bytes for model in models) <= MOST_BYTES else KEPT_MODELS


def _key(sizes: Mapping[str, int]) -> _Key:
    return tuple(sorted(sizes.items()))


def opened(signature: ModelSignature, build: Build, sizes: Mapping[str, int] | None) -> SizedSession:
    """A session that answers as many samples at a time as `sizes` say, and has compiled for them.

    Where they leave a size open, nothing is compiled before inputs say it; where they leave the first axis
    open, which need not be one of samples, inputs are answered whole.
    """
    given = sizes or {}
    session = SizedSession(signature, build)
    symbols = {d for spec in signature.inputs for d in spec.shape or () if isinstance(d, str)}
    if symbols <= given.keys():
        session.load({symbol: given[symbol] for symbol in symbols})
    session.samples = next((given.get(str(s.shape[0])) for s in signature.inputs if s.shape), None)
    return session
