"""Exact rules as data: a law is a line of algebra, with a wrong twin and the shapes it holds for.

    law("mul_into_conv", conv(X, W, B) * C, conv(X, W * along(C, 0, W), B * flat(C)),
        wrong=conv(X, W, B * flat(C)), given=conv_instances(), c="1 G*K *1")

Shapes in words (see given) are read twice. Where a rule is proved they are the shapes of its symbolic
instances; where it is matched, those that the law names itself are its conditions. The same holds of
attributes: what an instance fixes is a condition, what it leaves symbolic may be anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import Formula, compute, tensor
from tensmith.formula.poly import Dim
from tensmith.ir import Node, Program
from tensmith.ir.edits import Edit, facts_after
from tensmith.ir.infer import Facts
from tensmith.ir.op import OPS, Attrs
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.rewrite.case import Case, constant, formula
from tensmith.rewrite.given import MATRIX, Given, Instance, agrees, binds, shape_words, symbolic_shape
from tensmith.rewrite.match import Match, build, match
from tensmith.rewrite.right_sides import truth
from tensmith.rewrite.rule import EXACT, FormulaObligation, NodeRule, Phase, Rule
from tensmith.rewrite.term import (
    AnyElementwise,
    Later,
    Number,
    Term,
    Use,
    Var,
    parts,
    resolve,
    show,
)
from tensmith.rewrite.values import outgrown

Condition: TypeAlias = Callable[[Match], str | None]

_X = Var("x")

# The ops that act on each element alone.
ELEMENTWISE = frozenset(name for name, op in OPS.items() if isinstance(op, Elementwise))
_CUT_OFF = "whole numbers are cut off"
_OUTGROWN = "the constants together are beyond what their type holds"


@dataclass(eq=False)
class Law(NodeRule):
    """left = right, in every instance of `given`, where the shapes named and `when` hold; see `lemma`."""

    name: str
    left: Term
    right: Term
    wrong: Term
    given: Given
    twin: Given
    shapes: Mapping[str, str]
    when: Condition | None
    values: Sequence[Mapping[str, Any]]
    sample: Mapping[str, Attrs]

    def __post_init__(self) -> None:
        sides = (self.left, self.right, self.wrong)
        self._variables = list(dict.fromkeys(v for side in sides for v in parts(side) if isinstance(v, Var)))
        self._parts = [part for side in sides[:2] for part in parts(side)]
        root = frozenset({self.left.op}) if isinstance(self.left, Use) else frozenset[str]()
        self.roots = ELEMENTWISE if isinstance(self.left, AnyElementwise) else root  # type: ignore[misc]

    @property
    def statement(self) -> str:
        """The law as a line."""
        return f"{show(self.left)} = {show(self.right)}"

    @property
    def conditions(self) -> list[str]:
        """The shapes that are asked for, and what else is, where it says so."""
        when = (getattr(self.when, "__doc__", None) or "").strip()
        return [*(f"{name}: [{words}]" for name, words in self.shapes.items()), *([when] if when else [])]

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """The matched nodes replaced."""
        found = match(self.left, program, node.output)
        if isinstance(found, str):
            return found
        reason = self._refused(found)
        if reason is not None:
            return reason
        if any(self._cuts(made, program.facts) for made in found.nodes):
            return _CUT_OFF
        replacement = resolve(self.right, found)
        if isinstance(replacement, Var):
            return Edit(remove=(node,), alias={node.output: found.values[replacement.name]})
        nodes, constants, _ = build(replacement, found, node.outputs)
        return Edit(remove=tuple(found.nodes), add=tuple(nodes), constants=constants)

    def edit(self, program: Program, site: str) -> Edit | str:
        """The edit at a site, where whoever read the value reads one of the same type.

        Types decide what is proved: over real numbers, and of known ranks.
        """
        found = super().edit(program, site)
        if isinstance(found, str):
            return found
        try:
            facts, before = facts_after(program, found), program.facts[site].type
        except ProgramError as error:  # sizes that the left side broadcasts, and the right side cannot
            return str(error)
        if before is None or before.shape is None or facts[found.alias.get(site, site)].type != before:
            return ""
        if any(self._cuts(node, facts) for node in found.add):
            return _CUT_OFF
        return _OUTGROWN if outgrown(program, found, facts) else found

    def _cuts(self, node: Node, facts: Mapping[str, Facts]) -> bool:
        """Whether a node divides whole numbers, or the like, and is not any function of elements."""
        type_ = facts[node.output].type
        if not node.traits.cuts or (type_ is not None and type_.floating):
            return False
        free = any(isinstance(part, AnyElementwise) for part in self._parts)
        return not free or any(
            isinstance(part, Later) or (isinstance(part, Use) and part.op == node.op) for part in self._parts
        )

    def obligations(self) -> Iterator[FormulaObligation]:
        """left = right in every case."""
        for case in self.cases(self.given):
            yield claim(f"{self.name}/{case.name}", self.left, resolve(self.right, case), case)

    def twins(self) -> Iterator[FormulaObligation]:
        """left = wrong, to be refuted in every case of the twin's instances."""
        for case in self.cases(self.twin):
            yield claim(f"{self.name}/{case.name}", self.left, resolve(self.wrong, case), case)

    def cases(self, given: Given) -> Iterator[Case]:
        """Every instance, with every choice of values, ones in front of a shape kept and left out."""
        for instance in given:
            for choice in self.values or ({},):
                for short in sorted({False, any(t.startswith("1 ") for t in self.shapes.values())}):
                    yield self._case(instance, {**instance.values, **choice}, short)

    def _case(self, instance: Instance, values: Mapping[str, Any], short: bool) -> Case:
        tensors: dict[str, Formula] = {}
        for var in self._variables:
            if var.optional and var.name not in {*instance.shapes, *self.shapes, *values}:
                continue
            if np.ndim(values.get(var.name, 0)):
                tensors[var.name] = constant(np.asarray(values[var.name]))
                continue
            other = "" if var.name in values else instance.shapes.get("", "")
            words = self.shapes.get(var.name) or instance.shapes.get(var.name, other)
            sizes = symbolic_shape(words.removeprefix("1 ") if short else words, instance.dims)
            if var.name in values:
                tensors[var.name] = compute(sizes, lambda *_, number=values[var.name]: number)
            elif var.name in instance.elements:
                tensors[var.name] = compute(sizes, instance.elements[var.name])
            elif instance.dtypes.get(var.name) == "bool":
                tensors[var.name] = truth(tensor(var.name, *sizes))
            else:
                tensors[var.name] = tensor(var.name, *sizes)
        shaped = {*instance.shapes, *self.shapes}
        known = {name: np.asarray(value) for name, value in values.items() if name not in shaped}
        details = [instance.name, *(f"{k} = {v}" for k, v in values.items()), *(["short"] if short else [])]
        sources = (instance.attrs, instance.sample, self.sample)
        captures = {name for source in sources for name in source}
        attrs = {
            name: {k: v for source in sources for k, v in source.get(name, {}).items()} for name in captures
        }
        return Case(", ".join(details), tensors, attrs, known, instance.lower, instance.dtypes)

    def _refused(self, m: Match) -> str | None:
        """Why a match is not enough: the own condition, or the shapes and attributes of every instance."""
        try:
            reason = self.when(m) if self.when is not None else None
        except ProgramError as error:  # an axis that what was matched does not have
            reason = str(error)
        if reason is not None:
            return reason
        for instance in self.given:
            reason = self._fits(instance, m)
            if reason is None:
                break
        return reason

    def _fits(self, instance: Instance, m: Match) -> str | None:
        for capture, wanted in instance.attrs.items():
            for name, value in wanted.items():
                if capture in m.attrs and not agrees(name, value, m.attrs[capture].get(name)):
                    return f"the {capture} has {name}={m.attrs[capture].get(name)}"
        sizes: dict[str, Dim] = {}
        shapes = self.shapes if instance.example else {**instance.shapes, **self.shapes}
        for name, words in shapes.items():
            if not name or not m.values.get(name):
                continue
            shape = m.type(Var(name)).shape
            if shape is None:
                return f"the shape of {name} is not known"
            if not binds(shape_words(words, instance.dims), shape, sizes, name in self.shapes):
                return f"{name} of shape {list(map(str, shape))} is not {words}"
        return None


