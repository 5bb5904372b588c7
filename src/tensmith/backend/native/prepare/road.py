"""The passes a program goes through before it is planned, each compared with what it was given.

They rewrite without proofs, so every compile asks of each whether the program is still what it was
(equality.changes), at the sizes at hand; a folder says what came of it, under the key "prepared".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tensmith.backend.native.prepare.decompose import decomposed
from tensmith.backend.native.prepare.packed import opened
from tensmith.backend.native.prepare.pairs import moved_behind, unsigned
from tensmith.backend.native.prepare.upright import upright
from tensmith.equality.changes import Evidence, compare_changes
from tensmith.errors import EngineError
from tensmith.ir import Program

# In this order. Values that keep their name keep their value.
PASSES: Mapping[str, Callable[[Program], Program]] = {
    "open packed products": opened,
    "turn constant matrices upright": upright,
    "make codes unsigned": unsigned,
    "move dequantizations behind": moved_behind,
    "decompose": decomposed,
}


@dataclass(frozen=True)
class PassRecord:
    """What is known of one pass over one program; see equality.changes.Comparison."""

    step: str
    evidence: Evidence
    primes: int
    error_probability: float
    detail: str

    def to_json(self) -> dict[str, Any]:
        """As the manifest of a folder lists it."""
        return {
            "step": self.step,
            "evidence": self.evidence,
            "primes": self.primes,
            "error_probability": self.error_probability,
            "detail": self.detail,
        }


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
    return program, tuple(passes)
