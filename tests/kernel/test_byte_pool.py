"""Maxima of bytes, in blocks and channels last, with whatever lies around the images; of planes, which."""

from __future__ import annotations

import ctypes

import numpy as np
from kernel_runs import Array, copy

from tensmith.kernel import host_isa
from tensmith.kernel.buffer import Buffer, Halo
from tensmith.kernel.routines.pool import PoolRoutine
from tensmith.kernel.toolchain import compile_library

_ENTRY = """
__attribute__((visibility("default"))) void run{0}(const float *in, float *out) {{ f{0}(&in, 0, out, 0); }}
"""


def drawn(random: np.random.Generator, lanes: int, last: bool) -> tuple[PoolRoutine, Buffer, Buffer]:
    """A pool with what it reads and writes; `last`: both have their channels last."""
    (tall, wide), strides, dilations = random.integers(1, 4, (3, 2)).tolist()
    pads = [int(random.integers(0, size)) for size in (tall, wide)]
    height, width = (int(random.integers(11, 20)) for _ in range(2))
    channels = 3 * lanes
    sizes = [
        (extent + 2 * pad - dilation * (size - 1) - 1) // stride + 1
        for extent, pad, size, stride, dilation in zip(
            (height, width), pads, (tall, wide), strides, dilations
        )
    ]
    block = channels if last else lanes
    halos = (Halo(*map(int, random.integers(0, 3, 4))) for _ in range(2))
    source, target = (
        Buffer(channels, down, along, block, halo, "u8")
        for (down, along), halo in zip(((height, width), sizes), halos)
    )
    routine = PoolRoutine(
        "max", (tall, wide), tuple(strides), (pads[0], pads[1]), lanes, dilations=tuple(dilations)
    )
    return routine, source, target


def largest(pool: PoolRoutine, image: Array, target: Buffer) -> Array:
    """By the definition."""
    found = np.zeros((target.channels, target.height, target.width), np.uint8)
    for i, j in np.ndindex(target.height, target.width):
        rows, columns = (
            [p for p in range(at * stride - pad, at * stride - pad + size * dilation, dilation) if 0 <= p < n]
            for at, stride, pad, size, dilation, n in zip(
                (i, j), pool.strides, pool.pads, pool.window, pool.dilations, image.shape[1:]
            )
        )
        found[:, i, j] = image[:, rows][:, :, columns].max((1, 2), initial=0)
    return found


def test_no_window_is_too_tall_or_wide_for_the_stack_of_planes() -> None:
    def taken(window: tuple[int, int], pads: tuple[int, int] = (1, 1), apart: int = 1) -> bool:
        return PoolRoutine("max", window, (1, 1), pads, 8, (1, apart)).takes_planes(32, 32)

    assert taken((3, 3)) and taken((64, 3), (63, 1))
    assert not taken((200_000_000, 3)) and not taken((3, 3), (1, 10**8)) and not taken((3, 3), apart=10**8)


def test_maxima_in_both_layouts() -> None:
    random, isa = np.random.default_rng(5), host_isa()
    cases = [drawn(random, isa.lanes, last) for last in (False, True) for _ in range(20)]
    texts = (work.code(f"f{n}", (x,), y) + _ENTRY.format(n) for n, (work, x, y) in enumerate(cases))
    library = ctypes.CDLL(str(compile_library(isa.prelude + "".join(texts), isa)))
    for n, (work, source, target) in enumerate(cases):
        image = random.integers(0, 256, (source.channels, source.height, source.width)).astype(np.uint8)
        old = np.full((target.channels, target.height, target.width), 9, np.uint8)
        data, found = copy(source.lay(image, border=255)), copy(target.lay(old, border=7))
        getattr(library, f"run{n}")(*(ctypes.c_void_p(a.ctypes.data) for a in (data, found)))
        expected = target.lay(largest(work, image, target), border=7)
        assert np.array_equal(found, expected), (work, source, target)
