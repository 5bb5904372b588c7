"""Edits of programs: nodes out, nodes in, uses renamed, and the tables of what was there carried over.

A rewrite of one place must not cost a walk over the whole program: where an edit keeps the order of
definition and the types and values of what it does not touch, the tables of the program before become those
of the program after by their differences. Otherwise they are made anew when somebody asks for them.
"""

from __future__ import annotations

import sys
from bisect import insort
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir.infer import Facts, constant_facts
from tensmith.ir.op import Node

if TYPE_CHECKING:
    from tensmith.ir.program import Program

# Where a node stands after an edit: before or at a node that stays, and among what is put there.
_Place: TypeAlias = tuple[int, int]
_TABLES = ("producers", "consumers", "static_values", "facts")


@dataclass(frozen=True)
class Edit:
    """What is done to a program: nodes out, nodes in, new constants, every use of alias keys renamed."""

    remove: tuple[Node, ...] = ()
    add: tuple[Node, ...] = ()
    constants: Mapping[str, Array] = field(default_factory=dict)
    alias: Mapping[str, str] = field(default_factory=dict)


def edited(program: Program, edit: Edit, owned: bool = False) -> Program:
    """See Program.edit. owned: nobody reads `program` again, so its tables are changed in their place."""
    gone = frozenset(edit.remove)
    taken = {name for node in gone for name in node.outputs}
    readers = {reader for old in edit.alias for reader in program.consumers.get(old, ())}
    renamed = {reader: reading_as(reader, edit.alias) for reader in readers - gone}
    added = [reading_as(node, edit.alias) for node in edit.add]
    outputs = [name for name in program.outputs if name in edit.alias]
    added += [Node("identity", (edit.alias[name],), (name,)) for name in outputs]
    kept = _kept(program, gone, renamed)
    constants = {**program.constants, **edit.constants} if edit.constants else program.constants
    new = edit.constants.keys() - taken
    order = _Order(program, kept, gone, renamed, added)
    twice = any(program.has(name) and name not in program.constants for name in new)
    if twice or not order.made.keys().isdisjoint(constants) or not order.found():
        defined = {*program.inputs, *constants}
        return replace(program, nodes=tuple(in_order([*kept, *added], defined)), constants=constants)
    after = replace(program, nodes=tuple(order.nodes()), constants=constants)
    change = _Change(program, after, gone, renamed, order, edit.constants)
    differences = {"producers": change.producers(), "consumers": change.consumers()} | change.read()
    for name in _TABLES:
        found = differences.get(name)
        if found is not None:
            whole = getattr(program, name)  # of an edit that changes nothing, nobody asked for it
            whole = vars(program).pop(name) if owned else dict(whole)
            vars(after)[name] = found.applied(whole)
    vars(after)["_near"] = order.near
    return after


def facts_after(program: Program, edit: Edit) -> Mapping[str, Facts]:
    """Types and known values after an edit, of what it does not touch as before it."""
    table: MutableMapping[str, Facts] = ChainMap({}, dict[str, Facts](), program.facts)  # type: ignore[arg-type]
    table.update((name, constant_facts(array)) for name, array in edit.constants.items())
    added = [reading_as(node, edit.alias) for node in edit.add]
    for node in in_order(added, set()):
        table.update(zip(node.outputs, program.node_facts(node, table)))
    return table


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


def reading_as(node: Node, names: Mapping[str, str]) -> Node:
    """The node, reading what other names stand for."""
    if not any(name in names for name in node.inputs):
        return node
    return replace(node, inputs=tuple(names.get(name, name) for name in node.inputs))


# Order

# So many nodes are looked for one by one in a program; for more, a table of it is made.
_FEW = 8


class _Positions(dict[Node, int]):
    """Where nodes stand in a list, looked for when asked; first behind `near`."""

    def __init__(self, nodes: list[Node], near: int) -> None:
        super().__init__()
        self._nodes, self.near = nodes, max(0, min(near, len(nodes)) - 2 * _FEW)

    def __missing__(self, node: Node) -> int:
        if len(self) > _FEW:
            self.update(zip(self._nodes, range(len(self._nodes))))
            return self[node]
        try:
            found = self._nodes.index(node, self.near, self.near + 8 * _FEW)
        except ValueError:
            found = self._nodes.index(node)
        self[node] = found
        return found


