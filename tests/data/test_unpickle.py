"""The restricted pickle machine: reads arrays, runs nothing, survives anything."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tensmith.data.unpickle import load_arrays
from tensmith.errors import DataError

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(value=st.dictionaries(st.text(), PLAIN), protocol=st.integers(2, 5))
def test_plain_values_come_back(value: dict[str, object], protocol: int) -> None:
    assert load_arrays(pickle.dumps(value, protocol), "f") == value


@given(
    array=npst.arrays(st.sampled_from(["u1", ">i4", "<f4", "f8", "?"]), npst.array_shapes(min_side=0)),
    protocol=st.integers(2, 5),
    fortran=st.booleans(),
)
def test_arrays_come_back(array: np.ndarray, protocol: int, fortran: bool) -> None:
    array = np.asfortranarray(array) if fortran else array
    loaded = load_arrays(pickle.dumps({"a": array}, protocol), "f")["a"]
    assert np.array_equal(loaded, array, equal_nan=array.dtype.kind == "f") and loaded.dtype == array.dtype


class Evil:
    def __init__(self, function: object, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> object:
        return self.call


@pytest.mark.parametrize("protocol", range(6))
def test_no_named_function_is_called(tmp_path: Path, protocol: int) -> None:
    target = tmp_path / "made"
    for evil in (Evil(target.touch), Evil(eval, "1"), Evil(np.load, "x"), Evil(np.ndarray, (1 << 40,))):
        with pytest.raises(DataError, match="not a plain pickle"):
            load_arrays(pickle.dumps({"a": evil}, protocol), "f")
    assert not target.exists()


def test_object_arrays_are_refused() -> None:
    with pytest.raises(DataError):
        load_arrays(pickle.dumps({"a": np.array([1, "a"], object)}), "f")


def test_a_string_is_not_turned_into_bytes_again_and_again() -> None:
    text = b"x" * 100_000
    codecs, ndarray = b"c_codecs\nencode\n", b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\ntR"
    said = b"X" + len(text).to_bytes(4, "little") + text + b"q\x00"
    state = b"(K\x01(J" + len(text).to_bytes(4, "little") + b"tcnumpy\ndtype\n(X\x02\0\0\0u1tRI00\nh\x00t"
    for each in (codecs + b"(h\x00X\x06\0\0\0latin1tR", ndarray + state + b"b"):

        def arrays(count: int, each: bytes = each) -> bytes:
            filled = b"".join(b"K" + bytes([key]) + each for key in range(count))
            return b"\x80\x02}(K\xff" + said + filled + b"u."

        assert len(load_arrays(arrays(5), "f")) == 6
        with pytest.raises(DataError, match="far more bytes than it has"):
            load_arrays(arrays(20), "f")


def test_an_array_larger_than_its_bytes_is_refused() -> None:
    written = pickle.dumps({"a": np.zeros(200, np.uint8)}, 2)
    with pytest.raises(DataError, match="shape"):
        load_arrays(written.replace(b"K\xc8\x85", b"K\xc9\x85"), "f")


@given(
    protocol=st.sampled_from([2, 4]),
    edits=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=5),
    kept=st.floats(0, 1),
)
def test_mutants_give_values_or_a_data_error(
    protocol: int, edits: list[tuple[float, int]], kept: float
) -> None:
    written = bytearray(pickle.dumps({"data": np.arange(12, dtype=np.int16), "labels": [1, 2]}, protocol))
    for place, value in edits:
        written[int(place * (len(written) - 1))] = value
    for data in (bytes(written), bytes(written[: int(kept * len(written))])):
        try:
            assert isinstance(load_arrays(data, "f"), dict)
        except DataError as error:
            assert str(error).startswith("f ")
