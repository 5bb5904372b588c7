"""Questions to libclang's cursors that its Python binding does not answer, or not comfortably."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, TypeAlias

from tensmith.errors import needing
from tensmith.formula.expr import SourcePosition
from tensmith.lifting.refusal import Refusal

Cursor: TypeAlias = Any  # clang.cindex.Cursor and Type: the binding has no types of its own
Type: TypeAlias = Any

# The names of CXBinaryOperatorKind and CXUnaryOperatorKind, in the order of clang-c/Index.h.
BINARY = (
    *("invalid", "->*", ".*", "mul", "div", "mod", "add", "sub", "left_shift", "right_shift", "cmp", "less"),
    *("greater", "less_equal", "greater_equal", "equal", "not_equal", "bitwise_and", "bitwise_xor"),
    *("bitwise_or", "&&", "||", "=", "mul=", "div=", "mod=", "add=", "sub=", "left_shift=", "right_shift="),
    *("bitwise_and=", "bitwise_xor=", "bitwise_or=", ","),
)
UNARY = (
    *("invalid", "post++", "post--", "pre++", "pre--", "&", "*", "+", "neg", "bitwise_not", "!"),
    *("real", "imag", "extension", "await"),
)


@cache
def clang() -> Any:
    """The module clang.cindex with the functions we add to it; loaded once, when first asked for."""
    with needing("reading C and C++", "lift"):
        import clang.cindex as cindex
    library = cindex.conf.lib
    for name in ("clang_getCursorBinaryOperatorKind", "clang_getCursorUnaryOperatorKind"):
        declare(library, name, ctypes.c_int, cindex.Cursor)
    declare(library, "clang_Cursor_getVarDeclInitializer", cindex.Cursor, cindex.Cursor)
    library.clang_getSpellingLocation.argtypes = [cindex.SourceLocation, *[ctypes.c_void_p] * 4]
    library.clang_getFileContents.restype = ctypes.c_char_p
    library.clang_getFileContents.argtypes = [cindex.TranslationUnit, ctypes.c_void_p, ctypes.c_void_p]
    declare(library, "clang_Cursor_Evaluate", ctypes.c_void_p, cindex.Cursor)
    for name, result in (
        ("clang_EvalResult_getKind", ctypes.c_int),
        ("clang_EvalResult_isUnsignedInt", ctypes.c_uint),
        ("clang_EvalResult_getAsUnsigned", ctypes.c_ulonglong),
        ("clang_EvalResult_getAsLongLong", ctypes.c_longlong),
        ("clang_EvalResult_getAsDouble", ctypes.c_double),
        ("clang_EvalResult_dispose", None),
    ):
        declare(library, name, result, ctypes.c_void_p)
    return cindex


def declare(library: Any, name: str, result: Any, argument: Any) -> None:
    function = getattr(library, name)
    function.restype, function.argtypes = result, [argument]


# Names of kinds by the binding's class and its number, for the binding takes ten times as long to find one.
_KINDS: dict[tuple[type, int], str] = {}


def kind(cursor: Cursor | Type) -> str:
    """A cursor's or type's kind: "IF_STMT", "POINTER"; one that the binding does not know by its number."""
    number = (type(cursor), cursor._kind_id)
    found = _KINDS.get(number)
    if found is None:
        try:
            found = str(cursor.kind.name)
        except ValueError:
            found = f"KIND_{cursor._kind_id}"
        _KINDS[number] = found
    return found


def identity(cursor: Cursor) -> int:
    """What tells the cursors of a tree apart: where clang keeps the node."""
    declares = cursor._kind_id < FIRST_REFERENCE or kind(cursor) in LATE_DECLARATIONS
    return int(cursor.data[0 if declares else 1] or 0)


# Kinds below the first reference are declarations (clang-c/Index.h), as are some that came later.
FIRST_REFERENCE = 40
LATE_DECLARATIONS = ("MODULE_IMPORT_DECL", "TYPE_ALIAS_TEMPLATE_DECL", "STATIC_ASSERT", "FRIEND_DECL")


def position(cursor: Cursor) -> SourcePosition:
    """Where the cursor stands; what a macro makes stands where the macro is used."""
    return SourcePosition(cursor.location.line, cursor.location.column)


def children(cursor: Cursor) -> list[Cursor]:
    """The cursors directly inside.

    Raises:
        RecursionError: in good time. The binding visits them in a callback that forgets errors, and where the
            stack ends there the rest would be missing.
    """
    try:
        sys._getframe(sys.getrecursionlimit() // 2)
    except ValueError:
        return list(cursor.get_children())
    raise RecursionError


def descendants(cursor: Cursor) -> Iterator[Cursor]:
    """The cursor and all inside it, in the order of the text."""
    stack = [cursor]
    while stack:
        yield (found := stack.pop())
        stack += reversed(children(found))


def operator(cursor: Cursor) -> str:
    """The operator of a binary, unary or compound assignment operator, in the words of BINARY and UNARY."""
    library = clang().conf.lib
    if kind(cursor) == "UNARY_OPERATOR":
        at, names = int(library.clang_getCursorUnaryOperatorKind(cursor)), list(UNARY)
    else:
        at, names = int(library.clang_getCursorBinaryOperatorKind(cursor)), list(BINARY)
    return names[at] if 0 <= at < len(names) else "invalid"


def constant(cursor: Cursor) -> int | float | None:
    """The value of a literal or constant expression, as clang computes it, macros and all."""
    library = clang().conf.lib
    result = library.clang_Cursor_Evaluate(cursor)
    if not result:
        return None
    try:
        found = library.clang_EvalResult_getKind(result)
        if found == 1 and library.clang_EvalResult_isUnsignedInt(result):
            return int(library.clang_EvalResult_getAsUnsigned(result))
        if found == 1:
            return int(library.clang_EvalResult_getAsLongLong(result))
        return float(library.clang_EvalResult_getAsDouble(result)) if found == 2 else None
    finally:
        library.clang_EvalResult_dispose(result)


def initializer(cursor: Cursor) -> Cursor | None:
    """What a variable is initialised with; the call of a default constructor counts."""
    cindex = clang()
    found = cindex.conf.lib.clang_Cursor_getVarDeclInitializer(cursor)
    if cindex.conf.lib.clang_Cursor_isNull(found):
        return None
    found._tu = cursor._tu
    return found


def template(cursor: Cursor) -> Cursor | None:
    """The template that a function or class was made from."""
    return clang().conf.lib.clang_getSpecializedCursorTemplate(cursor)


def bare(cursor: Cursor) -> Cursor:
    """The expression inside parentheses and implicit conversions."""
    while kind(cursor) in ("PAREN_EXPR", "UNEXPOSED_EXPR"):
        inner = children(cursor)
        if len(inner) != 1:
            break
        cursor = inner[0]
    return cursor


def is_expression(cursor: Cursor) -> bool:
    return not kind(cursor).startswith("KIND_") and bool(cursor.kind.is_expression())


def namespaces(cursor: Cursor) -> tuple[str, ...]:
    """The names of the namespaces around a declaration, outermost first; "" of one without a name."""
    found: list[str] = []
    outer = cursor.semantic_parent
    while outer is not None and kind(outer) != "TRANSLATION_UNIT":
        if kind(outer) == "NAMESPACE":
            found.insert(0, outer.spelling)
        outer = outer.semantic_parent
    return tuple(found)


def spelling_word(cursor: Cursor) -> str:
    """The word of the text that a cursor begins with, where a macro's body writes it too; "" if none does."""
    found = re.match(rb"(?:\w+\s*::\s*)?(\w+)", spelled_text(cursor)[1][:200])
    return found[0].decode() if found else ""


