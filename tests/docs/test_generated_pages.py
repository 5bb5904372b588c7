"""The pages of docs/ that are generated are what the generator writes now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_generated_pages_are_fresh(tmp_path: Path) -> None:
    # In a process of its own: other tests may have registered rules and readers in this one.
    subprocess.run([sys.executable, "-m", "docs.generate", tmp_path], cwd=ROOT, check=True, timeout=120)
    written = sorted(page.name for page in tmp_path.iterdir())
    assert len(written) == 9 and {"rules.md", "cli.md", "python.md", "formats.md"} < set(written)
    stale = [name for name in written if (tmp_path / name).read_text() != (ROOT / "docs" / name).read_text()]
    assert stale == [], "run `make docs`"
