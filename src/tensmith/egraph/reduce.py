"""What can be decided about an extraction without a solver. Every step keeps an optimum.

A selection is a table of classes, each with its options; what an option reads is a set of classes as the bits
of an integer. The steps, repeated until none applies:

- options that read a class without options, or their own, leave;
- an option leaves if another of its class costs no more and reads only what comes with the first anyway;
- a class that every extraction contains is paid for at once;
- a class of one option that costs nothing, or that one class alone reads, becomes part of its readers.

What comes with a class: itself, and what comes with all of its options (as dominators in flow graphs).
Whatever solves the selection is then an extraction by the one remaining option of each class that left.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tensmith.egraph.graph import Choice, EGraph


@dataclass(frozen=True)
class NodeOption:
    """A node of the e-graph by its position in its class, what it costs, and the classes it reads as bits."""

    position: int
    cost: float
    reads: int


@dataclass
class Selection:
    """Options by class, the bits of the classes that are wanted, and what is paid in any case.

    `settled`: the one option, by position, of classes that became part of others.
    """

    options: dict[int, list[NodeOption]]
    wanted: int
    paid: float = 0.0
    settled: dict[int, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many options are open."""
        return sum(map(len, self.options.values()))

    def whole(self, choice: Choice) -> dict[int, int]:
        """The choice in the e-graph of a choice (of positions) in the selection."""
        return {**self.settled, **choice}


def bits(number: int) -> Iterator[int]:
    """The positions of the bits that are set, rising."""
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


def selection_of(graph: EGraph) -> Selection:
    """Everything that an e-graph leaves open."""
    options = [
        [NodeOption(at, node.cost, _mask(node.children)) for at, node in enumerate(nodes)]
        for nodes in graph.classes
    ]
    return Selection(dict(enumerate(options)), _mask(graph.roots))


def simplify(selection: Selection) -> bool:
    """Makes a selection as small as the steps of the module make it; False where nothing solves it."""
    size = None
    while size != (size := selection.size):
        if not _prune(selection):
            return False
        _dominate(selection)
        _inline(selection)
    return True


def only_below(selection: Selection, most: float) -> None:
    """Options leave that no extraction has which costs at most `most`: with what comes with them, each class
    at its least, they cost more."""
    least = {c: min((o.cost for o in options), default=math.inf) for c, options in selection.options.items()}
    comes = companions(selection)
    always = union(comes[c] for c in bits(selection.wanted))
    for c, options in selection.options.items():
        kept = []
        for option in options:
            others = (always | union(comes[child] for child in bits(option.reads))) & ~(1 << c)
            if selection.paid + option.cost + sum(least[other] for other in bits(others)) <= most:
                kept.append(option)
        selection.options[c] = kept


def _mask(classes: Iterable[int]) -> int:
    found = 0
    for number in classes:
        found |= 1 << number
    return found


def _prune(selection: Selection) -> bool:
    """Options that can never be chosen leave, and classes that nothing wanted reads; False where something
    wanted cannot be had. Classes come in an order in which each has an option that reads none after it."""
    made, rest = 0, list(selection.options)
    order: list[int] = []
    size = -1
    while size != (size := len(order)):
        left = []
        for c in rest:
            if any(not option.reads & ~made for option in selection.options[c]):
                made |= 1 << c
                order.append(c)
            else:
                left.append(c)
        rest = left
    if selection.wanted & ~made:
        return False
    kept: dict[int, list[NodeOption]] = {}
    waiting = list(bits(selection.wanted))
    while waiting:
        c = waiting.pop()
        if c not in kept:
            kept[c] = [o for o in selection.options[c] if not o.reads & ~made and not o.reads >> c & 1]
            waiting += bits(union(option.reads for option in kept[c]))
    selection.options = {c: kept[c] for c in order if c in kept}
    return True


def union(masks: Iterable[int]) -> int:
    """All bits of some numbers."""
    found = 0
    for mask in masks:
        found |= mask
    return found


def companions(selection: Selection) -> dict[int, int]:
    """What comes with each class: the greatest solution of with(c) = c + what comes with all options of c."""
    found = dict.fromkeys(selection.options, _mask(selection.options))
    reads = {c: [list(bits(o.reads)) for o in options] for c, options in selection.options.items()}
    changed = True
    while changed:
        changed = False
        for c, options in reads.items():
            common = found[c]
            for children in options:
                together = 0
                for child in children:
                    together |= found[child]
                common &= together
            common |= 1 << c
            if common != found[c]:
                found[c], changed = common, True
    return found


def _dominate(selection: Selection) -> None:
    """Options that another one of their class is never worse than leave; so do those that need their class.

    The better option reads what comes with the other one's children, so that nothing new is paid and nothing
    that it reads depends on the class.
    """
    together = companions(selection)
    for c, options in selection.options.items():
        comes = [union(together[child] for child in bits(option.reads)) for option in options]
        kept = [at for at in range(len(options)) if not comes[at] >> c & 1]
        for at in sorted(kept, key=lambda at: -options[at].cost):
            if any(
                other != at
                and options[other].cost <= options[at].cost
                and not options[other].reads & ~comes[at]
                for other in kept
            ):
                kept.remove(at)
        selection.options[c] = [options[at] for at in kept]
    for c in bits(union(together[root] for root in bits(selection.wanted))):
        _pay(selection, c)


def _pay(selection: Selection, c: int) -> None:
    """What every extraction contains is wanted, and the least that it costs is paid at once."""
    selection.wanted |= 1 << c
    options = selection.options[c]
    least = min((option.cost for option in options), default=0.0)
    if least:
        selection.paid += least
        selection.options[c] = [NodeOption(o.position, o.cost - least, o.reads) for o in options]


def _inline(selection: Selection) -> None:
    """Classes of one option that cost nothing, or that one class alone reads, join their readers."""
    readers: dict[int, set[int]] = {c: set() for c in selection.options}
    for c, options in selection.options.items():
        for child in bits(union(option.reads for option in options)):
            readers[child].add(c)
    for c in list(selection.options):
        if len(selection.options[c]) != 1:
            continue
        (only,) = selection.options[c]
        if only.reads >> c & 1 or (only.cost and (len(readers[c]) > 1 or selection.wanted >> c & 1)):
            continue
        for reader in readers[c]:
            selection.options[reader] = [
                NodeOption(o.position, o.cost + only.cost, o.reads & ~(1 << c) | only.reads)
                if o.reads >> c & 1
                else o
                for o in selection.options[reader]
            ]
        for child in bits(only.reads):
            readers[child].discard(c)
            readers[child] |= readers[c]
        if selection.wanted >> c & 1:
            selection.wanted = selection.wanted & ~(1 << c) | only.reads
        selection.settled[c] = only.position
        del selection.options[c]
