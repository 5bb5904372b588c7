"""Functions of a C or C++ file cut out of it, with what they need: types, constants, callees, macros.

Nothing else of the file is compiled with them: no other function, no other variable. Pieces are declarations
as libclang delimits them, in the order of the text; of the rest of the text only directives stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tensmith.lifting.source.c.cursor import Cursor, children, descendants, kind, namespaces, template
from tensmith.lifting.source.c.guard import SourceText
from tensmith.lifting.source.c.macros import DIRECTIVE

_OUTER = ("TRANSLATION_UNIT", "NAMESPACE", "LINKAGE_SPEC", "UNEXPOSED_DECL")
_USING = ("USING_DIRECTIVE", "USING_DECLARATION", "NAMESPACE_ALIAS")  # they name things, and do nothing
_KEPT = ("define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "include")
_LINE = re.compile(rb"[^\n]*?(?:\\[ \t\f\v]*\n[^\n]*?)*(?:\n|\Z)")

Span = tuple[int, int]


@dataclass
class _Cutting:
    """texts: by file, as libclang read them; spans: what is needed of each, and the namespaces around it;
    seen: hashes of declarations that are in; mentioned: where clang keeps those that were followed."""

    texts: Mapping[str, bytes]
    spans: dict[str, dict[Span, tuple[str, ...]]] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    mentioned: set[tuple[int | None, ...]] = field(default_factory=set)

    def need(self, cursor: Cursor) -> None:
        """A declaration, and all that it mentions."""
        waiting = [cursor]
        while waiting:
            top = _outermost(waiting.pop())
            where = None if top is None else top.location.file
            if top is None or where is None or where.name not in self.texts or top.hash in self.seen:
                continue
            if top.spelling.startswith("__builtin_"):  # declared by clang, it says where it is first used
                continue
            self.seen.add(top.hash)
            span = (top.extent.start.offset, top.extent.end.offset)
            self.spans.setdefault(where.name, {})[span] = namespaces(top)
            for inner in descendants(top):
                other = inner.referenced
                if other is not None and (node := tuple(other.data)) not in self.mentioned:
                    self.mentioned.add(node)
                    parts = (other, other.canonical, other.get_definition(), template(other))
                    waiting += [part for part in parts if part]

    def text(self, file: str) -> str:
        """What is needed of a file, and its directives."""
        whole, spans = self.texts[file], self.spans.get(file, {})
        outer = [one for one in spans if not any(_inside(one, other) for other in spans)]
        pieces = [(start, _piece(whole[start:end], spans[start, end])) for start, end in outer]
        for match in _LINE.finditer(whole):
            if not any(start <= match.start() < end for start, end in outer) and _directive(match[0]):
                pieces.append((match.start(), match[0].decode().strip("\r\n") + "\n"))
        return "".join(text for _, text in sorted(pieces))


def cut(source: SourceText, unit: Cursor, functions: Iterable[Cursor]) -> dict[str, str]:
    """The texts to be compiled, by file name: the source's own first, its headers after it."""
    texts = {str(path): text.encode() for path, text in [(source.path, source.text), *source.headers.items()]}
    cutting = _Cutting(texts)
    for cursor in children(unit):
        if kind(cursor) in _USING:
            cutting.need(cursor)
    for function in functions:
        cutting.need(function)
    return {Path(file).name: cutting.text(file) for file in texts}


def _outermost(cursor: Cursor) -> Cursor | None:
    """The declaration around a cursor that stands in no other declaration but namespaces."""
    while cursor is not None and kind(cursor) not in _OUTER:
        outer = cursor.lexical_parent or cursor.semantic_parent
        if outer is None or kind(outer) in _OUTER:
            return cursor
        cursor = outer
    return None


def _inside(one: Span, other: Span) -> bool:
    return one != other and other[0] <= one[0] and one[1] <= other[1]


def _piece(text: bytes, namespaces: tuple[str, ...]) -> str:
    before = "".join(f"namespace {name} {{ " for name in namespaces)
    return f"{before}{text.decode()};{' }' * len(namespaces)}\n"


def _directive(line: bytes) -> bool:
    """Whether a line is a directive that stays: macros, conditions, headers that the front end knows."""
    found = DIRECTIVE.match(line.decode())
    if found is None or found[1] not in _KEPT:
        return False
    return found[1] != "include" or re.match(r'\s*(<[a-z_]+(\.h)?>|"[^"/\\]+")', found[2]) is not None
