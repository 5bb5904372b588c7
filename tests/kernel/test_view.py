"""Views name the elements that NumPy names."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tensmith.kernel.view import StridedView, collapsed


def seen(view: StridedView, memory: np.ndarray) -> np.ndarray:
    """What a view shows of dense memory."""
    axes = (np.arange(size) * stride for size, stride in zip(view.shape, view.strides))
    places = sum(np.ix_(*axes), np.zeros((1,) * len(view.shape), int)) + view.offset
    return memory.reshape(-1)[places].reshape(view.shape)


@given(st.data())
def test_chains_of_views(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    array = memory = np.arange(np.prod(shape))
    array = array.reshape(shape)
    view = StridedView.dense(shape)
    for _ in range(data.draw(st.integers(1, 4))):
        kind = data.draw(st.sampled_from(["transpose", "slice", "expand", "reshape"]))
        if kind == "transpose":
            axes = data.draw(st.permutations(range(array.ndim)))
            view, array = view.transposed(axes), array.transpose(axes)
        elif kind == "slice":
            starts = [data.draw(st.integers(0, n - 1)) for n in array.shape]
            cut = array[tuple(slice(s, None, 2) for s in starts)]
            view, array = view.sliced(starts, [2] * array.ndim, cut.shape), cut
        elif kind == "expand":
            array = np.broadcast_to(array, (2, *array.shape))
            view = view.expanded(array.shape)
        else:
            new = (array.size,) if data.draw(st.booleans()) else (*array.shape[::-1], 1)
            found = view.reshaped(new)
            if found is None:
                continue
            view, array = found, array.reshape(new)
        np.testing.assert_array_equal(seen(view, memory), array)


def test_a_reshape_that_no_strides_say() -> None:
    assert StridedView.dense((4, 6)).transposed((1, 0)).reshaped((24,)) is None
    assert StridedView.dense((4, 2, 3)).transposed((1, 0, 2)).reshaped((2, 2, 2, 3)) is not None


def test_heads_are_split_and_joined_without_a_copy() -> None:
    split = StridedView.dense((1, 128, 768)).reshaped((1, 128, 12, 64))
    assert split is not None
    assert split.transposed((0, 2, 1, 3)) == StridedView((1, 12, 128, 64), (0, 64, 768, 1))


def test_loops_are_as_few_as_they_can_be() -> None:
    whole = StridedView.dense((2, 3, 4))
    assert collapsed((2, 3, 4), [whole, whole]) == ((24,), [(1,), (1,)])
    turned = StridedView.dense((4, 3, 2)).transposed((2, 1, 0))
    assert collapsed((2, 3, 4), [whole, turned]) == ((2, 3, 4), [(12, 4, 1), (1, 2, 6)])
    row = StridedView.dense((4,)).expanded((2, 3, 4))
    assert collapsed((2, 3, 4), [whole, row]) == ((6, 4), [(4, 1), (0, 1)])
