"""Lifted functions written by hand, one for each thing an emitter must get right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensmith.formula.poly import Poly, product
from tensmith.formula.types import F32, F64, I32, I64, MachineType
from tensmith.ir import Program, TensorType
from tensmith.ir.onnx_schema import ELEMENT_CODES
from tensmith.ir.program import make_node
from tensmith.lifting.lifted import ArrayView, Input, Lifted, Output
from tensmith.lifting.loops import Array, Function, Parameter
from tensmith.lifting.summary import Requirement, SizeSymbol

U8, I8, I16, U64 = map(MachineType, ("u8", "i8", "i16", "u64"))
N, M, K = map(Poly.symbol, ("n", "m", "k"))
ZERO, ONE = Poly.of(0), Poly.of(1)


def flat(array: str, *shape: Poly, offset: Poly = ZERO, strides: Sequence[Poly] | None = None) -> ArrayView:
    """A row-major view of flat memory, dense unless strides are given."""
    steps = []
    stride = ONE
    for extent in reversed(shape):
        steps.append(stride)
        stride = stride * extent
    return ArrayView(array, (offset,), (tuple(strides or reversed(steps)),), shape)


def nested(array: str, *shape: Poly) -> ArrayView:
    """The corner of nested memory."""
    rank = len(shape)
    steps = tuple(tuple(Poly.of(int(a == k)) for k in range(rank)) for a in range(rank))
    return ArrayView(array, (ZERO,) * rank, steps, shape)


@dataclass
class Draft:
    """A lifted function in the making."""

    name: str
    parameters: list[tuple[str, Any]]
    sizes: dict[str, Poly] = field(default_factory=dict)
    inputs: list[Input] = field(default_factory=list)
    types: dict[str, TensorType] = field(default_factory=dict)
    nodes: list[Any] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    requires: list[Requirement] = field(default_factory=list)

    def view(self, name: str, view: ArrayView, type_: MachineType) -> str:
        self.inputs.append(Input(name, view=view))
        self.types[name] = TensorType(type_, view.shape)
        return name

    def scalar(self, name: str, type_: MachineType) -> str:
        self.inputs.append(Input(f"{name}_value", scalar=name))
        self.types[f"{name}_value"] = TensorType(type_, ())
        return f"{name}_value"

    def positions(self, name: str, extent: Poly) -> str:
        self.inputs.append(Input(name, positions=extent))
        self.types[name] = TensorType("i64", (extent,))
        return name

    def const(self, value: Any, dtype: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value, dtype)
        return name

    def op(self, op: str, *inputs: str, **attrs: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(make_node(op, inputs, (name,), attrs))
        return name

    def cast(self, value: str, dtype: str) -> str:
        return self.op("cast", value, to=ELEMENT_CODES[dtype])

    def done(self, *outputs: Output, returns: MachineType | Array | None = None) -> Lifted:
        parameters = tuple(Parameter(name, type_) for name, type_ in self.parameters)
        function = Function(self.name, parameters, returns, (), "c", f"{self.name}.c")
        program = Program(
            self.name, self.types, tuple(o.name for o in outputs), tuple(self.nodes), self.constants
        )
        sizes = tuple(SizeSymbol(symbol, poly) for symbol, poly in self.sizes.items())
        assumes = ("signed arithmetic of the source does not overflow",)
        return Lifted(
            function, program, sizes, tuple(self.inputs), outputs, tuple(self.requires), assumes, "integers"
        )


def longer(array: str, poly: Poly, axis: int = 0) -> Requirement:
    return Requirement("length", f"len({array}) >= {poly}", poly, array, axis)


def vadd(type_: MachineType = I32, count: MachineType = I32) -> Lifted:
    """c[i] = a[i] + b[i]."""
    d = Draft("vadd", [("a", Array(type_)), ("b", Array(type_)), ("c", Array(type_)), ("n", count)], {"n": N})
    a, b = d.view("a", flat("a", N), type_), d.view("b", flat("b", N), type_)
    d.requires += [longer("a", N), longer("b", N), longer("c", N)]
    return d.done(Output(d.op("add", a, b), type_, flat("c", N), whole=True))


def rests() -> Lifted:
    """c[i] = a[i] % p."""
    d = Draft("rests", [("a", Array(U64)), ("p", U64), ("c", Array(U64)), ("n", I32)], {"n": N})
    a, p = d.view("a", flat("a", N), U64), d.scalar("p", U64)
    d.requires += [longer("a", N), longer("c", N), Requirement("nonzero", "p != 0", Poly.symbol("p"))]
    return d.done(Output(d.op("mod", a, p), U64, flat("c", N), whole=True))


def dot(type_: MachineType = F32) -> Lifted:
    """sum a[i] * b[i]."""
    d = Draft("dot", [("a", Array(type_)), ("b", Array(type_)), ("n", I32)], {"n": N})
    a, b = d.view("a", flat("a", N), type_), d.view("b", flat("b", N), type_)
    d.requires += [longer("a", N), longer("b", N)]
    return d.done(Output(d.op("matmul", a, b), type_), returns=type_)


def gemv(transposed: bool = False, type_: MachineType = F32) -> Lifted:
    """y = A x, or y = A' x."""
    shape = (M, N)
    d = Draft(
        "gemv",
        [("m", I32), ("n", I32), ("A", Array(type_)), ("x", Array(type_)), ("y", Array(type_))],
        {"m": M, "n": N},
    )
    strides = (ONE, M) if transposed else (N, ONE)
    a = d.view("A", flat("A", *shape, strides=strides), type_)
    x = d.view("x", flat("x", N), type_)
    d.requires += [longer("A", M * N), longer("x", N), longer("y", M)]
    return d.done(Output(d.op("matmul", a, x), type_, flat("y", M), whole=True))


