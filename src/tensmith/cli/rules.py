"""`tensmith rules`: the exact rules, why each is known to hold, and the search for more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tensmith.cli.command import Answer, command
from tensmith.cli.progress import progress

if TYPE_CHECKING:
    from tensmith.ir import Program


@command(example="tensmith rules --family algebra")
def rules(
    models: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[MODEL]...", help="With --discover: models to rank what is found by."),
    ] = None,
    family: Annotated[str | None, typer.Option(help="Only the rules of this family.")] = None,
    discover: Annotated[
        bool, typer.Option("--discover", help="Look for rules that those there are do not imply.")
    ] = False,
    vocabulary: Annotated[
        str | None, typer.Option(help="With --discover: what terms are made of. [default: all there are]")
    ] = None,
    ops: Annotated[
        str | None, typer.Option(metavar="OP,OP", help="With --discover: terms of these elementwise ops.")
    ] = None,
    size: Annotated[
        int | None, typer.Option(help="With --discover: the most ops of a term. [default: 2]")
    ] = None,
    time_budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="With --discover: at most so long, as 90s or 10m. [default: 60s]"),
    ] = None,
) -> Answer:
    """List the exact rules: what each says, where it applies, and how many cases of it are proved.

    With --discover small terms are enumerated, those that compute the same are proved equal for all sizes,
    and what the rules there are imply is left out. The rest is printed as lines for a file of rules, those
    first that save most in the models given.
    """
    from tensmith.errors import UsageError
    from tensmith.verify.prove import listed

    if discover:
        if family is not None:
            raise UsageError("--family is of the rules there are; leave it out with --discover")
        if vocabulary is not None and ops is not None:
            raise UsageError("--vocabulary and --ops both say what terms are made of; give one of them")
        return _discovered(models or [], vocabulary, ops, 2 if size is None else size, time_budget or "60s")
    if models or any(given is not None for given in (vocabulary, ops, size, time_budget)):
        raise UsageError(
            "models, --vocabulary, --ops, --size and --time-budget say how --discover looks; give it too"
        )
    found = listed()
    families = sorted({row["family"] for row in found})
    if family is not None and family not in families:
        raise UsageError(f"no family of rules is called '{family}'; there are {', '.join(families)}")
    kept = [row for row in found if family in (None, row["family"])]
    lines = [f"{row['name']} ({row['family']}, {row['phase']}): {row['says']}" for row in kept]
    return Answer({"rules": kept}, lines)


def _seconds_here() -> Callable[[Program], dict[str, float]]:
    """Programs -> seconds that each node takes on this machine at best, for one sample."""
    from tensmith.evaluate.count import node_seconds
    from tensmith.evaluate.open_sizes import sizes_taken
    from tensmith.hardware import load_target

    host = load_target("host")
    return lambda program: node_seconds(host, sizes_taken(program))(program)


def _discovered(models: list[Path], name: str | None, ops: str | None, size: int, budget: str) -> Answer:
    from tensmith.config import parse_seconds
    from tensmith.discovery.selection import discover_each, ranked
    from tensmith.discovery.vocabulary import VOCABULARIES, of_ops
    from tensmith.discovery.written import lines
    from tensmith.errors import UsageError
    from tensmith.frontend.model import read_model
    from tensmith.rewrite.trail import simplify

    if not 1 <= size <= 4:
        raise UsageError("--size is a whole number from 1 to 4; terms grow a hundredfold with each")
    if name is not None and name not in VOCABULARIES:
        raise UsageError(f"no vocabulary is called '{name}'; there are {', '.join(VOCABULARIES)}")
    chosen = [of_ops(ops.split(","))] if ops else [VOCABULARIES[name]] if name else [*VOCABULARIES.values()]
    seconds = parse_seconds(budget)
    with progress("reading the models") as tell:
        programs = [simplify(read_model(model)).program for model in models]
        tell(f"terms of {', '.join(each.name for each in chosen)}")
        searched = list(discover_each(chosen, size, seconds))
        tell("ranking")
        found = [law for one in searched for law in one.kept]
        rows = ranked(found, programs, _seconds_here()) if programs else found
    texts = lines(rows)
    document = {
        "searched": [
            {"vocabulary": s.vocabulary, "terms": s.terms, "candidates": s.candidates, "implied": s.implied,
             "unproved": s.unproved, "found": len(s.kept), "ended": s.ended}
            for s in searched
        ],
        "found": [
            {"statement": row.statement, "law": text, "vocabulary": row.vocabulary.name,
             "proved": row.how, "saved": row.saved, "sites": row.sites, "saves": row.saves}
            for row, text in zip(rows, texts)
        ],
    }  # fmt: skip
    shown = [text + (f"  # {row.sites} sites" if row.sites else "") for row, text in zip(rows, texts)]
    return Answer(document, [*shown, "", *(one.sentence for one in searched)])
