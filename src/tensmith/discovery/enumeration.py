"""Terms by rising size, gathered by what they compute: two that compute the same are a candidate.

A term of n + 1 ops is made of the terms that stand for their classes, the cheapest of each, so what a smaller
equality already says is not met again (C. Nandi et al., "Rewrite rule inference using equality saturation",
OOPSLA 2021). Terms are run twice on random numbers: in a prime field, where what is equal is so for any
functions, and in floats, where facts about real functions and their order show as well.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from tensmith.discovery.vocabulary import Vocabulary, Word, variables_of
from tensmith.errors import ProgramError
from tensmith.files import sha256_bytes
from tensmith.formula.arith import Array, Floats, PrimeField
from tensmith.ir.op import OPS, Run, Typed
from tensmith.ir.types import TensorType
from tensmith.rewrite.instance import numbers
from tensmith.rewrite.term import Const, Number, Term, Use, Var, show

_FIELD, _FLOATS = PrimeField(1_048_573, 0), Floats()
# So many bits of a float are compared: what differs in rounding alone falls apart once in some million times.
_BITS = 22


@dataclass(frozen=True, eq=False)
class Known:
    """A term with its values in both arithmetics, how many ops it has, and what they cost."""

    term: Term
    type: TensorType
    floats: Array
    residues: Array
    size: int = 0
    cost: float = 0.0


@dataclass(frozen=True)
class Pair:
    """Two terms that computed the same; the left one costs more."""

    left: Known
    right: Known


@dataclass
class Enumeration:
    """All terms of a vocabulary up to a size, as far as a number of them and seconds reach."""

    vocabulary: Vocabulary
    largest: int
    seconds: float
    most: int = 400_000
    seen: int = 0
    ended: str = ""
    _classes: dict[str, Known] = field(default_factory=dict)
    _pairs: set[str] = field(default_factory=set)

    def candidates(self) -> list[Pair]:
        """What computed the same as a cheaper term, the smallest first."""
        deadline = time.monotonic() + self.seconds
        levels = [list(self._leaves())]
        found: list[Pair] = []
        for known in levels[0]:
            self._met(known)
        for size in range(1, self.largest + 1):
            new: list[Known] = []
            for known in self._grown(levels, size):
                self.seen += 1
                candidate = self._met(known)
                if candidate is None or candidate.right is known:
                    new.append(known)
                if candidate is not None and self._is_new(candidate):
                    found.append(candidate)
                late = time.monotonic() > deadline
                if late or self.seen >= self.most:
                    self.ended = "share of the time" if late else f"limit of {self.most} terms"
                    return _in_order(found)
            levels.append([known for known in new if self._classes[_keys(known)[0]] is known])
        return _in_order(found)

    def _leaves(self) -> Iterator[Known]:
        case, generator = self.vocabulary.case, np.random.default_rng(0)
        variables = Use("max", tuple(self.vocabulary.variables))
        drawn = numbers(variables, case, self.vocabulary.sizes, generator).arrays
        for var in self.vocabulary.variables:
            if var.name in self.vocabulary.truths:
                yield Known(var, TensorType.of(drawn[var.name]), drawn[var.name], drawn[var.name])
                continue
            shape = drawn[var.name].shape
            floats = generator.normal(size=shape) * 1.5
            yield Known(var, TensorType("f64", shape), floats, _FIELD.random(var.name, shape))
        for number in self.vocabulary.numbers:
            value = np.asarray(number)
            yield Known(Number(number), TensorType("f64", ()), value, _FIELD.const(value))

    def _grown(self, levels: list[list[Known]], size: int) -> Iterator[Known]:
        """Every term of `size` ops on terms that stand for their classes."""
        for word in self.vocabulary.words:
            for sizes in product(range(size), repeat=len(word.takes)):
                if sum(sizes) == size - 1:
                    for args in product(*(levels[n] for n in sizes)):
                        known = _applied(word, args)
                        if known is not None:
                            yield known

    def _met(self, known: Known) -> Pair | None:
        """The candidate that a term makes with the one of its class, None if there is none; the cheaper one
        stands for it now."""
        keys = _keys(known)
        other = next((self._classes[key] for key in keys if key in self._classes), None)
        if other is None or known.cost < other.cost:
            for key in keys if other is None else (*keys, *_keys(other)):
                self._classes[key] = known
            return None if other is None else Pair(other, known)
        return Pair(known, other)

    def _is_new(self, candidate: Pair) -> bool:
        """Whether it saves something, could be matched, and was not met under other names of variables."""
        left, right = candidate.left, candidate.right
        if not left.size or left.cost <= right.cost or _shares(left.term):
            return False
        names = {name: f"v{number}" for number, name in enumerate(variables_of(left.term))}
        if not names.keys() >= set(variables_of(right.term)):
            return False
        text = f"{show(renamed(left.term, names))} = {show(renamed(right.term, names))}"
        if text in self._pairs:
            return False
        self._pairs.add(text)
        return True


def _in_order(found: list[Pair]) -> list[Pair]:
    """The smallest first, of these the most general and then those that save most: what they say, others need
    not say again."""
    return sorted(
        found,
        key=lambda c: (
            c.left.size, -len(variables_of(c.left.term)), c.right.size, c.right.cost - c.left.cost,
        ),
    )  # fmt: skip


def renamed(term: Term, names: dict[str, str]) -> Term:
    """A term under other names of variables."""
    if isinstance(term, Var):
        return Var(names.get(term.name, term.name))
    if isinstance(term, Use):
        return Use(term.op, tuple(renamed(arg, names) for arg in term.args), term.attrs)
    return term


def _applied(word: Word, args: tuple[Known, ...]) -> Known | None:
    """A word on terms; None where it is no program, is the same everywhere, or holds few numbers."""
    taken = "".join("t" if known.type.dtype == "bool" else "r" for known in args)
    if taken != word.takes or not any(variables_of(known.term) for known in args):
        return None
    use = word.make(*(arg.term for arg in args))
    of = {id(arg.term): arg for arg in args}
    inputs = [of.get(id(arg)) or _fixed(arg) for arg in use.args]
    op = OPS[use.op]
    attrs = {**op.attributes, **(use.attrs if isinstance(use.attrs, dict) else {})}
    types = tuple(known.type for known in inputs)
    try:
        values = tuple(None if known.type.floating else known.floats for known in inputs)
        (made,) = op.infer(Typed(attrs, types, values))
        with np.errstate(all="ignore"):
            (floats,) = op.run(Run(attrs, tuple(k.floats for k in inputs), types, (made,)), _FLOATS)
            plain = not any(type_.floating for type_ in types)
            arith = _FLOATS if plain else _FIELD
            (residues,) = op.run(Run(attrs, tuple(k.residues for k in inputs), types, (made,)), arith)
    except (ProgramError, ValueError, IndexError, TypeError, KeyError):
        return None
    if made is None or not floats.size or (floats.dtype.kind == "b") != (made.dtype == "bool"):
        return None
    usable = floats[np.isfinite(floats)]
    if 2 * usable.size < floats.size or (usable.size > 1 and np.ptp(usable.astype(np.float64)) < 1e-9):
        return None
    macs = op.cost(Typed(attrs, types, values), (made,))
    largest = max(floats.size, *(known.floats.size for known in inputs))
    cost = sum(arg.cost for arg in args) + (2 * macs or word.weight * largest) + 1
    return Known(use, made, floats, residues, 1 + sum(arg.size for arg in args), cost)


def _fixed(arg: Term) -> Known:
    """What a word brings along: axes, bounds."""
    assert isinstance(arg, Const)
    return Known(arg, TensorType.of(arg.value), arg.value, arg.value)


def _keys(known: Known) -> tuple[str, str]:
    """What a term computes, in floats and in the field."""
    return _digest(known.type, _rounded(known.floats)), _digest(known.type, known.residues)


def _digest(type_: TensorType, array: Array) -> str:
    return sha256_bytes(f"{type_} {array.dtype.kind}".encode() + np.ascontiguousarray(array).tobytes())


def _rounded(floats: Array) -> Array:
    """The leading bits of floats; all that is no number alike, and all zeros."""
    if floats.dtype.kind != "f":
        return floats
    mantissa, exponent = np.frexp(np.where(np.abs(floats) < 1e-9, 0.0, floats))
    digits = np.ldexp(np.rint(np.ldexp(mantissa, _BITS)), np.clip(exponent, -900, 900)) + 0.0
    return np.where(np.isfinite(floats), digits, math.nan)


def _shares(term: Term) -> bool:
    """Whether an op occurs twice with the same operands: it would be one node, which no pattern matches."""
    seen: set[int] = set()

    def twice(part: Term) -> bool:
        if not isinstance(part, Use):
            return False
        if id(part) in seen:
            return True
        seen.add(id(part))
        return any(map(twice, part.args))

    return twice(term)
