"""The state of lowering one function: names, what is bound to them, and the statements written so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from tensmith.formula.expr import Expr, Num, Read, SourcePosition, variable
from tensmith.formula.types import I64, MachineType
from tensmith.ir.names import take
from tensmith.lifting import loops
from tensmith.lifting.limit import Deadline
from tensmith.lifting.loops import Array, Assign, Declare, Statement, new_label
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.arithmetic import cast
from tensmith.lifting.source.c.cursor import Cursor, identity, key
from tensmith.lifting.source.c.places import Address, Heap, Pointer, Value

STATEMENTS = 20_000  # more than any kernel; helpers that call helpers twice each would grow without end
UNKNOWN = "unknown"  # where a pointer points after branches that disagree

Found = TypeVar("Found")


def refuse_shared(names: set[str], where: SourcePosition) -> None:
    """Refuse an expression in which an order that C leaves open decides over variables, or that changes what
    a postponed effect still reads."""
    if names:
        reason = f"{min(names)} is changed and read in one expression, in an order C leaves open"
        raise Refusal(f"{reason}: make them two statements", where)


def check_typed(name: str, target: Pointer, where: SourcePosition) -> None:
    """Refuse a pointer to new memory that no cast gave a type: each of several casts would make it anew."""
    if isinstance(target, Heap):
        reason = f"{name} points to memory whose elements have no type yet, or are no numbers"
        raise Refusal(f"{reason}: cast it to a pointer to numbers where it is allocated", where)


@dataclass
class CFrame:
    """A function being lowered: the outermost one, or a helper written out in its place."""

    function: Cursor
    written: frozenset[int]  # declarations that are assigned to, incremented, or have their address taken
    result: str | None = None  # the variable that several `return`s share
    type: MachineType | Array | None = None
    returned: list[Value] = field(default_factory=list)
    loops: int = 0


@dataclass
class LoweringContext:
    """Everything known while statements are lowered in order."""

    file: str
    language: str
    deadline: Deadline
    bound: dict[int, Value] = field(default_factory=dict)  # by declaration
    types: dict[str, MachineType] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    fields: dict[tuple[str, str], Value] = field(default_factory=dict)  # of structs, by variable and field
    pointers: dict[int, Pointer | str] = field(default_factory=dict)  # where pointer variables point now
    slots: dict[tuple[int, str, int], tuple[str, ...]] = field(default_factory=dict)
    bytes: set[str] = field(default_factory=set)  # arrays of bytes that a cast may still give a type
    local: set[str] = field(default_factory=set)  # arrays made here
    temporary: set[str] = field(default_factory=set)  # arrays that a helper returned and nothing names yet
    steady: set[str] = field(default_factory=set)  # variables that hold a subscript and never change
    seen: set[int] = field(default_factory=set)  # cursors that met their handler
    attributed: set[int] = field(default_factory=set)  # statements with attributes of no effect
    skipped: set[int] = field(default_factory=set)  # cursors that are never evaluated
    lowered: dict[int, Cursor] = field(default_factory=dict)  # the function and its helpers
    names: set[str] = field(default_factory=set)
    labels: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    hoisted: list[Statement] = field(default_factory=list)
    out: list[Statement] = field(default_factory=list)
    later: list[tuple[str, Statement]] = field(default_factory=list)  # effects of i++ inside an expression
    reads: set[str] = field(default_factory=set)  # by the current full expression; a[] by its calls
    touched: dict[int, tuple[str, Pointer | str | None]] = field(default_factory=dict)  # where pointers led
    frames: list[CFrame] = field(default_factory=list)
    written: int = 0

    @property
    def frame(self) -> CFrame:
        return self.frames[-1]

    def emit(self, statement: Statement) -> None:
        self.written += 1
        if self.written > STATEMENTS:
            reason = f"written out with its helpers, the function has more than {STATEMENTS} statements"
            raise Refusal(f"{reason}: lift the helpers on their own", statement.position)
        if self.deadline.passed:
            raise Refusal("reading takes too long: lift a smaller function", statement.position)
        for _, effect in self.later:
            refuse_shared(loops.reads(effect) & loops.writes(statement), effect.position)
        self.out.append(statement)

    def see(self, *cursors: Cursor) -> None:
        """Cursors whose meaning is told."""
        self.seen.update(map(identity, cursors))

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    # Names.

    def fresh(self, base: str) -> str:
        """A name not used yet: base, base_2, base_3..."""
        return take(base, self.names)

    def label(self, base: str, position: SourcePosition) -> str:
        """The unique label of a loop."""
        return new_label(base, position, self.labels)

    def declare(self, base: str, kind: MachineType, value: Expr | None, position: SourcePosition) -> Read:
        """A new local scalar."""
        name = self.fresh(base)
        self.types[name] = kind
        self.emit(Declare(name, kind, value, position))
        return variable(name, kind, position)

    def array(self, base: str, kind: Array) -> str:
        """The name of a new local array."""
        name = self.fresh(base)
        self.arrays[name] = kind
        self.local.add(name)
        return name

    def binding(self, cursor: Cursor) -> Value:
        return self.bound.get(key(cursor))

    # Blocks.

    def watched(self, evaluate: Callable[[], Found]) -> tuple[Found, list[Statement]]:
        """What is evaluated, and the statements that it emits."""
        before = len(self.out)
        found = evaluate()
        return found, self.out[before:]

    @contextmanager
    def block(self) -> Iterator[list[Statement]]:
        """Statements emitted inside go to the list that is yielded."""
        outer, self.out = self.out, []
        try:
            yield self.out
        finally:
            self.out = outer

    @contextmanager
    def full_expression(self) -> Iterator[None]:
        """An expression between sequence points: the effects of its i++ come after it."""
        with self.apart():
            yield
            self.sequence_point()

    @contextmanager
    def apart(self) -> Iterator[None]:
        """What is read and postponed inside is not of the expression around."""
        outer = self.later, self.reads
        self.later, self.reads = [], set()
        try:
            yield
        finally:
            self.later, self.reads = outer

    def sequence_point(self) -> None:
        """The postponed effects happen."""
        later, reads = self.later, self.reads
        self.later, self.reads = [], set()
        for name, effect in later:
            if name in reads or sum(name == other for other, _ in later) > 1:
                refuse_shared({name.removesuffix("[]")}, effect.position)
            self.emit(effect)

    @contextmanager
    def perhaps(self) -> Iterator[list[Statement]]:
        """A block of statements that do not always happen, nor then what they let pointers point to."""
        start = dict(self.pointers)
        with self.block() as statements:
            yield statements
        self.pointers = self.joined([start, self.pointers])

    # Pointers.

    def pointer(self, at: int, name: str, position: SourcePosition) -> Pointer:
        """Where a pointer variable points now."""
        found = self.pointers.get(at)
        self.touched.setdefault(at, (name, found))
        if found is None:
            raise Refusal(f"{name} is read before it is set", position)
        if isinstance(found, str):
            reason = f"{name} may point into more than one array here"
            raise Refusal(f"{reason}: use one pointer for each array", position)
        return found

    def point(self, at: int, name: str, target: Pointer, position: SourcePosition) -> None:
        """Let a pointer variable point somewhere: its subscripts are kept in integer variables."""
        check_typed(name, target, position)
        if not isinstance(target, Address):
            self.pointers[at] = target
            return
        slot = (at, target.array, len(target.indices))
        if slot not in self.slots:
            names = [self.fresh(f"{name}_{axis}") for axis in range(len(target.indices) - 1)]
            self.slots[slot] = (*names, self.fresh(name))
            for subscript in self.slots[slot]:
                self.types[subscript] = I64
                self.hoisted.append(Declare(subscript, I64, None, position))
        indices: list[Expr] = []
        for subscript, index in zip(self.slots[slot], target.indices, strict=True):
            if self.is_steady(index) and len(indices) < len(target.indices) - 1:
                indices.append(index)
                continue
            indices.append(variable(subscript, I64, position))
            if not isinstance(index, Read) or index.tensor != subscript:
                self.emit(Assign(subscript, cast(index, I64), position))
        self.pointers[at] = Address(target.array, tuple(indices))

    def is_steady(self, index: Expr) -> bool:
        """Whether a subscript is a number, or a variable made for it alone."""
        return isinstance(index, Num) or (isinstance(index, Read) and index.tensor in self.steady)

    def kept(self, name: str, index: Expr, position: SourcePosition) -> Expr:
        """A subscript with the value it has now."""
        if self.is_steady(index):
            return index
        variable = self.declare(name, I64, cast(index, I64), position)
        self.steady.add(variable.tensor)
        return variable

    def fix(self, at: int, name: str, target: Pointer, position: SourcePosition) -> None:
        """Let a pointer variable that never moves point somewhere."""
        check_typed(name, target, position)
        if isinstance(target, Address):
            target = Address(
                target.array, tuple(self.kept(name, index, position) for index in target.indices)
            )
        self.pointers[at] = target

    def joined(self, others: list[dict[int, Pointer | str]]) -> dict[int, Pointer | str]:
        """Where pointers point after branches that end with `others`."""
        found: dict[int, Pointer | str] = {}
        for at in set().union(*others):
            ends = [other.get(at) for other in others]
            known = [end for end in ends if end is not None]
            found[at] = known[0] if all(end == known[0] for end in known) else UNKNOWN
        return found