def claim(name: str, left: Term, right: Term, case: Case) -> FormulaObligation:
    """The obligation that two terms are equal in a symbolic instance."""
    sides = (left, right, case)
    return FormulaObligation(name, formula(left, case), formula(right, case), Ranges(lower=case.lower), sides)


class Family(NodeRule):
    """One rule of several lines: the first whose left side is found is applied."""

    def __init__(self, name: str, members: Sequence[Law]) -> None:
        self.name, self.members = name, members
        self.roots = frozenset[str]().union(*(member.roots for member in members))  # type: ignore[misc]

    @property
    def statement(self) -> str:
        """The lines."""
        return "; ".join(member.statement for member in self.members)

    @property
    def conditions(self) -> list[str]:
        """Those of its lines."""
        return list(dict.fromkeys(words for member in self.members for words in member.conditions))

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """See edit."""
        return self.edit(program, node.output)

    def edit(self, program: Program, site: str) -> Edit | str:
        """The edit of the first line that applies."""
        reasons = ""
        for member in self.members:
            found = member.edit(program, site)
            if isinstance(found, Edit):
                return found
            reasons = reasons or found
        return reasons

    def lemmas(self) -> Iterable[Rule]:
        """Every line."""
        return self.members


def lemma(
    name: str,
    left: Term,
    right: Term | float,
    wrong: Term | float,
    *,
    given: Given = MATRIX,
    twin: Given = (),
    when: Condition | None = None,
    values: Sequence[Mapping[str, Any]] = (),
    sample: Mapping[str, Attrs] | None = None,
    **shapes: str,
) -> Law:
    """left = right, as a law that is not registered.

    wrong: a plausible mistake in `right`, which must be refuted. given: the instances it is proved in;
    twin: those where the mistake is refuted, if others. shapes: conditions on variables' shapes. when: why it
    does not apply to a match, None if it does. values: numbers that variables are everywhere in the proof,
    each choice an instance. sample: attributes of captures in the proof alone.
    """
    sides = [Number(side) if isinstance(side, (int, float)) else side for side in (right, wrong)]
    return Law(name, left, sides[0], sides[1], given, twin or given, shapes, when, values, sample or {})


