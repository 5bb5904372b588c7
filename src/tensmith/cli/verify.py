"""`tensmith verify`: the claims of a certificate, checked again from the files alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tensmith.cli.command import Answer, command
from tensmith.cli.progress import progress


@command(example="tensmith verify out/best --original model.onnx")
def verify(
    folder: Annotated[Path, typer.Argument(metavar="OUT/best", help="The folder of a front point.")],
    original: Annotated[
        Path | None, typer.Option(help="The original model, if it is not where the certificate says.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Time for the tests over prime fields.")] = 6.0,
) -> Answer:
    """Check a point's files against its certificate: hashes, the trail replayed from the original, the proof
    of every exact rule, and the exact parts over prime fields drawn anew. Exit code 1 if a claim is false."""
    from tensmith.verify.folder import verify_folder

    with progress("reading the certificate") as tell:
        result = verify_folder(folder, original, seconds=seconds, on_finding=lambda found: tell(found.claim))
    document = {
        "folder": str(folder),
        "ok": result.ok,
        "complete": result.complete,
        "findings": [
            {"claim": found.claim, "outcome": found.outcome, "detail": found.detail}
            for found in result.findings
        ],
    }
    verdict = "a claim is false" if not result.ok else "no claim is false"
    unchecked = sum(found.outcome == "not checked" for found in result.findings)
    rest = f"; {unchecked} could not be checked from the files" if unchecked else ""
    shown = [
        f"{found.outcome:<14} {found.claim}{f' ({found.detail})' if found.detail else ''}"
        for found in result.findings
    ]
    return Answer(document, [*shown, "", f"{folder}: {verdict}{rest}"], int(not result.ok))
