"""Kinds of Python values: numbers with NumPy's promotion (NEP 50), and lists or arrays of them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from typing import TypeAlias

import numpy as np

from tensmith.formula.expr import Number, SourcePosition
from tensmith.formula.types import BOOL, F32, F64, I64, INT, MachineType
from tensmith.ir.types import DTYPES as NUMPY
from tensmith.lifting.loops import Array
from tensmith.lifting.refusal import Refusal


@dataclass(frozen=True)
class NumberKind:
    """A number. Python's own are weak: beside a NumPy number they take its type.

    among: the kinds of which it has one, by the path taken; `scalar` holds all of them. small: a literal
    that every type of integers holds.
    """

    scalar: MachineType
    weak: bool = True
    among: frozenset[NumberKind] = frozenset()
    small: bool = False

    def __str__(self) -> str:
        return self.scalar

    @property
    def settled(self) -> bool:
        """Whether computing in `scalar` is computing in whatever kind it has: none of several wraps."""
        return not self.among or all(map(_never_wraps, self.among))

    @property
    def kinds(self) -> frozenset[NumberKind]:
        """The kinds that it may have."""
        return self.among or frozenset({self})


@dataclass(frozen=True)
class ArrayKind:
    """A list of (lists of) numbers, or a NumPy array; rank is the number of subscripts.

    taken: the type of the elements is what it is taken to be; nobody says it.
    """

    element: NumberKind
    rank: int
    numpy: bool = False
    taken: bool = field(default=False, compare=False)

    @property
    def row(self) -> ArrayKind | NumberKind:
        """What one subscript gives."""
        return ArrayKind(self.element, self.rank - 1, self.numpy) if self.rank > 1 else self.element

    def array(self, written: bool = True) -> Array:
        """The loop language's type."""
        return Array(self.element.scalar, self.rank, "nested", (None,) * self.rank, written)


AnyKind: TypeAlias = NumberKind | ArrayKind

PY_BOOL, PY_INT, PY_FLOAT = NumberKind(BOOL), NumberKind(INT), NumberKind(F64)
_SMALL = NumberKind(INT, small=True)
_WEAK = (PY_BOOL, PY_INT, PY_FLOAT)

