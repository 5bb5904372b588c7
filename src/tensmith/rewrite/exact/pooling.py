"""Pools: of scaled, shifted and convolved images.

Measure: elements that are computed. What needs the order of numbers is in the phase "fold".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from tensmith.ir.ops.product import Product
from tensmith.rewrite.exact.batch_norm import SAMPLE, batch, statistics
from tensmith.rewrite.exact.products import B, W, conv, pointwise, slides
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import family, floating, law, of_32_bits
from tensmith.rewrite.match import Match
from tensmith.rewrite.term import Bindings, ConstantTable, Later, Term, Use, Var, later, ops

X, AXES, C = Var("x"), Var("axes"), Var("c", static=True)
IMAGES = [Instance(f"{n}d", {"x": "N C *H+1"}, n) for n in (1, 2)]
_POOLED = [
    replace(
        i,
        shapes={"x": "N C *H+3"},
        sample={"pool": {"kernel_shape": (3, 2)[: i.dims], "strides": (2, 1)[: i.dims]}},
    )
    for i in IMAGES
]


def average(x: Term) -> Use:
    """An average pool as it is matched."""
    return ops.average_pool(x, attrs="pool")


def largest(x: Term) -> Use:
    """A max pool as it is matched."""
    return ops.max_pool(x, attrs="pool")


def unpadded(m: Match) -> str | None:
    """None if every window of the pool lies in the image."""
    attrs = m.attrs["pool"]
    plain = (
        attrs["auto_pad"] in ("NOTSET", "VALID") and not any(attrs["pads"] or ()) and not attrs["ceil_mode"]
    )
    return None if plain and floating(m) is None else "the pool pads"


POOLS: tuple[Callable[[Term], Use], ...] = (average, ops.global_average_pool)


def _plain(m: Match) -> str | None:
    return unpadded(m) if "pool" in m.attrs else floating(m)


family(
    "scaled_before_average",
    [(p(X * C), p(X) * C, p(X) + C) for p in POOLS],
    given=_POOLED,
    c="1 C *1",
    when=_plain,
    order=26,
    says="average(x * c) = average(x) * c, c one number a channel: fewer are multiplied.",
)
family(
    "shifted_before_average",
    [line for p in POOLS for line in ((p(X + C), p(X) + C, p(X) - C), (p(X - C), p(X) - C, p(X) + C))],
    given=_POOLED,
    c="1 C *1",
    when=_plain,
    order=26,
    says="average(x + c) = average(x) + c, c one number a channel.",
)
family("negative_before_average", [(p(-X), -p(X), p(X)) for p in POOLS], given=_POOLED, when=_plain, order=26)
family(
    "shifted_before_max",
    [(largest(X + C), largest(X) + C, largest(X) - C), (largest(X - C), largest(X) - C, largest(X) + C)],
    given=_POOLED,
    c="1 C *1",
    when=unpadded,
    phase="fold",
    order=9,
    says="max_pool(x + c) = max_pool(x) + c, c one number a channel, without padding.",
)


def _of_no_layer(m: Match) -> str | None:
    made = m.program.producers.get(m.values[X.name])
    if made is not None and made.kind(Product) is not None:
        return "the layer before it takes relu along for nothing, and then has no negative codes"
    return unpadded(m)


law(
    "relu_before_max",
    largest(ops.relu(X)),
    ops.relu(largest(X)),
    largest(X),
    given=_POOLED,
    when=_of_no_layer,
    phase="fold",
    order=9,
    says="max_pool(relu(x)) = relu(max_pool(x)), x not of a layer: fewer are compared with 0.",
)
family(
    "global_pool_of_relu",
    [(ops.global_max_pool(ops.relu(X)), ops.relu(ops.global_max_pool(X)), ops.global_max_pool(X))],
    given=IMAGES,
    when=floating,
    phase="fold",
    order=9,
)


def _unit_conv(m: Match) -> str | None:
    return _plain(m) if pointwise(m, "conv", W) else "the convolution is not of size 1"


_UNITS = [
    replace(
        i,
        shapes={**i.shapes, "w": f"K C{' 1' * i.dims}", "b": "K"},
        sample={**i.sample, "conv": slides(i.dims)},
    )
    for i in _POOLED
]
for _name, _pool, _given in (
    ("average_of_pointwise", average, _UNITS),
    (
        "global_average_of_pointwise",
        ops.global_average_pool,
        [
            replace(i, shapes={**i.shapes, "x": "N C *H"}, lower={f"H{axis}": 1 for axis in range(i.dims)})
            for i in _UNITS
        ],
    ),
):
    law(
        _name,
        _pool(conv(X, W, B)),
        conv(_pool(X), W, B),
        conv(_pool(X), -W, B),
        given=_given,
        when=_unit_conv,
        order=25,
        says="average(conv(x, w, b)) = conv(average(x), w, b), w of size 1: few positions are convolved.",
    )
family(
    "average_of_batch_norm",
    [(p(batch(X)), batch(p(X)), batch(-p(X))) for p in POOLS],
    given=[replace(i, shapes={**i.shapes, **statistics("C")}) for i in _POOLED],
    sample=SAMPLE,
    when=_plain,
    order=25,
)


def _once(m: Match) -> str | None:
    attrs = m.attrs["pool"]
    ones = all(v == 1 for v in (*attrs["kernel_shape"], *(attrs["strides"] or ())))
    return unpadded(m) if ones else "its windows hold more than one element"


_ONES = [
    replace(i, sample={"pool": {"kernel_shape": (1,) * i.dims, "strides": (1,) * i.dims}}) for i in IMAGES
]
_of_one = partial(law, given=_ONES, when=_once, order=10)
_of_one("average_of_one", average(X), X, -X, says="An average over windows of one element does nothing.")
_of_one(
    "max_of_one",
    largest(X),
    X,
    -X,
    phase="fold",
    says="A maximum over windows of one element does nothing.",
)


@later("x[:, :, ::s]")
def _strided(m: Bindings, off: int) -> Term:
    n = len(m.shape(X)) - 2
    steps = np.array(m.attrs["pool"]["strides"] or (1,) * n) + off
    return ops.slice(X, np.zeros(n, np.int64), np.full(n, 2**63 - 1), np.arange(2, 2 + n), steps)


law(
    "max_of_strided_one",
    largest(X),
    _strided(0),
    _strided(1),
    order=11,
    phase="fold",
    given=[
        replace(i, sample={"pool": {"kernel_shape": (1,) * i.dims, "strides": (2,) * i.dims}}) for i in IMAGES
    ],
    when=lambda m: (
        unpadded(m)
        if all(k == 1 for k in m.attrs["pool"]["kernel_shape"])
        and any(s > 1 for s in m.attrs["pool"]["strides"] or ())
        else "its windows hold more than one element"
    ),
    says="A strided maximum over windows of one element is a slice.",
)


def _everything(m: Match) -> str | None:
    shape, attrs = m.type(X).static, m.attrs["pool"]
    dense = all(d == 1 for d in attrs["dilations"] or ())
    whole = shape is not None and tuple(attrs["kernel_shape"]) == shape[2:] and dense
    return of_32_bits(m) or unpadded(m) if whole else "its window is not the whole image"


_WHOLE = [
    Instance(f"{n}d", {"x": f"N C{' 3' * n}"}, n, sample={"pool": {"kernel_shape": (3,) * n}}, example=True)
    for n in (1, 2)
]
_ALL_AVERAGE, _ALL_MAX = ops.global_average_pool(X), ops.global_max_pool(X)
_of_everything = partial(law, given=_WHOLE, when=_everything, order=11)
_of_everything("average_of_everything", average(X), _ALL_AVERAGE, _ALL_AVERAGE * 2)
_of_everything("max_of_everything", largest(X), _ALL_MAX, _ALL_MAX * 2, phase="fold")
law(
    "global_average_twice",
    ops.global_average_pool(ops.global_average_pool(X)),
    ops.global_average_pool(X),
    ops.global_average_pool(X) * 2,
    given=IMAGES,
    when=floating,
    order=11,
)


@later("conv(x, ones) / n")
def _as_filters(m: Bindings, scale: float) -> Term:
    """A depthwise convolution with one number in all of its filters."""
    kernel, channels = m.attrs["pool"]["kernel_shape"], m.shape(X)[1]
    share = ConstantTable((channels, 1, *kernel), lambda *_: scale, like=X)
    steps = m.attrs["pool"]["strides"] or (1,) * len(kernel)
    given = {**slides(len(kernel)), "strides": steps, "group": channels}
    return ops.conv(X, share, attrs=given) / float(np.prod(kernel))


law(
    "average_as_depthwise",
    average(X),
    _as_filters(1),
    _as_filters(2),
    given=[replace(i, lower={"C": 1}) for i in _POOLED],
    phase="form",
    when=lambda m: (
        unpadded(m)
        if isinstance(m.shape(X)[1], int)
        and m.shape(X)[1]
        and all(d == 1 for d in m.attrs["pool"]["dilations"] or ())
        else "the number of channels is not known"
    ),
)

# Means over images: another spelling of global pools; each engine runs one of them well

_ANY_IMAGES = [Instance(f"{n}d", {"x": "N C *H"}, n) for n in (1, 2, 3)]
_MEANS = [
    Instance(f"{n}d, keepdims={keep}", {"x": "N C *H"}, n, {"mean": {"keepdims": keep}},
             {f"H{axis}": 1 for axis in range(n)}, {"axes": np.arange(2, 2 + n)})
    for n in (1, 2, 3) for keep in (0, 1)
]  # fmt: skip


def _over_images(m: Match) -> str | None:
    axes, shape = m.value(AXES), m.type(X).shape
    if axes is None or shape is None or len(shape) < 3:
        return ""
    if 0 in shape:
        return "the images are empty"
    found = sorted(int(axis) % len(shape) for axis in axes.reshape(-1))
    return None if found == list(range(2, len(shape))) else "the mean is not over whole images"


def _kept(pooled: Use) -> Later:
    """The pool, flat where the mean drops its axes."""
    return Later(lambda m: pooled if m.attrs["mean"]["keepdims"] else ops.flatten(pooled), "flatten(pool(x))")


law("mean_to_pool",
    ops.reduce_mean(X, AXES, attrs="mean"), _kept(ops.global_average_pool(X)), _kept(ops.global_max_pool(X)),
    given=_MEANS, when=_over_images, phase="offer",
    says="reduce_mean(x, spatial axes) = flatten(global_average_pool(x)).")  # fmt: skip


@later("{0}(x, spatial axes)")
def _reduced(m: Bindings, op: str) -> Term:
    made: Use = getattr(ops, op)(X, np.arange(2, len(m.shape(X))), attrs={"keepdims": 0})
    return made


law("pool_to_mean",
    ops.flatten(ops.global_average_pool(X), attrs={"axis": 1}),
    _reduced("reduce_mean"), _reduced("reduce_sum"),
    given=_ANY_IMAGES, phase="offer")  # fmt: skip
