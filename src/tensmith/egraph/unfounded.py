"""Sets of classes that read each other in a circle, and what every extraction has of them.

Let S be a set of classes, and c one of S. Of an extraction without a cycle that contains c, some class of S
comes first; its node reads nothing of S:

    sum of x[n] over the nodes n of classes of S that read nothing of S  >=  y[c]

(the loop formulas of Lin and Zhao, "ASSAT: Computing answer sets of a logic program by SAT solvers", 2004,
as cuts). To find sets that a solution breaks, let x be capacities of a flow from the classes on no cycle to
c, where a node hands on what the class hands it that it reads: S is what lies behind a cut smaller than y[c].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tensmith.egraph.reduce import Selection, bits, union

# A node by its class and its position there.
Place = tuple[int, int]

_LEAST_VIOLATION = 0.01
# Rounds of an estimate, and the further room of nodes that cost less than this share of the dearest.
_ROUNDS = 8
_ROOM, _DEAR = 1e-3, 1e-2


@dataclass(frozen=True)
class UnfoundedSet:
    """A set of classes as bits, and the class of it that needs a way out."""

    classes: int
    needs: int


def ways_out(selection: Selection, which: UnfoundedSet) -> Iterator[Place]:
    """The nodes of a set's classes that read nothing of it."""
    for c in bits(which.classes):
        for option in selection.options.get(c, ()):
            if not option.reads & which.classes:
                yield c, option.position


def broken(selection: Selection, shares: Mapping[Place, float]) -> list[UnfoundedSet]:
    """Loops whose constraint a solution breaks.

    Nodes that cost little get a little more room than their share: a cut then goes through nodes that cost
    much, and the next solution cannot go round it for little. Without any such cut, their shares alone count.
    """
    knot = _knotted(selection)
    return _cuts(selection, shares, knot, _ROOM) or _cuts(selection, shares, knot, 0.0)


def _cuts(
    selection: Selection, shares: Mapping[Place, float], knot: list[int], spare: float
) -> list[UnfoundedSet]:
    inside = union(1 << c for c in knot)
    dear = _DEAR * max((o.cost for c in knot for o in selection.options[c]), default=0.0) or 1.0
    nodes = [(c, o, shares.get((c, o.position), 0.0)) for c in knot for o in selection.options[c]]
    rooms = [(c, o.reads & inside, share + spare * dear / (dear + o.cost)) for c, o, share in nodes]
    flows = _grounded(knot, rooms)
    arcs: dict[int, dict[int, float]] = {c: {} for c in (*knot, _GROUND)}
    wants = dict.fromkeys(knot, 0.0)
    for c, _, share in nodes:
        wants[c] += share
    for c, reads, room in rooms:
        source = min(bits(reads), key=lambda d: flows[d], default=_GROUND)
        arcs[source][c] = arcs[source].get(c, 0.0) + room
    found: list[UnfoundedSet] = []
    covered = 0
    for c in sorted(knot, key=lambda c: flows[c] - wants[c]):
        enough = wants[c] + 10 * spare
        if wants[c] <= _LEAST_VIOLATION or covered >> c & 1 or flows[c] >= enough:
            continue
        reached = _before_cut(arcs, c, enough)
        if reached is None:
            continue
        behind = UnfoundedSet(_needed(selection, c, inside & ~reached), c)
        if sum(shares.get(place, 0.0) for place in ways_out(selection, behind)) < wants[c] - _LEAST_VIOLATION:
            found.append(behind)
            covered |= behind.classes
    return found


_GROUND = -1


def _knotted(selection: Selection) -> list[int]:
    """The classes on a cycle, and those between cycles."""
    reads = {c: union(o.reads for o in options) for c, options in selection.options.items()}
    for _ in range(2):  # without those that read no cycle, then without those that no cycle reads
        readers: dict[int, list[int]] = {c: [] for c in reads}
        missing: dict[int, int] = {}
        for c, mask in reads.items():
            children = [d for d in bits(mask) if d in reads]
            missing[c] = len(children)
            for d in children:
                readers[d].append(c)
        done = [c for c, count in missing.items() if not count]
        for c in done:
            for reader in readers[c]:
                missing[reader] -= 1
                if not missing[reader]:
                    done.append(reader)
        left = reads.keys() - set(done)
        reads = {c: union(1 << r for r in readers[c] if r in left) for c in left}
    return [c for c in selection.options if c in reads]


def _grounded(knot: list[int], rooms: list[tuple[int, int, float]]) -> dict[int, float]:
    """About how much reaches each class where a node hands on the least that it is handed."""
    flows = dict.fromkeys(knot, 0.0)
    ways: dict[int, list[tuple[float, list[int]]]] = {c: [] for c in knot}
    for c, reads, room in rooms:
        ways[c].append((room, list(bits(reads))))
    for _ in range(_ROUNDS):
        before = dict(flows)
        for c, nodes in ways.items():
            flows[c] = sum(min(room, *(flows[d] for d in reads)) if reads else room for room, reads in nodes)
        if before == flows:
            break
    return flows


def _before_cut(arcs: Mapping[int, Mapping[int, float]], target: int, enough: float) -> int | None:
    """The classes before a least cut between the ground and a class; None where `enough` flows through.

    Edmonds and Karp: shortest augmenting paths.
    """
    spare = {source: dict(targets) for source, targets in arcs.items()}
    for source, targets in arcs.items():
        for child in targets:
            spare[child].setdefault(source, 0.0)
    total = 0.0
    while total < enough:
        before = {_GROUND: _GROUND}
        queue = [_GROUND]
        for current in queue:
            for child, room in spare[current].items():
                if room > 1e-9 and child not in before:
                    before[child] = current
                    queue.append(child)
            if target in before:
                break
        if target not in before:
            return union(1 << c for c in before if c != _GROUND)
        path = [target]
        while path[-1] != _GROUND:
            path.append(before[path[-1]])
        steps = list(zip(path[1:], path))
        pushed = min(spare[a][b] for a, b in steps)
        for a, b in steps:
            spare[a][b] -= pushed
            spare[b][a] += pushed
        total += pushed
    return None


def _needed(selection: Selection, c: int, among: int) -> int:
    """A class and those of a set that it may need, by some nodes."""
    found = new = 1 << c
    while new:
        read = union(option.reads for d in bits(new) for option in selection.options[d])
        new = read & among & ~found
        found |= new
    return found
