"""Benches that look for faults say so where there was nothing to look at."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from benchmarks.lifting import differential
from benchmarks.lifting.files import SourceFile
from benchmarks.rules import on_programs
from benchmarks.trust import corpus

from benchmarks import parts
from command_line import tiny_model
from forked import Commands
from tensmith.rewrite.rule import EXACT


def test_a_rule_that_applies_to_nothing() -> None:
    rule = EXACT["mul_into_conv"]
    assert on_programs.compared(rule, 2, 0).wrong == ()
    assert on_programs.compared(rule, 0, 0).wrong == ("mul_into_conv: it applies to none of its programs",)


def test_a_function_that_does_not_lift(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differential, "judged", lambda *_: [])
    found = differential.compared(SourceFile("own", Path("a.c"), ("f",)), ["numpy"], 1)
    assert found.wrong == ("own/a/f: it did not lift, or to no target",)


def test_graphs_of_which_none_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "Graph", lambda number: SimpleNamespace(name="g", model=tiny_model))
    monkeypatch.setattr(corpus, "examined", lambda *_: parts.Found({"read refused": 1}))
    found = corpus.random_models(range(3), Commands.__new__(Commands))
    assert found.wrong == ("graphs 0 to 2: none was read",)
