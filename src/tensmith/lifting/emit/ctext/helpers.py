"""The static functions that scalar arithmetic calls, written out only where a function needs them.

Signed integers are computed as unsigned ones of the same width: they wrap, as the source's do wherever its
meaning is defined, and no compiler may assume that they do not.
"""

from __future__ import annotations

from tensmith.lifting.emit.ctext.names import CTYPES

_WRAP = {"add": "+", "sub": "-", "mul": "*"}


def helper_name(op: str, dtype: str) -> str:
    """The name of a helper: add_i32."""
    return f"{op}_{dtype}"


def helper_text(op: str, dtype: str, result: str = "") -> str:
    """The definition of a helper."""
    t = CTYPES[dtype]
    u = f"uint{max(32, int(dtype[1:]))}_t" if dtype[0] in "iu" else t
    head = f"static inline {t} {helper_name(op, dtype)}"
    floating = dtype[0] == "f"
    suffix = "f" if dtype == "f32" else ""
    if op in _WRAP:
        return f"{head}({t} a, {t} b) {{ return ({t})(({u})a {_WRAP[op]} ({u})b); }}"
    if op == "neg":
        return f"{head}({t} a) {{ return ({t})(0u - ({u})a); }}"
    if op == "abs":
        return f"{head}({t} a) {{ return a < 0 ? ({t})(0u - ({u})a) : a; }}"
    if op in ("max", "min"):
        sign = ">" if op == "max" else "<"
        nan = " || a != a" if floating else ""
        return f"{head}({t} a, {t} b) {{ return a {sign} b{nan} ? a : b; }}"
    if op == "sign":
        return f"{head}({t} a) {{ return ({t})((a > 0) - (a < 0)); }}"
    if op == "pow":
        return (
            f"{head}({t} a, {t} b)\n{{\n    {u} base = ({u})a, result = 1;\n"
            f"    for ({u} left = b < 0 ? 0 : ({u})b; left; left >>= 1, base *= base)\n"
            f"        if (left & 1) result *= base;\n    return ({t})result;\n}}"
        )
    if op == "fmod" and floating:
        return (
            f"{head}({t} a, {t} b)\n{{\n    const {t} rest = fmod{suffix}(a, b);\n"
            f"    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;\n}}"
        )
    return _division(op, dtype, head, t, u)


def _division(op: str, dtype: str, head: str, t: str, u: str) -> str:
    """Integer division and remainders: a zero divisor is noted, and -1 never traps."""
    minus = (
        ""
        if dtype[0] == "u"
        else f"    if (b == -1) return {'(' + t + ')(0u - (' + u + ')a)' if op == 'div' else '0'};\n"
    )
    body = {
        "div": f"    return ({t})(a / b);",
        "tmod": f"    return ({t})(a % b);",
        "fmod": f"    const {t} rest = ({t})(a % b);\n"
        f"    return rest != 0 && (rest < 0) != (b < 0) ? ({t})(rest + b) : rest;",
    }[op]
    if op == "fmod" and dtype[0] == "u":
        body = f"    return ({t})(a % b);"
    note = "    if (b == 0) {\n        *zero = 1;\n        return 0;\n    }\n"
    return f"{head}({t} a, {t} b, int *zero)\n{{\n{note}{minus}{body}\n}}"
