"""Patterns: one term language, which `match` finds in programs and builds there, and `case` has formulas of.

    x, w, b = Var("x"), Var("w", static=True), Var("b", optional=True)
    ops.conv(x, w, b, attrs="conv") * 2

as a left side matches a conv whose weights come from constants, with or without a bias, times a constant
that is 2 everywhere, and captures the conv's attributes under the name "conv"; on a right side `attrs="conv"`
gives them back. What of a right side depends on shapes and attributes is `Later`, which `resolve` asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, Union

import numpy as np

from tensmith.formula.arith import Array, Floats
from tensmith.formula.evaluate import evaluate
from tensmith.formula.expr import Scalar, compute
from tensmith.formula.poly import Dim
from tensmith.ir.op import Attrs

Told = ParamSpec("Told")
Term: TypeAlias = Union["Var", "Const", "Number", "ConstantTable", "Use", "Later", "AnyElementwise", None]


def _operator(op: str, turned: bool = False) -> Callable[[Any, Any], Use]:
    return lambda one, other: _use(op, other, one) if turned else _use(op, one, other)


class Algebra:
    """Operators on terms: `x * w + 1` is a Use of add."""

    __add__, __radd__ = _operator("add"), _operator("add", turned=True)
    __sub__, __rsub__ = _operator("sub"), _operator("sub", turned=True)
    __mul__, __rmul__ = _operator("mul"), _operator("mul", turned=True)
    __truediv__, __rtruediv__ = _operator("div"), _operator("div", turned=True)
    __pow__, __matmul__ = _operator("pow"), _operator("matmul")

    def __neg__(self) -> Use:
        return _use("neg", self)


def _use(op: str, *args: Any) -> Use:
    return Use(op, tuple(map(_as_term, args)))


@dataclass(frozen=True)
class Var(Algebra):
    """Any value; `static`: computed from constants alone; `optional`: an input that may be omitted."""

    name: str
    static: bool = False
    optional: bool = False


@dataclass(frozen=True, eq=False)
class Const:
    """A constant that a right side brings along."""

    value: Array


@dataclass(frozen=True)
class Number(Algebra):
    """One number: on a left side a constant of any shape, on a right one a scalar in its neighbour's type."""

    value: float


@dataclass(frozen=True, eq=False)
class Later(Algebra):
    """A part of a right side that depends on shapes and attributes. `text` is how rules show it."""

    make: Callable[[Bindings], Term]
    text: str


def later(text: str) -> Callable[[Callable[Concatenate[Bindings, Told], Term]], Callable[Told, Later]]:
    """Of a function that makes a part, from bindings and what a law tells it, one that gives the `Later` for
    what it is told; of that the text may name some by number, as {0}."""

    def register(make: Callable[Concatenate[Bindings, Told], Term]) -> Callable[Told, Later]:
        def of(*told: Told.args, **more: Told.kwargs) -> Later:
            return Later(lambda m: make(m, *told, **more), text.format(*told))

        return of

    return register


@dataclass(frozen=True, eq=False)
class ConstantTable:
    """A constant given by its index formula, in the element type of a variable."""

    shape: tuple[Dim, ...]
    element: Callable[..., Scalar]
    like: Var

    def array(self, dtype: np.dtype[Any]) -> Array:
        """The constant, where the shape is static."""
        return evaluate(compute(self.shape, self.element), {}, {}, Floats()).astype(dtype)


@dataclass(frozen=True, eq=False)
class Use(Algebra):
    """A use of an op. `attrs`: a name to capture them under (on a right side: captured ones), or values."""

    op: str
    args: tuple[Term, ...]
    attrs: str | Attrs | None = None


@dataclass(frozen=True, eq=False)
class AnyElementwise(Algebra):
    """Any function of one element each of some tensors, which broadcast: what is proved of it holds of every
    elementwise op. A pattern captures under the name what it matches, and a right side gives it back."""

    function: str
    args: tuple[Term, ...]


