"""Text to libclang's syntax tree, within bounds of time, and its complaints as located errors."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tensmith.errors import TensmithError
from tensmith.formula.expr import SourcePosition
from tensmith.lifting.source.c.cursor import Cursor, children, clang, kind
from tensmith.lifting.source.c.guard import HEADERS, SourceText, language
from tensmith.lifting.source.c.pragmas import Hazard, attribute_hazard, harmless_attribute

# A file system without files: clang reads what it is handed, and nothing else.
NO_FILES = Path(__file__).parent / "no_files.yaml"
SECONDS = 2.0  # for a trial in another process
MEMORY = 2 << 30
# One target for all machines: int has 32 bits, long 64, char is signed (System V x86-64 ABI).
OPTIONS = [
    "--target=x86_64-unknown-linux-gnu",
    "-nostdinc",
    "-nostdlibinc",
    "-fno-trigraphs",
    "-Wno-error=implicit-function-declaration",
    "-Wno-error=implicit-int",
    "-fbracket-depth=256",
    "-ftemplate-depth=64",
    "-fconstexpr-steps=100000",
    "-fconstexpr-depth=64",
    "-ferror-limit=100",
]
TRIAL = """
import json, sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except (ImportError, ValueError):
    pass
from clang.cindex import Index
Index.create().parse(sys.argv[1], args=sys.argv[2:], unsaved_files=json.load(sys.stdin))
"""


def options(path: Path) -> list[str]:
    standard = (
        ["-x", "c++", "-std=gnu++17", "-nostdinc++"] if language(path) == "c++" else ["-x", "c", "-std=gnu11"]
    )
    return [*standard, *OPTIONS, "-isystem", str(HEADERS), "-ivfsoverlay", str(NO_FILES)]


@functools.cache
def our_headers() -> list[tuple[str, str]]:
    """The headers of the standard library by their paths."""
    return [(str(file), file.read_text("utf-8")) for file in HEADERS.iterdir() if file.is_file()]


def parse(source: SourceText) -> tuple[Cursor, tuple[Hazard, ...], tuple[Hazard, ...]]:
    """The translation unit, attributes in it that clang does not know, and what in it has no meaning.

    Raises:
        TensmithError: a syntax error, at its line and column; or the parser gives up on the file.
        MissingExtra: libclang is not installed.
    """
    cindex = clang()
    path = str(source.path)
    files = [(path, source.text), *our_headers(), *source.headers.items()]
    if source.wild:
        try_elsewhere(source, files)
    try:
        unit = cindex.Index.create().parse(path, args=options(source.path), unsaved_files=files)
    except cindex.TranslationUnitLoadError:
        raise TensmithError(f"{path}:1:1: the C parser fails on this file: simplify it") from None
    hazards: list[Hazard] = []
    errors: list[Hazard] = []
    for diagnostic in unit.diagnostics:
        hazards += unknown_attribute(diagnostic, path)
        if diagnostic.severity >= cindex.Diagnostic.Error:
            where = diagnostic.location
            file = where.file.name if where.file is not None else path
            position = SourcePosition(where.line or 1, where.column or 1)
            errors.append(Hazard(file, position, meaningless(diagnostic.spelling)))
            if diagnostic.category_name != "Semantic Issue" or file != path:
                raise no_file(errors[0])
    return unit.cursor, tuple(hazards), tuple(errors)


def meaningless(error: str) -> str:
    """What clang says of an error, with what to do where it is about the standard library."""
    found = re.match(r"no (?:member|template|type) named '(\w+)' in namespace 'std'", error)
    if found:
        return f"std::{found[1]} is not known here: write it as a loop"
    found = re.match(r"no matching function for call to '(\w+)'", error)
    return f"no {found[1]} that takes these arguments is known here: write it as a loop" if found else error


def no_file(error: Hazard) -> TensmithError:
    """Why nothing of a file can be lifted."""
    return TensmithError(f"{error.file}:{error.position}: {error.why}")


def unknown_attribute(diagnostic: Any, path: str) -> list[Hazard]:
    """What a warning says of an attribute that clang leaves out, and another compiler may not."""
    if not diagnostic.option.endswith("attributes"):
        return []
    where, found = diagnostic.location, re.search(r"'([^']+)'", diagnostic.spelling)
    name = found[1] if found else diagnostic.spelling
    if harmless_attribute(name):
        return []
    file = where.file.name if where.file is not None else path
    return [Hazard(file, SourcePosition(where.line, where.column), attribute_hazard(name))]


def try_elsewhere(source: SourceText, files: list[tuple[str, str]]) -> None:
    """Let another process parse an unusual file first: it may crash, or take for ever."""
    command = [sys.executable, "-c", TRIAL.format(memory=MEMORY), str(source.path), *options(source.path)]
    problem = f"{source.wild}: the C parser "
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=SECONDS, check=False, input=json.dumps(files).encode()
        )
    except subprocess.TimeoutExpired:
        raise TensmithError(f"{problem}takes longer than {SECONDS:g} s over this: simplify it") from None
    if done.returncode != 0:
        raise TensmithError(f"{problem}fails on this: simplify it")


def definitions(unit: Cursor, path: Path) -> list[Cursor]:
    """The function definitions of the main file in order, inside namespaces and extern "C" as well."""
    found: list[Cursor] = []
    for cursor in children(unit):
        if cursor.location.file is None or cursor.location.file.name != str(path):
            continue
        name = kind(cursor)
        if name in ("NAMESPACE", "LINKAGE_SPEC", "UNEXPOSED_DECL"):
            found.extend(definitions(cursor, path))
        elif name in ("FUNCTION_DECL", "FUNCTION_TEMPLATE", "CXX_METHOD") and cursor.is_definition():
            found.append(cursor)
        elif name in ("CLASS_DECL", "STRUCT_DECL", "CLASS_TEMPLATE"):
            methods = [inner for inner in children(cursor) if kind(inner) == "CXX_METHOD"]
            found.extend(method for method in methods if method.is_definition())
    return found
