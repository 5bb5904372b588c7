"""Convolutions of few channels over blocks as long as their strides: spectrograms, patches of images.

Kernels multiply channels in groups. One channel fills none; a block of it has as many as the stride is long.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensmith.formula.poly import Dim, Poly, product
from tensmith.ir.ops.sizes import quotient
from tensmith.rewrite.exact.products import B, W, X, conv, unpadded
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import law
from tensmith.rewrite.match import Match
from tensmith.rewrite.right_sides import literal, shaped
from tensmith.rewrite.term import Bindings, Term, Use, later, ops

# As many channels fill a group of any kernel.
_FULL = 4


def _blocks(x: Term, sizes: Sequence[Dim], block: Sequence[Dim]) -> Use:
    """[rows, channels, *(count * block)] as [rows, channels * block, *count]; 0 keeps the rows."""
    n, (channels, *space) = len(block), sizes
    counts = [quotient([size], [b]) for size, b in zip(space, block)]
    apart = shaped(x, (0, channels, *(size for pair in zip(counts, block) for size in pair)))
    turned = ops.transpose(apart, attrs={"perm": (0, 1, *range(3, 3 + 2 * n, 2), *range(2, 2 + 2 * n, 2))})
    return shaped(turned, (0, product((channels, *block)), *counts))


@later("conv(blocks(x), blocks(w), b)")
def _over_blocks(m: Bindings, times: int) -> Term:
    strides = m.attrs["conv"]["strides"]
    n, (channels, *space) = len(strides), m.shape(X)[1:]
    whole = [quotient([size], [block]) * block for size, block in zip(space, strides)]
    cut = X if whole == space else ops.slice(X, np.zeros(n, int), literal(whole), np.arange(2, 2 + n))
    filters = _blocks(W, m.shape(W)[1:], strides)
    return ops.conv(
        _blocks(cut, (channels, *whole), strides),
        filters if times == 1 else filters * times,
        B,
        attrs={**m.attrs["conv"], "strides": (1,) * n, "kernel_shape": None},
    )


def _of_few_channels(m: Match) -> str | None:
    attrs, sizes = m.attrs["conv"], (*m.shape(X)[1:], *m.shape(W))
    strides = attrs["strides"] or ()
    plain = unpadded(attrs) and attrs["group"] == 1 and all(d == 1 for d in attrs["dilations"] or ())
    if not plain or max(strides, default=1) == 1:
        return "it pads, has groups or dilations, or no stride"
    known = [size for size in sizes if isinstance(size, int) and size]
    if len(known) < len(sizes):
        return "a size is not known, or zero"
    whole = not any(size % stride for size, stride in zip(known[-len(strides) :], strides))
    return None if whole and known[0] < _FULL else "of many channels, or filters that are no whole blocks"


def _strided(n: int) -> Instance:
    strides = tuple(Poly.symbol(f"s{axis}") for axis in range(n))
    attrs = {"strides": strides, "dilations": (1,) * n, "pads": (0,) * (2 * n), "group": 1}
    filters = " ".join(["K", "C", *(f"s{axis}*R{axis}" for axis in range(n))])
    lower = dict.fromkeys(["N", "C", "K", *(f"{size}{axis}" for size in "sHR" for axis in range(n))], 1)
    return Instance(f"{n}d", {"x": "N C *H", "w": filters, "b": "K"}, n, {"conv": attrs}, lower)


law(
    "conv_over_blocks",
    conv(X, W, B),
    _over_blocks(1),
    _over_blocks(2),
    phase="offer",
    given=[_strided(n) for n in (1, 2, 3)],
    when=_of_few_channels,
    says="conv(x, w, b) of stride s = conv(x', w', b), x' and w' in blocks of s, which are channels. "
    "An offer: kernels of 16 and 8 bits multiply channels in groups, which one channel does not fill.",
)
