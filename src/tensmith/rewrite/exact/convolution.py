"""Convolutions: fewer, smaller, and in the forms of matrix products.

Measure: multiply-adds, then convolutions, then other operations on values that vary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tensmith.formula.poly import Poly
from tensmith.rewrite.exact.products import (
    CONV,
    B,
    W,
    X,
    alike,
    conv,
    pointwise,
    seen,
    shift_law,
    sign_laws,
    slides,
    unpadded,
)
from tensmith.rewrite.exact.shortcut import FAR, cuts, slice_operands
from tensmith.rewrite.given import Instance, conv_instances
from tensmith.rewrite.law import family, floating, law
from tensmith.rewrite.match import Match
from tensmith.rewrite.right_sides import along, join
from tensmith.rewrite.term import Bindings, Later, Term, Use, Var, later, ops

Y, V, C, D = Var("y"), Var("v", static=True), Var("c", static=True), Var("d", static=True, optional=True)
WHOLE = conv_instances((1, 2), grouped=False)
BARE = conv_instances((1, 2), grouped=False, padded=False)


# Sums of convolutions

_TWO = conv_instances((1, 2, 3), v="G*K C *R", y="N G*C *H")
_W_TWICE = Later(lambda m: ops.conv(X, W + V, B, attrs=m.attrs["conv"]), "conv(x, w + v, b)")
_W_LESS = Later(lambda m: ops.conv(X, W - V, B, attrs=m.attrs["conv"]), "conv(x, w - v, b)")


def _two(instances: Any) -> list[Instance]:
    return [replace(i, attrs={**i.attrs, "other": i.attrs["conv"]}) for i in instances]


_sum_of_two = partial(family, given=_two(_TWO), when=lambda m: alike(m), order=32)
_OTHER = ops.conv(X, V, attrs="other")
_sum_of_two(
    "common_image",
    [(conv(X, W, B) + _OTHER, _W_TWICE, _W_LESS), (conv(X, W, B) - _OTHER, _W_LESS, _W_TWICE)],
    w="G*K C *R",
    v="G*K C *R",
    says="conv(x, w, b) + conv(x, v) = conv(x, w + v, b), of equal attributes.",
)
_SAME_FILTERS = ops.conv(Y, W, attrs="other")
_sum_of_two(
    "common_filters",
    [
        (conv(X, W, B) + _SAME_FILTERS, conv(X + Y, W, B), conv(X - Y, W, B)),
        (conv(X, W, B) - _SAME_FILTERS, conv(X - Y, W, B), conv(X + Y, W, B)),
    ],
    x="N G*C *H",
    y="N G*C *H",
    says="conv(x, w, b) + conv(y, w) = conv(x + y, w, b), of equal attributes.",
)
law(
    "images_side_by_side",
    conv(X, W, B) + ops.conv(Y, V, attrs="other"),
    conv(join(1, X, Y), join(1, W, V), B),
    conv(join(1, X, Y), join(1, V, W), B),
    given=_two(conv_instances((1, 2), grouped=False, y="N D *H", v="K D *R")),
    twin=_two(conv_instances((1,), grouped=False, y="N C *H", v="K C *R")),
    x="N C *H",
    y="N D *H",
    w="K C *R",
    v="K D *R",
    when=lambda m: alike(m),
    phase="form",
    says="conv(x, w, b) + conv(y, v) = conv(concat(x, y), concat(w, v), b), of equal attributes.",
)

# Signs, scales and shifts


def _plain(m: Match) -> str | None:
    plain = unpadded(m.attrs["conv"]) and m.attrs["conv"]["group"] == 1
    return None if plain else "it pads with zeros, or has groups"


sign_laws("conv", conv, CONV)
law(
    "div_before_conv",
    conv(X / C, W, B),
    conv(X, W / along(C, 1, W), B),
    conv(X, W * along(C, 1, W), B),
    given=BARE,
    c="1 C *1",
    when=_plain,
    order=24,
)
law(
    "mul_before_depthwise",
    conv(X * C, W, B),
    conv(X, W * along(C, 0, W), B),
    conv(X, W / along(C, 0, W), B),
    given=[replace(i, shapes={"x": "N G *H", "w": "G 1 *R", "b": "G"}) for i in conv_instances((1, 2))],
    w="G 1 *R",
    c="1 G *1",
    order=24,
    says="A depthwise convolution of scaled channels scales its filters.",
)


shift_law(
    "conv",
    conv,
    seen(C),
    given=BARE,
    c="1 C *1",
    when=_plain,
    says="conv(x + c, w, b) = conv(x, w, b + sum(w * c)), without padding, which puts zeros.",
)

# Two convolutions, one of them of size 1


def _mixed(m: Bindings, left: str, rank: int) -> str:
    space = "xyz"[: rank - 2]
    return f"km{space},mc->kc{space}" if left == "w" else f"km,mc{space}->kc{space}"


def _matrix(weights: Var) -> Later:
    return Later(lambda m: ops.reshape(weights, np.array([0, -1])), weights.name)


@later("conv(x, v @ w, v @ b + d)")
def _after(m: Bindings, biased: bool) -> Term:
    """conv(x, w, b), then the pointwise v with bias d: the filters mixed."""
    filters = ops.einsum(_matrix(V), W, attrs={"equation": _mixed(m, "v", len(m.shape(W)))})
    seen = ops.matmul(_matrix(V), B)
    return ops.conv(X, filters, (seen + D if m.has(B) else D) if biased else D, attrs=m.attrs["conv"])


def _worth(m: Match, first: Var, second: Var) -> str | None:
    if not pointwise(m, "unit", V) or m.attrs["conv"]["group"] != 1:
        return "v is not of size 1, or w has groups"
    sizes = [tuple(Poly.of(s).constant for s in m.shape(var)) for var in (first, second)]
    known = [[s for s in shape if s is not None] for shape in sizes]
    if list(map(len, known)) != list(map(len, sizes)):
        return "the sizes are not known"
    (middle, depth, *one), (filters, _, *two) = known
    before = middle * depth * math.prod(one) + filters * middle * math.prod(two)
    after = filters * depth * max(math.prod(one), math.prod(two))
    return None if after < before else f"{before} multiply-adds a position would be {after}"


law(
    "pointwise_after_conv",
    ops.conv(conv(X, W, B), V, D, attrs="unit"),
    _after(True),
    _after(False),
    given=[
        replace(i, shapes={**i.shapes, "v": f"J K{' 1' * i.dims}", "d": "J"}, sample={"unit": slides(i.dims)})
        for i in WHOLE
    ],
    when=lambda m: _worth(m, W, V),
    order=33,
    says="conv(conv(x, w, b), v, d), v of size 1, = conv(x, v @ w, v @ b + d), where that is cheaper.",
)


@later("conv(x, w @ v, b)")
def _before(m: Bindings, turned: bool) -> Term:
    equation = _mixed(m, "w", len(m.shape(W)))
    filters = ops.einsum(W, _matrix(V), attrs={"equation": equation})
    return ops.conv(X, -filters if turned else filters, B, attrs=m.attrs["conv"])


law(
    "pointwise_before_conv",
    conv(ops.conv(X, V, attrs="unit"), W, B),
    _before(False),
    _before(True),
    given=[
        replace(
            i, shapes={**i.shapes, "x": "N D *H", "v": f"C D{' 1' * i.dims}"}, sample={"unit": slides(i.dims)}
        )
        for i in WHOLE
    ],
    when=lambda m: _worth(m, V, W),
    order=33,
    says="conv(conv(x, v), w, b), v of size 1 and without bias, = conv(x, w @ v, b), where that is cheaper.",
)

# Steps

_CUT = slice_operands("cut")


def _steps(m: Bindings) -> tuple[int, ...] | None:
    """The steps of a slice of whole images from their first element on; None if it is another."""
    rank = len(m.shape(W))
    found = cuts(m, _CUT, rank)
    if found is None or any(a < 2 or s != 0 or e < FAR >> 32 or p < 1 for a, (s, e, p) in found.items()):
        return None
    return tuple(found.get(axis, (0, 0, 1))[2] for axis in range(2, rank))


@later("conv(x, w, b, stride s)")
def _strided(m: Bindings, off: int) -> Term:
    attrs, steps = m.attrs["conv"], _steps(m)
    assert steps is not None
    now = attrs["strides"] or (1,) * len(steps)
    return ops.conv(X, W, B, attrs={**attrs, "strides": tuple(a * (b + off) for a, b in zip(now, steps))})


_BY_2: Mapping[int, Any] = {
    n: {
        "cut_starts": np.zeros(n, np.int64),
        "cut_ends": np.full(n, FAR),
        "cut_axes": np.arange(2, 2 + n),
        "cut_steps": np.full(n, 2),
    }
    for n in (1, 2)
}
_THINNED = [
    replace(
        i,
        values=_BY_2[i.dims],
        example=True,
        attrs={},
        sample={"conv": slides(i.dims)},
        shapes={"x": "N C *H+2", "w": f"K C{' 3' * i.dims}", "b": "K"},
    )
    for i in WHOLE
]
law(
    "slice_into_conv",
    ops.slice(conv(X, W, B), *_CUT),
    _strided(0),
    _strided(1),
    given=_THINNED,
    when=lambda m: (
        None
        if _steps(m) is not None and m.attrs["conv"]["auto_pad"] in ("NOTSET", "VALID")
        else "the slice does more than stride over whole images"
    ),
    order=30,
    says="conv(x, w, b)[:, :, ::s] = conv(x, w, b) of stride s.",
)
law(
    "slice_before_pointwise",
    conv(ops.slice(X, *_CUT), W, B),
    _strided(0),
    _strided(1),
    given=[
        replace(
            i,
            shapes={"x": "N C *H", "w": f"K C{' 1' * i.dims}", "b": "K"},
            lower={f"H{d}": 1 for d in range(i.dims)},
        )
        for i in _THINNED
    ],
    when=lambda m: (
        None if _steps(m) is not None and pointwise(m, "conv", W) else "not of size 1, or no steps"
    ),
    order=30,
    says="conv(x[:, :, ::s], w, b), w of size 1, = conv(x, w, b) of stride s.",
)

# As matrix products


@later("w @ x")
def _rows(m: Bindings, number: float) -> Term:
    product = ops.matmul(_matrix(W), ops.reshape(X, np.array([0, 0, -1])))
    return product if number == 1 else product * number


law(
    "pointwise_as_matmul",
    ops.conv(X, W, attrs="conv"),
    _rows(1),
    _rows(2),
    phase="form",
    given=[
        Instance(
            "1d", {"x": "N C H", "w": "K C 1"}, sample={"conv": slides(1)}, lower=dict.fromkeys("NCHK", 1)
        )
    ],
    x="N C H",
    w="K C 1",
    when=lambda m: None if pointwise(m, "conv", W) else "not of size 1",
    says="conv(x, w) = w @ x, w of size 1 over one spatial axis.",
)


def _covers(m: Match) -> str | None:
    plain = _plain(m) is None and all(d == 1 for d in m.attrs["conv"]["dilations"] or ())
    whole = m.type(X).static is not None and m.shape(X)[1:] == m.shape(W)[1:] and 0 not in m.shape(X)
    return None if plain and whole else "the filters do not cover the whole image"


@later("flatten(x) @ flatten(w)")
def _covering(m: Bindings, keep: bool) -> Term:
    # [N, C, *H] and [K, C, *H] as matrices; a product, and ones for the image's axes.
    n = len(m.shape(W)) - 2
    product = ops.gemm(ops.flatten(X), ops.flatten(W), B, attrs={"transB": 1})
    unit = ops.unsqueeze(product, np.arange(2, 2 + n))
    return unit if keep else unit * 2


law(
    "covering_conv_as_gemm",
    conv(X, W, B),
    _covering(True),
    _covering(False),
    phase="form",
    given=[
        Instance(
            f"{n}d",
            {"x": "N C *H", "w": "K C *H", "b": "K"},
            n,
            sample={"conv": slides(n)},
            lower={"C": 1, **{f"H{axis}": 1 for axis in range(n)}},
        )
        for n in (1, 2)
    ],
    when=_covers,
    says="conv(x, w, b) = flatten(x) @ flatten(w) + b, where each filter covers the image.",
)
law(
    "conv_of_turned",
    ops.transpose(conv(ops.transpose(X, attrs={"perm": (0, 1, 3, 2)}), W, B), attrs={"perm": (0, 1, 3, 2)}),
    Later(lambda m: _swapped(m, True), "conv(x, transpose(w), b)"),
    Later(lambda m: _swapped(m, False), "conv(x, w, b)"),
    order=29,
    given=conv_instances((2,)),
    twin=[
        replace(
            i,
            shapes={**i.shapes, "w": "G*K C R R", "x": "N G*C H H"},
            sample={"conv": {"strides": (1, 1), "dilations": (1, 1), "pads": (1,) * 4}},
            attrs={"conv": {"group": Poly.symbol("G")}},
        )
        for i in conv_instances((2,))
    ],
    when=lambda m: None if m.attrs["conv"]["auto_pad"] in ("NOTSET", "VALID") else "padding depends on sizes",
    says="transpose(conv(transpose(x), w, b)) = conv(x, transpose(w), b), rows and columns exchanged.",
)


def _swapped(m: Bindings, filters: bool) -> Term:
    attrs = dict(m.attrs["conv"])
    for name in ("strides", "dilations"):
        if attrs.get(name):
            attrs[name] = tuple(attrs[name][::-1])
    if attrs.get("pads"):
        top, left, bottom, right = attrs["pads"]
        attrs["pads"] = (left, top, right, bottom)
    attrs["kernel_shape"] = None
    weights = ops.transpose(W, attrs={"perm": (0, 1, 3, 2)}) if filters else W
    return ops.conv(X, weights, B, attrs=attrs)


# Groups


def _dense(m: Match) -> str | None:
    attrs, shape = m.attrs["conv"], m.shape(W)
    return (
        None if floating(m) is None and shape[1] == 1 and attrs["group"] == shape[0] != 1 else "not depthwise"
    )


law(
    "depthwise_pointwise_as_scale",
    conv(X, W, B),
    Later(lambda m: _scaled(m, ops.mul), "x * w + b"),
    Later(lambda m: _scaled(m, ops.sub), "x - w + b"),
    phase="form",
    given=[
        Instance(
            f"{n}d",
            {"x": "N G *H", "w": f"G 1{' 1' * n}", "b": "G"},
            n,
            attrs={"conv": {"group": Poly.symbol("G")}},
            sample={"conv": {"strides": (1,) * n, "pads": (0,) * (2 * n), "dilations": (1,) * n}},
            lower={"G": 1},
        )
        for n in (1, 2)
    ],
    when=lambda m: (
        _dense(m)
        if all(s == 1 for s in (*m.shape(W)[2:], *(m.attrs["conv"]["strides"] or ())))
        and unpadded(m.attrs["conv"])
        else "not of size 1"
    ),
    says="A depthwise convolution of size 1 is a scale and a shift of channels.",
)


def _scaled(m: Bindings, operation: Callable[[Term, Term], Use]) -> Term:
    n = len(m.shape(W)) - 2
    column = np.array([-1, *(1,) * n])
    product = operation(X, ops.reshape(W, column))
    return product + ops.reshape(B, column) if m.has(B) else product
