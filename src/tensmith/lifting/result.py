"""What came of lifting one function: proved, with its files, or refused, with the reason and the place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tensmith.lifting.lifted import Lifted
from tensmith.lifting.loops import Function
from tensmith.lifting.second.checked import NOT_RUN, Checked
from tensmith.lifting.summary import Summary
from tensmith.verify.obligation import Verdict


@dataclass
class Work:
    """What the steps made of a function, as far as they came."""

    function: Function | None = None
    summary: Summary | None = None
    lifted: Lifted | None = None
    verdicts: Sequence[Verdict] = ()
    checked: Checked = NOT_RUN


@dataclass(frozen=True)
class LiftResult:
    """One function. `seconds` is wall time; `program` TensIR's text; `emitted` the files of each target by
    name; `files` what was written. A refusal has a reason and where in the source it lies."""

    name: str
    status: Literal["proved", "refused"]
    reason: str = ""
    line: int = 0
    column: int = 0
    arithmetic: str = ""
    requires: tuple[str, ...] = ()
    assumes: tuple[str, ...] = ()
    obligations: int = 0
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    program: str = ""
    files: tuple[Path, ...] = ()
    emitted: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    work: Work = field(default_factory=Work, compare=False, repr=False)

    @property
    def proved(self) -> bool:
        """Whether everything that had to be proved was."""
        return self.status == "proved"

    def to_json(self) -> dict[str, Any]:
        """The document of `tensmith lift --json`."""
        return {
            "name": self.name,
            "status": self.status,
            "reason": self.reason,
            "line": self.line,
            "column": self.column,
            "arithmetic": self.arithmetic,
            "requires": list(self.requires),
            "assumes": list(self.assumes),
            "notes": list(self.notes),
            "obligations": self.obligations,
            "checked": self.work.checked.to_json(),
            "seconds": round(self.seconds, 4),
            "program": self.program,
            "files": [str(path) for path in self.files],
        }
