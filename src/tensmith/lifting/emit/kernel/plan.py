"""Which values of a program are stored: the others are inlined into the loops of their readers.

A sum or an extreme is stored where inlining would compute it again and again: when it is read at several
positions, or inside a loop it does not depend on. So is a value of an expensive function that is read at
several positions. Everything else costs less to compute than to store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tensmith.ctext.loops import EXPENSIVE, Nest, Scan
from tensmith.formula.expr import Call, Choose, Expr, Reduce
from tensmith.formula.poly import Poly
from tensmith.formula.walk import chain, free_variables, is_reduction, parts, walk
from tensmith.ir.op import Node
from tensmith.ir.ops.cumulative import Cumulative
from tensmith.ir.ops.shared import normal_axis
from tensmith.ir.ops.sizes import flat_position
from tensmith.lifting.emit.kernel.elements import KernelElements, place
from tensmith.lifting.lifted import Lifted, Output

# Expressions of one loop nest above this size would not compile in reasonable time.
_LARGEST = 20_000


@dataclass(frozen=True)
class LoopNest(Nest):
    """A loop nest; `output` is the output of the program it writes, None for a stored value."""

    output: Output | None = None

    @property
    def target(self) -> str:
        """The key of what is written among the buffers."""
        return self.buffer if self.output is None else output_key(self.buffer)


def output_key(buffer: str) -> str:
    """The key of an output among the buffers, where the parameter's own name is what is read."""
    return f"out {buffer}"


@dataclass(frozen=True)
class LoopPlan:
    """The loop nests of a function in order; `stored` are the values with buffers of their own."""

    steps: tuple[LoopNest, ...]
    stored: tuple[str, ...]


# What a target stores beyond what would be computed again and again.
Rule = Callable[[LoopNest], frozenset[str]]


def make_plan(lifted: Lifted, rule: Rule = lambda step: frozenset(), flat: bool = True) -> LoopPlan:
    """The plan of a lifted function; `flat` as in KernelElements. Refusal where an op has no loop form."""
    program = lifted.program
    stored = frozenset(node.output for node in program.nodes if _cumulative(node))
    while True:
        steps = tuple(_steps(KernelElements(lifted, stored, flat)))
        wanted = _to_store(steps).union(*map(rule, steps)) - stored
        if not wanted:
            ordered = [name for node in program.nodes for name in node.outputs if name in stored]
            return LoopPlan(steps, tuple(ordered))
        stored |= wanted


def _steps(elements: KernelElements) -> Iterator[LoopNest]:
    lifted = elements.lifted
    returned = {output.name: name for name, output in lifted.returned.items()}
    for node in elements.program.nodes:
        if node.output in elements.stored:
            yield _stored(elements, node)
    for output in lifted.outputs:
        extents = output.view.shape if output.view is not None else elements.shape(output.name)
        indices = _variables(elements, extents)
        if output.view is None:
            index = Poly.of(flat_position(indices, extents))
        else:
            index = place(output.view, indices)
        expr = elements.at(output.name, indices)
        buffer = output.view.array if output.view is not None else returned[output.name]
        _check_size(elements, expr)
        names, kept = _looped(indices, extents)
        yield LoopNest(
            buffer, elements.program.type(output.name).dtype, names, kept, index, expr, output=output
        )


def _variables(elements: KernelElements, extents: tuple[Poly, ...]) -> tuple[Poly, ...]:
    """A loop variable for each extent, 0 where there is only one position."""
    return tuple(Poly.of(0) if extent == 1 else elements.variable("i", extent) for extent in extents)


def _looped(indices: tuple[Poly, ...], extents: tuple[Poly, ...]) -> tuple[tuple[str, ...], tuple[Poly, ...]]:
    """Names and extents of the axes that take a loop."""
    kept = [(str(i), extent) for i, extent in zip(indices, extents) if i != 0]
    return tuple(name for name, _ in kept), tuple(extent for _, extent in kept)


def _cumulative(node: Node) -> Cumulative | None:
    """The op of a node that joins the elements along an axis one by one."""
    found = node.definition if node.opaque is None else None
    return found if isinstance(found, Cumulative) else None


def _stored(elements: KernelElements, node: Node) -> LoopNest:
    extents = elements.shape(node.output)
    scans = _cumulative(node)
    indices = (
        tuple(elements.variable("i", extent) for extent in extents)
        if scans
        else _variables(elements, extents)
    )
    dtype, scan = elements.program.type(node.output).dtype, None
    if scans:
        axis = elements.program.facts[node.inputs[1]].value
        if axis is None:
            raise elements.refused("a running total runs along an axis known only at run time")
        place = normal_axis(int(axis.reshape(-1)[0]), len(extents))
        attrs = node.attrs
        scan = Scan(scans.kind, place, bool(attrs["exclusive"]), bool(attrs["reverse"]))
        expr = elements.at(node.inputs[0], indices)
    else:
        expr = elements.define(node.output, indices)
    _check_size(elements, expr)
    index = Poly.of(flat_position(indices, extents))
    names, kept = (tuple(map(str, indices)), extents) if scans else _looped(indices, extents)
    return LoopNest(node.output, dtype, names, kept, index, expr, scan)


def _check_size(elements: KernelElements, expr: Expr) -> None:
    if sum(1 for _ in walk(expr)) > _LARGEST:
        raise elements.refused("the function is one expression of too many terms; split it into loops")


# What must be stored


def _to_store(steps: tuple[LoopNest, ...]) -> frozenset[str]:
    """Values that would be computed again and again."""
    found: set[str] = set()
    instances: dict[str, set[int]] = {}
    for step in steps:
        for expr in walk(step.expr):
            costly = is_reduction(expr) or (isinstance(expr, Call) and expr.function in EXPENSIVE)
            if costly and isinstance(expr, Reduce | Call) and expr.of:
                instances.setdefault(expr.of, set()).add(id(expr))
        found |= _recomputed(step)
    inner = {id(fold) for step in steps for fold in _inside_chains(step.expr)}
    for value, ids in instances.items():
        if len(ids - inner) > 1:
            found.add(value)
    return frozenset(found)


def _inside_chains(root: Expr) -> Iterator[Reduce]:
    """Folds that are the body of a fold of the same value: one reduction over several axes."""
    for expr in walk(root):
        if isinstance(expr, Reduce) and isinstance(expr.body, Reduce) and expr.body.of == expr.of:
            yield expr.body


def _recomputed(step: LoopNest) -> set[str]:
    """Values of folds that stand in a loop they do not depend on and cannot be moved out of."""
    found: set[str] = set()
    seen: set[tuple[int, tuple[str, ...], bool]] = set()

    def visit(expr: Expr, loops: tuple[str, ...], lazy: bool, within: str) -> None:
        key = (id(expr), loops, lazy)
        if key in seen:
            return
        seen.add(key)
        if isinstance(expr, Reduce):
            depends = [loop in free_variables(expr) for loop in loops]
            prefix = all(depends[: sum(depends)])
            if expr.of != within and (not prefix or (lazy and not all(depends))):
                found.add(expr.of)
            folds, body = chain(expr)
            visit(body, (*loops, *(fold.var for fold in folds)), False, expr.of)
            return
        inner_lazy = lazy or isinstance(expr, Choose)
        for part in parts(expr):
            visit(part, loops, inner_lazy, within)

    visit(step.expr, step.variables, False, "")
    return found
