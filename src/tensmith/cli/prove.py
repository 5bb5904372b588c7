"""`tensmith prove`: every exact rule proved again."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tensmith.cli.command import Answer, command
from tensmith.cli.terminal import table


@command(example="tensmith prove")
def prove(
    update: Annotated[
        bool, typer.Option("--update", help="Write what is proved into the table that ships with tensmith.")
    ] = False,
) -> Answer:
    """Prove every exact rule again, for all sizes, and refute its wrong twins."""
    from tensmith.verify.prove import prove_all
    from tensmith.verify.prove import update as write

    found = list(prove_all())
    problems = [problem for row in found for problem in row["problems"]]
    if update and not problems:
        write(found)
    families: dict[str, list[dict[str, Any]]] = {}
    for row in found:
        families.setdefault(row["family"], []).append(row)
    rows = [_row(name, members) for name, members in families.items()]
    rows.append(_row("all", found))
    document = {"rules": found, "families": rows, "problems": problems}
    cells = ([row["family"], *(f"{row[name]}" for name in _COLUMNS)] for row in rows)
    shown = table(("family", *_COLUMNS), cells, numbers=_COLUMNS)
    return Answer(document, [shown, *problems], 1 if problems else 0)


_COLUMNS = ("rules", "by structure", "cases", "proved", "twins", "refuted", "seconds")


def _row(name: str, members: list[dict[str, Any]]) -> dict[str, Any]:
    total = {column: sum(m[column] for m in members) for column in ("cases", "proved", "twins", "refuted")}
    return {
        "family": name,
        "rules": len(members),
        "by structure": sum(m["structural"] for m in members),
        **total,
        "seconds": round(sum(m["seconds"] for m in members), 1),
    }
