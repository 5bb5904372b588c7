"""Mutants of every rule's formulas: what the prover calls equal has no counterexample; most are refuted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula import walk
from tensmith.formula.arith import FUNCTIONS, Array, Floats
from tensmith.formula.evaluate import evaluate
from tensmith.formula.expr import Call, Choose, Expr, Num, Pow, Read, Reduce, rebuilt
from tensmith.formula.normal import explain_difference
from tensmith.rewrite.judge import counterexample
from tensmith.rewrite.rule import EXACT, FormulaObligation

# Of one claim a rule.
_MUTANTS = 4


def mutants(expr: Expr) -> Iterator[Expr]:
    """The expression with one mistake in it, at every place."""
    yield from _here(expr)
    inside = walk.parts(expr)
    for place, part in enumerate(inside):
        for changed in mutants(part):
            seen = iter(range(len(inside)))
            yield rebuilt(expr, lambda e, p=place, c=changed, s=seen: c if next(s) == p else e)


def _here(expr: Expr) -> Iterator[Expr]:
    match expr:
        case Call("add" | "mul", args):
            yield from (replace(expr, args=args[:i] + args[i + 1 :]) for i in range(len(args)) if args[1:])
        case Read(name, indices):
            yield from (Read(name, (*indices[:i], at + 1, *indices[i + 1 :])) for i, at in enumerate(indices))
            if len(indices) > 1 and indices[0] != indices[1]:
                yield Read(name, (indices[1], indices[0], *indices[2:]))
        case Choose(conditions):
            for i, c in enumerate(conditions):
                yield replace(expr, conditions=(*conditions[:i], *conditions[i + 1 :]))
                yield replace(expr, conditions=(*conditions[:i], c + 1, *conditions[i + 1 :]))
        case Reduce(kind, var, extent, body):
            yield Reduce(kind, var, extent + 1, body)
            yield Reduce("prod" if kind == "sum" else "sum", var, extent, body)
        case Num(value):
            yield Num(value + 1)
        case Pow(base, exponent):
            yield Pow(base, exponent + 1)
        case Call(function, args) if len(args) > 1:
            yield Call(function, args[::-1])
            yield Call(function, (args[0], *args[2:], args[1]))


def wrong_claims() -> Iterator[FormulaObligation]:
    """Claims of rules with a mistake on their right sides."""
    for name, rule in EXACT.items():
        for claim in list(rule.obligations())[:1]:
            found = [body for body in mutants(claim.right.body) if body != claim.right.body]
            chosen = random.Random(name).sample(found, min(_MUTANTS, len(found)))
            for number, body in enumerate(chosen):
                wrong = replace(claim.right, body=body)
                yield FormulaObligation(f"{claim.name}, mutant {number}", claim.left, wrong, claim.ranges)


def _ordered(claim: FormulaObligation) -> bool:
    """Whether the order of numbers matters, which a field does not have."""
    used = walk.functions(claim.left.body) | walk.functions(claim.right.body)
    return bool(used & {"maximum", "minimum", "abs", "where", "less"})


class _Some(Floats):
    """Floats, where a law's "any function" is one that is neither odd, even, rising nor linear."""

    def call(self, function: str, *args: Array) -> Array:
        if function in FUNCTIONS or function in ("where", "less"):
            return super().call(function, *args)
        waves = [np.sin((place + 2) * arg + 0.3) for place, arg in enumerate(args)]
        return np.asarray(sum(waves, np.asarray(0.1)))


def _in_floats(claim: FormulaObligation) -> str:
    """Where the sides differ on random floats; "" if they do not."""
    sides, generator = (claim.left, claim.right), np.random.default_rng(0)
    sizes = dict.fromkeys(set().union(*map(walk.size_names, sides)), 3)
    ranks = {name: rank for side in sides for name, rank in walk.ranks(side.body).items()}
    tensors = {name: generator.normal(size=(12,) * rank) * 4 for name, rank in ranks.items()}
    left, right = (evaluate(side, tensors, sizes, _Some()) for side in sides)
    return "" if np.allclose(left, right, equal_nan=True) else "differs in floats"


def test_no_mutant_with_a_counterexample_is_proved_and_most_have_one() -> None:
    found: Counter[str] = Counter()
    for mutant in wrong_claims():
        try:
            proved = explain_difference(mutant.left, mutant.right, mutant.ranges) is None
        except ProgramError:
            found["refused"] += 1
            continue
        witness = _in_floats(mutant) if _ordered(mutant) else counterexample(mutant, 20)
        assert not (proved and witness), f"{mutant.name} is called equal and {witness}"
        found["refuted" if witness else "proved" if proved else "open"] += 1
    assert found["refuted"] >= 0.8 * sum(found.values()) >= 100, found