def gemm(type_: MachineType = F32, a_turned: bool = False, b_turned: bool = False) -> Lifted:
    """C = alpha A B + C, leading dimensions as wide as the matrices."""
    d = Draft(
        "gemm",
        [(x, I32) for x in "mnk"] + [("alpha", type_)] + [(x, Array(type_)) for x in "ABC"],
        {"m": M, "n": N, "k": K},
    )  # fmt: skip
    a = d.view("A", flat("A", M, K, strides=(ONE, M) if a_turned else (K, ONE)), type_)
    b = d.view("B", flat("B", K, N, strides=(ONE, K) if b_turned else (N, ONE)), type_)
    c, alpha = d.view("C", flat("C", M, N), type_), d.scalar("alpha", type_)
    d.requires += [longer("A", M * K), longer("B", K * N), longer("C", M * N)]
    y = d.op("add", c, d.op("mul", alpha, d.op("matmul", a, b)))
    return d.done(Output(y, type_, flat("C", M, N)))


def blend() -> Lifted:
    """out = (base * active) / 255 on bytes, promoted to int."""
    d = Draft("blend", [("base", Array(U8)), ("active", Array(U8)), ("out", Array(U8)), ("n", I32)], {"n": N})
    a, b = (d.cast(d.view(x, flat(x, N), U8), "i32") for x in ("base", "active"))
    y = d.cast(d.op("div", d.op("mul", a, b), d.const(255, np.int32)), "u8")
    d.requires += [longer("base", N), longer("active", N), longer("out", N)]
    return d.done(Output(y, U8, flat("out", N), whole=True))


def burn() -> Lifted:
    """active == 0 ? 255 : 255 - (255 - base) / active: a division where the divisor may be zero, unread."""
    d = Draft("burn", [("base", Array(U8)), ("active", Array(U8)), ("out", Array(U8)), ("n", I32)], {"n": N})
    base, active = (d.cast(d.view(x, flat(x, N), U8), "i32") for x in ("base", "active"))
    full, none = d.const(255, np.int32), d.const(0, np.int32)
    value = d.op("sub", full, d.op("div", d.op("sub", full, base), active))
    y = d.cast(d.op("where", d.op("equal", active, none), full, value), "u8")
    d.requires += [longer("base", N), longer("active", N), longer("out", N)]
    return d.done(Output(y, U8, flat("out", N), whole=True))


