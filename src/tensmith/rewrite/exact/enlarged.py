"""Pointwise convolutions of enlarged images: computed before these are (feature pyramids, U-Nets)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from tensmith.formula.arith import Array
from tensmith.formula.poly import Poly
from tensmith.ir import Node, Program, make_node
from tensmith.ir.handlers import Handlers
from tensmith.ir.ops.resize import repeats_elements
from tensmith.ir.ops.shared import normal_axis
from tensmith.rewrite.exact.products import B, W, X
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import lemma
from tensmith.rewrite.rule import Edit, NodeRule, Rule, exact
from tensmith.rewrite.term import Term, Use, Var, ops

Y = Var("y")

# Of ops that enlarge images: why one does not by repeating elements, or not for so many filters; None if so.
_enlarged = Handlers[Callable[[Program, Node, object], "str | None"]]()


@exact("enlarged_behind_conv", order=33)
class EnlargedBehindConv(NodeRule):
    """conv(concat(y, enlarge(x)), w, b) = conv(y, w', b) + enlarge(conv(x, w'')), w of size 1.

    enlarge repeats elements; x may also stand alone. Not where there are more filters than channels of x.
    """

    roots = frozenset({"conv"})

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """Of the first part that is enlarged."""
        source = program.producers.get(node.inputs[0])
        if source is None or not (_enlarged.find(source) or source.traits.joins):
            return ""
        if not _pointwise(program, node) or program.uses(source.output) > 1:
            return "the convolution is not of size 1, or its image is also used elsewhere"
        if source.output in program.outputs:
            return "the image is an output of the program"
        filters = program.type(node.inputs[1]).dims[0]
        if not source.traits.joins:
            reason = _refused(program, source, filters)
            return _alone(program, node, source) if reason is None else reason
        if normal_axis(source.attrs["axis"], len(program.type(source.output).dims)) != 1:
            return ""
        if not all(isinstance(program.type(name).dims[1], int) for name in source.inputs):
            return "how many channels the parts have is not known"
        found = [program.producers.get(name) for name in source.inputs]
        for position, part in enumerate(found):
            if part is not None and len(found) > 1 and _refused(program, part, filters) is None:
                return _apart(program, node, source, position, part)
        return ""

    def lemmas(self) -> Iterable[Rule]:
        """Beside others and alone; the twins count the bias twice, or not at all."""
        c, d = map(Poly.symbol, "CD")
        given = Instance(
            "images",
            {"x": "N C H W", "y": "N D 2*H 2*W", "w": "K C+D 1 1", "b": "K"},
            lower=dict.fromkeys("NCDHWK", 1),
        )
        yield lemma(
            "beside others",
            ops.conv(ops.concat(Y, _twice(X), attrs={"axis": 1}), W, B),
            ops.add(ops.conv(Y, _columns(0, d), B), _twice(ops.conv(X, _columns(d, c + d)))),
            ops.add(ops.conv(Y, _columns(0, d), B), _twice(ops.conv(X, _columns(d, c + d), B))),
            given=[given],
        )
        yield lemma(
            "alone",
            ops.conv(_twice(X), W, B),
            _twice(ops.conv(X, W, B)),
            _twice(ops.conv(X, W)),
            given=[replace(given, shapes={"x": "N C H W", "w": "K C 1 1", "b": "K"})],
        )


def _pointwise(program: Program, node: Node) -> bool:
    """Whether a convolution multiplies every position by itself with constant weights."""
    attrs, shape = node.attrs, program.type(node.inputs[1]).static
    still = (attrs["strides"] or ()), (attrs["pads"] or ())
    plain = attrs["group"] == 1 and attrs["auto_pad"] in ("NOTSET", "VALID")
    moves = any(s != 1 for s in still[0]) or any(still[1])
    constant = node.fixed_by(program.static_values)
    return shape is not None and math.prod(shape[2:]) == 1 and plain and not moves and constant


def _refused(program: Program, part: Node, filters: object) -> str | None:
    """Why a part is not enlarged, or not worth it; None if it is."""
    reason = _enlarged.find(part)
    return reason(program, part, filters) if reason else "nothing is enlarged"


@_enlarged("resize")
def _kept(program: Program, part: Node, filters: object) -> str | None:
    """None if a resize repeats elements, is nobody else's, and has as many channels as there are filters."""
    before, after = program.type(part.inputs[0]).static, program.type(part.output).static
    if before is None or after is None or not isinstance(filters, int):
        return "the sizes are not known"
    if program.uses(part.output) > 1 or part.output in program.outputs:
        return f"'{part.output}' is also used elsewhere"
    if not part.fixed_by(program.constants) or before[:2] != after[:2]:
        return "the image is not enlarged by constant factors"
    if not repeats_elements(part, before, after, program.constants):
        return "the image is not enlarged by repeating its elements"
    grows = math.prod(after) > math.prod(before)
    return None if grows and filters <= before[1] else "there are more filters than channels"


def _alone(program: Program, node: Node, part: Node) -> Edit:
    """enlarge(conv(x, w, b))."""
    names = program.fresh(node.output)
    small, scales = next(names), next(names)
    made = replace(node, inputs=(part.inputs[0], *node.inputs[1:]), outputs=(small,))
    last, factors = _enlarging(program, part, small, node.output, scales)
    return Edit(remove=(node, part), add=(made, last), constants={scales: factors})


def _apart(program: Program, node: Node, whole: Node, position: int, part: Node) -> Edit:
    """conv(y, w', b) + enlarge(conv(x, w'')), y what else was joined."""
    names = program.fresh(node.output)
    sizes = [int(program.type(name).dims[1]) for name in whole.inputs]  # type: ignore[arg-type]
    begin, end, total = sum(sizes[:position]), sum(sizes[: position + 1]), sum(sizes)
    constants: dict[str, Array] = {}
    weights = list(_weights(node.inputs[1], ((begin, end),), names, constants))
    others = list(_weights(node.inputs[1], ((0, begin), (end, total)), names, constants))
    rest = [name for index, name in enumerate(whole.inputs) if index != position]
    small, large, beside, scales = (next(names) for _ in range(4))
    made = [*weights, *others, replace(node, inputs=(part.inputs[0], weights[-1].output), outputs=(small,))]
    last, constants[scales] = _enlarging(program, part, small, large, scales)
    made.append(last)
    image = rest[0]
    if len(rest) > 1:
        image = next(names)
        made.append(replace(whole, inputs=tuple(rest), outputs=(image,)))
    bias = node.operand(2)
    made.append(replace(node, name="", inputs=(image, others[-1].output, *([bias] if bias else [])),
                        outputs=(beside,)))  # fmt: skip
    made.append(make_node("add", (beside, large), node.outputs))
    return Edit(remove=(node, whole, part), add=tuple(made), constants=constants)


def _weights(
    weights: str, spans: Iterable[tuple[int, int]], names: Iterator[str], constants: dict[str, Array]
) -> Iterator[Node]:
    """What makes the columns of weights in these spans, the last node all of them."""
    made = []
    for begin, end in spans:
        if begin < end:
            cut = {next(names): np.array([value]) for value in (begin, end, 1)}
            constants |= cut
            made.append(make_node("slice", (weights, *cut), (next(names),)))
    yield from made
    if len(made) > 1:
        yield make_node("concat", [node.output for node in made], (next(names),), {"axis": 1})


def _enlarging(program: Program, part: Node, source: str, output: str, scales: str) -> tuple[Node, Array]:
    """The resize of another image by the same factors, and these."""
    before, after = program.type(part.inputs[0]).static, program.type(part.output).static
    assert before is not None and after is not None
    factors = np.array([wanted / size for size, wanted in zip(before, after)], np.float32)
    made = make_node("resize", (source, "", scales), (output,), {**part.attrs, "axes": None})
    return replace(made, name=part.name), factors


def _twice(x: Term) -> Use:
    style = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return ops.resize(x, None, np.array([1, 1, 2, 2], np.float32), attrs=style)


def _columns(start: object, end: object) -> Use:
    bounds = (np.array([value], dtype=object) for value in (start, end))
    return ops.slice(W, *bounds, np.array([1]))
