"""Sessions that compile for each set of sizes: which compiled models they keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tensmith.engine.frame import Array
from tensmith.engine.signature import ModelSignature, TensorSpec
from tensmith.engine.sized import MOST_MODELS, SizedSession

SPEC = TensorSpec("x", "float32", ("n",))


class Doubled:
    """A model of one size."""

    def __call__(self, /, **inputs: Array) -> dict[str, Array]:
        return {"y": 2 * inputs["x"]}

    def bind(self, inputs: dict[str, Array]) -> tuple[Callable[[], object], dict[str, Array]]:
        return lambda: self(**inputs), {}


def test_the_models_used_last_are_kept() -> None:
    built: list[int] = []

    def build(sizes: Mapping[str, int]) -> Doubled:
        built.append(sizes["n"])
        return Doubled()

    session = SizedSession(ModelSignature((SPEC,), (SPEC,), frozenset()), build)
    first, *others = range(1, MOST_MODELS + 3)
    for size in others[:-1]:
        for _ in range(2):
            for n in (first, size):
                assert session.run({"x": np.ones(n, np.float32)})["y"].tolist() == [2] * n
    assert built == [first, *others[:-1]]
    for n in (first, others[1], others[0], others[-1], others[1]):
        session.load({"n": n})
    assert built == [first, *others[:-1], others[0], others[-1]]
    assert len(session._models) == MOST_MODELS and len(session._takes) <= MOST_MODELS