def divide(type_: MachineType = I32) -> Lifted:
    """c = a / b, which wants no zero in b."""
    d = Draft("divide", [("a", Array(type_)), ("b", Array(type_)), ("c", Array(type_)), ("n", I32)], {"n": N})
    a, b = d.view("a", flat("a", N), type_), d.view("b", flat("b", N), type_)
    d.requires += [longer("a", N), longer("b", N), longer("c", N)]
    d.requires.append(Requirement("nonzero", "b holds no zero", array="b"))
    return d.done(Output(d.op("div", a, b), type_, flat("c", N), whole=True))


def stencil(type_: MachineType = F32) -> Lifted:
    """b[i] = (a[i-1] + a[i] + a[i+1]) / 3 for 1 <= i < n - 1; the ends of b stay."""
    d = Draft("stencil", [("a", Array(type_)), ("b", Array(type_)), ("n", I32)], {"s": N - 2})
    s = Poly.symbol("s")
    parts = [d.view(f"a{k}", flat("a", s, offset=Poly.of(k)), type_) for k in range(3)]
    total = d.op("add", d.op("add", parts[0], parts[1]), parts[2])
    y = d.op("div", total, d.const(3, type_.replace("f", "float").replace("i", "int")))
    d.requires += [Requirement("at_least", "n >= 2", N - 2), longer("a", s + 2), longer("b", s + 1)]
    return d.done(Output(y, type_, flat("b", s, offset=ONE)))


def in_place(type_: MachineType = F32) -> Lifted:
    """a[i] = 2 a[i] + s."""
    d = Draft("in_place", [("a", Array(type_)), ("s", type_), ("n", I64)], {"n": N})
    a, s = d.view("a", flat("a", N), type_), d.scalar("s", type_)
    two = d.const(2, type_.replace("f", "float").replace("i", "int"))
    d.requires.append(longer("a", N))
    return d.done(Output(d.op("add", d.op("mul", two, a), s), type_, flat("a", N)))


def outer(type_: MachineType = F32) -> Lifted:
    """A[i][j] += x[i] y[j], nested memory."""
    matrix = Array(type_, 2, "nested", (None, None))
    d = Draft(
        "outer",
        [("A", matrix), ("x", Array(type_)), ("y", Array(type_)), ("m", I32), ("n", I32)],
        {"m": M, "n": N},
    )
    a = d.view("A", nested("A", M, N), type_)
    x, y = d.view("x", flat("x", M), type_), d.view("y", flat("y", N), type_)
    column = d.op("unsqueeze", x, d.const([1], np.int64))
    z = d.op("add", a, d.op("mul", column, y))
    d.requires += [longer("A", M), longer("A", N, 1), longer("x", M), longer("y", N)]
    return d.done(Output(z, type_, nested("A", M, N)))


def maximum(type_: MachineType = F32) -> Lifted:
    """max a[i], for n >= 1 and no NaN."""
    d = Draft("maximum", [("a", Array(type_)), ("n", I32)], {"n": N})
    a = d.view("a", flat("a", N), type_)
    d.requires += [Requirement("at_least", "n >= 1", N - 1), longer("a", N)]
    if type_.kind == "float":
        d.requires.append(Requirement("ordered", "a holds no NaN", array="a"))
    return d.done(Output(d.op("reduce_max", a, keepdims=0), type_), returns=type_)


def softmax(type_: MachineType = F32) -> Lifted:
    """Rows of exp(x - max x) / sum exp(x - max x)."""
    d = Draft("softmax", [("x", Array(type_)), ("y", Array(type_)), ("m", I32), ("n", I32)], {"m": M, "n": N})
    x = d.view("x", flat("x", M, N), type_)
    last = d.const([1], np.int64)
    e = d.op("exp", d.op("sub", x, d.op("reduce_max", x, last)))
    y = d.op("div", e, d.op("reduce_sum", e, last))
    d.requires += [longer("x", M * N), longer("y", M * N)]
    return d.done(Output(y, type_, flat("y", M, N), whole=True))


