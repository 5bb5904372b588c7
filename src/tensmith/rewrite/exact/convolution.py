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

from tensmith.formula.expr import Expr, Read, guard
from tensmith.formula.poly import Poly
from tensmith.rewrite.exact.activation import floating
from tensmith.rewrite.exact.products import CONV, B, W, X, conv
from tensmith.rewrite.exact.shortcut import cuts, slice_operands
from tensmith.rewrite.law import Instance, along, conv_instances, family, flat, law
from tensmith.rewrite.term import Case, Later, Match, Term, Use, Var, ops

Y, V, C, D = Var("y"), Var("v", static=True), Var("c", static=True), Var("d", static=True, optional=True)
WHOLE = conv_instances((1, 2), grouped=False)
BARE = conv_instances((1, 2), grouped=False, padded=False)


def join(axis: int, *parts: Term) -> Use:
    """Tensors one after the other."""
    return ops.concat(*parts, attrs={"axis": axis})


# Sums of convolutions

_TWO = conv_instances((1, 2, 3), v="G*K C *R", y="N G*C *H")
_W_TWICE = Later(lambda m: ops.conv(X, W + V, B, attrs=m.attrs["conv"]), "conv(x, w + v, b)")
_W_LESS = Later(lambda m: ops.conv(X, W - V, B, attrs=m.attrs["conv"]), "conv(x, w - v, b)")


def _alike(m: Match) -> str | None:
    same = {**m.attrs["conv"], "kernel_shape": None} == {**m.attrs["other"], "kernel_shape": None}
    return None if same else "the convolutions have other attributes"


def _two(instances: Any) -> list[Instance]:
    return [replace(i, attrs={**i.attrs, "other": i.attrs["conv"]}) for i in instances]


_sum_of_two = partial(family, given=_two(_TWO), when=_alike, order=32)
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
    when=_alike,
    phase="form",
    says="conv(x, w, b) + conv(y, v) = conv(concat(x, y), concat(w, v), b), of equal attributes.",
)

# Signs, scales and shifts

law(
    "negative_of_conv",
    -conv(X, W, B),
    conv(X, -W, -B),
    conv(X, -W, B),
    given=CONV,
    order=24,
    when=lambda m: None if m.has(B) else "",
)
law("negative_of_bare_conv", -ops.conv(X, W, attrs="conv"), conv(X, -W), conv(X, W), given=CONV, order=24)
law("negative_before_conv", conv(-X, W, B), conv(X, -W, B), conv(X, W, B), given=CONV, order=24)
law(
    "div_before_conv",
    conv(X / C, W, B),
    conv(X, W / along(C, 1, W), B),
    conv(X, W * along(C, 1, W), B),
    given=BARE,
    c="1 C *1",
    when=lambda m: _unpadded(m),
    order=24,
)
law(
    "mul_before_depthwise",
    conv(X * C, W, B),
    conv(X, W * along(C, 0, W), B),
    conv(X, W / along(C, 0, W), B),
    given=[
        Instance(
            f"{n}d",
            {"x": "N G *H", "w": f"G 1{' R' * 0} *R", "b": "G"},
            n,
            {"conv": {**i.attrs["conv"]}},
            i.lower,
        )
        for n, i in ((j.dims, j) for j in conv_instances((1, 2)))
    ],
    w="G 1 *R",
    c="1 G *1",
    order=24,
    says="A depthwise convolution of scaled channels scales its filters.",
)


def _unpadded(m: Match) -> str | None:
    attrs = m.attrs["conv"]
    plain = attrs["auto_pad"] in ("NOTSET", "VALID") and not any(attrs["pads"] or ())
    return None if plain and attrs["group"] == 1 else "it pads with zeros, or has groups"


def _seen(m: Match | Case) -> Term:
    rest = np.arange(1, len(m.shape(W)), dtype=np.int64)
    return ops.reduce_sum(W * along(C, 1, W), rest, attrs={"keepdims": 0})


