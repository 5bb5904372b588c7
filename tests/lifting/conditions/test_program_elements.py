"""Elements of programs as nodes hold where they were asked for."""

from __future__ import annotations

from lifting.conditions.by_hand import n, vadd
from tensmith.formula.poly import Poly
from tensmith.ir.text_parser import parse_program
from tensmith.lifting.conditions.elements import ProofElements
from tensmith.lifting.conditions.memory import memory_of
from tensmith.lifting.conditions.world import ProofWorld
from tensmith.lifting.lifted import ArrayView, Input, Lifted

BOTH = """
program f {
  input %a: i32[n]
  input %b: i32[n]
  %y = concat(%a, %b) {axis=0}
  return %y
}
"""


def test_what_is_known_of_a_position_is_not_known_of_the_next_one() -> None:
    """Positions of two folds may have one name: here one that ends with `a`, and one of all elements."""
    summary = vadd()
    world = ProofWorld(summary)
    inputs = tuple(Input(name, ArrayView(name, (Poly.of(0),), ((Poly.of(1),),), (n,))) for name in ("a", "b"))
    lifted = Lifted(
        summary.function, parse_program(BOTH), summary.sizes, inputs, (), summary.requires, (), ""
    )
    memories = {name: memory_of(world, name, kind, None) for name, kind in world.arrays.items()}
    elements = ProofElements(world, lifted, memories, lambda subject, claim: None)
    arena, position = world.arena, world.folds.placeholder()
    known = len(arena.known)
    arena.assume(arena.shift(arena.sub(world.scope["n"], position), -1))
    assert elements.at("y", (position,)) is world.read("a", (position,))
    arena.forget(known)
    assert elements.at("y", (position,)).op == "ite"
