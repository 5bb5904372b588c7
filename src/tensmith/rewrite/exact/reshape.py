"""Views of views: whatever only renames positions in row-major order is one reshape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tensmith.formula.arith import Array
from tensmith.formula.poly import Dim, Poly
from tensmith.ir import Node, Program, make_node
from tensmith.ir.op import OPS
from tensmith.ir.ops.reduction import Reduction
from tensmith.ir.ops.shape import Renaming, whole_groups
from tensmith.rewrite.exact.transpose import order, transposes
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import lemma
from tensmith.rewrite.right_sides import shaped
from tensmith.rewrite.rule import Edit, NodeRule, Rule, exact
from tensmith.rewrite.term import Term, Use, Var, ops

RENAMING = frozenset(name for name, op in OPS.items() if isinstance(op, Renaming))
_REDUCTIONS = frozenset(name for name, op in OPS.items() if isinstance(op, Reduction) and op.takes)

X = Var("x")


def literal_shape(source: Sequence[Dim], target: Sequence[Dim]) -> Array | None:
    """A reshape operand in numbers: one unknown size as -1, others 0 where `source` has them in place, as all
    are where they can be: engines know of no -1 beside a size of 0.

    None where that does not say it.
    """
    if any(dim == 0 for dim in target):
        return None
    unknown = [axis for axis, dim in enumerate(target) if not isinstance(dim, int)]
    kept = [axis for axis in unknown if axis < len(source) and source[axis] == target[axis]]
    moved = [axis for axis in unknown if axis not in kept]
    if len(moved) > 1:
        return None
    rest = moved or (unknown if len(unknown) == 1 else [])
    numbers = (-1 if a in rest else 0 if a in kept else dim for a, dim in enumerate(target))
    return np.array(list(numbers), dtype=np.int64)


def literal_expansion(source: Sequence[Dim], target: Sequence[Dim]) -> Array | None:
    """An expand operand in numbers: 1 for each size that `source` has in place, counted from the last.

    None where another one is unknown.
    """
    lead = len(target) - len(source)
    kept = [axis >= lead and source[axis - lead] == dim for axis, dim in enumerate(target)]
    if any(isinstance(dim, Poly) and not keep for dim, keep in zip(target, kept)):
        return None
    return np.array([1 if keep else dim for dim, keep in zip(target, kept)], dtype=np.int64)


@exact("merge_reshapes", order=14)
class MergeReshapes(NodeRule):
    """reshape(reshape(x, s), t) = reshape(x, t); also of flatten, squeeze and unsqueeze."""

    roots = RENAMING

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """One reshape from the inner source to the outer shape."""
        inner = program.producers.get(node.inputs[0])
        if inner is None or not inner.traits.renames:
            return ""
        source, target = program.facts[inner.inputs[0]].type, program.facts[node.output].type
        if source is None or target is None or source.shape is None or target.shape is None:
            return "a shape is not known"
        if source == target:
            return Edit(remove=(node,), alias={node.output: inner.inputs[0]})
        if program.uses(inner.output) > 1:
            return f"'{inner.output}' ({inner.op}) is also used elsewhere"
        literal = literal_shape(source.shape, target.shape)
        if literal is None:
            return f"shape {list(map(str, target.shape))} has too many unknown sizes"
        operand = next(program.fresh(node.output))
        made = make_node("reshape", (inner.inputs[0], operand), node.outputs)
        return Edit(remove=(node, inner), add=(replace(made, name=node.name),), constants={operand: literal})

    def lemmas(self) -> Iterable[Rule]:
        """Axes merged and split, by every pair of ops; the twins have the target's sizes in another order."""
        n, c, h = map(Poly.symbol, "NCH")
        middle, split, unit = _to(X, n, c * h), _to(X, n, 1, c, h), np.array([1])
        # A size of 0 in an operand keeps the source's: literal_shape refuses it.
        given = [Instance("cube", {"x": "N C H"}, lower=dict.fromkeys("NCH", 1))]
        ends: list[tuple[str, Use, list[Dim]]] = [
            ("merge, merge", _to(middle, n * c * h, 1), [n * c * h, 1]),
            ("merge, split", _to(middle, n, h, c), [n, h, c]),
            ("merge, unsqueeze", ops.unsqueeze(middle, np.array([0])), [1, n, c * h]),
            ("flatten, reshape", _to(ops.flatten(X), n, h, c), [n, h, c]),
            ("unsqueeze, flatten", ops.flatten(ops.unsqueeze(X, unit), attrs={"axis": 3}), [n * c, h]),
            (
                "squeeze, unsqueeze",
                ops.unsqueeze(ops.squeeze(split), np.array([3])),
                [n, c, h, 1],
            ),
        ]
        for name, left, sizes in ends:
            yield lemma(name, left, _to(X, *sizes), _to(X, *sizes[::-1]), given=given)


def _to(x: Term, *sizes: Dim) -> Use:
    return shaped(x, sizes)


