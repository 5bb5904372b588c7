"""Edits of programs: nodes out, nodes in, uses renamed, and the tables of what was there carried over.

A rewrite of one place must not cost a walk over the whole program: where an edit keeps the order of
definition and the types and values of what it does not touch, the tables of the program before become those
of the program after by their differences. Otherwise they are made anew when somebody asks for them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir.infer import Facts, constant_facts
from tensmith.ir.op import Node

if TYPE_CHECKING:
    from tensmith.ir.program import Program

# Where a node stands after an edit: before or at a node that stays, and among what is put there.
_Place: TypeAlias = tuple[int, int]
# So many nodes are looked for one by one in a program; for more, a table of it is made.
_FEW = 8


def edited(
    program: Program,
    remove: Iterable[Node],
    add: Iterable[Node],
    constants: Mapping[str, Array],
    alias: Mapping[str, str],
) -> Program:
    """See Program.edit."""
    gone = frozenset(remove)
    taken = {name for node in gone for name in node.outputs}
    readers = {reader for old in alias for reader in program.consumers.get(old, ()) if reader not in gone}
    renamed = {reader: _renamed(reader, alias) for reader in readers}
    added = [_renamed(node, alias) for node in add]
    added += [Node("identity", (alias[name],), (name,)) for name in program.outputs if name in alias]
    kept = _kept(program.nodes, gone, renamed)
    merged = {**program.constants, **constants} if constants else program.constants
    places = None
    if all(name in program.constants or name not in program.names for name in constants.keys() - taken):
        places = _places(program, kept, gone, renamed, added)
    if places is None:
        defined = {*program.inputs, *merged}
        return replace(program, nodes=tuple(in_order([*kept, *added], defined)), constants=merged)
    after = replace(program, nodes=tuple(_put(kept, places, added)), constants=merged)
    change = _Change(program, after, gone, renamed, tuple(sorted(places, key=places.__getitem__)), places)
    vars(after).update(change.tables(constants))
    return after


def in_order(nodes: Sequence[Node], defined: set[str]) -> Iterator[Node]:
    """Nodes in an order of definition, as close to the given order as that allows."""
    producer = {name: node for node in nodes for name in node.outputs if name}
    done: set[Node] = set()
    active: set[Node] = set()
    for root in nodes:
        stack = [root]
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            waiting = [
                producer[name]
                for name in node.inputs
                if name in producer and name not in defined and producer[name] not in done
            ]
            if not waiting:
                active.discard(node)
                done.add(node)
                stack.pop()
                yield node
                continue
            if node in active:
                raise ProgramError(f"{node.label} depends on its own output")
            active.add(node)
            stack.extend(reversed(waiting))


def _renamed(node: Node, names: Mapping[str, str]) -> Node:
    if not any(name in names for name in node.inputs):
        return node
    return replace(node, inputs=tuple(names.get(name, name) for name in node.inputs))


def _places(
    program: Program,
    kept: list[Node],
    gone: frozenset[Node],
    renamed: Mapping[Node, Node],
    added: Sequence[Node],
) -> dict[Node, _Place] | None:
    """Where nodes that are new or read otherwise stand, as `in_order` would put them.

    None where it would move a node that stays, or where something is defined twice.
    """
    standing = _Positions(kept)
    made = {name: node for node in added for name in node.outputs if name}
    taken = {name for node in gone for name in node.outputs}
    if len(made) < sum(name != "" for node in added for name in node.outputs):
        return None
    if any(name in program.inputs or (name in program.producers and name not in taken) for name in made):
        return None
    of = program.producers
    places: dict[Node, _Place] = {new: (standing[new], sys.maxsize) for new in renamed.values()}

    def before(node: Node, at: int) -> bool:
        """Puts a new node, and new ones that it reads, in front of the node at `at`, if that is possible."""
        pending = [node]
        while pending:
            first = pending[-1]
            waiting = [made[n] for n in first.inputs if n in made and made[n] not in places]
            if len(pending) > len(added):
                return False  # they read each other
            if waiting:
                pending.append(waiting[0])
                continue
            pending.pop()
            if not all(_stands_before(n, at) for n in first.inputs if n and n not in made):
                return False
            places[first] = (at, len(places))
        return True

    def _stands_before(name: str, at: int) -> bool:
        producer = of.get(name)
        return producer is None or producer in gone or standing[renamed.get(producer, producer)] < at

    reading = {
        renamed.get(reader, reader)
        for name in made
        for reader in program.consumers.get(name, ())
        if reader not in gone
    }
    reading.update(new for new in renamed.values() if not made.keys().isdisjoint(new.inputs))
    for reader in sorted(reading, key=standing.__getitem__):
        at = standing[reader]
        for name in reader.inputs:
            if name in made and made[name] not in places and not before(made[name], at):
                return None
    for new in renamed.values():
        at = standing[new]
        if not all(_stands_before(name, at) for name in new.inputs if name and name not in made):
            return None
    return places if all(n in places or before(n, len(kept)) for n in added) else None


class _Positions(dict[Node, int]):
    """Where nodes stand in a list, looked for when asked."""

    def __init__(self, nodes: list[Node]) -> None:
        super().__init__()
        self._nodes = nodes

    def __missing__(self, node: Node) -> int:
        if len(self) > _FEW:
            self.update(zip(self._nodes, range(len(self._nodes))))
        else:
            self[node] = self._nodes.index(node)
        return self[node]


def _kept(nodes: Sequence[Node], gone: frozenset[Node], renamed: Mapping[Node, Node]) -> list[Node]:
    """The nodes that stay, those that read otherwise in their new form."""
    if len(gone) + len(renamed) > _FEW:
        return [renamed.get(node, node) for node in nodes if node not in gone]
    kept = list(nodes)
    for old, new in renamed.items():
        kept[kept.index(old)] = new
    for node in gone.intersection(nodes):
        kept.remove(node)
    return kept


def _put(kept: list[Node], places: Mapping[Node, _Place], added: Sequence[Node]) -> list[Node]:
    """The nodes that stay with new ones among them."""
    found: list[Node] = []
    last = 0
    for node in sorted(added, key=places.__getitem__):
        at = places[node][0]
        found += kept[last:at]
        found.append(node)
        last = at
    return found + kept[last:]


@dataclass(frozen=True)
class _Change:
    """What becomes of a program's tables. touched: nodes that are new or read otherwise, in order."""

    before: Program
    after: Program
    gone: frozenset[Node]
    renamed: Mapping[Node, Node]
    touched: Sequence[Node]
    places: Mapping[Node, _Place]

    def tables(self, constants: Mapping[str, Array]) -> dict[str, Any]:
        """The tables that are known; those whose change reaches further than the edit are left out."""
        found: dict[str, Any] = {"producers": self._producers(), "consumers": self._consumers()}
        known = vars(self.before)
        if any(self._others_read(name) and name not in constants for name in self._undefined()):
            return found  # a mistake that `facts` will name
        if "static_values" in known and (static := self._static(constants)) is not None:
            found["static_values"] = static
        if "facts" in known and (facts := self._facts(constants)) is not None:
            found["facts"] = facts
        return found

    def _undefined(self) -> set[str]:
        made = {name for node in self.touched for name in node.outputs}
        return {name for node in self.gone for name in node.outputs if name} - made

    def _others_read(self, name: str) -> bool:
        """Whether a node that is not touched reads a value, or who runs the program does."""
        readers = self.before.consumers.get(name, ())
        return name in self.after.outputs or any(
            reader not in self.gone and reader not in self.renamed for reader in readers
        )

    def _producers(self) -> dict[str, Node]:
        table = dict(self.before.producers)
        for node in self.gone:
            for name in filter(None, node.outputs):
                del table[name]
        table.update((name, node) for node in self.touched for name in node.outputs if name)
        return table

    def _consumers(self) -> dict[str, tuple[Node, ...]]:
        table = dict(self.before.consumers)
        nodes = (*self.gone, *self.renamed, *self.touched)
        order = _Positions(list(self.after.nodes))
        for name in {name for node in nodes for name in node.inputs if name}:
            old = table.pop(name, ())
            readers = [node for node in old if node not in self.gone and node not in self.renamed]
            new = [node for node in self.touched if name in node.inputs]
            if new and readers:
                readers = sorted({*readers, *new}, key=order.__getitem__)
            elif new:
                readers = new
            if readers:
                table[name] = tuple(readers)
        return table

    def _static(self, constants: Mapping[str, Array]) -> frozenset[str] | None:
        before = self.before.static_values
        found = set(before) - self._undefined() | constants.keys()
        if any(name not in before and self._others_read(name) for name in constants):
            return None
        for node in self.touched:
            static = node.opaque is None and bool(node.inputs)
            static = static and all(name in found or not name for name in node.inputs)
            for name in filter(None, node.outputs):
                if (name in before) != static and self._others_read(name):
                    return None
                (found.add if static else found.discard)(name)
        return frozenset(found)

    def _facts(self, constants: Mapping[str, Array]) -> dict[str, Facts] | None:
        table = dict(self.before.facts)
        for name in self._undefined():
            del table[name]
        new = {name: constant_facts(self.after.constants[name]) for name in constants}
        for node in (None, *self.touched):
            if node is not None:
                if not all(name in table for name in node.inputs if name):
                    return None
                try:
                    found = self.after.node_facts(node, table)
                except ProgramError:
                    return None  # `facts` will say so
                new = {name: fact for name, fact in zip(node.outputs, found) if name}
            for name, fact in new.items():
                if self._others_read(name) and self.before.facts.get(name, fact) != fact:
                    return None
            table.update(new)
        return table if all(name in table for name in self.after.outputs) else None
