"""A decoder without caches, given caches: made by rewrite.caching, and compared with what it was before."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tensmith.backend.onnx import write_onnx
from tensmith.deploy.generation import TokenDecoder
from tensmith.engine.base import ENGINES
from tensmith.errors import ModelError
from tensmith.ir import Program
from tensmith.rewrite.caching import with_caches
from tensmith.rewrite.trail import simplify

# Tokens that are fed together, one after the other: a prompt, then single ones, then several again.
_PARTS = (5, 1, 1, 3, 1, 1, 4)
_TEXTS = 3
# Tokens that are drawn where the model does not say how many it knows.
_WORDS = 256
# Of the largest logit: sums in another order.
_SAME = 1e-3


def cached(program: Program) -> Program:
    """The program with caches (rewrite.caching.with_caches), simplified. ModelError where that cannot be."""
    return simplify(with_caches(simplify(program).program)).program


def cached_decoder(
    program: Program, original: TokenDecoder, path: Path, engine: str, threads: int
) -> tuple[TokenDecoder, float]:
    """Writes the program with caches to `path`; it as a decoder, and how far its logits are apart from the
    original's, by the largest logit. ModelError where it cannot be made, or tells other logits."""
    if original.caches:
        raise ModelError("the decoder has caches already")
    write_onnx(cached(program), path)
    made = TokenDecoder(ENGINES[engine].prepare(path, threads))
    apart = max(_apart(original, made, seed) for seed in range(_TEXTS))
    if not apart <= _SAME:
        raise ModelError(
            f"with caches its logits are {apart:.1e} of the largest apart: rows look at later ones, or a "
            "position is not told by what came before"
        )
    return made, apart


def _apart(original: TokenDecoder, made: TokenDecoder, seed: int) -> float:
    """How far logits of a random text are apart, fed whole and in parts; infinite where one is no number."""
    random = np.random.default_rng(seed)
    known = random.integers(0, original.vocabulary or _WORDS, sum(_PARTS)).tolist()
    whole = original.rows(known)
    state, fed, worst = made.nothing(), 0, 0.0
    for part in _PARTS:
        row, state = made.fed(known[: fed + part], fed, state)
        fed += part
        distance = float(np.abs(row - whole[fed - 1]).max())
        worst = max(worst, distance if np.isfinite(distance) else float("inf"))
    return worst / max(float(np.abs(whole).max()), 1e-30)
