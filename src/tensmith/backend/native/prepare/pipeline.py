"""What a program goes through before it is planned: passes that are compared with what they were given, then
exact rules, which are proved.

Passes round, or read bytes, so every compile asks of each whether the program is still what it was
(equality.changes), at the sizes at hand; a folder says what is known of each step, under the key "prepared".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tensmith.backend.native.prepare.decompose import decomposed
from tensmith.backend.native.prepare.packed import opened
from tensmith.equality.changes import Evidence, compare_changes
from tensmith.errors import EngineError
from tensmith.ir import Program
from tensmith.rewrite.trail import Traced, exhaust, in_phase, simplify

# In this order. Values that keep their name keep their value.
PASSES: Mapping[str, Callable[[Program], Program]] = {
    "open packed products": opened,
    "decompose": decomposed,
}


@dataclass(frozen=True)
class PassRecord:
    """What is known of a pass over a program (see equality.changes.PassComparison), or of a proved rule."""

    step: str
    evidence: Evidence | Literal["proved"]
    primes: int
    error_probability: float
    detail: str

    def to_json(self) -> dict[str, Any]:
        """As the manifest of a folder lists it."""
        return asdict(self)


def prepared(program: Program) -> tuple[Program, tuple[PassRecord, ...]]:
    """The program as it is planned, and what is known of the way there.

    EngineError naming the pass and the node where a value is not what it was.
    """
    passes = []
    for step, rewrite in PASSES.items():
        after = rewrite(program)
        found = compare_changes(program, after)
        if found.different:
            raise EngineError(
                f"preparing step '{step}' changes '{found.different}' at {found.node}: {found.detail}; "
                "report it with the model, another engine runs it"
            )
        passes.append(PassRecord(step, found.evidence, found.primes, found.error_probability, found.detail))
        program = after
    lowered = exhaust(Traced(program), in_phase("lower"))
    rules = Counter(step.rule for step in lowered.trail)
    passes += [PassRecord(rule, "proved", 0, 0.0, f"applied {n} times") for rule, n in rules.items()]
    return simplify(lowered.program).program if rules else program, tuple(passes)
