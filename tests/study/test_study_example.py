"""The small study of examples/, by the command that its first lines show."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import tensmith

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "study"


def test_the_small_study(tmp_path: Path) -> None:
    asked = tensmith("study", EXAMPLES / "digits.yaml", "--dry-run", "--json", folder=tmp_path)
    assert json.loads(asked.stdout)["cells"] == 12 and not any(tmp_path.iterdir())
    done = tensmith("study", EXAMPLES / "digits.yaml", "--output", "out", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    reasons = {row["cell"]["algorithm"] for row in document["results"] if row["reason"]}
    assert len(document["results"]) == 12 and reasons == {"gemm"}  # there is no gemm kernel for int8
    assert len(document["observations"]) == 13
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"explorer.html", "tables.md"}
