"""What a lifted function's proof consists of: obligations, each a script for a solver or true by its form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from tensmith.verify.theory import Prefix

Kind = Literal[
    "form",  # the summary is a claim that can be proved at all
    "satisfiable",  # all requirements can hold together, with every size at least 1
    "initiation",
    "preservation",
    "exit",
    "bounds",
    "definedness",
    "shape",
    "post",
    "frame",
    "lemma",  # two folds are equal, because their bodies are
    "program",  # the tensor program computes what the summary says
]


@dataclass(frozen=True)
class Fact:
    """An assumption and why it may be made: "type", "size", "length", "natural" (a size, a counter or an
    arbitrary subscript is >= 0), "counter" of `loop`, of what is inside that loop, or "requirement".
    of: the requirement as it is shown."""

    text: str
    why: Literal["type", "size", "length", "natural", "counter", "requirement"]
    loop: str = ""
    of: str = ""


@dataclass(frozen=True)
class Script:
    """An SMT-LIB 2 script in parts, each a line: what is assumed, and the goal whose negation is refuted.

    path: conditions under which the goal is wanted. axioms and definitions: ground instances from `theory`;
    recurrences: those of what holds of prefix functions.
    further facts and definitions are added only where a proof needs them. A script without a goal asks for a
    model.
    """

    logic: str
    exact_logic: str
    declarations: tuple[str, ...]
    facts: tuple[Fact, ...]
    further: tuple[Fact, ...]
    path: tuple[str, ...]
    axioms: tuple[str, ...]
    definitions: tuple[str, ...]
    recurrences: tuple[str, ...]
    goal: str | None

    def text(self, exact: bool, lemmas: tuple[str, ...] = (), steps: bool = True) -> str:
        """The whole script; exact: with further facts, and the definitions of division, casts and such;
        steps: with the recurrences."""
        lines = [
            *(fact.text for fact in self.facts),
            *(fact.text for fact in (self.further if exact else ())),
            *self.path,
            *self.axioms,
            *(self.definitions if exact else ()),
            *(self.recurrences if steps else ()),
            *lemmas,
            *([] if self.goal is None else [f"(not {self.goal})"]),
        ]
        return "\n".join(
            [
                f"(set-logic {self.exact_logic if exact else self.logic})",
                *self.declarations,
                *(f"(assert {line})" for line in lines),
                "(check-sat)",
                "",
            ]
        )


@dataclass(frozen=True)
class FoldWindow:
    """What a lemma about two folds says: the first, over 0 .. first.extent-1, holds the second's elements at
    `shift` .. shift + extent - 1, in order or `reversed`, and elsewhere what joining leaves as it is."""

    first: tuple[str, tuple[str, ...], str]  # function, arguments, extent
    second: tuple[str, tuple[str, ...], str]
    shift: str
    reversed: bool
    position: str  # the arbitrary position, which occurs in nothing else


@dataclass(frozen=True)
class Lemma:
    """An equation of two folds that may be used once `obligation` is proved."""

    obligation: Obligation
    equation: str
    window: FoldWindow


@dataclass(frozen=True)
class Obligation:
    """One thing to prove. `structural` says why it holds by its form; else `script` is for a solver.

    expects: "unsat" where the script refutes the goal's negation, "sat" where a model is wanted. subject: the
    variable, array or result it is about; loop: the label of the innermost loop, "" outside of all.
    """

    name: str
    kind: Kind
    subject: str
    loop: str
    line: int
    column: int
    script: Script | None = None
    structural: str = ""
    expects: Literal["unsat", "sat"] = "unsat"
    lemmas: Callable[[], tuple[Lemma, ...]] = field(default=tuple, compare=False)  # made when needed
    functions: Mapping[str, Prefix] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Verdict:
    """What came of an obligation. rung: the theory it took, "structure", "free functions", "exact
    definitions" or "fold lemma". detail: a counterexample or the reason of a failure, as text. text: the
    script that was decided; lemmas: the verdicts of those used."""

    obligation: Obligation
    status: Literal["proved", "refuted", "unknown"]
    rung: str
    solver: str
    seconds: float
    detail: str = ""
    text: str = ""
    lemmas: tuple[tuple[Lemma, Verdict], ...] = ()
