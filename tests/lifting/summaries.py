"""Summaries written by hand, and what they mean element by element: the reference of tensorize and emit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from tensmith.formula.expr import Call, Choose, Num, Read, Reduce, Size
from tensmith.formula.poly import Poly
from tensmith.formula.types import F32, I32, MachineType
from tensmith.lifting.loops import Array, Function, Parameter
from tensmith.lifting.summary import Requirement, Result, SizeSymbol, StridedMemory, Summary, Term, Written

U8 = MachineType("u8")
n, m, k = map(Poly.symbol, "nmk")
i, j, p = (Poly.symbol(f"{name}%0") for name in "ijp")


def at(array: str, *indices: Poly | int, type: MachineType = I32) -> Read:
    return Read(array, tuple(map(Poly.of, indices)), type)


def number(value: float, type: MachineType = I32) -> Num:
    return Num(Fraction(value), type)


def op(operator: str, *arguments: Term, type: MachineType | None = None) -> Call:
    return Call(operator, arguments, type or arguments[0].type)


def total(var: Poly, extent: Poly, body: Term, kind: str = "sum", start: Term | None = None) -> Reduce:
    return Reduce(kind, str(var), extent, body, body.type, start=start or number(0, body.type))


def summary(
    name: str,
    parameters: Mapping[str, MachineType | Array],
    results: Mapping[str, Written | Term],
    grids: Mapping[str, tuple[Poly, ...]] | None = None,
    sizes: Mapping[str, Poly] | None = None,
    requires: tuple[Requirement, ...] = (),
    returns: MachineType | None = None,
    language: Any = "c",
) -> Summary:
    """A summary without loops, which tensorize does not read."""
    given = tuple(Parameter(key, type_) for key, type_ in parameters.items())
    found = []
    for key, value in results.items():
        written = value if isinstance(value, Written) else Written((), (), (), value)
        found.append(Result(key, written.value.type, (written,)))
    grid = {key: StridedMemory(key, strides) for key, strides in (grids or {}).items()}
    own = {key: p.type.element for p in given if isinstance(p.type, Array) for key in [p.name]}
    for key in own:
        grid.setdefault(key, StridedMemory(key))
    size = sizes or {s: Poly.symbol(s) for s in parameters if s in "nmk"}
    function = Function(name, given, returns, (), language, f"{name}.c")
    return Summary(
        function,
        tuple(SizeSymbol(s, p) for s, p in size.items()),
        grid,
        (),
        tuple(found),
        "integers",
        requires,
    )


def box(value: Term, *extents: tuple[Poly, Poly], shift: int = 0, where: tuple[Poly, ...] = ()) -> Written:
    """Written at each index (plus `shift`) of a box of (index, extent) pairs."""
    return Written(
        tuple(str(v) for v, _ in extents),
        tuple(e for _, e in extents),
        tuple(v + shift for v, _ in extents),
        value,
        where,
    )


def vector(element: MachineType = I32) -> Array:
    return Array(element)


# Meaning

_OPERATORS: dict[str, Any] = {
    "inf": lambda: math.inf,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "div": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "fmod": lambda a, b: math.copysign(1, a) * (abs(a) % abs(b)),
    "floor_div": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "maximum": max,
    "minimum": min,
    "exp": math.exp,
    "sqrt": math.sqrt,
}


def evaluate(claim: Summary, arguments: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Result name -> the parameter's content afterwards, or the returned value."""
    values = {key: value for key, value in arguments.items() if not isinstance(value, np.ndarray)}
    for size in claim.sizes:
        values[size.symbol] = max(0, size.poly.evaluate({**arguments, **values}))
    found: dict[str, Any] = {}
    for result in claim.results:
        out = found.setdefault(result.name, np.array(arguments.get(result.name, 0)))
        for part in result.written:
            extents = [max(0, e.evaluate(values)) for e in part.extents]
            for place in np.ndindex(*extents):
                here = {**values, **dict(zip(part.indices, place))}
                if any(condition.evaluate(here) < 0 for condition in part.where):
                    continue
                position = _place(claim, result.name, [a.evaluate(here) for a in part.at], here)
                out[position] = term(claim, part.value, here, arguments)
    return found


def _place(claim: Summary, array: str, subscripts: list[int], values: Mapping[str, Any]) -> Any:
    strides = claim.grids.get(array, StridedMemory(array)).strides
    if strides:
        return sum(stride.evaluate(values) * s for stride, s in zip(strides, subscripts))
    return tuple(subscripts)


