"""What checking a certificate again gives: findings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

# "differs here": a figure of one machine on one day was measured again, and is another; that refutes nothing.
Outcome = Literal["holds", "does not hold", "differs here", "not checked"]


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
        return self._claims("not checked")

    @property
    def different(self) -> tuple[str, ...]:
        """The figures that are others here."""
        return self._claims("differs here")

    def _claims(self, outcome: Outcome) -> tuple[str, ...]:
        return tuple(finding.claim for finding in self.findings if finding.outcome == outcome)
