"""Are the exact rules sound? Obligations are proved for all sizes, wrong twins refuted by an example."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula import walk
from tensmith.formula.arith import PrimeField
from tensmith.formula.evaluate import evaluate
from tensmith.formula.expr import Expr, Formula, Reduce, rebuilt, substitute
from tensmith.formula.normal import explain_difference
from tensmith.formula.poly import Poly
from tensmith.formula.reals import Reals, same_fraction
from tensmith.formula.smt import prove_equal
from tensmith.rewrite.rule import FormulaObligation, Rule
from tensmith.rewrite.trials import run_instances

Verdict = Literal["proved", "refuted", "open"]

_PRIME = 1_048_573
_ORDERED = frozenset({"maximum", "minimum", "abs", "where", "less", "less_equal"})
_LARGEST = 3
_DIFFERS = "differs at "
# Sizes of the random tensors by rank, so generous that the subscripts either side forms stay inside.
_ROOM = {1: 512, 2: 64, 3: 48}


@dataclass(frozen=True)
class Judgement:
    """What is known of one obligation, and how: the method, or the sizes of a counterexample."""

    obligation: str
    verdict: Verdict
    how: str


def judge(obligation: FormulaObligation, attempts: int = 40) -> Judgement:
    """Proves an obligation (normal form, then SMT) or refutes it on small random tensors.

    What is proved is equality over the reals for all sizes, wherever both sides are defined. Where the
    obligation came from terms, both are also run as programs (see instances): these must agree in shape and
    element type, and the right one be defined wherever the left one is.
    """
    trial = run_instances(obligation)
    if trial.witness:
        return Judgement(obligation.name, "refuted", trial.witness)
    method, difference = _method(obligation, attempts)
    if method is None:
        verdict: Verdict = "refuted" if difference.startswith(_DIFFERS) else "open"
        return Judgement(obligation.name, verdict, difference)
    if trial.empty:
        return Judgement(obligation.name, "open", "the left side is defined at none of the sizes tried")
    return Judgement(obligation.name, "proved", method)


def _method(obligation: FormulaObligation, attempts: int) -> tuple[str | None, str]:
    """(how the formulas are proved equal, or None; else the sizes at which they differ, or the difference).

    Where the order of numbers matters SMT goes first: a prime field has no order, so what differs there may
    be equal over the reals.
    """
    left, right = map(without_unit_loops, (obligation.left, obligation.right))
    difference = explain_difference(left, right, obligation.ranges)
    if difference is None:
        return "equal normal forms", ""
    ordered = bool((walk.functions(left.body) | walk.functions(right.body)) & _ORDERED)
    proof = "z3: the negation is unsatisfiable"
    if ordered and prove_equal(left, right, obligation.ranges):
        return proof, ""
    if same_fraction(left, right, obligation.ranges):
        return "equal normal forms, by facts of real functions", ""
    facts = Reals.of(left.body, right.body)
    known = [replace(side, body=facts.form(side.body)) for side in (left, right)]
    if known != [left, right] and prove_equal(known[0], known[1], obligation.ranges):
        return proof + ", by facts of real functions", ""
    witness = counterexample(obligation, attempts)
    if witness is not None:
        return None, witness
    if not ordered and prove_equal(left, right, obligation.ranges):
        return proof, ""
    return None, difference


def without_unit_loops(formula: Formula) -> Formula:
    """The formula with every reduction over one element replaced by that element."""
    return replace(formula, body=_without_unit_loops(formula.body))


def _without_unit_loops(expr: Expr) -> Expr:
    if isinstance(expr, Reduce) and expr.extent == 1:
        return _without_unit_loops(substitute(expr.body, {expr.var: Poly.of(0)}))
    return rebuilt(expr, _without_unit_loops)


@dataclass(frozen=True)
class RuleProof:
    """What is known of a rule: of its obligations, to be proved, and its wrong twins, to be refuted.

    structural: why a rule is sound that changes no formula, and has no obligations.
    """

    rule: str
    structural: str
    claims: tuple[Judgement, ...]
    twins: tuple[Judgement, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with it, as sentences."""
        found = [f"{j.obligation} is {j.verdict}: {j.how}" for j in self.claims if j.verdict != "proved"]
        found += [f"wrong twin {j.obligation} is {j.verdict}" for j in self.twins if j.verdict != "refuted"]
        if not self.claims and not self.structural:
            found.append(f"{self.rule} has no obligations")
        return tuple(found)

    @property
    def verdict(self) -> Literal["proved", "structural", "not proved"]:
        """What it comes to."""
        return "not proved" if self.problems else "proved" if self.claims else "structural"

    @property
    def how(self) -> str:
        """The first problem, or by what its obligations were proved, or why it has none."""
        methods = "; ".join(sorted({j.how for j in self.claims}))
        return next(iter(self.problems), methods or self.structural)


def judged(rule: Rule, twins: bool = True) -> RuleProof:
    """A rule's obligations and, if they are asked for, its wrong twins."""
    claims = tuple(map(judge, rule.obligations()))
    wrong = tuple(map(judge, rule.twins() if twins else ()))
    return RuleProof(rule.name, rule.structural, claims, wrong)


def counterexample(obligation: FormulaObligation, attempts: int) -> str | None:
    """Sizes at which the two sides differ on random residues; None if `attempts` tries find none.

    Opaque functions are random functions there, so a difference is one for some choice of the functions.
    """
    seed = int.from_bytes(hashlib.sha256(obligation.name.encode()).digest()[:8], "little")
    generator = np.random.default_rng(seed)
    sides = (obligation.left, obligation.right)
    names = sorted(set().union(*map(walk.size_names, sides)))
    ranks = {name: rank for side in sides for name, rank in walk.ranks(side.body).items()}
    for attempt in range(attempts):
        lower = obligation.ranges.lower
        sizes = {n: int(generator.integers(lower.get(n, 0), lower.get(n, 0) + _LARGEST + 1)) for n in names}
        field = PrimeField(_PRIME, attempt)
        tensors = {name: field.random(name, (_ROOM.get(rank, 12),) * rank) for name, rank in ranks.items()}
        try:
            if any(int(dim.evaluate(sizes)) < 0 for side in sides for dim in side.shape):
                continue  # a window larger than its image: no tensor of these sizes exists
            left, right = (evaluate(side, tensors, sizes, field) for side in sides)
        except ProgramError:
            continue
        if not np.array_equal(left, right):
            return _DIFFERS + ", ".join(f"{name}={size}" for name, size in sizes.items())
    return None
