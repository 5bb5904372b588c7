"""Functions that are loops of Python's: not traced but lifted, with the proof of `tensmith.lift`."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensmith.lifting.decorator import LiftWarning, lifted_form, reached, reason_of
from tensmith.superoptimize.admit import builtins_among, read_outside
from tensmith.superoptimize.compiled import agree, answered
from tensmith.superoptimize.domain import Domain
from tensmith.superoptimize.pipeline import Optimization, are_equal, example_samples, settled

_TARGETS = ("c", "numpy")
# Python's numbers, and the kinds of NumPy's that they are made of without loss.
_MADE_OF: dict[type, str] = {int: "iu", float: "f", bool: "b"}


def lift_loops(
    function: Callable[..., Any],
    parameters: Sequence[str],
    arguments: tuple[Any, ...],
    domain: Domain,
    seconds: float,
) -> Optimization:
    """The fastest lifted form of a function; it must not write to its arguments."""
    began, named = time.monotonic(), dict(zip(parameters, arguments))
    samples: list[tuple[Any, ...]] = []
    calls: list[Callable[..., Any]] = []
    reasons: dict[str, None] = {}
    worst = 0.0
    for target in _TARGETS:
        try:
            call = _form(function, named, target)
            samples = samples or answered(function, example_samples(named, domain))
            gap = agree(function, call, samples)
        except Exception as error:  # compilers and memory fail in any way
            reasons[reason_of(error)] = None
            continue
        if isinstance(gap, str):
            reasons[gap] = None
        else:
            calls.append(call)
            worst = max(worst, gap)
    if not calls:
        return Optimization(function.__name__, reason=f"its loops are not lifted: {'; '.join(reasons)}")
    reads = read_by_loops(function)
    if changing := [name for name, value in reads.items() if not _is_fixed(value)]:
        return Optimization(function.__name__, reason=f"it reads '{changing[0]}', whose elements may change")
    found = settled(function, calls, named, domain, reads, seconds)
    proof = "its loops are lifted, and proved for all sizes"
    spent = time.monotonic() - began
    return replace(found, proof=proof, difference=worst, samples=len(samples), seconds=spent)


def read_by_loops(function: Callable[..., Any]) -> Mapping[str, Any]:
    """What a function and its helpers read outside, as a lift takes it: names, and what they are."""
    found = reached(function)
    names = {name for node in found.functions.values() for name in read_outside(node)}
    meant = {name: value for name, value in found.values.items() if name in names}
    return meant | builtins_among(names - {*found.functions, *found.values})


def _is_fixed(value: Any) -> bool:
    """Whether a value is the same as long as its name means it: no list, and no tuple that holds one."""
    return all(map(_is_fixed, value)) if isinstance(value, tuple) else not isinstance(value, list)


def _form(function: Callable[..., Any], named: Mapping[str, Any], target: str) -> Callable[..., Any]:
    """A lifted form whose results are of the function's own types. ValueError if it writes to arguments."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LiftWarning)
        form = lifted_form(function, named, target)
    given = copy.deepcopy(tuple(named.values()))
    expected = function(*given)  # what is lifted has no effects but these
    if not all(map(are_equal, given, named.values())):
        raise ValueError("it writes to its arguments")
    kind = type(expected)
    if kind not in _MADE_OF:
        return form
    if np.asarray(form(*named.values())).dtype.kind not in _MADE_OF[kind]:
        raise ValueError(f"it gives numbers of several types, of which {kind.__name__} is one")
    return lambda *values: kind(form(*values))