class _Ops:
    """`ops.conv(x, w)` is a Use of the op conv."""

    def __getattr__(self, name: str) -> Callable[..., Use]:
        def use(*args: Term | Array | float, attrs: str | Attrs | None = None) -> Use:
            return Use(name, tuple(map(_as_term, args)), attrs)

        return use


ops = _Ops()


def _as_term(arg: Any) -> Term:
    if arg is None or isinstance(arg, (Var, Const, Number, ConstantTable, Use, Later, AnyElementwise)):
        return arg
    return Number(arg) if isinstance(arg, (int, float)) else Const(np.asarray(arg))


class Bindings(Protocol):
    """What a right side may ask: of a match in a program, and of a symbolic case of the proof."""

    @property
    def attrs(self) -> Mapping[str, Attrs]:
        """The attributes of every capture."""
        ...

    def has(self, var: Var) -> bool:
        """Whether an optional variable is there."""
        ...

    def shape(self, var: Var) -> tuple[Dim, ...]:
        """The shape of a variable (its rank must be known)."""
        ...

    def value(self, var: Var) -> Array | None:
        """The value of a variable, where it is known before running."""
        ...


def resolve(term: Term, m: Bindings) -> Term:
    """A right side with nothing left for later, captured attributes in place, and absent inputs gone.

    What is absent counts as zero where it is added, and stays absent where it is multiplied: a bias.
    """
    done: dict[int, tuple[Term, Term]] = {}  # the part itself is kept, so that no other takes its id

    def settle(part: Term) -> Term:
        if id(part) not in done:
            done[id(part)] = part, _settled(part)
        return done[id(part)][1]

    def _settled(part: Term) -> Term:
        if isinstance(part, Var):
            return part if not part.optional or m.has(part) else None
        if isinstance(part, Later):
            return settle(part.make(m))
        if isinstance(part, AnyElementwise):
            return AnyElementwise(part.function, tuple(map(settle, part.args)))
        if not isinstance(part, Use):
            return part
        args = tuple(map(settle, part.args))
        without = _WITHOUT.get(part.op)
        if without is not None and None in args:
            return without(*args)
        attrs = m.attrs[part.attrs] if isinstance(part.attrs, str) else part.attrs
        return Use(part.op, args, attrs)

    return settle(term)


# Sums and products with an operand that may be absent, which None stands for.
_WITHOUT: Mapping[str, Callable[..., Term]] = {
    "add": lambda a, b: b if a is None else a,
    "sub": lambda a, b: a if b is None else ops.neg(b),
    "mul": lambda a, b: None,
    "div": lambda a, b: None,
    "neg": lambda a: None,
}


def parts(*terms: Term) -> Iterator[Term]:
    """Terms and all that they are made of, but for omitted operands."""
    for term in terms:
        if term is not None:
            yield term
        if isinstance(term, Use | AnyElementwise):
            yield from parts(*term.args)


def show(term: Term) -> str:
    """A term as a line of algebra: x * (w + 1)."""
    return _shown(term)[0]


_SIGNS = {
    "add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "div": ("/", 2), "matmul": ("@", 2), "pow": ("**", 3),
}  # fmt: skip


def _shown(term: Term) -> tuple[str, int]:
    """The text, and how tightly its outermost operator binds."""
    match term:
        case None:
            return "", 9
        case Var(name):
            return name, 9
        case Number(value):
            return f"{value:g}", 9
        case Later(text=text):
            return text, 9
        case Const(value):
            return str(value.tolist()), 9
        case ConstantTable():
            return "table", 9
        case Use("neg", (arg,)):
            text, level = _shown(arg)
            return f"-{text if level > 2 else f'({text})'}", 2
        case Use(op, (left, right)) if op in _SIGNS:
            sign, level = _SIGNS[op]
            (a, tight), (b, tighter) = _shown(left), _shown(right)
            a = a if tight >= level else f"({a})"
            b = b if tighter > level else f"({b})"
            return f"{a} {sign} {b}", level
        case Use(op, args) | AnyElementwise(op, args):
            return f"{op}({', '.join(_shown(arg)[0] for arg in args if arg is not None)})", 9
    raise TypeError(f"not a term: {term!r}")
