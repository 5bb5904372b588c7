"""Nodes as SMT-LIB 2 text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction

from tensmith.lifting.conditions.nodes import ProofTerm, Sort

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.%~!$^&*<>=+?/-]*")


def name(symbol: str) -> str:
    """A symbol as SMT-LIB writes it: plain, or between bars."""
    return symbol if _PLAIN.fullmatch(symbol) else "|" + re.sub(r"[|\\]", "_", symbol) + "|"


def constant(value: Fraction | int, sort: Sort) -> str:
    """A number: -3, 2.0, (/ 1.0 3.0)."""
    fraction = Fraction(value)
    dot = ".0" if sort == "Real" else ""
    magnitude = f"{abs(fraction.numerator)}{dot}"
    if fraction.denominator != 1:
        magnitude = f"(/ {magnitude} {fraction.denominator}{dot})"
    return f"(- {magnitude})" if fraction < 0 else magnitude


def text(
    node: ProofTerm, names: Mapping[ProofTerm, str] | None = None, known: dict[ProofTerm, str] | None = None
) -> str:
    """A node in prefix form; `names` gives other texts for some nodes, `known` remembers what was written."""
    named = names or {}
    memo = {} if known is None else known

    def go(part: ProofTerm) -> str:
        if part in named:
            return named[part]
        if part not in memo:
            memo[part] = write(part)
        return memo[part]

    def write(part: ProofTerm) -> str:
        match part.op:
            case "symbol":
                return name(part.args[0])
            case "app":
                return f"({name(part.args[0])} {' '.join(map(go, part.args[1:]))})"
            case "poly":
                return _polynomial(part, go)
            case "ge0" | "eq0":
                relation = ">=" if part.op == "ge0" else "="
                return f"({relation} {go(part.args[0])} {constant(0, part.args[0].sort)})"
            case "true" | "false":
                return part.op
        head = {"product": "*", "same": "="}.get(part.op, part.op)
        return f"({head} {' '.join(map(go, part.args))})"

    return go(node)


def _polynomial(node: ProofTerm, go: Callable[[ProofTerm], str]) -> str:
    terms = []
    for atoms, coefficient in node.args[0]:
        factors = [go(atom) for atom in atoms]
        if coefficient != 1 or not factors:
            factors.insert(0, constant(coefficient, node.sort))
        terms.append(factors[0] if len(factors) == 1 else f"(* {' '.join(factors)})")
    if not terms:
        return constant(0, node.sort)
    return terms[0] if len(terms) == 1 else f"(+ {' '.join(terms)})"
