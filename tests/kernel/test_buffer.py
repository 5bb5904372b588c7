"""Buffers: every element has its own address, and what was laid is read again."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tensmith.kernel import Buffer, Halo

BUFFERS = st.builds(
    Buffer,
    st.integers(1, 40), st.integers(1, 5), st.integers(1, 5), st.sampled_from([1, 4, 16, 48]),
    st.builds(Halo, *[st.integers(0, 2)] * 4),
)  # fmt: skip


@given(BUFFERS)
def test_an_image_comes_back(buffer: Buffer) -> None:
    shape = (buffer.channels, buffer.height, buffer.width)
    image = np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
    memory = buffer.lay(image, padding=np.nan)
    np.testing.assert_array_equal(buffer.read(memory), image)
    for c, i, j in np.ndindex(shape):
        assert memory[buffer.address(c, i, j)] == image[c, i, j]
    assert np.isfinite(memory).sum() - image.size == (memory == 0).sum(), "the halo is zeros"


def test_a_flat_buffer_has_its_positions_in_one_run() -> None:
    assert Buffer(16, 4, 4, 16).flat and Buffer(16, 1, 4, 16, Halo(0, 1, 0, 1)).flat
    assert not Buffer(16, 4, 4, 16, Halo(0, 0, 0, 1)).flat
