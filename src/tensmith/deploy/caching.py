"""A decoder without caches, given caches by rewrite.tokens.caching, and compared with what it was before.

That no row depends on a later one is proved where it can be (rewrite.tokens.causal); how rows pass through
the ops is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from tensmith.backend.onnx import write_onnx
from tensmith.deploy.generation import SAME, TokenDecoder, apart
from tensmith.engine.base import ENGINES
from tensmith.errors import EngineError, ModelError
from tensmith.ir import Program
from tensmith.ir.ops.quantization import encodes
from tensmith.rewrite.tokens.caching import with_caches
from tensmith.rewrite.tokens.causal import Causality
from tensmith.rewrite.trail import simplify

# Texts by the tokens that are fed together, one part after the other. The last ends where the model does, and
# of each of its parts the last row alone is compared.
_SHORT = ((1,) * 16, (5, 1, 1, 3, 1, 1, 4))
_LONG = (2, 1, 1, 12, 1, 40, 1, 1, 200, 1, 1)
# Tokens that every model takes.
_FEWEST = 16
# Tokens that are drawn where the model does not say how many it knows.
_WORDS = 256
# Of the range of logits, where activations are rounded: one of two codes that they may fall to.
_ROUNDED = 0.05


@dataclass
class CachedDecoder(TokenDecoder):
    """A decoder with caches made for it, the original, and what is known of the two."""

    original: TokenDecoder
    causality: Causality
    compared: CacheComparison = field(init=False)

    @cached_property
    def borne(self) -> float:
        """How far logits may be apart."""
        rounds = any(map(encodes, self.causality.rows.program.nodes))
        return _ROUNDED if rounds else SAME


@dataclass(frozen=True)
class CacheComparison:
    """How far logits are apart at most, by their range, over texts of up to `tokens` tokens."""

    apart: float
    tokens: int


def cached(program: Program) -> Program:
    """The program with caches (see rewrite.tokens.caching), simplified. ModelError where that cannot be."""
    return simplify(with_caches(simplify(program).program)).program


def cached_decoder(
    program: Program,
    original: TokenDecoder,
    path: Path,
    engine: str,
    threads: int,
    *,
    proved: bool = False,
    **settings: str,
) -> CachedDecoder:
    """Writes the program with caches to `path`, where the engine reads it; it as a decoder. ModelError where
    it cannot be made, or tells other logits; and where `proved`, if rows may depend on later tokens in texts
    longer than those compared."""
    if original.caches:
        raise ModelError("the decoder has caches already")
    plain = simplify(program).program
    causality = Causality.of(plain)
    if proved and causality.late:
        raise ModelError(f"whether caches hold for texts of every length is not known: {causality.late}")
    write_onnx(cached(plain), path)
    session = ENGINES[engine].prepare(path, threads, sizes=None, **settings)
    made = CachedDecoder(session, original, causality)
    found = [compared_on(made, text, seed) for seed, text in enumerate((*_SHORT, _LONG))]
    made.compared = CacheComparison(max(each.apart for each in found), max(each.tokens for each in found))
    if not made.compared.apart <= made.borne:
        raise ModelError(
            f"with caches its logits are {made.compared.apart:.1e} of their range apart: rows look at later "
            "ones, or a position is not told by what came before"
        )
    return made


def compared_on(made: CachedDecoder, text: Sequence[int], seed: int) -> CacheComparison:
    """A random text in parts, each against the original on all up to there: a row of a longer text would
    not tell what looks ahead, or changes with the length. Where the original has no room for a part, the text
    ends with a shorter one."""
    original = made.original
    known = np.random.default_rng(seed).integers(0, original.vocabulary or _WORDS, sum(text)).tolist()
    state, fed, worst, parts = made.nothing(), 0, 0.0, list(text)
    while parts:
        part = parts.pop(0)
        looked_at = range(1, part + 1) if text in _SHORT else (part,)
        try:
            expected = [original.rows(known[: fed + number])[-1] for number in looked_at]
        except EngineError:
            if fed < _FEWEST:
                raise
            parts = [part // 2] if part > 1 else []
            continue
        rows, state = made.new_rows(known[: fed + part], fed, state)
        off = [apart(rows[number - 1], row) for number, row in zip(looked_at, expected)]
        fed, worst = fed + part, max(worst, *off)
    return CacheComparison(worst, fed)
