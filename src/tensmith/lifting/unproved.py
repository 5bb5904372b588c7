"""What a user reads where a proof fails: what cannot be shown, for which arguments, what to write instead."""

from __future__ import annotations

import re

from tensmith.formula.expr import Call, Num, Read, SourcePosition, is_cast
from tensmith.formula.types import MachineType
from tensmith.lifting import loops
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.returned import returned_place
from tensmith.lifting.summary import as_shown, length_symbol
from tensmith.lifting.text import SIGNS, bare, text
from tensmith.verify.obligation import Obligation, Verdict

# kind of obligation -> (what cannot be shown of the subject, what to do about it)
_REASONS = {
    "bounds": (
        "that every access to '{}' lies inside of it",
        "bound the loop by the array's own size, or test the subscript before the access",
    ),
    "definedness": ("that {}", "test it before, or give it a value where it is declared"),
    "exit": (
        "how often this loop runs",
        "step its counter by a constant, up or down to a bound that the loop does not change",
    ),
    "scalar": (
        "what '{}' is in every iteration of this loop",
        "write it as a sum, a product, a maximum or a minimum of elements",
    ),
    "array": (
        "which elements of '{}' this loop has written, and their values",
        "write each element once, at a subscript made of loop counters and sizes",
    ),
    "result": ("that the closed form found for '{}' is right", "split the function into smaller ones"),
    "program": (
        "that the tensor program does what the loops do ({})",
        "simplify the expression, or split the function",
    ),
}
_KINDS = {
    "initiation": "scalar",
    "preservation": "scalar",
    "post": "result",
    "frame": "result",
    "shape": "result",
}
_ARGUMENT = re.compile(r"(in|len)\.([\w.]+) = (-?[\d./]+|True|False)")
_RETURNED = re.compile(r"'?\b(return(?:\.\d+)?)\b'?")
_MOST_VALUES = 6


def unproved(verdict: Verdict, function: loops.Function) -> Refusal:
    """The refusal of a function for an obligation that is not proved."""
    obligation = verdict.obligation
    where = SourcePosition(obligation.line, obligation.column)
    if obligation.expects == "sat":
        advice = "bound loops and subscripts by the lengths of what they read"
        if verdict.status == "refuted":
            what = (
                "as it is lifted, its requirements contradict each other, so that no call would be answered"
            )
        else:
            what = "it cannot be shown in time that a call can meet all that it requires"
        return Refusal(f"{what}; {advice}", where)
    if obligation.kind == "form":
        return Refusal(f"the proof cannot be stated ({obligation.name}); simplify the function", where)
    if (wrap := _wrap(obligation, function)) is not None:
        return Refusal(wrap, where)
    what, advice = _words(obligation, function)
    if verdict.status == "refuted":
        values = ", ".join(_arguments(verdict.detail, obligation.subject))
        return Refusal(f"it cannot be shown {what}{f' where {values}' if values else ''}; {advice}", where)
    return Refusal(f"it cannot be shown in time {what}; {advice}", where)


def _words(obligation: Obligation, function: loops.Function) -> tuple[str, str]:
    kind, subject = _KINDS.get(obligation.kind, obligation.kind), obligation.subject
    if kind == "scalar" and subject.endswith("[]"):
        kind, subject = "array", subject[:-2]
    what, advice = _REASONS[kind]
    held = function.arrays.get(subject)
    if kind == "bounds" and held is not None and held.memory == "flat" and held.extents == (None,):
        advice = "give the length of a row, where it has rows, as a parameter, or test the subscript before"
    if kind == "bounds" and len(found := _accesses(list(loops.nodes(function)), obligation)) == 1:
        subscripts = "".join(f"[{text(bare(index))}]" for index in found[0].indices)
        what = f"that {subject}{subscripts} lies inside of '{{}}'"
    return _RETURNED.sub(_returned, what.format(subject)), advice


def _returned(name: re.Match[str]) -> str:
    place = returned_place(name[1])
    return f"the returned value {place}" if place else "the returned value"


