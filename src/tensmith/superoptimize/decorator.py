"""`@tensmith.optimize`, `tensmith.optimize(f, example_inputs=(x, y), domain={"x": "positive"})`."""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import Parameter
from types import FunctionType
from typing import Any, TypeVar, overload

from tensmith.errors import UsageError
from tensmith.superoptimize.admit import AdmittedFunction, NotDefinedYet, admit
from tensmith.superoptimize.dispatch import Dispatcher, Kinds, kind_of
from tensmith.superoptimize.domain import read_domain
from tensmith.superoptimize.loops import lift_loops, read_by_loops
from tensmith.superoptimize.pipeline import Optimization, superoptimize
from tensmith.superoptimize.trace import NotTraceable

Function = TypeVar("Function", bound=Callable[..., Any])
_BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
# Kinds of arguments that one function is optimized for.
_MOST_KINDS = 8


class OptimizeWarning(UserWarning):
    """A function runs as it was written, and why."""


@overload
def optimize(
    function: Function,
    /,
    *,
    example_inputs: Sequence[Any] | None = None,
    domain: Mapping[str, str] | None = None,
    seconds: float = 10.0,
) -> Function: ...
@overload
def optimize(
    *,
    example_inputs: Sequence[Any] | None = None,
    domain: Mapping[str, str] | None = None,
    seconds: float = 10.0,
) -> Callable[[Function], Function]: ...


def optimize(
    function: Any = None,
    /,
    *,
    example_inputs: Sequence[Any] | None = None,
    domain: Mapping[str, str] | None = None,
    seconds: float = 10.0,
) -> Any:
    """A NumPy function as the fastest equal program that is found for this machine, never a slower one.

    The function is traced on example arguments: `example_inputs`, or those of its first call. The program is
    rewritten by exact rules, each proved over the reals for all sizes, written as NumPy and C, compared with
    the function on several sets of arguments, and timed beside it. Where nothing faster is found, the
    function itself is what runs, and one OptimizeWarning says why. Loops that cannot be traced are lifted, as
    by `tensmith.lift`.

    `domain` promises something of arguments: positive, nonnegative, nonzero, finite, sorted, several words
    joined by spaces. Promises that are cheap to look at are checked in every call; the others are assumed.

    Arguments of other shapes and element types: after an example, the function itself runs; without one, they
    are optimized too, at the first call of each of the first eight kinds. What is returned has `reports`, an
    Optimization a kind. NumPy's warnings are those of the program that runs, if any.
    """
    if function is None:
        return functools.partial(optimize, example_inputs=example_inputs, domain=domain, seconds=seconds)
    if not callable(function):
        raise UsageError(
            f"tensmith.optimize takes a Python function, not {type(function).__name__}; those of files "
            "are optimized by the command tensmith optimize FILE --function NAME"
        )
    made = _Learning(function, domain, seconds)
    if not made.by_place:
        return function
    if example_inputs is not None:
        try:
            example = made.positional(tuple(example_inputs), {})
        except TypeError as error:
            raise UsageError(f"example_inputs= is no call of {made.name}: {error}") from error
        made.learn(tuple(map(kind_of, example)), example)
        made.room = 0
        if not any(report.program is not None for report in made.reports):
            return function

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        return made(*given, **named)

    call.reports = made.reports  # type: ignore[attr-defined]
    return call


class _Learning(Dispatcher):
    """A function and its programs, one for each of at most `room` more kinds of arguments."""

    def __init__(
        self, function: Callable[..., Any], domain: Mapping[str, str] | None, seconds: float
    ) -> None:
        self.reports: list[Optimization] = []
        self.lock = threading.RLock()
        self.room, self.seconds = _MOST_KINDS, seconds
        self.name = getattr(function, "__name__", "the function")
        promises = read_domain(domain, tuple(inspect.signature(function).parameters))
        super().__init__(function, {}, promises)
        self.admitted: AdmittedFunction | NotTraceable
        self.admit()
        self.by_place = all(each.kind in _BY_PLACE for each in self.signature.parameters.values())
        if not self.by_place:
            self.report(Optimization(self.name, reason="it has parameters by * or **"))

    def admit(self) -> None:
        """Reads the function's text, and what that reads outside."""
        try:
            self.admitted = admit(self.original)
            self.watch(self.admitted.reads)
        except NotTraceable as error:
            self.admitted = error

    def learn(self, kinds: Kinds, arguments: tuple[Any, ...]) -> None:
        """Optimizes for arguments of these kinds, in one thread at a time; what failed is not tried again."""
        with self.lock:
            if kinds not in self.programs:
                self._learn(kinds, arguments)

    def _learn(self, kinds: Kinds, arguments: tuple[Any, ...]) -> None:
        if isinstance(self.admitted, NotDefinedYet) or not (self.reports or self.as_it_was()):
            self.admit()
        if None in kinds and not self.reports:
            place = self.parameters[kinds.index(None)]
            self.report(Optimization(self.name, reason=f"'{place}' is no aligned array and no plain number"))
        elif self.room and None not in kinds and self.as_it_was():
            self.room -= 1
            found = self.optimized(arguments)
            self.take(kinds, found.program, found.checked)
            self.report(_guarded(found, kinds))

    def optimized(self, arguments: tuple[Any, ...]) -> Optimization:
        """By tracing, or else by lifting its loops."""
        if isinstance(self.admitted, AdmittedFunction):
            found = superoptimize(self.admitted, arguments, self.domain, self.seconds)
        else:
            found = Optimization(self.name, reason=str(self.admitted))
        if found.speedup is None and isinstance(self.original, FunctionType):
            lifted = lift_loops(self.original, self.parameters, arguments, self.domain, self.seconds)
            if lifted.speedup is None:
                return replace(found, reason=f"{found.reason}, and {lifted.reason}")
            self.watch(read_by_loops(self.original))
            return lifted
        return found

    def report(self, found: Optimization) -> None:
        """Keeps what was found; says once why the function runs as it was written."""
        if found.program is None and not any(report.program is None for report in self.reports):
            message = f"{found.name} runs as it was written: {found.reason}"
            warnings.warn(message, OptimizeWarning, stacklevel=_outside())
        self.reports.append(found)


def _outside() -> int:
    """The stack level of whoever called this room, for a warning of the caller's."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith("tensmith.superoptimize"):
        frame, level = frame.f_back, level + 1
    return level


def _guarded(found: Optimization, kinds: Kinds) -> Optimization:
    """What was found, its program for whoever calls it by itself: C that trusts sizes is behind it."""
    program = found.tried
    if program is None:
        return found

    def call(*given: Any) -> Any:
        if tuple(map(kind_of, given)) != kinds:
            raise UsageError(
                f"this program of '{found.name}' is for other shapes, element types or numbers; call "
                f"'{found.name}' itself"
            )
        return program(*given)

    return replace(found, program=call if found.program is not None else None, tried=call)