def spelled_text(cursor: Cursor) -> tuple[bytes, bytes]:
    """The text before the beginning of a cursor and from there on, in the file where it is spelled."""
    library, unit = clang().conf.lib, cursor.translation_unit
    file, offset, size = ctypes.c_void_p(), ctypes.c_uint(), ctypes.c_size_t()
    library.clang_getSpellingLocation(
        cursor.extent.start, ctypes.byref(file), None, None, ctypes.byref(offset)
    )
    text = library.clang_getFileContents(unit, file, ctypes.byref(size)) if file else None
    return (text[: offset.value], text[offset.value :]) if text else (b"", b"")


def key(cursor: Cursor) -> int:
    """What tells declarations apart: where clang keeps the first of each."""
    return int(cursor.canonical.data[0] or 0)


def character_before(cursor: Cursor) -> str:
    """The last character of the text before a cursor, where it is spelled; libclang leaves out what a header
    of `if`, `switch` or `for` starts with, or does not tell it from a branch."""
    before = spelled_text(cursor)[0].rstrip()
    return before[-1:].decode(errors="replace")


def for_parts(cursor: Cursor) -> tuple[Cursor | None, Cursor | None, Cursor | None, Cursor]:
    """Initial statement, condition, step and body of a `for`; libclang leaves out the missing ones untold."""
    parts = children(cursor)
    if len(parts) == 4:
        return parts[0], parts[1], parts[2], parts[3]
    depth, semicolons = 0, []
    for token in cursor.get_tokens():
        if token.spelling in ("(", "{", "["):
            depth += 1
        elif token.spelling in (")", "}", "]"):
            depth -= 1
            if depth == 0:
                break
        elif token.spelling == ";" and depth == 1:
            semicolons.append(token.extent.start.offset)
    if len(semicolons) != 2:
        raise Refusal("a `for` whose header comes out of a macro: write the header out", position(cursor))
    found: list[Cursor | None] = [None, None, None]
    for part in parts[:-1]:
        found[sum(part.extent.start.offset > semicolon for semicolon in semicolons)] = part
    return found[0], found[1], found[2], parts[-1]
