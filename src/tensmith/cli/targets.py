"""`tensmith targets`: the devices one can compress for."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tensmith.cli.command import Answer, command


@command(example="tensmith targets raspberry-pi-5")
def targets(
    name: Annotated[
        str | None, typer.Argument(help="A device, or the path of a .toml file; all if left out.")
    ] = None,
) -> Answer:
    """List the devices, or show one with the source of every number."""
    from tensmith.hardware import load_target, target_names

    if name is None:
        found = [load_target(each) for each in target_names()]
        rows = [target.model_dump(mode="json", include={"name", "kind", "description"}) for target in found]
        width = max(len(target.name) for target in found)
        return Answer(
            {"targets": rows}, [f"{target.name:<{width}}  {target.description}" for target in found]
        )
    target = load_target(name)
    fields = target.model_dump(mode="json")
    fields["isa"] = sorted(fields["isa"])
    return Answer(fields, list(_lines(fields)))


def _lines(fields: dict[str, Any], indent: str = "") -> list[str]:
    lines = []
    for key, value in fields.items():
        if isinstance(value, dict):
            lines += [f"{indent}{key}", *_lines(value, indent + "  ")]
        else:
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            lines.append(f"{indent}{key:<{22 - len(indent)}} {shown}")
    return lines
