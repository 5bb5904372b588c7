"""The pages of docs/ that are generated are what the generator writes now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_generated_pages_are_fresh(tmp_path: Path) -> None:
    # In a process of its own: other tests may have registered rules and readers in this one.
    subprocess.run([sys.executable, DOCS / "generate.py", tmp_path], check=True, timeout=120)
    written = sorted(page.name for page in tmp_path.iterdir())
    assert written == ["datasets.md", "front.md", "rules.md", "targets.md", "xla_rules.md"]
    stale = [name for name in written if (tmp_path / name).read_text() != (DOCS / name).read_text()]
    assert stale == [], "run `make docs`"
