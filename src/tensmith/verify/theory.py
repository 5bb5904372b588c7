"""The background theory of lifting proofs: every axiom an obligation may use, and a check that they hold.

An axiom is SMT-LIB text over the parameters of one function; obligations use only ground instances of it.
Each function has an explicit model here (truncating division, wrapping, prefix sums, ...), and the axioms are
evaluated in it. A theory without a model proves everything, so this check is run with the tests.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, TypeAlias

Expr: TypeAlias = "str | list[Expr]"
Model: TypeAlias = Mapping[str, Callable[..., Any]]

_TOKEN = re.compile(r"[()]|[^\s()]+")


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


_X, _XY = (("x", _INT),), (("x", _INT), ("y", _INT))
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


def window(
    first: Prefix, second: Prefix, given: Sequence[Given], shift: str, reverse: bool, k: str = "k0"
) -> str:
    """What makes two folds of one kind equal, about an arbitrary position k >= 0 that occurs nowhere else
    (see obligation.Window): the second's elements are the first's from `shift` on, all others are the unit of
    joining, the starts are the same. Of maxima and minima, whatever does not exceed the start is a unit."""
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

# The check: evaluation in an explicit model


def parse(text: str) -> Expr:
    """One prefix expression as nested lists."""
    stack: list[list[Expr]] = [[]]
    for token in _TOKEN.findall(text):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    (expression,) = stack[0]
    return expression


def value(expression: Expr, scope: Mapping[str, Any], model: Model) -> Any:
    """The value of an expression; integers are int, reals are Fraction."""
    if isinstance(expression, str):
        if expression in scope:
            return scope[expression]
        if expression in ("true", "false"):
            return expression == "true"
        return Fraction(expression) if "." in expression else int(expression)
    head, *rest = expression
    assert isinstance(head, str)
    if head == "ite":
        condition, then, otherwise = rest
        return value(then if value(condition, scope, model) else otherwise, scope, model)
    if head == "=>" and not value(rest[0], scope, model):
        return True
    arguments = [value(part, scope, model) for part in rest]
    return (_BUILT_IN.get(head) or model[head])(*arguments)


def _euclidean(a: int, b: int) -> int:
    """SMT-LIB's div: the remainder is never negative. Division by 0 may be anything."""
    return 0 if b == 0 else a // b if b > 0 else -(a // -b)


_BUILT_IN: dict[str, Callable[..., Any]] = {
    "+": lambda *a: sum(a),
    "*": lambda *a: math.prod(a),
    "-": lambda *a: -a[0] if len(a) == 1 else a[0] - sum(a[1:]),
    "/": lambda a, b: Fraction(a) / Fraction(b),
    "div": _euclidean,
    "mod": lambda a, b: a - b * _euclidean(a, b),
    "to_int": lambda a: math.floor(a),
    "to_real": lambda a: Fraction(a),
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    "=": lambda a, b: a == b,
    "distinct": lambda a, b: a != b,
    "and": lambda *a: all(a),
    "or": lambda *a: any(a),
    "not": lambda a: not a,
    "=>": lambda a, b: not a or b,
}


def _truncated(a: int, b: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _wrap(bits: int, signed: bool) -> Callable[[int], int]:
    half = 2 ** (bits - 1) if signed else 0
    return lambda x: (x + half) % 2**bits - half


MODEL: dict[str, Callable[..., Any]] = {
    "tdiv": _truncated,
    "fdiv": lambda a, b: 0 if b == 0 else a // b,
    "inv": lambda a: Fraction(0) if a == 0 else 1 / a,
    "f.floor": lambda a: Fraction(math.floor(a)),
    "f.ceil": lambda a: Fraction(math.ceil(a)),
    "trunc": lambda a: math.trunc(a),
    **{f"wrap.{s}{b}": _wrap(b, s == "i") for s in "iu" for b in (8, 16, 32, 64)},
}

_SMALL = {
    # around 0, and around the ends of every type
    _INT: (
        *range(-4, 5),
        *(
            sign * 2**bits + d
            for bits in (7, 8, 15, 16, 31, 32, 63, 64)
            for sign in (1, -1)
            for d in (-1, 0, 1)
        ),
    ),
    _REAL: tuple(Fraction(n, 2) for n in range(-7, 8)),
}


def violations(axioms: Iterable[Axiom], model: Model) -> list[str]:
    """Ground instances, over small numbers, that are false in the model or that it gives no value."""
    found = []
    for axiom in axioms:
        expression = parse(axiom.text)
        names = [name for name, _ in axiom.parameters]
        for numbers in itertools.product(*(_SMALL[sort] for _, sort in axiom.parameters)):
            scope = dict(zip(names, numbers))
            try:
                holds = value(expression, scope, model)
            except (RecursionError, LookupError) as error:
                found.append(f"{axiom.text} has no value at {scope}: {type(error).__name__}")
                break
            if not holds:
                found.append(f"{axiom.text} is false at {scope}")
                break
    return found


def prefix_model(prefix: Prefix, model: Model) -> Callable[..., Any]:
    """The prefix function itself, computed from its start and body."""
    start, body, join = parse(prefix.start), parse(prefix.body), parse(_JOIN[prefix.kind].format("a", "b"))

    def function(*arguments: Any) -> Any:
        *given, position = arguments
        scope = {f"p{i}": argument for i, argument in enumerate(given)}
        total = value(start, scope, model)
        for k in range(position):
            total = value(join, {"a": total, "b": value(body, {**scope, "k": k}, model)}, model)
        return total

    return function


def prefix_violations(prefix: Prefix, model: Model) -> list[str]:
    """False instances of a prefix function's recurrence in its own model, at small positions."""
    names = [f"p{i}" for i in range(len(prefix.parameters))]
    own = {**model, prefix.name: prefix_model(prefix, model)}
    parameters = zip(names, prefix.parameters)
    small = [[(name, n) for n in _SMALL[sort][2:5]] for name, sort in parameters]
    found = []
    for scope in itertools.product(*small):
        for position in range(-2, 4):
            texts = [prefix.base(names, "t"), prefix.step(names, "t")]
            if prefix.kind in ("max", "min"):
                texts += [prefix.bound(names, "t")]
                texts += [prefix.restart(names, other, "t") for other in ("(- 1)", "1")]
            for text in texts:
                if not value(parse(text), {**dict(scope), "t": position}, own):
                    found.append(f"{text} is false at {dict(scope)}, t = {position}")
    return found