def _arguments(detail: str, subject: str) -> list[str]:
    """The arguments and lengths of a counterexample, by the names of the source; first the length of what it
    is about."""
    found, array = [], subject.removeprefix("a view of ").partition(" ")[0]
    named = _ARGUMENT.findall(detail)
    named.sort(key=lambda each: each[0] != "len" or each[1].rpartition(".")[0] != array)
    for group, name, value in named:
        if group == "len":
            array, _, axis = name.rpartition(".")
            name = as_shown(length_symbol(array, int(axis)))
        found.append(f"{name} = {value}")
    return found[:_MOST_VALUES]


# Unsigned arithmetic


def _wrap(obligation: Obligation, function: loops.Function) -> str | None:
    """A sentence about unsigned arithmetic where the obligation comes from, if any may wrap around."""
    script = obligation.script
    if script is None or "wrap.u" not in " ".join((script.goal or "", *script.path)):
        return None
    around = (
        s for s in loops.statements(function) if isinstance(s, loops.Loop) and s.label == obligation.loop
    )
    inside = list(loops.nodes(next(around, function)))
    if obligation.kind == "bounds":
        wraps = _wraps(inside := _subscripts(inside, obligation) or inside)
    else:
        within = {
            id(part)
            for part in inside
            if isinstance(part, loops.Load | loops.Store)
            for index in part.indices
            for part in loops.nodes(index)
        }
        wraps = _wraps([part for part in inside if id(part) not in within])
        if all(_counts(apply) for _, apply in wraps):
            wraps = _wraps(inside)
        wraps.sort(key=lambda found: (_counts(found[1]), _WRAP.index(found[1].function)))
    for type_, apply in wraps:
        operands = [text(bare(part)) for part in apply.args]
        if apply.function == "sub":
            a, b = operands
            return f"{a} - {b} is unsigned and wraps around where {a} < {b}; {_instead(inside, apply, a, b)}"
        if apply.function == "neg":
            return f"-{operands[0]} is unsigned and wraps around; convert it to a wider signed type first"
        bits = f"{text(bare(apply))} is unsigned and wraps around at 2**{type_.bits}"
        if _counts(apply):
            return f"{bits}; give it as many bits as its bound has, or a signed type"
        return f"{bits}; convert what it is made of to a wider signed type first, or take signed numbers"
    return None


def _wraps(inside: list[object]) -> list[tuple[MachineType, Call]]:
    """What is computed without a sign among parts of a function, and its type."""
    found = [(part.type, part.args[0]) for part in inside if is_cast(part) and isinstance(part.args[0], Call)]
    return [(type_, apply) for type_, apply in found if not type_.signed and apply.function in _WRAP]


def _counts(apply: Call) -> bool:
    """Whether it is the step of a counter, which ends before it wraps."""
    operands = [bare(part) for part in apply.args]
    return apply.function == "add" and isinstance(operands[0], Read) and isinstance(operands[-1], Num)


def _subscripts(inside: list[object], obligation: Obligation) -> list[object]:
    """What the subscripts are made of whose bounds are to be shown, the outermost first."""
    accesses = _accesses(inside, obligation)
    return [part for access in accesses for index in access.indices for part in loops.nodes(index)]


def _accesses(inside: list[object], obligation: Obligation) -> list[loops.Load | loops.Store]:
    """The accesses whose bounds are to be shown."""
    at = SourcePosition(obligation.line, obligation.column)
    accesses = (part for part in inside if isinstance(part, loops.Load | loops.Store))
    return [part for part in accesses if part.array == obligation.subject and part.position == at]


_WRAP = ("sub", "neg", "add", "mul")  # those that wrap at small values first


def _instead(inside: list[object], difference: Call, a: str, b: str) -> str:
    """What to write in place of an unsigned difference."""
    for part in inside:
        if (
            isinstance(part, Call)
            and part.function in ("less", "less_equal")
            and bare(part.args[1]) == bare(difference)
        ):
            return f"write {text(bare(part.args[0]))} + {b} {SIGNS[part.function]} {a}"
    return "convert it to a wider signed type first"
