"""Ops written as others that have fast kernels, before a program is planned: equal over the reals.

transposed convolution   a convolution that computes all s*s phases of each position, then interleaved
attention, rotary        see attention.py
hardmax                  a one-hot of the position of the largest element
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


@_rules("hardmax")
def _hardmax(builder: ProgramBuilder, node: Node, shape: tuple[int, ...]) -> bool:
    name, axis = node.output, node.attrs["axis"] % len(shape)
    place = builder.add("arg_max", node.inputs[:1], f"{name} place", axis=axis, keepdims=0)
    depth = builder.constant(f"{name} depth", np.array(shape[axis], np.int64))
    values = builder.constant(f"{name} values", np.array([0, 1], np.float32))
    builder.add("one_hot", (place, depth, values), name, axis=axis)
    return True
