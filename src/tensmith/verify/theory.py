"""The background theory of lifting proofs: every axiom an obligation may use.

An axiom is SMT-LIB text over the parameters of one function; obligations use only ground instances of it.
A theory without a model proves everything: the tests evaluate each axiom in an explicit one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias


@dataclass(frozen=True)
class Axiom:
    """What holds of `function` at any `parameters`: text over their names. `weak` ones are always added, but
    where they speak of another function only if that occurs too; the others, its exact definition, only where
    a proof needs them."""

    function: str
    parameters: tuple[tuple[str, str], ...]  # (name, sort)
    text: str
    weak: bool = False
    other: str = ""

    def instance(self, arguments: Sequence[str]) -> str:
        """The axiom at given argument texts."""
        return replaced(self.text, dict(zip((name for name, _ in self.parameters), arguments, strict=True)))


def replaced(template: str, values: Mapping[str, str]) -> str:
    """A text with whole tokens replaced."""
    return _WORD.sub(lambda match: values.get(match.group(), match.group()), template)


_WORD = re.compile(r"\|[^|]*\||[^\s()|]+")
_INT, _REAL = "Int", "Real"


def wrapping(kind: str) -> tuple[Axiom, ...]:
    """Conversion to uN or iN: the value modulo 2^N, in the type's range."""
    bits, signed = int(kind[1:]), kind[0] == "i"
    modulus, half = 2**bits, 2 ** (bits - 1) if signed else 0
    low, high = f"(- {half})" if half else "0", str(modulus - half - 1)
    f = f"wrap.{kind}"
    exact = f"(- (mod (+ x {half}) {modulus}) {half})" if half else f"(mod x {modulus})"
    return (
        Axiom(f, (("x", _INT),), f"(and (<= {low} ({f} x)) (<= ({f} x) {high}))", True),
        Axiom(f, (("x", _INT),), f"(=> (and (<= {low} x) (<= x {high})) (= ({f} x) x))", True),
        Axiom(f, (("x", _INT),), f"(= ({f} x) {exact})"),
    )


