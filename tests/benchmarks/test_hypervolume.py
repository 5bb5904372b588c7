"""The hypervolume measures what a front dominates."""

import numpy as np
from benchmarks.compress.hypervolume import hypervolume
from hypothesis import given
from hypothesis import strategies as st

points_of_integers = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=30)


@given(points_of_integers)
def test_hypervolume_is_the_share_of_cells_that_are_dominated(points: list[tuple[int, int]]) -> None:
    grid = np.indices((21, 21)).reshape(2, -1).T
    dominated = sum(any(x >= p[0] and y >= p[1] for p in points) for x, y in grid if x < 21 and y < 21)
    inside = [(float(x), float(y)) for x, y in points]
    assert hypervolume(inside, (21.0, 21.0)) == dominated


def test_a_point_outside_the_reference_adds_nothing() -> None:
    assert hypervolume([(0.5, 2.0)], (1.0, 1.0)) == 0
    assert hypervolume([(0.5, 0.5), (0.25, 0.75)], (1.0, 1.0)) == 0.25 + 0.0625