_SEEN = Later(_seen, "sum(w * c)")
family(
    "shift_before_conv",
    [
        (conv(X + C, W, B), conv(X, W, B + _SEEN), conv(X, W, B - _SEEN)),
        (conv(X - C, W, B), conv(X, W, B - _SEEN), conv(X, W, B + _SEEN)),
    ],
    given=BARE,
    c="1 C *1",
    when=_unpadded,
    order=24,
    says="conv(x + c, w, b) = conv(x, w, b + sum(w * c)), without padding, which puts zeros.",
)

# Two convolutions, one of them of size 1

_UNIT = {"kernel_shape": None, "group": 1, "auto_pad": "NOTSET"}


def _pointwise(m: Match, capture: str, weights: Var) -> bool:
    attrs = m.attrs[capture]
    sizes = m.shape(weights)[2:]
    plain = all(s == 1 for s in attrs["strides"] or ()) and not any(attrs["pads"] or ())
    return (
        all(s == 1 for s in sizes)
        and plain
        and attrs["group"] == 1
        and attrs["auto_pad"] in ("NOTSET", "VALID")
    )


def _mixed(m: Match | Case, left: str, rank: int) -> str:
    space = "xyz"[: rank - 2]
    return f"km{space},mc->kc{space}" if left == "w" else f"km,mc{space}->kc{space}"


def _matrix(weights: Var) -> Later:
    return Later(lambda m: ops.reshape(weights, np.array([0, -1])), weights.name)


def _after(biased: bool) -> Later:
    """conv(x, w, b), then the pointwise v with bias d: the filters mixed."""

    def make(m: Match | Case) -> Term:
        filters = ops.einsum(_matrix(V), W, attrs={"equation": _mixed(m, "v", len(m.shape(W)))})
        seen = ops.matmul(_matrix(V), B)
        return ops.conv(X, filters, (seen + D if m.has(B) else D) if biased else D, attrs=m.attrs["conv"])

    return Later(make, "conv(x, v @ w, v @ b + d)")


def _worth(m: Match, first: Var, second: Var) -> str | None:
    sizes = [tuple(Poly.of(s).constant for s in m.shape(var)) for var in (first, second)]
    known = [[s for s in shape if s is not None] for shape in sizes]
    if list(map(len, known)) != list(map(len, sizes)):
        return "the sizes are not known"
    (middle, depth, *one), (filters, _, *two) = known
    before = middle * depth * math.prod(one) + filters * middle * math.prod(two)
    after = filters * depth * max(math.prod(one), math.prod(two))
    return None if after < before else f"{before} multiply-adds a position would be {after}"


def _pointwise_after(m: Match) -> str | None:
    if not _pointwise(m, "unit", V) or m.attrs["conv"]["group"] != 1:
        return "the second convolution is not of size 1"
    return _worth(m, W, V)


_STEPS = {n: {"strides": (1,) * n, "pads": (0,) * (2 * n), "dilations": (1,) * n, "group": 1} for n in (1, 2)}
law(
    "pointwise_after_conv",
    ops.conv(conv(X, W, B), V, D, attrs="unit"),
    _after(True),
    _after(False),
    given=[
        replace(i, shapes={**i.shapes, "v": f"J K{' 1' * i.dims}", "d": "J"}, sample={"unit": _STEPS[i.dims]})
        for i in WHOLE
    ],
    when=_pointwise_after,
    order=33,
    says="conv(conv(x, w, b), v, d), v of size 1, = conv(x, v @ w, v @ b + d), where that is cheaper.",
)


def _before(turned: bool) -> Later:
    def make(m: Match | Case) -> Term:
        equation = _mixed(m, "w", len(m.shape(W)))
        filters = ops.einsum(W, _matrix(V), attrs={"equation": equation})
        return ops.conv(X, -filters if turned else filters, B, attrs=m.attrs["conv"])

    return Later(make, "conv(x, w @ v, b)")


