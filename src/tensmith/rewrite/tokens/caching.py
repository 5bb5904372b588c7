"""A decoder that computes its whole text for every token, turned into one with caches of keys and values.

The program reads tokens [batch, length]. Of each value, the axes whose size is made of that length are its
rows. Whatever works row by row is computed for the new rows alone; where all rows are needed, as keys and
values are by an attention, those from before come in as a cache and go out with the new ones behind them.
So the same program fills the caches from a prompt and goes on with single tokens.

That is right where no row depends on a later one (tokens.causal). How rows pass through an op is read off its
formula, and not proved: whoever makes such a program compares it with what it was made of (deploy.caching).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tensmith.errors import ModelError
from tensmith.formula.arith import Array
from tensmith.formula.poly import Dim, Poly
from tensmith.ir import Node, Program, TensorType, make_node
from tensmith.ir.builder import ProgramBuilder
from tensmith.ir.edits import in_order
from tensmith.ir.onnx_schema import ELEMENT_CODES
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.ir.ops.shape import Expand, Renaming, Transpose
from tensmith.ir.ops.sizes import as_dims
from tensmith.ir.ops.slicing import Slice
from tensmith.rewrite.tokens.row_rules import ALL, NEW, Rows, inputs_for
from tensmith.rewrite.tokens.rows import MASK, TokenRows

PAST, PRESENT = "past_key_values.{}", "present.{}"
POSITION = "position"
_BEFORE, _TOTAL, _FRESH = "rows before", "rows in all", "rows that are new"


def with_slots(program: Program, capacity: int) -> Program:
    """The program for one token at a time, of fixed sizes: caches have `capacity` rows, of which the new one
    takes the place that the input position [1] names, and comes out in the caches of the next step.

    Rows behind the position count as later tokens, which no row depends on. ModelError as with_caches.
    """
    return _Caching(program, capacity).run()


def with_caches(program: Program) -> Program:
    """The program with caches: an input past_key_values.N [.., before, ..] and an output present.N each, of
    which the latter is the next step's former. Inputs [batch, length] take new tokens alone; attention_mask
    is of all tokens. Outputs are of the new rows.

    ModelError naming the node where it is not known how rows pass through it.
    """
    return _Caching(program).run()


@dataclass
class _Caching:
    """capacity: of the caches' rows, for one new row at a time; None where they grow."""

    program: Program
    capacity: int | None = None
    made: dict[tuple[str, Rows], str] = field(default_factory=dict)
    # Inputs of what was computed before, in the order of their outputs; of the first also the axis of rows.
    caches: dict[str, TensorType] = field(default_factory=dict)
    present: list[str] = field(default_factory=list)
    _first_axis: int = 0
    # Whether a cache has its rows last, by the value that is kept.
    _turned: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rows, self.build = TokenRows(self.program), ProgramBuilder(self.program)

    def run(self) -> Program:
        """See with_caches."""
        program = self.program
        beside = {POSITION} if self.capacity else set()
        if taken := {_BEFORE, _TOTAL, _FRESH, *beside} & program.names:
            raise ModelError(f"the model has a value named '{min(taken)}', which caches need; rename it")
        outputs = []
        for name in program.outputs:
            rows = (NEW,) * len(self.rows.axes(name))
            if len(rows) != 1:
                raise ModelError(f"output '{name}' has no single axis of tokens, so it has no new rows")
            outputs.append((name, self.value(name, rows)))
        if not self.caches:
            raise ModelError("no row needs another, so there is nothing to keep from one token to the next")
        nodes = [*self._sizes(), *self.build.nodes]
        nodes += [make_node("identity", (made,), (name,)) for name, made in outputs]
        inputs = {n: self._input_type(n, type_) for n, type_ in program.inputs.items()}
        inputs |= {name: TensorType("i64", (1,)) for name in beside}
        return Program(
            program.name,
            {**inputs, **self.caches},
            (*program.outputs, *self.present),
            tuple(in_order(nodes, set())),
            {**program.constants, **self.build.constants},
            origin=program.origin,
        )

    def _input_type(self, name: str, type_: TensorType) -> TensorType:
        if name == MASK:
            return type_.with_shape((type_.dims[0], self.capacity or self._fresh_size("total")))
        return type_.with_shape((type_.dims[0], 1)) if self.capacity else type_

    def _fresh_size(self, name: str) -> Poly:
        """A size that the model's inputs have none of."""
        dims = [dim for type_ in self.program.inputs.values() for dim in type_.dims if isinstance(dim, Poly)]
        while any(name in dim.symbols() for dim in dims):
            name += "_"
        return Poly.symbol(name)

    # Values of chosen rows

    def value(self, name: str, rows: Rows) -> str:
        """A value with those rows."""
        if name in self.program.constants:
            return name
        key = (name, rows)
        if key not in self.made:
            self.made[key] = self._made(name, rows)
        return self.made[key]

    def _made(self, name: str, rows: Rows) -> str:
        if name in self.program.inputs:
            return self._given(name, rows)
        fact = self.program.facts[name]
        if fact.value is not None and fact.type is not None and not fact.type.floating:
            return self._numbers(fact.value, fact.type)
        node = self.program.producers[name]
        if name not in self.rows.told:
            return self._counted(node, name, rows)
        if ALL in rows and NEW not in rows:
            return self._remembered(name, rows)
        return self._passed(node, name, rows)

    def _given(self, name: str, rows: Rows) -> str:
        """An input's rows."""
        if name == MASK:
            return name if rows == (ALL,) else self._cut(name, 1)
        return name if rows == (NEW,) else self._kept(name, name, 1)

    def _counted(self, node: Node, name: str, rows: Rows) -> str:
        """A value that the number of tokens makes alone: of all rows, of which the new ones are cut."""
        if not self.capacity and node.op == "trilu" and rows == (NEW, ALL):
            return self._triangle(node, rows)
        if node.kind(Expand) and NEW in rows and node.inputs[0] in self.program.constants:
            return self._again(node, name, [node.inputs[0], self.shape(name, rows)])
        if node.kind(Elementwise) and NEW in rows:
            return self._passed(node, name, rows)
        if NEW in rows:
            made = self.value(name, (ALL,) * len(rows))
            for axis, which in zip(self.rows.axes(name), rows):
                made = self._cut(made, axis) if which == NEW else made
            return made
        inputs = [self.value(n, (ALL,) * len(self.rows.axes(n))) if n else "" for n in node.inputs]
        if node.traits.measures:
            raise ModelError(f"{node.label} measures '{node.inputs[0]}' in a way that is not known")
        if self.capacity and node.kind(Slice):
            self._demand_rows(node, self.capacity)
        return self._again(node, name, inputs)

    def _demand_rows(self, node: Node, capacity: int) -> None:
        """ModelError where a slice ends behind its axis: what it takes would be fewer rows than there are."""
        ends, axes = (self.program.facts[name].value if name else None for name in node.operands(4)[2:])
        sizes = self.program.type(node.inputs[0]).dims
        for place, end in enumerate(() if ends is None else as_dims(ends)):
            size = sizes[place if axes is None else axes[place]]
            if not isinstance(size, int) or Poly.of(end).symbols() != {self.rows.length}:
                continue
            last = Poly.of(end).evaluate({self.rows.length: capacity})
            if last > size:
                raise ModelError(f"{node.label} ends at {last} for {capacity} tokens, behind its {size} rows")

    def _triangle(self, node: Node, rows: Rows) -> str:
        """Of a triangle of all rows the new ones: its diagonal lies further right."""
        shift = self._numbers(np.array(0), TensorType("i64", ()))
        if node.operand(1):
            shift = self.value(node.inputs[1], ())
        flat = self.build.add("reshape", (shift, self.build.constant("one", np.array([1]))), "k")
        moved = self.build.add("add", (flat, _BEFORE), "k of new rows")
        scalar = self.build.add("reshape", (moved, self.build.constant("none", np.zeros(0, np.int64))), "k")
        return self._again(node, node.output, [self.value(node.inputs[0], rows), scalar])

    def _remembered(self, name: str, rows: Rows) -> str:
        """All rows of a value: what was before comes from a cache, of it or of what it is a view of."""
        if len(rows) != 1:
            raise ModelError(f"{self.program.producers[name].label}: all rows of two axes are needed")
        chain = list(self._views(name))
        best = min(chain, key=lambda each: (self._row_size(each), not self._usual(each), chain.index(each)))
        # Slots lie as whoever asks first reads them; caches that grow, as they usually do.
        self._turned.setdefault(best, self.rows.axes(name) == (3,) and self.capacity is not None)
        if best == name:
            return self._kept(name, self.value(name, (NEW,)), self.rows.axes(name)[0])
        return self._passed(self.program.producers[name], name, rows)

    def _views(self, name: str) -> Iterator[str]:
        """The value, what it is a view of, and so on."""
        while True:
            yield name
            node = self.program.producers.get(name)
            if node is None or not any(map(node.kind, _VIEWS)) or len(self.rows.axes(node.inputs[0])) != 1:
                return
            name = node.inputs[0]

    def _row_size(self, name: str) -> int:
        dims = self.program.type(name).dims
        return int(np.prod([size for size in dims if isinstance(size, int)], dtype=np.int64))

    def _usual(self, name: str) -> bool:
        """Whether it lies as caches usually do: [batch, heads, rows, features]."""
        return self.program.type(name).rank == 4 and self.rows.axes(name) == (2,)

    def _kept(self, name: str, new: str, axis: int) -> str:
        """A cache of a value along an axis, with its new rows behind it."""
        number = len(self.caches)
        past, present = PAST.format(number), PRESENT.format(number)
        if taken := {past, present} & self.program.names:
            raise ModelError(f"the model has a value named '{min(taken)}', which caches need; rename it")
        type_ = self.program.type(name)
        if type_.dims[axis] != Poly.symbol(self.rows.length):
            raise ModelError(f"rows of '{name}' lie together with something else: {type_}")
        wanted = 3 if self._turned.get(name) else 2
        sizes, turned = [*type_.dims], type_.rank == 4 and axis in (2, 3) and axis != wanted
        if turned:
            sizes[2:], axis = reversed(sizes[2:]), wanted
            new = self.build.add("transpose", (new,), f"{name} turned", perm=_TURNED)
        if not self.caches:
            self._first_axis = axis
        sizes[axis] = self.capacity or self._fresh_size("before")
        self.caches[past] = type_.with_shape(sizes)
        op, read = "concat", [past, new]
        if self.capacity:
            sizes[axis] = 1
            shape = self.build.add("concat", [self._size(size, NEW) for size in sizes], "new row", axis=0)
            place = self.build.add("expand", (_BEFORE, shape), "place of the new row")
            op, read = "scatter_elements", [past, place, new]
        self.build.nodes.append(make_node(op, read, (present,), {"axis": axis}))
        self.present.append(present)
        return self.build.add("transpose", (present,), f"{name} of all", perm=_TURNED) if turned else present

    # Nodes for chosen rows

    def _passed(self, node: Node, name: str, rows: Rows) -> str:
        """A node whose output has those rows, with what it reads chosen alike."""
        return self._again(node, name, inputs_for(self, node, name, dict(zip(self.rows.axes(name), rows))))

    def _again(self, node: Node, name: str, inputs: Sequence[str]) -> str:
        """The node on other inputs."""
        named = [self.build.free(output) if output else "" for output in node.outputs]
        self.build.nodes.append(replace(node, inputs=tuple(inputs), outputs=tuple(named)))
        return named[node.outputs.index(name)]

    # Sizes and numbers

    def _sizes(self) -> list[Node]:
        """Nodes that measure how many rows there were before, and are now."""
        if self.capacity:
            self.build.constants |= {_TOTAL: np.array([self.capacity]), _FRESH: np.array([1])}
            return [make_node("identity", (POSITION,), (_BEFORE,))]
        first = next(iter(self.caches))
        axis = self._first_axis
        return [
            make_node("shape", (first,), (_BEFORE,), {"start": axis, "end": axis + 1}),
            make_node("shape", (self.rows.tokens,), (_FRESH,), {"start": 1, "end": 2}),
            make_node("add", (_BEFORE, _FRESH), (_TOTAL,)),
        ]

    def shape(self, name: str, rows: Rows) -> str:
        """The shape of a value with those rows, as a tensor."""
        which = dict(zip(self.rows.axes(name), rows))
        dims = self.program.type(name).dims
        parts = [self._size(size, which.get(axis, ALL)) for axis, size in enumerate(dims)]
        return self.build.add("concat", parts, f"{name} shape", axis=0)

    def _numbers(self, value: Array, type_: TensorType) -> str:
        """Whole numbers made of sizes, of all rows."""
        flat = np.asarray(value).reshape(-1)
        if all(isinstance(each, (int, np.integer, bool, np.bool_)) for each in flat.tolist()):
            return self.build.constant("sizes", np.asarray(value).astype(type_.numpy))
        joined = self.build.add("concat", [self._size(each, ALL) for each in flat], "sizes", axis=0)
        if type_.dtype != "i64":
            joined = self.build.add("cast", (joined,), "sizes", to=ELEMENT_CODES[type_.dtype])
        shape = self.build.constant("shape", np.array(np.shape(value), np.int64))
        return self.build.add("reshape", (joined, shape), "sizes")

    def _size(self, size: Dim, which: str) -> str:
        """A size as a tensor [1]: a number, the batch, or rows."""
        if isinstance(size, (int, np.integer)):
            return self.build.constant("size", np.array([int(size)]))
        (tokens, batch) = (_TOTAL if which == ALL else _FRESH), self.program.inputs[self.rows.tokens].dims[0]
        if size == Poly.symbol(self.rows.length):
            return tokens
        if isinstance(batch, Poly) and size == batch:
            return self.build.add("shape", (self.rows.tokens,), "batch", start=0, end=1)
        if isinstance(batch, Poly) and size == batch * Poly.symbol(self.rows.length):
            return self.build.add("mul", (self._size(batch, which), tokens), "batch of rows")
        offset = size - Poly.symbol(self.rows.length)
        if not offset.symbols():
            return self.build.add("add", (tokens, self._size(int(offset.evaluate({})), which)), "size")
        raise ModelError(f"a size {size} is made of the number of tokens in a way that is not known")

    def _cut(self, name: str, axis: int) -> str:
        """The new rows of a value that has all."""
        if self.capacity:
            return self.build.add("gather", (name, _BEFORE), f"{name} new", axis=axis)
        axes = self.build.constant("axis", np.array([axis]))
        return self.build.add("slice", (name, _BEFORE, _TOTAL, axes), f"{name} new")


_TURNED = (0, 1, 3, 2)
# Ops whose output shows what their first input holds.
_VIEWS = (Renaming, Transpose, Expand)