@exact("split_before_transpose", order=16)
class SplitBeforeTranspose(NodeRule):
    """reshape(transpose(reshape(x, [n*c, h, w]), [0, 2, 1]), [n, c, w, h]) = transpose(x, [0, 1, 3, 2])

    Axes that are split one by one are split before they are transposed, by the reshape that is there.
    """

    roots = RENAMING

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """One reshape of what the first one reads, and one transpose."""
        turned = program.producers.get(node.inputs[0])
        if not transposes(turned):
            return ""
        view = program.producers.get(turned.inputs[0])
        if view is None or not view.traits.renames:
            return ""
        read = (view.inputs[0], turned.inputs[0], turned.output, node.output)
        types = [program.facts[name].type for name in read]
        shapes = [type_.shape for type_ in types if type_ is not None and type_.shape is not None]
        if len(shapes) < len(read):
            return "a shape is not known"
        source, middle, moved, target = shapes
        if not moved or any(program.uses(step.output) > 1 for step in (view, turned)):
            return "a view between is also used elsewhere, or of one number"
        runs = whole_groups(moved, target)[: len(moved)]
        if [axes for axes, _ in runs] != [slice(axis, axis + 1) for axis in range(len(moved))]:
            return "the reshape merges axes"
        ends = [*(axes.start for _, axes in runs), len(target)]
        perm = order(turned.attrs["perm"], len(moved))
        # Of each axis of the first reshape: the axes of the result that it is split into.
        split = {axis: range(*between) for axis, between in zip(perm, pairwise(ends))}
        places = [at for axis in range(len(middle)) for at in split[axis]]
        shape = tuple(target[at] for at in places)
        literal = literal_shape(source, shape)
        if literal is None:
            return f"shape {list(map(str, shape))} has too many unknown sizes"
        names = program.fresh(node.output)
        value, operand = next(names), next(names)
        whole = tuple(places.index(at) for at in range(len(target)))
        first = make_node("reshape", (view.inputs[0], operand), (value,))
        last = replace(make_node("transpose", (value,), node.outputs, {"perm": whole}), name=node.name)
        return Edit(remove=(node, turned, view), add=(first, last), constants={operand: literal})

    def lemmas(self) -> Iterable[Rule]:
        """Merged axes come back, and others come out of one; the twins put them in another order."""
        n, c, h, w = map(Poly.symbol, "NCHW")
        given = [Instance("images", {"x": "N C H W"}, lower=dict.fromkeys("NCHW", 1))]

        def turn(x: Term, *perm: int) -> Use:
            return ops.transpose(x, attrs={"perm": perm})

        back = _to(turn(_to(X, n * c, h, w), 0, 2, 1), n, c, w, h)
        yield lemma("merged", back, turn(X, 0, 1, 3, 2), turn(X, 1, 0, 3, 2), given=given)
        out = _to(turn(_to(X, n * c, h * w), 1, 0), h, w, n * c)
        apart = _to(X, n * c, h, w)
        yield lemma("split", out, turn(apart, 1, 2, 0), turn(apart, 2, 1, 0), given=given)


def _plain(node: Node) -> bool:
    """Whether elements are reduced as they are."""
    reduction = node.kind(Reduction)
    return reduction is not None and bool(reduction.takes)


@exact("reduction_drops_axes", order=15)
class ReductionDropsAxes(NodeRule):
    """reshape(reduce(x, axes)) = reduce(x, axes) without the reduced axes, where that is the shape."""

    roots = RENAMING

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """The reduction drops its axes itself."""
        inner = program.producers.get(node.inputs[0])
        if inner is None or not _plain(inner) or not inner.attrs["keepdims"]:
            return ""
        before, after = program.type(inner.inputs[0]), program.type(node.output)
        middle = program.type(inner.output)
        if before.shape is None or middle.shape is None or after.shape is None:
            return "a shape is not known"
        kept = tuple(b for b, a in zip(before.shape, middle.shape) if a == b and b != 1)
        if kept != after.shape or any(dim == 1 for dim in before.shape):
            return "the reshape does more than drop the reduced axes"
        if program.uses(inner.output) > 1:
            return f"'{inner.output}' ({inner.op}) is also used elsewhere"
        made = replace(inner, outputs=node.outputs, attrs={**inner.attrs, "keepdims": 0})
        return Edit(remove=(node, inner), add=(made,))

    def lemmas(self) -> Iterable[Rule]:
        """Two axes of a batch of images; the twins reduce others."""
        for op in sorted(_REDUCTIONS):
            reduce = getattr(ops, op)
            left = ops.reshape(reduce(X, np.array([2, 3])), np.array([0, 0]))
            right, wrong = (reduce(X, np.array(axes), attrs={"keepdims": 0}) for axes in ([2, 3], [1, 2]))
            yield lemma(op, left, right, wrong, given=[Instance("images", {"x": "N C C C"})])
