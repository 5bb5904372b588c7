"""Codes as kernels want them: unsigned, moved and joined as bytes, dequantized as late as can be.

Lowerings between quantize-dequantize pairs. Measure: signed codes, then numbers that are moved, then pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from tensmith.formula.arith import Array
from tensmith.formula.expr import Scalar, call, tensor
from tensmith.formula.poly import Poly
from tensmith.ir import Node, Program, make_node
from tensmith.ir.edits import Edit
from tensmith.ir.op import OPS
from tensmith.ir.ops.quantization import OnGrid, decodes, rises
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import lemma
from tensmith.rewrite.rule import NodeRule, Rule, exact
from tensmith.rewrite.term import AnyElementwise, Term, Use, Var, ops

X, Y, CODES = Var("x"), Var("y"), Var("codes")
S, Z = Var("s", static=True), Var("z", static=True)
T, ZERO = Var("t", static=True), Var("o", static=True)
_ENCODERS = frozenset(name for name, op in OPS.items() if isinstance(op, OnGrid) and op.encodes)
_U8, _I16 = onnx.TensorProto.UINT8, onnx.TensorProto.INT16
_LEAST = dict.fromkeys("NCHW", 1)

Grid = tuple[float, int, str]


def _grid(program: Program, node: Node) -> Grid | None:
    """(scale, zero point, its element type) where these are one rising grid of bytes for all elements."""
    scale, zero = (program.constants.get(name) for name in node.operands(3)[1:])
    if scale is None or scale.size != 1 or zero is None or zero.size != 1 or zero.dtype.itemsize != 1:
        return None
    step = float(scale.reshape(()))
    return (step, int(zero.reshape(())), zero.dtype.name) if rises(step) else None


def _one_grid(program: Program, nodes: Iterable[Node]) -> bool:
    grids = {_grid(program, node) for node in nodes}
    return len(grids) == 1 and None not in grids


def _unread(program: Program, nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Those whose values have one reader, and so none without it."""
    return tuple(node for node in dict.fromkeys(nodes) if program.uses(node.output) == 1)


# What scales and zero points are in proofs


def _positive(*_: Any) -> Scalar:
    """Any positive number."""
    return call("exp", tensor("logarithm")[()])


def _byte(name: str, low: int, high: int) -> Callable[..., Scalar]:
    """Any whole number of a byte's range."""

    def element(*at: Any) -> Scalar:
        whole = call("trunc", tensor(name, *[1] * len(at))[at])
        return call("minimum", call("maximum", whole, low), high)

    return element


_BYTES = {"u8": (0, 255), "i8": (-128, 127)}


@exact("codes_made_unsigned", order=30, phase="lower")
class CodesMadeUnsigned(NodeRule):
    """Signed codes that end in dequantizations are unsigned: 128 is added, to zero points too.

    Before that, others may move them, pad them or take the largest of a window.
    """

    roots = _ENCODERS

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """Everybody's zero point raised, and what is padded."""
        if program.type(node.output).dtype != "i8":
            return ""
        readers = _readers(program, node.output)
        if not readers:
            return "somebody else reads the codes" if readers is None else ""
        codes = {end: _signed_number(program, end) for end in (node, *readers)}
        if any(number is None for number in codes.values()):
            return "a zero point or padding is no constant of signed bytes"
        names = program.fresh(f"{node.output}.zero")
        raised = {
            next(names): (n.astype(np.int16) + 128).astype(np.uint8) for n in codes.values() if n is not None
        }
        made = [
            replace(end, inputs=(*end.operands(2), name, *end.inputs[3:])) for end, name in zip(codes, raised)
        ]
        first = replace(made[0], attrs={**node.attrs, "output_dtype": _U8})
        return Edit(remove=tuple(codes), add=(first, *made[1:]), constants=raised)

    def lemmas(self) -> Iterable[Rule]:
        """One grid for all, and one a channel; the twin adds 127 to the reader's zero point."""
        left = ops.dequantize_linear(ops.quantize_linear(X, S, Z), T, ZERO)
        for shape in ("", "C"):
            given = Instance(
                "of all" if not shape else "a channel",
                {"x": "N C H", **dict.fromkeys("szto", shape)},
                elements={"z": _byte("z", *_BYTES["i8"]), "o": _byte("o", *_BYTES["i8"]), "s": _positive},
                dtypes={"z": "i8", "o": "i8"},
                lower=_LEAST,
            )
            right, wrong = (
                ops.dequantize_linear(
                    ops.quantize_linear(X, S, _raised(Z, 128), attrs={"output_dtype": _U8}),
                    T,
                    _raised(ZERO, by),
                )
                for by in (128, 127)
            )
            yield lemma("unsigned", left, right, wrong, given=[given])
        yield from _moving_lemmas()
        for attrs in _WINDOWS:
            right, wrong = (ops.max_pool(X, attrs=attrs) + by for by in (128, 127))
            yield lemma("largest", ops.max_pool(X + 128, attrs=attrs), right, wrong, given=_IMAGES)
        right, wrong = (ops.pad(X, _WIDTHS, Z) + by for by in (128, 127))
        yield lemma("padded", ops.pad(X + 128, _WIDTHS, Z + 128), right, wrong, given=list(_padded()))


