"""Tenspiler's figures: every cell is measured, published, or says why it is neither."""

from __future__ import annotations

import re

from benchmarks.lifting.tenspiler import TARGETS, published, read, speedups, tables

from benchmarks import ROOT

SPEED = {
    "c/dsp": {
        "seconds": {"dsp/vadd": {"gcc -O3": 4.0, "numpy": 2.0}, "dsp/vsub": {"gcc -O3": 8.0, "numpy": 1.0}}
    }
}


def test_the_suites_are_the_69_kernels() -> None:
    theirs = published()
    assert sum(theirs["kernels"].values()) == 69
    for figures in (theirs["kernel"], theirs["end_to_end"]):
        assert figures.keys() < TARGETS.keys()
        assert all(by_suite.keys() == theirs["kernels"].keys() for by_suite in figures.values())
    assert all(theirs["without_sketches"][suite] <= count for suite, count in theirs["kernels"].items())


def test_a_cell_is_a_figure_with_its_word_or_a_reason() -> None:
    found = {**read(ROOT / "benchmarks" / "results"), "lifting_speed": {"rows": SPEED}}
    made = tables(found)
    assert [table.number for table in made] == [8, 9, 10, 11]
    words = re.compile(r"(measured|published)[^)]*\)$|^not possible here, |^not measured yet: ")
    for table in made[:3]:
        assert all(words.search(cell) for row in table.rows for cell in row[2:]), table.title


def test_speed_ups_are_over_the_source_and_their_mean_is_geometric() -> None:
    found = {"lifting_speed": {"rows": SPEED}}
    assert speedups(found) == {"dsp": {"gcc -O3": [1.0, 1.0], "numpy": [2.0, 8.0]}}
    row = next(row for row in tables(found)[1].rows if row[0] == "dsp")
    assert "4x (measured, 2 kernels)" in row
