"""Goals as obligations: the facts, axioms and recurrence instances that a goal needs, as SMT-LIB text."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from tensmith.lifting.conditions.execute import Goal
from tensmith.lifting.conditions.nodes import Node, monomials, walk
from tensmith.lifting.conditions.text import constant, name, text
from tensmith.lifting.conditions.world import World
from tensmith.verify.obligation import Fact, Lemma, Obligation, Recurrence, Script, Window
from tensmith.verify.theory import Prefix, axioms, window

Write: TypeAlias = Callable[[Node], str]
Functions: TypeAlias = dict[str, Prefix]
Why: TypeAlias = Literal["type", "size", "length", "requirement", "natural", "counter"]
Case: TypeAlias = Literal["base", "step", "restart", "bound"]

_BUILT_IN = frozenset(("to_real",))
_MOST_LEMMAS = 8
# Lemmas may need lemmas of the folds inside.
_DEPTH = 2


@dataclass
class Writer:
    """Turns the goals of one function into obligations."""

    world: World
    _mentioned: dict[Node, frozenset[Node]] = field(default_factory=dict)

    def obligation(self, goal: Goal) -> Obligation:
        """The obligation of a goal."""
        arena = self.world.arena
        if arena.implies(goal.hypotheses, goal.claim) is arena.true:
            return replace(_stated(goal), structural="both sides are the same after normalisation")
        return self._obligation(goal, None, _DEPTH)

    def _obligation(self, goal: Goal, literal: str | None, depth: int) -> Obligation:
        """literal: the claim as text, where it must read as a definition does."""
        script, functions = self._script(goal.hypotheses, goal.claim)
        if literal is not None:
            script = replace(script, goal=literal)

        def lemmas() -> tuple[Lemma, ...]:
            return tuple(itertools.islice(self._lemmas(goal, depth - 1), _MOST_LEMMAS)) if depth else ()

        return replace(_stated(goal), script=script, functions=functions, lemmas=lemmas)

    def satisfiable(self) -> Obligation:
        """All requirements hold at once, for sizes of at least 1."""
        world = self.world
        positive = [world.arena.claim(size, world.arena.number(1, "Int")) for size in world.sizes]
        facts = [*map(self._fact, [*world.facts, *world.requirements])]
        nodes = list(walk([*world.facts, *world.requirements, *positive]))
        script = Script(
            "QF_UFNIRA", "QF_UFNIRA", tuple(_declarations(nodes)), tuple(facts), tuple(map(text, positive)),
            (), (), (), None,
        )  # fmt: skip
        position = world.summary.function.position
        return Obligation(
            "the requirements can hold together", "satisfiable", "requirements", "", position.line,
            position.column, script, expects="sat",
        )  # fmt: skip

    def _script(self, hypotheses: Sequence[Node], claim: Node) -> tuple[Script, Functions]:
        known: dict[Node, str] = {}

        def write(node: Node) -> str:
            return text(node, known=known)

        facts = self._relevant([*hypotheses, claim])
        roots = [*facts, *hypotheses, claim]
        recurrences, extra, functions = self._recurrences(roots, write)
        more = [fact for fact in self._relevant([*roots, *extra]) if fact not in facts]
        facts += more
        nodes = list(walk([*roots, *more, *extra]))
        weak, exact = _instances(nodes, write)
        ranges = [fact for node in nodes for fact in self._range(node, write)]
        reals = any(node.sort == "Real" for node in nodes)
        nonlinear = any(len(atoms) > 1 for node in nodes if node.op == "poly" for atoms, _ in monomials(node))
        nonlinear = nonlinear or any(node.op == "product" for node in nodes)
        script = Script(
            f"QF_UF{'N' if nonlinear else 'L'}I{'R' if reals else ''}A",
            "QF_UFNIRA" if reals else "QF_UFNIA",
            tuple(_declarations(nodes)),
            (*ranges, *map(self._fact, facts)),
            tuple(map(write, hypotheses)),
            tuple(weak),
            tuple(exact),
            tuple(recurrences),
            write(claim),
        )
        return script, functions

    def _recurrences(self, roots: list[Node], write: Write) -> tuple[list[Recurrence], list[Node], Functions]:
        """The instances that the folds inside need, the nodes these speak of, and the functions."""
        folds = self.world.folds
        found: dict[str, Recurrence] = {}
        functions: Functions = {}
        extra: list[Node] = []

        def add(case: Case, prefix: Prefix, arguments: list[str], position: str, other: str = "") -> None:
            functions[prefix.name] = prefix
            match case:
                case "base":
                    text = prefix.base(arguments, position)
                case "step":
                    text = prefix.step(arguments, position)
                case "restart":
                    text = prefix.restart(arguments, other, position)
                case "bound":
                    text = prefix.bound(arguments, position)
            found[text] = Recurrence(prefix.name, case, tuple(arguments), position, text, other)

        occurring = folds.occurring(roots)
        inner: list[Node] = []
        for fold in occurring:
            *arguments, extent = map(write, fold.args[1:])
            add("base", folds.bodies[fold].prefix, arguments, extent)
        for fold, point in folds.steps(occurring):
            prefix, arguments = folds.bodies[fold].prefix, list(map(write, fold.args[1:-1]))
            add("base", prefix, arguments, write(point))
            add("step", prefix, arguments, write(point))
            body = folds.body_at(fold, point)
            extra += [point, body]
            inner += folds.occurring((body,))
        functions |= {folds.bodies[fold].prefix.name: folds.bodies[fold].prefix for fold in inner}
        for fold, other in folds.restarts([*occurring, *inner]):
            prefix = folds.bodies[fold].prefix
            *arguments, extent = map(write, fold.args[1:])
            add("restart", prefix, arguments, extent, write(other.args[-2]))
            for start in (fold.args[-2], other.args[-2]):
                for nested in folds.occurring((start,)):
                    if folds.bodies[nested].prefix.kind in ("max", "min"):
                        *given, place = map(write, nested.args[1:])
                        add("bound", folds.bodies[nested].prefix, given, place)
        return list(found.values()), extra, functions

    def _relevant(self, roots: Iterable[Node]) -> list[Node]:
        """The facts about what occurs: those of sizes, lengths, arguments and counters, closed under
        mention."""
        world = self.world
        seen = {node for node in walk(roots) if node.op == "symbol"}
        candidates = [*world.facts, *world.requirements]
        chosen: list[Node] = []
        again = True
        while again:
            again = False
            new = [world.ranges[s] for s in seen if s in world.ranges and world.ranges[s] not in chosen]
            new += [f for f in candidates if f not in chosen and not seen.isdisjoint(self._symbols(f))]
            for fact in sorted(set(new), key=lambda node: node.number):
                again = True
                chosen.append(fact)
                seen |= self._symbols(fact)
        return chosen

    def _symbols(self, fact: Node) -> frozenset[Node]:
        if fact not in self._mentioned:
            self._mentioned[fact] = frozenset(n for n in walk((fact,)) if n.op == "symbol")
        return self._mentioned[fact]

    def _fact(self, node: Node) -> Fact:
        """A fact of the world, with its reason."""
        world = self.world
        for bounded, fact in world.ranges.items():
            if fact is node:
                loop = world.counted.get(bounded, "")
                return Fact(text(node), "counter" if loop else "length", loop)
        why: Why = "requirement" if node in world.requirements else world.reasons[node]
        return Fact(text(node), why)

    def _range(self, node: Node, write: Write) -> list[Fact]:
        limits = self.world.element_limits(node)
        if limits is not None:
            low, high = (constant(limit, "Int") for limit in limits)
            return [Fact(f"(and (<= {low} {write(node)}) (<= {write(node)} {high}))", "type")]
        return [Fact(f"(>= {write(node)} 0)", "natural")] if node in self.world.arena.natural else []

    def _lemmas(self, goal: Goal, depth: int) -> Iterator[Lemma]:
        """Unlike folds in the claim, told equal where one is a window of the other."""
        world, arena = self.world, self.world.arena
        folds = world.folds.occurring((goal.claim,))
        k = arena.symbol("k0", "Int", natural=True)
        for a, b in itertools.permutations(folds, 2):
            first, second = world.folds.bodies[a].prefix, world.folds.bodies[b].prefix
            if first == second or (first.kind, first.sort) != (second.kind, second.sort):
                continue
            *given, extent = a.args[1:]
            *others, length = b.args[1:]
            difference = arena.sub(extent, length)
            shifts = [world.zero] if difference is world.zero else [world.zero, difference]
            if difference is world.zero and a.number > b.number:
                continue
            for shift, reverse in itertools.product(shifts, (False, True)):
                inner = arena.sub(arena.shift(arena.add(shift, length), -1), k)
                place = inner if reverse else arena.sub(k, shift)
                bodies = (world.folds.body_at(a, k), world.folds.body_at(b, place))
                texts = [(list(map(text, given)), text(extent)), (list(map(text, others)), text(length))]
                literal = window(first, second, texts, text(shift), reverse)
                # The literal instance is what is proved; the nodes say which facts and folds it needs.
                spoken = arena.all([arena.eq(*bodies), arena.claim(extent, k), arena.claim(length, shift)])
                lemma = replace(goal, kind="lemma", subject=f"{first.name} = {second.name}", claim=spoken)
                proof = self._obligation(lemma, literal, depth)
                stated = Window(
                    (first.name, tuple(texts[0][0]), texts[0][1]),
                    (second.name, tuple(texts[1][0]), texts[1][1]),
                    text(shift), reverse,
                )  # fmt: skip
                yield Lemma(proof, f"(= {text(a)} {text(b)})", stated)


def _stated(goal: Goal) -> Obligation:
    where = f" in {goal.loop}" if goal.loop else ""
    # One place in the source may give several of one name; the certificate numbers them.
    return Obligation(
        f"{goal.kind} of {goal.subject}{where}", goal.kind, goal.subject, goal.loop,  # type: ignore[arg-type]
        goal.position.line, goal.position.column,
    )  # fmt: skip


def _instances(nodes: Iterable[Node], write: Write) -> tuple[list[str], list[str]]:
    """The axioms of the functions that occur: (weak, exact definitions)."""
    weak: list[str] = []
    exact: list[str] = []
    for node in nodes:
        if node.op != "app":
            continue
        arguments = list(map(write, node.args[1:]))
        for axiom in axioms(node.args[0]):
            literal = node.args[0] == "fdiv" and node.args[2].constant is not None
            (weak if axiom.weak or literal else exact).append(axiom.instance(arguments))
    return weak, exact


def _declarations(nodes: Iterable[Node]) -> list[str]:
    found: dict[str, str] = {}
    for node in nodes:
        if node.op == "symbol":
            found[node.args[0]] = f"(declare-const {name(node.args[0])} {node.sort})"
        elif node.op == "app" and node.args[0] not in _BUILT_IN:
            sorts = " ".join(part.sort for part in node.args[1:])
            found[node.args[0]] = f"(declare-fun {name(node.args[0])} ({sorts}) {node.sort})"
    return [found[key] for key in sorted(found)]
