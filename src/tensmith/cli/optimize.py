"""`tensmith optimize`: a NumPy function as the fastest equal program, and what is known of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensmith.cli.command import Answer, command
from tensmith.cli.progress import progress

if TYPE_CHECKING:
    from tensmith.superoptimize.pipeline import Optimization


@command(example="tensmith optimize stats.py --function zscore --example 'x=f64[1000, 50]'")
def optimize(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .py file.")],
    function: Annotated[str, typer.Option(help="The function of the file.")],
    example: Annotated[
        list[str], typer.Option(help="An argument: x=f64[1000, 50], rate=0.05, n=3. One for each parameter.")
    ],
    domain: Annotated[
        list[str] | None,
        typer.Option(help="A promise: x=positive; also nonnegative, nonzero, finite, sorted."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.1, max=1e6, help="How long to search and to time.")] = 10.0,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the programs before and after, and the code.")
    ] = False,
) -> Answer:
    """Trace a NumPy function on example arguments, rewrite it by exact rules, each proved over the reals for
    all sizes, and time what is found beside it: as NumPy, and as C with fused loops. Of the file nothing runs
    but the function and its helpers, and these only if each line of them is arithmetic of NumPy's or calls
    such; where that takes over --seconds or half of the memory, it is ended. Exit code 1 if nothing faster is
    found."""
    from tensmith.errors import UsageError
    from tensmith.superoptimize.admit import admit_file
    from tensmith.superoptimize.alone import demand_ending
    from tensmith.superoptimize.domain import read_domain
    from tensmith.superoptimize.examples import example_arguments
    from tensmith.superoptimize.pipeline import Optimization, superoptimize
    from tensmith.superoptimize.trace import NotTraceable

    promises: dict[str, str] = {}
    for word in domain or []:
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"--domain has {word!r}; write x=positive")
        promises[name] = f"{promises.get(name, '')} {value}"
    try:
        admitted = admit_file(file, function)
        promised = read_domain(promises, admitted.parameters)
        arguments = example_arguments(example, admitted.parameters, promised)
        with progress(f"{function}: running it once") as tell:
            demand_ending(file, function, example, promises, seconds)
            tell(f"{function}: searching and timing")
            found = superoptimize(admitted, arguments, promised, seconds)
    except NotTraceable as error:
        found = Optimization(function, reason=str(error))
    return Answer(found.to_json(), list(_shown(found, explain)), int(found.program is None))


def _shown(found: Optimization, explain: bool) -> Iterator[Any]:
    yield from found.sentences()
    if explain:
        for title, text in (
            ("as it was traced", found.traced),
            ("rewritten", found.rewritten),
            ("as NumPy", found.source),
            ("as C", found.kernels),
        ):
            if text:
                yield from ("", f"{title}:", *text.splitlines())
