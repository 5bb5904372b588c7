"""`tensmith verify`: the claims of a certificate, checked again from the files alone.

There are two kinds, told apart by what is in the folder: of a compressed model's point, and of a lifted
function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tensmith.cli.command import Answer, command
from tensmith.cli.progress import progress

if TYPE_CHECKING:
    from tensmith.lifting.second.checked import Checked
    from tensmith.verify.lift_certificate import LiftReport

_SECONDS = 6.0
_POINT, _LIFT = "certificate.json", "structure.json"  # what tells one kind from the other


@command(example="tensmith verify out/best --original model.onnx --data cifar10:DIR")
def verify(
    folder: Annotated[
        Path,
        typer.Argument(metavar="OUT/best|F.cert", help="A front point's folder, or a lift's certificate."),
    ],
    original: Annotated[Path | None, typer.Option(help="The original model, from your own hand.")] = None,
    data: Annotated[
        str, typer.Option(metavar="KIND:PATH", help="The data it was judged on, to measure it again.")
    ] = "",
    source: Annotated[
        Path | None, typer.Option(help="The file that a lifted function comes from, to be lifted again.")
    ] = None,
    run: Annotated[
        bool | None,
        typer.Option(
            "--run/--no-run",
            help="With --source, run its function beside the program again. [default: --run]",
        ),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(metavar="PUBLIC", help="Whose signature it must have: a public SSH key.")
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Take the original from you alone; fail if anything is unchecked."),
    ] = False,
    run_library: Annotated[
        bool,
        typer.Option("--run-library", help="Run a library that could not be made again: a stranger's code."),
    ] = False,
    seconds: Annotated[
        float | None, typer.Option(help="Time for the tests over prime fields of a point. [default: 6]")
    ] = None,
    solver: Annotated[
        str | None, typer.Option(metavar="z3|cvc5", help="What decides a lift's obligations. [default: z3]")
    ] = None,
) -> Answer:
    """Check a point's files against its certificate: hashes, the trail replayed from the original, the proof
    of every exact rule, the exact parts over prime fields drawn anew, lossy steps by their calibration
    statistics, compiled code by compiling it again; with --data its figures. Of a lifted function: the
    structure of its proof, every obligation by the solver, and with --source that they are the ones which the
    source demands. Exit code 1 if a claim is false or the solver does not decide one, with --strict also if
    one was not checked, or a figure is another here."""
    from tensmith.errors import UsageError, VerificationError

    if not any((folder / name).exists() for name in (_POINT, _LIFT)):
        raise VerificationError(
            f"{folder} holds neither {_POINT} nor {_LIFT}; give the folder of a front point, as OUT/best, or "
            "of a lifted function, as lifted/F.cert"
        )
    if (folder / _LIFT).exists():
        if original is not None:
            raise UsageError(f"{folder} is of a lifted function; give its file with --source, not --original")
        if data or run_library or seconds is not None:
            raise UsageError(
                f"{folder} is of a lifted function; --data, --run-library and --seconds are for points"
            )
        if run is not None and source is None:
            raise UsageError("--run and --no-run are about the source; give it with --source")
        if strict and source is None:
            raise UsageError("--strict takes the source from your hand; give it with --source")
        by = "z3" if solver is None else solver
        return _signed(lambda: _lift(folder, source, by, run is not False, strict), folder / _LIFT, key)
    if source is not None:
        raise UsageError(f"{folder} is of a front point; give its model with --original, not --source")
    if seconds is not None and not 0 <= seconds < math.inf:
        raise UsageError(f"--seconds is a number from 0, not {seconds:g}")
    if solver is not None or run is not None:
        raise UsageError(f"{folder} is of a front point; --solver and --run are for lifted functions")
    if strict and original is None:
        raise UsageError("--strict takes the original from your hand; give it with --original")
    return _signed(
        lambda: _point(folder, original, data, _SECONDS if seconds is None else seconds, run_library, strict),
        folder / _POINT,
        key,
    )


def _signed(check: Callable[[], Answer], certificate: Path, key: Path | None) -> Answer:
    """What a check says, led by what is known of who made the certificate: damage is one thing, forgery
    another. The signature is looked at first: what is forged is not run."""
    from tensmith.errors import VerificationError
    from tensmith.verify.signature import SUFFIX, check_signature, read_digest

    signer, digest = None, read_digest(certificate)
    if key is not None:
        signer = check_signature(certificate, digest, key)
        first = f"signed by {signer}: neither damaged nor forged since, if {key} is theirs"
    elif certificate.with_name(certificate.name + SUFFIX).exists():
        first = "signature not checked, as no --key was given: damage would be seen, forgery would not"
    else:
        first = "not signed: damage would be seen, forgery would not"
    answer = check()
    if read_digest(certificate) != digest:
        raise VerificationError(f"{certificate} changed while it was checked; check it again")
    document = {**answer.document, "digest": digest, "signed_by": signer, "shown": first}
    return Answer(document, [first, "", *answer.shown], answer.exit_code)


def _point(
    folder: Path, original: Path | None, data: str, seconds: float, run_library: bool, strict: bool
) -> Answer:
    """A front point's certificate."""
    from tensmith.deploy.again import verify_point

    with progress("reading the certificate") as tell:
        result = verify_point(
            folder,
            original,
            data,
            seconds=seconds,
            run_library=run_library,
            on_finding=lambda found: tell(found.claim),
        )
    document = {
        "folder": str(folder),
        "ok": result.ok,
        "complete": result.complete,
        "unchecked": list(result.unchecked),
        "different": list(result.different),
        "findings": list(map(asdict, result.findings)),
    }
    verdict = "a claim is false" if not result.ok else "no claim is false"
    parts = {"differ here": result.different, "were not checked": result.unchecked}
    told = [f"{len(claims)} {words}: {'; '.join(claims)}" for words, claims in parts.items() if claims]
    shown = [
        f"{found.outcome:<14} {found.claim}{f' ({found.detail})' if found.detail else ''}"
        for found in result.findings
    ]
    failed = not (result.complete if strict else result.ok)
    return Answer(
        document,
        [*shown, "", f"{folder}: {'; '.join((verdict, *(told or ['all were checked'])))}"],
        int(failed),
    )


