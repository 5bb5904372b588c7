"""How far arrays are apart where they hold what is infinite, or no number."""

from __future__ import annotations

import numpy as np
import pytest

from tensmith.equality.apart import distance

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize("one,other", [(INF, 1.0), (1.0, INF), (INF, -INF), (NAN, 1.0), (NAN, INF)])
def test_what_is_no_number_on_one_side_is_infinitely_far(one: float, other: float) -> None:
    assert distance(np.array([2.0, one]), np.array([2.0, other])).most == INF


@pytest.mark.parametrize("same", [NAN, INF, -INF])
def test_what_is_no_number_on_both_sides_is_equal(same: float) -> None:
    assert distance(np.array([4.0, same]), np.array([3.0, same])) == (1.0, 4.0)
    assert distance(np.array(same), np.array(same)).share == 0.0
