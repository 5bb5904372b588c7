"""A step of a plan as a TPC-C kernel: `main` over an index space whose dimension 0 counts vectors.

Elementwise kernels and sums across memory fill a vector of outputs at a time. Sums along memory run down the
lanes and are joined by a reduction, one output at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensmith.ctext.names import Names, enclosed, unmixed
from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import Call, Choose, Expr, Read, Reduce
from tensmith.formula.functions import JOINS
from tensmith.formula.walk import chain, free_variables, is_reduction, loads, outer_reductions, walk
from tensmith.lifting.emit.kernel.plan import LoopNest
from tensmith.lifting.emit.vector.lanes import DIVISION, REGISTERS, Vector, lanes_of
from tensmith.lifting.refusal import Refusal

# What the key of a scalar parameter begins with, among the scalars of a kernel.
PARAMETER = "parameter "
_REDUCE = {"sum": "add", "max": "max", "min": "min", "prod": "mul"}
_START = {"sum": {"f32": "0.0f", "i32": "0"}, "prod": {"f32": "1.0f", "i32": "1"},
          "max": {"f32": "(-1.0f / 0.0f)", "i32": "(-2147483647 - 1)"},
          "min": {"f32": "(1.0f / 0.0f)", "i32": "2147483647"}}  # fmt: skip


@dataclass(frozen=True)
class VectorKernel:
    """The text of a kernel and its parameters in order: tensors (values of the program), then 32-bit scalars.

    scalars: symbols of sizes, and scalar parameters as "parameter NAME". lanes: elements of the output's
    last axis that one point of the index space covers (1 where a point is one element).
    """

    name: str
    text: str
    tensors: tuple[str, ...]
    scalars: tuple[str, ...]
    step: LoopNest
    lanes: int

    @property
    def inputs(self) -> tuple[str, ...]:
        """All tensors but the last, which is written."""
        return self.tensors[:-1]


def stored_for_lanes(step: LoopNest) -> frozenset[str]:
    """Sums that one kernel cannot hold: a second one, or one that several outputs share."""
    folds = outer_reductions(step.expr)
    inner = {
        expr.of
        for fold in folds
        for expr in walk(chain(fold)[1])
        if isinstance(expr, Reduce) and expr.of != fold.of
    }
    partial = [fold for fold in folds if not set(step.variables) <= free_variables(fold)]
    if len(folds) > 1 or partial:
        return frozenset(fold.of for fold in folds if fold.of) | inner
    chosen = any(isinstance(e, Choose) and any(map(is_reduction, walk(e))) for e in walk(step.expr))
    return frozenset(fold.of for fold in folds) | inner if chosen else frozenset(inner)


def make_kernel(name: str, step: LoopNest, scalars: Mapping[str, str]) -> VectorKernel:
    """The kernel of a step; `scalars`: scalar parameter -> element type. Raises Refusal."""
    if step.scan is not None:
        raise Refusal("a running total goes from element to element, which lanes cannot; use another target")
    if len(step.variables) > 5:
        raise Refusal(f"TPC tensors have at most 5 dimensions, but {len(step.variables)} are needed")
    return unmixed(lambda names: _Writer(name, step, scalars, names).kernel(), lambda kernel: kernel.text)


class _Writer:
    """Builds one kernel."""

    def __init__(self, name: str, step: LoopNest, scalars: Mapping[str, str], names: Names) -> None:
        self.name, self.step = name, step
        self.types = scalars
        self.names = names
        folds = outer_reductions(step.expr)
        self.fold = folds[0] if folds else None
        self.folds, self.body = chain(self.fold) if self.fold else ((), step.expr)
        self.down = self.fold is not None and _runs_along(self.body, self.step)
        self.loads = list(loads(step.expr))
        read = dict.fromkeys(load.tensor for load in self.loads)
        self.tensors = {value: self.names.fresh(value) for value in read}
        self.loops = {variable: self.names.fresh("i") for variable in step.variables}
        self.used: dict[str, str] = {}
        variable = self.folds[-1].var if self.down else (step.variables[-1] if step.variables else "")
        scalars_read = [e.tensor for e in walk(step.expr) if isinstance(e, Read) and not e.indices]
        named = {name: self._scalar(name) for name in scalars_read}
        ranges = Ranges({}, dict.fromkeys(self.types, -(2**63)))
        self.vector = Vector(self.tensors, named, self._symbol, self.names, variable, ranges)
        self.lanes = max(map(lanes_of, [step.dtype, *(load.type for load in self.loads)]))

    def _scalar(self, name: str) -> str:
        if self.types.get(name) not in ("f32", "i32", "i16", "u16", "i8", "u8"):
            raise Refusal(f"the scalar {name} is not of 32 bits or fewer, which kernel parameters must be")
        return self._used(PARAMETER + name)

    def _used(self, name: str) -> str:
        if name not in self.used:
            self.used[name] = self.names.fresh(name.removeprefix(PARAMETER))
        return self.used[name]

    def _symbol(self, name: str) -> str:
        return self.loops.get(name) or self._used(name)

    # The kernel

    def kernel(self) -> VectorKernel:
        """Writes everything."""
        vector, step = self.vector, self.step
        rank = len(step.variables)
        vector.line("const int5 start = get_index_space_offset();")
        vector.line("const int5 end = start + get_index_space_size();")
        for dimension in reversed(range(max(rank, 1))):
            axis = rank - 1 - dimension
            name = self.loops[step.variables[axis]] if rank else self.names.fresh("once")
            block = dimension == 0 and not self.down
            counter = self.names.fresh("block") if block else name
            head = f"int {counter} = start[{dimension}]; {counter} < end[{dimension}]; {counter}++"
            vector.line(f"for ({head}) {{")
            vector.indent += 1
            if block and rank:
                vector.line(f"const int {name} = {counter} * {self.lanes};")
        self._element()
        for _ in range(max(rank, 1)):
            vector.indent -= 1
            vector.line("}")
        return self._finished()

    def _element(self) -> None:
        """One vector of outputs, or one output that all lanes worked for."""
        vector, step = self.vector, self.step
        count = self.lanes // 64
        if self.fold is not None and self.down:
            vector.known[id(self.fold), 0] = self._down_the_lanes(count)
            vector.variable = ""  # after a reduction every lane stands for the same output
            self._store_one(vector.value(step.expr, 0))
            return
        if self.fold is not None:
            self._across(count)
        self._store([vector.value(step.expr, part) for part in range(count)])

    def _across(self, count: int) -> None:
        """A vector of sums for each part, term by term."""
        fold, vector = self.fold, self.vector
        assert fold is not None
        totals = [self._start(fold) for _ in range(count)]
        before = dict(vector.known)
        self._open_folds()
        for part, total in enumerate(totals):
            self._join(fold, total, self.body, part)
        self._close_folds()
        vector.known = before
        for part, total in enumerate(totals):
            vector.known[id(fold), part] = total

    def _down_the_lanes(self, count: int) -> str:
        """Lanes sum their share of the last loop; a reduction joins them in lane 0."""
        fold, last, vector = self.fold, self.folds[-1], self.vector
        assert fold is not None
        total = self._start(fold)
        kind = vector.kind(fold.type)
        before = dict(vector.known)
        self._open_folds(len(self.folds) - 1)
        counter = self.names.fresh("k")
        extent = enclosed(vector.poly(last.extent))
        self.loops[last.var] = counter
        vector.line(f"for (int {counter} = 0; {counter} < {extent}; {counter} += {self.lanes}) {{")
        vector.indent += 1
        for part in range(count):
            left = f"{extent} - {counter}" + (f" - {64 * part}" if part else "")
            lane = "convert_uint64_to_int64(read_lane_id_4b_b(), 0)"
            value = vector.value(self.body, part)
            start = _START[fold.kind][kind]
            kept = vector.keep(REGISTERS[kind], f"v_{kind}_sel_less_i32_b({lane}, {left}, {value}, {start})")
            self._take(fold, total, kept)
        vector.indent -= 1
        vector.line("}")
        self._close_folds(len(self.folds) - 1)
        vector.known = before
        if kind == "i32" and fold.kind == "prod":
            raise Refusal("the product of integers down the lanes has no TPC reduction")
        return vector.keep(REGISTERS[kind], f"v_{kind}_reduce_{_REDUCE[fold.kind]}({total})", "total")

    def _open_folds(self, count: int | None = None) -> None:
        for fold in self.folds[:count]:
            name = self.names.fresh("k")
            extent = enclosed(self.vector.poly(fold.extent))
            self.loops[fold.var] = name
            self.vector.line(f"for (int {name} = 0; {name} < {extent}; {name}++) {{")
            self.vector.indent += 1

    def _close_folds(self, count: int | None = None) -> None:
        for _ in self.folds[:count]:
            self.vector.indent -= 1
            self.vector.line("}")

    def _start(self, fold: Reduce) -> str:
        kind = self.vector.kind(fold.type)
        if fold.type not in ("f32", "i32"):
            raise Refusal(f"sums of {fold.type} have no lanes; sum in float or int")
        name = self.names.fresh("total")
        self.vector.line(f"{REGISTERS[kind]} {name} = {_START[fold.kind][kind]};")
        return name

    def _join(self, fold: Reduce, total: str, body: Expr, part: int) -> None:
        """total = total (op) term, multiply-added where the term is a product of floats."""
        vector = self.vector
        match body:
            case Call("mul", args, "f32") if fold.kind == "sum":
                factors = ", ".join(vector.value(arg, part) for arg in args)
                vector.line(f"{total} = v_f32_mac_b({factors}, {total});")
            case _:
                self._take(fold, total, vector.value(body, part))

    def _take(self, fold: Reduce, total: str, value: str) -> None:
        joined = self.vector.operation(JOINS[fold.kind], fold.type, fold.type, [total, value])
        self.vector.line(f"{total} = {joined};")

    # Stores

    def _coordinates(self, ahead: int) -> str:
        names = [self.loops[variable] for variable in reversed(self.step.variables)] or ["0"]
        first = f"{names[0]} + {ahead}" if ahead else names[0]
        listed = ", ".join([first, *names[1:], *["0"] * (5 - len(names))])
        return self.vector.keep("int5", f"{{ {listed} }}", "at")

    def _store(self, values: Sequence[str]) -> None:
        dtype = self.step.dtype
        lanes = lanes_of(dtype)
        for first in range(0, len(values), lanes // 64):
            at = self._coordinates(first * 64)
            group = list(values[first : first + lanes // 64])
            value = group[0]
            if lanes > 64:
                whole = self.vector.keep(f"int{lanes}", "{ " + ", ".join(group) + " }")
                narrowed = f"convert_int{lanes}_to_{REGISTERS[dtype]}({whole}, SW_LINEAR)"
                value = self.vector.keep(REGISTERS[dtype], narrowed)
            self.vector.line(f"v_{dtype}_st_tnsr({at}, out, {value});")

    def _store_one(self, value: str) -> None:
        dtype = self.step.dtype
        if lanes_of(dtype) != 64:
            raise Refusal(f"a sum down the lanes is written as float or int, not as {dtype}")
        self.vector.line(f"v_{dtype}_st_tnsr_partial({self._coordinates(0)}, out, {value}, 0, 0);")

    def _finished(self) -> VectorKernel:
        tensors = [f"tensor {name}" for name in self.tensors.values()]
        scalars = [
            f"{'float' if self.types.get(name.removeprefix(PARAMETER)) == 'f32' else 'int'} {text}"
            for name, text in self.used.items()
        ]
        head = f"void main({', '.join([*tensors, 'tensor out', *scalars])})\n{{\n"
        body = "\n".join(self.vector.lines)
        division = f"{DIVISION}\n" if self.vector.divides else ""
        covered = "one element" if self.down else f"{self.lanes} elements"
        comment = (
            f"/* {self.name} writes {self.step.buffer}: {covered} for each point of the index space. */\n"
        )
        text = f"{comment}{division}{head}{body}\n}}\n"
        return VectorKernel(
            self.name,
            text,
            (*self.tensors, ""),
            tuple(self.used),
            self.step,
            1 if self.down else self.lanes,
        )


def _runs_along(body: Expr, step: LoopNest) -> bool:
    """Whether the last loop of a sum runs along the dimension 0 of what it reads, and the outputs do not."""
    output = step.variables[-1] if step.variables else ""
    if not output:
        return True
    across = [load for load in loads(body) if any(output in place.symbols() for place in load.indices)]
    return any(output not in load.indices[-1].symbols() for load in across)