def term(claim: Summary, value: Term, here: Mapping[str, Any], arrays: Mapping[str, Any]) -> Any:
    """The value of a term where its index variables are given."""

    def inner(part: Term, **more: Any) -> Any:
        return term(claim, part, {**here, **more}, arrays)

    match value:
        case Num(number, type_):
            return int(number) if type_.kind == "int" else float(number)
        case Size(poly, _):
            return int(poly.evaluate(here))
        case Read(name, (), _):
            return arrays[name]
        case Read(array, indices, _):
            return arrays[array][_place(claim, array, [int(x.evaluate(here)) for x in indices], here)].item()
        case Call("where", (condition, a, b), _):
            return inner(a if inner(condition) else b)
        case Call("cast", (part,), type_):
            return _cast(inner(part), type_)
        case Call("div", (a, b), type_) if type_.kind == "float":
            return inner(a) / inner(b)
        case Call(operator, parts, _):
            return _OPERATORS[operator](*map(inner, parts))
        case Reduce(kind, var, extent, body, start=start):
            join = {"sum": _OPERATORS["add"], "prod": _OPERATORS["mul"], "max": max, "min": min}[kind]
            found = inner(start)
            for step in range(extent.evaluate(here)):
                found = join(found, inner(body, **{var: step}))
            return found
        case Choose(conditions, then, otherwise, _):
            chosen = all(condition.evaluate(here) >= 0 for condition in conditions)
            return inner(then if chosen else otherwise)


def _cast(value: Any, type_: MachineType) -> Any:
    if type_.kind == "float":
        return float(value)
    whole = int(value)
    if type_.bits is None:
        return whole
    wrapped = whole % (1 << type_.bits)
    return wrapped - (1 << type_.bits) if type_.signed and wrapped >> (type_.bits - 1) else wrapped


# Kernels

c_flat = {"A": (k, Poly.of(1)), "B": (n, Poly.of(1)), "C": (n, Poly.of(1))}


def matrices(element: MachineType = F32) -> dict[str, MachineType | Array]:
    return {"A": vector(element), "B": vector(element), "C": vector(element), "m": I32, "n": I32, "k": I32}


def widen(term: Term, type: MachineType = I32) -> Call:
    return op("cast", term, type=type)


def blend() -> Summary:
    """base + active - base * active / 255 on bytes."""
    a, b = (widen(at(x, i, type=U8)) for x in ("base", "active"))
    value = op("sub", op("add", a, b), op("div", op("mul", a, b), number(255)))
    parameters = {"base": vector(U8), "active": vector(U8), "out": vector(U8), "n": I32}
    return summary("screen", parameters, {"out": box(op("cast", value, type=U8), (i, n))})


def burn() -> Summary:
    """active = 0 ? 255 : 255 - (255 - base) / active, a division that not every element needs."""
    a, b = (widen(at(x, i, type=U8)) for x in ("active", "base"))
    quotient = op("div", op("sub", number(255), b), a)
    value = op("where", op("equal", a, number(0)), number(255), op("sub", number(255), quotient), type=I32)
    parameters = {"base": vector(U8), "active": vector(U8), "out": vector(U8), "n": I32}
    return summary("burn", parameters, {"out": box(op("cast", value, type=U8), (i, n))})


