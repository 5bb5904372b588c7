"""What was tried is on disk, and what is damaged is refused."""

import contextlib
import json
import sqlite3
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from tensmith.errors import EngineError, OutputError, is_of_disk
from tensmith.report.metric import Metric, exact
from tensmith.rewrite.rule import Step
from tensmith.search.candidate import Candidate
from tensmith.search.checkpoint import Checkpoint
from tensmith.search.plan import Plan
from tensmith.search.trial import Trials


def candidate(bits: int) -> Candidate:
    plan = Plan.of([Step("int8", "h", {"default_bits": bits}, "lossy")], {"precision": "bf16"})
    drop = Metric(0.1, 0.0, 0.2, "pt", "measured")
    metrics = {"file_bytes": exact(9, "bytes")}
    return Candidate(f"c{bits}", plan, "unsure", "it may", "openvino", metrics, drop, 100 * bits, 0.4, 1.5)


def test_a_candidate_of_these_tests_has_no_field_as_it_is_unasked() -> None:
    blank = Candidate("", Plan(), "failed")
    assert [f.name for f in fields(blank) if getattr(blank, f.name) == getattr(candidate(8), f.name)] == []


def test_candidates_come_back_in_order_and_equal(tmp_path: Path) -> None:
    first = Checkpoint(tmp_path / "run.sqlite")
    for bits in (8, 6, 4):
        first.add(candidate(bits))
    first.note("a", {"b": [1, 2.5, None]})
    # Read by a second connection while the first is open: what was added is on disk already.
    second = Checkpoint(tmp_path / "run.sqlite")
    assert list(second.candidates()) == [candidate(8), candidate(6), candidate(4)]
    assert second.fact("a") == {"b": [1, 2.5, None]}
    assert second.fact("missing") is None


def test_the_same_plan_is_stored_once(tmp_path: Path) -> None:
    store = Checkpoint(tmp_path / "run.sqlite")
    store.add(candidate(8))
    store.add(candidate(8))
    assert len(list(store.candidates())) == 1


def test_a_candidate_is_on_disk_before_the_next_is_begun(tmp_path: Path) -> None:
    path, begun = tmp_path / "run.sqlite", []
    plans = [candidate(bits).plan for bits in range(2, 9)]

    def built(plan: Plan) -> None:
        seen = Checkpoint(path, looked_at=True)
        begun.append([tried.plan for tried in seen.candidates()])
        seen.close()
        raise EngineError("it does not run")

    store = Checkpoint(path)
    trials = Trials(MagicMock(built=built), MagicMock(), MagicMock(), store)
    assert [trials.attempt(plan).status for plan in plans] == ["failed"] * len(plans)
    assert begun == [plans[:count] for count in range(len(plans))]
    assert store.rows("PRAGMA synchronous") == [(2,)]  # FULL: power may fail, too


def test_a_damaged_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    path.write_bytes(b"not a database, but long enough to be read as a page header of one" * 20)
    before = path.read_bytes()
    with pytest.raises(OutputError, match=r"run\.sqlite is damaged"):
        Checkpoint(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("looked_at", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE candidates RENAME TO c; CREATE VIEW candidates AS WITH RECURSIVE r(number, key, body) "
        "AS (SELECT 1, 'a', 'b' UNION ALL SELECT number + 1, 'a' || number, 'b' FROM r) SELECT * FROM r;",
        "CREATE TRIGGER t AFTER INSERT ON facts BEGIN DELETE FROM candidates; END;",
        "DROP TABLE facts; CREATE TABLE facts (name TEXT PRIMARY KEY, value AS (hex(zeroblob(9))));",
    ],
)
def test_a_file_of_other_than_our_tables_is_refused(tmp_path: Path, change: str, looked_at: bool) -> None:
    """A view may have rows without end, which nothing interrupts."""
    path = tmp_path / "run.sqlite"
    Checkpoint(path).close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(change)
    with pytest.raises(OutputError, match=r"run\.sqlite is damaged \(its .* is not as tensmith makes it"):
        Checkpoint(path, looked_at=looked_at)


def test_a_file_that_takes_nothing_more_is_the_fault_of_no_candidate(tmp_path: Path) -> None:
    store = Checkpoint(tmp_path / "run.sqlite")
    store.write("PRAGMA max_page_count=1")
    with pytest.raises(OutputError, match=r"is full.*free some space") as full:
        store.note("large", "x" * (1 << 16))
    assert is_of_disk(full.value)
    store.close()
    (tmp_path / "run.sqlite").write_bytes(b"not a database, but long enough to be read as a page header" * 20)
    with pytest.raises(OutputError, match="damaged") as damaged:
        Checkpoint(tmp_path / "run.sqlite")
    assert not is_of_disk(damaged.value)


@pytest.mark.parametrize(
    "damage",
    [
        lambda body: '{"id": 3}',
        lambda body: 100_000 * "[",
        lambda body: body.replace('"settings": {"precision": "bf16"}', '"settings": ["abc"]'),
        lambda body: body.replace('"unit": "pt"', '"unit": 3'),
    ],
    ids=["keys", "depth", "settings", "metric"],
)
def test_a_damaged_row_is_refused(damage: Callable[[str], str], tmp_path: Path) -> None:
    store = Checkpoint(tmp_path / "run.sqlite")
    store.add(candidate(8))
    store.write("UPDATE candidates SET body = ?", (damage(json.dumps(candidate(8).to_json())),))
    with pytest.raises(OutputError, match=r"run\.sqlite is damaged"):
        list(store.candidates())


def test_a_damaged_fact_is_refused(tmp_path: Path) -> None:
    store = Checkpoint(tmp_path / "run.sqlite")
    store.write("INSERT INTO facts VALUES (?, ?)", ("a", 100_000 * "["))
    with pytest.raises(OutputError, match=r"run\.sqlite is damaged"):
        store.fact("a")


def test_another_schema_is_refused(tmp_path: Path) -> None:
    Checkpoint(tmp_path / "run.sqlite").write("PRAGMA user_version=99")
    with pytest.raises(OutputError, match="schema 99"):
        Checkpoint(tmp_path / "run.sqlite")


def test_facts_and_candidates_are_forgotten(tmp_path: Path) -> None:
    store = Checkpoint(tmp_path / "run.sqlite")
    for name in ("latency/a", "latency/b", "engines"):
        store.note(name, 1)
    store.forget("latency/")
    assert [store.fact(name) for name in ("latency/a", "latency/b", "engines")] == [None, None, 1]
    for bits in (8, 6):
        store.add(candidate(bits))
    store.remove(candidate(8))
    assert list(store.candidates()) == [candidate(6)]


def test_a_plan_is_its_steps_in_any_order() -> None:
    steps = [Step("int8", kind="lossy"), Step("magnitude_pruning", "a", {"sparsity": 0.5}, "lossy")]
    assert Plan.of(steps) == Plan.of(steps[::-1])
    assert Plan.of(steps).steps[0].rule == "magnitude_pruning"  # weights before numbers
    assert Plan.of(steps) != Plan.of(steps[:1])
    assert Plan.from_json(Plan.of(steps).to_json()) == Plan.of(steps)
