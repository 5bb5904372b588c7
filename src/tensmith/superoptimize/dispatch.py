"""Which calls of a function an optimized program answers; all others are the original's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from tensmith.superoptimize.domain import Domain, holds

Kinds = tuple[Hashable, ...]


def kind_of(value: Any) -> Hashable:
    """Arrays are alike by element type and shape, floats always, other numbers by value."""
    if type(value) is np.ndarray:
        return (value.dtype, value.shape) if value.flags.aligned else None
    if type(value) in (float, np.float64, np.float32):
        return type(value).__name__
    return _by_value(value)


def _by_value(value: Any) -> Hashable:
    """A number, a text or a tuple of such; None for what is none."""
    kind = type(value)
    if kind is tuple:
        parts = tuple(map(_by_value, value))
        return None if None in parts else (kind, parts)
    if kind is float:
        return kind, repr(value)  # 0.0 is not -0.0, and nan is one value
    return (kind, value) if kind in (int, bool, str, type(None)) else None


class Dispatcher:
    """A function that calls optimized programs where arguments are of their kinds and as promised.

    assumed: kinds for which promises are not looked at, but are the caller's.
    """

    def __init__(self, original: Callable[..., Any], reads: Mapping[str, Any], domain: Domain) -> None:
        self.original, self.domain = original, domain
        self.signature = inspect.signature(original)
        self.parameters = tuple(self.signature.parameters)
        self.programs: dict[Kinds, Callable[..., Any] | None] = {}
        self.assumed: set[Kinds] = set()
        self.space = getattr(original, "__globals__", {})
        names = getattr(getattr(original, "__code__", None), "co_freevars", ())
        self.around = dict(zip(names, getattr(original, "__closure__", None) or ()))
        self.watch(reads)

    def watch(self, reads: Mapping[str, Any]) -> None:
        """What programs are made for: names outside, and what they were; builtins' have no other meaning."""
        around, space = self.around, self.space
        self.cells = [(around[name], value) for name, value in reads.items() if name in around]
        self.reads = [(name, v) for name, v in reads.items() if name in space and name not in around]
        self.absent = reads.keys() - space.keys() - around.keys()

    def as_it_was(self) -> bool:
        """Whether everything that is read outside is still what it was."""
        return (
            all(self.space.get(name) is value for name, value in self.reads)
            and all(cell.cell_contents is value for cell, value in self.cells)
            and self.space.keys().isdisjoint(self.absent)
        )

    def positional(self, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments by position, defaults filled in. TypeError where Python would raise it."""
        if not named and len(given) == len(self.parameters):
            return given
        bound = self.signature.bind(*given, **named)
        bound.apply_defaults()
        return tuple(bound.arguments.values())

    def take(self, kinds: Kinds, program: Callable[..., Any] | None, checked: bool) -> None:
        """A program for arguments of some kinds, or that there is none; whether promises are looked at."""
        self.programs[kinds] = program
        if not checked:
            self.assumed.add(kinds)

    def answer(self, arguments: tuple[Any, ...], kinds: Kinds, program: Callable[..., Any]) -> Any:
        """The program's answer, or the original's where something is not as it was, or is an error."""
        if not self.as_it_was():
            return self.original(*arguments)
        asked = {} if kinds in self.assumed else self.domain
        if asked and not holds(asked, dict(zip(self.parameters, arguments))):
            return self.original(*arguments)
        try:
            return program(*arguments)
        except Exception:  # the original raises its own error, or knows better
            return self.original(*arguments)

    def learn(self, kinds: Kinds, arguments: tuple[Any, ...]) -> None:
        """What is done about arguments of kinds that were not seen before: nothing."""

    def __call__(self, *given: Any, **named: Any) -> Any:
        arguments = self.positional(given, named)
        kinds = tuple(map(kind_of, arguments))
        if kinds not in self.programs:
            self.learn(kinds, arguments)
        program = self.programs.get(kinds)
        return self.original(*arguments) if program is None else self.answer(arguments, kinds, program)
