"""What is kept is used only as it was written, and only from a folder that is this user's alone."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from tensmith import cache
from tensmith.cache import CacheWarning, cached, fetch, find, user_cache
from tensmith.files import TemporaryFolder, _sweep

OF = {"command": "cc -O2", "text": "abc"}


class Maker:
    """Writes an entry of two files, and counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, folder: Path) -> None:
        self.count += 1
        folder.mkdir()
        (folder / "library.so").write_bytes(b"machine code")
        (folder / "notes").write_text("more")


@pytest.fixture
def make() -> Maker:
    return Maker()


def test_an_entry_is_made_once_for_what_it_is_made_of(tmp_path: Path, make: Maker) -> None:
    first = fetch(tmp_path, OF, make)
    assert fetch(tmp_path, OF, make) == first == find(tmp_path, OF)
    assert fetch(tmp_path, OF | {"text": "abd"}, make) != first
    assert make.count == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: (entry / "library.so").write_bytes(b"other code"),
        lambda entry: (entry / "library.so").unlink(),
        lambda entry: (entry / "added").write_text(""),
        lambda entry: (entry / "added").mkdir(),
        lambda entry: (entry / "added").symlink_to("nothing"),  # as a file that goes while it is looked at
        lambda entry: (entry / cache.RECORD).unlink(),
        lambda entry: (entry / cache.RECORD).write_text("[" * 100),
        lambda entry: (entry / cache.RECORD).write_text('{"of": {}, "files": {}}'),
    ],
    ids=["replaced", "removed", "added", "a folder", "gone", "no record", "broken record", "another record"],
)
def test_what_is_not_as_it_was_written_is_made_again(
    tmp_path: Path, make: Maker, damage: Callable[[Path], object]
) -> None:
    entry = fetch(tmp_path, OF, make)
    damage(entry)
    assert find(tmp_path, OF) is None
    assert fetch(tmp_path, OF, make) == entry
    assert (entry / "library.so").read_bytes() == b"machine code"
    assert make.count == 2
    assert [path.name for path in tmp_path.iterdir()] == [entry.name]


def test_what_another_process_made_meanwhile_stays(tmp_path: Path, make: Maker) -> None:
    """It may be reading it."""
    written: list[int] = []

    def later(folder: Path) -> None:
        written.append((fetch(tmp_path, OF, make) / "notes").stat().st_ino)
        make(folder)

    assert (fetch(tmp_path, OF, later) / "notes").stat().st_ino == written[0]
    assert make.count == 2


def test_an_entry_moved_to_another_s_place_is_not_taken_for_it(tmp_path: Path, make: Maker) -> None:
    other = fetch(tmp_path, OF | {"text": "another"}, make)
    other.rename(tmp_path / cache._name(OF))
    assert find(tmp_path, OF) is None


def test_what_was_not_used_for_long_makes_room(tmp_path: Path, make: Maker) -> None:
    entries = [cached(tmp_path, OF | {"text": text}, make, 1 << 20) for text in ("old", "middle", "new")]
    for age, entry in enumerate(entries):
        os.utime(entry, (age, age))
    assert cached(tmp_path, OF | {"text": "old"}, make, 1 << 20) == entries[0]
    size = sum(file.stat().st_size for file in entries[0].iterdir())
    newest = cached(tmp_path, OF | {"text": "newest"}, make, int(2.5 * size))
    assert set(tmp_path.iterdir()) == {entries[0], newest}


def test_a_stray_file_is_no_entry_and_keeps_none(tmp_path: Path, make: Maker) -> None:
    old = fetch(tmp_path, OF, make)
    os.utime(old, (0, 0))
    (tmp_path / "notes").write_text("somebody's")
    newest = cached(tmp_path, OF | {"text": "newest"}, make, 1)
    assert set(tmp_path.iterdir()) == {newest, tmp_path / "notes"}


def test_a_room_that_cannot_be_written_is_read(
    tmp_path: Path, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, access = cached(tmp_path / "room", OF, make, 1 << 20), os.access

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "utime", refuse)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))
    assert cached(tmp_path / "room", OF, make, 1 << 20) == first
    other = OF | {"text": "another"}
    with pytest.warns(CacheWarning, match="nothing can be written there"):
        own = cached(tmp_path / "room", other, make, 1 << 20)
    assert tmp_path not in own.parents
    assert cached(tmp_path / "room", other, make, 1 << 20) == own
    assert make.count == 2 and list((tmp_path / "room").iterdir()) == [first]


def test_a_user_without_a_home_has_a_cache_for_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", unknown)
    with pytest.warns(CacheWarning, match="no home folder"):
        room = user_cache("native")
    assert room.parent.is_dir()


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        folder.mkdir()
        raise ValueError

    with pytest.raises(ValueError):
        fetch(tmp_path, OF, fail)
    assert not list(tmp_path.iterdir())


def test_the_cache_is_this_user_s_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert user_cache("native") == tmp_path / "cache" / "tensmith" / "native"
    assert (tmp_path / "cache" / "tensmith").stat().st_mode & 0o777 == 0o700
    (tmp_path / "cache" / "tensmith").chmod(0o755)  # as older versions made it
    assert user_cache("native").parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("place", ["", "cache"])
def test_a_place_that_depends_on_the_folder_is_none(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", place)
    assert user_cache("native") == tmp_path / "home" / ".cache" / "tensmith" / "native"


@pytest.mark.parametrize(
    ("open_up", "reason"),
    [
        (lambda folder, _: folder.chmod(0o777), "others may write to it"),
        (lambda _, patch: patch.setattr(os, "geteuid", lambda: 12345), "it belongs to user"),
    ],
    ids=["writable", "foreign"],
)
def test_a_cache_that_others_write_is_not_used(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    open_up: Callable[[Path, pytest.MonkeyPatch], object],
    reason: str,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    user_cache("native")
    open_up(tmp_path / "tensmith", monkeypatch)
    with pytest.warns(CacheWarning, match=f"tensmith is not used: {reason}"):
        instead = user_cache("native")
    assert tmp_path not in instead.parents
    with warnings.catch_warnings(action="error"):
        assert user_cache("native") == instead  # said once


def test_a_scratch_folder_goes_with_its_owner_even_if_that_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = (
        "from tensmith.files import TemporaryFolder\n"
        "made = TemporaryFolder('tensmith-x-'); print(made.name, flush=True); input()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    os.utime(folder / ".owner", (0, 0))  # old enough to be looked at

    def sweep() -> None:
        _sweep.cache_clear()
        TemporaryFolder().cleanup()

    sweep()
    assert folder.is_dir()  # its owner lives
    process.kill()
    process.communicate()
    sweep()
    assert not list(tmp_path.iterdir())
