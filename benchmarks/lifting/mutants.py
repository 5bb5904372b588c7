"""Wrong twins of summaries and programs: every one that is proved must still agree with runs of the source.

    python -m benchmarks.lifting.mutants [--mutants 5000] [--seed 0] [--solver z3] [--inputs 200]

A mutant (tests/lifting/mutate.py) that some obligation refuses counts as refused. One that is proved is run
against the loop interpreter on random inputs, its loop facts at every step included: if it disagrees even
once, a wrong claim was proved, which is printed and makes the exit status 1. Mutants that change nothing of
the meaning (a mask that holds anyway, the order of a product) are rightly accepted.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import parts
from lifting.corpus import ALL, Kernel
from lifting.evaluate_summary import Mismatch, Unmet, arguments, check, widened
from lifting.lifted_interpreter import run as run_lifted
from lifting.loops_interpreter import Undefined
from lifting.loops_interpreter import run as run_loops
from lifting.mutate import mutant, program_mutant
from tensmith.errors import TensmithError
from tensmith.lifting.conditions import obligations, program_obligations
from tensmith.lifting.lifted import Lifted
from tensmith.lifting.loops import Array, Function, Struct
from tensmith.lifting.source.c.read import read_c
from tensmith.lifting.source.python.read import read_python
from tensmith.lifting.summarize import summarize
from tensmith.lifting.summary import Summary
from tensmith.lifting.tensorize import tensorize
from tensmith.verify.obligation import Obligation
from tensmith.verify.solve import discharge

TIMEOUT = 1.0
PART = 100  # numbers that mutants are drawn from
UNTRIED = "no input that meets the requirements was found"


@dataclass(frozen=True)
class Subject:
    """A kernel with its right summary and program."""

    kernel: Kernel
    summary: Summary
    lifted: Lifted


def subjects() -> list[Subject]:
    """Every kernel of the corpus that lifts, floats widened so that runs and claims compute alike."""
    found = []
    for kernel in ALL:
        read = read_python if kernel.path.suffix == ".py" else read_c
        try:
            functions = {f.name: f for f in read(kernel.path) if isinstance(f, Function)}
            summary = summarize(widened(functions[kernel.function]))
            found.append(Subject(kernel, summary, tensorize(summary)))
        except (TensmithError, KeyError):
            continue
    return found


def proved(found: list[Obligation], solver: str, known: set[str]) -> bool:
    """Whether all hold; the rest is not asked once one does not. known: scripts that were proved without
    lemmas, which grows; what a mutant shares with the right summary is not asked again."""
    for obligation in found:
        script = obligation.script
        text = obligation.expects + script.text(exact=True) if script is not None else ""
        if script is not None and text not in known:
            (verdict,) = discharge([obligation], solver, TIMEOUT)
            if verdict.status != "proved":
                return False
            if not verdict.lemmas:
                known.add(text)
    return True


def disagreement(summary: Summary, inputs: int, seed: int) -> str:
    """What a run says against a summary, "" where none does."""
    chance, tried = random.Random(seed), 0
    for _ in range(inputs):
        try:
            tried += 1
            check(summary, arguments(summary, chance))
        except Unmet:
            tried -= 1
        except Undefined as problem:
            if not any(words in str(problem) for words in ("without rows", "has no place in", "division")):
                return f"a run without a meaning meets the requirements: {problem}"
        except Mismatch as mismatch:
            return str(mismatch)
        except (ArithmeticError, LookupError, TypeError, AssertionError) as problem:
            return f"the claim has no value: {type(problem).__name__} {problem}"
    return "" if tried else UNTRIED


def program_disagreement(subject: Subject, changed: Lifted, inputs: int, seed: int) -> str:
    """An input on which a changed program does not give what the source does, "" where none is found."""
    chance, tried = random.Random(seed), 0
    for _ in range(inputs):
        given = arguments(subject.summary, chance)
        named = arrays(subject.summary.function, given)
        if named is None or not allowed(subject.lifted, named):
            continue
        try:
            source = run_loops(subject.summary.function, given)
        except Undefined:
            continue
        right = source.arrays | {"return": source.value}
        tried += 1
        try:
            found = run_lifted(changed, named)
        except (ArithmeticError, LookupError, AssertionError, ValueError, TensmithError) as problem:
            return f"it cannot run on {named}: {problem}"
        for name, value in found.items():
            if not alike(np.asarray(right[name]), value):
                return f"{name} differs on {named}: {right[name]} and {value}"
    return "" if tried else UNTRIED


def alike(a: Any, b: Any) -> bool:
    """Equal, floats up to the rounding of another order of additions; nothing is equal to nothing."""
    if a.size == b.size == 0:
        return True
    if a.shape != b.shape:
        return a.size == b.size and alike(a.reshape(-1), b.reshape(-1))
    if a.dtype.kind in "iub" and b.dtype.kind in "iub":
        return bool(np.array_equal(a, b))
    return bool(np.allclose(a, b, rtol=1e-6, atol=1e-6, equal_nan=True))


def allowed(lifted: Lifted, named: dict[str, Any]) -> bool:
    """Whether inputs meet the requirements on numbers and lengths."""
    values = {key: int(value) for key, value in named.items() if np.ndim(value) == 0}
    for key, array in named.items():
        values |= {f"len({key}, {axis})": size for axis, size in enumerate(np.shape(array))}
    for requirement in lifted.requires:
        if requirement.poly is None:
            continue
        value = requirement.poly.evaluate({**{s.symbol: 0 for s in lifted.sizes}, **values})
        if requirement.kind == "at_least" and value < 0:
            return False
        if requirement.kind == "length" and value > np.shape(named[requirement.array])[requirement.axis]:
            return False
    return True


def arrays(function: Function, given: list[Any]) -> dict[str, Any] | None:
    """Arguments by name as arrays; None for nested rows that make no rectangle."""
    found: dict[str, Any] = {}
    for parameter, argument in zip(function.parameters, given):
        fields = parameter.type.fields if isinstance(parameter.type, Struct) else ((None, parameter.type),)
        for name, kind in fields:
            value = argument if name is None else argument[name]
            key = parameter.name if name is None else f"{parameter.name}.{name}"
            if isinstance(kind, Array):
                element = kind.element
                dtype = np.dtype(np.int64 if element.bits is None else f"{element[0]}{element.bits // 8}")
                value = np.asarray(value, dtype=dtype)
                rank = 1 if kind.memory == "flat" else kind.rank
                if value.ndim != rank:
                    value = np.zeros((0,) * rank, dtype=dtype)
            found[key] = value
    return found


def judged(
    number: int, summaries: list[Subject], programs: list[Subject], solver: str, inputs: int, known: set[str]
) -> tuple[str, str]:
    """What becomes of the mutant of a number: its outcome, "" where nothing was changed, and a sentence."""
    chance = random.Random(number)
    if chance.random() < 0.7:
        subject = chance.choice(summaries)
        made = mutant(subject.summary, chance)
        if made is None:
            return "", ""
        text, changed = made
        if not proved(obligations(changed), solver, known):
            return "summary refused", ""
        against = disagreement(changed, inputs, number)
        kind = "summary"
    else:
        subject = chance.choice(programs)
        made_program = program_mutant(subject.lifted, chance)
        if made_program is None:
            return "", ""
        text, lifted = made_program
        try:
            asked = program_obligations(lifted, subject.summary)
        except TensmithError:
            return "program without types", ""
        if not proved(asked, solver, known):
            return "program refused", ""
        against = program_disagreement(subject, lifted, inputs, number)
        kind = "program"
    if against == UNTRIED:
        return f"{kind} accepted and not tried", ""
    if against:
        return f"{kind} WRONG and accepted", f"{subject.kernel}: {text}: {against}"
    return f"{kind} equal and accepted", ""


def main() -> int:
    """1 where a wrong claim was proved."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--mutants", type=int, default=5000, help="numbers that they are drawn from")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--solver", default="z3")
    parser.add_argument("--inputs", type=int, default=200, help="runs of each mutant that is proved")
    options = parser.parse_args()
    found = subjects()
    known: set[str] = set()
    right = [s for s in found if proved(obligations(s.summary), options.solver, known)]
    programs = [s for s in right if proved(program_obligations(s.lifted, s.summary), options.solver, known)]
    print(f"{len(found)} kernels lift, {len(right)} summaries and {len(programs)} programs are proved")

    def drawn(numbers: range) -> parts.Found:
        outcomes: Counter[str] = Counter()
        wrong: list[str] = []
        for number in numbers:
            outcome, text = judged(number, right, programs, options.solver, options.inputs, known)
            outcomes[outcome or "nothing to change"] += 1
            wrong += [f"mutant {number}: {text}"] if "WRONG" in outcome else []
        return parts.Found(outcomes, tuple(wrong))

    first = options.seed * 1_000_003
    every = {str(n): range(n, n + PART) for n in range(first, first + options.mutants, PART)}
    settings = {"bench": "lifting_mutants", "solver": options.solver, "inputs": options.inputs}
    return parts.main(every, drawn, options.output, settings)


if __name__ == "__main__":
    sys.exit(main())
