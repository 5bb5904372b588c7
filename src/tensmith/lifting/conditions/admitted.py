"""Whether requirements admit more than trivial inputs: a proof about arrays of one element says little.

Every size, every length that is spoken of, and the number of iterations of every outermost loop is asked to
be 2 at once. Where a solver says that this cannot be, the result says so; it is right all the same.
"""

from __future__ import annotations

from dataclasses import replace

from tensmith.formula.poly import Poly
from tensmith.lifting.conditions.folds import Folds
from tensmith.lifting.conditions.nodes import Arena, ProofTerm
from tensmith.lifting.conditions.script import ObligationWriter
from tensmith.lifting.conditions.world import ProofWorld
from tensmith.lifting.lifted import Lifted
from tensmith.lifting.summary import Summary, as_shown, length_symbol
from tensmith.verify.solve import discharge

_ENOUGH = 2


def trivial(summary: Summary, lifted: Lifted) -> tuple[str, ...]:
    """What is to be said of requirements that admit only trivial inputs; () where they admit others, or
    where no solver can tell."""
    world = ProofWorld(replace(summary, requires=lifted.requires, sizes=lifted.sizes), Folds(Arena()))
    writer, counted = ObligationWriter(world), _counted(world)
    sizes = [world.scope[size.symbol] for size in summary.sizes]

    def refuted(names: tuple[str, ...]) -> bool:
        title = f"{' and '.join(names)} can be {_ENOUGH}"
        claims = [world.arena.claim(counted[name], world.arena.number(_ENOUGH, "Int")) for name in names]
        (verdict,) = discharge([writer.satisfiable(claims, title, sizes)])
        return verdict.status == "refuted"

    if not counted or not refuted(tuple(counted)):
        return ()
    small = [name for name in counted if refuted((name,))]
    which = " and ".join(small) or f"one of {', '.join(counted)}"
    return (f"the requirements admit only inputs where {which} is at most {_ENOUGH - 1}",)


def _counted(world: ProofWorld) -> dict[str, ProofTerm]:
    """How it is said -> what counts elements or iterations."""
    found: dict[str, ProofTerm] = {}
    own = {size.symbol for size in world.summary.sizes if size.poly != Poly.symbol(size.symbol)}
    for size in world.summary.sizes:
        # A part of a range, cut off by branches, may well be one element, or none.
        if not size.where and not size.poly.symbols() & own:
            found[as_shown(str(size.poly))] = world.scope[size.symbol]
    for poly in [*(size.poly for size in world.summary.sizes), *(loop.trips for loop in world.summary.loops)]:
        for name in poly.symbols() - own:  # 2 of 4*n say nothing of 2 of n
            factor = poly.coefficient(name)
            if factor is not None and factor.constant is not None and factor.constant > 1:
                found.setdefault(as_shown(name), world.poly(Poly.symbol(name), world.scope))
    for requirement in world.summary.requires:
        if requirement.kind == "length":
            name = as_shown(length_symbol(requirement.array, requirement.axis))
            found.setdefault(name, world.length(requirement.array, requirement.axis))
    for facts in world.summary.loops:
        if not facts.outer and facts.trips.constant is None:
            name = f"the number of iterations of the loop at {facts.label.partition('@')[2]}"
            node = world.poly(facts.trips, world.scope)
            if node not in found.values():
                found[name] = node
    return found
