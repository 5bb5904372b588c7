"""Example arguments from words: `x=f64[1000, 50]`, `rate=0.05`, `n=3`."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from tensmith.errors import UsageError
from tensmith.ir.types import DTYPES
from tensmith.superoptimize.domain import Domain

_ARRAY = re.compile(r"(f64|f32|i64|bool)\[([\d, ]*)\]")
_MOST_ELEMENTS = 1 << 27


def example_arguments(words: Sequence[str], parameters: Sequence[str], domain: Domain) -> tuple[Any, ...]:
    """One argument for each parameter; arrays hold random numbers as promised. UsageError if wrong."""
    given = dict(_split(word) for word in words)
    for name in (*given, *parameters):
        if name not in parameters or name not in given:
            what = "which is no parameter" if name not in parameters else "for which none is given"
            raise UsageError(
                f"--example: '{name}', {what}; write --example 'x=f64[1000, 50]' for each of them"
            )
    rng = np.random.default_rng(0)
    return tuple(_value(name, given[name], domain, rng) for name in parameters)


def _split(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals:
        raise UsageError(f"--example has {word!r}; write x=f64[1000, 50], rate=0.05 or n=3")
    return name.strip(), value.strip()


def _value(name: str, text: str, domain: Domain, rng: np.random.Generator) -> Any:
    found = _ARRAY.fullmatch(text)
    if found is None:
        try:
            number = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            number = None
        if not isinstance(number, int | float | bool):
            raise UsageError(f"--example {name}: {text!r} is no number, and no array such as f64[1000, 50]")
        return number
    try:
        shape = np.broadcast_to(0, [int(size) for size in found[2].split(",") if size.strip()]).shape
    except ValueError as error:
        raise UsageError(f"--example {name}: {text!r} is no array; write f64[1000, 50]") from error
    if math.prod(shape) > _MOST_ELEMENTS:
        raise UsageError(f"--example {name}: over {_MOST_ELEMENTS} elements; choose a smaller shape")
    drawn = {"i64": rng.integers(0, 4, shape), "bool": rng.random(shape) < 0.5}
    array = np.asarray(drawn.get(found[1], rng.uniform(0.5, 1.5, shape)), DTYPES[found[1]])
    for promise in domain.get(name, ()):
        array = np.asarray(promise.make(array), array.dtype)
    return array
