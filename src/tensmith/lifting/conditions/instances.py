"""Which instances of axioms and of definitions of prefix functions a goal needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tensmith.lifting.conditions.folds import Folds
from tensmith.lifting.conditions.nodes import ProofTerm
from tensmith.lifting.conditions.text import text
from tensmith.verify.theory import Prefix, axioms

_MOST_INNER = 200


@dataclass
class Instances:
    """The recurrence instances, the nodes they speak of beyond the goal's, and the functions they define."""

    recurrences: dict[str, None] = field(default_factory=dict)
    extra: list[ProofTerm] = field(default_factory=list)
    functions: dict[str, Prefix] = field(default_factory=dict)

    def add(self, prefix: Prefix, *instances: str) -> None:
        """Instances of what holds of a prefix function."""
        self.functions[prefix.name] = prefix
        self.recurrences |= dict.fromkeys(instances)

    def bound(self, prefix: Prefix, arguments: Sequence[str], position: str) -> None:
        """How a maximum or minimum is to its start: elements that are left out count as that."""
        if prefix.kind in ("max", "min"):
            self.add(prefix, prefix.bound(arguments, position))


def recurrences(folds: Folds, roots: Iterable[ProofTerm]) -> Instances:
    """What the folds inside need: their start, one step below each, and a step between any two near ones, and
    how maxima are to their start; for maxima that differ in their start, how one follows from the other."""
    found = Instances()
    occurring = folds.occurring(roots)
    inner: list[ProofTerm] = []
    pending = occurring
    while pending and len(inner) < _MOST_INNER:
        bodies = []
        for fold in pending:
            prefix, (*arguments, extent) = folds.bodies[fold].prefix, map(text, fold.args[1:])
            found.add(prefix, prefix.base(arguments, extent))
        for fold, point in folds.steps(pending):
            prefix, arguments = folds.bodies[fold].prefix, list(map(text, fold.args[1:-1]))
            found.add(prefix, prefix.base(arguments, text(point)), prefix.step(arguments, text(point)))
            found.bound(prefix, arguments, text(point))
            bodies.append(folds.body_at(fold, point))
            found.extra += [point, bodies[-1]]
        new = [fold for fold in folds.occurring(bodies) if fold not in inner and fold not in occurring]
        inner += new
        # Folds inside are taken as they are, but for windows of constant size, which are written out.
        pending = [fold for fold in new if fold.args[-1].constant is not None]
    found.functions |= {folds.bodies[fold].prefix.name: folds.bodies[fold].prefix for fold in inner}
    _places(folds, occurring, found)
    for fold, other in folds.restarts([*occurring, *inner]):
        prefix, (*arguments, extent) = folds.bodies[fold].prefix, map(text, fold.args[1:])
        found.add(prefix, prefix.restart(arguments, text(other.args[-2]), extent))
        for nested in folds.occurring((fold.args[-2], other.args[-2])):
            prefix, (*given, place) = folds.bodies[nested].prefix, map(text, nested.args[1:])
            found.bound(prefix, given, place)
    return found


def _places(folds: Folds, occurring: Sequence[ProofTerm], found: Instances) -> None:
    """Where maxima and minima are elements, and that they cover each other's places: for those that look for
    what another one comes to."""
    extrema = [fold for fold in occurring if folds.bodies[fold].prefix.kind in ("max", "min")]
    for fold in extrema:
        sought = {each.args[:-1] for each in folds.occurring(fold.args[1:-1]) if each in extrema}
        for other in extrema:
            if other.args[:-1] in sought:
                _cover(folds, fold, other, found)
                _cover(folds, other, fold, found)


def _cover(folds: Folds, fold: ProofTerm, other: ProofTerm, found: Instances) -> None:
    """One fold at the places of another, at the ends of both and one step below."""
    prefix, named = folds.bodies[fold].prefix, folds.bodies[other].prefix
    arguments, given = (list(map(text, each.args[1:-1])) for each in (fold, other))
    for position in _ends(folds, other):
        place = folds.arena.app(named.place, "Int", (*other.args[1:-1], position))
        found.add(named, named.reached(given, text(position)))
        found.extra += [place, folds.body_at(other, place), folds.body_at(fold, place)]
        for end in _ends(folds, fold):
            found.add(prefix, prefix.covers(arguments, text(end), text(place)))


def _ends(folds: Folds, fold: ProofTerm) -> tuple[ProofTerm, ProofTerm]:
    return fold.args[-1], folds.arena.shift(fold.args[-1], -1)


def axiom_instances(nodes: Iterable[ProofTerm]) -> tuple[list[str], list[str]]:
    """The axioms of the functions that occur: (weak ones, exact definitions)."""
    weak: list[str] = []
    exact: list[str] = []
    apps = [node for node in nodes if node.op == "app"]
    calls = {node.args for node in apps}
    for node in apps:
        arguments = list(map(text, node.args[1:]))
        for axiom in axioms(node.args[0]):
            if axiom.other and (axiom.other, *node.args[1:]) not in calls:
                continue
            literal = node.args[0] == "fdiv" and node.args[2].constant is not None
            (weak if axiom.weak or literal else exact).append(axiom.instance(arguments))
    return weak, exact
