"""Normalizations and softmax: shifts that they take out again, and scales that their parameters take in.

Measure: operations on values that vary. What needs maxima or exponentials is in the phase "fold".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from tensmith.ir.ops.elementwise import single
from tensmith.ir.ops.shared import normal_axis
from tensmith.rewrite.exact.batch_norm import MEAN, SCALE, SHIFT, batch
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import family, floating, law
from tensmith.rewrite.match import Match
from tensmith.rewrite.right_sides import filled, flat
from tensmith.rewrite.term import Bindings, Later, Term, Use, Var, ops

X = Var("x")
G, B, C = Var("g", static=True), Var("b", static=True, optional=True), Var("c", static=True)

# Softmax

_LOWER = dict.fromkeys("NCH", 1)


def _shapes(c: str) -> list[Instance]:
    return [
        Instance(
            f"axis {a}, c {c or 'one number'}",
            {"x": "N C H", "c": c},
            sample={"softmax": {"axis": a}},
            example=True,
            lower=_LOWER,
        )
        for a in ((1,) if c else (0, 1, -1))
    ]


_SHIFTED = [*_shapes(""), *_shapes("N 1 H"), *_shapes("1 1 H"), *_shapes("N 1 1")]
SHIFT_BY = Var("c")


def _constant_along(m: Match) -> str | None:
    shape, added = m.type(X).shape, m.type(SHIFT_BY).shape
    if shape is None or added is None or floating(m) is not None or len(added) > len(shape):
        return "the shapes are not known"
    axis = normal_axis(m.attrs["softmax"]["axis"], len(shape)) - (len(shape) - len(added))
    wide = all(a in (1, b) for a, b in zip(added[::-1], shape[::-1]))
    return None if wide and (axis < 0 or added[axis] == 1) else "what is added changes along the axis"


for _op in ("softmax", "log_softmax"):
    _of = getattr(ops, _op)
    family(
        f"{_op}_of_shifted",
        [
            (_of(X + SHIFT_BY, attrs="softmax"), _of(X, attrs="softmax"), _of(X, attrs="softmax") + 1),
            (_of(X - SHIFT_BY, attrs="softmax"), _of(X, attrs="softmax"), _of(X, attrs="softmax") + 1),
        ],
        given=_SHIFTED,
        when=_constant_along,
        phase="fold",
        order=7,
        says=f"{_op}(x + c) = {_op}(x), c constant along the axis: a bias of the keys is dead.",
    )

_ANY = [
    Instance(f"axis {a}", {"x": "N C H"}, sample={"softmax": {"axis": a}}, example=True, lower=_LOWER)
    for a in (0, 1, -1)
]
_SOFT, _LOG_SOFT = ops.softmax(X, attrs="softmax"), ops.log_softmax(X, attrs="softmax")
law("log_of_softmax", ops.log(_SOFT), _LOG_SOFT, _SOFT, given=_ANY, phase="fold", order=6)
law("exp_of_log_softmax", ops.exp(_LOG_SOFT), _SOFT, _LOG_SOFT, given=_ANY, phase="fold", order=6)
law(
    "softmax_of_log_softmax",
    ops.softmax(ops.log_softmax(X, attrs="softmax"), attrs="outer"),
    _SOFT,
    _LOG_SOFT,
    given=[replace(i, sample={"softmax": i.sample["softmax"], "outer": i.sample["softmax"]}) for i in _ANY],
    when=lambda m: None if m.attrs["softmax"]["axis"] == m.attrs["outer"]["axis"] else "other axes",
    phase="fold",
    order=6,
)


def _same_axis(m: Match) -> str | None:
    rank, axes = m.type(X).rank, m.value(Var("axes"))
    if (
        rank is None
        or axes is None
        or len(axes) != 1
        or not m.attrs["reduce"]["keepdims"]
        or floating(m) is not None
    ):
        return "the axis is not known, or dropped"
    return None if 0 not in m.shape(X) else "there are no elements"


def _axis(m: Bindings) -> int:
    axes = m.value(Var("axes"))
    assert axes is not None
    return int(axes[0])


def _along(name: str) -> Later:
    return Later(lambda m: getattr(ops, name)(X, attrs={"axis": _axis(m)}), f"{name}(x)")


_REDUCED = [
    Instance(
        f"axis {a}",
        {"x": "N C H"},
        sample={"reduce": {"keepdims": 1}},
        example=True,
        lower=_LOWER,
        values={"axes": np.array([a])},
    )
    for a in (1, -1)
]
_from_parts = partial(law, given=_REDUCED, when=_same_axis, phase="fold", order=4)
_from_parts(
    "softmax_from_exp",
    ops.exp(X) / ops.reduce_sum(ops.exp(X), Var("axes"), attrs="reduce"),
    _along("softmax"),
    _along("log_softmax"),
)
_from_parts(
    "log_softmax_from_log_sum",
    X - ops.reduce_log_sum(ops.exp(X), Var("axes"), attrs="reduce"),
    _along("log_softmax"),
    _along("softmax"),
)
law(
    "sum_of_softmax",
    ops.reduce_sum(_SOFT, Var("axes"), attrs="reduce"),
    Later(lambda m: _ones(m, 1), "1"),
    Later(lambda m: _ones(m, 2), "2"),
    phase="fold",
    order=4,
    given=[replace(i, sample={**i.sample, "softmax": {"axis": int(i.values["axes"][0])}}) for i in _REDUCED],
    when=lambda m: _same_axis(m) or _over_softmax(m),
    says="The sum of a softmax is 1.",
)


def _over_softmax(m: Match) -> str | None:
    axis, rank = _axis(m), len(m.shape(X))
    whole = m.program.type(m.nodes[0].output).static is not None
    same = normal_axis(axis, rank) == normal_axis(m.attrs["softmax"]["axis"], rank)
    return None if whole and same else "another axis, or sizes that are not known"


def _ones(m: Bindings, number: float) -> Term:
    axis = _axis(m)
    return filled(
        number, X, lambda c: [1 if a == axis % len(c.shape(X)) else d for a, d in enumerate(c.shape(X))]
    )


# Layer norms

_ROWS = [
    Instance(
        f"rank {2 + n}", {"x": "*L N C", "g": "C", "b": "C"}, n, sample={"norm": {"axis": -1}}, lower={"C": 1}
    )
    for n in (0, 1)
]


def _vector(m: Match) -> str | None:
    last = (m.type(X).rank or 0) - 1
    if floating(m) is not None or last < 1 or normal_axis(m.attrs["norm"]["axis"], last + 1) != last:
        return "not over the last axis"
    return None if m.shape(G) == m.shape(X)[-1:] != (0,) else "the gain is not one number a column"


def layer(x: Term, g: Term = G, b: Term = B) -> Use:
    """A layer norm with constant gain and bias."""
    return ops.layer_normalization(x, g, b, attrs="norm")


def _affine(
    norm: Callable[..., Use], c: Var | Later, scale: Var = SCALE, shift: Var = SHIFT
) -> list[tuple[Term, Term, Term]]:
    left = norm(X, scale, shift)
    return [
        (left * C, norm(X, scale * c, shift * c), norm(X, scale * c, shift)),
        (left / C, norm(X, scale / c, shift / c), norm(X, scale / c, shift)),
        (left + C, norm(X, scale, shift + c), norm(X, scale, shift - c)),
        (left - C, norm(X, scale, shift - c), norm(X, scale, shift + c)),
    ]


family(
    "gain_of_layer_norm",
    _affine(layer, C, G, B),
    given=_ROWS,
    c="C",
    when=lambda m: _vector(m) or (None if m.has(B) else "there is no bias"),
    order=24,
    says="A layer norm times, or plus, one number a column changes its gain, or its bias.",
)
law(
    "layer_norm_of_shifted",
    layer(X + C),
    layer(X),
    layer(X + 1) * 2,
    given=_ROWS,
    c="",
    order=24,
    when=_vector,
    says="layer_normalization(x + c) = layer_normalization(x), c one number.",
)


def _over_root(g: Term) -> Use:
    return ops.rms_normalization(X, g, attrs="norm")


family(
    "gain_of_rms_norm",
    [
        (_over_root(G) * C, _over_root(G * C), _over_root(G / C)),
        (_over_root(G) / C, _over_root(G / C), _over_root(G * C)),
    ],
    given=_ROWS,
    c="C",
    when=_vector,
    order=24,
)
law(
    "negative_of_rms_norm",
    -_over_root(G),
    _over_root(-G),
    _over_root(G),
    given=_ROWS,
    when=_vector,
    order=24,
)
law(
    "rms_norm_from_parts",
    (X * ops.reciprocal(ops.sqrt(ops.reduce_mean(X**2, np.array([-1])) + Var("epsilon", static=True)))) * G,
    Later(lambda m: _rms(m, G), "rms_normalization(x, g)"),
    Later(lambda m: _rms(m, G * 2), "rms_normalization(x, 2 g)"),
    given=[replace(i, values={"epsilon": 2.0**-10}, sample={}) for i in _ROWS],
    g="C",
    when=lambda m: _few(m),
    phase="form",
)


def _few(m: Match) -> str | None:
    value = m.value(Var("epsilon"))
    known = floating(m) is None and value is not None and value.size == 1 and m.shape(G) == m.shape(X)[-1:]
    if value is None or not known or len(m.shape(X)) < 2:
        return "not the parts of a normalization over the last axis"
    return None if single(value.item()) == value.item() else "epsilon would be rounded"


def _rms(m: Bindings, gain: Term) -> Term:
    epsilon = float(np.asarray(m.value(Var("epsilon"))).reshape(-1)[0])
    return ops.rms_normalization(X, gain, attrs={"axis": -1, "epsilon": epsilon})


# Batch, instance and group norms: one number a channel

_IMAGES = [
    Instance(
        f"{n}d",
        {"x": "N C *H", "scale": "C", "shift": "C", "mean": "C", "variance": "C"},
        n,
        lower={f"H{axis}": 1 for axis in range(n)},
    )
    for n in (1, 2)
]


def instance(x: Term, scale: Term = SCALE, shift: Term = SHIFT) -> Use:
    """An instance norm."""
    return ops.instance_normalization(x, scale, shift, attrs="norm")


_NORMS = [replace(i, sample={"norm": {"epsilon": 2.0**-10}}) for i in _IMAGES]
family(
    "affine_of_batch_norm",
    _affine(batch, flat(C)),
    given=_NORMS,
    c="1 C *1",
    order=23,
    says="A batch norm times, or plus, one number a channel changes its scale and shift.",
)
family(
    "affine_of_instance_norm",
    _affine(instance, flat(C)),
    given=_NORMS,
    c="1 C *1",
    order=23,
    says="An instance norm times, or plus, one number a channel changes its scale and shift.",
)
family(
    "affine_of_group_norm",
    _affine(partial(ops.group_normalization, attrs="norm"), flat(C)),
    given=[
        Instance(
            "1d",
            {"x": "N 2*C H", "scale": "2*C", "shift": "2*C"},
            1,
            lower={"C": 1, "H": 1},
            sample={"norm": {"num_groups": 2, "epsilon": 2.0**-10}},
        )
    ],
    c="2*C 1",
    when=lambda m: _by_channel(m),
    order=23,
    says="A group norm times, or plus, one number a channel changes its scale and shift.",
)


def _by_channel(m: Match) -> str | None:
    shape = m.shape(C)
    fits = shape == (*m.shape(SCALE), *(1,) * (len(m.shape(X)) - 2))
    return None if fits and floating(m) is None else "the constant is not one number a channel"


family(
    "shifted_before_batch_norm",
    [
        (batch(X + C), batch(X, mean=MEAN - flat(C)), batch(X, mean=MEAN + flat(C))),
        (batch(X - C), batch(X, mean=MEAN + flat(C)), batch(X, mean=MEAN - flat(C))),
    ],
    given=_NORMS,
    c="1 C *1",
    order=23,
    says="batch_norm(x + c) takes c from the mean.",
)
law("negative_of_batch_norm", -batch(X), batch(X, -SCALE, -SHIFT), batch(X, -SCALE), given=_NORMS, order=23)
law(
    "negative_before_batch_norm",
    batch(-X),
    batch(X, -SCALE, SHIFT, -MEAN),
    batch(X, -SCALE),
    given=_NORMS,
    order=23,
)
family(
    "shifted_before_instance_norm",
    [(instance(X + C), instance(X), instance(X) * 2), (instance(X - C), instance(X), instance(X) * 2)],
    given=_NORMS,
    c="1 C *1",
    order=19,
    says="instance_norm(x + c) = instance_norm(x), one number a channel.",
)
law(
    "batch_norm_of_batch_norm",
    ops.batch_normalization(
        batch(X),
        *(Var(n, static=True) for n in ("scale2", "shift2", "mean2", "variance2")),
        attrs="second",
    ),
    Later(lambda m: _once(m, True), "one batch norm"),
    Later(lambda m: _once(m, False), "one batch norm"),
    order=18,
    given=[
        replace(
            i,
            shapes={**i.shapes, **dict.fromkeys(("scale2", "shift2", "mean2", "variance2"), "C")},
            sample={**i.sample, "second": {"epsilon": 2.0**-9}},
        )
        for i in _NORMS
    ],
)


def _once(m: Bindings, right: bool) -> Term:
    scale, shift, mean, variance = (Var(n, static=True) for n in ("scale2", "shift2", "mean2", "variance2"))
    factor = scale / ops.sqrt(variance + m.attrs["second"]["epsilon"])
    return batch(X, SCALE * factor, (SHIFT - mean) * factor + (shift if right else mean))
