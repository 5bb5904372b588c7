"""Images find the channels, order and element type that a model's input has."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tensmith.data import ImageForm, ImageInput, candidates, parse_preprocess
from tensmith.errors import DataError

Sizes = tuple[int | None, ...]
F32, U8, I8 = np.dtype(np.float32), np.dtype(np.uint8), np.dtype(np.int8)
RGB = np.random.default_rng(0).integers(0, 256, (2, 3, 4, 6)).astype(np.float32)
GREY = RGB[:, :1]


def fed(images: np.ndarray, shape: Sizes, dtype: np.dtype = F32, name: str = "raw") -> np.ndarray:
    return ImageInput(parse_preprocess(name), ImageForm.of(shape, dtype, images.shape[1:]))(images)


@pytest.mark.parametrize("shape", [(None, 3, 4, 6), (1, None, None, None), (2, 3, None, None)])
def test_channels_first_stay(shape: Sizes) -> None:
    np.testing.assert_array_equal(fed(RGB, shape), RGB)


@pytest.mark.parametrize("shape", [(None, 4, 6, 3), (1, None, None, 3), (None, 4, None, None)])
def test_channels_last_are_found(shape: Sizes) -> None:
    np.testing.assert_array_equal(fed(RGB, shape), RGB.transpose(0, 2, 3, 1))


def test_pixels_alone_and_rows() -> None:
    np.testing.assert_array_equal(fed(GREY, (None, 4, 6)), GREY[:, 0])
    np.testing.assert_array_equal(fed(RGB, (None, 72)), RGB.reshape(2, 72))
    np.testing.assert_array_equal(fed(GREY, (None, 24)), GREY.reshape(2, 24))


def test_grey_becomes_colour_and_colour_grey() -> None:
    np.testing.assert_array_equal(fed(GREY, (None, 4, 6, 3)), np.repeat(GREY, 3, 1).transpose(0, 2, 3, 1))
    grey = 0.299 * RGB[:, 0] + 0.587 * RGB[:, 1] + 0.114 * RGB[:, 2]
    np.testing.assert_allclose(fed(RGB, (None, 1, 4, 6))[:, 0], grey, rtol=1e-6)


def test_colour_comes_before_the_range_of_colour() -> None:
    assert fed(GREY, (None, 3, 4, 6), name="imagenet").shape == (2, 3, 4, 6)


def test_integers() -> None:
    for dtype, name, shift in ((U8, "raw", 0), (I8, "int8", 128)):
        (one,) = candidates(3, dtype)
        found = fed(RGB, (1, 4, 6, 3), dtype, one.name)
        assert one.name == name and found.dtype == dtype
        np.testing.assert_array_equal(found.astype(int), RGB.transpose(0, 2, 3, 1) - shift)
    assert fed(RGB, (None, 3, 4, 6), I8).max() == 127  # out of range: no wrapping


@pytest.mark.parametrize("shape", [(1, 3, 5, 6), (1, 2, 4, 6), (None, 3), (1, 4, 6, 3, 1), (1, 6, 4)])
def test_other_sizes_are_refused_with_both(shape: Sizes) -> None:
    with pytest.raises(DataError, match=r"are \[3, 4, 6\], and input .*size"):
        fed(RGB, shape)


def test_what_is_written_down_is_read_again() -> None:
    before = ImageInput(parse_preprocess("0.5/0.1"), ImageForm.of((None, 4, 6, 1), U8, (3, 4, 6)))
    after = ImageInput.from_json(json.loads(json.dumps(before.to_json())))
    assert after == before
    np.testing.assert_array_equal(after(RGB), before(RGB))