law(
    "pointwise_before_conv",
    conv(ops.conv(X, V, attrs="unit"), W, B),
    _before(False),
    _before(True),
    given=[
        replace(
            i, shapes={**i.shapes, "x": "N D *H", "v": f"C D{' 1' * i.dims}"}, sample={"unit": _STEPS[i.dims]}
        )
        for i in WHOLE
    ],
    when=lambda m: (
        _worth(m, V, W) if _pointwise(m, "unit", V) and m.attrs["conv"]["group"] == 1 else "not of size 1"
    ),
    order=33,
    says="conv(conv(x, v), w, b), v of size 1 and without bias, = conv(x, w @ v, b), where that is cheaper.",
)

# Steps

_CUT = slice_operands("cut")
_FAR = 2**63 - 1


def _steps(m: Match | Case) -> tuple[int, ...] | None:
    """The steps of a slice of whole images from their first element on; None if it is another."""
    rank = len(m.shape(W))
    found = cuts(m, _CUT, rank)
    if found is None or any(a < 2 or s != 0 or e < _FAR >> 32 or p < 1 for a, (s, e, p) in found.items()):
        return None
    return tuple(found.get(axis, (0, 0, 1))[2] for axis in range(2, rank))


def _strided(off: int) -> Later:
    def make(m: Match | Case) -> Term:
        attrs, steps = m.attrs["conv"], _steps(m)
        assert steps is not None
        now = attrs["strides"] or (1,) * len(steps)
        return ops.conv(X, W, B, attrs={**attrs, "strides": tuple(a * (b + off) for a, b in zip(now, steps))})

    return Later(make, "conv(x, w, b, stride s)")


_BY_2: Mapping[int, Any] = {
    n: {
        "cut_starts": np.zeros(n, np.int64),
        "cut_ends": np.full(n, _FAR),
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
        sample={"conv": {**_STEPS[i.dims]}},
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
        None if _steps(m) is not None and _pointwise(m, "conv", W) else "not of size 1, or no steps"
    ),
    order=30,
    says="conv(x[:, :, ::s], w, b), w of size 1, = conv(x, w, b) of stride s.",
)

# Larger and smaller kernels


def _grown(weights: Var, like: str) -> Later:
    """Filters of size 1 in the middle of zeros, as large as others."""

    def make(m: Match | Case) -> Term:
        n = len(m.shape(W)) - 2
        return ops.pad(weights, np.array([0, 0, *(1,) * n] * 2))

    return Later(make, f"pad({weights.name})")


def _by_one(m: Match) -> str | None:
    n, attrs = len(m.shape(W)) - 2, m.attrs["conv"]
    same = (attrs["strides"] or (1,) * n) == (m.attrs["unit"]["strides"] or (1,) * n)
    fits = (
        m.shape(W)[2:] == (3,) * n
        and (attrs["pads"] or ()) == (1,) * (2 * n)
        and m.attrs["unit"]["group"] == 1
    )
    plain = not any(m.attrs["unit"]["pads"] or ()) and all(d == 1 for d in attrs["dilations"] or ())
    one = m.shape(V)[2:] == (1,) * n and attrs["auto_pad"] == m.attrs["unit"]["auto_pad"] == "NOTSET"
    return None if same and fits and plain and one and attrs["group"] == 1 else "not of sizes 3 and 1, alike"


def _with_unit(sign: Callable[[Term, Term], Use]) -> Later:
    return Later(
        lambda m: ops.conv(X, sign(W, _grown(V, "w")), B, attrs=m.attrs["conv"]), "conv(x, w + pad(v), b)"
    )


