"""`tensmith lift`: loops of C, C++ or Python as proved tensor programs for a target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensmith.cli.command import Answer, command
from tensmith.cli.progress import progress
from tensmith.cli.terminal import table
from tensmith.progress import Progress

if TYPE_CHECKING:
    from tensmith.lifting.auto import TargetTimings
    from tensmith.lifting.result import LiftResult

_TARGETS = "numpy|torch|tensorflow|jax|mlx|c|onnx|tpc|gemmini|auto"


@command(example="tensmith lift kernel.c --to torch --output lifted")
def lift(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .c, .cpp or .py file.")],
    to: Annotated[str, typer.Option("--to", metavar=_TARGETS, help="The target; auto times them.")],
    function: Annotated[
        str | None, typer.Option(help="Only this function. [default: every function of the file]")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to write. [default: lifted]")
    ] = None,
    sizes: Annotated[
        str, typer.Option(help="For auto: sizes to time on, as n=1000,a=200x300. [default: 1000 each]")
    ] = "",
    explain: Annotated[
        bool, typer.Option("--explain", help="Show loop IR, closed forms, invariants and obligations.")
    ] = False,
    run: Annotated[
        bool, typer.Option("--run/--no-run", help="Also run each function beside its program, confined.")
    ] = True,
) -> Answer:
    """Turn each function's loops into a tensor program, prove that it computes the same for all inputs and
    sizes, and write it for a target, with its certificate. Each proved function is also cut out of the file
    and run beside its program on some hundred inputs, in a process that may do nothing else; --no-run leaves
    that out. Nothing else of the file is ever run. Exit code 1 if a function is refused."""
    from tensmith.errors import UsageError, nearest
    from tensmith.lifting.emit import EMITTERS
    from tensmith.lifting.pipeline import lift_file

    if to not in (known := [*EMITTERS, "auto"]):  # told before anything is read
        raise UsageError(f"--to: there is no target '{to}'{nearest(to, known)}")
    if to != "auto" and sizes:
        raise UsageError("--sizes is for --to auto; leave it out")
    folder = output if output is not None else Path("lifted")
    choices: dict[str, TargetTimings] = {}
    with progress(f"reading {file}") as tell:
        if to == "auto":
            results, choices = _auto(file, function, folder, sizes, tell, run)
        else:
            results = lift_file(file, function, (to,), folder, tell, run=run)
    document = {"functions": [_document(result, choices.get(result.name)) for result in results]}
    shown = list(_shown(results, choices, explain))
    return Answer(document, shown, int(not all(result.proved for result in results)))


def _auto(
    file: Path, function: str | None, folder: Path, sizes: str, tell: Progress, run: bool
) -> tuple[list[LiftResult], dict[str, TargetTimings]]:
    """Proves first, then times every target and writes the fastest; refuses what it cannot time or write."""
    from tensmith.errors import TensmithError
    from tensmith.lifting.auto import applied, choose, parse_sizes
    from tensmith.lifting.pipeline import lift_file, write_result

    chosen = parse_sizes(sizes)
    results, choices = [], {}
    for result in lift_file(file, function, (), None, tell, run):
        if result.proved and result.work.lifted is not None:
            try:
                choice, files = choose(result.work.lifted, chosen, tell)
                result = write_result(applied(files, choice, result), folder)
                choices[result.name] = choice
            except TensmithError as error:
                result = replace(result, status="refused", reason=str(error))
        results.append(result)
    return results, choices


def _document(result: LiftResult, choice: TargetTimings | None) -> dict[str, Any]:
    document = result.to_json()
    if choice is not None:
        document |= {"target": choice.best, "auto": choice.to_json()}
    return document


def _shown(results: list[LiftResult], choices: dict[str, TargetTimings], explain: bool) -> Iterator[Any]:
    from tensmith.lifting.show import explain as explained

    for result in results:
        yield from _sentences(result)
        if result.name in choices:
            yield _table(choices[result.name])
        if explain:
            yield from explained(result)
    proved = sum(result.proved for result in results)
    yield f"{proved} of {len(results)} functions proved"


def _sentences(result: LiftResult) -> Iterator[str]:
    if not result.proved:
        yield f"{result.name}: refused at {result.line}:{result.column}: {result.reason}"
        return
    proof = f"{result.obligations} obligations, {result.arithmetic}, {result.seconds:.2f} s"
    yield f"{result.name}: proved, {proof}"
    yield f"  {result.work.checked}"
    for text in result.requires:
        yield f"  requires {text}"
    for text in result.assumes:
        yield f"  assumes  {text}"
    for text in result.notes:
        yield f"  note     {text}"
    for path in dict.fromkeys(
        path.parent if path.parent.suffix == ".cert" else path for path in result.files
    ):
        yield f"  wrote    {path}"


def _table(choice: TargetTimings) -> Any:
    shapes = ", ".join(
        f"{name} {'x'.join(map(str, shape))}" for name, shape in choice.shapes.items() if shape
    )
    rows = []
    for row in choice.to_json():
        cells = ("", "") if row["ms"] is None else (f"{row['ms']:.4g}", f"{row['ratio']:.3g}x")
        rows.append((row["target"], *cells, row["note"]))
    title = f"timed on {shapes}" if shapes else "timed"
    return table(("target", "ms", "ratio", ""), rows, title, numbers=("ms", "ratio"))
