"""Sessions that compile for each set of sizes: which compiled models they keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from tensmith.engine.frame import Array
from tensmith.engine.signature import ModelSignature, TensorSpec
from tensmith.engine.sized import KEPT_MODELS, MOST_BYTES, MOST_MODELS, SizedSession, opened

SPEC = TensorSpec("x", "float32", ("n",))


class Doubled:
    """A model of one size, which takes so much memory."""

    def __init__(self, of_memory: int) -> None:
        self.bytes = of_memory

    def __call__(self, /, **inputs: Array) -> dict[str, Array]:
        return {"y": 2 * inputs["x"]}

    def bind(self, inputs: dict[str, Array]) -> tuple[Callable[[], object], dict[str, Array]]:
        return lambda: self(**inputs), {}


def session_of(built: list[int], of_memory: int) -> SizedSession:
    def build(sizes: Mapping[str, int]) -> Doubled:
        built.append(sizes["n"])
        return Doubled(of_memory)

    return SizedSession(ModelSignature((SPEC,), (SPEC,), frozenset()), build)


def test_the_models_used_last_are_kept() -> None:
    built: list[int] = []
    session = session_of(built, MOST_BYTES)
    first, *others = range(1, KEPT_MODELS + 3)
    for size in others[:-1]:
        for _ in range(2):
            for n in (first, size):
                assert session.run({"x": np.ones(n, np.float32)})["y"].tolist() == [2] * n
    assert built == [first, *others[:-1]]
    for n in (first, others[1], others[0], others[-1], others[1]):
        session.load({"n": n})
    assert built == [first, *others[:-1], others[0], others[-1]]
    assert len(session._models) == KEPT_MODELS and len(session._takes) <= KEPT_MODELS


@pytest.mark.parametrize(
    ("of_memory", "kept"), [(MOST_BYTES, KEPT_MODELS), (MOST_BYTES // 100, 100), (1, MOST_MODELS)]
)
def test_many_small_models_are_kept(of_memory: int, kept: int) -> None:
    built: list[int] = []
    session = session_of(built, of_memory)
    for size in (*range(kept), *range(kept)):
        session.load({"n": size})
    assert built == [*range(kept)]
    session.load({"n": kept})
    assert list(session._models) == [(("n", size),) for size in range(1, kept + 1)]


def test_only_what_sizes_say_is_compiled_in_advance() -> None:
    built: list[Mapping[str, int]] = []

    def build(sizes: Mapping[str, int]) -> Doubled:
        built.append(dict(sizes))
        return Doubled(1)

    image = ModelSignature((TensorSpec("x", "float32", ("n", "h")),), (SPEC,), frozenset())
    for sizes, samples in ((None, None), ({"h": 4}, None), ({"n": 2}, 2)):
        assert opened(image, build, sizes).samples == samples
    assert built == []
    assert opened(image, build, {"n": 2, "h": 4, "of others": 3}).samples == 2
    assert built == [{"n": 2, "h": 4}]
