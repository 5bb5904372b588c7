"""What a caller promises of arguments: `domain={"x": "positive"}`. Cheap ones are looked at in every call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensmith.errors import UsageError
from tensmith.formula.arith import Array


@dataclass(frozen=True)
class Promise:
    """A property of an array: how it is tested, and how numbers that have it are made of any.

    absolute: it is its own absolute value, which rules know. ordered: to sort it along the last axis does
    nothing.
    """

    name: str
    holds: Callable[[Array], bool]
    make: Callable[[Array], Array]
    absolute: bool = False
    ordered: bool = False


def _least(x: Array) -> float:
    return float(np.min(x)) if x.size else np.inf


def _positive(x: Array) -> Array:
    return np.asarray(np.abs(x) + (0.1 if x.dtype.kind == "f" else 1), x.dtype)


PROMISES = {
    promise.name: promise
    for promise in (
        Promise("positive", lambda x: _least(x) > 0, _positive, absolute=True),
        Promise("nonnegative", lambda x: _least(x) >= 0, np.abs, absolute=True),
        Promise("nonzero", lambda x: bool(np.all(x)), lambda x: np.where(x == 0, np.asarray(1, x.dtype), x)),
        Promise("finite", lambda x: bool(np.all(np.isfinite(x))), lambda x: x),
        Promise(
            "sorted",
            lambda x: x.ndim == 0 or bool(np.all(x[..., 1:] >= x[..., :-1])),
            lambda x: np.sort(x, axis=-1) if x.ndim else x,
            ordered=True,
        ),
    )
}

Domain = Mapping[str, tuple[Promise, ...]]


def read_domain(given: Mapping[str, str] | None, parameters: tuple[str, ...]) -> Domain:
    """Promises by parameter, several joined by spaces. UsageError if one is not known."""
    found: dict[str, tuple[Promise, ...]] = {}
    for name, words in (given or {}).items():
        if name not in parameters:
            raise UsageError(
                f"domain= names '{name}', which is no parameter; there are {', '.join(parameters)}"
            )
        for word in words.split():
            if word not in PROMISES:
                raise UsageError(f"no promise is called '{word}'; there are {', '.join(PROMISES)}")
            found[name] = (*found.get(name, ()), PROMISES[word])
    return found


def holds(domain: Domain, arguments: Mapping[str, Any]) -> bool:
    """Whether arguments are as promised."""
    return all(p.holds(np.asarray(arguments[name])) for name, promises in domain.items() for p in promises)


def sample(domain: Domain, name: str, example: Any, rng: np.random.Generator, plain: bool) -> Any:
    """Another argument of the same type: values near the example's if `plain`, else of both signs, some 0.

    Whole numbers and truth values change places; not `plain`, truth values are drawn anew.
    """
    array = np.asarray(example)
    kind, shape = array.dtype.kind, array.shape
    made = rng.permutation(array.reshape(-1)).reshape(shape)
    if kind == "f":
        made = made * rng.uniform(0.9, 1.1, shape) if plain else rng.standard_normal(shape) * 2
    if kind == "i" and not plain:
        made = np.where(rng.random(shape) < 0.5, -made, made)
    if kind == "b" and not plain:
        made = rng.random(shape) < 0.5
    elif kind in "fiu" and not plain:
        made = np.where(rng.random(shape) < 0.02, 0, made)
    made = np.asarray(made, array.dtype)
    for promise in domain.get(name, ()):
        made = np.asarray(promise.make(made), array.dtype)
    return float(made) if type(example) is float else made
