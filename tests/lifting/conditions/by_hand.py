"""Functions of the loop language with summaries written by hand: what the proof is tried on first."""

from __future__ import annotations

from fractions import Fraction

from lifting.summarize.build import add, c, flat, function, less, load, loop, mul, nested, op, store, v
from tensmith.formula.expr import Call, Expr, Num, Read, Reduce, Size, SourcePosition
from tensmith.formula.poly import Poly
from tensmith.formula.types import BOOL, F32, F64, I32, MachineType
from tensmith.lifting.loops import Assign, Declare, If, Return, Store
from tensmith.lifting.summary import (
    LoopFacts,
    Requirement,
    Result,
    SizeSymbol,
    StridedMemory,
    Summary,
    Term,
    Written,
)

U8 = MachineType("u8")
n, m = Poly.symbol("n"), Poly.symbol("m")
i, j, k, x, y = (Poly.symbol(f"{name}%h") for name in "ijkxy")
ZERO = Poly.of(0)


def read(array: str, *at: Poly, type: MachineType = I32) -> Read:
    return Read(array, at, type)


def number(value: float, type: MachineType = I32) -> Num:
    return Num(Fraction(value), type)


def term(operator: str, *arguments: Term, type: MachineType | None = None) -> Call:
    return Call(operator, arguments, type or arguments[0].type)


def total(var: Poly, extent: Poly, body: Term, start: Term | None = None, kind: str = "sum") -> Reduce:
    return Reduce(kind, str(var), extent, body, body.type, start=start or number(0, body.type))


def box(value: Term, *pairs: tuple[Poly, Poly], at: tuple[Poly, ...] | None = None) -> Written:
    return Written(
        tuple(str(v) for v, _ in pairs), tuple(e for _, e in pairs), at or tuple(v for v, _ in pairs), value
    )


def facts(
    label: str,
    counter: Poly,
    trips: Poly,
    scalars: dict[str, Term],
    outer: tuple[str, ...] = (),
    **arrays: Written,
) -> LoopFacts:
    return LoopFacts(label, str(counter), outer, trips, scalars, {name: (w,) for name, w in arrays.items()})


def length(array: str, poly: Poly, text: str) -> Requirement:
    return Requirement("length", text, poly, array)


SIZE_N, SIZE_M = SizeSymbol("n", n), SizeSymbol("m", m)
INDEX = Size(i, I32)


def dot() -> Summary:
    """s = sum a[i] * b[i]"""
    body = Assign("s", add(v("s"), mul(load("a", v("i")), load("b", v("i")))))
    f = function(
        {"a": flat(), "b": flat(), "n": I32},
        Declare("s", I32, c(0)), *loop("i", c(0), v("n"), body), Return(v("s")), returns=I32,
    )  # fmt: skip
    product = term("mul", read("a", x), read("b", x))
    return Summary(
        f, (SIZE_N,), {"a": StridedMemory("a"), "b": StridedMemory("b")},
        (facts("i@1:1", i, n, {"i": INDEX, "s": total(x, i, product)}),),
        (Result("return", I32, (Written((), (), (), total(x, n, product)),)),),
        "machine integers", (length("a", n, "elements of a >= n"), length("b", n, "elements of b >= n")),
    )  # fmt: skip


def vadd() -> Summary:
    """out[i] = a[i] + b[i]"""
    body = store("out", v("i"), add(load("a", v("i")), load("b", v("i"))))
    f = function({"a": flat(), "b": flat(), "out": flat(), "n": I32}, *loop("i", c(0), v("n"), body))
    value = term("add", read("a", x), read("b", x))
    return Summary(
        f, (SIZE_N,), {name: StridedMemory(name) for name in ("a", "b", "out")},
        (facts("i@1:1", i, n, {"i": INDEX}, out=box(value, (x, i))),),
        (Result("out", I32, (box(value, (x, n)),)),),
        "machine integers", tuple(length(name, n, f"elements of {name} >= n") for name in ("a", "b", "out")),
    )  # fmt: skip


