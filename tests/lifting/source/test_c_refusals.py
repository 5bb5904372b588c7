"""What the C and C++ front end refuses: a place, a reason, and what to change."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from function_text import print_function

from tensmith.errors import TensmithError
from tensmith.formula.expr import SourcePosition
from tensmith.lifting.loops import Array, Function
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.evaluate import EXPRESSIONS
from tensmith.lifting.source.c.guard import SourceText
from tensmith.lifting.source.c.parse import parse
from tensmith.lifting.source.c.read import read_c

pytest.importorskip("clang.cindex", reason="libclang is not installed")


def read(folder: Path, text: str, name: str = "f.c") -> list[Function | Refusal]:
    path = folder / name
    path.write_text(text)
    return read_c(path)


# A function in C, the line and column of the problem, words of the reason.
REFUSED = [
    (
        "int f(int n, int *a) {\n for (int i = 0; i < n; i++)\n  if (a[i]) n++; else return i;\n return n; }",
        (3, 23),
        "loop",
    ),
    (
        "int f(int n, int *a) {\n int i;\n for (i = 0; i < n; i++) {n--; if (a[i]) break; }\n return i; }",
        (3, 42),
        "break",
    ),
    (
        "int f(int n, int *a) {\n for (int i = 0; i < n; i++) { if (a[i]) return n; n--; }\n return n; }",
        (2, 2),
        "ends the loop early",
    ),
    (
        "int f(int n, int *a) {\n for (int i = 0; i < n; i++) { int x = a[i]; if (x) return x; }\n"
        " return n; }",
        (2, 2),
        "hands on",
    ),
    (
        "int f(int n, int *a, int *b) {\n int i, *p = a;\n for (i = 0; i < n; i++, p = b) if (*p) break;\n"
        " return i; }",
        (3, 2),
        "ends the loop early",
    ),
    (
        "int f(int n, int *a) {\n int i;\n for (i = 0; i < n; i++) if (a[i]) { if (n) continue; break; }\n"
        " return i; }",
        (3, 55),
        "ends the loop early",
    ),
    (
        "int f(int n, int *a) {\n for (int i = 0; i < n; i++)\n"
        "  if (a[i]) { switch (i) { case 0: continue; default: n = 7; break; } return n; }\n return 1; }",
        (3, 71),
        "returns from inside a loop",
    ),
    (
        "int f(unsigned n, int *a) {\n for (unsigned i = 0; i != n; i++) if (a[i]) return 1;\n return 0; }",
        (2, 2),
        "compare it with <",
    ),
    (
        "int f(int n, int *a) {\n for (int i = 0; i < n; i *= 2) if (a[i]) return 1;\n return 0; }",
        (2, 2),
        "ends the loop early",
    ),
    (
        "int f(int n, int *a) {\n for (int i = 0; i < n; i++) if (a[i]--) return i;\n return 0; }",
        (2, 34),
        "ends the loop early",
    ),
    ("int f(int n) {\n again: n++;\n if (n < 3) goto again; return n; }", (2, 2), "goto"),
    ("int f(int n) { return n < 2 ? 1 : n * f(n - 1); }", (1, 39), "calls itself"),
    ('#include <stdio.h>\nvoid f(int n) { printf("%d", n); }', (2, 17), "input and output"),
    ("int f(int n) {\n while (1) n++;\n return n; }", (2, 2), "without end"),
    ("int f(int (*g)(int), int n) { return g(n); }", (1, 13), "function pointer"),
    ('int f(int n) { __asm__("nop"); return n; }', (1, 16), "assembly"),
    ("int f(volatile int *p) { return *p; }", (1, 21), "volatile"),
    ("union u { int i; float f; };\nfloat f(int n) { union u v; v.i = n; return v.f; }", (2, 26), "union"),
    ("int g(int);\nint f(int n) { return g(n); }", (2, 23), "g is not known"),
    ("int f(int n) { return missing(n); }", (1, 23), "missing is not known"),
    ("int f(int n) { int x; if (n) x = 1; return x; }", (1, 44), "before it is set"),
    ("int f(int n, ...) { return n; }", (1, 5), "variable number"),
    ("long double f(long double x) { return x; }", (1, 27), "long double"),
    ("int total; int f(int n) { return total + n; }", (1, 34), "outside the function"),
    ("int f(int n) { static int s; return s += n; }", (1, 27), "static"),
    ("int f(int i) { return i++ + i; }", (1, 23), "changed and read"),
    ("int f(int i) { return i / 0; }", (1, 23), "division by zero"),
    ("void f(int n, int *a, int *b) { int *p = n ? a : b; *p = 1; }", (1, 42), "more than one array"),
    (
        "int f(int n, int *a, int *b) { int *p; if (n) p = a; else p = b; return *p; }",
        (1, 74),
        "more than one",
    ),
    (
        "void f(int n, int *a, int *b) {\n int *p = a;\n for (int i = 0; i < n; i++) { *p = 1; p = b; } }",
        (3, 33),
        "more than one array",
    ),
    ("struct s { int n; };\nvoid f(struct s *p) { p->n = 1; }", (2, 23), "written through a pointer"),
    ("int f(const float *a) { return *(const int *)a; }", (1, 33), "f32 memory as i32"),
    ("int f(int n) { switch (n) { case 0: n = 3; case 1: n = 4; } return n; }", (1, 44), "falls through"),
    ("#include <stdlib.h>\nint *f(int n) { int *p = malloc(n); return p; }", (2, 33), "sizeof"),
    ("int *f(int *a) { return a + 1; }", (1, 6), "did not make"),
    ('int f(const char *s) { return *s + *"x"; }', (1, 37), "text"),
]


@pytest.mark.parametrize(("text", "where", "why"), REFUSED)
def test_what_cannot_be_lifted_says_where_and_why(tmp_path, text, where, why):
    found = read(tmp_path, text)[-1]
    assert isinstance(found, Refusal), found
    assert why in found.reason and found.position == SourcePosition(*where) and found.function == "f"
    assert ":" in found.reason or ";" in found.reason, "a reason says what to change"


REFUSED_CPP = [
    (
        "#include <vector>\nint f(const std::vector<int> &v, int x) { int r = 0;\n"
        " for (int q : v) if (q == x) { r += 1; if (x > 2) continue; break; } return r; }",
        "ends the loop early",
    ),
    ("int f(int n) { throw n; }", "throw"),
    ("int f(int n) { auto g = [n] { return n; }; return g(); }", "lambda"),
    ("#include <map>\nint f(std::map<int, int> &m) { return m[1]; }", "std::map"),
    (
        "#include <vector>\n#include <algorithm>\nvoid f(int *a, int n) { std::sort(a, a + n); }",
        "sort",
    ),
    ("#include <vector>\nvoid f(std::vector<int> &v) { v.push_back(1); }", "grows"),
    (
        "#include <vector>\nstd::vector<int> f(const int *a, int n) { std::vector<int> v;\n"
        " for (int i = 0; i < n; i++) v.push_back(a[i]);\n v.resize(2 * n); return v; }",
        "resize",
    ),
    (
        "#include <vector>\nstd::vector<int> f(int n) { std::vector<int> v;\n"
        " if (n > 3) v.assign(3, 1);\n v.resize(n); return v; }",
        "resize",
    ),
    ("int *f(int n) { return new int[n]; }", "new"),
    ("struct s { int x; int get() { return x; } };", "method"),
    ("template <class T> T f(T x) { return x; }", "template"),
]


@pytest.mark.parametrize(("text", "why"), REFUSED_CPP)
def test_what_cannot_be_lifted_from_cpp(tmp_path, text, why):
    found = read(tmp_path, text, "f.cpp")[0]
    assert isinstance(found, Refusal) and why in found.reason


def test_one_refusal_leaves_the_other_functions(tmp_path):
    text = "int f(int n) { return n + 1; }\nint g(int n) { return h(n); }\nint k(void) { return 2; }"
    assert [type(found) for found in read(tmp_path, text)] == [Function, Refusal, Function]


def test_a_fault_of_ours_refuses_one_function(tmp_path, monkeypatch):
    monkeypatch.setitem(EXPRESSIONS, "BINARY_OPERATOR", {}.__getitem__)
    found = read(tmp_path, "int f(int n) { return n + 1; }\nint g(int n) { return n; }")
    assert isinstance(found[0], Refusal) and "the fault is ours" in found[0].reason
    assert (found[0].function, found[0].position.line) == ("f", 1)
    assert isinstance(found[1], Function)


# Files that are no C at all, or wild: an error that begins with file:line:column, and no crash.
BROKEN = [
    ("int f(int n) { return n +; }", ":1:26: "),
    ("int f(int n) {", ":1:"),
    ("#include <boost/array.hpp>\nint f(void) { return 1; }", ":1:1: <boost/array.hpp> is not known"),
    ('\n#include "missing.h"\n', ':2:1: "missing.h" is not known'),
    ('#include "../f.c"\n', ":1:1: "),
    ('#include "/dev/zero"\n', ":1:1: "),
    ('#define H "/dev/zero"\n  #include H\n', ":2:3: an include that is not written"),
    ('#inc\\\nlude "/dev/zero"\n', ':1:1: "/dev/zero"'),
    ('#inc\\ \v\r\nlude "/dev/zero"\n', ':1:1: "/dev/zero"'),
    ('%:/* */include "/dev/zero"\n', ":1:1: "),
    ('#include "f.c"\n', ":1:1: "),
    ('\f#\vinclude "/dev/zero"\n', ':1:2: "/dev/zero"'),
    ('\u00a0#include "/dev/zero"\n', ":1:2: "),
    ('\ufeff#include "/dev/zero"\n', ":1:1: "),
    ('//\r#include "/dev/zero"\n', ":2:1: "),
    ('#define R\nchar *s = R"(";\n#include "/dev/zero"\nchar *t = R")";', ":2:11: a raw string"),
    ("#define X 1'0'*/ //' /*\n", ":1:11: a quote in a number"),
    ("int f(void) { return " + "(" * 50_000 + "1" + ")" * 50_000 + "; }", ":1:"),
    ("int f(int n) { return " + "-" * 1 + "- " * 30_000 + "n; }", ":1:"),
    ("int f(int n) {" + "if (n) ; else " * 30_000 + ";}", ":1:"),
    ("int f(int n) {" + "for (;;) " * 10_000 + ";}", ":1:"),
    (
        "#define A0 1 + 1\n" + "".join(f"#define A{i + 1} A{i} + A{i}\n" for i in range(40)) + "int x = A40;",
        ":1:1: ",
    ),
    ("#define D(x) x x\nint y " + "D(" * 40 + ";" + ")" * 40, ":"),
    ("int f\0(int n) { return 1; }", ":1:6: a zero byte"),
    ("int " * 1_000_000, ":1:1: larger than"),
    ("#error no\n", ":1:2: no"),
]


# Short names: an environment holds that of the test that runs, and some texts are longer than it may be.
@pytest.mark.parametrize(("text", "where"), BROKEN, ids=range(len(BROKEN)))
def test_a_broken_or_wild_file_is_a_located_error_in_time(tmp_path, text, where):
    began = time.process_time()
    with pytest.raises(TensmithError) as caught:
        results = read(tmp_path, text)
        refused = [found for found in results if isinstance(found, Refusal)]
        assert refused and len(refused) == len(results)
        raise TensmithError(f"{tmp_path / 'f.c'}:{refused[0].position}: {refused[0].reason}")
    assert where in str(caught.value) and str(caught.value).startswith(str(tmp_path / "f.c"))
    assert time.process_time() - began < 30


def test_quotes_are_those_that_the_compiler_sees(tmp_path):
    hidden = '\n#include "/dev/zero"\n/* */'
    for before in ("", "u8", "u", "U", "L"):
        with pytest.raises(TensmithError, match=r"f\.cpp:1:10: a raw string"):
            read(tmp_path, f'auto s = {before}R"(" /* )";{hidden}', "f.cpp")
    with pytest.raises(TensmithError, match=r"f\.cpp:2:1: \"/dev/zero\" cannot be included"):
        read(tmp_path, f"int a = 1'0; int c = '/*';{hidden}", "f.cpp")
    with pytest.raises(TensmithError, match=r"f\.cpp:1:11: a quote in a number"):
        read(tmp_path, f"#define X 1\u0300'0 '/*'{hidden}", "f.cpp")
    (found,) = read(tmp_path, "int f(int n) { return n + 1'000; }", "f.cpp")
    assert isinstance(found, Function)


def test_clang_opens_no_file(tmp_path):
    (tmp_path / "other.h").write_text("typedef int other;\n")
    text = f'#include "{tmp_path / "other.h"}"\nother f(other n) {{ return n; }}'
    for wild in ("", "f.c:1:1: tried elsewhere first"):
        with pytest.raises(TensmithError, match=r"file not found|tried elsewhere first: .* fails"):
            parse(SourceText(tmp_path / "f.c", text, {}, wild))


def test_a_header_is_found_from_its_own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.h").write_text("#include <stdint.h>\ntypedef int32_t own;\n")
    (tmp_path / "f.c").write_text('#include "own.h"\nown f(own n) { return n + 1; }')
    (found,) = read_c(Path("f.c"))
    assert isinstance(found, Function)


def test_missing_and_strange_files(tmp_path):
    for path in (tmp_path / "missing.c", tmp_path):
        with pytest.raises(TensmithError, match=":1:1: "):
            read_c(path)
    (tmp_path / "g.c").write_bytes(b"\xff\xfe int")
    with pytest.raises(TensmithError, match=":1:1: "):
        read_c(tmp_path / "g.c")
    with pytest.raises(TensmithError, match=":1:1: there is no function"):
        read(tmp_path, "int f(int n);")


def test_a_header_beside_the_file_is_read(tmp_path):
    (tmp_path / "scale.h").write_text(
        "#pragma once\n#define SCALE 3\nstatic int by(int x) { return x * SCALE; }\n"
    )
    (found,) = read(tmp_path, '#include "scale.h"\nint f(int n) { return by(n); }')
    assert isinstance(found, Function)


def test_parameters_say_what_they_are(tmp_path):
    (found,) = read(
        tmp_path, "void f(int n, int m, const float *a, double b[n][m], unsigned char **c, _Bool d) {}"
    )
    assert isinstance(found, Function)
    kinds = {parameter.name: parameter.type for parameter in found.parameters}
    assert isinstance(kinds["a"], Array) and not kinds["a"].written and kinds["a"].rank == 1
    assert isinstance(kinds["b"], Array) and kinds["b"].rank == 2 and kinds["b"].extents[0] is None
    assert isinstance(kinds["c"], Array) and kinds["c"].memory == "nested" and kinds["c"].element == "u8"
    assert found.position == SourcePosition(1, 6)


def test_labels_are_unique_and_name_the_counter(tmp_path):
    text = "void f(int n) { int s = 0, i = 0; do { for (int j = 0; j < n; j++) s++; } while (++i < n); }"
    (found,) = read(tmp_path, text)
    assert isinstance(found, Function)
    shown = print_function(found)
    assert "# j@1:40\n" in shown and "# j@1:40#2\n" in shown and "# do@1:35\n" in shown
