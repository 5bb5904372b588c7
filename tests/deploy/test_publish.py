"""Whoever looks while a front is published, or after it was killed there, sees a whole front: old or new."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tensmith.config import make_config
from tensmith.deploy import publish as publishing
from tensmith.deploy.folder import RunFolder
from tensmith.deploy.front import Front
from tensmith.deploy.identity import run_identity
from tensmith.deploy.publish import mend, publish, staged
from tensmith.errors import OutputError, is_of_disk
from tensmith.files import sha256_file
from tensmith.search.checkpoint import Checkpoint

FAILED, KILLED = 1, 9


@pytest.fixture
def old(finished: Path, tmp_path: Path) -> dict[str, Any]:
    """A run folder `out` with a published front of three points; its document."""
    document = json.loads((finished / "front.json").read_text())
    (tmp_path / "out").mkdir()
    return published(tmp_path / "out", document, ("a", "b", "c"))


def published(out: Path, document: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    found = stage(out, document, names)
    publish(out, found)
    return found


def stage(out: Path, document: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Stages points whose files hold their name; the last one is best. Returns the new front's document."""
    points = []
    folder = staged(out, "candidates")
    for number, name in enumerate(names):
        place = folder / f"{number:03d}"
        fill(place, name, f"candidates {name}")
        files = {file.name: sha256_file(file) for file in place.iterdir()}
        points.append(document["points"][0] | {"id": name, "files": files})
    fill(staged(out, "best"), names[-1], f"best {names[-1]}")
    return document | {"points": points}


def fill(place: Path, model: str, certificate: str) -> None:
    place.mkdir(exist_ok=True)
    (place / "model.onnx").write_text(model)
    (place / "certificate.json").write_text(certificate)


def check(out: Path, fronts: list[dict[str, Any]]) -> dict[str, Any]:
    """Asserts that front.json is one of `fronts`, its points are there and best/ is a whole point."""
    front = Front.read(out)
    assert front.document in fronts
    for point in front.points:
        assert {file.name: sha256_file(file) for file in point.folder.iterdir()} == point.files
    name = (out / "best" / "model.onnx").read_text()
    assert (out / "best" / "certificate.json").read_text() == f"best {name}"
    return dict(front.document)


def killed_at(number: int, act: Callable[[], object]) -> bool:
    """Runs `act` in a child that is gone at its file operation `number`; False where it has not so many."""
    child = os.fork()
    if child == 0:
        code = FAILED
        try:
            _count_down(number)
            act()
            code = 0
        finally:
            os._exit(code)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended in (0, KILLED), "it raised"
    return ended == KILLED