def gemv() -> Summary:
    """y[i] = sum A[i*n+j] * x[j], accumulated in memory"""
    element = load("A", add(mul(v("i"), v("n")), v("j")), type=F32)
    inner = Store(
        "y",
        (v("i"),),
        op("add", load("y", v("i"), type=F32), op("mul", element, load("x", v("j"), type=F32))),
    )
    f = function(
        {"A": flat(F32), "x": flat(F32), "y": flat(F32), "m": I32, "n": I32},
        *loop("i", c(0), v("m"), Store("y", (v("i"),), c(0.0, F32)), *loop("j", c(0), v("n"), inner, line=2)),
    )

    def row(at: Poly, extent: Poly) -> Reduce:
        return total(k, extent, term("mul", read("A", at, k, type=F32), read("x", k, type=F32)))

    return Summary(
        f,
        (SIZE_M, SIZE_N),
        {"A": StridedMemory("A", (n, Poly.of(1))), "x": StridedMemory("x"), "y": StridedMemory("y")},
        (
            facts("i@1:1", i, m, {"i": INDEX}, y=box(row(x, n), (x, i))),
            facts("j@2:1", j, n, {"j": Size(j, I32)}, (str(i),), y=box(row(i, j), at=(i,))),
        ),
        (Result("y", F32, (box(row(x, n), (x, m)),)),),
        "reals",
        (length("A", m * n, "elements of A >= m*n"), length("x", n, "elements of x >= n"),
         length("y", m, "elements of y >= m")),
    )  # fmt: skip


def blend() -> Summary:
    """out[i] = active == 0 ? 255 : 255 - (255 - base) / active, on bytes"""
    a, b = (Call("cast", (load(name, v("i"), type=U8),), I32) for name in ("active", "base"))
    burnt = op("sub", c(255), op("div", op("sub", c(255), b), a))
    body = If(
        Call("equal", (a, c(0)), BOOL),
        (Store("out", (v("i"),), c(255, U8)),),
        (Store("out", (v("i"),), Call("cast", (burnt,), U8)),),
    )
    f = function(
        {"base": flat(U8), "active": flat(U8), "out": flat(U8), "n": I32}, *loop("i", c(0), v("n"), body)
    )
    p, q = (term("cast", read(name, x, type=U8), type=I32) for name in ("active", "base"))
    claimed = term("sub", number(255), term("div", term("sub", number(255), q), p))
    value = term(
        "where",
        term("equal", p, number(0), type=BOOL),
        number(255, U8),
        term("cast", claimed, type=U8),
        type=U8,
    )
    return Summary(
        f, (SIZE_N,), {name: StridedMemory(name) for name in ("base", "active", "out")},
        (facts("i@1:1", i, n, {"i": INDEX}, out=box(value, (x, i))),),
        (Result("out", U8, (box(value, (x, n)),)),),
        "machine integers",
        tuple(length(name, n, f"elements of {name} >= n") for name in ("base", "active", "out")),
    )  # fmt: skip


def prefix_max() -> Summary:
    """out[i] = the largest of a[0], ..., a[i]; n >= 1"""
    larger: Expr = less(v("top"), load("a", v("i")))
    body = (If(larger, (Assign("top", load("a", v("i"))),)), store("out", v("i"), v("top")))
    f = function(
        {"a": flat(), "out": flat(), "n": I32},
        Declare("top", I32, load("a", c(0))), *loop("i", c(0), v("n"), *body),
    )  # fmt: skip

    def top(extent: Poly) -> Reduce:
        return total(k, extent, read("a", k), read("a", ZERO), "max")

    return Summary(
        f, (SIZE_N,), {"a": StridedMemory("a"), "out": StridedMemory("out")},
        (facts("i@1:1", i, n, {"i": INDEX, "top": top(i)}, out=box(top(x + 1), (x, i))),),
        (Result("out", I32, (box(top(x + 1), (x, n)),)),),
        "machine integers",
        (length("a", n, "elements of a >= n"), length("out", n, "elements of out >= n"),
         Requirement("at_least", "n >= 1", n - 1)),
    )  # fmt: skip


def in_place() -> Summary:
    """a[i] = s * a[i], and the sum of what was there is returned"""
    body = (
        Assign("t", op("add", v("t", F64), load("a", v("i"), type=F64))),
        Store("a", (v("i"),), op("mul", v("s", F64), load("a", v("i"), type=F64))),
    )
    f = function(
        {"a": flat(F64), "s": F64, "n": I32},
        Declare("t", F64, c(0.0, F64)), *loop("i", c(0), v("n"), *body), Return(v("t", F64)), returns=F64,
    )  # fmt: skip
    value = term("mul", Read("s", (), F64), read("a", x, type=F64))
    summed = read("a", k, type=F64)
    return Summary(
        f, (SIZE_N,), {"a": StridedMemory("a")},
        (facts("i@1:1", i, n, {"i": INDEX, "t": total(k, i, summed)}, a=box(value, (x, i))),),
        (
            Result("a", F64, (box(value, (x, n)),)),
            Result("return", F64, (Written((), (), (), total(k, n, summed)),)),
        ),
        "reals", (length("a", n, "elements of a >= n"),),
    )  # fmt: skip


