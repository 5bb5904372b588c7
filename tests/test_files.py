"""Files are written whole, and what a killed process left among temporary ones is swept."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tensmith import files
from tensmith.errors import OutputError
from tensmith.files import TemporaryFolder, at_home, atomic_path, locked, write_text

KILLED = """
import os, signal, sys
from pathlib import Path
from tensmith.files import TemporaryFolder
folder = TemporaryFolder(folder=Path(sys.argv[1]))
print(folder.name, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_file_is_the_old_one_until_all_of_the_new_one_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, on_disk, fsync = tmp_path / "m.onnx", {}, os.fsync

    def flush(handle: int) -> None:
        fsync(handle)
        assert place.read_text() == "old"
        on_disk[os.fstat(handle).st_ino] = os.pread(handle, 99, 0)

    monkeypatch.setattr(os, "fsync", flush)
    place.write_text("old")
    with pytest.raises(OutputError, match="no"), atomic_path(place) as written:
        written.write_text("ne")
        assert place.read_text() == "old"
        raise OSError(errno.EIO, "no")
    assert place.read_text() == "old" and list(tmp_path.iterdir()) == [place] and not on_disk
    write_text(place, "new")
    assert place.read_text() == "new" and list(tmp_path.iterdir()) == [place]
    assert on_disk == {place.stat().st_ino: b"new"}


def test_what_begins_with_a_tilde_lies_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert at_home("~/a b.onnx") == tmp_path / "a b.onnx"
    assert at_home(Path("~")) == tmp_path and at_home("x/~") == Path("x/~")
    assert at_home("~nobody-of-this-name.onnx") == Path("~nobody-of-this-name.onnx")


def test_a_killed_process_leaves_nothing_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, tmp_path], stdout=subprocess.PIPE, text=True)
    left = Path(ended.stdout.strip())
    assert left.is_dir()
    monkeypatch.setattr(files, "_YOUNG_SECONDS", -1)
    files._sweep.cache_clear()
    with TemporaryFolder(folder=tmp_path) as mine:
        assert not left.exists()
        with TemporaryFolder(folder=tmp_path):  # the living keep theirs
            assert Path(mine).is_dir()
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_locks_is_told_from_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with locked(tmp_path), pytest.raises(OutputError, match="another run is working"):
        locked(tmp_path)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(files.fcntl, "flock", refuse)
    with pytest.raises(OutputError, match=r"cannot lock .*: Function not implemented; .*with locks"):
        locked(tmp_path)
    with TemporaryFolder(folder=tmp_path) as mine:
        assert Path(mine).is_dir()


def test_a_forked_copy_leaves_it_there() -> None:
    script = (
        "import os, sys\n"
        "from tensmith.files import TemporaryFolder\n"
        "folder = TemporaryFolder()\n"
        "if os.fork() == 0:\n"
        "    sys.exit()\n"
        "os.wait()\n"
        "print(os.path.exists(folder.name))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_pipe_of_anybodys_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_YOUNG_SECONDS", -1)
    files._sweep.cache_clear()
    (tmp_path / "tensmith-x").mkdir()
    os.mkfifo(tmp_path / "tensmith-x" / ".owner")
    with TemporaryFolder(folder=tmp_path):
        assert (tmp_path / "tensmith-x").is_dir()


def test_what_is_not_ours_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_YOUNG_SECONDS", -1)
    files._sweep.cache_clear()
    (tmp_path / "tensmith-notes").mkdir()
    (tmp_path / "tensmith-link").symlink_to("/etc")
    with TemporaryFolder(folder=tmp_path):
        assert (tmp_path / "tensmith-notes").is_dir() and (tmp_path / "tensmith-link").is_symlink()


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EACCES, "check the permissions"),
        (errno.EROFS, "choose a place that can be written"),
        (errno.ENOENT, "choose another place"),
    ],
)
def test_what_cannot_be_written_is_advised_about(number: int, advice: str, tmp_path: Path) -> None:
    refused = pytest.raises(OutputError, match=f"cannot write .*m.onnx: no; {advice}$")
    with refused, atomic_path(tmp_path / "m.onnx"):
        raise OSError(number, "no")
    assert list(tmp_path.iterdir()) == []
