"""Two ends of a branch become one state again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tensmith.formula.expr import SourcePosition
from tensmith.formula.poly import Poly
from tensmith.formula.types import I64
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize.memory import Contents, StoredBox
from tensmith.lifting.summarize.scope import Conjunction, Scope
from tensmith.lifting.summarize.state import State, undefined
from tensmith.lifting.summarize.substitution import is_open, substitute
from tensmith.lifting.summary import Term

if TYPE_CHECKING:
    from tensmith.lifting.summarize.execute import Execution


@dataclass(frozen=True)
class Merge:
    """Two ends of a branch become one state again."""

    run: Execution
    condition: Term
    scope: Scope
    position: SourcePosition

    def into(self, state: State, then: State, otherwise: State) -> None:
        """The state after the branch."""
        before = state.copy()
        for name in [*dict.fromkeys([*then.scalars, *otherwise.scalars])]:
            type_ = self.run.types.get(name, I64)
            missing = undefined(name, type_)
            a, b = then.scalars.get(name, missing), otherwise.scalars.get(name, missing)
            state.scalars[name] = a if a == b else self.run.algebra.select(self.condition, a, b, self.scope)
        for name in [*dict.fromkeys([*then.arrays, *otherwise.arrays])]:
            if name not in before.arrays:
                continue
            old, first, second = before.arrays[name], then.arrays[name], otherwise.arrays[name]
            if first.base != old.base or second.base != old.base:
                raise Refusal(f"'{name}' is made anew in a branch; make it before", self.position)
            known = len(old.boxes)
            state.arrays[name] = self._array(old, first.boxes[known:], second.boxes[known:])

    def _array(self, old: Contents, then: Sequence[StoredBox], otherwise: Sequence[StoredBox]) -> Contents:
        found = old
        pairs, rest = _paired(then, otherwise)
        for a, b in pairs:
            inside = self.scope.binding(*a.ranges).knowing(a.where)
            value = self.run.algebra.select(self.condition, a.value, b.value, inside)
            found = found.written(replace(a, value=value), self.scope)
        where = self.run.algebra.positional(self.condition, self.scope)
        unless = self.run.algebra.negated(self.condition, self.scope)
        for box, mine in rest:
            found = found.written(self._masked(box, mine, where if mine else unless, found), self.scope)
        return found

    def _masked(
        self, box: StoredBox, holds: bool, where: tuple[Conjunction, ...] | None, found: Contents
    ) -> StoredBox:
        """A store that happens in one branch only: a mask by position, or a choice between new and old."""
        if where is not None and len(where) == 1 and not any(map(is_open, where[0])):
            inside = self.scope.binding(*box.ranges)
            open_ = [poly for poly in where[0] if not inside.proves(poly)]
            if any(poly.symbols().isdisjoint(box.indices) for poly in open_):
                # What is read elsewhere is required where all of them hold, though the box has no elements.
                open_ = [p for p in where[0] if p in open_ or p.symbols().isdisjoint(box.indices)]
            return replace(box, where=(*box.where, *open_))
        inside = self.scope.binding(*box.ranges).knowing(box.where)
        old = found.read(box.at, inside, box.position)
        a, b = (box.value, old) if holds else (old, box.value)
        return replace(box, value=self.run.algebra.select(self.condition, a, b, inside))


def _paired(
    then: Sequence[StoredBox], otherwise: Sequence[StoredBox]
) -> tuple[list[tuple[StoredBox, StoredBox]], list[tuple[StoredBox, bool]]]:
    """Stores that both branches make to the same elements, and the rest (with True for the first branch).

    Only where each branch stores once: else the order matters, and all are masked one by one.
    """
    if len(then) == len(otherwise) == 1:
        a, b = then[0], otherwise[0]
        if len(a.indices) == len(b.indices):
            names = dict(zip(b.indices, map(Poly.symbol, a.indices)))
            same = b.substituted(names)
            if (same.extents, same.at, same.where) == (a.extents, a.at, a.where):
                return [(a, replace(a, value=substitute(b.value, names)))], []
    return [], [*((box, True) for box in then), *((box, False) for box in otherwise)]
