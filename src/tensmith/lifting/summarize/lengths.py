"""How long arrays have to be, under which branches."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from tensmith.formula.poly import Poly
from tensmith.lifting.summarize.claims import at_least, canonical, claimed, shown
from tensmith.lifting.summarize.execute import Execution
from tensmith.lifting.summarize.plan import display
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summarize.state import Access
from tensmith.lifting.summarize.wording import under
from tensmith.lifting.summary import Path, Requirement, as_shown, length_symbol


@dataclass(frozen=True)
class Need:
    """A length that an array needs where branches are taken. ran: sizes that are at least 1 there."""

    poly: Poly
    where: Path = ()
    ran: frozenset[str] = frozenset()


Lengths: TypeAlias = dict[tuple[str, int], list[Need]]


def note(run: Execution, lengths: Lengths, access: Access, axis: int, need: Need) -> None:
    """Keep a needed length, unless one kept is as long; drop those that this one exceeds."""
    kept = lengths.setdefault((access.array, axis), [])
    ran = frozenset(
        size.symbol for size in run.plan.sizes if access.scope.proves(Poly.symbol(size.symbol) - 1)
    )
    need = replace(need, ran=ran)
    while (other := next((o for o in kept if _otherwise(run, o, need)), None)) is not None:
        kept.remove(other)  # both branches need it
        need = Need(
            need.poly, tuple(step for step in need.where if step in other.where), need.ran & other.ran
        )
    if any(_covers(run, other, need) for other in kept):
        return
    kept[:] = [other for other in kept if not _covers(run, need, other)]
    kept.append(need)


def _covers(run: Execution, one: Need, other: Need) -> bool:
    """Whether one need holds wherever another does, and is as long."""
    return set(one.where) <= set(other.where) and as_long(run, one.poly, other.poly, other.ran)


def _otherwise(run: Execution, one: Need, other: Need) -> bool:
    """Whether two needs are alike but for which way one branch goes."""
    a, b = set(one.where) - set(other.where), set(other.where) - set(one.where)
    return (
        len(a) == len(b) == 1
        and {(condition, not holds) for condition, holds in a} == b
        and as_long(run, one.poly, other.poly, other.ran)
        and as_long(run, other.poly, one.poly, one.ran)
    )


def as_long(run: Execution, longer: Poly, shorter: Poly, ran: Collection[str] | None = None) -> bool:
    """Whether one length suffices for another as callers see them.

    A size that is not its parameter may be more than what is shown for it, and what is read outside of a
    loop is read where the parameter that it runs to is negative, too. ran: sizes that are at least 1 where
    the shorter is needed; None: all.
    """
    raw = shown(longer, run) - shown(shorter, run)
    outside = shorter.constant is not None
    other = {
        size.symbol
        for size in run.plan.sizes
        if outside
        or size.poly != Poly.symbol(size.symbol)
        or not (ran is None or size.symbol in ran or size.symbol in shorter.symbols())
    }
    # A row is not longer than all rows: n*m - m is (n - 1)*m, where a loop to n runs.
    ran_here = {symbol: Poly.symbol(symbol) + 1 for symbol in (ran or ()) if symbol not in other}
    scope = Scope(run.plan.never_negative - other, facts=tuple(claimed(run)))
    return scope.proves(raw) or scope.proves(raw.substitute(ran_here))


def length(run: Execution, array: str, axis: int, need: Need) -> Iterator[Requirement]:
    """What asks callers for a length."""
    raw = shown(need.poly, run)
    if len(run.plan.grids[array].strides) > 1:
        # Rows are counted in sizes: a parameter in it that loops run to must be its size, at least 0.
        path = [step for step in canonical(run, need.where) if isinstance(step, Poly)]
        known = Scope().knowing(path)
        for size in run.plan.sizes:
            written_out = size.symbol in raw.symbols() - need.poly.symbols()
            if written_out and size.poly == Poly.symbol(size.symbol) and not known.proves(size.poly):
                yield at_least(size.poly, run, need.where)
    nested = run.arrays[array].memory == "nested"
    measured = as_shown(length_symbol(array, axis)) if nested else f"elements of {array}"
    text = under(f"{measured} >= {display(raw)}", need.where)
    yield Requirement("length", text, raw, array, axis, where=need.where)
