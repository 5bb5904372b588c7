"""Nodes as SMT-LIB 2 text."""

from __future__ import annotations

import functools
import re
from fractions import Fraction

from tensmith.lifting.conditions.nodes import ProofTerm, Sort

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.%~!$^&*<>=+?/-]*")


@functools.lru_cache(4096)
def name(symbol: str) -> str:
    """A symbol as SMT-LIB writes it: plain, or between bars."""
    return symbol if _PLAIN.fullmatch(symbol) else "|" + re.sub(r"[|\\]", "_", symbol) + "|"


@functools.lru_cache(4096)
def constant(value: Fraction | int, sort: Sort) -> str:
    """A number: -3, 2.0, (/ 1.0 3.0)."""
    fraction = Fraction(value)
    dot = ".0" if sort == "Real" else ""
    magnitude = f"{abs(fraction.numerator)}{dot}"
    if fraction.denominator != 1:
        magnitude = f"(/ {magnitude} {fraction.denominator}{dot})"
    return f"(- {magnitude})" if fraction < 0 else magnitude


def text(node: ProofTerm) -> str:
    """A node in prefix form, which the node remembers."""
    if node.written is None:
        node.written = _write(node)
    return node.written


def _write(node: ProofTerm) -> str:
    match node.op:
        case "symbol":
            return name(node.args[0])
        case "app":
            return f"({name(node.args[0])} {' '.join(map(text, node.args[1:]))})"
        case "poly":
            return _polynomial(node)
        case "ge0" | "eq0":
            relation = ">=" if node.op == "ge0" else "="
            return f"({relation} {text(node.args[0])} {constant(0, node.args[0].sort)})"
        case "true" | "false":
            return node.op
    head = {"product": "*", "same": "="}.get(node.op, node.op)
    return f"({head} {' '.join(map(text, node.args))})"


def _polynomial(node: ProofTerm) -> str:
    terms = []
    for atoms, coefficient in node.args[0]:
        factors = [text(atom) for atom in atoms]
        if coefficient != 1 or not factors:
            factors.insert(0, constant(coefficient, node.sort))
        terms.append(factors[0] if len(factors) == 1 else f"(* {' '.join(factors)})")
    if not terms:
        return constant(0, node.sort)
    return terms[0] if len(terms) == 1 else f"(+ {' '.join(terms)})"