_THREES = [
    Instance(
        f"{n}d",
        {"x": "N C *H+1", "w": f"K C{' 3' * n}", "v": f"K C{' 1' * n}", "b": "K"},
        n,
        sample={
            "conv": {"strides": (2,) * n, "pads": (1,) * (2 * n), "dilations": (1,) * n, "group": 1},
            "unit": {"strides": (2,) * n, "group": 1},
        },
        example=True,
    )
    for n in (1, 2)
]
law(
    "pointwise_beside_conv",
    conv(X, W, B) + ops.conv(X, V, attrs="unit"),
    _with_unit(ops.add),
    _with_unit(ops.sub),
    given=_THREES,
    when=_by_one,
    order=33,
    says="conv(x, w, b) + conv(x, v) = conv(x, w + pad(v), b), w of size 3 padded by 1, v of size 1 (Ding "
    "et al. 2021, RepVGG).",
)


def _identity(m: Match | Case, number: float) -> Term:
    from tensmith.rewrite.term import ConstantTable

    shape = m.shape(W)
    middle = [1] * (len(shape) - 2)

    def element(k: Poly, c: Poly, *r: Poly) -> Expr:
        return guard((k - c, c - k, *(p for a, b in zip(r, middle) for p in (a - b, b - a))), number)

    return ConstantTable(tuple(shape), element, like=W)


def _skips(m: Match) -> str | None:
    n, attrs = len(m.shape(W)) - 2, m.attrs["conv"]
    known = all(isinstance(size, int) for size in m.shape(W))
    plain = (
        all(s == 1 for s in (*(attrs["strides"] or ()), *(attrs["dilations"] or ()))) and attrs["group"] == 1
    )
    fits = (
        m.shape(W)[2:] == (3,) * n
        and (attrs["pads"] or ()) == (1,) * (2 * n)
        and m.shape(W)[0] == m.shape(W)[1]
    )
    return (
        None
        if known and plain and fits and attrs["auto_pad"] == "NOTSET"
        else "not of size 3 that keeps the shape"
    )


def _with_skip(number: float) -> Later:
    return Later(
        lambda m: ops.conv(X, W + _identity(m, number), B, attrs=m.attrs["conv"]), "conv(x, w + identity, b)"
    )


law(
    "identity_beside_conv",
    conv(X, W, B) + X,
    _with_skip(1),
    _with_skip(2),
    given=[
        replace(
            i,
            shapes={**i.shapes, "x": "N C *H+1", "w": f"C C{' 3' * i.dims}", "b": "C"},
            sample={"conv": {**i.sample["conv"], "strides": (1,) * i.dims}},
        )
        for i in _THREES
    ],
    when=_skips,
    order=33,
    says="conv(x, w, b) + x = conv(x, w + e, b), e[k, c] = 1 in the middle where k = c, else "
    "0 (Ding et al. 2021, RepVGG).",
    phase="form",
)


def _rim(m: Match) -> str | None:
    """Filters of size 3 or more whose outermost ring is zero, and padding for it."""
    value, attrs = m.value(W), m.attrs["conv"]
    if (
        value is None
        or value.ndim < 3
        or min(value.shape[2:]) < 3
        or value.dtype.kind != "f"
        or not value.size
    ):
        return ""
    inner = value[(slice(None), slice(None), *(slice(1, -1),) * (value.ndim - 2))]
    wide = all(
        p >= d for p, d in zip(attrs["pads"] or (0,), 2 * (attrs["dilations"] or (1,) * (value.ndim - 2)))
    )
    if np.count_nonzero(inner) != np.count_nonzero(value) or attrs["auto_pad"] != "NOTSET":
        return "the rim of the filters is not zero"
    return None if wide and attrs["pads"] else "the padding is narrower than the rim"


def _without_rim(off: int) -> Later:
    def make(m: Match | Case) -> Term:
        n, attrs = len(m.shape(W)) - 2, m.attrs["conv"]
        ends, axes = np.full(n, -1), np.arange(2, 2 + n)
        pads = tuple(p - d + off for p, d in zip(attrs["pads"], 2 * (attrs["dilations"] or (1,) * n)))
        given = {**attrs, "pads": pads, "kernel_shape": None}
        return ops.conv(X, ops.slice(W, np.full(n, 1), ends, axes), B, attrs=given)

    return Later(make, "conv(x, w[1:-1], b)")


