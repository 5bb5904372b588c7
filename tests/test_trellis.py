"""The machine that leads from one quantizer to the other."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tensmith.trellis import following, has_odd, quantizers

# By state: its quantizer, and the state after an even code, and after an odd one (H.266, clause 7.3.11).
STATES = ((0, 0, 2), (0, 2, 0), (1, 1, 3), (1, 3, 1))


def numbers_of(codes: list[int]) -> tuple[list[int], list[bool]]:
    """What codes stand for, one after the other, and the quantizers that it goes by."""
    state, numbers, odd = 0, [], []
    for code in codes:
        quantizer, even, uneven = STATES[state]
        sign = (code > 0) - (code < 0)
        numbers.append(2 * code - quantizer * sign)
        odd.append(quantizer == 1)
        state = uneven if code % 2 else even
    return numbers, odd


@given(st.lists(st.lists(st.integers(-9, 9), min_size=5, max_size=5), min_size=1, max_size=4))
def test_quantizers_follow_from_the_numbers_that_codes_stand_for(columns: list[list[int]]) -> None:
    made = [numbers_of(codes) for codes in columns]
    numbers = np.array([each for each, _ in made]).T
    found = quantizers(numbers)
    assert found is not None
    np.testing.assert_array_equal(found, np.array([odd for _, odd in made]).T)


def test_states_are_those_of_the_table() -> None:
    states = np.arange(4)
    assert has_odd(states).tolist() == [False, False, True, True]
    for code in (0, 1, 2, 3):
        numbers = np.array([2 * code - (quantizer if code else 0) for quantizer, _, _ in STATES])
        wanted = [uneven if code % 2 else even for _, even, uneven in STATES]
        assert following(states, numbers).tolist() == following(states, -numbers).tolist() == wanted


def test_other_numbers_are_of_no_trellis() -> None:
    assert quantizers(np.array([[1], [0]])) is None  # quantizer 0 begins
    assert quantizers(np.array([[2], [2]])) is None  # an odd code leads to quantizer 1
    assert quantizers(np.array([[2], [0], [0]])) is not None
