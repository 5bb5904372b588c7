"""One iteration of a loop, as its closed forms are derived from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from tensmith.formula.poly import Poly
from tensmith.lifting.loops import Loop
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summarize.state import State
from tensmith.lifting.summary import Term

if TYPE_CHECKING:
    from tensmith.lifting.summarize.execute import Execution


Key = TypeVar("Key")


class Circle(Exception):
    """A value was asked for while it was being derived."""


def derived(
    known: dict[Key, Term | None], key: Key, derive: Callable[[], Term], carried: Callable[[], Refusal]
) -> Term:
    """known[key], derived where it is not there; None while that goes on, when it raises Circle.

    What was derived in a circle depends on the iteration before, for which it is refused as `carried`.
    """
    if key in known:
        found = known[key]
        if found is None:
            raise Circle
        return found
    known[key] = None
    try:
        known[key] = made = derive()
    except Circle as circle:
        raise carried() from circle
    finally:
        if known[key] is None:
            del known[key]
    return made


@dataclass(frozen=True)
class Iteration:
    """Iteration `counter` of `trips`, in the scope `outer` around the loop.

    entry: the state before the loop; end: that after an iteration that began with a name for all that is not
    known of its start, "NAME" + `suffix`.
    """

    run: Execution
    loop: Loop
    counter: str
    trips: Poly
    outer: Scope
    entry: State
    end: State

    @property
    def suffix(self) -> str:
        """What the names for the state at the start of the iteration end in."""
        return f"@{self.loop.label}"

    @cached_property
    def t(self) -> Poly:
        """The number of iterations before this one."""
        return Poly.symbol(self.counter)

    @cached_property
    def inside(self) -> Scope:
        """What is known in the body."""
        return self.outer.binding((self.counter, self.trips))

    @cached_property
    def head(self) -> Scope:
        """What is known at the head, where there may be no further iteration."""
        scope = replace(self.outer, sizes=self.outer.sizes | {self.counter})
        return scope.knowing((self.trips - self.t,)) if self.outer.proves(self.trips) else scope