_XY = (("x", _INT), ("y", _INT))
_R = (("x", _REAL),)
AXIOMS: tuple[Axiom, ...] = (
    Axiom("tdiv", _XY, "(=> (distinct y 0) (= (tdiv x y) (ite (>= x 0) (div x y) (- (div (- x) y)))))"),
    Axiom("fdiv", _XY, "(=> (distinct y 0) (= (fdiv x y) (ite (>= y 0) (div x y) (div (- x) (- y)))))"),
    Axiom(
        "fdiv",
        _XY,
        "(=> (distinct y 0) (= (fdiv x y) (ite (or (= (* y (tdiv x y)) x) (= (>= x 0) (>= y 0))) (tdiv x y) "
        "(- (tdiv x y) 1))))",
        True,
        "tdiv",
    ),
    Axiom("inv", _R, "(=> (distinct x 0.0) (= (* x (inv x)) 1.0))"),
    Axiom("f.floor", _R, "(= (f.floor x) (to_real (to_int x)))"),
    Axiom("f.ceil", _R, "(= (f.ceil x) (- (to_real (to_int (- x)))))"),
    Axiom("trunc", _R, "(= (trunc x) (ite (>= x 0.0) (to_int x) (- (to_int (- x)))))"),
    *(axiom for kind in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64") for axiom in wrapping(kind)),
)  # fmt: skip


@cache
def axioms(function: str) -> tuple[Axiom, ...]:
    """The axioms of a function, weak ones first; none of most."""
    return tuple(sorted((a for a in AXIOMS if a.function == function), key=lambda a: not a.weak))


# Prefix functions: F(p.., t) joins body(p.., k) for k = 0 .. t-1 to `start`.

_JOIN = {
    "sum": "(+ {0} {1})",
    "prod": "(* {0} {1})",
    "max": "(ite (>= {0} {1}) {0} {1})",
    "min": "(ite (<= {0} {1}) {0} {1})",
}


@dataclass(frozen=True)
class Prefix:
    """A prefix function: its name, parameters p0, p1, ..., and body over them and the position k.

    Defined for every integer t: F(t) = start where t <= 0, F(t) = join(F(t-1), body(t-1)) elsewhere. start is
    the last parameter of maxima and minima, 0 or 1 of sums and products.
    """

    name: str
    kind: str
    sort: str
    parameters: tuple[str, ...]  # sorts
    body: str

    @property
    def start(self) -> str:
        """F at 0, over the parameters."""
        if self.kind in ("max", "min"):
            return f"p{len(self.parameters) - 1}"
        number = {"sum": "0", "prod": "1"}[self.kind]
        return number if self.sort == _INT else number + ".0"

    def at(self, arguments: Sequence[str], position: str) -> str:
        """F(arguments, position)."""
        return f"({' '.join((self.name, *arguments, position))})"

    def element(self, arguments: Sequence[str], position: str) -> str:
        """body(position)."""
        values = {"k": position, **{f"p{i}": argument for i, argument in enumerate(arguments)}}
        return replaced(self.body, values)

    def base(self, arguments: Sequence[str], position: str) -> str:
        """The instance of F(t) = start, t <= 0, at a position."""
        values = {f"p{i}": argument for i, argument in enumerate(arguments)}
        return f"(=> (<= {position} 0) (= {self.at(arguments, position)} {replaced(self.start, values)}))"

    def step(self, arguments: Sequence[str], position: str) -> str:
        """The instance of F(t+1) = join(F(t), body(t)), t >= 0, at t = position."""
        joined = _JOIN[self.kind].format(self.at(arguments, position), self.element(arguments, position))
        return f"(=> (>= {position} 0) (= {self.at(arguments, f'(+ {position} 1)')} {joined}))"

    def restart(self, arguments: Sequence[str], other: str, position: str) -> str:
        """A maximum from a start a >= b is the larger of a and the maximum from b; minima likewise. `other`
        is b. By induction on the position, as joining is associative."""
        given = [*arguments[:-1], other]
        start, relation = arguments[-1], {"max": ">=", "min": "<="}[self.kind]
        joined = _JOIN[self.kind].format(start, self.at(given, position))
        return f"(=> ({relation} {start} {other}) (= {self.at(arguments, position)} {joined}))"

    def bound(self, arguments: Sequence[str], position: str) -> str:
        """A maximum is at least its start, a minimum at most, by induction."""
        relation = {"max": ">=", "min": "<="}[self.kind]
        return f"({relation} {self.at(arguments, position)} {arguments[-1]})"

    @property
    def place(self) -> str:
        """A function that says where a maximum or minimum that is not its start is an element."""
        return f"place.{self.name}"

    def reached(self, arguments: Sequence[str], position: str) -> str:
        """A maximum or minimum is its start, or the element at its `place`, by induction."""
        value, place = self.at(arguments, position), f"({' '.join((self.place, *arguments, position))})"
        within = f"(<= 0 {place}) (< {place} {position})"
        return f"(or (= {value} {arguments[-1]}) (and {within} (= {value} {self.element(arguments, place)})))"

    def covers(self, arguments: Sequence[str], position: str, k: str) -> str:
        """A maximum is at least each of its elements, a minimum at most, by induction."""
        relation = {"max": ">=", "min": "<="}[self.kind]
        value = self.at(arguments, position)
        return f"(=> (and (<= 0 {k}) (< {k} {position})) ({relation} {value} {self.element(arguments, k)}))"


def window(
    first: Prefix, second: Prefix, given: Sequence[Given], shift: str, reverse: bool, k: str = "k0"
) -> str:
    """What makes two folds of one kind equal, about an arbitrary position k >= 0 that occurs nowhere else.

    See obligation.FoldWindow: the second's elements are the first's from `shift` on, all others are the unit
    of joining, the starts are the same. Of maxima and minima, whatever does not exceed the start is a unit.
    """
    (arguments, extent), (others, length) = given
    inner = k if shift == "0" else f"(- {k} {shift})"
    if reverse:
        inner = f"(- (+ {shift} (- {length} 1)) {k})"
    here, there = first.element(arguments, k), second.element(others, inner)
    start = replaced(first.start, {f"p{i}": argument for i, argument in enumerate(arguments)})
    same = replaced(second.start, {f"p{i}": argument for i, argument in enumerate(others)})
    if (shift, extent) == ("0", length):
        return f"(and (= {start} {same}) (=> (< {k} {extent}) (= {here} {there})))"
    inside = f"(and (<= {shift} {k}) (< {k} (+ {shift} {length})))"
    relation = {"max": "<=", "min": ">="}.get(first.kind, "=")
    each = f"(ite {inside} (= {here} {there}) ({relation} {here} {start}))"
    fits = f"(or (<= {length} 0) (and (<= 0 {shift}) (<= (+ {shift} {length}) {extent})))"
    return f"(and (= {start} {same}) {fits} (=> (< {k} {extent}) {each}))"


Given: TypeAlias = tuple[Sequence[str], str]  # arguments and extent of a fold
