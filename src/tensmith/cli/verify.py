"""`tensmith verify`: the claims of a certificate, checked again from the files alone.

There are two kinds, told apart by what is in the folder: of a compressed model's point, and of a lifted
function.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tensmith.cli.command import Answer, command
from tensmith.cli.progress import progress

_LIFT = "structure.json"  # what tells a lift's certificate


@command(example="tensmith verify out/best --original model.onnx")
def verify(
    folder: Annotated[
        Path,
        typer.Argument(metavar="OUT/best|F.cert", help="A front point's folder, or a lift's certificate."),
    ],
    original: Annotated[
        Path | None, typer.Option(help="The original model, if it is not where the certificate says.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Time for the tests over prime fields.")] = 6.0,
    solver: Annotated[str, typer.Option(metavar="z3|cvc5", help="What decides a lift's obligations.")] = "z3",
) -> Answer:
    """Check a point's files against its certificate: hashes, the trail replayed from the original, the proof
    of every exact rule, and the exact parts over prime fields drawn anew. Of a lifted function: the structure
    of its proof, and every obligation by the solver. Exit code 1 if a claim is false."""
    if (folder / _LIFT).is_file():
        return _lift(folder, solver)
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


def _lift(folder: Path, solver: str) -> Answer:
    """A lifted function's certificate."""
    from tensmith.errors import UsageError
    from tensmith.verify.lift_certificate import check

    if solver not in ("z3", "cvc5"):
        raise UsageError(f"--solver is z3 or cvc5, not {solver}")
    with progress(f"asking {solver}"):
        report = check(folder, solver)
    document = {
        "folder": str(folder),
        "ok": report.ok,
        "function": report.function,
        "solver": report.solver,
        "obligations": report.obligations,
        "solved": report.solved,
        "structural": report.structural,
        "requires": list(report.requires),
        "assumes": list(report.assumes),
        "problems": list(report.problems),
    }
    shown = [f"requires {text}" for text in report.requires]
    shown += [f"assumes  {text}" for text in report.assumes]
    shown += [f"does not hold: {text}" for text in report.problems]
    proof = f"{report.solved} obligations by {report.solver}, {report.structural} by their form"
    verdict = f"proved again, {proof}" if report.ok else "a claim is false"
    return Answer(document, [*shown, "", f"{report.function}: {verdict}"], int(not report.ok))
