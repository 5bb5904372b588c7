"""E-graphs of the extraction gym, and files that are none."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest
from benchmarks.search.extraction_gym import read_egraph

from tensmith.egraph.extract import extract
from tensmith.errors import UsageError

pytest.importorskip("highspy")

DOCUMENT = {
    "nodes": {
        "a": {"op": "f", "cost": 1.5, "eclass": "0", "children": ["b"]},
        "b": {"op": "x", "cost": 0, "eclass": "1", "children": []},
    },
    "root_eclasses": ["0"],
}


def test_files_of_the_gym_are_read(tmp_path: Path) -> None:
    plain, packed = tmp_path / "g.json", tmp_path / "g.json.xz"
    plain.write_text(json.dumps(DOCUMENT))
    packed.write_bytes(lzma.compress(plain.read_bytes()))
    assert read_egraph(plain) == read_egraph(packed)
    assert extract(read_egraph(plain)).cost == 1.5


@pytest.mark.parametrize(
    "change",
    [
        {"nodes": {}},
        {"nodes": []},
        {"root_eclasses": ["7"]},
        {"root_eclasses": []},
        {"root_eclasses": "0"},
        {"nodes": {"a": {"op": "f", "cost": -1, "eclass": "0", "children": []}}},
        {"nodes": {"a": {"op": "f", "cost": True, "eclass": "0", "children": []}}},
        {"nodes": {"a": {"op": "f", "cost": 1, "eclass": 0, "children": []}}},
        {"nodes": {"a": {"op": "f", "cost": 1, "eclass": "0", "children": ["b"]}}},
        {"nodes": {"a": {"cost": 1, "eclass": "0"}}},
    ],
)
def test_what_is_no_egraph_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    file = tmp_path / "g.json"
    file.write_text(json.dumps(DOCUMENT | change))
    with pytest.raises(UsageError, match="no e-graph"):
        read_egraph(file)


def test_damaged_and_nonsense_files_are_refused(tmp_path: Path) -> None:
    for name, data in {
        "a.json": b"{",
        "b.json.xz": b"no",
        "c.json": b"[" * 100_000,
        "d.json": b"\xff",
    }.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(UsageError):
            read_egraph(tmp_path / name)