KERNELS: dict[str, Summary] = {
    "vadd": summary(
        "vadd", {"a": vector(), "b": vector(), "out": vector(), "n": I32},
        {"out": box(op("add", at("a", i), at("b", i)), (i, n))},
    ),
    "inplace": summary(
        "inplace", {"a": vector(F32), "s": F32, "n": I32},
        {"a": box(op("mul", at("a", i, type=F32), Read("s", (), F32)), (i, n))},
    ),
    "fill": summary("fill", {"a": vector(F32), "n": I32}, {"a": box(number(1.5, F32), (i, n))}),
    "ramp": summary(
        "ramp", {"a": vector(), "n": I32}, {"a": box(Size(i * n + 3, I32), (i, n))}
    ),
    "dot": summary(
        "dot", {"a": vector(), "b": vector(), "n": I32},
        {"return": total(p, n, op("mul", at("a", p), at("b", p)))}, returns=I32,
    ),
    "total": summary(
        "total", {"a": vector(U8), "n": I32}, {"return": total(p, n, widen(at("a", p, type=U8)))}, returns=I32
    ),
    "greatest": summary(
        "greatest", {"a": vector(), "n": I32},
        {"return": total(p, n - 1, at("a", p + 1), "max", at("a", 0))},
        sizes={"n": n}, requires=(Requirement("at_least", "n >= 1", n - 1),), returns=I32,
    ),
    "greatest_or_zero": summary(
        "greatest_or_zero", {"a": vector(), "n": I32}, {"return": total(p, n, at("a", p), "max")}, returns=I32
    ),
    "gemv": summary(
        "gemv", {"A": vector(F32), "x": vector(F32), "y": vector(F32), "m": I32, "n": I32},
        {"y": box(total(p, n, op("mul", at("A", i, p, type=F32), at("x", p, type=F32))), (i, m))},
        {"A": (n, Poly.of(1))},
    ),
    "gemv_t": summary(
        "gemv_t", {"A": vector(F32), "x": vector(F32), "y": vector(F32), "m": I32, "n": I32},
        {"y": box(total(p, m, op("mul", at("A", p, i, type=F32), at("x", p, type=F32))), (i, n))},
        {"A": (n, Poly.of(1))},
    ),
    "matmul": summary(
        "matmul", matrices(),
        {"C": box(total(p, k, op("mul", at("A", i, p, type=F32), at("B", p, j, type=F32))), (i, m), (j, n))},
        c_flat,
    ),
    "gemm_int": summary(
        "gemm_int", {**matrices(I32), "alpha": I32},
        {"C": box(op("add", at("C", i, j), total(p, k, op("mul", op("mul", Read("alpha", (), I32),
            at("A", i, p)), at("B", p, j)))), (i, m), (j, n))},
        c_flat,
    ),
    "outer": summary(
        "outer", matrices(),
        {"C": box(op("add", at("C", i, j, type=F32), op("mul", at("A", i, type=F32), at("B", j, type=F32))),
            (i, m), (j, n))},
        {"C": (n, Poly.of(1))},
    ),
    "stencil": summary(
        "stencil", {"a": vector(), "b": vector(), "n": I32},
        {"b": box(op("add", op("add", at("a", i), at("a", i + 1)), at("a", i + 2)), (i, n), shift=1)},
        sizes={"n": n - 2},
    ),
    "window": summary(
        "window", {"a": vector(F32), "w": vector(F32), "b": vector(F32), "n": I32, "k": I32},
        {"b": box(total(p, k, op("mul", at("a", i + p, type=F32), at("w", p, type=F32))), (i, n))},
        requires=(Requirement("at_least", "k >= 1", k - 1),),
    ),
    "taps": summary(
        "taps", {"a": vector(), "w": vector(), "b": vector(), "n": I32},
        {"b": box(total(p, Poly.of(3), op("mul", at("a", i + p), at("w", p))), (i, n))},
    ),
    "padded": summary(
        "padded", {"a": vector(), "b": vector(), "n": I32},
        {"b": box(
            total(p, Poly.of(3), Choose((i + p - 1, n - i - p), at("a", i + p - 1), number(0), I32)),
            (i, n),
        )},
    ),
    "edges": summary(
        "edges", {"a": vector(), "b": vector(), "n": I32},
        {"b": box(Choose((i - 1, n - 2 - i), op("add", at("a", i - 1), at("a", i + 1)), at("a", i), I32),
            (i, n))},
    ),
    "prefix": summary(
        "prefix", {"a": vector(), "b": vector(), "n": I32},
        {"b": box(total(p, i + 1, at("a", p)), (i, n))},
    ),
    "suffix": summary(
        "suffix", {"a": vector(), "b": vector(), "n": I32},
        {"b": box(total(p, n - i, at("a", i + p)), (i, n))},
    ),
    "trmv": summary(
        "trmv", {"A": vector(F32), "x": vector(F32), "y": vector(F32), "n": I32},
        {"y": box(total(p, i + 1, op("mul", at("A", i, p, type=F32), at("x", p, type=F32))), (i, n))},
        {"A": (n, Poly.of(1))},
    ),
    "triangle": summary(
        "triangle", {"A": vector(F32), "n": I32},
        {"A": box(op("neg", at("A", i, j, type=F32)), (i, n), (j, n), where=(i - j,))},
        {"A": (n, Poly.of(1))},
    ),
    "screen": blend(),
    "burn": burn(),
    "one_variable_two_extents": summary(
        "one_variable_two_extents", {"a": vector(), "b": vector(), "n": I32},
        {"return": op("sub", total(p, n, at("a", p)), total(p, n - 1, op("mul", at("a", p), at("b", p))))},
        returns=I32,
    ),
    "one_variable_two_triangles": summary(
        "one_variable_two_triangles", {"a": vector(), "b": vector(), "n": I32, "m": I32},
        {"b": box(op("add", total(p, m, number(1)), total(p, i, op("mul", at("a", i), number(3)))), (i, n))},
    ),
    "floor": summary(
        "floor", {"a": vector(), "b": vector(), "n": I32},
        {"b": box(op("add", op("floor_div", at("a", i), number(7)), op(
                  "mod", at("a", i), number(-7))), (i, n))},
    ),
    "quotient": summary(
        "quotient", {"a": vector(), "b": vector(), "c": vector(), "n": I32},
        {"c": box(op("add", op("div", at("a", i), at("b", i)), op("fmod", at("a", i), at("b", i))), (i, n))},
        requires=(Requirement("nonzero", "no element of b is 0", array="b"),),
    ),
}  # fmt: skip