def _kept(program: Program, gone: frozenset[Node], renamed: Mapping[Node, Node]) -> list[Node]:
    """The nodes that stay, those that read otherwise in their new form."""
    if len(gone) + len(renamed) > _FEW:
        return [renamed.get(node, node) for node in program.nodes if node not in gone]
    kept = list(program.nodes)
    standing = _Positions(kept, near(program))
    for old, new in renamed.items():
        kept[standing[old]] = new
    for place in sorted((standing[node] for node in gone), reverse=True):
        del kept[place]
    return kept


def near(program: Program) -> int:
    """About where the edit was that made a program: the next one is often there too."""
    return int(vars(program).get("_near", 0))


class _Order:
    """Where nodes that are new or read otherwise stand, as `in_order` would put them."""

    def __init__(
        self,
        program: Program,
        kept: list[Node],
        gone: frozenset[Node],
        renamed: Mapping[Node, Node],
        added: Sequence[Node],
    ) -> None:
        self.program, self.kept, self.gone, self.renamed, self.added = program, kept, gone, renamed, added
        self.standing = _Positions(kept, near(program))
        self.made = {name: node for node in added for name in node.outputs if name}
        self.places: dict[Node, _Place] = {}

    @property
    def touched(self) -> Sequence[Node]:
        """Nodes that are new or read otherwise, in order."""
        return sorted(self.places, key=self.places.__getitem__)

    @property
    def near(self) -> int:
        """The first place that changed."""
        return min((at for at, _ in self.places.values()), default=0)

    def place(self, node: Node) -> _Place:
        """Where any node stands."""
        return self.places.get(node) or (self.standing[node], sys.maxsize)

    def found(self) -> bool:
        """Finds the places; False where nodes that stay would move, or something is defined twice."""
        outputs = [name for node in self.added for name in node.outputs if name]
        if len(self.made) < len(outputs) or any(map(self._defined, outputs)):
            return False
        self.places = {new: (self.standing[new], sys.maxsize) for new in self.renamed.values()}
        reading = {
            self.renamed.get(reader, reader)
            for name in self.made
            for reader in self.program.consumers.get(name, ())
            if reader not in self.gone
        }
        reading.update(new for new in self.renamed.values() if not self.made.keys().isdisjoint(new.inputs))
        for reader in sorted(reading, key=self.standing.__getitem__):
            read = [self.made[name] for name in reader.inputs if name in self.made]
            if not all(self._put(node, self.standing[reader]) for node in read):
                return False
        if not all(self._follows(new, self.standing[new]) for new in self.renamed.values()):
            return False
        return all(self._put(node, len(self.kept)) for node in self.added)

    def nodes(self) -> list[Node]:
        """The nodes that stay with new ones among them."""
        found: list[Node] = []
        last = 0
        for node in sorted(self.added, key=self.places.__getitem__):
            at = self.places[node][0]
            found += self.kept[last:at]
            found.append(node)
            last = at
        return found + self.kept[last:]

    def _defined(self, name: str) -> bool:
        """Whether something that stays defines a name."""
        producer = self.program.producers.get(name)
        return name in self.program.inputs or (producer is not None and producer not in self.gone)

    def _put(self, node: Node, at: int) -> bool:
        """Puts a new node, and new ones that it reads, in front of the node at `at`, if that is possible."""
        pending = [node]
        while pending:
            first = pending[-1]
            read = [self.made[name] for name in first.inputs if name in self.made]
            waiting = [node for node in read if node not in self.places]
            if len(pending) > len(self.added):
                return False  # they read each other
            if waiting:
                pending.append(waiting[0])
                continue
            pending.pop()
            if first in self.places:
                continue
            if not self._follows(first, at):
                return False
            self.places[first] = (at, len(self.places))
        return True

    def _follows(self, node: Node, at: int) -> bool:
        """Whether all that stays and that a node reads stands before `at`."""
        producers = (self.program.producers.get(n) for n in node.inputs if n and n not in self.made)
        return all(
            p is None or p in self.gone or self.standing[self.renamed.get(p, p)] < at for p in producers
        )


