"""Recognising v' = v op e: the step of an accumulation, whatever it is wrapped in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tensmith.formula.expr import Call, Choose, Num, Read, Reduce, Size
from tensmith.formula.functions import JOINS
from tensmith.formula.poly import Poly
from tensmith.formula.types import BOOL, MachineType
from tensmith.lifting.summarize.algebra import SizeAlgebra
from tensmith.lifting.summarize.constants import identity
from tensmith.lifting.summarize.flags import Flag
from tensmith.lifting.summarize.logic import FALSE, TRUE, extreme, of_numbers
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summarize.substitution import index, symbols
from tensmith.lifting.summary import Term, first

_BIT = MachineType("u8")
_KINDS = {operator: kind for kind, operator in JOINS.items()}


@dataclass(frozen=True)
class RecurrenceStep:
    """v' = v kind term, the result converted to `wrap`; kind "" is v' = v. type: that of the arithmetic.

    Wrapping may be left to the end: sums and products modulo 2**n are the wrapped sums and products. truth:
    v, 0 or 1 of that type, is whether the fold is positive. once: the value that v has for good as soon as
    the fold from 0 is positive.
    """

    kind: str
    term: Term | None
    type: MachineType
    wrap: MachineType | None = None
    truth: MachineType | None = None
    once: Num | None = None


@dataclass(frozen=True)
class Recurrence:
    """One step of the variable `name`, whose first value is `start`: what is taken of a term is its step."""

    name: str
    start: Term
    algebra: SizeAlgebra
    scope: Scope

    def step(self, term: Term) -> RecurrenceStep | None:
        """The step that leads from v to `term`; None where it is no accumulation."""
        return self._step(term) or self._set(term) or self._flagged(term)

    def _set(self, term: Term) -> RecurrenceStep | None:
        """v' = c ? constant : v."""
        match term:
            case Call("where", (condition, Num() as value, rest), _):
                pass
            case Call("where", (condition, rest, Num() as value), _):
                condition = self.algebra.apply("not", (condition,), BOOL, self.scope)
            case _:
                return None
        if self._inside(condition) or self._step(rest) != RecurrenceStep("", None, term.type):
            return None
        return RecurrenceStep("max", self.algebra.cast(condition, _BIT, self.scope), _BIT, once=value)

    def _flagged(self, term: Term) -> RecurrenceStep | None:
        """v' = v and c is the smallest of bits, v' = v or c the largest."""
        start = self.start
        if term.type.kind != "bool" and not (isinstance(start, Num) and start.value in (0, 1)):
            return None
        flag = Flag(self.name, self.algebra, self.scope)
        kept, raised = flag.after(term, 1), flag.after(term, 0)
        if kept is None or raised is None or (raised != FALSE and kept != TRUE):
            return None
        if kept == TRUE and raised == FALSE:
            return RecurrenceStep("", None, term.type)
        kind, term_ = ("min", kept) if raised == FALSE else ("max", raised)
        return RecurrenceStep(kind, self.algebra.cast(term_, _BIT, self.scope), _BIT, truth=term.type)

    def _step(self, term: Term) -> RecurrenceStep | None:
        match term:
            case Read(name, (), type_) if name == self.name:
                return RecurrenceStep("", None, type_)
            case Size(poly, type_) if poly.coefficient(self.name) == 1:
                rest = index(poly - Poly.symbol(self.name), type_)
                return RecurrenceStep("sum", rest, type_)
            case Call("cast", (inner,), type_):
                return self._cast(inner, type_)
            case Call("sub", (left, right), type_) if not self._inside(right):
                right = self.algebra.apply("neg", (right,), type_, self.scope)
                return self._joined("sum", self._step(left), right)
            case Call(function, (left, right), _) if function in _KINDS:
                if self._inside(right):
                    left, right = right, left
                return (
                    None if self._inside(right) else self._joined(_KINDS[function], self._step(left), right)
                )
            case Call("where", (condition, then, otherwise), _) if self._inside(condition):
                return self._extremum(condition, then, otherwise)
            case Call("where", (condition, then, otherwise), _):
                return self._choice(
                    then, otherwise, lambda a, b: self.algebra.select(condition, a, b, self.scope)
                )
            case Choose(conditions, then, otherwise, _):
                return self._choice(then, otherwise, lambda a, b: self.scope.choice([(conditions, a)], b))
            case Reduce(kind, _, _, body):
                body = self._apart(body) if kind in ("max", "min") else body
                if not self._inside(body):
                    return self._fold(replace(term, body=body), self._step(first(term)))
        return None

    def _apart(self, term: Term) -> Term:
        """What an extreme is of: where that is v, which changes nothing, what v starts at does neither."""
        match term:
            case Read(name, ()) if name == self.name:
                return self.algebra.cast(self.start, term.type, self.scope)
            case Choose(_, then, otherwise):
                return replace(term, then=self._apart(then), otherwise=self._apart(otherwise))
        return term

    def _inside(self, term: Term) -> bool:
        return self.name in symbols(term)

    def _joined(self, kind: str, step: RecurrenceStep | None, term: Term) -> RecurrenceStep | None:
        if step is None or step.kind not in ("", kind):
            return None
        if step.term is None:
            return replace(step, kind=kind, term=term, type=term.type)
        joined = self.algebra.apply(JOINS[kind], (step.term, term), term.type, self.scope)
        return replace(step, term=joined, type=term.type)

    def _cast(self, inner: Term, type_: MachineType) -> RecurrenceStep | None:
        step = self._step(inner)
        if step is None or (type_.kind != inner.type.kind):
            return None
        if step.term is None:
            return replace(step, type=type_)
        if step.kind not in ("sum", "prod") and type_.kind == "int":
            return None if step.wrap else replace(step, wrap=type_)
        if step.wrap is not None and (step.wrap.bits or 0) < (type_.bits or 0):
            return None
        return replace(step, wrap=type_)

    def _choice(
        self, then: Term, otherwise: Term, chosen: Callable[[Term, Term], Term]
    ) -> RecurrenceStep | None:
        """The step of a choice between two values; `chosen` is that between what their steps join."""
        first, second = self._step(then), self._step(otherwise)
        both = None if first is None or second is None else _alike(first, second)
        if both is None or first is None or second is None or both.kind == "":
            return both
        return replace(both, term=chosen(self._operand(first, both), self._operand(second, both)))

    def _operand(self, step: RecurrenceStep, both: RecurrenceStep) -> Term:
        """The step's operand; where nothing happens the identity, or the start if joining is idempotent."""
        if step.term is not None:
            return step.term
        if both.kind in ("sum", "prod"):
            return identity(both.kind, both.type)
        return self.algebra.cast(self.start, both.type, self.scope)

    def _extremum(self, condition: Term, then: Term, otherwise: Term) -> RecurrenceStep | None:
        """A maximum or minimum written as a choice, where one of the two is v.

        fmax and fmin also ask whether one is NaN, which none is in a fold of floats.
        """
        kind = extreme(of_numbers(condition), then, otherwise)
        if kind is None:
            return None
        current, other = (then, otherwise) if self._inside(then) else (otherwise, then)
        return None if self._inside(other) else self._joined(kind, self._step(current), other)

    def _fold(self, fold: Reduce, step: RecurrenceStep | None) -> RecurrenceStep | None:
        if step is None or step.kind not in ("", fold.kind):
            return None
        if fold.kind in ("sum", "prod"):
            inner = replace(fold, start=identity(fold.kind, fold.type))
        else:
            inner = replace(fold, start=self.algebra.cast(self.start, fold.type, self.scope))
        return self._joined(fold.kind, step, inner)


def _alike(first: RecurrenceStep, second: RecurrenceStep) -> RecurrenceStep | None:
    """What both steps are, where they agree; one where nothing happens agrees with the other."""
    if first.kind and second.kind:
        same = (first.kind, first.type, first.wrap) == (second.kind, second.type, second.wrap)
        return first if same else None
    return second if second.kind else first
