"""The static functions that scalar arithmetic calls, written out only where a function needs them.

Signed integers are computed as unsigned ones of the same width: they wrap, as NumPy's do, and as those of
lifted sources do wherever their meaning is defined; no compiler may assume that they do not. A NaN goes
through all functions of floats.
"""

from __future__ import annotations

from tensmith.ctext.dialect import Dialect
from tensmith.formula.functions import EXTREMES

_WRAP = {"add": "+", "sub": "-", "mul": "*"}
FLOOR = "floor_div"
# A product of floats that is rounded before anything is added to it.
ROUNDED = "rounded"
# C has shorter names for these.
_NAMES = {"maximum": "max", "minimum": "min"}


def helper_name(op: str, dtype: str) -> str:
    """The name of a helper: add_i32; positions are divided by FLOOR."""
    return op if op == FLOOR else f"{_NAMES.get(op, op)}_{dtype}"


def helper_text(op: str, dtype: str, dialect: Dialect, prefix: str, noted: bool) -> str:
    """The definition of a helper.

    Integer divisions by zero are 0, as NumPy's; if `noted`, they also set what an argument points to. So does
    what asks whether a position is inside, to a number it is given, where it is not. Powers by less than zero
    are quotients rounded toward 0, those of 0 are 0.
    """
    if op == "inside":
        t = dialect.index
        head = (
            f"{dialect.function} int {prefix}{helper_name(op, dtype)}({t} i, {t} n, {t} status, int *outside)"
        )
        return (
            f"{head}\n{{\n    if (0 <= i && i < n) return 1;\n    *outside = (int)status;\n    return 0;\n}}"
        )
    if op == FLOOR:
        t = dialect.index
        return f"{dialect.function} {t} {prefix}{op}({t} a, {t} b) {{ return a / b - (a % b < 0); }}"
    t = dialect.types[dtype]
    u = dialect.unsigned.format(max(32, int(dtype[1:]))) if dtype[0] in "iu" else t
    head = f"{dialect.function} {t} {prefix}{helper_name(op, dtype)}"
    floating = dtype[0] == "f"
    suffix = "f" if dtype == "f32" and dialect.suffixed else ""
    if op in _WRAP:
        return f"{head}({t} a, {t} b) {{ return ({t})(({u})a {_WRAP[op]} ({u})b); }}"
    if op == ROUNDED:
        return f'{head}({t} a) {{ __asm__("" : "+m"(a)); return a; }}'
    if op == "neg":
        return f"{head}({t} a) {{ return ({t})(0u - ({u})a); }}"
    if op == "abs":
        return f"{head}({t} a) {{ return a < 0 ? ({t})(0u - ({u})a) : a; }}"
    if op in EXTREMES:
        sign = ">" if op == "maximum" else "<"
        nan = " || a != a" if floating else ""
        return f"{head}({t} a, {t} b) {{ return a {sign} b{nan} ? a : b; }}"
    if op == "sign":
        nan = " : a != a ? a" if floating else ""
        return f"{head}({t} a) {{ return a > 0 ? 1 : a < 0 ? -1{nan} : 0; }}"
    if op == "pow":
        below = "    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;\n"
        below = below if dtype[0] == "i" else ""
        return (
            f"{head}({t} a, {t} b)\n{{\n    {u} base = ({u})a, result = 1;\n{below}"
            f"    for ({u} left = ({u})b; left; left >>= 1, base *= base)\n"
            f"        if (left & 1) result *= base;\n    return ({t})result;\n}}"
        )
    if op == "mod" and floating:
        return (
            f"{head}({t} a, {t} b)\n{{\n    const {t} rest = fmod{suffix}(a, b);\n"
            f"    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;\n}}"
        )
    return _division(op, dtype, head, t, u, noted)


def _division(op: str, dtype: str, head: str, t: str, u: str, noted: bool) -> str:
    """Integer division and remainders: no divisor traps, neither 0 nor -1."""
    minus = (
        ""
        if dtype[0] == "u"
        else f"    if (b == -1) return {'(' + t + ')(0u - (' + u + ')a)' if op == 'div' else '0'};\n"
    )
    body = {
        "div": f"    return ({t})(a / b);",
        "fmod": f"    return ({t})(a % b);",
        "mod": f"    const {t} rest = ({t})(a % b);\n"
        f"    return rest != 0 && (rest < 0) != (b < 0) ? ({t})(rest + b) : rest;",
    }[op]
    if op == "mod" and dtype[0] == "u":
        body = f"    return ({t})(a % b);"
    zero = "    if (b == 0) {\n        *zero = 1;\n        return 0;\n    }\n"
    zero = zero if noted else "    if (b == 0) return 0;\n"
    return f"{head}({t} a, {t} b{', int *zero' if noted else ''})\n{{\n{zero}{minus}{body}\n}}"
