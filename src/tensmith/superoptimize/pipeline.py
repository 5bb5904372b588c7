"""One function and one set of arguments: traced, rewritten, written, compared, timed; the faster stays."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensmith.engine.stopwatch import time_calls
from tensmith.errors import ProgramError, TensmithError, our_fault
from tensmith.evaluate.latency import BUSY, take_turns
from tensmith.evaluate.statistics import median_interval
from tensmith.ir import Node, Program, TensorType
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.lifting.refusal import Refusal
from tensmith.report.metric import Metric, spread
from tensmith.report.quantity import told_beside
from tensmith.rewrite.rule import Step
from tensmith.superoptimize.admit import AdmittedFunction, bounded
from tensmith.superoptimize.compiled import agree, answered, load
from tensmith.superoptimize.dispatch import Dispatcher, kind_of
from tensmith.superoptimize.domain import Domain, holds, sample
from tensmith.superoptimize.forms import EqualForm, forms
from tensmith.superoptimize.text import ProgramText, Wanted, fused_text, looped_text, numpy_text, written
from tensmith.superoptimize.trace import NotTraceable, Trace, TracedArray

# When searching and compiling end, and how long the last two are timed, as shares of the time there is.
_SEARCH, _WRITE, _RACE = 0.4, 0.7, 0.12
_CONTENDERS, _TRIALS = 6, 5
# A look at promises that takes up to one part in so many of what the original takes is cheap.
_CHEAP = 20
_ASSUMED = (
    "arguments, results and what is computed between are finite, and whole numbers fit in 64 bits; "
    "floats are rounded in another order than the original's"
)


@dataclass(frozen=True)
class Optimization:
    """What became of a function for arguments of one kind: the program to call, or why the original stays.

    difference: to the original, relative to the largest element, on `samples` sets of arguments. trail: exact
    rules from the program as it was `traced` to the `rewritten` one. left_out: why other programs were.
    proof: why both are equal. tried: the program that was timed, kept or not. busy: as in `latency.Rounds`.
    """

    name: str
    program: Callable[..., Any] | None = None
    reason: str = ""
    speedup: Metric | None = None
    difference: float = 0.0
    samples: int = 0
    trail: tuple[Step, ...] = ()
    promises: tuple[str, ...] = ()
    checked: bool = True
    traced: str = ""
    rewritten: str = ""
    source: str = ""
    kernels: str = ""
    left_out: tuple[str, ...] = ()
    seconds: float = 0.0
    proof: str = ""
    tried: Callable[..., Any] | None = None
    busy: bool = False

    @property
    def assumes(self) -> tuple[str, ...]:
        """What is not looked at when the program is called."""
        return (_ASSUMED, *(() if self.checked else self.promises))

    def to_json(self) -> dict[str, Any]:
        """All that can be told."""
        return {
            "function": self.name,
            "optimized": self.program is not None,
            "reason": self.reason,
            "speedup": None if self.speedup is None else self.speedup.to_json(),
            "busy": self.busy,
            "difference": {"value": self.difference, "evidence": "measured", "samples": self.samples},
            "equality": {
                "evidence": "proved",
                "of": "the rewriting of what was traced",
                "by": self.proof,
                "trail": [step.to_json() for step in self.trail],
            }
            if self.proof
            else None,
            "assumes": list(self.assumes),
            "checks": list(self.promises) if self.checked else [],
            "left_out": list(self.left_out),
            "traced": self.traced,
            "program": self.rewritten,
            "source": self.source,
            "kernels": self.kernels,
            "seconds": self.seconds,
        }

    def sentences(self) -> Iterator[str]:
        """The same for people."""
        if self.program is None or self.speedup is None:
            yield f"{self.name}: the original stays: {self.reason}"
        else:
            s = self.speedup
            value, low = (told_beside(number, 1.0) for number in (s.value, s.low))
            yield f"{self.name}: {value}x faster ({low} to {s.high:.2f}), measured"
            yield f"  proved   equal, {self.proof}"
            gap = f"{self.difference:.1e} of the largest element"
            yield f"  measured at most {gap} away from the original, on {self.samples} sets of arguments"
            for text in self.promises if self.checked else ():
                yield f"  checks   {text}, in every call"
            for text in self.assumes:
                yield f"  assumes  {text}"
        if self.busy:
            yield f"  take care {BUSY}"
        for text in self.left_out:
            yield f"  left out {text}"


@dataclass(frozen=True)
class _Traced:
    """The program of a function for arguments of one kind."""

    program: Program
    wanted: Wanted


def superoptimize(
    function: AdmittedFunction, arguments: Sequence[Any], domain: Domain, seconds: float = 10.0
) -> Optimization:
    """The fastest program that is found for arguments like these, within about some seconds.

    Whatever the function does is a reason in what is returned, never an error.
    """
    began = time.monotonic()
    try:
        found = _optimized(function, tuple(arguments), domain, seconds)
    except (NotTraceable, Refusal, ProgramError) as error:
        found = Optimization(function.name, reason=str(error))
    except TensmithError as error:
        found = Optimization(function.name, reason=f"it cannot be compiled: {error}")
    except (MemoryError, RecursionError) as error:
        found = Optimization(function.name, reason=f"it takes too much here ({type(error).__name__})")
    except Exception as error:
        found = Optimization(function.name, reason=our_fault(error))
    return replace(found, seconds=time.monotonic() - began)


def _optimized(
    function: AdmittedFunction, arguments: tuple[Any, ...], domain: Domain, seconds: float
) -> Optimization:
    began, named = time.monotonic(), dict(zip(function.parameters, arguments))
    if not holds(domain, named):
        raise NotTraceable("the arguments are not as domain= promises")
    traced = trace(function, named, domain)
    if not written(traced.program):
        raise NotTraceable("there is no text for one of its operations")
    samples = answered(function.plain, example_samples(named, domain))
    if not samples:
        raise NotTraceable("it raises an error for these arguments")
    found = forms(traced.program, _SEARCH * seconds)
    until = began + _WRITE * seconds
    made, left_out = _contenders(found, traced.wanted, _absolute(domain), function.plain, samples, until)
    if not made:
        raise NotTraceable(f"no equal program is equal in floats, too ({'; '.join(left_out)})")
    calls = {candidate.call: candidate for candidate in made}
    result = settled(function.plain, list(calls), named, domain, function.reads, seconds)
    assert result.tried is not None, "one of several is the fastest"
    best = calls[result.tried]
    trail = best.form.traced.trail
    rules = ", ".join(dict.fromkeys(step.rule for step in trail)) or "none"
    return replace(
        result,
        name=function.name,
        proof=f"over the reals, by exact rules: {rules}",
        difference=best.difference,
        samples=len(samples),
        trail=trail,
        traced=str(traced.program),
        rewritten=str(best.form.traced.program),
        source=best.text.source,
        kernels="\n".join(source for source, _ in best.text.kernels.values()),
        left_out=tuple(left_out),
    )


def settled(
    original: Callable[..., Any],
    calls: Sequence[Callable[..., Any]],
    named: Mapping[str, Any],
    domain: Domain,
    reads: Mapping[str, Any],
    seconds: float,
) -> Optimization:
    """The fastest of some programs, timed against the original, calls through the dispatcher included."""
    arguments = tuple(named.values())
    best = _fastest(calls, arguments)
    checked = _cheap(original, domain, named)
    called = Dispatcher(original, reads, domain)
    called.take(tuple(map(kind_of, arguments)), best, checked)
    speedup, busy = _race(original, called, arguments, _RACE * seconds)
    faster = speedup.low > 1
    return Optimization(
        original.__name__,
        best if faster else None,
        "" if faster else f"nothing faster was found (the best: {speedup.value:.2f}x)",
        speedup,
        promises=tuple(f"{name} is {p.name}" for name, promises in domain.items() for p in promises),
        checked=checked,
        tried=best,
        busy=busy,
    )


def _absolute(domain: Domain) -> list[str]:
    """Parameters that are never negative."""
    return [name for name, promises in domain.items() if any(promise.absolute for promise in promises)]


def _cheap(original: Callable[..., Any], domain: Domain, named: Mapping[str, Any]) -> bool:
    """Whether looking at promises takes little beside the function itself."""

    def least(run: Callable[[], Any]) -> int:
        return int(time_calls(run, _TRIALS).nanoseconds.min())

    if not domain:
        return True
    return _CHEAP * least(lambda: holds(domain, named)) < least(lambda: original(*named.values()))


# Tracing


def trace(function: AdmittedFunction, named: Mapping[str, Any], domain: Domain) -> _Traced:
    """The program of a function for arguments of these shapes and types; NotTraceable says what it is not."""
    first, again = (_once(function, named, domain) for _ in range(2))
    if first.program.digest != again.program.digest:
        raise NotTraceable("it does something else each time that it is called")
    return first


def _once(function: AdmittedFunction, named: Mapping[str, Any], domain: Domain) -> _Traced:
    t = Trace()
    given = [_argument(t, name, value, domain) for name, value in named.items()]
    try:
        result = function.traced(*given)
    except TensmithError:
        raise
    except Exception as error:
        raise NotTraceable(f"it raises {type(error).__name__}: {error}") from error
    several = isinstance(result, tuple)
    parts = result if several else (result,)
    if not parts or not all(isinstance(part, TracedArray) for part in parts):
        raise NotTraceable("it returns what does not depend on its arguments, or no array")
    if any(not part.own and np.ndim(part.value) for part in parts):
        raise NotTraceable("it returns an argument, or a view of an array; return a copy")
    names = tuple(part.name for part in parts)
    if len(set(names)) < len(names):
        raise NotTraceable("it returns one array twice")
    program = t.program(function.name, names)
    for part in parts:
        if program.type(part.name) != TensorType.of(np.asarray(part.value)):
            raise NotTraceable(f"its result is {np.asarray(part.value).dtype}, and not as it was traced")
    inputs = tuple(name for name in named if name in t.inputs)
    scalar = tuple(isinstance(part.value, np.generic) for part in parts)
    return _Traced(program, Wanted(tuple(named), names, scalar, tuple(t.calls), several and bool(inputs)))


def _argument(t: Trace, name: str, value: Any, domain: Domain) -> Any:
    if type(value) in (int, bool, str, type(None), tuple):
        return value
    if type(value) is float or isinstance(value, np.float64 | np.float32):
        t.inputs[name] = TensorType.of(np.asarray(value))
        return TracedArray(t, _promised(t, name, domain), value, weak=type(value) is float)
    if type(value) is not np.ndarray:
        raise NotTraceable(f"'{name}' is a {type(value).__name__}; arrays and plain numbers are traced")
    if not bounded(value.shape) or value.size == 0:
        raise NotTraceable(f"'{name}' is empty or too large to be traced")
    t.inputs[name] = TensorType.of(value)
    made = TracedArray(t, _promised(t, name, domain), value)
    if any(promise.ordered for promise in domain.get(name, ())):
        t.ordered.add(made.name)
    return made


def _promised(t: Trace, name: str, domain: Domain) -> str:
    """What is never negative is its own absolute value: so rules know it."""
    absolute = any(promise.absolute for promise in domain.get(name, ()))
    return t.node("abs", name) if absolute else name


def _without_promises(program: Program, promised: Sequence[str]) -> Program:
    """The program without absolute values of what is never negative."""
    gone = [node for node in program.nodes if node.inputs[0] in promised and _is_absolute(node)]
    return program.edit(remove=gone, alias={node.output: node.inputs[0] for node in gone})


def _is_absolute(node: Node) -> bool:
    op = node.kind(Elementwise)
    return op is not None and op.scalar(node.attrs) == "abs"


def example_samples(named: Mapping[str, Any], domain: Domain) -> list[tuple[Any, ...]]:
    """The example, two like it, and two of both signs and with zeros; as promised, and each once."""
    rng = np.random.default_rng(0)
    found = [tuple(named.values())]
    for plain in (True, True, False, False):
        made = dict(named)
        for name, value in named.items():
            if isinstance(value, float | np.ndarray | np.floating):
                made[name] = sample(domain, name, value, rng, plain)
        arguments = tuple(made.values())
        if not any(all(map(are_equal, arguments, earlier)) for earlier in found):
            found.append(arguments)
    return found


def are_equal(one: Any, other: Any) -> bool:
    """Whether two arguments hold the same; NaN is NaN."""
    return one is other or np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind == "f")


# Contenders


@dataclass(frozen=True)
class _Candidate:
    """A form, written and loaded, that agrees with the original."""

    form: EqualForm
    text: ProgramText
    call: Callable[..., Any]
    difference: float


def _contenders(
    found: Sequence[EqualForm],
    wanted: Wanted,
    promised: Sequence[str],
    original: Callable[..., Any],
    samples: Sequence[tuple[Any, ...]],
    until: float,
) -> tuple[list[_Candidate], list[str]]:
    """What agrees with the original, and why the others do not; after `until` no more is compiled."""
    made: list[_Candidate] = []
    left_out: dict[str, None] = {}
    texts: set[str] = set()
    for form in found:
        program = _without_promises(form.traced.program, promised)
        for write in (fused_text, numpy_text, looped_text):
            try:
                text = write(program, wanted)
                key = text.source + "".join(source for source, _ in text.kernels.values())
                if key in texts or len(made) >= _CONTENDERS or (made and time.monotonic() > until):
                    continue
                texts.add(key)
                call = load(text)
            except (Refusal, TensmithError) as error:
                left_out[f"a form that cannot be written: {error}"] = None
                continue
            gap = agree(original, call, samples)
            if isinstance(gap, str):
                left_out[f"an equal program: {gap}"] = None
            else:
                made.append(_Candidate(form, text, call, gap))
    return made, list(left_out)


def _fastest(calls: Sequence[Callable[..., Any]], arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """By the least time of a few calls each."""

    def least(call: Callable[..., Any]) -> int:
        run = functools.partial(call, *arguments)
        first = max(1, int(time_calls(run, 2).nanoseconds.min()))
        return int(time_calls(run, max(_TRIALS, min(200, 20_000_000 // first))).nanoseconds.min())

    return min(calls, key=least)


def _race(
    original: Callable[..., Any], called: Callable[..., Any], arguments: tuple[Any, ...], seconds: float
) -> tuple[Metric, bool]:
    """How many times faster, taking turns, and whether the machine was busy."""
    runs = [functools.partial(each, *arguments) for each in (original, called)]
    rounds = take_turns([functools.partial(time_calls, run) for run in runs], seconds)
    ratios = rounds.nanoseconds[:, 0] / rounds.nanoseconds[:, 1]
    return spread(float(np.median(ratios)), *median_interval(ratios), "x"), rounds.busy
