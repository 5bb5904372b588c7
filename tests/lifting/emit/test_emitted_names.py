"""Every name that an emitted text uses for itself may be a parameter's and the function's: nothing meets."""

from __future__ import annotations

import ast
import functools
import inspect
import keyword
import re
import subprocess

import numpy as np
import pytest

from tensmith.lifting.emit.python_names import global_names, renamed
from tensmith.lifting.emit.python_writer import PythonWriter
from tensmith.lifting.pipeline import emitter_of, lift_file

PYTHON = ("numpy", "torch", "tensorflow", "jax", "mlx")
SOURCE = """
void {F}(int {a}, const float *{b}, int {c}, float *{d}) {{
    for (int q0 = 0; q0 < {a}; q0++) {d}[q0] = {b}[q0] * 2.0f + {c} / 3 + ({c} > q0 ? {b}[0] : 1.0f);
}}
"""
ORDINARY = {"F": "plain", "a": "n", "b": "x", "c": "k", "d": "y"}


@functools.cache
def lifted(text):
    """The lifted function of a source."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "given.c"
        path.write_text(text)
        (result,) = lift_file(path, targets=(), run=False)
    assert result.proved, result.reason
    return result.work.lifted


def named(**names):
    """The function with some names in the place of ordinary ones."""
    return lifted(SOURCE.format(**(ORDINARY | names)))


def emitted(target, program):
    """The text of a target's only module."""
    (text,) = emitter_of(target).emit(program).files.values()
    return text.decode()


def called(text, name, k=4):
    """What a module's function gives, called by the names of its parameters."""
    space = {"__name__": "emitted"}
    exec(compile(text, name, "exec"), space)
    function = space[name]
    parameters = list(inspect.signature(function).parameters)
    given = (3, np.array([1, 2, 3], "f4"), k, np.zeros(4, "f4"))
    return parameters, np.asarray(function(**dict(zip(parameters, given)))).tolist()


EXPECTED = [4.0, 6.0, 8.0, 0.0]


@pytest.mark.parametrize("target", PYTHON)
def test_every_global_name_may_be_a_parameter_and_the_function(target):
    pytest.importorskip({"tensorflow": "tensorflow", "mlx": "mlx.core"}.get(target, target))
    used = global_names(emitted(target, named())) - {"plain"} - set(dir(type(ast)))
    candidates = sorted(name for name in used - C_WORDS if not name.startswith("__"))
    assert {"ValueError", "max", "_flat", "_integer"} <= set(candidates)
    for name, other in zip(candidates, candidates[1:] + candidates[:1]):
        parameters, found = called(emitted(target, named(F=name, b=other)), name)
        assert parameters == ["n", other, "k", "y"] and found == EXPECTED, name


DOUBLES = """
void plain(int n, const double *x, int k, double *y) { for (int i = 0; i < n; i++) y[i] = x[i] * k; }
"""


@pytest.mark.parametrize("target", PYTHON)
def test_functions_of_doubles_are_called_by_name_too(target):
    pytest.importorskip({"tensorflow": "tensorflow", "mlx": "mlx.core"}.get(target, target))
    found = called(emitted(target, lifted(DOUBLES)), "plain")
    assert found == (["n", "x", "k", "y"], [4.0, 8.0, 12.0, 0.0])


FILES = ['x""";print("injected");""".c', "back\\slash\\u.c", 'quote".c', "new\nline.c"]


@pytest.mark.parametrize("name", FILES, ids=range(len(FILES)))
def test_a_file_may_have_any_name(name, tmp_path, capsys):
    path = tmp_path / name
    path.write_text("int plain(int n) { return n + 1; }\n")
    (result,) = lift_file(path, targets=("numpy", "c"))
    assert result.proved, result.reason
    space = {}
    exec(compile(result.emitted["numpy"]["plain.py"], "plain", "exec"), space)
    assert int(space["plain"](2)) == 3 and "injected" not in capsys.readouterr().out
    comment, code = result.emitted["c"]["plain.h"].decode().split("*/", 1)
    assert "plain of" in comment and "int plain(" in code


@pytest.mark.parametrize("target", PYTHON)
def test_all_that_a_text_uses_is_among_what_is_kept_from_its_locals(target):
    used = global_names(emitted(target, named())) - {"plain"}
    assert used <= emitter_of(target).reserved


def test_four_clashes_at_once_keep_their_names():
    names = {"F": "np", "a": "max", "b": "_flat", "c": "ValueError", "d": "builtins"}
    parameters, found = called(emitted("numpy", named(**names)), "np")
    assert parameters == ["max", "_flat", "ValueError", "builtins"] and found == EXPECTED