def _readers(program: Program, value: str) -> list[Node] | None:
    """The dequantizations in which codes end, moved or not, and the paddings by a number on the way.

    None where others read them, too.
    """
    found: dict[Node, None] = {}
    moved = [value]
    while moved:
        name = moved.pop()
        if name in program.outputs:
            return None
        for node in program.consumers.get(name, ()):
            if node.inputs.count(name) > 1 or node.inputs[0] != name:
                return None
            if decodes(node) or _pads_a_number(node):
                found[node] = None
            elif node.op not in (*_MOVES, "max_pool") or (len(node.outputs) > 1 and not node.traits.moves):
                return None
            moved += [] if decodes(node) else filter(None, node.outputs)
    return list(found)


def _pads_a_number(node: Node) -> bool:
    return node.op == "pad" and node.attrs["mode"] == "constant"


def _signed_number(program: Program, node: Node) -> Array | None:
    """A zero point or what is padded, zeros where it is left out; None where it is no known signed byte."""
    _, parameter, number = node.operands(3)
    if number:
        value = program.constants.get(number)
        return value if value is not None and value.dtype == np.int8 else None
    shape = () if _pads_a_number(node) else program.type(parameter).static
    return None if shape is None else np.zeros(shape, np.int8)


def _raised(zero: Term, by: int) -> Use:
    wide = ops.add(ops.cast(zero, attrs={"to": _I16}), np.array(by, np.int16))
    return ops.cast(wide, attrs={"to": _U8})


@exact("parts_quantized", order=31, phase="lower")
class PartsQuantized(NodeRule):
    """quantize(concat(x, y)) = concat(quantize(x), quantize(y)), so that parts are written as bytes."""

    roots = _ENCODERS

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """A concatenation that nobody else reads, on one grid."""
        whole = program.producers.get(node.inputs[0])
        if whole is None or not whole.traits.joins or program.uses(whole.output) > 1:
            return ""
        if _grid(program, node) is None:
            return "the grid is not one of bytes for all"
        parts = [(name, part) for name, part in zip(whole.inputs, program.fresh(node.output))]
        made = [replace(node, inputs=(name, *node.inputs[1:]), outputs=(part,)) for name, part in parts]
        joined = replace(whole, inputs=tuple(part for _, part in parts), outputs=node.outputs)
        return Edit(remove=(node, whole), add=(*made, joined))

    def lemmas(self) -> Iterable[Rule]:
        """Any function, of two parts."""
        yield _JOINED


@exact("codes_again", order=32, phase="lower")
class CodesAgain(NodeRule):
    """quantize(dequantize(x)) = x, on one grid."""

    roots = _ENCODERS

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """The codes that were there."""
        before = program.producers.get(node.inputs[0])
        if before is None or not decodes(before) or before.inputs[0] in program.static_values:
            return ""
        if node.output in program.outputs or not _one_grid(program, (before, node)):
            return "the grids differ, or the codes are asked for"
        codes = before.inputs[0]
        return Edit(remove=(node, *_unread(program, (before,))), alias={node.output: codes})

    def lemmas(self) -> Iterable[Rule]:
        """Signed and unsigned bytes; the twin takes codes no lower than the zero point."""
        for dtype, bounds in _BYTES.items():
            given = Instance(
                dtype,
                {"codes": "N C", "s": "", "z": ""},
                elements={"codes": _byte("codes", *bounds), "z": _byte("z", *bounds), "s": _positive},
                dtypes={"codes": dtype, "z": dtype},
                lower=_LEAST,
            )
            left = ops.quantize_linear(ops.dequantize_linear(CODES, S, Z), S, Z)
            yield lemma("again", left, CODES, ops.max(CODES, Z), given=[given])


