"""The C and C++ front end knows all that the installed libclang can hand over, and refuses all else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensmith.lifting.loops import Function
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c import functions as c_functions  # noqa: F401  (it registers handlers)
from tensmith.lifting.source.c.evaluate import EXPRESSIONS
from tensmith.lifting.source.c.pragmas import harmless_attribute, pragma_hazard
from tensmith.lifting.source.c.read import read_c
from tensmith.lifting.source.c.statements import STATEMENTS, STRUCTURE
from tensmith.lifting.source.c.whitelist import (
    CURSORS,
    FAMILIES,
    MODELLED,
    OPERATORS,
    PROPERTIES,
    STORAGE,
    TYPE_FAMILIES,
    TYPES,
    Meaning,
    cursor_meaning,
    type_meaning,
)

cindex = pytest.importorskip("clang.cindex", reason="libclang is not installed")


def names(kinds: object) -> list[str]:
    """The names of an enumeration of the binding, whichever way it is made."""
    members = getattr(kinds, "_kinds", None) or list(kinds)  # type: ignore[call-overload]
    return [member.name for member in members if member is not None]


@pytest.mark.parametrize(
    ("kinds", "table", "families"),
    [("CursorKind", CURSORS, FAMILIES), ("TypeKind", TYPES, TYPE_FAMILIES), ("StorageClass", STORAGE, {})],
)
def test_every_kind_of_the_installed_libclang_is_in_the_table(kinds, table, families):
    found = names(getattr(cindex, kinds))
    assert len(found) >= 8
    missing = [name for name in found if name not in table and not name.startswith(tuple(families) or "@")]
    assert not missing, f"neither modelled nor refused: {missing}"
    assert not [name for name in table if name not in found], "a name that libclang does not know"


def test_what_nobody_wrote_down_is_refused():
    for found in (cursor_meaning("CXX_FUTURE_EXPR"), type_meaning("KIND_999"), cursor_meaning("OMP_FUTURE")):
        assert ":" in found.refused and not found.harmless


def test_every_refusal_says_what_to_do_and_every_harmless_kind_why():
    for table in (CURSORS, TYPES, STORAGE, OPERATORS):
        for name, meaning in table.items():
            assert meaning == MODELLED or len(meaning.harmless or meaning.refused) > 10, name
            assert not (meaning.harmless and meaning.refused), name
            assert "may" not in meaning.harmless.split(), name
    assert all(len(why) > 10 for why in PROPERTIES.values())


def test_what_is_modelled_has_a_handler_and_nothing_else_has():
    elsewhere = {"INIT_LIST_EXPR", "CASE_STMT", "DEFAULT_STMT", "BREAK_STMT", "VAR_DECL", "PARM_DECL"}
    handled = {*EXPRESSIONS, *STATEMENTS, *STRUCTURE}
    modelled = {name for name, meaning in CURSORS.items() if meaning == MODELLED}
    assert modelled == handled | elsewhere


# Each operator as it is written, on operands that have it.
WRITTEN = {
    "mul": "a * b",
    "div": "a / b",
    "mod": "a % b",
    "add": "a + b",
    "sub": "a - b",
    "left_shift": "a << b",
    "right_shift": "a >> b",
    "less": "a < b",
    "greater": "a > b",
    "less_equal": "a <= b",
    "greater_equal": "a >= b",
    "equal": "a == b",
    "not_equal": "a != b",
    "bitwise_and": "a & b",
    "bitwise_xor": "a ^ b",
    "bitwise_or": "a | b",
    "&&": "a && b",
    "||": "a || b",
    "=": "a = b",
    "mul=": "a *= b",
    "div=": "a /= b",
    "mod=": "a %= b",
    "add=": "a += b",
    "sub=": "a -= b",
    "left_shift=": "a <<= b",
    "right_shift=": "a >>= b",
    "bitwise_and=": "a &= b",
    "bitwise_xor=": "a ^= b",
    "bitwise_or=": "a |= b",
    ",": "(a, b)",
    "post++": "a++",
    "post--": "a--",
    "pre++": "++a",
    "pre--": "--a",
    "&": "&a",
    "*": "*p",
    "+": "+a",
    "neg": "-a",
    "bitwise_not": "~a",
    "!": "!a",
    "extension": "__extension__ a",
    "real": "__real__ z",
    "imag": "__imag__ z",
}
OF_CPP = {"->*": "q->*m", ".*": "s.*m", "cmp": "", "await": "", "invalid": ""}


def test_operators_have_the_names_that_the_text_gives_them(tmp_path):
    from tensmith.lifting.source.c.cursor import BINARY, UNARY, descendants, kind, operator
    from tensmith.lifting.source.c.guard import read
    from tensmith.lifting.source.c.parse import parse

    assert {*BINARY, *UNARY} == set(OPERATORS) == {*WRITTEN, *OF_CPP}
    path = tmp_path / "f.c"
    lines = "".join(f"{text};\n" for text in WRITTEN.values())
    path.write_text(f"void f(int a, int b, int *p, _Complex double z) {{\n{lines}}}\n")
    unit, *_ = parse(read(path))
    kinds = ("BINARY_OPERATOR", "COMPOUND_ASSIGNMENT_OPERATOR", "UNARY_OPERATOR")
    found = {c.location.line: operator(c) for c in descendants(unit) if kind(c) in kinds}
    assert [found[line] for line in range(2, 2 + len(WRITTEN))] == list(WRITTEN)


@pytest.mark.parametrize(
    ("words", "harmless"),
    [
        ("once", True),
        ("GCC ivdep", True),
        ("GCC diagnostic push", True),
        ("STDC FP_CONTRACT OFF", True),
        ('GCC optimize ("O3", "unroll-loops")', True),
        ('GCC optimize ("-O2,no-tree-vectorize")', True),
        ("GCC optimize " + "O0" * 40 + " !", False),
        ('GCC optimize ("Ofast")', False),
        ('GCC optimize ("fast-math")', False),
        ("STDC FENV_ACCESS ON", False),
        ("STDC FENV_ROUND FE_UPWARD", False),
        ("pack(1)", False),
        ("weak f", False),
        ("redefine_extname f g", False),
        ("scalar_storage_order big-endian", False),
        ("onceler", False),
        ("omp parallel for schedule(static, f(2)) reduction(+ : s)", True),
        ("omp simd collapse(2)", True),
        ("omp parallel for private(x)", False),
        ("omp parallel for lastprivate(x)", False),
        ("omp parallel", False),
        ("omp task", False),
        ("omp target map(x)", False),
        ("omp critical (name)", True),
        ("omp threadprivate(x)", False),
    ],
)
def test_pragmas_are_known_or_refused(words, harmless):
    assert (pragma_hazard(words) == "") == harmless


def test_attributes_are_known_or_refused():
    assert all(map(harmless_attribute, ("hot", "__hot__", "gnu::hot", "noinline", "maybe_unused")))
    refused = ("alias", "ifunc", "weak", "mode", "vector_size", "cleanup", "optimize", "naked", "constructor")
    assert not any(map(harmless_attribute, refused))


def lowered(folder: Path, text: str) -> bool:
    path = folder / "f.c"
    path.write_text(text)
    return isinstance(read_c(path)[-1], Function)


# What would be lost if a kind were taken for one without effect, or a handler forgot a part.
OVERLOOKED = {
    "StmtExpr": "int f(int n) { ({ n++; }); return n; }",
    "GENERIC_SELECTION_EXPR": "int f(int n) { return _Generic(n, int: 1, default: 2); }",
    "ASM_STMT": 'int f(int n) { __asm__("nop"); return n; }',
    "LABEL_STMT": "int f(int n) { if (0) { l: n = 5; } if (n) goto l; return n; }",
    "COMPOUND_LITERAL_EXPR": "int f(int n) { return (int){n}; }",
    "STRING_LITERAL": 'int f(int n) { return "abc"[n]; }',
    "ASM_LABEL_ATTR": 'int f(int n) { register int x __asm__("eax") = n; return x; }',
    "ADDR_LABEL_EXPR": "int f(int n) { void *p = &&l; l: return n; }",
}


@pytest.mark.parametrize("kind", OVERLOOKED)
def test_a_kind_taken_for_harmless_is_still_no_function(kind, tmp_path, monkeypatch):
    """The handlers and the account are two nets: with a hole in the table, one of them holds."""
    assert not lowered(tmp_path, OVERLOOKED[kind])
    if not kind.endswith("_ATTR"):  # attributes have one net
        monkeypatch.setitem(CURSORS, kind, Meaning(harmless="a hole in the table"))
        assert not lowered(tmp_path, OVERLOOKED[kind])


def test_the_account_finds_what_a_handler_overlooks(tmp_path, monkeypatch):
    from tensmith.lifting.source.c import expressions as c_expressions
    from tensmith.lifting.source.c.evaluate import value

    text = "int f(int n, int m) { return n ? m : 3; }"
    assert lowered(tmp_path, text)

    def forgetful(context, cursor):
        return value(context, c_expressions.children(cursor)[1])

    monkeypatch.setitem(EXPRESSIONS, "CONDITIONAL_OPERATOR", forgetful)
    path = tmp_path / "f.c"
    found = read_c(path)[-1]
    assert isinstance(found, Refusal) and "`n` is not understood" in found.reason
