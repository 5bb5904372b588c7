"""How rows pass through ops: which rows of its inputs an op reads for chosen rows of its output."""

from __future__ import annotations

from typing import Protocol

from tensmith.errors import ModelError, ProgramError
from tensmith.formula.expr import Formula, Read, tensor
from tensmith.formula.poly import Poly
from tensmith.formula.walk import polys, walk
from tensmith.ir import Node, Program
from tensmith.ir.op import Symbolic
from tensmith.ir.ops.shape import Expand, Renaming, Reshape
from tensmith.rewrite.tokens.rows import TokenRows

# Of each axis of rows: the new ones, or all up to now.
NEW, ALL = "new", "all"
Rows = tuple[str, ...]


class RowValues(Protocol):
    """Who makes values of chosen rows."""

    rows: TokenRows

    def value(self, name: str, rows: Rows) -> str:
        """A value with those rows."""

    def shape(self, name: str, rows: Rows) -> str:
        """The shape of a value with those rows, as a tensor."""


def inputs_for(c: RowValues, node: Node, name: str, rows: dict[int, str]) -> list[str]:
    """The inputs of a node whose output `name` has such rows, by their axes.

    A view's rows stay in their order. Of other ops the formula tells: what it reads at the subscript of an
    axis has the rows of that axis, and where subscripts are of no axis of new rows, all rows are read.
    ModelError where new rows have a part in anything else, as in what is chosen by position.
    """
    if node.kind(Renaming):
        return _renamed(c, node, rows)
    wanted = _wanted(c.rows.program, node, name, rows)
    inputs = [
        c.value(given, tuple(wanted[place][axis] for axis in c.rows.axes(given)))
        if place in wanted and given not in c.rows.program.constants
        else _plain(c, node, given)
        for place, given in enumerate(node.inputs)
    ]
    if node.kind(Expand) and node.inputs[1] not in c.rows.program.constants:
        inputs[1] = c.shape(name, _listed(rows))
    return inputs


def _wanted(program: Program, node: Node, name: str, rows: dict[int, str]) -> dict[int, dict[int, str]]:
    """What a node reads of its inputs, by their places: of each axis new elements, or all."""
    formula = _formula(program, node, name)
    sizes = program.type(name).dims
    new = {Poly.symbol(formula.indices[axis]): sizes[axis] for axis, which in rows.items() if which == NEW}
    symbols = {symbol for index in new for symbol in index.symbols()}
    wanted: dict[int, dict[int, str]] = {}
    for part in walk(formula.body):
        place = int(part.tensor) if isinstance(part, Read) else None
        dims = () if place is None else program.type(node.inputs[place]).dims
        of = {} if place is None else wanted.setdefault(place, {})
        for axis, at in enumerate(polys(part)):
            which = ALL if symbols.isdisjoint(at.symbols()) else NEW
            if which == NEW and (place is None or new.get(at) != dims[axis]):
                raise ModelError(f"{node.label}: it does not treat all rows of tokens alike")
            if of.setdefault(axis, which) != which:
                raise ModelError(f"{node.label}: new rows alone are asked of an axis along which it looks")
    return wanted


def _formula(program: Program, node: Node, name: str) -> Formula:
    """The formula of an output, of inputs that are called by their places."""
    unknown = f"{node.label}: it is not known how the rows of tokens pass through it"
    if node.opaque is not None:
        raise ModelError(unknown)
    try:
        types = [program.type(given) if given else None for given in node.inputs]
        use = Symbolic(
            node.attrs,
            tuple(None if t is None else tensor(f"{place}", *t.dims) for place, t in enumerate(types)),
            tuple(program.facts[given].value if given else None for given in node.inputs),
            len(node.outputs),
            tuple(None if t is None else t.dtype for t in types),
        )
        return node.definition.formula(use)[node.outputs.index(name)]
    except (ProgramError, IndexError) as error:
        raise ModelError(unknown) from error


def _renamed(c: RowValues, node: Node, rows: dict[int, str]) -> list[str]:
    """A view under another shape, whose axes of rows come in the output's order."""
    first, *others = node.inputs
    if len(c.rows.axes(first)) != len(rows):
        raise ModelError(f"{node.label}: its rows are not those of its input")
    made = c.value(first, _listed(rows))
    if node.kind(Reshape) and others[0] not in c.rows.program.constants:
        others = [c.shape(node.output, _listed(rows))]
    return [made, *others]


def _plain(c: RowValues, node: Node, name: str) -> str:
    """An input without rows."""
    if not name or name in c.rows.program.constants:
        return name
    if c.rows.axes(name) or name in c.rows.told:
        raise ModelError(f"{node.label}: it is not known how the rows of '{name}' pass through it")
    return c.value(name, ())


def _listed(rows: dict[int, str]) -> Rows:
    """Which rows, axis by axis."""
    return tuple(which for _, which in sorted(rows.items()))