DTYPES: dict[str, NumberKind] = {
    **{
        f"{sign}int{bits}": NumberKind(MachineType(f"{sign[:1] or 'i'}{bits}"), False)
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    "float32": NumberKind(F32, False),
    "float64": NumberKind(F64, False),
    "single": NumberKind(F32, False),
    "double": NumberKind(F64, False),
    "intp": NumberKind(I64, False),
    "int_": NumberKind(I64, False),
    "bool_": NumberKind(BOOL, False),
    "bool": NumberKind(BOOL, False),
}


def join(*kinds: NumberKind) -> NumberKind:
    """The kind of what has one of some kinds."""
    among: frozenset[NumberKind] = frozenset().union(*(kind.kinds for kind in kinds))
    among = among - {_SMALL} if PY_INT in among else among
    if len(among) == 1:
        return next(iter(among))
    whole = reduce(_both, sorted(map(_plain, among), key=lambda kind: (kind.weak, kind.scalar)))
    if all(kind.scalar.kind == "float" for kind in among):
        return whole
    wraps = whole.scalar.kind == "int" and not all(map(_never_wraps, among))
    return NumberKind(INT if wraps and len(among - {_SMALL}) > 1 else whole.scalar, whole.weak, among)


def own(value: Number) -> NumberKind:
    """The kind of a number of Python."""
    return PY_BOOL if isinstance(value, bool) else PY_INT if isinstance(value, int) else PY_FLOAT


def literal(value: Number) -> NumberKind:
    """The kind of a literal of Python."""
    kind = own(value)
    return _SMALL if kind == PY_INT and 0 <= value < 128 else kind


def _plain(kind: NumberKind) -> NumberKind:
    return PY_INT if kind == _SMALL else kind


def _never_wraps(kind: NumberKind) -> bool:
    """Whether arithmetic is that of numbers; integers fit in 64 bits."""
    return kind.weak or kind.scalar.kind != "int" or kind == DTYPES["int64"]


Rule = Callable[[NumberKind, NumberKind], NumberKind]


def _of_each(rule: Rule) -> Rule:
    """A rule for numbers that have one of several kinds."""
    return lambda left, right: join(
        *(rule(*pair) for pair in product(map(_plain, left.kinds), map(_plain, right.kinds)))
    )


def _both(left: NumberKind, right: NumberKind) -> NumberKind:
    if left.weak and right.weak:
        return _WEAK[max(_WEAK.index(left), _WEAK.index(right))]
    if left.weak or right.weak:
        weak, strong = (left, right) if left.weak else (right, left)
        if (
            weak == PY_BOOL
            or strong.scalar.kind == "float"
            or (weak == PY_INT and strong.scalar.kind == "int")
        ):
            return strong
        return NumberKind(I64 if weak == PY_INT else F64, False)
    return DTYPES[np.result_type(NUMPY[left.scalar], NUMPY[right.scalar]).name]


def _arithmetic(left: NumberKind, right: NumberKind) -> NumberKind:
    both = _both(left, right)
    return PY_INT if both.scalar.kind == "bool" else both


def _quotient(left: NumberKind, right: NumberKind) -> NumberKind:
    both = _both(left, right)
    return both if both.scalar.kind == "float" else NumberKind(F64, both.weak)


promote = _of_each(_both)  # in what NumPy compares two numbers; Python's rules where both are Python's
compared = _of_each(lambda left, right: PY_BOOL if left.weak and right.weak else DTYPES["bool"])
arithmetic = _of_each(_arithmetic)  # of left + right: truth values count as 0 and 1
quotient = _of_each(_quotient)  # of left / right: a float


def read_dtype(node: ast.expr, position: SourcePosition) -> NumberKind:
    """The kind a dtype=... or a type's name stands for: np.float32, "float32", float, int, bool."""
    text = node.value if isinstance(node, ast.Constant) else last_name(node)
    if text in ("float", "int", "bool") and not isinstance(node, ast.Attribute):
        return {"float": DTYPES["float64"], "int": DTYPES["int64"], "bool": DTYPES["bool_"]}[str(text)]
    if isinstance(text, str) and text in DTYPES:
        return DTYPES[text]
    raise Refusal(
        f"the type {ast.unparse(node)} cannot be lifted; use a NumPy type such as np.float32", position
    )


@dataclass(frozen=True)
class Annotation:
    """What an annotation says; None where it leaves it open."""

    array: bool
    element: NumberKind | None = None
    rank: int | None = None
    numpy: bool = False


def read_annotation(node: ast.expr, position: SourcePosition) -> Annotation | None:
    """The meaning of a parameter's annotation; refuses what is neither numbers nor lists of numbers."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            return read_annotation(ast.parse(node.value, mode="eval").body, position)
        except (SyntaxError, ValueError, RecursionError):
            raise Refusal(f"the annotation {node.value!r} cannot be read; write a type", position) from None
    base = node.value if isinstance(node, ast.Subscript) else node
    name = last_name(base)
    inside = node.slice if isinstance(node, ast.Subscript) else None
    if name in ("int", "float", "bool") and isinstance(base, ast.Name):
        return Annotation(False, {"int": PY_INT, "float": PY_FLOAT, "bool": PY_BOOL}[name])
    if name in ("list", "List", "Sequence", "MutableSequence"):
        if inside is None:
            return Annotation(True)
        element = read_annotation(inside, position)
        if element is None:
            return Annotation(True)
        return Annotation(
            True, element.element, 1 if not element.array else element.rank and element.rank + 1
        )
    if name in ("ndarray", "NDArray", "ArrayLike"):
        return Annotation(True, _inner_dtype(inside, position), _inner_rank(inside), True)
    if name in DTYPES:
        return Annotation(False, DTYPES[name])
    if name == "Any":
        return None
    raise Refusal(
        f"a parameter of type {ast.unparse(node)} cannot be lifted; pass numbers, or lists or arrays of them",
        position,
    )


def _inner_dtype(node: ast.expr | None, position: SourcePosition) -> NumberKind | None:
    """The element type in NDArray[np.float32] or ndarray[tuple[int, int], np.dtype[np.float32]]."""
    if node is None:
        return None
    if isinstance(node, ast.Tuple):
        return _inner_dtype(node.elts[-1], position) if len(node.elts) == 2 else None
    if isinstance(node, ast.Subscript):
        return _inner_dtype(node.slice, position)
    return None if last_name(node) == "Any" else read_dtype(node, position)


def _inner_rank(node: ast.expr | None) -> int | None:
    """The number of ints in ndarray[tuple[int, int], ...]."""
    if not isinstance(node, ast.Tuple) or not isinstance(node.elts[0], ast.Subscript):
        return None
    sizes = node.elts[0].slice
    if not isinstance(sizes, ast.Tuple):
        return 1
    return None if any(isinstance(size, ast.Constant) for size in sizes.elts) else len(sizes.elts)


def last_name(node: ast.expr) -> str:
    """`c` of a.b.c; empty for anything else."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
