"""docs/trust.md says how many lines decide each word: all that the deciding modules import is counted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src"
PAGE = ROOT / "docs" / "trust.md"

_ROW = re.compile(r"^\| (?P<what>[^|]+) \| (?P<modules>`[^|]+`) \| (?P<lines>[\d,]+) \|$", re.MULTILINE)
# A page that had to change with every line would be wrong more often than right.
_TOLERANCE = 0.05


@cache
def _modules() -> dict[str, Path]:
    names = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        names[name.removesuffix(".__init__")] = path
    return names


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    # The package itself is a door that imports at first use.
    return (found - {"tensmith"}) & _modules().keys()


def _closure(roots: Iterable[str]) -> set[str]:
    """The modules and all that they import, inside functions too."""
    seen: set[str] = set()
    left = list(roots)
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            left += _imports(_modules()[name])
    return seen


def _lines(path: Path) -> int:
    """Lines that are neither blank, nor a comment, nor a docstring."""
    text = path.read_text(encoding="utf-8")
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                documented |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    counted = (line.strip() for number, line in enumerate(text.splitlines(), 1) if number not in documented)
    return sum(bool(line) and not line.startswith("#") for line in counted)


def _rows() -> list[tuple[str, list[str], int]]:
    return [
        (row["what"], re.findall(r"`([^`]+)`", row["modules"]), int(row["lines"].replace(",", "")))
        for row in _ROW.finditer(PAGE.read_text(encoding="utf-8"))
    ]


def test_the_page_has_its_table() -> None:
    assert len(_rows()) >= 4


@pytest.mark.parametrize(("what", "roots", "stated"), _rows(), ids=[what for what, _, _ in _rows()])
def test_the_lines_are_those_stated(what: str, roots: list[str], stated: int) -> None:
    wanted = tuple(f"tensmith.{root}" for root in roots)
    exact = {name for name in _modules() if name in wanted}
    inside = {name for name in _modules() for root in wanted if name.startswith(f"{root}.")}
    assert len(exact) == len(wanted), f"docs/trust.md names a module that is not there: {roots}"
    counted = sum(_lines(_modules()[name]) for name in _closure(exact | inside))
    allowed = _TOLERANCE * stated
    assert abs(counted - stated) <= allowed, f"{what}: {counted} lines, docs/trust.md says {stated}"