# Tables


@dataclass(frozen=True)
class _Difference:
    """What is taken out of a table and put into it."""

    out: Iterable[str]
    put: Mapping[str, Any]

    def applied(self, table: dict[str, Any]) -> dict[str, Any]:
        """Changes the table."""
        for name in self.out:
            table.pop(name, None)
        table.update(self.put)
        return table


@dataclass(frozen=True)
class _Change:
    """What becomes of a program's tables."""

    before: Program
    after: Program
    gone: frozenset[Node]
    renamed: Mapping[Node, Node]
    order: _Order
    constants: Mapping[str, Array]

    def read(self) -> dict[str, _Difference | None]:
        """Of tables that are known; nothing of those whose change reaches further than the edit."""
        known = vars(self.before)
        if any(self._others_read(name) and name not in self.constants for name in self._undefined):
            return {}  # a mistake that `facts` will name
        return {
            "static_values": self._static() if "static_values" in known else None,
            "facts": self._facts() if "facts" in known else None,
        }

    def producers(self) -> _Difference:
        """Value -> node."""
        made = {name: node for node in self.order.touched for name in node.outputs if name}
        return _Difference(self._undefined, made)

    def consumers(self) -> _Difference:
        """Value -> nodes."""
        touched = self.order.touched
        found: dict[str, tuple[Node, ...]] = {}
        names = {name for node in (*self.gone, *self.renamed, *touched) for name in node.inputs if name}
        for name in names:
            readers = list(self.before.consumers.get(name, ()))
            for node in (*self.gone, *self.renamed):
                if name in node.inputs:
                    readers.remove(node)
            for node in touched:
                if name in node.inputs:
                    self._insert(node, readers)
            found[name] = tuple(readers)
        return _Difference(names, {name: readers for name, readers in found.items() if readers})

    def _insert(self, node: Node, readers: list[Node]) -> None:
        """Puts a node among others in order; mostly it is the last."""
        place = self.order.place
        if not readers or place(readers[-1]) < place(node):
            readers.append(node)
        else:
            insort(readers, node, key=place)

    @property
    def _undefined(self) -> set[str]:
        made = {name for node in self.order.touched for name in node.outputs}
        return {name for node in self.gone for name in node.outputs if name} - made

    def _others_read(self, name: str) -> bool:
        """Whether a node that is not touched reads a value, or who runs the program does."""
        readers = self.before.consumers.get(name, ())
        return name in self.after.outputs or any(
            reader not in self.gone and reader not in self.renamed for reader in readers
        )

    def _static(self) -> _Difference | None:
        before = self.before.static_values
        if any(name not in before and self._others_read(name) for name in self.constants):
            return None
        found: dict[str, bool] = dict.fromkeys(self._undefined, False) | dict.fromkeys(self.constants, True)
        for node in self.order.touched:
            inputs = [found.get(name, name in before) for name in node.inputs if name]
            static = node.opaque is None and bool(node.inputs) and all(inputs)
            for name in filter(None, node.outputs):
                if (name in before) != static and self._others_read(name):
                    return None
                found[name] = static
        return _Difference(found, {name: None for name, static in found.items() if static})

    def _facts(self) -> _Difference | None:
        before = self.before.facts
        found = {name: constant_facts(array) for name, array in self.constants.items()}
        known = ChainMap(found, before)  # type: ignore[arg-type]
        undefined = self._undefined - self.constants.keys()
        for node in self.order.touched:
            if any(name and (name in undefined or name not in known) for name in node.inputs):
                return None
            try:
                facts = self.after.node_facts(node, known)
            except ProgramError:
                return None  # `facts` will say so
            found.update((name, fact) for name, fact in zip(node.outputs, facts) if name)
        if any(self._others_read(name) and before.get(name, fact) != fact for name, fact in found.items()):
            return None
        missing = (name in undefined or name not in known for name in self.after.outputs)
        return None if any(missing) else _Difference(undefined, found)
