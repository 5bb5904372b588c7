"""Long benches go on where they were stopped, and say of which commits their counts are."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks import parts
from tensmith.errors import EngineError

SETTINGS = {"bench": "test"}


class Counting:
    """Work that remembers what it was given, and ends the program at a part."""

    def __init__(self, last: int | None = None) -> None:
        self.given: list[int] = []
        self.last = last

    def __call__(self, part: int) -> parts.Found:
        if part == self.last:
            raise KeyboardInterrupt
        self.given.append(part)
        return parts.Found({"made": 1, "by": {"odd": part % 2}}, (f"{part} is 3",) if part == 3 else ())


def run(work: Counting, output: Path | None, count: int = 5) -> parts.Document:
    return parts.run({f"part {n}": n for n in range(count)}, work, output, SETTINGS)


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    output = tmp_path / "folder" / "found.json"
    with pytest.raises(KeyboardInterrupt):
        run(Counting(last=2), output)
    assert json.loads(output.read_text())["done"] == ["part 0", "part 1"]
    rest = Counting()
    document = run(rest, output)
    assert rest.given == [2, 3, 4] and document == json.loads(output.read_text())
    assert document["counts"] == {"made": 5, "by": {"odd": 2}} and document["wrong"] == {"part 3": ["3 is 3"]}
    assert [entry["parts"] for entry in document["runs"]] == [2, 3]
    assert run(Counting(), output) == document
    assert run(Counting(), output, count=6)["counts"]["made"] == 6


def test_a_fault_is_tried_again_by_another_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "found.json"
    monkeypatch.setattr(parts, "_commit", lambda: "before")
    run(Counting(), output)
    monkeypatch.setattr(parts, "_commit", lambda: "after")
    again: list[int] = []

    def mended(part: int) -> parts.Found:
        again.append(part)
        return parts.Found({"made": 1, "by": {"odd": 7}})

    assert parts.read(output)["counted"] == {"part 3": {"made": 1, "by": {"odd": 1}}}
    document = parts.run({f"part {n}": n for n in range(5)}, mended, output, SETTINGS)
    assert again == [3] and document["wrong"] == {} and document["counted"] == {}
    assert document["counts"] == {"made": 5, "by": {"odd": 2 - 1 + 7}}
    assert document["mended"] == {"part 3": {"commit": "after", "said": ["3 is 3"]}}
    assert parts.ended(document) == 0


def test_without_output_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(Counting(), None)["counts"]["made"] == 5
    assert not list(tmp_path.iterdir())


def test_other_settings_are_refused(tmp_path: Path) -> None:
    output = tmp_path / "found.json"
    run(Counting(), output)
    with pytest.raises(SystemExit, match="of other settings"):
        parts.run({"part 0": 0}, Counting(), output, {"bench": "another"})


def test_what_is_asked_for_otherwise_than_by_itself_is_a_setting() -> None:
    parser = parts.arguments(None)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--tokens", type=int, default=120)
    options = parser.parse_args(["--minutes", "0.5", "--tokens", "120"])
    assert parts.unusual(parser, options, "minutes", "tokens") == {"minutes": 0.5}


def cores(part: int) -> parts.Found:
    time.sleep(1.0)  # that no process does two before the other has done one
    return parts.Found(row={"cores": sorted(os.sched_getaffinity(0))})


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_parts_at_once_have_a_core_each_and_the_run_says_so() -> None:
    document = parts.run({"a": 1, "b": 2, "c": 3}, cores, None, SETTINGS, 2, pinned=True)
    seen = [row["cores"] for row in document["rows"].values()]
    assert all(len(each) == 1 for each in seen) and len(set(map(tuple, seen))) == 2
    assert list(document["rows"]) == ["a", "b", "c"]
    assert document["runs"][0]["at_once"] == 2


@pytest.mark.parametrize("asked", ["0", "10000", "two"])
def test_more_at_once_than_there_are_cores_is_refused(asked: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parts.arguments_at_once(None).parse_args(["--at-once", asked])
    assert "argument --at-once" in capsys.readouterr().err


def test_every_run_says_its_commit_and_processor() -> None:
    (entry,) = run(Counting(), None)["runs"]
    assert entry["commit"] and entry["cpu"] and entry["seconds"] >= 0
    assert entry["load"] >= 0 and entry["date"].startswith("20")


def test_a_part_that_fails_says_why_and_is_tried_again(tmp_path: Path) -> None:
    output, ready = tmp_path / "found.json", False

    def work(part: int) -> parts.Found:
        if part == 1 and not ready:
            raise EngineError("no such engine")
        return parts.Found(row={"ms": part})

    every = {"a": 0, "b": 1, "c": 2}
    document = parts.run(every, work, output, SETTINGS)
    assert document["done"] == ["a", "c"] and document["failed"] == {"b": "no such engine"}
    assert parts.ended(document) == 1
    ready = True
    document = parts.run(every, work, output, SETTINGS)
    assert document["rows"] == {"a": {"ms": 0}, "c": {"ms": 2}, "b": {"ms": 1}}
    assert document["failed"] == {} and parts.ended(document) == 0


def test_main_gives_work_what_it_takes_and_says_how_it_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "found.json"

    def work(name: str, options: int) -> parts.Found:
        return parts.Found(row={"ms": float(np.float32(1e30) * np.float32(1e30)), "options": options})

    assert parts.main(["a", "b"], work, output, SETTINGS, options=7) == 0
    assert parts.read(output)["rows"]["b"]["options"] == 7 and parts.read(output)["done"] == ["a", "b"]
    assert "0 wrong, 0 failed" in capsys.readouterr().out