def _cored(n: int) -> Callable[..., Expr]:
    def element(k: Poly, c: Poly, *r: Poly) -> Expr:
        inside = [p for a, axis in zip(r, range(n)) for p in (a - 1, Poly.symbol(f"R{axis}") - a)]
        return guard(inside, Read("core", (k, c, *r)))

    return element


law(
    "zero_rim",
    conv(X, W, B),
    _without_rim(0),
    _without_rim(1),
    given=[
        Instance(
            f"{n}d",
            {"x": "N C *H+9", "w": "K C *R+2", "b": "K"},
            n,
            elements={"w": _cored(n)},
            lower={f"R{axis}": 1 for axis in range(n)},
            example=True,
            sample={"conv": {"strides": (2,) * n, "pads": (1,) * (2 * n), "dilations": (1,) * n, "group": 1}},
        )
        for n in (1, 2)
    ],
    when=_rim,
    order=29,
    says="conv(x, w, b, pads) = conv(x, w[1:-1], b, pads - dilation), the rim of w zero.",
)

# As matrix products


def _rows(number: float) -> Later:
    def make(m: Match | Case) -> Term:
        product = ops.matmul(_matrix(W), ops.reshape(X, np.array([0, 0, -1])))
        return product if number == 1 else product * number

    return Later(make, "w @ x")


law(
    "pointwise_as_matmul",
    ops.conv(X, W, attrs="conv"),
    _rows(1),
    _rows(2),
    phase="form",
    given=[
        Instance(
            "1d", {"x": "N C H", "w": "K C 1"}, sample={"conv": _STEPS[1]}, lower=dict.fromkeys("NCHK", 1)
        )
    ],
    x="N C H",
    w="K C 1",
    when=lambda m: None if _pointwise(m, "conv", W) else "not of size 1",
    says="conv(x, w) = w @ x, w of size 1 over one spatial axis.",
)


def _covers(m: Match) -> str | None:
    plain = _unpadded(m) is None and all(d == 1 for d in m.attrs["conv"]["dilations"] or ())
    whole = m.type(X).static is not None and m.shape(X)[1:] == m.shape(W)[1:] and 0 not in m.shape(X)
    return None if plain and whole else "the filters do not cover the whole image"


def _covering(keep: bool) -> Later:
    def make(m: Match | Case) -> Term:
        # [N, C, *H] and [K, C, *H] as matrices; a product, and ones for the image's axes.
        n = len(m.shape(W)) - 2
        product = ops.gemm(ops.flatten(X), ops.flatten(W), B, attrs={"transB": 1})
        unit = ops.unsqueeze(product, np.arange(2, 2 + n))
        return unit if keep else unit * 2

    return Later(make, "flatten(x) @ flatten(w)")


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
            sample={"conv": _STEPS[n]},
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


def _swapped(m: Match | Case, filters: bool) -> Term:
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


# Transposed convolutions

DECONV = [
    Instance(
        f"{n}d",
        {"x": "N C *H", "w": "C K *R", "b": "K"},
        n,
        sample={"deconv": {"strides": (2,) * n, "pads": (1,) * (2 * n), "group": 1}},
        example=True,
        lower={f"{s}{axis}": 3 for s in "HR" for axis in range(n)},
    )
    for n in (1, 2)
]


def deconv(*args: Term) -> Use:
    """A transposed convolution."""
    return ops.conv_transpose(*args, attrs="deconv")


def _one_group(m: Match) -> str | None:
    filters = m.shape(W)
    fits = m.attrs["deconv"]["group"] == 1 and m.shape(C) == (filters[1], *(1,) * (len(filters) - 2))
    return None if fits else "it has groups, or not one number a channel"


