"""The certificate of a lifted function from its summary, its program and the verdicts of its obligations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tensmith.lifting.lifted import Lifted
from tensmith.lifting.second.checked import NOT_RUN, Checked
from tensmith.lifting.summary import Summary
from tensmith.verify.lift_certificate import Certified, as_json, digest, write_lift_certificate
from tensmith.verify.obligation import Verdict


def certify(
    folder: Path, summary: Summary, lifted: Lifted, verdicts: Sequence[Verdict], checked: Checked = NOT_RUN
) -> list[Path]:
    """Writes the certificate folder; the files written. Raises VerificationError if not all is proved."""
    return write_lift_certificate(folder, certified(summary, lifted, checked), verdicts)


def certified(summary: Summary, lifted: Lifted, checked: Checked = NOT_RUN) -> Certified:
    """What the certificate is about. It names the source's file, not where that lay."""
    function = replace(summary.function, file=Path(summary.function.file).name)
    return Certified(
        function.name,
        as_json(function),
        {"summary": digest(replace(summary, function=function)), "program": lifted.program.digest},
        summary.arithmetic,
        tuple(dict.fromkeys(requirement.text for requirement in lifted.requires)),
        tuple(dict.fromkeys((*lifted.assumes, *(f"note: {text}" for text in lifted.notes)))),
        tuple(result.name for result in summary.results),
        checked.to_json(),
    )
