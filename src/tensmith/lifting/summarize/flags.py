"""Variables that are 0 or 1: what an iteration makes of one, from what it makes of either value.

v' = v and c, v' = v or c, v &= c and their kin are all known by that: one value stays as it is for good, the
other becomes c.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensmith.formula.expr import Call, Choose, Num, Read, Reduce
from tensmith.formula.types import BOOL
from tensmith.lifting.summarize.algebra import SizeAlgebra
from tensmith.lifting.summarize.constants import number
from tensmith.lifting.summarize.logic import FALSE, TRUE, bit
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summarize.substitution import symbols
from tensmith.lifting.summary import Term, first


@dataclass(frozen=True)
class Flag:
    """The variable `name` of a recurrence, which begins as 0 or 1."""

    name: str
    algebra: SizeAlgebra
    scope: Scope

    def after(self, term: Term, value: int) -> Term | None:
        """Whether `term`, the next value, is 1 where the variable is `value`; None: it may be no bit."""
        found = bit(self._given(term, number(value, term.type)))
        return None if found is None or self.name in symbols(found) else found

    def _given(self, term: Term, value: Term) -> Term:
        """The term where the variable is `value`."""
        match term:
            case Read(name, ()) if name == self.name:
                return value
            case Call("cast", (inner,), type_):
                return self.algebra.cast(self._given(inner, value), type_, self.scope)
            case Call("less", (Num() as bound, Reduce() as fold), _):
                return _above(bound, fold, self._given(first(fold), value))
            case Call(operator, arguments, type_):
                given = [self._given(argument, value) for argument in arguments]
                return self.algebra.apply(operator, given, type_, self.scope)
            case Choose(conditions, then, otherwise, _):
                chosen = [(conditions, self._given(then, value))]
                return self.scope.choice(chosen, self._given(otherwise, value))
        return term


def _above(bound: Num, fold: Reduce, start: Term) -> Term:
    """bound < fold from a start. A maximum from above the bound is above it, a minimum from below is not."""
    if isinstance(start, Num) and fold.kind in ("max", "min"):
        above = start.value > bound.value
        if above == (fold.kind == "max"):
            return TRUE if above else FALSE
    return Call("less", (bound, replace(fold, start=start)), BOOL)