def variance(type_: MachineType = F64) -> Lifted:
    """sum (x - mean)^2 / n, and x - mean written: a value returned and an array written."""
    d = Draft("variance", [("x", Array(type_)), ("d", Array(type_)), ("n", I32)], {"n": N})
    x = d.view("x", flat("x", N), type_)
    count = d.cast(d.op("size", d.positions("at", N)), type_)
    away = d.op("sub", x, d.op("div", d.op("reduce_sum", x, keepdims=0), count))
    total = d.op("div", d.op("reduce_sum", d.op("mul", away, away), keepdims=0), count)
    d.requires += [Requirement("at_least", "n >= 1", N - 1), longer("x", N), longer("d", N)]
    return d.done(Output(away, type_, flat("d", N)), Output(total, type_), returns=type_)


def columns(type_: MachineType = F32) -> Lifted:
    """A[i][j] - mean over i of A[i][j]: a sum that every row reads."""
    d = Draft("columns", [("A", Array(type_)), ("B", Array(type_)), ("m", I32), ("n", I32)], {"m": M, "n": N})
    a = d.view("A", flat("A", M, N), type_)
    total = d.op("reduce_sum", a, d.const([0], np.int64))
    d.requires += [longer("A", M * N), longer("B", M * N)]
    return d.done(Output(d.op("sub", a, total), type_, flat("B", M, N), whole=True))


def over_columns(op: str, type_: MachineType = F32) -> Lifted:
    """s[j] = A[0][j] + A[1][j] + ..., or another reduction, of the transposed matrix."""
    d = Draft("columns", [("A", Array(type_)), ("s", Array(type_)), ("m", I32), ("n", I32)], {"m": M, "n": N})
    a = d.op("transpose", d.view("A", flat("A", M, N), type_), perm=(1, 0))
    d.requires += [longer("A", M * N), longer("s", N)]
    return d.done(Output(d.op(op, a, d.const([1], np.int64), keepdims=0), type_, flat("s", N), whole=True))


def running(type_: MachineType = I32, op: str = "cum_sum", exclusive: int = 0, reverse: int = 0) -> Lifted:
    """b[i] = a[0] + ... + a[i], or another running value."""
    d = Draft("running", [("a", Array(type_)), ("b", Array(type_)), ("n", I32)], {"n": N})
    a = d.view("a", flat("a", N), type_)
    d.requires += [longer("a", N), longer("b", N)]
    found = d.op(op, a, d.const(0, np.int64), exclusive=exclusive, reverse=reverse)
    return d.done(Output(found, type_, flat("b", N), whole=True))


def fill() -> Lifted:
    """a[i] = c + i, in 64 bits, of an array that comes back as the return value."""
    d = Draft("fill", [("c", I64), ("n", I32)], {"n": N})
    c, at = d.scalar("c", I64), d.positions("at", N)
    return d.done(Output(d.op("add", c, at), I64), returns=Array(I64))


def backwards(type_: MachineType = I32) -> Lifted:
    """b[i] = a[n-1-i], then b[0] = 7: two outputs of one array, the later over the earlier."""
    d = Draft("backwards", [("a", Array(type_)), ("b", Array(type_)), ("n", I32)], {"n": N})
    a = d.view("a", flat("a", N, offset=N - 1, strides=(Poly.of(-1),)), type_)
    copy = d.op("identity", a)
    seven = d.op("identity", d.const([7], "int32"))
    d.requires += [Requirement("at_least", "n >= 1", N - 1), longer("a", N), longer("b", N)]
    return d.done(Output(copy, type_, flat("b", N)), Output(seven, type_, flat("b", ONE)))


def picked() -> Lifted:
    """c[i] = a[b[i] & 7]."""
    d = Draft("picked", [("a", Array(F32)), ("b", Array(I32)), ("c", Array(F32)), ("n", I32)], {"n": N})
    a, b = d.view("a", flat("a", Poly.of(8)), F32), d.view("b", flat("b", N), I32)
    index = d.op("bitwise_and", b, d.const(7, np.int32))
    d.requires += [longer("a", Poly.of(8)), longer("b", N), longer("c", N)]
    return d.done(Output(d.op("gather", a, index), F32, flat("c", N), whole=True))


