"""Products of integers as products of the numbers that they stand for.

ONNX Runtime's quantizer writes QLinearConv and QLinearMatMul; others write the same between dequantizations
and a quantization, which is the form that kernels and other rules know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from tensmith.rewrite.given import Given, Instance, conv_instances, matmul_instances
from tensmith.rewrite.law import law
from tensmith.rewrite.match import Match
from tensmith.rewrite.right_sides import at_once
from tensmith.rewrite.term import Bindings, Later, Term, Use, Var, ops

X, XS, XZ = Var("x"), Var("xs", static=True), Var("xz", static=True)
W, WS, WZ = Var("w", static=True), Var("ws", static=True), Var("wz", static=True)
YS, YZ = Var("ys", static=True), Var("yz", static=True)
B = Var("b", static=True, optional=True)

lower: Any = partial(law, phase="lower", order=25)


def _grids(given: Given, scales: Mapping[str, str]) -> Given:
    """Instances with numbers of one grid for x and one for y, of bytes with and without a sign."""
    single = dict.fromkeys(("xs", "xz", "ys", "yz"), "")
    return [
        replace(
            instance,
            name=f"{instance.name}, {dtype}, scales of w [{scales['ws']}]",
            shapes={**instance.shapes, **single, **scales},
            dtypes={"x": dtype, "xz": dtype, "w": "i8", "wz": "i8", "yz": dtype, "b": "i32"},
            example=True,
        )
        for instance in given
        for dtype in ("u8", "i8")
    ]


def _without_bias(instance: Instance) -> Instance:
    return replace(instance, shapes={name: words for name, words in instance.shapes.items() if name != "b"})


def _one_grid(m: Match) -> str | None:
    """one scale and zero point for x and for y, one or one a filter for w"""
    if any(m.type(v).static not in ((), (1,)) for v in (XS, XZ, YS, YZ)):
        return "x or y has more than one scale"
    if any(len(m.shape(v)) > 1 for v in (WS, WZ)):
        return "w has scales of more than one axis"
    return None


def _decoded_conv(m: Bindings, unit: Term) -> Use:
    bias = [ops.dequantize_linear(B, at_once(unit, m), attrs={"axis": 0})] if m.has(B) else []
    x, w = ops.dequantize_linear(X, XS, XZ), ops.dequantize_linear(W, WS, WZ, attrs={"axis": 0})
    return ops.quantize_linear(ops.conv(x, w, *bias, attrs="conv"), YS, YZ)


lower(
    "integer_conv_as_numbers",
    ops.q_linear_conv(X, XS, XZ, W, WS, WZ, YS, YZ, B, attrs="conv"),
    Later(lambda m: _decoded_conv(m, XS * WS), "quantize(conv(dequantize(x), dequantize(w), dequantize(b)))"),
    Later(lambda m: _decoded_conv(m, XS), "quantize(conv(dequantize(x), dequantize(w), b * xs))"),
    given=[
        *_grids(conv_instances((1, 2)), {"ws": "G*K", "wz": "G*K"}),
        *_grids(conv_instances((1, 2)), {"ws": "", "wz": ""}),
        *_grids([_without_bias(each) for each in conv_instances((2,))], {"ws": "", "wz": ""}),
    ],
    twin=_grids(conv_instances((2,)), {"ws": "G*K", "wz": "G*K"}),
    when=_one_grid,
    says="A convolution of codes is one of the numbers they stand for, brought onto the grid of y.",
)


def _decoded_product(m: Bindings, axis: int) -> Use:
    x, w = ops.dequantize_linear(X, XS, XZ), ops.dequantize_linear(W, WS, WZ, attrs={"axis": axis})
    return ops.quantize_linear(ops.matmul(x, w), YS, YZ)


lower(
    "integer_product_as_numbers",
    ops.q_linear_matmul(X, XS, XZ, W, WS, WZ, YS, YZ),
    Later(lambda m: _decoded_product(m, 1), "quantize(matmul(dequantize(x), dequantize(w)))"),
    Later(lambda m: _decoded_product(m, 0), "quantize(matmul(dequantize(x), dequantize(w) by rows))"),
    given=[
        *_grids(matmul_instances((0, 1, 2), w="C K"), {"ws": "K", "wz": "K"}),
        *_grids(matmul_instances((0, 1, 2), w="C K"), {"ws": "", "wz": ""}),
    ],
    twin=_grids(matmul_instances((0,), w="C C"), {"ws": "C", "wz": "C"}),
    when=lambda m: _one_grid(m) or (None if len(m.shape(W)) == 2 else "w is no matrix"),
    says="A product of codes is one of the numbers they stand for, brought onto the grid of y.",
)
