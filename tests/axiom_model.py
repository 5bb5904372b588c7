"""A model of the background theory of lifting proofs: its functions in Python, and its axioms in that."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from tensmith.verify.theory import _INT, _JOIN, _REAL, Axiom, Prefix

Expr: TypeAlias = "str | list[Expr]"
Model: TypeAlias = Mapping[str, Callable[..., Any]]

_TOKEN = re.compile(r"[()]|[^\s()]+")


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


def place_model(prefix: Prefix, model: Model) -> Callable[..., Any]:
    """The first position whose element the prefix function comes to, -1 where none is."""
    whole, body = prefix_model(prefix, model), parse(prefix.body)

    def function(*arguments: Any) -> Any:
        *given, position = arguments
        scope = {f"p{i}": argument for i, argument in enumerate(given)}
        elements = [value(body, {**scope, "k": k}, model) for k in range(position)]
        found = whole(*arguments)
        return elements.index(found) if found in elements else -1

    return function


def prefix_violations(prefix: Prefix, model: Model) -> list[str]:
    """False instances of a prefix function's recurrence in its own model, at small positions."""
    names = [f"p{i}" for i in range(len(prefix.parameters))]
    own = {**model, prefix.name: prefix_model(prefix, model), prefix.place: place_model(prefix, model)}
    parameters = zip(names, prefix.parameters)
    small = [[(name, n) for n in _SMALL[sort][2:5]] for name, sort in parameters]
    found = []
    for scope in itertools.product(*small):
        for position in range(-2, 4):
            texts = [prefix.base(names, "t"), prefix.step(names, "t")]
            if prefix.kind in ("max", "min"):
                texts += [prefix.bound(names, "t")]
                texts += [prefix.restart(names, other, "t") for other in ("(- 1)", "1")]
                texts += [prefix.reached(names, "t")]
                texts += [prefix.covers(names, "t", k) for k in ("(- 1)", "0", "1", "2")]
            for text in texts:
                if not value(parse(text), {**dict(scope), "t": position}, own):
                    found.append(f"{text} is false at {dict(scope)}, t = {position}")
    return found