def narrow(op: str, type_: MachineType) -> Lifted:
    """c = a op b in a narrow type, which wraps."""
    d = Draft("narrow", [("a", Array(type_)), ("b", Array(type_)), ("c", Array(type_)), ("n", I32)], {"n": N})
    a, b = d.view("a", flat("a", N), type_), d.view("b", flat("b", N), type_)
    d.requires += [longer("a", N), longer("b", N), longer("c", N)]
    return d.done(Output(d.op(op, a, b), type_, flat("c", N), whole=True))


def joined(type_: MachineType = F32) -> Lifted:
    """c = a then 2 a: two parts along one axis."""
    d = Draft("joined", [("a", Array(type_)), ("c", Array(type_)), ("n", I32)], {"n": N})
    a = d.view("a", flat("a", N), type_)
    both = d.op("concat", a, d.op("add", a, a), axis=0)
    d.requires += [longer("a", N), longer("c", N * 2)]
    return d.done(Output(both, type_, flat("c", N * 2), whole=True))


def function_of(op: str, type_: MachineType) -> Lifted:
    """y[i] = op(x[i])."""
    d = Draft("function", [("x", Array(type_)), ("y", Array(type_)), ("n", I32)], {"n": N})
    d.requires += [longer("x", N), longer("y", N)]
    y = d.op(op, d.view("x", flat("x", N), type_))
    return d.done(Output(y, type_, flat("y", N), whole=True))


def contraction(equation: str, type_: MachineType = F32, op: str = "einsum") -> Lifted:
    """An Einstein sum of flat arrays, its letters m, n and k; or a matmul of these axes."""
    *terms, result = equation.replace("->", ",").split(",")
    sizes = {"m": M, "n": N, "k": K}
    names = [f"a{place}" for place in range(len(terms))]
    parameters = [(name, Array(type_)) for name in [*names, "y"]]
    d = Draft("contraction", [*parameters, *((size, I32) for size in sizes)], sizes)
    for name, term in zip([*names, "y"], [*terms, result]):
        view = flat(name, *(sizes[letter] for letter in term))
        d.requires.append(longer(name, Poly.of(product(view.shape))))
        if name != "y":
            d.view(name, view, type_)
    y = d.op("einsum", *names, equation=equation) if op == "einsum" else d.op(op, *names)
    return d.done(Output(y, type_, view, whole=True))


def convolution(type_: MachineType = F32) -> Lifted:
    """y[i][j] = sum w[p][q] x[i+p][j+q], 3 x 3, through the op `conv`."""
    height, width = Poly.symbol("h"), Poly.symbol("w")
    d = Draft(
        "convolution",
        [("x", Array(type_)), ("f", Array(type_)), ("y", Array(type_)), ("h", I32), ("w", I32)],
        {"p": height - 2, "q": width - 2},
    )
    p, q, three = Poly.symbol("p"), Poly.symbol("q"), Poly.of(3)
    x = d.view("x", ArrayView("x", (ZERO,), ((ZERO, ZERO, q + 2, ONE),), (ONE, ONE, p + 2, q + 2)), type_)
    f = d.view("f", ArrayView("f", (ZERO,), ((ZERO, ZERO, three, ONE),), (ONE, ONE, three, three)), type_)
    y = d.op("conv", x, f, kernel_shape=(3, 3))
    plain = d.op("squeeze", y, d.const([0, 1], np.int64))
    d.requires += [
        Requirement("at_least", "h >= 2", height - 2),
        Requirement("at_least", "w >= 2", width - 2),
    ]
    d.requires += [longer("x", (p + 2) * (q + 2)), longer("f", Poly.of(9)), longer("y", p * q)]
    return d.done(Output(plain, type_, flat("y", p, q), whole=True))
