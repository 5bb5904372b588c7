"""Many equal programs in one e-graph: hash-consed nodes, classes of equal values, congruence.

As in Willsey et al., "egg: Fast and extensible equality saturation" (POPL 2021), but filled with whole
programs: a rule sees a program and gives another one, with what the two have in common. So every exact rule
may fill it, laws and those written as programs, with types, shapes and values as their conditions; a table of
rewrites over terms, as egglog's, has no word for these (a rule that asks how often a value is read, or what a
constant holds, has no pattern there).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field

from tensmith.egraph.graph import Choice, EGraph, ENode
from tensmith.files import sha256_bytes
from tensmith.formula.arith import Array
from tensmith.ir import Program
from tensmith.ir.text_values import array_digest

# What the nodes of a program cost, by first output; those left out cost nothing.
Cost = Callable[[Program], Mapping[str, float]]
# An op, "unordered" in its operands or "ordered", with its attributes and number of outputs, and the classes
# it reads; -1 where an input is omitted.
Key = tuple[tuple[Hashable, ...], tuple[int, ...]]

# Names that rules make (Program.fresh): another program may give them to another value.
_FRESH = re.compile(r".*\.\d+")
_OMITTED = -1


@dataclass
class ArrayHashes:
    """Hashes of constants, computed once an array."""

    _known: dict[int, tuple[Array, str]] = field(default_factory=dict)

    def __call__(self, array: Array) -> str:
        """The hash of what an array holds."""
        if id(array) not in self._known:
            self._known[id(array)] = array, array_digest(array)
        return self._known[id(array)][1]


@dataclass(frozen=True)
class Added:
    """The class and the node of each value of a program."""

    classes: Mapping[str, int]
    keys: Mapping[str, Key]


@dataclass
class ProgramGraph:
    """The e-graph of the programs that were added; all compute what the first one does.

    Values that have a name in the first program are equal wherever they have it: exact rules keep names, but
    for those that rules made.
    """

    hashes: ArrayHashes
    _nodes: dict[Key, int] = field(default_factory=dict)
    _costs: dict[Key, float] = field(default_factory=dict)
    _leaders: list[int] = field(default_factory=list)
    _readers: list[set[Key]] = field(default_factory=list)
    _named: dict[str, int] = field(default_factory=dict)
    _roots: tuple[str, ...] = ()
    _merged: list[int] = field(default_factory=list)

    def add(self, program: Program, costs: Mapping[str, float]) -> Added:
        """Adds a program that computes what the others do."""
        values, keys = self._classes(program, costs)
        if not self._roots:
            self._roots = program.outputs
            kept = {name for name in values if name and not _FRESH.fullmatch(name)}.union(self._roots)
            self._named = {name: c for name, c in values.items() if name in kept}
        for name, c in values.items():
            if name in self._named:
                self._unite(self._named[name], c)
        self._rebuild()
        return Added(
            {name: self.leader(c) for name, c in values.items() if name},
            {name: self.canonical(key) for name, key in keys.items()},
        )

    def leader(self, c: int) -> int:
        """The class that a class has become part of."""
        while self._leaders[c] != c:
            self._leaders[c] = self._leaders[self._leaders[c]]
            c = self._leaders[c]
        return c

    def egraph(self) -> tuple[EGraph, list[Key]]:
        """The graph for extraction, and the key of each node by its name there, a number."""
        members: dict[int, list[Key]] = {}
        for key, c in self._nodes.items():
            members.setdefault(self.leader(c), []).append(key)
        numbers = {c: at for at, c in enumerate(members)}
        keys: list[Key] = []
        classes = []
        for group in members.values():
            nodes = []
            for key in group:
                read = dict.fromkeys(numbers[self.leader(c)] for c in key[1] if c != _OMITTED)
                nodes.append(ENode(str(len(keys)), self._costs[key], tuple(read)))
                keys.append(key)
            classes.append(tuple(nodes))
        roots = dict.fromkeys(numbers[self.leader(self._named[name])] for name in self._roots)
        return EGraph(tuple(classes), tuple(roots)), keys

    @property
    def size(self) -> tuple[int, int]:
        """How many nodes and classes there are."""
        return len(self._nodes), len({self.leader(c) for c in self._nodes.values()})

    def _classes(self, program: Program, costs: Mapping[str, float]) -> tuple[dict[str, int], dict[str, Key]]:
        keys: dict[str, Key] = {name: (("input", name), ()) for name in program.inputs}
        keys |= {name: (("constant", self.hashes(a)), ()) for name, a in program.constants.items()}
        values = {"": _OMITTED, **{name: self._class(key, 0.0) for name, key in keys.items()}}
        for node in program.nodes:
            order = "unordered" if node.traits.commutative else "ordered"
            key = (order, node.function, len(node.outputs)), tuple(values[name] for name in node.inputs)
            cost = 0.0 if node.output in program.static_values else costs.get(node.output, 0.0)
            whole = self._class(key, cost)
            outputs = [(at, name) for at, name in enumerate(node.outputs) if name]
            for at, name in outputs:
                several = len(node.outputs) > 1
                keys[name] = (("result", at), (whole,)) if several else key
                values[name] = self._class(keys[name], 0.0) if several else whole
        return values, keys

    def _class(self, key: Key, cost: float) -> int:
        key = self.canonical(key)
        if key not in self._nodes:
            c = len(self._leaders)
            self._leaders.append(c)
            self._readers.append(set())
            self._nodes[key], self._costs[key] = c, cost
            for child in key[1]:
                if child != _OMITTED:
                    self._readers[child].add(key)
        return self.leader(self._nodes[key])

    def canonical(self, key: Key) -> Key:
        """A node as it is after what was found equal since, operands sorted where it has no order of them."""
        read = tuple(c if c == _OMITTED else self.leader(c) for c in key[1])
        return key[0], tuple(sorted(read)) if key[0][0] == "unordered" else read

    def _unite(self, a: int, b: int) -> None:
        a, b = self.leader(a), self.leader(b)
        if a == b:
            return
        if len(self._readers[a]) < len(self._readers[b]):
            a, b = b, a
        self._leaders[b] = a
        self._readers[a] |= self._readers[b]
        self._readers[b] = set()
        self._merged.append(a)

    def _rebuild(self) -> None:
        """Congruence: nodes that read equal classes are equal."""
        while self._merged:
            c = self.leader(self._merged.pop())
            for key in list(self._readers[c]):
                new = self.canonical(key)
                if new == key or key not in self._nodes:
                    continue
                mine, cost = self._nodes.pop(key), self._costs.pop(key)
                if new in self._nodes:
                    self._costs[new] = min(cost, self._costs[new])
                    self._unite(self._nodes[new], mine)
                else:
                    self._nodes[new], self._costs[new] = mine, cost
                for child in new[1]:
                    if child != _OMITTED:
                        self._readers[child].discard(key)
                        self._readers[child].add(new)


def chosen(graph: EGraph, keys: list[Key], choice: Choice) -> frozenset[Key]:
    """The keys of the nodes of an extraction."""
    return frozenset(keys[int(graph.classes[c][choice[c]].name)] for c in graph.reached(choice))


def windows(program: Program, keys: Mapping[str, Key]) -> Iterator[Hashable]:
    """Each node with the nodes that it reads: as much of a program as most rules look at."""
    for node in program.nodes:
        read = tuple(keys[name] if name else None for name in node.inputs)
        yield from ((keys[name], read) for name in node.outputs if name)


def signature(program: Program, hashes: ArrayHashes) -> str:
    """A hash of what a program computes in which way. Names of values do not count, nor does the order of
    operands where an op has none."""
    known = {"": "", **{name: f"input {name}" for name in program.inputs}}
    known |= {name: hashes(array) for name, array in program.constants.items()}
    for node in program.nodes:
        read = node.unordered(known[name] for name in node.inputs)
        text = repr((node.function, read, len(node.outputs)))
        whole = sha256_bytes(text.encode())
        known.update((name, f"{whole} {at}") for at, name in enumerate(node.outputs) if name)
    return sha256_bytes(" ".join(known[name] for name in program.outputs).encode())
