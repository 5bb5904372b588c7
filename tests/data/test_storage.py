"""Files read by offset: compressed ones in streams, bounded, and cut ones refused."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensmith.data import storage
from tensmith.errors import DataError, OutputError, is_of_disk


@given(
    contents=st.lists(st.binary(max_size=300), min_size=1, max_size=3),
    padding=st.integers(0, 2),
    piece=st.integers(1, 100),
)
def test_xz_streams_decompress_as_the_standard_says(tmp_path_factory, contents, padding, piece) -> None:
    path = tmp_path_factory.mktemp("xz") / "f.xz"
    path.write_bytes((b"\0" * 4 * padding).join(lzma.compress(content) for content in contents))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "PIECE", piece)
        file = storage.open_random(path)
    assert file.read_at(0, file.size) == b"".join(contents)


def test_plain_and_gzip_files_read_alike(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    (tmp_path / "f.gz").write_bytes(gzip.compress(b"0123456789"))
    (tmp_path / "f.GZ").write_bytes(gzip.compress(b"0123456789"))
    for name in ("f", "f.gz", "f.GZ"):
        file = storage.open_random(tmp_path / name)
        assert (file.size, file.read_at(3, 4), b"".join(file.pieces(3))) == (10, b"3456", b"0123456789")
        with pytest.raises(DataError, match="ends early"):
            file.read_at(8, 4)


def test_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f.xz").write_bytes(lzma.compress(bytes(65 << 20)))
    monkeypatch.setattr(storage, "spilled", lambda pieces, name: sum(len(piece) for piece in pieces))
    storage.open_random(tmp_path / "f.xz")  # 65 MiB of 10 kB: below 64 MiB + 200 times its size
    (tmp_path / "f.xz").write_bytes(lzma.compress(bytes(70 << 20)))
    with pytest.raises(DataError, match="decompresses to more than"):
        storage.open_random(tmp_path / "f.xz")


def test_a_decoder_that_asks_for_gigabytes_is_refused(tmp_path: Path) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 300 << 20}]
    (tmp_path / "f.xz").write_bytes(lzma.compress(b"a" * 100, filters=filters))
    with pytest.raises(DataError, match=r"[Mm]emory"):
        storage.open_random(tmp_path / "f.xz")


@pytest.mark.parametrize("name", ["missing", "missing.xz", "missing.gz"])
def test_missing_files_are_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=f"{name} does not exist"):
        storage.open_random(tmp_path / name)


@pytest.mark.parametrize("name", ["f.xz", "f.gz"])
def test_empty_or_foreign_compressed_files_are_refused(tmp_path: Path, name: str) -> None:
    for content in (b"", b"not compressed"):
        (tmp_path / name).write_bytes(content)
        if content or name == "f.xz":
            with pytest.raises(DataError, match="damaged or cut off"):
                storage.open_random(tmp_path / name)


def test_a_full_temporary_folder_is_said() -> None:
    with pytest.raises(OutputError, match="set TMPDIR") as full:
        storage._write(open("/dev/full", "wb"), b"x", "f.xz")  # noqa: PTH123, SIM115
    assert is_of_disk(full.value)
