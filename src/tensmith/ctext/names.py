"""C identifiers, literals and subscripts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable

import numpy as np

from tensmith.ctext.dialect import C, Dialect
from tensmith.ctext.expr import Const
from tensmith.formula.poly import Div, Poly

# Keywords, and names of the headers that emitted files include.
_WORDS = (
    "auto break case char const continue default do double else enum extern float for goto if inline "
    "int long register restrict return short signed sizeof static struct switch typedef union "
    "unsigned void volatile while _Bool bool true false NULL INFINITY NAN main status memcpy malloc "
    "free abs div exp log pow sqrt sin cos tan tanh floor ceil round fabs fmax fmin fmod erf sinh "
    "cosh asin acos atan asinh acosh atanh rint y0 y1 yn j0 j1 jn gamma signgam asm typeof unix linux "
    "errno index strlen time clock remainder scalb significand drem finite isnan isinf exit abort "
    "atexit labs qsort rand select hypot log2 log10 exp2 cbrt copysign logb ldexp frexp modf trunc "
    "nearbyint tgamma lgamma fdim fma nan memset memmove memcmp size_t "
)
_RESERVED = frozenset(_WORDS.split())


class Names:
    """Hands out C identifiers, each once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(_RESERVED) | set(taken)

    def fresh(self, base: str) -> str:
        """An identifier like `base` that nothing else has."""
        base = re.sub(r"[^A-Za-z0-9_]", "_", base.split("%")[0]) or "v"
        base = f"v{base}" if base[0].isdigit() else base
        name, count = base, 1
        while name in self._taken or name.startswith("__"):
            count += 1
            name = f"{base.lstrip('_') or 'v'}_{count}"
        self._taken.add(name)
        return name


def literal(const: Const, dialect: Dialect = C) -> str:
    """A number as C writes it, exactly."""
    value, dtype = const.value, const.dtype
    if dtype == "bool":
        return ("true" if value else "false") if dialect.types["bool"] == "bool" else str(int(value))
    if dtype[0] == "f":
        return _float_literal(float(value), dtype)
    whole = int(value)
    if dtype[0] == "u":
        whole %= 1 << int(dtype[1:])
    elif dtype in dialect.least and whole == -(1 << int(dtype[1:]) - 1):
        return dialect.least[dtype]  # which has no literal
    text = dialect.literals.get(dtype, "{}").format(abs(whole))
    return f"(-{text})" if whole < 0 else text


def _float_literal(value: float, dtype: str) -> str:
    value = float(np.float32(value)) if dtype == "f32" else value
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    text = str(np.float32(value)) if dtype == "f32" else repr(value)
    text = text if any(mark in text for mark in ".en") else f"{text}.0"
    suffixed = f"{text}f" if dtype == "f32" else text
    return f"({suffixed})" if text.startswith("-") else suffixed


# The C expression of floor(top / bottom), given those of both.
Divide = Callable[[Div, str, str], str]


def poly_text(poly: Poly, name: Callable[[str], str], divide: Divide | None = None) -> str:
    """A polynomial in arithmetic of integers; `name` gives the C expression of a symbol.

    Without `divide`, both sides of divisions are not negative, so C's division is the floor.
    """
    text = ""
    for monomial, coefficient in reversed(poly.terms):
        factors: list[str] = []
        for atom, power in monomial:
            factor = _division(atom, name, divide) if isinstance(atom, Div) else name(atom)
            factors += [factor] * power
        magnitude = abs(coefficient)
        if magnitude != 1 or not factors:
            factors.insert(0, str(magnitude))
        product = " * ".join(factors)
        if not text:
            text = f"-{product}" if coefficient < 0 else product
        else:
            text += f" {'-' if coefficient < 0 else '+'} {product}"
    return text or "0"


def _division(atom: Div, name: Callable[[str], str], divide: Divide | None) -> str:
    top, bottom = poly_text(atom.top, name, divide), poly_text(atom.bottom, name, divide)
    return f"(({top}) / ({bottom}))" if divide is None else divide(atom, top, bottom)


def is_atom(text: str) -> bool:
    """Whether a C expression binds tighter than any operator."""
    return re.fullmatch(r"[\w.]+(\[[^\[\]]*\])?|\w+\([^()]*\)", text) is not None


def enclosed(text: str) -> str:
    """A C expression that may stand next to any operator."""
    return text if is_atom(text) or (text[0] == "(" and _closes_at_end(text)) else f"({text})"


def _closes_at_end(text: str) -> bool:
    depth = 0
    for position, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return position == len(text) - 1
    return False
