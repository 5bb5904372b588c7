"""Integers that a trellis made: known by what they are, smaller, read by NumPy and C, refused elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_samples import model_of, on_trellis, tensor

from tensmith.backend.packed import integers, pack, scaled, unpack
from tensmith.backend.packed.frequency import magnitude_bins
from tensmith.backend.packed.integers import decode_integers, encode_integers
from tensmith.backend.packed.rans import TOTAL, Decoder, encode, lanes_for
from tensmith.backend.packed.scaled import SpreadShape
from tensmith.backend.packed.streams import Cursor, EncodedTensor, StreamReader, number
from tensmith.errors import ModelError
from tensmith.trellis import quantizers


def codes(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).laplace(0, 1, shape).round().astype(np.int64)


def model_number(encoded: EncodedTensor) -> int:
    return Cursor(encoded.parameters).number(0, 9)


def encoded(values: np.ndarray) -> EncodedTensor:
    found = encode_integers(values.ravel(), values.shape)
    assert found is not None
    return found


@pytest.mark.parametrize("shape", [(64, 32, 3, 3), (48, 32, 5), (96, 64)])
def test_they_take_the_bits_of_their_codes(shape: tuple[int, ...]) -> None:
    plain = codes(shape)
    made = on_trellis(plain)
    assert model_number(encoded(made)) == integers._DEPENDENT
    assert encoded(made).bits < 1.02 * encoded(plain).bits
    spoiled = made.copy()
    spoiled[0, 0] += 1
    assert model_number(encoded(spoiled)) < integers._DEPENDENT
    assert encoded(made).bits < 0.85 * encoded(spoiled).bits


def test_of_a_matrix_stored_the_other_way_round_they_are_found_too() -> None:
    made = on_trellis(codes((64, 40)))
    turned = np.ascontiguousarray(made.T)
    assert model_number(encoded(turned)) == integers._TURNED
    assert encoded(turned).bits == encoded(made).bits


@settings(max_examples=25)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(16, 40),
    st.integers(32, 40),
    st.sampled_from([(), (1,), (3, 3), (7,)]),
)
def test_they_come_back(seed: int, rows: int, columns: int, taps: tuple[int, ...]) -> None:
    made = on_trellis(codes((rows, columns, *taps), seed)).clip(-127, 127).astype(np.int8)
    whole = model_of(tensor("w", made), tensor("v", made.reshape(rows, -1).T))
    file = pack(whole)
    assert unpack(file, compiled=True) == unpack(file, compiled=False) == whole


@pytest.mark.parametrize("shape", [(15, 64), (64, 31), (4097, 32), (64,)])
def test_few_rows_and_narrow_ones_are_coded_without(shape: tuple[int, ...]) -> None:
    made = on_trellis(codes((shape[0], *shape[1:])))
    assert model_number(encoded(made)) < integers._DEPENDENT


@pytest.mark.parametrize(
    ("model", "shape"), [("_DEPENDENT", (15, 32)), ("_DEPENDENT", (64,)), ("_TURNED", (64, 32, 3))]
)
def test_a_file_that_has_them_where_they_cannot_be_is_refused(model: str, shape: tuple[int, ...]) -> None:
    head = EncodedTensor(number(getattr(integers, model)) + number(integers._SCALED))
    lanes = lanes_for(64)
    reader = StreamReader(head.parameters, b"", Decoder(encode((), lanes), lanes))
    with pytest.raises(ModelError, match="damaged"):
        decode_integers(reader, shape, int(np.prod(shape)))


def test_zeros_alone_are_of_no_trellis() -> None:
    assert model_number(encoded(np.zeros((64, 16), np.int64))) < integers._DEPENDENT
    assert quantizers(np.zeros((64, 16), np.int64)) is not None


class _Falling(scaled._Choice):
    """Costs less the lower the base is."""

    def __init__(self) -> None:
        self.counts = np.ones((1, 3), np.int64)

    def table(self, shape: SpreadShape) -> np.ndarray:
        return np.full((1, 3), TOTAL // 3)

    def cost(self, shape: SpreadShape) -> float:
        return shape.base


def test_no_base_is_written_that_a_reader_refuses() -> None:
    found = scaled._fit(_Falling(), SpreadShape(-40, (0, 0, 0)), magnitude_bins(-1, 1))
    assert found.base == scaled._BASES[0]


@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_of_a_trellis_without_a_zero_come_back(sign: int) -> None:
    """Their alphabet would lie beside 0."""
    made = on_trellis(np.random.default_rng(0).geometric(0.4, (64, 64)).clip(1, 50))
    assert made.min() > 0
    whole = model_of(tensor("w", (sign * made).astype(np.int8)))
    assert unpack(pack(whole)) == whole
