"""The runner: its list is whole, one bench that fails says why, and what is left is counted by what was."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest
from benchmarks.run import BENCHES, CACHE, QUICK, RESULTS, Bench, duration, failure, run

import benchmarks
from benchmarks import ROOT, parts, readme


class Scripted(Bench):
    """A bench whose module is a line of Python."""

    def command(self, output: Path, quick: bool, at_once: int = 1) -> list[str]:
        return [sys.executable, "-c", self.module, str(output)]


def test_every_bench_is_listed_once() -> None:
    assert len({bench.name for bench in BENCHES}) == len(BENCHES)
    listed = {bench.module for bench in BENCHES}
    assert [name for name in listed if importlib.util.find_spec(f"benchmarks.{name}") is None] == []
    runs = {
        ".".join(path.relative_to(ROOT / "benchmarks").with_suffix("").parts)
        for path in (ROOT / "benchmarks").glob("*/*.py")
        if any(call in path.read_text() for call in ("parts.run(", "parts.main("))
    }
    assert runs == listed


def test_models_at_once_are_asked_of_the_benches_that_take_it() -> None:
    for bench in BENCHES:
        path = ROOT / "benchmarks" / f"{bench.module.replace('.', '/')}.py"
        assert bench.models == ("arguments_at_once" in path.read_text()), bench.name
        assert ("--at-once" in bench.command(RESULTS, False, 2)) == bench.models


def test_what_quick_benches_keep_serves_no_others() -> None:
    for bench in BENCHES:
        path = ROOT / "benchmarks" / f"{bench.module.replace('.', '/')}.py"
        assert bool(bench.folder) == ('"--folder"' in path.read_text()), bench.name
        words = bench.command(RESULTS, True)
        places = [Path(word) for word, option in zip(words[1:], words) if option in ("--folder", "--fronts")]
        assert places[-1:] == [QUICK / bench.folder] * bool(bench.folder), bench.name
        assert not bench.folder or str(QUICK) not in " ".join(bench.command(RESULTS, False)), bench.name


def test_every_result_has_its_bench() -> None:
    assert {path.stem for path in RESULTS.glob("*.json")} <= {bench.name for bench in BENCHES}


def test_every_figure_of_readme_has_a_bench_that_runs() -> None:
    text = Path(readme.__file__).read_text()
    for bench in BENCHES:
        assert (f'"{bench.name}"' in text) == bench.readme, bench.name


def test_one_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    dies = Scripted("dies", "import os; os.abort()", 1)
    fails = Scripted("fails", "raise SystemExit(3)", 1)
    works = Scripted("works", "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text('{}')", 1)
    failed = run((dies, fails, works), tmp_path, quick=False)
    assert failed == {"dies": "died of signal 6", "fails": "ended with status 3; see above"}
    assert (tmp_path / "works.json").exists()


def test_several_at_once_have_a_core_each_and_those_of_threads_have_all(tmp_path: Path) -> None:
    program = f"""
import os, pathlib, sys
run = '{{"runs": [{{"parts": %d, "seconds": 0, "benches": %s}}]}}'
found = run % (len(os.sched_getaffinity(0)), os.environ["{parts.BENCHES}"])
pathlib.Path(sys.argv[1]).write_text(found)
"""
    benches = (*(Scripted(name, program, 1) for name in "ab"), Scripted("c", program, 1, threads=True))
    assert run(benches, tmp_path, quick=True, at_once=2) == {}
    runs = {name: json.loads((tmp_path / f"{name}.json").read_text())["runs"][0] for name in "abc"}
    cores = {name: each["parts"] for name, each in runs.items()}
    assert cores == {"a": 1, "b": 1, "c": len(os.sched_getaffinity(0))}
    assert {name: each["benches"] for name, each in runs.items()} == {"a": 2, "b": 2, "c": 1}


def test_what_was_tuned_for_the_user_serves_no_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "of the user"))
    program = """
import os, pathlib, sys
pathlib.Path(sys.argv[1]).write_text('{"settings": "%s"}' % os.environ["XDG_CACHE_HOME"])
"""
    assert run((Scripted("one", program, 1),), tmp_path, quick=True) == {}
    assert json.loads((tmp_path / "one.json").read_text()) == {"settings": str(CACHE)}


def test_a_document_and_readme_say_how_many_benches_ran_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def said() -> str:
        document = parts.run(["a"], lambda _: parts.Found(), None, {})
        return readme._provenance({"one": document}, "one")

    assert "benches" not in said()
    monkeypatch.setenv(parts.BENCHES, "2")
    assert ", up to 2 benches at once, each on a core of its own" in said()


def test_readme_marks_what_was_timed_on_a_busy_machine() -> None:
    def said(busy: bool) -> str:
        row = {"ratio": 2.0, "low": 1.9, "high": 2.1, "busy": busy}
        document = parts.run(["resnet18"], lambda _: parts.Found(row=row), None, {})
        return "\n".join(readme.native({"native": document}))

    assert "| ResNet-18 | 2.00x |" in said(False) and "busy" not in said(False)
    assert "| ResNet-18 | 2.00x† |" in said(True) and ". † The machine was busy: of means" in said(True)


def test_a_failure_is_what_the_document_says(tmp_path: Path) -> None:
    output = tmp_path / "one.json"
    output.write_text(json.dumps({"wrong": {"p": ["a is wrong"]}, "failed": {"b": "no engine"}}))
    assert failure(1, output) == "a is wrong, and 1 more"
    assert failure(0, output) == ""


@pytest.mark.parametrize(
    ("document", "minutes"),
    [
        ({"of": 4, "done": ["a"], "runs": [{"parts": 1, "seconds": 120}]}, 6),
        ({"of": 1, "done": ["a"], "runs": [{"parts": 1, "seconds": 120}]}, 0),
        ({"of": 4, "done": [], "runs": [{"parts": 0, "seconds": 0}]}, 10),
        ({"done": ["a"], "runs": [{"parts": 1, "seconds": 120}]}, 8),
        (None, 10),
    ],
)
def test_time_left(tmp_path: Path, document: object, minutes: float) -> None:
    output = tmp_path / "one.json"
    if document is not None:
        output.write_text(json.dumps(document))
    assert Bench("one", "module", 10).left(output) == minutes


def test_durations() -> None:
    assert [duration(m) for m in (0.2, 4, 125)] == ["0 min", "4 min", "2 h 5 min"]


def test_what_other_tools_made_is_not_taken_and_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cache() -> Path:
        return benchmarks.cache.__wrapped__()

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first = cache()
    monkeypatch.setattr(benchmarks, "versions", lambda: {"nncf": "0"})
    assert cache() != first and first.exists()
    os.utime(first, (0, 0))
    assert cache().exists() and not first.exists()
