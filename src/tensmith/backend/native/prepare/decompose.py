"""Ops written as others that have fast kernels, before a program is planned: equal over the reals.

transposed convolution   a convolution that computes all s*s phases of each position, then interleaved
depth to space, back     a transpose between two reshapes
softmax along any axis   transposes around one along the last axis
instance, group norm     layer normalization of rows, then a scale and a bias a channel
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tensmith.backend.native.prepare.attention import attention, rotary
from tensmith.backend.native.prepare.builder import ProgramBuilder
from tensmith.backend.native.steps import Array
from tensmith.ir import Node, Program
from tensmith.ir.handlers import Handlers
from tensmith.ir.ops.conv_transpose import transposed_window
from tensmith.ir.ops.sizes import as_ints

# (builder, node, shape of its first input) -> whether the builder now makes what the node does.
_rules = Handlers[Callable[[ProgramBuilder, Node, "tuple[int, ...]"], bool]]()
_rules("attention")(attention)
_rules("rotary_embedding")(rotary)


def decomposed(program: Program) -> Program:
    """The program with what has a better form in that form."""
    builder = ProgramBuilder(program)
    for node in program.nodes:
        rule = _rules.find(node)
        shape = program.type(node.inputs[0]).static if rule else None
        builder.making = node.output
        if rule is None or shape is None or not rule(builder, node, shape):
            builder.nodes.append(node)
    constants = {**program.constants, **builder.constants}
    return replace(program, nodes=tuple(builder.nodes), constants=constants, _known={})


@_rules("conv_transpose")
def _transposed(builder: ProgramBuilder, node: Node, shape: tuple[int, ...]) -> bool:
    """y[s q + f - pad] = sum(t; x[q - t] w[f + s t]): phase f of every position q is a convolution of x.

    All phases are the filters of one convolution by ceil(taps / s) taps.
    """
    w = builder.program.constants.get(node.inputs[1])
    if w is None:
        return False
    strides, dilations, pads, out = map(as_ints, transposed_window(node.attrs, shape[2:], w.shape[2:]))
    if any(s > 1 and d > 1 for s, d in zip(strides, dilations)):
        return False
    taps = [-(-k // s) for k, s in zip(w.shape[2:], strides)]
    # Positions at stride 1 begin behind the pad; phases are cut afterwards.
    cuts = [0 if s == 1 else pad for s, pad in zip(strides, pads)]
    reach = [d * (t - 1) for d, t in zip(dilations, taps)]
    begins = [r - pad + cut for r, pad, cut in zip(reach, pads, cuts)]
    needed = [-(-(cut + size) // s) for cut, size, s in zip(cuts, out, strides)]
    ends = [max(0, q - n - b + r) for q, n, b, r in zip(needed, shape[2:], begins, reach)]
    if min(begins) < 0:
        return False
    counts = [n + b + e - r for n, b, e, r in zip(shape[2:], begins, ends, reach)]
    name, phases = node.output, math.prod(strides)
    inputs = [node.inputs[0], builder.constant(f"{name} weights", _phased(w, node.attrs["group"], strides))]
    if len(node.inputs) > 2 and node.inputs[2]:
        bias = builder.program.constants.get(node.inputs[2])
        if bias is None:
            return False
        inputs.append(builder.constant(f"{name} bias", np.repeat(bias, phases)))
    whole = builder.add(
        "conv", inputs, f"{name} phases", pads=(*begins, *ends), dilations=dilations,
        strides=(1,) * len(out), group=node.attrs["group"],
    )  # fmt: skip
    if phases > 1:
        channels, n = w.shape[1] * node.attrs["group"], len(out)
        order = [0, 1, *(axis for d in range(n) for axis in (2 + n + d, 2 + d))]
        full = [q * s for q, s in zip(counts, strides)]
        before = (shape[0], channels, *strides, *counts)
        whole = builder.split(whole, before, order, (shape[0], channels, *full), f"{name} whole")
    builder.slice(whole, cuts, out, name)
    return True


def _phased(w: Array, groups: int, strides: tuple[int, ...]) -> Array:
    """Filters [C, K/groups, taps...] as [K * phases, C/groups, ceil(taps / s)...], each turned around."""
    n = len(strides)
    taps = [-(-k // s) for k, s in zip(w.shape[2:], strides)]
    full = np.zeros((*w.shape[:2], *(t * s for t, s in zip(taps, strides))), w.dtype)
    full[(slice(None), slice(None), *map(slice, w.shape[2:]))] = w
    parts = [size for pair in zip(taps, strides) for size in pair]
    split = full.reshape(groups, w.shape[0] // groups, w.shape[1], *parts)
    tap_axes, phase_axes = [3 + 2 * d for d in range(n)], [4 + 2 * d for d in range(n)]
    turned = np.flip(split, tuple(tap_axes)).transpose(0, 2, *phase_axes, 1, *tap_axes)
    return np.ascontiguousarray(turned).reshape(-1, w.shape[0] // groups, *taps)


@_rules("depth_to_space")
def _depth_to_space(builder: ProgramBuilder, node: Node, shape: tuple[int, ...]) -> bool:
    n, c, h, w = shape
    b = node.attrs["blocksize"]
    k = c // (b * b)
    crd = node.attrs["mode"] == "CRD"
    before, order = (
        ((n, k, b, b, h, w), (0, 1, 4, 2, 5, 3)) if crd else ((n, b, b, k, h, w), (0, 3, 4, 1, 5, 2))
    )
    builder.split(node.inputs[0], before, order, (n, k, h * b, w * b), node.output)
    return True


@_rules("space_to_depth")
def _space_to_depth(builder: ProgramBuilder, node: Node, shape: tuple[int, ...]) -> bool:
    n, c, h, w = shape
    b = node.attrs["blocksize"]
    order = (0, 1, 3, 5, 2, 4) if node.attrs["mode"] == "CRD" else (0, 3, 5, 1, 2, 4)
    before, after = (n, c, h // b, b, w // b, b), (n, c * b * b, h // b, w // b)
    builder.split(node.inputs[0], before, order, after, node.output)
    return True


@_rules("instance_normalization")
def _instance(builder: ProgramBuilder, node: Node, shape: tuple[int, ...]) -> bool:
    return _grouped(builder, node, shape, shape[1])


@_rules("group_normalization")
def _group(builder: ProgramBuilder, node: Node, shape: tuple[int, ...]) -> bool:
    return _grouped(builder, node, shape, node.attrs["num_groups"])


def _grouped(builder: ProgramBuilder, node: Node, shape: tuple[int, ...], groups: int) -> bool:
    """Rows of a group's channels and space, normalized; scale and bias where they are not one and zero."""
    name, (batch, channels, *space) = node.output, shape
    positions = math.prod(space)
    rows = builder.reshape(node.inputs[0], (batch, groups, channels // groups * positions), f"{name} rows")
    one = builder.constant(f"{name} one", np.ones(1, np.float32))
    normal = builder.add("layer_normalization", (rows, one), f"{name} normal", epsilon=node.attrs["epsilon"])
    value = builder.reshape(normal, (batch, channels, positions), f"{name} channels")
    for op, given, neutral in zip(("mul", "add"), node.inputs[1:], (1, 0)):
        table = builder.program.constants.get(given)
        if table is None or np.any(table != neutral):
            column = builder.reshape(given, (channels, 1), f"{name} {op} column")
            value = builder.add(op, (value, column), f"{name} {op}")
    builder.reshape(value, shape, name)
    return True


@_rules("hardmax")
def _hardmax(builder: ProgramBuilder, node: Node, shape: tuple[int, ...]) -> bool:
    name, axis = node.output, node.attrs["axis"] % len(shape)
    place = builder.add("arg_max", node.inputs[:1], f"{name} place", axis=axis, keepdims=0)
    depth = builder.constant(f"{name} depth", np.array(shape[axis], np.int64))
    values = builder.constant(f"{name} values", np.array([0, 1], np.float32))
    builder.add("one_hot", (place, depth, values), name, axis=axis)
    return True