@pytest.mark.parametrize("name", ["lambda_", "device", "sum", "len", "id", "np_", "_array_2", "self"])
def test_names_that_nothing_needs_stay(name):
    for target in ("numpy", "torch"):
        assert called(emitted(target, named(c=name)), "plain") == (["n", "x", name, "y"], EXPECTED)


@pytest.mark.parametrize("word", ["lambda", "in", "def", "class", "None", "is"])
def test_words_of_python_get_a_line_behind_them(word):
    assert keyword.iskeyword(word)
    parameters, found = called(emitted("numpy", named(c=word, a=f"{word}_")), "plain")
    assert found == EXPECTED and len(set(parameters)) == 4 and parameters[0] == f"{word}_"


def test_names_that_python_reads_alike_are_told_apart():
    parameters, found = called(emitted("numpy", named(c="\ufb01", a="fi")), "plain")
    assert found == EXPECTED and parameters[0] == "fi" and len(set(parameters)) == 4


def test_names_differing_by_case_and_like_the_function():
    parameters, found = called(emitted("numpy", named(a="N", b="n", c="plain", d="PLAIN")), "plain")
    assert (parameters, found) == (["N", "n", "plain", "PLAIN"], EXPECTED)


@pytest.mark.parametrize("name", ["__debug__", "__builtins__", "__spec__", "\ufb01t"])
def test_a_function_that_no_module_can_hold_is_refused(name, tmp_path):
    path = tmp_path / "given.c"
    path.write_text(f"int {name}(int n) {{ return n; }}\n", encoding="utf-8")
    (result,) = lift_file(path)
    assert not result.proved and "cannot name a file and a function" in result.reason


def test_fields_and_parameters_that_would_be_spelt_alike():
    text = "struct S { int x; }; int F(struct S s, int s_x) { return s.x * 10 + s_x; }"
    text = emitted("numpy", lifted(text))
    space = {}
    exec(text, space)
    assert int(space["F"](type("S", (), {"x": 4}), 2)) == 42


def test_without_the_renaming_the_module_breaks():
    """The wrong twin: parameters under their public names, and nothing else renamed."""
    program = named(b="np")
    target = emitter_of("numpy")
    text = target._text(program, PythonWriter(target, program, target.prepared(program.program), ()))
    with pytest.raises(Exception):  # noqa: B017
        called(text, "plain")


def test_renaming_leaves_locals_of_helpers_alone():
    text = (
        "import numpy as np\n\ndef _h(np):\n    return np\n\ndef f(np_):\n    return _h(np_) + np.int32(1)\n"
    )
    space = {}
    exec(renamed(text, "f", {"np_": "np", "f": "_h"}, frozenset()), space)
    assert space["_h"](np=1) == 2


# C, TPC-C and Gemmini


def words(text):
    """Identifiers of a C text, without comments, strings and what it includes."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*|\"[^\"]*\"|^#include.*?$", " ", text, flags=re.DOTALL | re.MULTILINE)
    return {word for word in re.findall(r"[A-Za-z]\w*", text) if word not in C_WORDS}


C_WORDS = frozenset(
    re.findall(
        r"\w+",
        "if else for return int const float void char static bool while include define ifdef ifndef endif "
        "undef extern sizeof C unsigned struct double restrict inline long short signed auto break",
    )
)


@pytest.mark.parametrize("target", ["c", "gemmini"])
def test_every_word_of_the_c_text_may_be_a_parameter_and_the_function(target, tmp_path):
    first = emitter_of(target).emit(named())
    found = words("".join(content.decode() for content in first.files.values()))
    candidates = sorted(w for w in found - set(ORDINARY.values()) if not w.startswith("plain"))
    assert {"memcpy", "int64_t", "size_t"} <= set(candidates)
    sources = []
    for word in candidates:
        for place in ("a", "b", "F"):
            try:
                program = named(**{place: word})
            except AssertionError:  # no C source has this name there
                continue
            folder = tmp_path / f"{word}_{place}"
            folder.mkdir()
            for name, content in emitter_of(target).emit(program).files.items():
                (folder / name).write_bytes(content)
            sources.append(folder / (f"{word}.c" if place == "F" else "plain.c"))
    assert len(sources) > len(candidates)
    if target == "c":
        subprocess.run(["gcc", "-std=c11", "-fsyntax-only", "-Wall", "-Werror", *sources], check=True)


def test_functions_that_differ_by_case_may_be_included_together(tmp_path):
    for name in ("sub", "SUB"):
        for file, content in emitter_of("c").emit(named(F=name)).files.items():
            (tmp_path / f"{name}_{file}").write_bytes(content)
    both = tmp_path / "both.c"
    both.write_text('#include "sub_sub.h"\n#include "SUB_SUB.h"\nvoid *p = sub, *q = SUB;\n')
    subprocess.run(["gcc", "-std=c11", "-fsyntax-only", "-Wall", "-Werror", both], check=True)
