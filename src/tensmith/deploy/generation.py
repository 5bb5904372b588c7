"""Tokens one after the other from a decoder, with or without caches of keys and values.

Which inputs play which part is told by their types and the usual names: tokens are integers
[batch, length]; attention_mask and position_ids likewise; caches are inputs past... with outputs present...
of the same ending, as exporters of Hugging Face's transformers name them. Logits are floats
[batch, length, vocabulary].
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from tensmith.engine.base import Session
from tensmith.engine.signature import TensorSpec
from tensmith.errors import EngineError, ModelError, UsageError
from tensmith.formula.arith import Array

# What a decoder keeps from one token to the next: caches by their inputs, or a text of its own kind.
State: TypeAlias = Any

_PAST, _PRESENT = (re.compile(f"^{word}(_key_values)?[._]?") for word in ("past", "present"))
MASK, POSITIONS, TYPES, _BRANCH = "attention_mask", "position_ids", "token_type_ids", "use_cache_branch"
# Of the range of logits, sums in another order. Those further below the best one say nothing.
SAME, _RANGE = 1e-3, 30.0


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn: the likeliest at temperature 0, else from softmax(logits / temperature),
    cut to the fewest tokens that hold `top_p` of it (Holtzman et al. 2020), repeatable by `seed`."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < np.inf:
            raise UsageError(f"temperature is a number from 0, not {self.temperature:g}")
        if self.seed < 0:
            raise UsageError(f"a seed is a whole number from 0, not {self.seed}")
        if not 0 < self.top_p <= 1:
            raise UsageError(f"top_p is above 0 and at most 1, not {self.top_p:g}")

    def drawer(self) -> np.random.Generator:
        """What draws all tokens of one text."""
        return np.random.default_rng(self.seed)

    def token(self, logits: Array, drawer: np.random.Generator) -> int:
        """The next token; logits [vocabulary]. ModelError where they hold no number."""
        best = int(logits.argmax())  # the first that is no number, where one is none
        if not np.isfinite(logits[best]):
            raise ModelError("the model gives logits that are no numbers (NaN or infinite)")
        if self.temperature == 0:
            return best
        scores = logits.astype(np.float64)
        shares = np.exp((scores - scores.max()) / self.temperature)
        order = np.argsort(-shares, kind="stable")
        total = np.cumsum(shares[order])
        kept = order[: int(np.searchsorted(total, self.top_p * total[-1])) + 1]
        return int(drawer.choice(kept, p=shares[kept] / shares[kept].sum()))


GREEDY = Sampling()


@dataclass
class TokenDecoder:
    """A session as a decoder of tokens. ModelError where its inputs and outputs are not those of one."""

    session: Session
    tokens: TensorSpec = field(init=False)
    logits: str = field(init=False)
    # How many tokens there are, where the file says so.
    vocabulary: int | None = field(init=False)
    # Inputs of what was computed before, and the outputs that hold it after a step.
    caches: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self._causal = False  # as was seen at the first token
        self._inputs = {spec.name: spec for spec in self.session.inputs}
        self.caches = _caches(self.session)
        beside = {MASK, POSITIONS, TYPES, _BRANCH, *self.caches}
        found = [spec for spec in self.session.inputs if spec.name not in beside]
        if len(found) != 1 or not _integers(found[0]):
            raise ModelError(
                f"this is no decoder of tokens: it takes {_told(self.session.inputs)}; wanted are integers "
                "[batch, length], and beside them attention_mask, position_ids and past... alone"
            )
        (self.tokens,) = found
        after = self.caches.values()
        scores = [spec for spec in self.session.outputs if spec.name not in after and _scores(spec)]
        if len(scores) != 1:
            raise ModelError(
                f"this is no decoder of tokens: it gives {_told(self.session.outputs)}; wanted are floats "
                "[batch, length, vocabulary]"
            )
        self.logits, size = scores[0].name, (scores[0].shape or ())[2]
        self.vocabulary = size if isinstance(size, int) else None
        if self.caches and self._most not in (None, 1):
            raise ModelError(
                f"the model takes exactly {self._most} tokens beside its caches; export it with an open "
                "length, or for one token"
            )

    def steps(self, prompt: Sequence[int], most: int, sampling: Sampling) -> Iterator[int]:
        """At most so many tokens after those of the prompt, each when it is known. UsageError for a prompt
        that is empty, too long, or of tokens that the model does not have."""
        if not len(prompt):
            raise UsageError("a prompt has at least one token; most models begin with a token of their own")
        last = np.iinfo(self.tokens.dtype).max if self.vocabulary is None else self.vocabulary - 1
        if wrong := [token for token in prompt if not _whole(token) or not 0 <= token <= last]:
            shown = str(wrong[0])[:40]
            raise UsageError(f"{shown} is no token of the model, whose tokens are 0 to {last}")
        length = self._most
        if length is not None and not self.caches and len(prompt) + most - 1 > length:
            raise UsageError(
                f"{len(prompt)} tokens and {most} more do not fit: the model takes {length}; give a shorter "
                "prompt, or ask for fewer"
            )
        return self._said(list(map(int, prompt)), most, sampling)

    def _said(self, known: list[int], most: int, sampling: Sampling) -> Iterator[int]:
        drawer = sampling.drawer()
        state = self.nothing()
        fed = 0
        for _ in range(most):
            if self.keeps:
                row, state = self.fed(known, fed, state)
                fed = len(known)
            elif self._most is None:
                row = self.rows(known)[-1]
            else:
                row = self._padded(known, self._most)
            known.append(sampling.token(row, drawer))
            yield known[-1]

    @property
    def _most(self) -> int | None:
        """Tokens that it takes at a time, where the file settles that."""
        size = (self.tokens.shape or ())[1]
        return size if isinstance(size, int) else None

    @property
    def open(self) -> bool:
        """Whether it takes any number of tokens."""
        return self._most is None

    @property
    def keeps(self) -> bool:
        """Whether something is kept from one token to the next."""
        return bool(self.caches)

    def rows(self, known: list[int]) -> Array:
        """Logits [length, vocabulary] of tokens, without caches."""
        found: Array = self._run(known, 0, {})[self.logits][0]
        return found

    def nothing(self) -> State:
        """What is kept of no tokens."""
        return {name: _nothing(self._inputs[name]) for name in self.caches}

    def fed(self, known: list[int], fed: int, state: State) -> tuple[Array, State]:
        """Logits [vocabulary] after the known tokens, of which `fed` are in the state; the state then."""
        rows, after = self.new_rows(known, fed, state)
        return rows[-1], after

    def new_rows(self, known: list[int], fed: int, state: State) -> tuple[Array, State]:
        """Logits [new, vocabulary] of the known tokens that are not in the state; the state then."""
        rows, after = [], dict(state)
        step = self._most or len(known)
        for at in range(fed, len(known), step):
            found = self._run(known[at : at + step], at, after)
            if not len(found[self.logits][0]):  # of a table of positions, what lies behind its end is nothing
                raise EngineError(f"the model has no positions for {at + 1} tokens")
            new = found[self.logits][0]
            rows.append(new)
            before, after = after, {name: found[o] for name, o in self.caches.items()}
            for name, axis in self._lengths.items():
                if before[name].shape[axis] and after[name].shape[axis] <= len(new):
                    raise ModelError(
                        f"output {self.caches[name]} holds new tokens alone, and not those of {name} before "
                        "them; export the model so that it joins them"
                    )
        return np.concatenate(rows), after

    @cached_property
    def _lengths(self) -> dict[str, int]:
        """The axis of each cache that grows with the text."""
        return {name: array.shape.index(0) for name, array in self.nothing().items()}

    def _padded(self, known: list[int], length: int) -> Array:
        """Logits [vocabulary] after the known tokens. What follows them must not matter: at the first token
        that is looked at, with two different paddings."""
        rows = [
            self._run(known + (length - len(known)) * [filler], 0, {})[self.logits][0, len(known) - 1]
            for filler in ((0,) if self._causal else (0, known[0] or self._other))
        ]
        row: Array = rows[0]
        if np.isfinite(row.max()) and apart(row, rows[-1]) > SAME:
            raise ModelError(
                f"the model takes exactly {length} tokens and looks at those to come; export it with an open "
                "length, or with a causal mask"
            )
        self._causal |= len(known) < length  # nothing followed else
        return row

    @property
    def _other(self) -> int:
        """A token that is not 0, where there is one."""
        return int(self.vocabulary != 1)

    def _run(self, tokens: list[int], before: int, state: Mapping[str, Array]) -> dict[str, Array]:
        total = before + len(tokens)
        ready = {
            self.tokens.name: np.array([tokens]),
            MASK: np.ones((1, total)),
            POSITIONS: np.arange(before, total)[None],
            TYPES: np.zeros((1, len(tokens))),
            _BRANCH: np.array([before > 0]),
        }
        given = {n: a.astype(self._inputs[n].dtype) for n, a in ready.items() if n in self._inputs}
        return self.session.run({**given, **state})


def _caches(session: Session) -> dict[str, str]:
    """Outputs of caches by their inputs; ModelError where one has no counterpart."""
    after = {_PRESENT.sub("", s.name): s.name for s in session.outputs if _PRESENT.match(s.name)}
    before = {_PAST.sub("", s.name): s.name for s in session.inputs if _PAST.match(s.name)}
    if lost := before.keys() - after.keys():
        raise ModelError(f"input {before[min(lost)]} has no output present... of the same ending")
    return {name: after[ending] for ending, name in before.items()}


def apart(row: Array, expected: Array) -> float:
    """How far two rows of logits are apart, by the range of those that are not far below the best.

    Words that both rule out (-inf) are left out; infinite where anything else is no number.
    """
    best = float(expected.max())
    out = np.isneginf(row) & np.isneginf(expected)
    near = ~out & ~((row < best - _RANGE) & (expected < best - _RANGE))
    found, wanted = row[near].astype(np.float64), expected[near].astype(np.float64)
    if not (np.isfinite(found).all() and np.isfinite(wanted).all() and found.size):
        return math.inf
    return float(np.abs(found - wanted).max() / max(float(np.ptp(wanted)), SAME))


def _whole(token: object) -> bool:
    return isinstance(token, (int, np.integer)) and not isinstance(token, bool)


def _told(specs: Sequence[TensorSpec]) -> str:
    return ", ".join(f"{spec.name} {spec.dtype}{list(spec.shape or ())}" for spec in specs) or "nothing"


def _integers(spec: TensorSpec) -> bool:
    shape = spec.shape or ()
    one = len(shape) == 2 and (shape[0] == 1 or isinstance(shape[0], str))
    return one and spec.dtype in ("int32", "int64")


def _scores(spec: TensorSpec) -> bool:
    return "float" in spec.dtype and len(spec.shape or ()) == 3


def _nothing(spec: TensorSpec) -> Array:
    """A cache of no tokens: [batch, ...], or keys and values in one [2, batch, ...]; lengths are open."""
    sizes = spec.shape or ()
    batch = int(len(sizes) == 5 and sizes[0] == 2)
    shape = [size if isinstance(size, int) else int(axis == batch) for axis, size in enumerate(sizes)]
    if 0 not in shape:
        raise ModelError(f"input {spec.name} {shape} leaves no length open for what came before")
    return np.zeros(shape, spec.dtype)
