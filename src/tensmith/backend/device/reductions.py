"""Reductions inside formulas become values of their own, but for one that a kernel computes as it goes.

    softmax:  y[i, j] = exp(x[i, j] - max(k; x[i, k])) / sum(k; exp(x[i, k] - max(l; x[i, l])))

    m[i] = max(k; x[i, k]);  s[i] = sum(k; exp(x[i, k] - m[i]));  y[i, j] = exp(x[i, j] - m[i]) / s[i]

A reduction stays where it depends on every axis of its definition: nothing would be computed twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from tensmith.backend.device.definitions import MOST_ELEMENTS, Axes, Definitions, ValueDefinition, flat
from tensmith.errors import EngineError
from tensmith.formula.arith import Array, Floats
from tensmith.formula.evaluate import evaluate
from tensmith.formula.expr import Call, Expr, Formula, Read, Reduce, rebuilt, substitute
from tensmith.formula.poly import Poly
from tensmith.formula.walk import chain, free_variables, reads
from tensmith.ir.names import take

# What stands in a body for the reduction that its kernel computes.
FOLDED = Call("folded", ())


@dataclass(frozen=True, eq=False)
class DeviceReduction:
    """kind (sum, max, min, prod) of `body` over all `axes`."""

    kind: str
    axes: Axes
    body: Expr


@dataclass(frozen=True, eq=False)
class Element(ValueDefinition):
    """A definition without reductions but for `fold`, whose value FOLDED stands for in the body."""

    fold: DeviceReduction | None = None

    @property
    def read(self) -> tuple[str, ...]:
        """The values that it reads, in its fold too."""
        bodies = (self.body, *([self.fold.body] if self.fold else []))
        return tuple(dict.fromkeys(found.tensor for body in bodies for found in reads(body)))


@dataclass(frozen=True, eq=False)
class OrderedElements:
    """Elements in order, and the constants that they read."""

    items: tuple[Element, ...]
    constants: dict[str, Array]


def separate(definitions: Definitions) -> OrderedElements:
    """The same values, with at most one reduction each."""
    items: list[Element] = []
    taken = set(definitions.names)
    constants = dict(definitions.constants)
    for definition in definitions.items:
        found = _Separation(definition, taken)
        last = found.element()
        for element in (*found.before, last):
            if element.fold is not None and not element.read and element is not last:
                constants[element.value] = _computed(element)
            else:
                items.append(element)
    return OrderedElements(tuple(items), constants)


def _computed(element: Element) -> Array:
    """The values of a reduction that reads nothing, as of positions inside an image."""
    assert element.fold is not None
    body = element.fold.body
    for name, extent in reversed(element.fold.axes):
        body = Reduce(element.fold.kind, name, Poly.of(extent), body)
    shape = tuple(Poly.of(extent) for _, extent in element.axes)
    names = tuple(name for name, _ in element.axes)
    return evaluate(Formula(shape, names, body), {}, {}, Floats()).astype(np.float32)


@dataclass
class _Separation:
    """A definition being taken apart: `before` has the reductions taken out, in the order of computing.

    Their names are none of those `taken`, which a model may have chosen as it liked.
    """

    definition: ValueDefinition
    taken: set[str]
    before: list[Element] = field(default_factory=list)
    _known: dict[Expr, Expr] = field(default_factory=dict)
    _kept: Expr | None = None
    _fold: DeviceReduction | None = None

    def element(self) -> Element:
        """The definition itself, reading what was taken out."""
        d = self.definition
        body = self._without(d.body, d.axes, True)
        return Element(d.value, d.dtype, d.axes, body, d.label, self._fold)

    def _without(self, expr: Expr, scope: Axes, outermost: bool) -> Expr:
        """The expression without reductions; `scope` has the variables that it may depend on."""
        if not isinstance(expr, Reduce):
            return rebuilt(expr, lambda part: self._without(part, scope, outermost))
        same = _canonical(expr)
        if outermost and self._kept is not None and same == self._kept:
            return FOLDED
        if same in self._known:
            return self._known[same]
        fold = self._opened(expr, scope)
        free = free_variables(expr)
        axes = self._counted(tuple(axis for axis in scope if axis[0] in free))
        if outermost and self._kept is None and axes == scope:
            self._kept, self._fold = same, fold
            return FOLDED
        name = take(f"{self.definition.value} {fold.kind} {len(self.before)}", self.taken)
        dtype = "f32" if self.definition.dtype == "f16" else self.definition.dtype
        self.before.append(Element(name, dtype, axes, FOLDED, self.definition.label, fold))
        self._known[same] = Read(name, (flat(axes),))
        return self._known[same]

    def _opened(self, expr: Reduce, scope: Axes) -> DeviceReduction:
        """Directly nested reductions of one kind as one, the reductions inside taken out."""
        axes: Axes = ()
        nested, body = chain(expr)
        for each in nested:
            extent = each.extent.constant
            if extent is None:
                raise EngineError(f"{self.definition.label} adds up varying numbers of elements on no device")
            axes = (*axes, (each.var, extent))
        return DeviceReduction(expr.kind, self._counted(axes), self._without(body, (*scope, *axes), False))

    def _counted(self, axes: Axes) -> Axes:
        """The axes; EngineError where no kernel counts so many positions."""
        if math.prod(extent for _, extent in axes) > MOST_ELEMENTS:
            raise EngineError(f"{self.definition.label} computes with more elements than 32 bits count")
        return axes


def _canonical(expr: Expr, depth: int = 0) -> Expr:
    """The expression with bound variables named by their depth: equal for equal reductions."""
    if isinstance(expr, Reduce):
        name = f"bound%{depth}"
        inner = substitute(expr.body, {expr.var: Poly.symbol(name)})
        return Reduce(expr.kind, name, expr.extent, _canonical(inner, depth + 1))
    return rebuilt(expr, lambda part: _canonical(part, depth))
