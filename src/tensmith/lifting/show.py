"""`--explain`: the loop language, closed forms, invariants and obligations of a lift, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensmith.formula.types import MachineType
from tensmith.lifting import loops
from tensmith.lifting.result import LiftResult
from tensmith.lifting.summary import LoopFacts, Result, Summary, Written
from tensmith.lifting.text import text
from tensmith.verify.obligation import Verdict


def explain(result: LiftResult) -> Iterator[str]:
    """Lines about one function, as far as its lift came."""
    work = result.work
    if work.function is not None:
        yield f"{result.name} in the loop language"
        yield from function(work.function)
    if work.summary is not None:
        yield "closed forms"
        yield from summary(work.summary)
    if work.verdicts:
        yield "obligations"
        yield from obligations(work.verdicts)
    if work.lifted is not None:
        yield "tensor program"
        yield from (f"  {line}" for line in str(work.lifted.program).splitlines())


# The loop language.


def function(found: loops.Function) -> Iterator[str]:
    """A function, one statement a line."""
    parameters = ", ".join(f"{p.name}: {kind(p.type)}" for p in found.parameters)
    returns = f" -> {', '.join(map(kind, found.returned.values()))}" if found.returned else ""
    yield f"  {found.name}({parameters}){returns}"
    yield from statements(found.body, 2)
    for note in found.noted:
        yield f"  taken: {note}"


def kind(type_: MachineType | loops.Array | loops.Struct) -> str:
    """A type in a word."""
    if isinstance(type_, loops.Array):
        return f"{type_.element}{'[]' * type_.rank if type_.memory == 'nested' else f'[{type_.rank}d]'}"
    if isinstance(type_, loops.Struct):
        return f"struct {type_.name}"
    return type_


def statements(body: Sequence[loops.Statement], depth: int) -> Iterator[str]:
    """Statements, indented."""
    space = "  " * depth
    for statement in body:
        match statement:
            case loops.Declare(name, type_, value):
                yield f"{space}{name}: {type_}{f' = {text(value)}' if value is not None else ''}"
            case loops.Allocate(name, type_, extents, fill):
                shape = " x ".join(map(text, extents))
                content = f" of {text(fill)}" if fill is not None else ""
                yield f"{space}{name}: {kind(type_)} = new {shape}{content}"
            case loops.Assign(name, value):
                yield f"{space}{name} = {text(value)}"
            case loops.Store(array, indices, value):
                yield f"{space}{array}[{', '.join(map(text, indices))}] = {text(value)}"
            case loops.Append(array, value):
                yield f"{space}{array}.append({value if isinstance(value, str) else text(value)})"
            case loops.If(condition, then, otherwise):
                yield f"{space}if {text(condition)}"
                yield from statements(then, depth + 1)
                if otherwise:
                    yield f"{space}else"
                    yield from statements(otherwise, depth + 1)
            case loops.Loop(condition, inner, label):
                yield f"{space}while {text(condition)}    # {label}"
                yield from statements(inner, depth + 1)
            case loops.Return(value):
                yield f"{space}return {value if isinstance(value, str) else text(value)}"


# Closed forms.


def summary(found: Summary) -> Iterator[str]:
    """Sizes, requirements, what comes out, and what every loop keeps true."""
    for size in found.sizes:
        yield f"  size {size.symbol} = max(0, {size.poly})"
    for requirement in found.requires:
        yield f"  requires {requirement.text}"
    for result in found.results:
        yield from outcome(result)
    for facts in found.loops:
        yield from invariant(facts)


def outcome(result: Result) -> Iterator[str]:
    """An output."""
    for part in result.written:
        yield f"  {written(result.name, part)}"
    if not result.written:
        yield f"  {result.name} is unchanged"


def written(name: str, part: Written) -> str:
    """name[i, j] = value for i < n, j < m."""
    place = f"[{', '.join(map(str, part.at))}]" if part.at else ""
    ranges = [f"{index} < {extent}" for index, extent in zip(part.indices, part.extents)]
    ranges += [f"{poly} >= 0" for poly in part.where]
    where = f" for {', '.join(ranges)}" if ranges else ""
    return f"{name}{place} = {text(part.value)}{where}"


def invariant(facts: LoopFacts) -> Iterator[str]:
    """What holds at the start of every iteration of a loop."""
    yield f"  loop {facts.label}: iteration {facts.counter} of {facts.trips}"
    yield from (f"    {name} = {text(value)}" for name, value in facts.scalars.items())
    for name, parts in facts.arrays.items():
        yield from (f"    {written(name, part)}" for part in parts)


# Obligations.


def obligations(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Each obligation with what it took."""
    for verdict in verdicts:
        obligation = verdict.obligation
        where = f"{obligation.line}:{obligation.column}"
        yield f"  {verdict.status:<8} {obligation.kind:<12} {obligation.name} ({where}; {verdict.rung})"
