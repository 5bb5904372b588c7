"""Patches: what one part of an image's positions is computed from, so that a chain need never be whole.

    y = concat(y[:a], y[a:]),    conv(x, w)[a:b] = conv(x[a - halo : b + halo], w)

along rows or columns. Applied to the last value of a chain of convolutions, pools and elementwise ops, and
then to every slice in turn, they compute the chain patch by patch (Lin et al. 2021, MCUNetV2): of what lies
between, only a patch is alive at a time, and what patches share, they compute again. Whoever plans memory
says where that pays: the rules are in the phase "patch", which no search tries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.poly import Poly
from tensmith.ir import Node, Program
from tensmith.ir.builder import ProgramBuilder
from tensmith.ir.edits import Edit
from tensmith.ir.handlers import Handlers
from tensmith.ir.op import OPS
from tensmith.ir.ops.convolution import window_attrs
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.ir.ops.quantization import OnGrid
from tensmith.ir.ops.shared import normal_axis
from tensmith.ir.ops.sizes import as_ints
from tensmith.rewrite.exact.products import B, W, X
from tensmith.rewrite.given import Instance, conv_instances
from tensmith.rewrite.law import lemma
from tensmith.rewrite.rule import NodeRule, Rule, exact
from tensmith.rewrite.term import AnyElementwise, Term, Use, Var, ops
from tensmith.rewrite.told import ToldRule

# Axis -> (first, stop) of the positions that are wanted; an axis that is not there is wanted whole.
Span: TypeAlias = Mapping[int, tuple[int, int]]

# The most patches along an axis. Slices of slices take the square of the number of patches: at 64 x 64 of a
# trail that a stranger wrote, seconds for two layers, at thousands no end.
MOST_PIECES = 16


class Part(NamedTuple):
    """A node that computes some of its positions: what of each input it reads, and its attributes."""

    reads: tuple[Span, ...]
    attrs: Mapping[str, Any]


# (program, node, positions of its output) -> the part that computes these, or why there is none.
parts = Handlers[Callable[[Program, Node, Span], "Part | str"]]()


@parts("conv")
def _convolution(program: Program, node: Node, span: Span) -> Part | str:
    kernel = program.type(node.inputs[1]).static
    return _window(program, node, span, kernel[2:]) if kernel else "the filters have no fixed size"


@parts("max_pool", "average_pool")
def _pool(program: Program, node: Node, span: Span) -> Part | str:
    if len(node.outputs) > 1 or node.attrs["ceil_mode"]:
        return "the pool says where its maxima are, or has windows that reach over the border"
    return _window(program, node, span, node.attrs["kernel_shape"])


def _window(program: Program, node: Node, span: Span, kernel: Sequence[int]) -> Part | str:
    """What the windows of some positions read of the image, and the padding that is left to them."""
    image = program.type(node.inputs[0]).static
    if image is None:
        return "the image has no fixed size"
    spatial = image[2:]
    strides, dilations, padding = map(as_ints, window_attrs(node.attrs, spatial, tuple(kernel)))
    reads: dict[int, tuple[int, int]] = {}
    n, pads = len(kernel), list(padding)
    for axis, (first, stop) in span.items():
        at, size = axis - 2, spatial[axis - 2]
        begin = first * strides[at] - pads[at]
        end = (stop - 1) * strides[at] + dilations[at] * (kernel[at] - 1) + 1 - pads[at]
        low, high = max(begin, 0), min(end, size)
        if low >= high:
            return "a patch would lie in the padding alone"
        reads[axis], pads[at], pads[at + n] = (low, high), low - begin, end - high
    rest: tuple[Span, ...] = ({},) * (len(node.inputs) - 1)
    return Part((reads, *rest), {**node.attrs, "pads": tuple(pads), "auto_pad": "NOTSET"})


@parts(Elementwise)
def _elementwise(program: Program, node: Node, span: Span) -> Part | str:
    rank = len(program.type(node.output).dims)
    return Part(tuple(_operand(program, name, span, rank) for name in node.inputs), node.attrs)


def _operand(program: Program, name: str, span: Span, rank: int) -> Span:
    """What of an operand is read, which may be one number for all positions of an axis."""
    shape = program.type(name).dims if name else ()
    shift = rank - len(shape)
    return {axis - shift: s for axis, s in span.items() if axis >= shift and shape[axis - shift] != 1}


@parts(OnGrid, "batch_normalization")
def _by_channel(program: Program, node: Node, span: Span) -> Part | str:
    if len(node.outputs) > 1 or node.attrs.get("training_mode"):
        return "the statistics are of all positions"
    sizes = [np.prod(program.type(name).static or (0,)) for name in node.inputs[1:] if name]
    along = normal_axis(node.attrs.get("axis", 1), len(program.type(node.output).dims))
    if node.attrs.get("block_size") or (along in span and any(size != 1 for size in sizes)):
        return "the grid changes along the axis"
    return Part((span, *({},) * (len(node.inputs) - 1)), node.attrs)


def span_of(program: Program, node: Node) -> Span | None:
    """The positions that a slice takes of images of fixed sizes; None where it does anything else."""
    shape = program.type(node.inputs[0]).static
    if shape is None or not node.fixed_by(program.constants):
        return None
    bounds = [program.constants.get(name) for name in node.operands(5)[1:]]
    starts, ends, axes, steps = (None if b is None else [int(v) for v in b.reshape(-1)] for b in bounds)
    assert starts is not None and ends is not None
    if steps is not None and any(step != 1 for step in steps):
        return None
    named = [normal_axis(axis, len(shape)) for axis in (range(len(starts)) if axes is None else axes)]
    found = {axis: slice(*cut).indices(shape[axis])[:2] for axis, cut in zip(named, zip(starts, ends))}
    if not found or min(found) < 2 or any(first >= stop for first, stop in found.values()):
        return None
    return {axis: cut for axis, cut in found.items() if cut != (0, shape[axis])}


def _sliced(added: ProgramBuilder, names: Iterator[str], name: str, span: Span, output: str) -> str:
    """These positions of a value."""
    columns = ([cut[0] for cut in span.values()], [cut[1] for cut in span.values()], list(span))
    given = [added.constant(next(names), np.array(column, np.int64)) for column in columns]
    return added.add("slice", (name, *given), output)


@exact("slice_earlier", phase="patch")
class SliceEarlier(NodeRule):
    """f(x)[a:b] = f(x[a - halo : b + halo]) along rows and columns: convolutions, pools, elementwise ops.

    What windows read beyond the image is their padding still.
    """

    roots = frozenset({"slice"})

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """The slice before what made the value; what nobody else reads of that goes."""
        source = program.producers.get(node.inputs[0])
        span = span_of(program, node)
        part_of = parts.find(source) if source is not None else None
        if source is None or part_of is None or span is None or source.output in program.static_values:
            return ""
        if not span:
            return "it takes everything"
        found = part_of(program, source, span)
        if isinstance(found, str):
            return found
        added, names, inputs = ProgramBuilder(program), program.fresh(source.inputs[0]), []
        for name, read in zip(source.inputs, found.reads):
            shape = program.type(name).dims if name else ()
            cut = {axis: where for axis, where in read.items() if where != (0, shape[axis])}
            inputs.append(_sliced(added, names, name, cut, next(names)) if cut else name)
        made = replace(source, inputs=tuple(inputs), outputs=node.outputs, attrs=found.attrs)
        unread = (source,) if program.uses(source.output) == 1 else ()
        return Edit(remove=(node, *unread), add=(*added.nodes, made), constants=added.constants)

    def lemmas(self) -> Iterable[Rule]:
        """Convolutions of any window, by way of their padding; pools of some; functions of elements."""
        yield from _convolutions()
        yield from _paddings()
        for op, attrs in _POOLS:
            yield from _pools(op, attrs)
        yield from _elements()


@exact("in_patches", phase="patch")
class InPatches(ToldRule):
    """y = concat(y[:a], y[a:]), of rows first and of columns in each: `rows` x `columns` patches, from the
    step.

    Sequences, which have one spatial axis, are cut along that into `rows`.
    """

    def __init__(self, rows: int = 2, columns: int = 1) -> None:
        self.rows, self.columns = rows, columns

    def _having(self, params: Mapping[str, Any]) -> Rule:
        counts = {"rows": self.rows, "columns": self.columns} | dict(params)
        if counts.keys() != {"rows", "columns"} or not all(
            type(n) is int and 1 <= n <= MOST_PIECES for n in counts.values()
        ):
            raise ProgramError(
                f"rule '{self.name}' takes rows and columns, whole numbers from 1 to {MOST_PIECES}"
            )
        return InPatches(**counts)

    roots = frozenset(OPS)

    def _looks_at(self, node: Node) -> bool:
        return parts.has(node)

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """The value made under another name, its parts, and their concatenation."""
        shape = program.type(node.output).static
        if shape is None or node.output in program.static_values or len(shape) not in (3, 4):
            return ""
        pieces = (self.rows, self.columns)[: len(shape) - 2]
        if self.rows * self.columns < 2 or any(n > size for n, size in zip(pieces, shape[2:])):
            return ""
        added, names = ProgramBuilder(program, node.outputs), program.fresh(node.output)
        whole = next(names)

        def make(axis: int, span: Span, output: str) -> str:
            """The patches inside a span, joined along this axis and those behind it."""
            if axis == len(shape):
                return _sliced(added, names, whole, span, output)
            if pieces[axis - 2] == 1:
                return make(axis + 1, span, output)
            patches = {next(names): cut for cut in shares(shape[axis], pieces[axis - 2])}
            for patch, cut in patches.items():
                make(axis + 1, {**span, axis: cut}, patch)
            return added.add("concat", tuple(patches), output, axis=axis)

        make(2, {}, node.output)
        again = replace(node, outputs=(whole,))
        return Edit(remove=(node,), add=(again, *added.nodes), constants=added.constants)

    def lemmas(self) -> Iterable[Rule]:
        """Two parts, of images and of sequences: more are parts of parts. The twin begins a row too late."""
        for axis in (2, 3):
            sizes = ["A+B+1" if a == axis else "H" for a in range(2, axis + 1)]
            given = Instance(f"axis {axis}", {"x": f"N C {' '.join(sizes)}"}, lower=_LEAST)
            (right, wrong) = (
                ops.concat(_cut(X, axis, 0, _A), _cut(X, axis, start, start + _B + 1), attrs={"axis": axis})
                for start in (_A, _A - 1)
            )
            yield lemma("two", X, right, wrong, given=[given])


def shares(size: int, count: int) -> list[tuple[int, int]]:
    """(first, stop) of at most `count` parts of one size, but the last."""
    each = -(-size // count)
    return [(first, min(first + each, size)) for first in range(0, size, each)]


# What is proved

Y = Var("y")
_A, _B, _E = map(Poly.symbol, "ABE")
_LEAST = {"A": 1, "B": 1, "N": 1, "C": 1, "H": 1, "W": 1}


def _cut(x: Term, axis: int, start: Poly | int, end: Poly | int) -> Use:
    bounds = (np.array([Poly.of(bound)], dtype=object) for bound in (start, end))
    return ops.slice(x, *bounds, np.array([axis]))


def _padded(x: Term, axis: int, rank: int, begin: Poly | int, end: Poly | int) -> Use:
    widths = np.array([Poly.of(0)] * (2 * rank), dtype=object)
    widths[axis], widths[rank + axis] = Poly.of(begin), Poly.of(end)
    return ops.pad(x, widths)


def _convolutions() -> Iterable[Rule]:
    """conv(x)[a : a+b] = conv(pad(x)[a s : (a + b - 1) s + (r - 1) d + 1]), any filters, pads and groups.

    The twin has its halo one row too low.
    """
    for instance in conv_instances((1, 2)):
        for axis in range(2, 2 + instance.dims):
            for stride, dilation in ((1, 1), (2, 1), (1, 2), (3, 2)):
                yield _convolution_of(instance, axis, stride, dilation)


def _convolution_of(instance: Instance, axis: int, stride: int, dilation: int) -> Rule:
    n, at = instance.dims, axis - 2
    attrs = dict(instance.attrs["conv"])
    known = {"strides": stride, "dilations": dilation}
    attrs |= {name: _with(attrs[name], at, value) for name, value in known.items()}
    begin, end = attrs["pads"][at], attrs["pads"][at + n]
    bare = {**attrs, "pads": _with(_with(attrs["pads"], at, 0), at + n, 0)}
    size = f"{stride}*A+{stride}*B+{dilation}*R{at}+E"
    spatial = [size if a == at else f"H{a}" for a in range(n)]
    given = Instance(
        f"{n}d, axis {axis}, stride {stride}, dilation {dilation}",
        {"x": f"N G*C {' '.join(spatial)}", "w": "G*K C *R", "b": "G*K"}, n,
        lower={**instance.lower, "A": 0, "B": 1, **{f"R{a}": 1 for a in range(n)}},
    )  # fmt: skip
    reach = (_B - 1) * stride + (Poly.symbol(f"R{at}") - 1) * dilation + 1

    def part(late: int) -> Use:
        image = _padded(X, axis, 2 + n, begin, end)
        start = _A * stride + late
        return ops.conv(_cut(image, axis, start, start + reach), W, B, attrs=bare)

    return lemma(
        "conv", _cut(ops.conv(X, W, B, attrs=attrs), axis, _A, _A + _B), part(0), part(1), given=[given]
    )


def _with(values: Sequence[Any], at: int, value: Any) -> tuple[Any, ...]:
    return (*values[:at], value, *values[at + 1 :])


def _paddings() -> Iterable[Rule]:
    """pad(x)[a:b] = pad(x[low:high]) where less is padded, if anything; the twin begins a row off.

    At either end a patch takes all but some of the padding, or leaves out some of the image.
    """
    p, q, zero = Poly.symbol("P"), Poly.symbol("Q"), Poly.of(0)
    for top, bottom in ((True, False), (False, False), (False, True), (True, True)):
        begin, left = (_A + p, p) if top else (p, zero)
        end, right = (q + _E, q) if bottom else (q, zero)
        size = "+".join(["B", *([] if top else ["A"]), *([] if bottom else ["E"])])
        start, low = _A if top else p + _A, zero if top else _A
        off = 0 if top and bottom else -1 if bottom else 1
        inner, moved = (_cut(X, 2, low + by, low + by + _B) for by in (0, off))
        left_side = _cut(_padded(X, 2, 4, begin, end), 2, start, start + left + _B + right)
        shifted = int(top and bottom)
        given = Instance(f"top {top}, bottom {bottom}", {"x": f"N C {size} W"},
                         lower={**_LEAST, "E": 1, "P": 1, "Q": 1})  # fmt: skip
        yield lemma(
            "pad", left_side, _padded(inner, 2, 4, left, right),
            _padded(moved, 2, 4, left + shifted, right - shifted), given=[given],
        )  # fmt: skip


_POOLS: Sequence[tuple[str, Mapping[str, Any]]] = (
    ("max_pool", {}),
    ("average_pool", {"count_include_pad": 0}),
    ("average_pool", {"count_include_pad": 1}),
)


def _pools(op: str, attrs: Mapping[str, Any]) -> Iterable[Rule]:
    """Windows of 3, padded by 1: B + 1 positions at the top, inside, and at the bottom of an image.

    The twin has its halo one row too high, or too low.
    """

    def pool(x: Term, top: int, bottom: int) -> Use:
        window = {"kernel_shape": (3, 2), "strides": (stride, 1), "pads": (top, 0, bottom, 0)}
        use: Use = getattr(ops, op)(x, attrs={**attrs, **window})
        return use

    for stride in (1, 2):
        first, low, last = stride * _A - 1, f"{stride}*A+", stride * (_A + _B) + 2
        places = {
            "top": (Poly.of(0), Poly.of(0), stride * _B + 2, f"{stride}*B+3+{stride}*E", 1, 0, 1),
            "inside": (_A, first, last, f"{low}{stride}*B+3+E", 0, 0, 1),
            "bottom": (_A, first, last - 1, f"{low}{stride}*B+1", 0, 1, -1),
        }
        for name, (at, begin, end, size, top, bottom, off) in places.items():
            left = _cut(pool(X, 1, 1), 2, at, at + _B + 1)
            right, wrong = (pool(_cut(X, 2, begin + by, end + by), top, bottom) for by in (0, off))
            given = Instance(f"{name}, stride {stride}, {attrs}", {"x": f"N C {size} W+2"},
                             lower={**_LEAST, "A": 2})  # fmt: skip
            yield lemma(op, left, right, wrong, given=[given])


def _elements() -> Iterable[Rule]:
    """Any function of elements in one place, and of numbers of channels; the twins begin a row too early."""
    shape = "N C A+B+E W"
    for name, words in {"alike": shape, "of channels": "1 C 1 1"}.items():
        parts = [_cut(X, 2, start, start + _B) for start in (_A, _A - 1)]
        other = _cut(Y, 2, _A, _A + _B) if words == shape else Y
        left, right, wrong = (
            AnyElementwise("f", args) for args in ((X, Y), (parts[0], other), (parts[1], other))
        )
        given = Instance(name, {"x": shape, "y": words}, lower=_LEAST)
        yield lemma("elements", _cut(left, 2, _A, _A + _B), right, wrong, given=[given])
