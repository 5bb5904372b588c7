"""The database of measured kernels: what holds, for whom, and what happens to a damaged or full one."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tensmith.cache import CacheWarning
from tensmith.errors import OutputError
from tensmith.kernel import ConvolutionProblem, Kernel, candidates, host_isa, isa_named, timings
from tensmith.kernel.scheduled import Scheduled
from tensmith.kernel.timings import Timings

PROBLEM = ConvolutionProblem(32, 8, 8, 32, (3, 3), pads=(1, 1, 1, 1))


@pytest.fixture
def kernel() -> Kernel:
    return candidates(PROBLEM, host_isa())[0]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "timings.sqlite"


def test_an_entry_comes_back_for_its_memory_and_machine_only(path: Path, kernel: Kernel) -> None:
    made = Timings(path)
    assert made.known([kernel], 0) == {} and not path.exists()  # reading makes no file
    made.add(kernel, 0, 1e-6)
    again = Timings(path)
    assert again.known([kernel], 0) == {kernel: 1e-6}
    assert again.known([kernel], 1) == {}
    elsewhere = candidates(PROBLEM, isa_named("generic"))
    assert again.known(elsewhere, 0) == {}


def test_a_changed_template_is_timed_anew(
    path: Path, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Timings(path)
    made.add(kernel, 0, 1e-6)
    monkeypatch.setattr(timings, "code_version", lambda _: "another text")
    assert made.known([kernel], 0) == {}
    made.add(kernel, 0, 2e-6)
    assert made.known([kernel], 0) == {kernel: 2e-6}


def test_the_revision_tells_entries_apart(path: Path, kernel: Kernel) -> None:
    made = Timings(path)
    seen = [made.revision()]
    for memory, seconds in ((0, 1e-6), (0, 2e-6), (1, 2e-6)):
        made.add(kernel, memory, seconds)
        seen.append(Timings(path).revision())
    assert len(set(seen)) == 4
    made.add(kernel, 1, 2e-6)
    assert made.revision() == seen[-1]


def test_a_new_database_is_another_revision_if_it_holds_other_figures(tmp_path: Path, kernel: Kernel) -> None:
    made = [Timings(tmp_path / name) for name in ("first", "second", "third")]
    for timings_, seconds in zip(made, (1e-6, 2e-6, 1e-6)):
        timings_.add(kernel, 0, seconds)
    first, second, third = (timings_.revision() for timings_ in made)
    assert first != second and first == third


def test_near_shapes_come_in_order_and_other_kinds_not_at_all(path: Path) -> None:
    made = Timings(path)
    shapes = {"far": 256, "near": 64, "same": 32}
    for channels in shapes.values():
        same = ConvolutionProblem(channels, 8, 8, channels, (3, 3), pads=(1, 1, 1, 1))
        made.add(candidates(same, host_isa())[shapes["far"] // channels % 3], 0, 1e-6)
    strided = ConvolutionProblem(33, 8, 8, 32, (3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    made.add(candidates(strided, host_isa())[0], 0, 1e-6)
    expected = [str(candidates(ConvolutionProblem(c, 8, 8, c, (3, 3), pads=(1, 1, 1, 1)), host_isa())[i])
                for c, i in ((64, 1), (256, 1))]  # fmt: skip
    assert made.near(PROBLEM, host_isa(), 0) == [(2.0, expected[0]), (6.0, expected[1])]


def test_what_others_found_near_by_is_no_hint(path: Path, kernel: Kernel) -> None:
    near = ConvolutionProblem(64, 8, 8, 64, (3, 3), pads=(1, 1, 1, 1))
    (made := Timings(path)).add(candidates(near, host_isa())[1], 0, 2e-6)
    made.add(Scheduled(near, host_isa()), 0, 1e-6)
    assert made.near(PROBLEM, host_isa(), 0) == [(2.0, str(candidates(near, host_isa())[1]))]


def test_settled_holds_for_the_same_kernels(path: Path) -> None:
    made = Timings(path)
    kernels = candidates(PROBLEM, host_isa())
    made.settle(PROBLEM, kernels, 0)
    assert not made.settled(PROBLEM, kernels, 0)  # the first of them is not timed
    made.add(kernels[0], 0, 1e-6)
    assert made.settled(PROBLEM, kernels, 0)
    assert not made.settled(PROBLEM, kernels[:-1], 0)
    assert not made.settled(PROBLEM, kernels, 1)


def test_zeros_matter_to_kernels_that_skip_them_alone(path: Path) -> None:
    made = Timings(path)
    pruned, more = (replace(PROBLEM, density=share) for share in (0.2, 0.1))
    for kernel in candidates(pruned, host_isa()):
        made.add(kernel, 0, 1e-6)
    known = made.known(candidates(more, host_isa()), 0)
    assert known.keys() == set(candidates(PROBLEM, host_isa()))
    assert {str(kernel) for kernel in candidates(more, host_isa())} > {str(kernel) for kernel in known}
    assert not any(kernel.skips_zeros for kernel in known)


@pytest.mark.parametrize(
    "content", [b"no database at all, but text" * 100, b"SQLite format 3\0" + bytes(4096)]
)
def test_a_damaged_database_counts_for_nothing_and_is_left_alone(
    path: Path, content: bytes, kernel: Kernel
) -> None:
    path.write_bytes(content)
    with pytest.warns(CacheWarning, match=r"timings.sqlite.*damaged.*remove it.*chosen without it"):
        made = Timings(path)
    assert made.known([kernel], 0) == {} and made.near(PROBLEM, host_isa(), 0) == []
    with pytest.raises(OutputError, match=r"timings.sqlite.*damaged.*remove it"):
        made.add(kernel, 0, 1e-6)
    assert path.read_bytes() == content


def test_foreign_entries_count_for_nothing(path: Path, kernel: Kernel) -> None:
    made = Timings(path)
    made.add(kernel, 0, 1e-6)
    assert made._db is not None
    made._db.write("UPDATE timings SET seconds = 'soon'")
    assert made.known([kernel], 0) == {}
    for problem in ('{"channels": "many"}', "no JSON", "[]"):
        made._db.write("UPDATE timings SET problem = ?", (problem,))
        with pytest.warns(CacheWarning, match="damaged"):
            assert Timings(path).near(PROBLEM, host_isa(), 0) == []


def test_another_schema_is_refused(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version=99")
    with pytest.warns(CacheWarning, match="schema 99"):
        made = Timings(path)
    assert made.known(candidates(PROBLEM, host_isa()), 0) == {}


def test_a_full_disk_loses_no_entry(path: Path, kernel: Kernel) -> None:
    made = Timings(path)
    made.add(kernel, 0, 1e-6)
    assert made._db is not None
    ((pages,),) = made._db.rows("PRAGMA page_count")
    made._db.rows(f"PRAGMA max_page_count={pages}")
    with pytest.raises(OutputError, match=r"full.*free some space"):
        for memory in range(1, 10_000):
            made.add(kernel, memory, 1e-6)
    made.close()
    assert Timings(path).known([kernel], 0) == {kernel: 1e-6}


def test_one_in_a_folder_that_cannot_be_written_is_read(
    path: Path, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Timings(path)) as made:
        made.add(kernel, 0, 1e-6)
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))
    read = Timings(path)
    assert read.known([kernel], 0) == {kernel: 1e-6}
    assert list(path.parent.iterdir()) == [path]
    with pytest.raises(OutputError, match=r"readonly.*make it and its folder writable"):
        read.add(kernel, 1, 1e-6)


def test_who_writes_is_waited_for_and_named(
    path: Path, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timings, "_PATIENCE_SECONDS", 0.1)
    made = Timings(path)
    made.add(kernel, 0, 1e-6)
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(OutputError, match=r"locked.*let the process that writes it end"):
            made.add(kernel, 1, 1e-6)


def test_processes_share_it(path: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from tensmith.kernel import ConvolutionProblem, candidates, host_isa\n"
        "from tensmith.kernel.timings import Timings\n"
        "problem = ConvolutionProblem(32, 8, 8, 32, (3, 3), pads=(1, 1, 1, 1))\n"
        "kernel = candidates(problem, host_isa())[0]\n"
        "first = int(sys.argv[2])\n"
        "for memory in range(first, first + 20):\n"
        "    Timings(Path(sys.argv[1])).add(kernel, memory, 1e-6)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(path), str(20 * place)], env=environment)
        for place in range(3)
    ]
    assert [process.wait(120) for process in running] == [0, 0, 0]
    kernel = candidates(PROBLEM, host_isa())[0]
    made = Timings(path)
    assert all(made.known([kernel], memory) for memory in range(60))
