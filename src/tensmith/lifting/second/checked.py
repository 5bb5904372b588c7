"""What running the source beside the lifted program gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Checked:
    """What came of it: on how many inputs program and source agreed, and by what the source ran; or, where
    it was none, why."""

    inputs: int
    by: str
    why_not: str = ""

    def __str__(self) -> str:
        if not self.inputs:
            return f"not checked against the running source: {self.why_not}"
        source = "running" if self.by == "Python" else "compiled"
        return f"checked against the {source} source on {self.inputs} inputs ({self.by})"

    def to_json(self) -> dict[str, Any]:
        """As certificates and `--json` hold it."""
        return {"inputs": self.inputs, "by": self.by, "why_not": self.why_not}


NOT_RUN = Checked(0, "", "it was not run")
