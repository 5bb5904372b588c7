"""Kernels whose taps foretell one another cost less, and come back whatever they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_samples import model_of, tensor

from tensmith.backend.packed import describe, integers, pack, predicted, unpack
from tensmith.backend.packed.integers import decode_integers, encode_integers
from tensmith.backend.packed.rans import Decoder, encode, lanes_for
from tensmith.backend.packed.streams import Cursor, EncodedTensor, StreamReader, number
from tensmith.errors import ModelError


def smooth(shape: tuple[int, ...], seed: int = 0, top: int = 127) -> np.ndarray:
    """Filters that change little from tap to tap, of very different size."""
    rng = np.random.default_rng(seed)
    walk = rng.normal(size=shape)
    for axis in range(2, len(shape)):
        walk = np.cumsum(walk, axis)
    sizes = rng.lognormal(0, 1, (*shape[:2], *(1,) * (len(shape) - 2)))
    return (walk * sizes * top / 30).round().clip(-top, top).astype(np.int64)


def reader_of(encoded: EncodedTensor, symbols: int) -> StreamReader:
    lanes = lanes_for(symbols)
    return StreamReader(encoded.parameters, encoded.plain, Decoder(encode(encoded.batches, lanes), lanes))


def read_back(encoded: EncodedTensor, values: np.ndarray) -> np.ndarray:
    reader = reader_of(encoded, values.size)
    found = decode_integers(reader, values.shape, values.size)
    reader.finish()
    return found.reshape(values.shape)


def forced(values: np.ndarray) -> EncodedTensor:
    """Written by `predicted`, whatever that costs."""
    found = predicted.encode(values.ravel(), values.shape, float("inf"))
    assert found is not None
    return EncodedTensor(number(integers._PREDICTED)) + found


def model_number(encoded: EncodedTensor) -> int:
    return Cursor(encoded.parameters).number(0, 9)


@pytest.mark.parametrize(
    "shape",
    [(16, 8, 3, 3), (64, 1, 3, 3), (12, 9, 5), (6, 5, 2), (1, 1, 8, 8), (4, 4, 7, 7), (3, 3, 2, 2, 3)],
)
def test_kernels_of_any_shape_come_back(shape: tuple[int, ...]) -> None:
    values = smooth(shape)
    assert np.array_equal(read_back(forced(values), values), values)


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 1023), st.floats(0, 0.95), st.integers(-2000, 2000))
def test_any_integers_come_back(seed: int, top: int, zeros: float, shift: int) -> None:
    values = smooth((5, 4, 3, 2), seed, top)
    values[np.random.default_rng(seed).random(values.shape) < zeros] = 0
    if values.min() < values.max():
        assert np.array_equal(read_back(forced(values + shift), values + shift), values + shift)


def test_smooth_kernels_cost_less_than_their_entropy() -> None:
    """The twin, the same kernels with their taps shuffled, gains from their sizes alone."""
    values = smooth((64, 32, 3, 3), top=7)
    twin = np.random.default_rng(1).permuted(values.reshape(64, 32, 9), axis=2).reshape(values.shape)
    bits = []
    for each in (values, twin):
        encoded = encode_integers(each.ravel(), each.shape)
        assert encoded is not None
        assert model_number(encoded) == integers._PREDICTED
        bits.append(encoded.bits / each.size)
    counts = np.unique(values, return_counts=True)[1] / values.size
    entropy = -(counts * np.log2(counts)).sum()
    assert bits[0] < bits[1] - 0.1 < entropy - 0.3


def test_noise_is_not_predicted() -> None:
    values = np.random.default_rng(0).normal(0, 3, (32, 32, 3, 3)).round().astype(np.int64)
    encoded = encode_integers(values.ravel(), values.shape)
    assert encoded is not None and model_number(encoded) != integers._PREDICTED


def test_tensors_without_taps_are_left_to_others() -> None:
    for shape in ((40, 30), (200,), (9, 4, 1, 1), (2, 2, 100)):
        values = np.random.default_rng(0).integers(-7, 8, shape)
        assert predicted.encode(values.ravel(), shape, float("inf")) is None


def test_taps_where_a_tensor_has_none_are_refused() -> None:
    encoded = forced(smooth((16, 8, 3, 3)))
    for shape in ((16, 72), (1152,), (16, 8, 9, 1, 1, 0)):
        reader = reader_of(encoded, 16 * 8 * 9)
        with pytest.raises(ModelError, match="foretells taps where a tensor has none"):
            decode_integers(reader, shape, 1152)


def test_a_file_uses_it() -> None:
    values = smooth((32, 16, 3, 3), top=7).astype(np.int8)
    model = model_of(tensor("w", values))
    packed = pack(model)
    assert unpack(packed) == model
    counts = np.unique(values, return_counts=True)[1] / values.size
    assert describe(packed)[0].bits < -(counts * np.log2(counts)).sum() - 0.3