def _count_down(number: int) -> None:
    """Makes the process exit in place of the file operation `number`; the writing of a file is two."""
    left = [number]

    def counted(operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if left[0] == 0:
                os._exit(KILLED)
            left[0] -= 1
            return operation(*arguments, **options)

        return call

    def write_bytes(path: Path, data: bytes) -> int:
        half = len(data) // 2
        with path.open("wb", buffering=0) as file:
            write = counted(file.write)
            return int(write(data[:half])) + int(write(data[half:]))

    Path.write_bytes = write_bytes  # type: ignore[assignment,method-assign]
    Path.write_text = lambda path, text: path.write_bytes(text.encode())  # type: ignore[method-assign]
    for name in ("rename", "replace", "unlink", "rmdir", "mkdir", "fsync", "chmod"):
        setattr(os, name, counted(getattr(os, name)))
    publishing._exchanged = counted(publishing._exchanged)


def moments(act: Callable[[], object]) -> Iterator[int]:
    """Each number of a file operation at which `act` was killed, the folder as it was then."""
    number = 0
    while killed_at(number, act):
        yield number
        number += 1


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("names", [("d", "e"), ("c", "d", "e", "f"), ("b", "a")])
def test_killed_at_every_file_operation(
    old: dict[str, Any],
    names: tuple[str, ...],
    exchange: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, kept = tmp_path / "out", tmp_path / "kept"
    if not exchange:
        monkeypatch.setattr(publishing, "_exchanged", lambda one, other: False)
    new = stage(out, old, names)
    shutil.copytree(out, kept)

    seen = []
    for _ in moments(lambda: publish(out, new)):
        if exchange or (out / "best").exists():  # without an exchange there is a moment between two renames
            seen.append(check(out, [old, new]))
        mend(out)
        assert check(out, [old, new]) == (seen or [old])[-1]
        assert settled(out)
        shutil.rmtree(out)
        shutil.copytree(kept, out)
    assert old in seen and new in seen and seen == sorted(seen, key=lambda each: each == new)
    assert check(out, [new]) == new and settled(out)  # the last child was left alone


def settled(out: Path) -> bool:
    """Whether nothing is left over: points are numbered in their order, and best/ is one of them."""
    document = json.loads((out / "front.json").read_text())
    models = [
        (out / "candidates" / f"{n:03d}" / "model.onnx").read_text() for n in range(len(document["points"]))
    ]
    return (
        sorted(each.name for each in out.iterdir()) == ["best", "candidates", "front.json"]
        and len(list((out / "candidates").iterdir())) == len(models)
        and models == [point["id"] for point in document["points"]]
        and (out / "best" / "model.onnx").read_text() in models
    )


def test_killed_while_mending(old: dict[str, Any], tmp_path: Path) -> None:
    out, kept = tmp_path / "out", tmp_path / "kept"
    new = stage(out, old, ("d", "e", "f", "g"))
    assert killed_at(11, lambda: publish(out, new))
    shutil.copytree(out, kept)
    for _ in moments(lambda: mend(out)):
        found = check(out, [old, new])
        mend(out)
        assert check(out, [old, new]) == found and settled(out)
        shutil.rmtree(out)
        shutil.copytree(kept, out)


def test_deleted_points_do_not_keep_a_run_from_going_on(old: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.rmtree(out / "candidates")
    mend(out)
    assert published(out, old, ("d", "e")) == check(out, [json.loads((out / "front.json").read_text())])
    assert settled(out)


@pytest.mark.parametrize("name", ["candidates", "best", "trained", "work", ".candidates.new"])
def test_what_a_link_leads_to_is_not_swept(name: str, tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    for folder in (out, elsewhere):
        folder.mkdir()
    (out / name).symlink_to(elsewhere)
    (elsewhere / "mine.txt").write_text("mine")
    for act in (mend, lambda out: publish(out, {})):
        with pytest.raises(OutputError, match=rf"{name} is a symbolic link"):
            act(out)
    assert (elsewhere / "mine.txt").read_text() == "mine"


def test_what_training_had_not_written_to_the_end_goes(old: dict[str, Any], tmp_path: Path) -> None:
    trained = tmp_path / "out" / "trained"
    trained.mkdir()
    for name in ("state.npz", ".state.npz.tmp-abc123"):
        (trained / name).write_text(name)
    mend(tmp_path / "out")
    assert [file.name for file in trained.iterdir()] == ["state.npz"]


def test_what_others_put_there_is_not_swept(old: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "out"
    mine = (out / ".env.old", out / ".notes.new", out / "candidates" / "notes.md")
    for file in mine:
        file.write_text("mine")
    copy = shutil.copytree(out / "candidates" / "002", out / "candidates" / "002-mine")
    shutil.rmtree(out / "candidates" / "002")
    for act in (lambda: mend(out), lambda: publish(out, stage(out, old, ("d", "e")))):
        act()
        assert [file.read_text() for file in mine] == ["mine"] * 3
        assert (copy / "model.onnx").read_text() == "c"
    assert [folder.name for folder in publishing._numbered(out / "candidates")] == ["000", "001"]


def test_the_first_front(finished: Path, tmp_path: Path) -> None:
    """Until front.json is there, no front is."""
    document = json.loads((finished / "front.json").read_text())
    out = tmp_path / "out"
    out.mkdir()
    new = stage(out, document, ("a", "b"))
    for _ in moments(lambda: publish(out, new)):
        if (out / "front.json").exists():
            assert [point.folder.exists() for point in Front.read(out).points] == [True, True]
        mend(out)
        if (out / "front.json").exists():
            assert check(out, [new]) == new
        shutil.rmtree(out)
        out.mkdir()
        stage(out, document, ("a", "b"))
    assert check(out, [new]) == new and settled(out)


def test_a_folder_is_locked_until_all_of_it_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, remove, locked = tmp_path / "out", shutil.rmtree, []

    def removing(path: Path, **options: Any) -> None:
        locked.append((out / ".lock").exists())
        remove(path, **options)

    monkeypatch.setattr(shutil, "rmtree", removing)
    config = make_config(model="m.onnx")
    with pytest.raises(ValueError), RunFolder(out, config, run_identity(config, "", ""), resume=False):
        raise ValueError
    assert locked and all(locked) and not out.exists()


@pytest.mark.parametrize("at", ["the beginning", "a candidate"])
def test_of_a_run_that_a_full_disk_ends_at_once_nothing_is_said_to_be_kept(
    at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Checkpoint, *_: object) -> None:
        with self._told():
            raise sqlite3.OperationalError("database or disk is full")

    out, config = tmp_path / "out", make_config(model="m.onnx")
    if at == "the beginning":
        monkeypatch.setattr(Checkpoint, "write", full)
    with (
        pytest.raises(
            OutputError, match=r"disk is full; nothing was measured yet, so nothing is kept"
        ) as told,
        RunFolder(out, config, run_identity(config, "", ""), resume=False) as folder,
    ):
        full(folder.checkpoint)
    assert not out.exists() and is_of_disk(told.value)
    monkeypatch.undo()
    with RunFolder(out, config, run_identity(config, "", ""), resume=False):
        pass
    with (
        pytest.raises(OutputError, match="what it held is kept"),
        RunFolder(out, config, run_identity(config, "", ""), resume=True) as folder,
    ):
        full(folder.checkpoint)
    assert out.exists()


def test_a_folder_that_was_there_stays(tmp_path: Path) -> None:
    config = make_config(model="m.onnx")
    with pytest.raises(ValueError), RunFolder(tmp_path, config, run_identity(config, "", ""), resume=False):
        raise ValueError
    assert tmp_path.is_dir() and not any(tmp_path.iterdir())


def test_best_is_one_within_the_budgets_and_else_the_original(tmp_path: Path, finished: Path) -> None:
    document = json.loads((finished / "front.json").read_text())
    found = stage(tmp_path, document, ("small", "original", "beyond"))
    small, original, beyond = found["points"]
    original["trail"], small["trail"] = [], [{"rule": "half", "kind": "lossy", "site": "*", "params": {}}]
    smaller = {**small["metrics"], "packed_bytes": {**small["metrics"]["packed_bytes"], "value": 1, "low": 1}}
    beyond |= {"within_budget": False, "metrics": smaller, "trail": small["trail"]}
    for within in (small, original):
        within["within_budget"] = True
    publish(tmp_path, {**found, "knee": "beyond"})
    front = Front.read(tmp_path)
    assert [point.within_budget for point in front.points] == [True, True, False]
    assert front.best("size").id == "small"
    assert front.knee is not None and front.knee.id == "beyond"
    small["within_budget"] = original["within_budget"] = False
    (tmp_path / "front.json").write_text(json.dumps({**found, "knee": "beyond"}))
    assert Front.read(tmp_path).best("size").id == "original"
    original["trail"] = small["trail"]
    (tmp_path / "front.json").write_text(json.dumps({**found, "knee": "beyond"}))
    with pytest.raises(OutputError, match=r"no point of .* is within its budgets or the original"):
        Front.read(tmp_path).best("size")