def _lift(folder: Path, source: Path | None, solver: str, run: bool, strict: bool) -> Answer:
    """A lifted function's certificate."""
    from tensmith.errors import UsageError
    from tensmith.lifting.second.checked import NOT_RUN
    from tensmith.verify.lift_certificate import check

    if solver not in ("z3", "cvc5"):
        raise UsageError(f"--solver is z3 or cvc5, not {solver}")
    with progress(f"asking {solver}") as tell:
        report = check(folder, solver)
        problems, again = list(report.problems), NOT_RUN
        if source is not None and report.ok:
            from tensmith.lifting.recheck import recheck

            tell(f"lifting {report.function} again")
            found = recheck(folder, source, run)
            problems += found.problems
            again = found.checked
    unchecked = [] if source is not None else ["that the obligations are the ones the source demands"]
    unchecked += [] if again.inputs else ["that the running source agrees"]
    document = {
        "folder": str(folder),
        "ok": not problems and not report.undecided,
        "complete": not problems and not report.undecided and not unchecked,
        "function": report.function,
        "source": None if source is None else str(source),
        "solver": report.solver,
        "obligations": report.obligations,
        "solved": report.solved,
        "structural": report.structural,
        "requires": list(report.requires),
        "assumes": list(report.assumes),
        "checked": again.to_json(),
        "unchecked": unchecked,
        "undecided": list(report.undecided),
        "problems": problems,
    }
    shown = [f"requires {text}" for text in report.requires]
    shown += [f"assumes  {text}" for text in report.assumes]
    shown += [f"does not hold: {text}" for text in problems]
    shown += [f"was not decided: {text}" for text in report.undecided]
    failed = bool(problems or report.undecided or (strict and unchecked))
    return Answer(document, [*shown, "", *_verdict(report, problems, source, again)], int(failed))


def _verdict(report: LiftReport, problems: list[str], source: Path | None, again: Checked) -> Iterator[str]:
    if problems:
        yield f"{report.function}: a claim is false"
        return
    if report.undecided:
        yield f"{report.function}: not proved again; {report.solver} refutes nothing, but does not decide all"
        return
    proof = f"{report.solved} obligations by {report.solver}, {report.structural} by their form"
    if source is None:
        yield f"{report.function}: proved again, {proof}"
        yield "these obligations hold; that they are the right ones is not checked, and the running "
        yield "source was not asked: give --source"
    else:
        yield f"{report.function}: proved again, {proof}; they are what {source} demands"
        yield str(again)
