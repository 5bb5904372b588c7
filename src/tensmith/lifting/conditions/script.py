"""Goals as obligations: the facts, axioms and recurrence instances that a goal needs, as SMT-LIB text."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensmith.formula.expr import SourcePosition
from tensmith.lifting.conditions.execute import Goal
from tensmith.lifting.conditions.instances import Instances, axiom_instances, recurrences
from tensmith.lifting.conditions.nodes import ProofTerm, monomials, walk
from tensmith.lifting.conditions.relevance import Relevance
from tensmith.lifting.conditions.text import name, text
from tensmith.lifting.conditions.world import ProofWorld
from tensmith.verify.obligation import FoldWindow, Lemma, Obligation, Script
from tensmith.verify.theory import Prefix, window

_BUILT_IN = frozenset(("to_real",))
_MOST_LEMMAS = 8
# Lemmas may need lemmas of the folds inside.
_DEPTH = 2


@dataclass
class ObligationWriter:
    """Turns the goals of one function into obligations."""

    world: ProofWorld
    relevance: Relevance = field(init=False)

    def __post_init__(self) -> None:
        self.relevance = Relevance(self.world)

    def obligation(self, goal: Goal) -> Obligation:
        """The obligation of a goal."""
        arena = self.world.arena
        if arena.implies(goal.hypotheses, goal.claim) is arena.true:
            return replace(_stated(goal), structural="both sides are the same after normalisation")
        found = self._script(goal.hypotheses, (goal.claim,), text(goal.claim))
        return self._obligation(goal, _DEPTH, *found)

    def _obligation(
        self, goal: Goal, depth: int, script: Script, functions: Mapping[str, Prefix]
    ) -> Obligation:
        def lemmas() -> tuple[Lemma, ...]:
            return tuple(itertools.islice(self._lemmas(goal, depth - 1), _MOST_LEMMAS)) if depth else ()

        return replace(_stated(goal), script=script, functions=functions, lemmas=lemmas)

    def satisfiable(
        self,
        claims: Sequence[ProofTerm] = (),
        title: str = "the requirements can hold together",
        sizes: Sequence[ProofTerm] | None = None,
    ) -> Obligation:
        """All requirements hold at once, for sizes (all, or these) of at least 1, and the claims do."""
        world = self.world
        asked = world.sizes if sizes is None else sizes
        positive = [world.arena.claim(size, world.arena.number(1, "Int")) for size in asked]
        positive += claims
        known = [*world.facts, *world.requirements]
        nodes = list(walk([*known, *positive]))
        script = Script(
            _logic(nodes),
            "QF_UFNIRA",
            tuple(_declarations(nodes)),
            tuple(map(self.relevance.stated, known)),
            (),
            tuple(map(text, positive)),
            (),
            (),
            (),
            None,
        )
        position = world.summary.function.position
        found = Obligation(title, "satisfiable", "requirements", "", *_place(position))
        return replace(found, script=script, expects="sat")

    def _script(
        self, hypotheses: Sequence[ProofTerm], spoken: Sequence[ProofTerm], goal: str, steps: bool = True
    ) -> tuple[Script, Mapping[str, Prefix]]:
        """The script of a goal that speaks of some nodes. steps: with what recurrences its folds need."""
        said = [*hypotheses, *spoken]
        found = recurrences(self.world.folds, said) if steps else Instances()
        near = self.relevance.near([*said, *found.extra])
        rest = self.relevance.rest([*said, *found.extra], near)
        nodes = list(walk([*near, *said, *found.extra]))
        more = list(walk([*near, *rest, *said, *found.extra]))
        weak, exact = axiom_instances(nodes)
        # Ranges of counters are facts wherever they are wanted, which the certificate holds to their loops.
        ranges = [node for node in hypotheses if node in self.world.ranges.values()]
        path = dict.fromkeys(text(node) for node in hypotheses if node not in ranges)
        facts = [fact for node in nodes for fact in self.relevance.ranges(node)]
        facts += map(self.relevance.stated, dict.fromkeys((*near, *ranges)))
        further = [fact for node in more for fact in self.relevance.ranges(node) if fact not in facts]
        further += [self.relevance.stated(node) for node in rest if node not in ranges]
        script = Script(
            _logic(nodes),
            "QF_UFNIRA" if any(node.sort == "Real" for node in nodes) else "QF_UFNIA",
            tuple(_declarations(more)),
            tuple(facts),
            tuple(further),
            tuple(path),
            tuple(weak),
            tuple(exact),
            tuple(found.recurrences),
            goal,
        )
        return script, found.functions

    def _lemmas(self, goal: Goal, depth: int) -> Iterator[Lemma]:
        """Folds of products in another order; unlike folds, told equal where one is a window of the other."""
        world, arena = self.world, self.world.arena
        folds = world.folds.occurring((goal.claim,))
        for fold in folds:
            for other in world.folds.turned(fold):
                yield self._lemma(goal, (fold, other), world.zero, False, 0)
        for a, b in itertools.permutations(folds, 2):
            first, second = world.folds.bodies[a].prefix, world.folds.bodies[b].prefix
            if first == second or (first.kind, first.sort) != (second.kind, second.sort):
                continue
            difference = arena.sub(a.args[-1], b.args[-1])
            if difference is world.zero and a.number > b.number:
                continue
            for shift in dict.fromkeys((world.zero, difference)):
                for reverse in (False, True):
                    yield self._lemma(goal, (a, b), shift, reverse, depth)

    def _lemma(
        self, goal: Goal, pair: tuple[ProofTerm, ProofTerm], shift: ProofTerm, reverse: bool, depth: int
    ) -> Lemma:
        folds, arena = self.world.folds, self.world.arena
        # A lemma for a lemma is about another position: the outer one stands in its arguments.
        k = arena.symbol(f"k{_DEPTH - depth}", "Int", natural=True)
        a, b = pair
        length = b.args[-1]
        last = arena.sub(arena.shift(arena.add(shift, length), -1), k)
        bodies = (folds.body_at(a, k), folds.body_at(b, last if reverse else arena.sub(k, shift)))
        first, second = ((list(map(text, f.args[1:-1])), text(f.args[-1])) for f in pair)
        named = [folds.bodies[f].prefix for f in pair]
        literal = window(named[0], named[1], (first, second), text(shift), reverse, text(k))
        # The bodies say which facts and folds the literal instance needs.
        spoken = (*bodies, *a.args[1:], *b.args[1:], shift, k)
        subject = f"{named[0].name} = {named[1].name}"
        found = self._script(goal.hypotheses, spoken, literal, depth > 0)
        lemma = replace(goal, kind="lemma", subject=subject, claim=arena.eq(*bodies))
        proof = self._obligation(lemma, depth, *found)
        stated = FoldWindow(
            (named[0].name, tuple(first[0]), first[1]),
            (named[1].name, tuple(second[0]), second[1]),
            text(shift),
            reverse,
            text(k),
        )
        functions = {**proof.functions, **{prefix.name: prefix for prefix in named}}
        return Lemma(replace(proof, functions=functions), f"(= {text(a)} {text(b)})", stated)


def _stated(goal: Goal) -> Obligation:
    where = f" in {goal.loop}" if goal.loop else ""
    # One place in the source may give several of one name; the certificate numbers them.
    title = f"{goal.kind} of {goal.subject}{where}"
    return Obligation(title, goal.kind, goal.subject, goal.loop, *_place(goal.position))


def _place(position: SourcePosition) -> tuple[int, int]:
    return position.line, position.column


def _logic(nodes: Iterable[ProofTerm]) -> str:
    """The smallest logic that holds the nodes."""
    found = list(nodes)
    products = any(len(atoms) > 1 for node in found if node.op == "poly" for atoms, _ in monomials(node))
    nonlinear = products or any(node.op == "product" for node in found)
    reals = any(node.sort == "Real" for node in found)
    return f"QF_UF{'N' if nonlinear else 'L'}I{'R' if reals else ''}A"


def _declarations(nodes: Iterable[ProofTerm]) -> list[str]:
    found: dict[str, str] = {}
    for node in nodes:
        if node.op == "symbol":
            found[node.args[0]] = f"(declare-const {name(node.args[0])} {node.sort})"
        elif node.op == "app" and node.args[0] not in _BUILT_IN:
            sorts = " ".join(part.sort for part in node.args[1:])
            found[node.args[0]] = f"(declare-fun {name(node.args[0])} ({sorts}) {node.sort})"
    return [found[key] for key in sorted(found)]
