"""What is known of a C file before a compiler sees it: its size, its headers, whether it is tame.

Header files are read here, by this module's rules, and handed over as text: a source file cannot make the
parser open a file. Wild nesting and macros that grow without end are first tried in another process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tensmith.errors import TensmithError
from tensmith.lifting.source.c.macros import DIRECTIVE, growth
from tensmith.lifting.source.c.pragmas import Hazard, pragmas
from tensmith.lifting.source.file import source_bytes

HEADERS = Path(__file__).parent / "headers"
BYTES = 2_000_000  # of a source file with its own headers
INCLUDES = 64  # times that headers of one's own are included, all in all
CPP = (".cpp", ".cc", ".cxx", ".hpp", ".hh", ".hxx", ".c++", ".cppm")

TOKEN = re.compile(
    r"""(?P<comment>//(?:[^\n\\]|\\.|\\\n)*|/\*.*?(?:\*/|\Z))
    |(?P<raw>(?:u8|[uUL])?R")
    |(?P<number>\.?\d(?:[eEpP][+-]|'?\w|[.\\]|[^\x00-\x7f])*)
    |(?P<text>"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)
    |(?P<newline>\n)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<open>[([{]|<[:%])|(?P<close>[)\]}]|[:%]>)
    |(?P<hash>\#|%:)|(?P<end>;)|(?P<other>[^\s\w])""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class SourceText:
    """A source file read within bounds, its own headers by their paths, and whether it is tame.

    wild: "" for a tame file, else what is unusual about it, with line and column.
    hazards: pragmas that may change what is computed.
    """

    path: Path
    text: str
    headers: dict[str, str]
    wild: str
    hazards: tuple[Hazard, ...] = ()


def language(path: Path) -> str:
    """What a file is written in, by its name."""
    return "c++" if path.suffix.lower() in CPP else "c"


def read(path: Path) -> SourceText:
    """The file and what it includes.

    Raises:
        TensmithError: it is missing, too large, no text, or includes what is not known here.
    """
    text = bounded(path)
    headers: dict[str, str] = {}
    count = 0
    queue: list[tuple[Path, str, tuple[str, ...]]] = [(path, text, (path.name,))]
    wild = ""
    hazards: list[Hazard] = []
    while queue:
        file, content, chain = queue.pop()
        wild = wild or untamed(file, content)
        bare = stripped(content)
        demand_plain(file, bare, language(path))
        if "ragma" in bare:
            hazards += pragmas(str(file), bare)
        for line, column, target in includes(file, bare):
            if target.startswith("<"):
                if not known(target[1:-1]):
                    raise TensmithError(unknown_header(file, line, column, target))
                continue
            name = target[1:-1]
            if not (path.parent / name).is_file() and known(name):
                continue
            count += 1
            if "/" in name or "\\" in name or name in chain or count > INCLUDES:
                raise TensmithError(
                    f"{file}:{line}:{column}: {target} cannot be included: a header lies in the folder "
                    f"of the file, does not include itself, and at most {INCLUDES} are included in all"
                )
            header = path.parent / name
            if not header.is_file():
                raise TensmithError(unknown_header(file, line, column, target))
            inner = bounded(header)
            headers[f"{path.parent}/{name}"] = inner  # as clang calls it
            if sum(map(len, headers.values())) + len(text) > BYTES:
                raise TensmithError(f"{path}:1:1: the file and its headers have more than {BYTES} bytes")
            queue.append((header, inner, (*chain, name)))
    return SourceText(path, text, headers, wild, tuple(hazards))


def bounded(path: Path) -> str:
    """A text file of bounded size, its lines ended by newlines alone."""
    content = source_bytes(path, BYTES)
    if b"\0" in content:
        before = content[: content.index(b"\0")]
        line = before.count(b"\n") + 1
        column = len(before) - before.rfind(b"\n")
        raise TensmithError(f"{path}:{line}:{column}: a zero byte: this is no text file")
    return re.sub("\r\n?", "\n", content.decode("utf-8-sig", errors="replace"))


def demand_plain(path: Path, text: str, language: str) -> None:
    """TensmithError where a text without comments holds what compilers may read in another way than `TOKEN`.

    Whether strings are raw, and quotes parts of numbers, depends on the language and the compiler.
    """
    for match in TOKEN.finditer(text):
        number = match["number"] or ""
        quoted = "'" in number and (language == "c" or not number.isascii() or "\\" in number)
        if match["raw"] is not None or quoted:
            before = text[: match.start()]
            line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
            what = "a quote in a number: leave it out" if quoted else "a raw string: write a plain one"
            raise TensmithError(f"{path}:{line}:{column}: {what}")


def known(name: str) -> bool:
    """Whether a standard header is one of ours."""
    return re.fullmatch(r"[a-z_]+(\.h)?", name) is not None and (HEADERS / name).is_file()


def unknown_header(file: Path, line: int, column: int, target: str) -> str:
    return (
        f"{file}:{line}:{column}: {target} is not known here: remove the #include and what needs it, or copy "
        'what the function uses into a header of your own beside the file and include that as "name.h"'
    )


def includes(path: Path, text: str) -> Iterator[tuple[int, int, str]]:
    """Line, column and target of every #include of a text without comments."""
    for number, line in enumerate(text.split("\n"), 1):
        found = DIRECTIVE.match(line)
        if found is None or found[1] not in ("include", "include_next", "import", "embed"):
            continue
        target = re.match(r'<[^>\n]+>|"[^"\n]+"', found[2])
        column = line.index(found[0].strip()[0]) + 1
        if target is None or found[1] != "include":
            raise TensmithError(
                f'{path}:{number}:{column}: an include that is not written as #include <name> or "name"'
            )
        yield number, column, target[0]


def stripped(text: str) -> str:
    """The text without comments, continued lines joined; every line keeps its number."""

    def blank(match: re.Match[str]) -> str:
        return " " + "\n" * match[0].count("\n") if match.lastgroup == "comment" else match[0]

    joined = re.sub(r"(?:\\[ \t\f\v]*\n)+", lambda match: "", text)
    if joined != text:
        parts = re.split(r"((?:[^\\\n]|\\(?![ \t\f\v]*\n))*(?:\\[ \t\f\v]*\n|\n|\Z))", text)
        joined, owed = "", 0
        for part in parts:
            if re.search(r"\\[ \t\f\v]*\n\Z", part):
                joined += re.sub(r"\\[ \t\f\v]*\n\Z", "", part)
                owed += 1
            else:
                joined += part + ("\n" * owed if part.endswith("\n") else "")
                owed = 0 if part.endswith("\n") else owed
    return TOKEN.sub(blank, joined)


def untamed(path: Path, text: str) -> str:
    """What makes a file worth a trial in another process, "" if nothing does."""
    if len(text) > 100_000:
        return f"{path}:1:1: {len(text)} bytes"
    depth = run = keywords = elses = line = start = 0
    deepest = parentheses = 0
    for match in TOKEN.finditer(text):
        group = match.lastgroup
        if group in ("comment", "newline", "number"):
            line += match[0].count("\n")
            start = match.start() + match[0].rfind("\n") + 1 if "\n" in match[0] else start
            continue
        run += 1
        word = match[0]
        if group in ("open", "close"):
            depth += 1 if group == "open" else -1
            parentheses = max(0, parentheses + (word == "(") - (word == ")"))
            deepest = max(deepest, parentheses)
        if word in ("{", "}", ";"):
            run = 0
        keywords = 0 if word == "}" else keywords + (word in ("for", "while", "if", "do", "switch"))
        elses += word == "else"
        what = unusual(word, depth, run, keywords, elses)
        if what:
            return f"{path}:{line + 1}:{match.start() - start + 1}: {what}"
    grown = growth(stripped(text).split("\n"), deepest)
    return f"{path}:1:1: macros that may grow to {grown:.0e} words" if grown > 100_000 else ""


def unusual(word: str, depth: int, run: int, keywords: int, elses: int) -> str:
    if depth > 60:
        return f"{depth} brackets inside one another"
    if run > 2000:
        return f"{run} words without a semicolon or brace"
    if keywords > 100 or elses > 200:
        return "more than 100 statements inside one another, or 200 times else"
    return f"`{word}`" if word in ("template", "constexpr", "consteval", "decltype", "__extension__") else ""