def reversed_dot() -> Summary:
    """sum a[i] * b[n-1-i], claimed from the other end: equal by a lemma about folds"""
    turned = op("sub", op("sub", v("n"), c(1)), v("i"))
    body = Assign(
        "s", op("add", v("s", F64), op("mul", load("a", v("i"), type=F64), load("b", turned, type=F64)))
    )
    f = function(
        {"a": flat(F64), "b": flat(F64), "n": I32},
        Declare("s", F64, c(0.0, F64)), *loop("i", c(0), v("n"), body), Return(v("s", F64)), returns=F64,
    )  # fmt: skip
    forward = term("mul", read("a", k, type=F64), read("b", n - 1 - k, type=F64))
    backward = term("mul", read("a", n - 1 - k, type=F64), read("b", k, type=F64))
    return Summary(
        f, (SIZE_N,), {"a": StridedMemory("a"), "b": StridedMemory("b")},
        (facts("i@1:1", i, n, {"i": INDEX, "s": total(k, i, forward)}),),
        (Result("return", F64, (Written((), (), (), total(k, n, backward)),)),),
        "reals",
        (length("a", n, "elements of a >= n"), length("b", n, "elements of b >= n"),
         Requirement("at_least", "n >= 0", n)),
    )  # fmt: skip


def matrix_copy() -> Summary:
    """out[i][j] = a[i][j], vectors of vectors"""
    body = Store("out", (v("i"), v("j")), load("a", v("i"), v("j"), type=F64))
    f = function(
        {"a": nested(F64, 2), "out": nested(F64, 2), "m": I32, "n": I32},
        *loop("i", c(0), v("m"), *loop("j", c(0), v("n"), body, line=2)),
    )
    value = read("a", x, y, type=F64)
    required = tuple(
        Requirement("length", f"axis {axis} of {name}", size, name, axis)
        for name in ("a", "out") for axis, size in enumerate((m, n))
    )  # fmt: skip
    row = read("a", i, y, type=F64)
    return Summary(
        f, (SIZE_M, SIZE_N), {"a": StridedMemory("a"), "out": StridedMemory("out")},
        (
            facts("i@1:1", i, m, {"i": INDEX}, out=box(value, (x, i), (y, n))),
            facts("j@2:1", j, n, {"j": Size(j, I32)}, (str(i),), out=box(row, (y, j), at=(i, y))),
        ),
        (Result("out", F64, (box(value, (x, m), (y, n)),)),), "reals", required,
    )  # fmt: skip


def zeros_and_quotient() -> Summary:
    """How many of b are 0, and a[0] / b[0]"""
    body = If(op("equal", load("b", v("i")), c(0), type=BOOL), (Assign("z", add(v("z"), c(1))),))
    divided = Call("div", (load("a", c(0)), load("b", c(0))), I32, SourcePosition(2, 1))
    f = function(
        {"a": flat(), "b": flat(), "n": I32},
        Declare("z", I32, c(0)), *loop("i", c(0), v("n"), body), Return(add(divided, v("z"))), returns=I32,
    )  # fmt: skip
    one = term("where", term("equal", read("b", x), number(0), type=BOOL), number(1), number(0), type=I32)
    quotient = term("div", read("a", ZERO), read("b", ZERO))
    return Summary(
        f, (SIZE_N,), {"a": StridedMemory("a"), "b": StridedMemory("b")},
        (facts("i@1:1", i, n, {"i": INDEX, "z": total(x, i, one)}),),
        (Result("return", I32, (Written((), (), (), term("add", quotient, total(x, n, one))),)),),
        "machine integers",
        (length("a", Poly.of(1), "elements of a >= 1"), length("b", n, "elements of b >= n"),
         length("b", Poly.of(1), "elements of b >= 1"),
         Requirement("nonzero", "no element of b that is read is 0 (line 2)", None, "b")),
    )  # fmt: skip


BY_HAND = {
    make.__name__: make
    for make in (
        dot, vadd, gemv, blend, prefix_max, in_place, reversed_dot, matrix_copy, zeros_and_quotient,
    )
}  # fmt: skip
