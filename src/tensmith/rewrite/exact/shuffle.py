"""Channel shuffles (Zhang et al. 2018; Ma et al. 2018): one part of one is a strided slice of channels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from tensmith.formula.poly import Dim, Poly
from tensmith.ir import Node, Program, make_node
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import lemma
from tensmith.rewrite.right_sides import shaped
from tensmith.rewrite.rule import Edit, NodeRule, Rule, exact
from tensmith.rewrite.term import Use, Var, ops

X = Var("x")
_END = 2**63 - 1
# Channels become pairs (of a part, part), parts come first, and channels are channels again.
_TURNED = (1, 0, 2)


@exact("part_of_shuffle", order=15)
class PartOfShuffle(NodeRule):
    """A part of channels that were shuffled is every other channel, or every third, from one on.

    reshape(transpose(reshape(x, [n*k, g, h*w]), [1, 0, 2]), [g, n, k, h, w])[i] = x[:, i::g]
    """

    roots = frozenset({"gather"})

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """The slice, beside the views, which other parts may read."""
        chain = _chain(program, node)
        if len(chain) < 4:
            return ""
        _, parts, turned, pairs = chain
        index = program.constants.get(node.inputs[1])
        if index is None or index.shape or node.attrs["axis"] or turned.attrs.get("perm") != _TURNED:
            return "it is not one part of two or more that were brought to the front"
        shapes = [program.type(name).shape for name in (pairs.inputs[0], pairs.output, parts.output)]
        count = None if None in shapes else _parts(*(shape for shape in shapes if shape is not None))
        if count is None or not -count <= int(index) < count:
            return "the views are not those of a shuffle of channels"
        names = program.fresh(node.output)
        cut = {next(names): np.array([value]) for value in (int(index) % count, _END, 1, count)}
        made = make_node("slice", (pairs.inputs[0], *cut), node.outputs)
        return Edit(remove=(node,), add=(replace(made, name=node.name),), constants=cut)

    def lemmas(self) -> Iterable[Rule]:
        """Every part of two and of three; the twins take neighbours."""
        n, k, h, w = map(Poly.symbol, "NKHW")
        for count, index in ((2, 0), (2, 1), (3, 1)):
            pairs = ops.transpose(shaped(X, [n * k, count, h * w]), attrs={"perm": _TURNED})
            left = ops.gather(shaped(pairs, [count, n, k, h, w]), np.array(index), attrs={"axis": 0})
            right, wrong = _cut(index, _END, count), _cut(index, index + k, 1)
            given = Instance("images", {"x": f"N {count}*K H W"}, lower=dict.fromkeys("NKHW", 1))
            yield lemma(f"part {index} of {count}", left, right, wrong, given=[given])


def _chain(program: Program, node: Node) -> list[Node]:
    """The nodes up from a gather, as far as they are a renaming, a transpose and a renaming."""
    chain = [node]
    for renames in (True, False, True):
        current = program.producers.get(chain[-1].inputs[0])
        if current is None or current.traits.renames != renames or not current.traits.moves:
            break
        chain.append(current)
    return chain


def _parts(images: Sequence[Dim], pairs: Sequence[Dim], parts: Sequence[Dim]) -> int | None:
    """How many parts channels are shuffled into; None where these shapes say something else."""
    if len(images) != 4 or len(pairs) != 3 or not isinstance(pairs[1], int) or pairs[1] < 2:
        return None
    count, (batch, channels, height, width) = pairs[1], images
    if not isinstance(channels, int) or channels % count:
        return None
    inner = (batch, channels // count, height, width)
    merged = (batch * (channels // count), count, height * width)
    return count if tuple(pairs) == merged and tuple(parts) == (count, *inner) else None


def _cut(start: int, end: int | Poly, step: int) -> Use:
    return ops.slice(X, *(np.array([value]) for value in (start, end, 1, step)))
