"""Loop nests that compilers vectorize at -O3 without reordering floats themselves.

Three forms. Elementwise nests are plain loops, last axis innermost. A sum that runs along memory keeps as
many partial sums as a vector has lanes. A sum that runs across memory (a matrix product, a convolution)
keeps a block of sums along the axis that does run along memory: for each k, for each of 64 neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tensmith.ctext.dialect import Dialect
from tensmith.ctext.names import enclosed, literal
from tensmith.ctext.scalar import CBlock, CUnit, lazy, uses
from tensmith.formula.expr import PICKED, Call, Choose, Expr, Let, Read, Reduce
from tensmith.formula.functions import JOINS
from tensmith.formula.poly import Poly
from tensmith.formula.types import MachineType
from tensmith.formula.walk import (
    chain,
    free_variables,
    is_reduction,
    loads,
    outer_reductions,
    parts,
    walk,
)

BLOCK = 64
# Functions that cost more than to store what they return.
EXPENSIVE = frozenset({"exp", "log", "sin", "cos", "tan", "tanh", "erf", "pow"})
_INDEX_NAMES = ("i", "j", "k", "l")
# Sums with fewer terms than this are left alone.
_SHORT = 16


def nest_lines(outer: CBlock, step: Nest) -> None:
    """Adds a nest to a scope."""
    outer.unit.extents |= dict(zip(step.variables, step.extents))
    if step.scan is not None:
        _scan(outer, step)
        return
    axis = _block_axis(step)
    if axis is None:
        _plain(outer, step, range(len(step.variables)), [], lambda scope: _element(scope, step))
    else:
        _blocked(outer, step, axis)


@dataclass(frozen=True)
class Scan:
    """A running sum or product along one axis of a nest."""

    kind: str
    axis: int
    exclusive: bool
    reverse: bool


@dataclass(frozen=True)
class Nest:
    """buffer[index] = expr for every index variable below its extent, the first one outermost.

    With a Scan, what is stored is the running total of expr.
    """

    buffer: str
    dtype: str
    variables: tuple[str, ...]
    extents: tuple[Poly, ...]
    index: Poly
    expr: Expr
    scan: Scan | None = None

    @property
    def target(self) -> str:
        """The key of what is written among the buffers."""
        return self.buffer


# Loops


@contextmanager
def _loop(scope: CBlock, variable: str, extent: Poly, backwards: bool = False) -> Iterator[CBlock]:
    """An inner scope for a loop over a variable."""
    depth = sum(1 for _ in _loop_names(scope))
    base = _INDEX_NAMES[depth] if depth < len(_INDEX_NAMES) else "i"
    name = scope.unit.names.fresh(base)
    end = enclosed(scope.poly(extent))
    steps = f"{end} - 1; {name} >= 0; {name}--" if backwards else f"0; {name} < {end}; {name}++"
    with scope.under(f"for ({scope.index} {name} = {steps})") as inner:
        inner.variables[variable] = name
        yield inner


def _loop_names(scope: CBlock | None) -> Iterator[str]:
    while scope is not None:
        yield from scope.variables.values()
        scope = scope.outer


def _plain(
    scope: CBlock, step: Nest, axes: Sequence[int], within: list[str], add: Callable[[CBlock], None]
) -> None:
    """The remaining axes as loops, then what `add` adds, itself in loops over the variables `within`; what an
    axis does not change is computed before it."""
    if not axes:
        add(scope)
        return
    hoist(scope, step.expr, [step.variables[axis] for axis in axes] + within)
    with _loop(scope, step.variables[axes[0]], step.extents[axes[0]]) as inner:
        _plain(inner, step, axes[1:], within, add)


def _element(scope: CBlock, step: Nest) -> None:
    scope.line(f"{_target(scope, step)} = {scope.value(step.expr)};")


def _target(scope: CBlock, step: Nest) -> str:
    """The place that a step writes."""
    return scope.unit.element(step.target, scope.poly(step.index))


def hoist(scope: CBlock, root: Expr, inside: Sequence[str]) -> None:
    """Computes, before a loop, what does not vary with the variables of it and of the loops inside it."""
    scope_used = uses(root)
    seen: set[int] = set()

    def visit(expr: Expr, blocked: frozenset[str]) -> None:
        if id(expr) in seen or scope.find(expr) is not None:
            return
        seen.add(id(expr))
        if not blocked & free_variables(expr) and _worth(expr) and not lazy(expr):
            scope.used = scope_used
            scope.keep(expr, scope._value(expr), "t")
            return
        if isinstance(expr, Let):
            visit(expr.value, blocked)
            return
        if _chooses(expr):
            return
        inner = blocked | {expr.var} if isinstance(expr, Reduce) else blocked
        for part in parts(expr):
            visit(part, inner)

    visit(root, frozenset(inside))


def _worth(expr: Expr) -> bool:
    """Whether a compiler may not move it out of a loop itself, or it takes a loop of its own."""
    return isinstance(expr, Reduce) or (
        isinstance(expr, Call)
        and (expr.function in EXPENSIVE or (expr.function in ("sqrt", "div") and expr.type[0] == "f"))
    )


def _chooses(expr: Expr) -> bool:
    """Whether only one side of it may be evaluated."""
    return isinstance(expr, Choose) or (isinstance(expr, Call) and expr.function == "where" and lazy(expr))


# Sums


def beginning(kind: str, dtype: str, dialect: Dialect) -> str:
    """The value of a fold over nothing."""
    if kind in ("sum", "prod"):
        return literal(0 if kind == "sum" else 1, dtype, dialect)
    low = kind == "max"
    if dtype[0] == "f":
        return "-INFINITY" if low else "INFINITY"
    least, greatest = MachineType(dtype).limits or (0, 1)
    return literal(least if low else greatest, dtype, dialect)


def join(unit: CUnit, kind: str, dtype: str, total: str, term: str) -> str:
    """The statement that takes one more term into a total."""
    if kind in ("max", "min"):
        if dtype[0] == "f" and not unit.checked:
            return f"{total} = {unit.helper(JOINS[kind], dtype)}({total}, {term});"
        unit.uses_math = unit.uses_math or dtype[0] == "f"
        sign = ">" if kind == "max" else "<"
        return f"{total} = {enclosed(term)} {sign} {total} ? {enclosed(term)} : {total};"
    if dtype[0] == "f" or dtype in ("u32", "u64"):
        return f"{total} {'+' if kind == 'sum' else '*'}= {term};"
    return f"{total} = {unit.helper(JOINS[kind], dtype)}({total}, {term});"


def _start(scope: CBlock, fold: Reduce) -> str:
    return beginning(fold.kind, fold.type, scope.unit.dialect)


def _join(scope: CBlock, fold: Reduce, total: str, term: str) -> str:
    return join(scope.unit, fold.kind, fold.type, total, term)


def _term(scope: CBlock, fold: Reduce, body: Expr) -> str:
    """One term; a term read twice has a name."""
    text = scope.value(body)
    return scope.keep(body, text) if fold.kind in ("max", "min") and "[" in text else text


def fold_loop(scope: CBlock, fold: Reduce) -> str:
    """A fold as a loop of its own; the name of its total."""
    scope.unit.extents[fold.var] = fold.extent
    total = scope.unit.names.fresh("total")
    ctype = scope.unit.type(fold.type)
    hoist(scope, fold.body, [fold.var])
    if _runs_along_memory(scope, fold):
        _lanes(scope, fold, total)
    else:
        scope.line(f"{ctype} {total} = {_start(scope, fold)};")
        with _loop(scope, fold.var, fold.extent) as inner:
            inner.line(_join(inner, fold, total, _term(inner, fold, fold.body)))
    scope.hold(fold, total)
    return total


def _runs_along_memory(scope: CBlock, fold: Reduce) -> bool:
    """Whether neighbouring terms are neighbours in memory, so that lanes may each sum their share."""
    constant = fold.extent.constant
    short = constant is not None and constant < _SHORT
    left = [e for e in walk(fold.body, lambda e: scope.find(e) is not None) if scope.find(e) is None]
    nested = any(isinstance(expr, Reduce | Choose) for expr in left)
    strides = [_stride(load, fold.var) for load in left if isinstance(load, Read) and load.indices]
    regular = all(stride in (0, 1) for stride in strides) and 1 in strides
    return fold.type[0] == "f" and not short and not nested and regular and not lazy(fold.body)


def _lanes(scope: CBlock, fold: Reduce, total: str) -> None:
    """Sixteen (or eight) partial folds side by side, joined at the end."""
    count = 16 if fold.type == "f32" else 8
    names, ctype = scope.unit.names, scope.unit.type(fold.type)
    lanes, lane, k = names.fresh("lanes"), names.fresh("lane"), names.fresh("k")
    extent = enclosed(scope.poly(fold.extent))
    scope.line(f"{ctype} {lanes}[{count}];")
    every = f"for (int {lane} = 0; {lane} < {count}; {lane}++)"
    scope.line(f"{every} {lanes}[{lane}] = {_start(scope, fold)};")
    scope.line(f"{scope.index} {k} = 0;")
    whole = f"for (; {k} + {count} <= {extent}; {k} += {count})"
    with scope.under(whole) as outer, outer.under(every) as inner:
        inner.variables[fold.var] = f"({k} + {lane})"
        inner.line(_join(inner, fold, f"{lanes}[{lane}]", _term(inner, fold, fold.body)))
    scope.line(f"{ctype} {total} = {_start(scope, fold)};")
    with scope.under(every) as last:
        last.line(_join(last, fold, total, f"{lanes}[{lane}]"))
    with scope.under(f"for (; {k} < {extent}; {k}++)") as rest:
        rest.variables[fold.var] = k
        rest.line(_join(rest, fold, total, _term(rest, fold, fold.body)))


# Blocks of sums


class Blocked:
    """The innermost part of a nest whose folds are kept for BLOCK neighbours along the axis of a variable."""

    def __init__(self, variable: str, folds: Sequence[Reduce], start: str, width: str) -> None:
        self.variable, self.folds, self.start, self.width = variable, folds, start, width

    def emit(self, scope: CBlock, step: Nest) -> None:
        """The folds of a block, then its elements."""
        sums = {}
        for fold in self.folds:
            sums[id(fold)] = scope.unit.names.fresh("block")
            self._sum(scope, fold, sums[id(fold)])
        with self._lane_loop(scope) as (inner, lane):
            for fold in self.folds:
                inner.hold(fold, f"{sums[id(fold)]}[{lane}]")
            _element(inner, step)

    @contextmanager
    def _lane_loop(self, scope: CBlock) -> Iterator[tuple[CBlock, str]]:
        lane = scope.unit.names.fresh("lane")
        with scope.under(f"for ({scope.index} {lane} = 0; {lane} < {self.width}; {lane}++)") as inner:
            inner.variables[self.variable] = f"({self.start} + {lane})"
            yield inner, lane

    def _sum(self, scope: CBlock, fold: Reduce, name: str) -> None:
        folds, body = chain(fold)
        scope.unit.extents |= {each.var: each.extent for each in folds}
        lane = scope.unit.names.fresh("lane")
        scope.line(f"{scope.unit.type(fold.type)} {name}[{BLOCK}];")
        start = _start(scope, fold)
        scope.line(f"for ({scope.index} {lane} = 0; {lane} < {BLOCK}; {lane}++) {name}[{lane}] = {start};")
        with ExitStack() as loops:
            for position, each in enumerate(folds):
                hoist(scope, body, [self.variable, *(inner.var for inner in folds[position:])])
                scope = loops.enter_context(_loop(scope, each.var, each.extent))
            hoist(scope, body, [self.variable])
            with self._lane_loop(scope) as (inner, lane):
                inner.line(_join(inner, fold, f"{name}[{lane}]", _term(inner, fold, body)))


def _blocked(scope: CBlock, step: Nest, axis: int) -> None:
    """A nest in blocks along one axis: the blocks outermost where nothing else is kept per row."""
    variable = step.variables[axis]
    folds = _full_folds(step, variable)
    others = [place for place in range(len(step.variables)) if place != axis]
    alone = len(folds) == len(outer_reductions(step.expr))
    names = scope.unit.names
    start, width = names.fresh("start"), names.fresh("width")
    blocked = Blocked(variable, folds, start, width)
    extent = enclosed(scope.poly(step.extents[axis]))
    head = f"for ({scope.index} {start} = 0; {start} < {extent}; {start} += {BLOCK})"
    measure = f"const {scope.index} {width} = {extent} - {start} < {BLOCK} ? {extent} - {start} : {BLOCK};"

    def blocks(around: CBlock, add: Callable[[CBlock], None]) -> None:
        with around.under(head) as inner:
            inner.line(measure)
            add(inner)

    def block(inner: CBlock) -> None:
        blocked.emit(inner, step)

    if alone:
        blocks(scope, lambda inner: _plain(inner, step, others, [variable], block))
    else:
        _plain(scope, step, others, [variable], lambda inner: blocks(inner, block))


def _full_folds(step: Nest, variable: str) -> list[Reduce]:
    """Outer folds that vary with a loop variable."""
    return [fold for fold in outer_reductions(step.expr) if variable in free_variables(fold)]


def _block_axis(step: Nest) -> int | None:
    """The axis to keep blocks of sums along: where its neighbours are nearer in memory than the terms are."""
    if not step.variables or any(map(_chooses, walk(step.expr, is_reduction))):
        return None
    last = len(step.variables) - 1
    full = _full_folds(step, step.variables[last])
    if not full:
        return None
    folds, body = chain(full[0])
    if any(map(is_reduction, walk(body))):
        return None
    only = len(outer_reductions(step.expr)) == 1
    choices = [axis for axis in range(len(step.variables)) if axis == last or only]
    varying = [axis for axis in reversed(choices) if step.variables[axis] in free_variables(full[0])]
    costs = {axis: _cost(body, step.variables[axis]) for axis in varying}
    best = min(costs, key=lambda axis: costs[axis])
    return best if costs[best] < _cost(body, folds[-1].var) else None


def _stride(load: Read, variable: str) -> int | None:
    """How far apart neighbours along a variable lie in memory; None where that is far or not constant."""
    (index,) = load.indices
    symbols = index.symbols()
    if any(symbol.startswith(PICKED) for symbol in symbols):
        return None
    if variable not in symbols:
        return 0
    factor = index.coefficient(variable)
    return None if factor is None else factor.constant


def _cost(body: Expr, variable: str) -> int:
    """Loads a step along a variable needs: none where it stays, one line for many where it is the next."""
    strides = [_stride(load, variable) for load in loads(body)]
    return sum(0 if stride == 0 else 1 if stride in (1, -1) else 8 for stride in strides)


# Running totals


def _scan(scope: CBlock, step: Nest) -> None:
    """A running total along one axis, for every position along the others."""
    assert step.scan is not None
    scan, axis = step.scan, step.scan.axis
    others = [place for place in range(len(step.variables)) if place != axis]
    fold = Reduce(scan.kind, "", step.extents[axis], step.expr, MachineType(step.dtype))
    with ExitStack() as loops:
        for place in others:
            scope = loops.enter_context(_loop(scope, step.variables[place], step.extents[place]))
        total = scope.unit.names.fresh("total")
        scope.line(f"{scope.unit.type(step.dtype)} {total} = {_start(scope, fold)};")
        inner = loops.enter_context(_loop(scope, step.variables[axis], step.extents[axis], scan.reverse))
        term = inner.value(step.expr)
        store = f"{_target(inner, step)} = {total};"
        lines = [_join(inner, fold, total, term), store]
        for line in reversed(lines) if scan.exclusive else lines:
            inner.line(line)
