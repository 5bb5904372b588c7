"""The house rule of docs/architecture.md: imports go to the same floor or down, and rooms form no circle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "tensmith"

# The only list of the floors; a room is a top-level module or folder of the package.
FLOORS = (
    {
        "blas",
        "errors",
        "registry",
        "gate",
        "files",
        "interrupt",
        "children",
        "fork_server",
        "cache",
        "database",
        "progress",
        "trellis",
    }
    | {"yaml_text"},
    {"formula", "data", "report", "ctext"},
    {"ir"},
    {"rewrite", "equality", "backend", "frontend", "hardware", "kernel"},
    {"verify", "engine", "egraph", "workers"},
    {"evaluate", "tune", "recovery"},
    {"search", "config", "discovery"},
    {"deploy", "request", "compression", "preview", "explain", "diagnosis", "suggestion", "lifting"}
    | {"superoptimize", "study", "quantization"},
    {"cli"},
)
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

# (place, importing room, imported room) of an import that leaves its room.
Edge = tuple[str, str, str]


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of every import in a file, those inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute here"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def edges(package: Path, home: str = "tensmith") -> Iterator[Edge]:
    """Every import between the rooms of `home`. Its own __init__ is the door: it opens rooms at first use."""
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        room = inside.parts[0].removesuffix(".py")
        if room.startswith("__"):
            continue
        for line, module in imported(path):
            other = module.removeprefix(f"{home}.").partition(".")[0]
            if module.startswith(f"{home}.") and other not in (room, "__version__"):
                yield f"{inside}:{line}", room, other


def upward(found: list[Edge]) -> list[str]:
    """Imports from a higher floor, as sentences."""
    return [
        f"{place}: {room} (floor {FLOOR_OF[room]}) imports {other} (floor {FLOOR_OF[other]})"
        for place, room, other in found
        if FLOOR_OF[room] < FLOOR_OF[other]
    ]


def circle(found: list[Edge]) -> list[str]:
    """The imports that close a circle of rooms, if there is one."""
    needs: dict[str, set[str]] = {}
    for _, room, other in found:
        needs.setdefault(room, set()).add(other)
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        steps = set(pairwise(error.args[1]))
        return [f"{place}: {room} imports {other}" for place, room, other in found if (other, room) in steps]
    return []


def test_every_room_has_a_floor() -> None:
    rooms = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if path.name[0] != "_"}
    assert rooms - {"py.typed"} <= FLOOR_OF.keys()


def test_the_architecture_page_shows_these_floors() -> None:
    page = (PACKAGE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d) \| (.+?) \|", page, re.MULTILINE)
    assert {int(floor): set(re.findall(r"`(\w+)`", rooms)) for floor, rooms in rows} == dict(
        enumerate(FLOORS)
    )


def test_no_module_imports_from_a_higher_floor() -> None:
    assert upward(list(edges(PACKAGE))) == []


def test_rooms_form_no_circle() -> None:
    assert circle(list(edges(PACKAGE))) == []


def test_rooms_inside_the_native_backend_form_no_circle() -> None:
    found = list(edges(PACKAGE / "backend" / "native", "tensmith.backend.native"))
    assert len(found) > 50
    assert circle(found) == []


def test_violations_are_found(tmp_path: Path) -> None:
    (tmp_path / "ir").mkdir()
    (tmp_path / "ir" / "a.py").write_text("def f():\n    from tensmith import data, search\n")
    (tmp_path / "data.py").write_text("import tensmith.errors, tensmith.ir.types\n")
    found = list(edges(tmp_path))
    assert upward(found) == [
        "data.py:1: data (floor 1) imports ir (floor 2)",
        "ir/a.py:2: ir (floor 2) imports search (floor 6)",
    ]
    assert sorted(circle(found)) == ["data.py:1: data imports ir", "ir/a.py:2: ir imports data"]