@exact("dequantized_behind", order=33, phase="lower")
class DequantizedBehind(NodeRule):
    """f(dequantize(x)) = dequantize(f(x)), where f only moves, joins or selects by order, on one grid."""

    @property
    def roots(self) -> frozenset[str]:  # type: ignore[override]
        """Ops with a lemma."""
        return frozenset({*_MOVES, "concat", "max_pool"})

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """The same of codes, then one dequantization."""
        sources = [program.producers.get(name) for name in node.picked]
        known = [source for source in sources if source is not None and decodes(source)]
        if len(node.outputs) > 1 or not known or len(known) < len(sources):
            return ""
        if any(source.inputs[0] in program.static_values for source in known):
            return "codes are constants"
        if not _one_grid(program, known):
            return "codes lie on several grids"
        codes = next(program.fresh(node.output))
        inputs = (*(source.inputs[0] for source in known), *node.inputs[len(known) :])
        moved = replace(node, inputs=inputs, outputs=(codes,))
        last = make_node(known[0].op, (codes, *known[0].inputs[1:]), node.outputs, known[0].attrs)
        return Edit(remove=(node, *_unread(program, known)), add=(moved, last))

    def lemmas(self) -> Iterable[Rule]:
        """What moves elements does so to any function of them; a maximum, to rising ones."""
        yield from _moving_lemmas()
        yield _JOINED
        for attrs in _WINDOWS:
            yield _pooled(attrs)


def _function(*args: Term) -> AnyElementwise:
    return AnyElementwise("f", args)


_CUBE = [Instance("cube", {"": "N C H"}, lower=_LEAST)]
_MOVES: Mapping[str, Callable[[Term], Use]] = {
    "expand": lambda x: ops.expand(x, np.array([2, 1, 1, 1])),
    "flatten": lambda x: ops.flatten(x, attrs={"axis": 2}),
    "identity": ops.identity,
    "reshape": lambda x: ops.reshape(x, np.array([0, -1])),
    "slice": lambda x: ops.slice(x, np.array([0]), np.array([1]), np.array([1])),
    "split": ops.split,
    "squeeze": lambda x: ops.squeeze(ops.unsqueeze(x, np.array([1])), np.array([1])),
    "tile": lambda x: ops.tile(x, np.array([1, 2, 3])),
    "transpose": lambda x: ops.transpose(x, attrs={"perm": (1, 2, 0)}),
    "unsqueeze": lambda x: ops.unsqueeze(x, np.array([0, 2])),
}


def _moving_lemmas() -> Iterable[Rule]:
    """What moves elements does so to any function of them."""
    for name, moved in _MOVES.items():
        left, right = moved(_function(X)), _function(moved(X))
        yield lemma(name, left, right, moved(X), given=_CUBE)


_JOINED = lemma(
    "concat",
    _function(ops.concat(X, Y, attrs={"axis": 1})),
    ops.concat(_function(X), _function(Y), attrs={"axis": 1}),
    ops.concat(_function(X), Y, attrs={"axis": 1}),
    given=[Instance("two parts", {"x": "N C H", "y": "N B H"}, lower=_LEAST)],
)
_WIDTHS = Var("widths")


def _padded() -> Iterator[Instance]:
    """Images with any widths around them."""
    sides = [Poly.symbol(f"{side}{axis}") for side in "be" for axis in range(2)]
    yield Instance(
        "images",
        {"x": "N C H W", "z": ""},
        values={"widths": np.array([0, 0, *sides[:2], 0, 0, *sides[2:]], dtype=object)},
        lower={**_LEAST, **{str(side): 0 for side in sides}},
    )


_IMAGES = [Instance("images", {"x": "N C H+5 W+5"}, lower=_LEAST)]
_WINDOWS: Sequence[Mapping[str, Any]] = (
    {"kernel_shape": (2, 2)},
    {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)},
    {"kernel_shape": (2, 3), "strides": (2, 1), "dilations": (2, 1), "pads": (1, 0, 0, 1)},
)


def _pooled(attrs: Mapping[str, Any]) -> Rule:
    """max_pool(dequantize(x)) = dequantize(max_pool(x)); the twin has no zero point."""

    def pool(x: Term) -> Use:
        return ops.max_pool(x, attrs=attrs)

    given = Instance(
        str(attrs["kernel_shape"]),
        {"codes": "N C H+5 W+5", "s": "", "z": ""},
        elements={"s": _positive},
        dtypes={"codes": "u8", "z": "u8"},
        lower=_LEAST,
    )
    right, wrong = ops.dequantize_linear(pool(CODES), S, Z), ops.dequantize_linear(pool(CODES), S)
    return lemma("max_pool", pool(ops.dequantize_linear(CODES, S, Z)), right, wrong, given=[given])
