"""A public class has a name of its own: whoever reads it needs no path to know which one is meant."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "tensmith"

# It is shipped in the folders of compiled models, as a module that needs nothing of tensmith.
APART = PACKAGE / "backend" / "native" / "emit" / "loader.py"


def test_public_class_names_are_unique() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and path != APART:
                found[node.name].append(str(path.relative_to(PACKAGE)))
    twice = {name: places for name, places in found.items() if len(places) > 1}
    assert not twice, f"class names that mean several things: {twice}"
