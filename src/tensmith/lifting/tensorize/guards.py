"""What guards the views of a program: they are read only where something of them is needed.

A view that surely lies inside its array needs no guard. Of the others, `choices` says in which cases an
output depends on them; these become one truth value of the program, and the input names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tensmith.ir import Node, Program
from tensmith.ir.edits import in_order
from tensmith.lifting.choices import ALWAYS, Cases, Choice, needed
from tensmith.lifting.lifted import ArrayView
from tensmith.lifting.summarize.writing import at_least_zero
from tensmith.lifting.summary import Path
from tensmith.lifting.tensorize import positions
from tensmith.lifting.tensorize.build import Build, Tensor

if TYPE_CHECKING:
    from tensmith.lifting.tensorize.lower import Lowering


def guarded(
    build: Build, name: str, outputs: tuple[str, ...], inside: Callable[[ArrayView], bool]
) -> Program:
    """The finished program, in which inputs that are not surely `inside` their arrays have guards.

    Truth values that guards name are outputs after the given ones. Changes `build.inputs`.
    """
    program = build.program(name, outputs)
    cases = needed(program)
    asked = {
        given.name: cases[given.name]
        for given in build.inputs.values()
        if given.view is not None and cases.get(given.name, ALWAYS) != ALWAYS and not inside(given.view)
    }
    conditions = {given: _holds(build, found, cases).name for given, found in asked.items()}
    named = tuple(v for v in dict.fromkeys(conditions.values()) if v not in (*outputs, *build.inputs))
    program = build.program(name, (*outputs, *named))
    build.inputs = {
        given.name: replace(given, when=conditions.get(given.name, ""))
        for given in build.inputs.values()
        if given.name in program.inputs
    }
    return replace(program, nodes=_in_order(program, conditions)) if conditions else program


def conjunction(lowering: Lowering, path: Path) -> Tensor:
    """Whether conditions are all as a path has them; each is looked at only where those before it are."""
    found: list[Choice] = []
    for condition, side in path:
        poly = at_least_zero(condition)
        tensor = positions.mask(lowering, (poly,)) if poly is not None else lowering.lower_guarded(condition)
        found.append((tensor.name, side))
    return _case(lowering.build, found)


def _holds(build: Build, cases: Cases, known: Mapping[str, Cases]) -> Tensor:
    """Whether one of the cases holds."""
    every = [_case(build, sorted(case, key=lambda choice: _depth(choice, known))) for case in cases]
    every.sort(key=lambda tensor: tensor.name)
    found = every[0]
    for other in every[1:]:
        found = build.elementwise("or", found, other, dtype="bool")
    return found


def _depth(choice: Choice, known: Mapping[str, Cases]) -> tuple[int, str]:
    """How many choices are made before a condition has a meaning."""
    return min(map(len, known.get(choice[0], ALWAYS))), choice[0]


def _case(build: Build, choices: list[Choice]) -> Tensor:
    """Whether all choices are made; each is looked at only where those before it are."""
    (name, side), *rest = choices
    condition = Tensor(name, "bool")
    holds = condition if side else build.elementwise("not", condition, dtype="bool")
    if not rest:
        return holds
    never = build.constant(False, "bool")
    sides = (_case(build, rest), never) if side else (never, _case(build, rest))
    return build.elementwise("where", condition, *sides, dtype="bool")


def _in_order(program: Program, conditions: Mapping[str, str]) -> tuple[Node, ...]:
    """The nodes so that conditions come before what reads the inputs they guard, as outputs ask for them."""
    after = {
        node.output: replace(
            node, inputs=tuple(n for of in node.inputs for n in (of, conditions.get(of, "")))
        )
        for node in program.nodes
    }
    asked = [after[name] for name in program.outputs if name in after]
    return tuple(program.producers[node.output] for node in in_order((*asked, *after.values()), set()))
