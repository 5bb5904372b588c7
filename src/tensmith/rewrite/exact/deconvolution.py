"""What stands before and behind transposed convolutions, in their weights; joined and normalized ones."""

from __future__ import annotations

from dataclasses import replace

from tensmith.rewrite.exact.batch_norm import FACTOR, MEAN, SAMPLE, SHIFT, batch, statistics
from tensmith.rewrite.exact.products import B, W, X, alike, sign_laws
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import family, law
from tensmith.rewrite.match import Match
from tensmith.rewrite.right_sides import along, flat
from tensmith.rewrite.term import Term, Use, Var, ops

V, C = Var("v", static=True), Var("c", static=True)

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
sign_laws("deconv", deconv, DECONV)
law(
    "common_deconv_image",
    deconv(X, W, B) + ops.conv_transpose(X, V, attrs="other"),
    deconv(X, W + V, B),
    deconv(X, W - V, B),
    order=32,
    w="C K *R",
    v="C K *R",
    given=[replace(i, sample={**i.sample, "other": i.sample["deconv"]}, example=False) for i in DECONV],
    when=lambda m: alike(m, "deconv"),
)


law(
    "batch_norm_into_deconv",
    batch(deconv(X, W, B)),
    deconv(X, W * along(FACTOR, 1, W), (B - MEAN) * FACTOR + SHIFT),
    deconv(X, W * along(FACTOR, 1, W), (B - SHIFT) * FACTOR + SHIFT),
    order=20,
    given=[replace(i, shapes={**i.shapes, **statistics("K")}) for i in DECONV],
    sample=SAMPLE,
    when=lambda m: None if m.attrs["deconv"]["group"] == 1 else "it has groups",
)
