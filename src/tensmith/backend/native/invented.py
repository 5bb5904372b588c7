"""Names of what a plan makes beside the values of its program, which may have any names but these."""

from __future__ import annotations

from tensmith.errors import EngineError
from tensmith.ir import Program

# In front of a role that a program's value has: no name of a program holds it.
_MARK = "\0"


def invented(value: str, role: str) -> str:
    """The name of what plays a role of a value."""
    return f"{value}{_MARK} {role}"


def spelled(name: str) -> str:
    """A name as a reader sees it."""
    return name.replace(_MARK, "")


def demand_other_names(program: Program) -> None:
    """EngineError where a program has a name that might be an invented one."""
    names = (*program.inputs, *program.constants, *(name for node in program.nodes for name in node.outputs))
    if bad := [name for name in names if _MARK in name]:
        raise EngineError(f"the value {bad[0]!r} has a zero byte in its name; give it another name")