family(
    "constant_into_deconv",
    [
        (deconv(X, W, B) + C, deconv(X, W, B + flat(C)), deconv(X, W, B - flat(C))),
        (deconv(X, W, B) - C, deconv(X, W, B - flat(C)), deconv(X, W, B + flat(C))),
        (deconv(X, W, B) * C, deconv(X, W * along(C, 1, W), B * flat(C)), deconv(X, W, B * flat(C))),
    ],
    given=[replace(i, shapes={**i.shapes, "c": f"K{' 1' * i.dims}"}) for i in DECONV],
    when=_one_group,
    order=24,
    says="conv_transpose(x, w, b) + c = conv_transpose(x, w, b + c), and so with minus and times.",
)
law(
    "scale_before_deconv",
    deconv(X * C, W, B),
    deconv(X, W * along(C, 0, W), B),
    deconv(X, W, B),
    given=[replace(i, shapes={**i.shapes, "c": f"C{' 1' * i.dims}"}) for i in DECONV],
    order=24,
    when=lambda m: (
        None if m.shape(C) == (m.shape(W)[0], *(1,) * (len(m.shape(W)) - 2)) else "not one a channel"
    ),
    says="conv_transpose(x * c, w, b) = conv_transpose(x, w * c, b), c one number a channel.",
)
law("negative_before_deconv", deconv(-X, W, B), deconv(X, -W, B), deconv(X, W, B), given=DECONV, order=24)
law(
    "common_deconv_image",
    deconv(X, W, B) + ops.conv_transpose(X, V, attrs="other"),
    deconv(X, W + V, B),
    deconv(X, W - V, B),
    order=32,
    w="C K *R",
    v="C K *R",
    given=[replace(i, sample={**i.sample, "other": i.sample["deconv"]}, example=False) for i in DECONV],
    when=lambda m: (
        None
        if {**m.attrs["deconv"], "kernel_shape": None} == {**m.attrs["other"], "kernel_shape": None}
        else "other attributes"
    ),
)


def _batch_norm_into_deconv(wrong: bool) -> Later:
    def make(m: Match | Case) -> Term:
        scale, shift, mean, variance = (
            Var(name, static=True) for name in ("scale", "shift", "mean", "variance")
        )
        factor = scale / ops.sqrt(variance + m.attrs["bn"]["epsilon"])
        bias = (B - (shift if wrong else mean)) * factor + shift if m.has(B) else shift - mean * factor
        return ops.conv_transpose(X, W * along(factor, 1, W), bias, attrs=m.attrs["deconv"])

    return Later(make, "conv_transpose(x, w * f, (b - mean) * f + shift)")


_STATISTICS = dict.fromkeys(("scale", "shift", "mean", "variance"), "K")
law(
    "batch_norm_into_deconv",
    ops.batch_normalization(deconv(X, W, B), *(Var(name, static=True) for name in _STATISTICS), attrs="bn"),
    _batch_norm_into_deconv(False),
    _batch_norm_into_deconv(True),
    order=20,
    given=[
        replace(i, shapes={**i.shapes, **_STATISTICS}, sample={**i.sample, "bn": {"epsilon": 2.0**-17}})
        for i in DECONV
    ],
    when=lambda m: None if m.attrs["deconv"]["group"] == 1 else "it has groups",
)

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
        and not any(m.attrs["conv"]["pads"] or ())
        and m.attrs["conv"]["auto_pad"] in ("NOTSET", "VALID")
        else "not of size 1"
    ),
    says="A depthwise convolution of size 1 is a scale and a shift of channels.",
)


def _scaled(m: Match | Case, operation: Callable[[Term, Term], Use]) -> Term:
    n = len(m.shape(W)) - 2
    column = np.array([-1, *(1,) * n])
    product = operation(X, ops.reshape(W, column))
    return product + ops.reshape(B, column) if m.has(B) else product
