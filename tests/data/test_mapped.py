"""Arrays in files: what is put away comes back, and what is let go takes no memory until it is read."""

from __future__ import annotations

import mmap
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tensmith.data.mapped import Shelf, let_go, mapping_of
from tensmith.engine.resident import resident_bytes
from tensmith.errors import OutputError

LARGE = 32 << 20


@pytest.mark.parametrize("dtype", ["float32", "int8", "int4"])
def test_what_is_put_away_comes_back(dtype: str, tmp_path: Path) -> None:
    kind = np.dtype(ml_dtypes.int4 if dtype == "int4" else dtype)
    first, second = (np.arange(300 * 401 * n).reshape(300, -1).astype(np.int8).astype(kind) for n in (1, 2))
    with Shelf(tmp_path) as shelf:
        kept = [shelf.put(first), shelf.put(second.T)]
    for array, before in zip(kept, (first, second.T)):
        assert mapping_of(array) is not None and not array.flags.writeable
        let_go(array)
        assert array.dtype == kind and np.array_equal(array, before)
    assert list(tmp_path.iterdir()) == []


def test_small_ones_and_mapped_ones_stay(tmp_path: Path) -> None:
    with Shelf(tmp_path) as shelf:
        for array in (np.arange(9), np.array(["a"] * 9000, object), shelf.put(np.zeros(1 << 16))):
            assert shelf.put(array) is array


def test_what_is_let_go_takes_no_memory(tmp_path: Path) -> None:
    with Shelf(tmp_path) as shelf:
        array = shelf.put(np.ones(LARGE, np.uint8))
    part = array[LARGE // 2 :]
    before = resident_bytes()
    assert array.sum() == LARGE
    assert resident_bytes() - before > LARGE // 2
    let_go(part)
    assert LARGE // 4 < resident_bytes() - before < LARGE * 3 // 4
    let_go(array.reshape(-1, 1024).T)
    assert resident_bytes() - before < LARGE // 4
    assert array.sum() == LARGE


def test_what_is_written_to_is_never_let_go(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(LARGE))
    array = np.memmap(tmp_path / "a", np.uint8, "c")
    array[:] = 7
    let_go(array)
    assert array.min() == 7 and isinstance(array.base, mmap.mmap) and mapping_of(array) is None


def test_a_place_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="no room for weights in"):
        Shelf(tmp_path / "nowhere")
