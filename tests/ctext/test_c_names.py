"""Identifiers: what C and the headers of emitted files mean by themselves is left alone."""

from __future__ import annotations

import re
import subprocess

import pytest

from tensmith.ctext.names import Names, reserved, unmixed

HEADERS = ("math", "stdlib", "string", "stdint", "stddef", "stdbool")
KEYWORDS = [
    "auto",
    "for",
    "goto",
    "if",
    "inline",
    "restrict",
    "return",
    "sizeof",
    "static",
    "switch",
    "union",
    "volatile",
    "while",
]


@pytest.fixture(scope="module")
def declared(tmp_path_factory):
    """Macros, types and functions that this machine's headers declare, but for those of the compiler."""
    source = tmp_path_factory.mktemp("headers") / "every.c"
    source.write_text("".join(f"#include <{name}.h>\n" for name in HEADERS))

    def gcc(*options):
        command = ["gcc", "-std=gnu11", *options, source]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    found = set(re.findall(r"^#define (\w+)", gcc("-dM", "-E"), re.MULTILINE))
    text = gcc("-E")
    found |= set(re.findall(r"typedef [^;{}]*?\b(\w+);", text))
    found |= set(re.findall(r"^extern [^;]*?\b(\w+) \(", text, re.MULTILINE))
    return {name for name in found if not name.startswith("_")}


def test_no_name_of_a_header_is_handed_out(declared):
    assert len(declared) > 300
    assert sorted(name for name in declared if not reserved(name)) == []


@pytest.mark.parametrize("name", KEYWORDS)
def test_keywords_are_not_handed_out(name):
    assert Names().fresh(name) == f"{name}_2"


@pytest.mark.parametrize("name", ["n", "N", "X", "t", "s_t", "x_r", "incX", "LDA", "WIDTH", "out", "f", "l"])
def test_ordinary_names_stay(name):
    assert Names().fresh(name) == name


@pytest.mark.parametrize("name", ["M", "M_PI", "FP_x", "exp", "n", "_", "EXIT_now", "strf_r", "x_t", "s_l"])
@pytest.mark.parametrize("marked", [False, True])
def test_any_name_is_handed_out_many_times(name, marked):
    names = Names(marked=marked)
    found = [names.fresh(name) for _ in range(5)]
    assert len(set(found)) == 5 and not any(reserved(given) for given in found)


def test_names_avoid_the_words_of_the_text_they_are_in():
    def make(names):
        function, first, second = map(names.fresh, ("f", "helper", "n"))
        return f"int helper(void); // n\nint {function}(int {first}, int {second})"

    assert unmixed(make, str) == "int helper(void); // n\nint f(int helper_2, int n)"
    assert "int helper)" in make(Names()) or "int helper," in make(Names()), "without it they meet"
