"""What checking a certificate again gives: findings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Outcome = Literal["holds", "does not hold", "not checked"]


@dataclass(frozen=True)
class Finding:
    """One claim of a certificate, and what checking it again gave."""

    claim: str
    outcome: Outcome
    detail: str = ""


@dataclass(frozen=True)
class VerifyResult:
    """Findings in the order they were made. A claim that was not checked is not a false one."""

    folder: Path
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was found false."""
        return all(finding.outcome != "does not hold" for finding in self.findings)

    @property
    def complete(self) -> bool:
        """Whether every claim was checked and holds."""
        return all(finding.outcome == "holds" for finding in self.findings)

    @property
    def unchecked(self) -> tuple[str, ...]:
        """The claims that were not checked."""
        return tuple(finding.claim for finding in self.findings if finding.outcome == "not checked")
