"""A run is resumed with the question it began with, or told what differs."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from tensmith.config import make_config
from tensmith.deploy.identity import difference, function_identity, run_identity


def one(model: object, view: object) -> float:
    return 1.0


def other(model: object, view: object) -> float:
    return 2.0


def graded(model: object, view: object, share: float = 0.5, by: object = None) -> float:
    return share


class Judge:
    def __init__(self, share: float = 0.5, by: object = None) -> None:
        self.share, self.by = share, by

    def __call__(self, model: object, view: object) -> float:
        return 3.0

    def score(self, model: object, view: object) -> float:
        return self.share


def closure(share: object) -> Callable[[object, object], object]:
    return lambda model, view: share


def default(share: object) -> Callable[[object, object], object]:
    return lambda model, view, share=share: share


BEFORE = run_identity(make_config(model="a.onnx"), "m", "d", one)


def test_the_same_question() -> None:
    again = make_config(model="moved/a.onnx", time_budget="1h", prefer="size")
    assert difference(BEFORE, run_identity(again, "m", "d", one)) is None


@pytest.mark.parametrize(
    ("options", "model", "data", "evaluation", "words"),
    [
        ({"seed": 7}, "m", "d", one, "another seed"),
        ({}, "x", "d", one, "another model file"),
        ({}, "m", "x", one, "other data"),
        ({}, "m", "d", other, "another evaluation function"),
        ({}, "m", "d", None, "another evaluation function"),
    ],
)
def test_another_question(options, model, data, evaluation, words) -> None:  # type: ignore[no-untyped-def]
    now = run_identity(make_config(model="a.onnx", **options), model, data, evaluation)
    assert words in (difference(BEFORE, now) or "")


def test_functions_are_known_by_name_and_source() -> None:
    assert function_identity(one) == function_identity(one) != function_identity(other)
    first = lambda model, view: 1.0  # noqa: E731
    second = lambda model, view: 2.0  # noqa: E731
    assert function_identity(first) != function_identity(second)
    assert (function_identity(Judge()) or {})["name"] == f"{__name__}.Judge"
    assert (function_identity(max) or {})["source"] is None


def test_what_a_function_was_given_belongs_to_it() -> None:
    partial = functools.partial
    found = function_identity(partial(graded, share=0.9))
    assert found == function_identity(partial(graded, share=0.9))
    for another in (partial(graded, share=0.8), partial(graded, 0.9), partial(one, share=0.9), graded):
        assert function_identity(another) != found
    assert function_identity(Judge(0.9)) == function_identity(Judge(0.9)) != function_identity(Judge(0.8))
    method = function_identity(Judge(0.9).score)
    assert method == function_identity(Judge(0.9).score) != function_identity(Judge(0.8).score)
    for make in (closure, default):
        assert function_identity(make(0.9)) == function_identity(make(0.9)) != function_identity(make(0.8))
    # What lies elsewhere in each process is the same thing.
    assert function_identity(partial(graded, by=object())) == function_identity(partial(graded, by=object()))
    assert function_identity(Judge(by=object())) == function_identity(Judge(by=object()))
    assert function_identity(Judge(by=object()).score) == function_identity(Judge(by=object()).score)
    assert function_identity(closure(object())) == function_identity(closure(object()))