def law(
    name: str,
    left: Term,
    right: Term | float,
    wrong: Term | float,
    *,
    order: int = 50,
    phase: Phase = "simplify",
    says: str = "",
    found: str = "",
    **details: Any,
) -> None:
    """Registers an exact rule; see `lemma` for its details.

    says: what it does, where the line of algebra does not tell. found: see Rule.
    """
    made = lemma(name, left, right, wrong, **details)
    _register(made, order, phase, says or f"{made.statement}.", found)


def family(
    name: str,
    lines: Iterable[Sequence[Any]],
    *,
    order: int = 50,
    phase: Phase = "simplify",
    says: str = "",
    found: str = "",
    **details: Any,
) -> None:
    """Registers one rule of several lines (left, right, wrong), alike for all of a family of ops."""
    members = [
        lemma(f"{name} {number}", left, right, wrong, **details)
        for number, (left, right, wrong) in enumerate(lines, start=1)
    ]
    made = Family(name, members)
    _register(made, order, phase, says or f"{made.statement}.", found)


def _register(made: Law | Family, order: int, phase: Phase, says: str, found: str) -> None:
    assert made.roots, f"the left side of '{made.name}' is no op that could be matched"
    made.order, made.phase, made.__doc__, made.found = order, phase, says, found
    EXACT.add(made.name, made)


def floating(m: Match) -> str | None:
    """None if x is of floats."""
    return None if m.type(_X).floating else ""


def of_32_bits(m: Match) -> str | None:
    """None if x is of floats of 32 bits or fewer: of 64, ONNX Runtime has not every op."""
    type_ = m.type(_X)
    return None if type_.floating and type_.bits <= 32 else "the numbers are not floats of at most 32 bits"
