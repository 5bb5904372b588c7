"""`tensmith rules`: the exact rules, and why each is known to hold."""

from __future__ import annotations

from typing import Annotated

import typer

from tensmith.cli.command import Answer, command


@command(example="tensmith rules --family algebra")
def rules(
    family: Annotated[str | None, typer.Option(help="Only the rules of this family.")] = None,
) -> Answer:
    """List the exact rules: what each says, where it applies, and how many cases of it are proved."""
    from tensmith.errors import UsageError
    from tensmith.verify.prove import listed

    found = listed()
    families = sorted({row["family"] for row in found})
    if family is not None and family not in families:
        raise UsageError(f"no family of rules is called '{family}'; there are {', '.join(families)}")
    kept = [row for row in found if family in (None, row["family"])]
    lines = [f"{row['name']} ({row['family']}, {row['phase']}): {row['says']}" for row in kept]
    return Answer({"rules": kept}, lines)
