"""The arena: what lives at the same time never overlaps, and memory is used again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tensmith.backend.native.arena import Lifetime, arrange
from tensmith.kernel.buffer import ALIGNMENT

SPANS = st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 20), st.integers(0, 5)), max_size=25)


@given(SPANS)
def test_spans_alive_together_are_apart(drawn: list[tuple[int, int, int]]) -> None:
    spans = {str(i): Lifetime(size, first, first + more) for i, (size, first, more) in enumerate(drawn)}
    offsets, total = arrange(spans)
    for a, one in spans.items():
        assert offsets[a] % ALIGNMENT == 0 and offsets[a] + one.bytes <= total
        for b, other in spans.items():
            together = one.first <= other.last and other.first <= one.last
            if a < b and together:
                assert offsets[a] + one.bytes <= offsets[b] or offsets[b] + other.bytes <= offsets[a]


def test_memory_is_used_again() -> None:
    chain = {str(i): Lifetime(1024, i, i + 1) for i in range(100)}
    assert arrange(chain)[1] == 2048


def test_nothing_takes_nothing() -> None:
    assert arrange({}) == ({}, 0)
