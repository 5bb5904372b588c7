"""Planning is one walk: how often a program returns to a module of the native engine that it left.

Counted as on the compress road (`test_compress_road`), between all modules of `backend/native`.
"""

from __future__ import annotations

import numpy as np
from test_native_byte_tensors import Bytes, filters
from test_native_dynamic import encoder, product

from tensmith.backend.native.emit.source import print_c
from tensmith.backend.native.plan import make_plan
from tensmith.ir import Program
from tensmith.kernel import isa_named
from test_compress_road import Walk

MOST_RETURNS = 14  # 61 when images and tensors were grouped apart, and facts derived where they were used
_HOME = "backend.native."


def everything() -> Program:
    """Images in bytes and in floats, then rows: normalized, quantized by their range, through attention."""
    net = Bytes(1, 3, 16, 12)
    bytes_ = net.add("conv", net.pair("x", 2**-4, 113), filters(net, 20, 3, 3), pads=(1,) * 4)
    image = net.add("relu", net.conv(net.pair(bytes_, 2**-3, 128), 20, 32))
    image = net.add("max_pool", image, kernel_shape=(2, 2), strides=(2, 2))
    shape = net.constant(values=np.array([1, 32, 48]))
    rows = net.add("transpose", net.add("reshape", image, shape), perm=(0, 2, 1))
    rows = net.add("layer_normalization", rows, net.constant(32), net.constant(32), axis=-1)
    heads, turn = net.constant(values=np.array([1, 48, 2, 16])), (0, 2, 1, 3)
    encoded = encoder(net, rows)
    q, k, v = (
        net.add("transpose", net.add("reshape", product(net, encoded, 32, 32), heads), perm=turn)
        for _ in range(3)
    )
    scores = net.add("matmul", q, net.add("transpose", k, perm=(0, 1, 3, 2)))
    mixed = net.add("matmul", net.add("softmax", scores, axis=-1), v)
    flat = net.constant(values=np.array([1, 48, 32]))
    rows = net.add("reshape", net.add("transpose", mixed, perm=turn), flat)
    rows = net.add("matmul", net.pair(rows, 2**-4, 120), net.weights(32, 20))
    return net.program(net.add("reduce_max", net.add("tanh", rows), net.constant(values=np.array([1]))))


def test_a_program_is_walked_through_the_planner_once() -> None:
    program = everything()
    walk = Walk(f"{_HOME}plan", lambda caller, callee: caller.startswith(_HOME) and callee.startswith(_HOME))
    walk.follow(lambda: print_c(make_plan(program, isa_named("generic"))))
    returns = walk.returns
    lines = (f"{'R' if hop in returns else ' '} {hop[0]}.{hop[1]} -> {hop[2]}.{hop[3]}" for hop in walk.hops)
    shown = "\n".join(lines)
    assert len(walk.hops) > 30, shown
    assert len(returns) <= MOST_RETURNS, shown
