"""C and C++ source files into the loop language: libclang parses, `functions` lowers each function.

Headers of the standard library are our own (`headers/`): declarations only, so that what a file means does
not depend on the machine it is read on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tensmith.errors import TensmithError, our_fault
from tensmith.formula.expr import SourcePosition
from tensmith.lifting.limit import Deadline
from tensmith.lifting.loops import Function
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c import guard as c_guard
from tensmith.lifting.source.c.cursor import Cursor, kind, position
from tensmith.lifting.source.c.functions import lower
from tensmith.lifting.source.c.parse import definitions, no_file, parse
from tensmith.lifting.source.c.pragmas import Hazard

SECONDS = 4.5  # of processor time for one file


def read_c(path: Path) -> list[Function | Refusal]:
    """Every function definition of a file in order, or why it cannot be lifted.

    .cpp, .cc, .cxx and .hpp are C++17, everything else C11. Nothing of the file is executed.

    Raises:
        TensmithError: the file cannot be read or parsed at all; the message begins with file:line:column.
        MissingExtra: libclang is not installed.
    """
    deadline = Deadline.within(SECONDS)
    source = c_guard.read(path)
    unit, unknown, errors = parse(source)
    found = definitions(unit, path)
    outside = [error for error in placed(errors, str(path), found) if error.everywhere]
    if outside:
        raise no_file(outside[0])
    if not found:
        raise TensmithError(f"{path}:1:1: there is no function with a body in it; nothing can be lifted")
    hazards = placed((*source.hazards, *unknown, *errors), str(path), found)
    read = [attempt(cursor, str(path), c_guard.language(path), deadline, hazards) for cursor in found]
    wrong = [(cursor, error) for error in errors for cursor in found if holds(cursor, error.position)]
    return [explained(each, wrong) for each in read]


def explained(found: Function | Refusal, wrong: Sequence[tuple[Cursor, Hazard]]) -> Function | Refusal:
    """A refusal inside of a function that has an error as one for that, which may have taken parts away."""
    if isinstance(found, Refusal):
        for function, error in wrong:
            if holds(function, found.position):
                return Refusal(error.why, error.position, found.function)
    return found


def holds(function: Cursor, position: SourcePosition) -> bool:
    """Whether a place of the main file is on a function's lines."""
    return bool(function.extent.start.line <= position.line <= function.extent.end.line)


def placed(hazards: Sequence[Hazard], file: str, functions: Sequence[Cursor]) -> list[Hazard]:
    """Hazards that stand in no function concern them all."""
    return [
        hazard
        if hazard.file == file and any(holds(each, hazard.position) for each in functions)
        else replace(hazard, everywhere=True)
        for hazard in hazards
    ]


def attempt(
    cursor: Cursor, file: str, language: str, deadline: Deadline, hazards: Sequence[Hazard]
) -> Function | Refusal:
    """One function, or its refusal."""
    name = str(cursor.spelling)
    where = position(cursor)
    try:
        if deadline.passed:
            raise Refusal("reading the file takes too long: put the function into a file of its own", where)
        if kind(cursor) != "FUNCTION_DECL":
            what = "a template" if kind(cursor) == "FUNCTION_TEMPLATE" else "a method"
            raise Refusal(f"{name} is {what}: write a function with plain parameters", where)
        return lower(cursor, file, language, deadline, hazards)
    except Refusal as refusal:
        return Refusal(refusal.reason, refusal.position, name)
    except RecursionError:
        return Refusal("statements or expressions nested too deeply: split the function", where, name)
    except Exception as error:
        return Refusal(our_fault(error), where, name)
