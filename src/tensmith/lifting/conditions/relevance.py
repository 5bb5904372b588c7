"""Which facts of the world a goal needs: the fewer a solver sees, the faster it is.

Near facts define what the goal mentions: sizes, ranges of counters and of types, and the requirements that
speak of the goal's own symbols, or of its own products where they are not linear. The rest follows mention to
mention; it is assumed only where the near facts do not suffice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tensmith.lifting.conditions.nodes import ProofTerm, monomials, walk
from tensmith.lifting.conditions.text import constant, text
from tensmith.lifting.conditions.world import ProofWorld
from tensmith.verify.obligation import Fact


@dataclass
class Relevance:
    """Chooses facts; remembers what each mentions."""

    world: ProofWorld
    _symbols: dict[ProofTerm, frozenset[ProofTerm]] = field(default_factory=dict)
    _products: dict[ProofTerm, frozenset[tuple[ProofTerm, ...]]] = field(default_factory=dict)

    def near(self, roots: Iterable[ProofTerm]) -> list[ProofTerm]:
        """The facts that define what occurs."""
        given = list(roots)
        nodes = list(walk(given))
        seen = {node for node in nodes if node.op == "symbol"}
        products = {atoms for node in nodes for atoms in _products(node)}
        casts = any(node.op == "app" and str(node.args[0]).startswith("wrap.") for node in nodes)
        chosen = self._definitions(seen, casts)
        for requirement in self.world.requirements:
            shared = self._products_in(requirement)
            if (
                not shared.isdisjoint(products)
                if shared
                else not seen.isdisjoint(self._mentioned(requirement))
            ):
                chosen.append(requirement)
                chosen += [
                    fact
                    for fact in self._definitions(set(self._mentioned(requirement)), casts)
                    if fact not in chosen
                ]
        return chosen

    def rest(self, roots: Iterable[ProofTerm], near: list[ProofTerm]) -> list[ProofTerm]:
        """All facts that mention leads to, without the near ones."""
        seen = {node for node in walk(roots) if node.op == "symbol"}
        chosen: list[ProofTerm] = []
        size = -1
        while size != len(seen):
            size = len(seen)
            candidates = [*self._definitions(seen, True), *self.world.requirements]
            for fact in candidates:
                if fact not in chosen and not seen.isdisjoint(self._mentioned(fact)):
                    chosen.append(fact)
                    seen |= self._mentioned(fact)
        return [fact for fact in chosen if fact not in near]

    def _definitions(self, seen: set[ProofTerm], types: bool) -> list[ProofTerm]:
        """Sizes, ranges of counters and lengths, and of types where wanted, of what is seen; seen grows by
        what they mention."""
        world = self.world
        chosen: list[ProofTerm] = []
        pending = sorted(seen, key=lambda node: node.number)
        while pending:
            symbol = pending.pop(0)
            facts = [world.ranges[symbol]] if symbol in world.ranges else []
            facts += world.facts_of(symbol, types)
            for fact in facts:
                if fact not in chosen:
                    chosen.append(fact)
                    new = self._mentioned(fact) - seen
                    seen |= new
                    pending += sorted(new, key=lambda node: node.number)
        return chosen

    def _mentioned(self, fact: ProofTerm) -> frozenset[ProofTerm]:
        if fact not in self._symbols:
            self._symbols[fact] = frozenset(node for node in walk((fact,)) if node.op == "symbol")
        return self._symbols[fact]

    def _products_in(self, fact: ProofTerm) -> frozenset[tuple[ProofTerm, ...]]:
        if fact not in self._products:
            self._products[fact] = frozenset(atoms for node in walk((fact,)) for atoms in _products(node))
        return self._products[fact]

    # As text, with reasons

    def stated(self, fact: ProofTerm) -> Fact:
        """A fact of the world, with its reason."""
        world = self.world
        for bounded, known in world.ranges.items():
            if known is fact:
                loop = world.counted.get(bounded, "")
                return Fact(text(fact), "counter" if loop else "length", loop)
        if fact in world.requirements:
            return Fact(text(fact), "requirement", of=world.requirements[fact])
        return Fact(text(fact), world.reasons[fact])

    def ranges(self, node: ProofTerm) -> list[Fact]:
        """What its type says of an element, and that natural atoms are >= 0."""
        limits = self.world.element_limits(node)
        if limits is not None:
            low, high = (constant(limit, "Int") for limit in limits)
            return [Fact(f"(and (<= {low} {text(node)}) (<= {text(node)} {high}))", "type")]
        return [Fact(f"(>= {text(node)} 0)", "natural")] if node in self.world.arena.natural else []


def _products(node: ProofTerm) -> list[tuple[ProofTerm, ...]]:
    return [atoms for atoms, _ in monomials(node) if len(atoms) > 1] if node.op == "poly" else []
