"""Copies of parts of images into parts of others, whatever the layouts of both."""

from __future__ import annotations

import ctypes

import numpy as np
from kernel_runs import Array, copy

from tensmith.kernel import host_isa
from tensmith.kernel.buffer import Buffer, Halo
from tensmith.kernel.routines.copy import Copy
from tensmith.kernel.toolchain import compile_library

_ENTRY = """
__attribute__((visibility("default"))) void run{0}(const float *in, float *out) {{ f{0}(&in, 0, out, 0); }}
"""


def drawn(random: np.random.Generator) -> tuple[Copy, Buffer, Buffer]:
    """A copy with what it reads and writes."""

    def buffer(sizes: Array) -> Buffer:
        halo = Halo(*map(int, random.integers(0, 3, 4)))
        channels, height, width = map(int, sizes)
        return Buffer(channels, height, width, int(random.choice([1, 4, 16])), halo, dtype)

    dtype = str(random.choice(["f32", "u8"]))
    start, at, steps = (random.integers(0, most, len(most)) for most in ([20, 3, 3], [20, 3, 3], [2, 2]))
    extent = random.integers(1, [40, 6, 9])
    strides = np.array([1, *(steps + 1)])
    source = buffer(start + (extent - 1) * strides + 1 + random.integers(0, 3, 3))
    target = buffer(at + extent + random.integers(0, 3, 3))
    places = [(int(c), int(i), int(j)) for c, i, j in (at, start, extent)]
    down, right = map(int, steps + 1)
    return Copy(places[0], places[1], (down, right), places[2], bool(random.integers(2))), source, target


def test_a_part_of_an_image_is_copied_and_nothing_else_is_touched() -> None:
    random = np.random.default_rng(3)
    cases = [drawn(random) for _ in range(60)]
    texts = (work.code(f"f{n}", (x,), y) + _ENTRY.format(n) for n, (work, x, y) in enumerate(cases))
    library = ctypes.CDLL(str(compile_library(host_isa().prelude + "".join(texts), host_isa())))
    for n, (work, source, target) in enumerate(cases):
        image, old = (
            random.integers(1, 250, (b.channels, b.height, b.width)).astype(
                "f4" if b.dtype == "f32" else "u1"
            )
            for b in (source, target)
        )
        data, found = copy(source.lay(image)), copy(target.lay(old, border=7))
        getattr(library, f"run{n}")(*(ctypes.c_void_p(a.ctypes.data) for a in (data, found)))
        assert work.extent is not None
        expected = np.zeros_like(old) if work.fill else old
        read, written = (
            tuple(
                slice(i, i + (size - 1) * step + 1, step) for i, size, step in zip(place, work.extent, steps)
            )
            for place, steps in ((work.start, (1, *work.steps)), (work.at, (1, 1, 1)))
        )
        expected[written] = image[read]
        assert np.array_equal(target.read(found), expected), (work, source, target)
        if not target.channels % target.block:  # else the last lanes hold anything
            assert np.array_equal(target.lay(expected, border=7), found), (work, source, target)
