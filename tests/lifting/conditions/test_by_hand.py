"""Right summaries are proved by both solvers; each wrong one is refuted, at the place where it is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lifting.conditions.by_hand import (
    BY_HAND,
    F64,
    U8,
    blend,
    dot,
    gemv,
    i,
    in_place,
    k,
    m,
    matrix_copy,
    n,
    number,
    prefix_max,
    read,
    reversed_dot,
    term,
    total,
    vadd,
    x,
    zeros_and_quotient,
)
from lifting.mutate import put
from lifting.summarize.build import c, load, op, v
from tensmith.formula.expr import Read
from tensmith.formula.poly import Poly
from tensmith.formula.types import I32
from tensmith.lifting.conditions import obligations
from tensmith.lifting.summary import LoopFacts, Requirement, SizeSymbol, Summary, Written
from tensmith.verify.obligation import Verdict
from tensmith.verify.solve import discharge


def failing(summary: Summary, solver: str = "z3") -> list[Verdict]:
    return [verdict for verdict in discharge(obligations(summary), solver, 2.0) if verdict.status != "proved"]


@pytest.mark.parametrize("solver", ["z3", "cvc5"])
@pytest.mark.parametrize("name", BY_HAND)
def test_a_right_summary_is_proved(name: str, solver: str) -> None:
    assert failing(BY_HAND[name](), solver) == []


def test_every_kind_of_obligation_is_there() -> None:
    kinds = {o.kind for o in obligations(in_place())}
    assert kinds == {
        "satisfiable", "initiation", "preservation", "exit", "bounds", "post", "frame",
    }  # fmt: skip
    assert "definedness" in {o.kind for o in obligations(blend())}


def test_obligations_know_their_place_and_loop() -> None:
    found = obligations(gemv())
    assert {o.loop for o in found} == {"", "i@1:1", "j@2:1"}
    assert {o.line for o in found if o.loop == "j@2:1" and o.kind == "exit"} == {2}


def test_a_reversed_sum_needs_a_lemma() -> None:
    verdicts = discharge(obligations(reversed_dot()))
    (verdict,) = [v for v in verdicts if v.obligation.kind == "post"]
    assert verdict.rung == "fold lemma"
    ((lemma, proof),) = verdict.lemmas
    assert proof.status == "proved" and lemma.window.reversed


# Wrong ones: (summary, path, new value, kinds of which one must fail)

Change = tuple[Callable[[], Summary], tuple[Any, ...], Any, set[str]]


def result(of: Callable[[], Summary]) -> Written:
    return of().results[0].written[0]


WRONG: dict[str, Change] = {
    "the wrong operator": (
        vadd, ("results", 0, "written", 0, "value"), term("sub", read("a", x), read("b", x)), {"post"},
    ),
    "one element too many": (
        vadd, ("results", 0, "written", 0, "extents"), (n + 1,), {"bounds", "frame", "post"},
    ),
    "one element too few": (vadd, ("results", 0, "written", 0, "extents"), (n - 1,), {"frame"}),
    "the next element": (vadd, ("results", 0, "written", 0, "at"), (x + 1,), {"bounds", "post", "frame"}),
    "a sum that stops early": (
        dot, ("results", 0, "written", 0, "value"), replace(result(dot).value, extent=n - 1), {"post"},
    ),
    "a sum that starts at 1": (
        dot, ("results", 0, "written", 0, "value"), replace(result(dot).value, start=number(1)), {"post"},
    ),
    "an invariant one behind": (
        dot, ("loops", 0, "scalars", "s"), total(x, i - 1, term("mul", read("a", x), read("b", x))),
        {"preservation"},
    ),
    "an invariant that does not begin": (
        dot, ("loops", 0, "scalars", "s"),
        total(x, i, term("mul", read("a", x), read("b", x)), number(5)), {"initiation"},
    ),
    "one iteration too few": (dot, ("loops", 0, "trips"), n - 1, {"exit"}),
    "one iteration too many": (dot, ("loops", 0, "trips"), n + 1, {"exit"}),
    "no fact of a counter": (vadd, ("loops", 0, "scalars"), {}, {"exit", "definedness", "bounds"}),
    "the wrong matrix entry": (
        gemv, ("results", 0, "written", 0, "value", "body", "args", 0, "indices"),
        (k, x), {"post"},
    ),
    "another constant": (
        blend, ("results", 0, "written", 0, "value", "args", 1), number(254, U8), {"post"},
    ),
    "a maximum from the second element": (
        prefix_max, ("loops", 0, "scalars", "top", "start"), read("a", Poly.of(1)), {"initiation"},
    ),
    "the element after it was overwritten": (
        in_place, ("results", 1, "written", 0, "value", "body"),
        term("mul", Read("s", (), F64), read("a", k, type=F64)), {"post"},
    ),
    "rows for columns": (
        matrix_copy, ("results", 0, "written", 0, "extents"), (n, m), {"frame", "post", "bounds"},
    ),
    "no requirement of a length": (vadd, ("requires",), vadd().requires[1:], {"bounds"}),
    "no requirement of an element": (prefix_max, ("requires",), prefix_max().requires[:2], {"bounds"}),
    "a stride of another matrix": (gemv, ("grids", "A", "strides"), (m, Poly.of(1)), {"bounds"}),
    "a requirement that never holds": (
        vadd, ("requires",), (*vadd().requires, Requirement("at_least", "never", Poly.of(-1))),
        {"satisfiable"},
    ),
    "requirements that leave only nothing": (
        vadd, ("requires",), (*vadd().requires, Requirement("at_least", "-n >= 0", -n)), {"satisfiable"},
    ),
    "what is read is not what is divided by": (
        zeros_and_quotient, ("loops", 0, "scalars", "z"), number(0), {"preservation"},
    ),
    "another divisor on the line": (
        zeros_and_quotient, ("function", "body", 3, "value", "args", 0, "args", 1), v("n"), {"definedness"},
    ),
    "a divisor that a conversion makes 0": (
        zeros_and_quotient, ("function", "body", 3, "value", "args", 0, "args", 1),
        op("cast", op("cast", load("b", c(0)), type=U8), type=I32), {"definedness"},
    ),
    "a size of another parameter": (gemv, ("sizes",), (SizeSymbol("m", n), SizeSymbol("n", n)), {"exit"}),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_summary_is_refuted(name: str) -> None:
    make, path, new, kinds = WRONG[name]
    found = failing(put(make(), path, new))
    assert found, "proved"
    assert {verdict.obligation.kind for verdict in found} & kinds


FORM: dict[str, tuple[Callable[[], Summary], tuple[Any, ...], Any, str]] = {
    "no facts": (vadd, ("loops",), (), "says nothing of the loop i@1:1"),
    "facts of no loop": (
        vadd, ("loops",), (*vadd().loops, LoopFacts("k@9:9", "q", (), n, {}, {})), "has no loop k@9:9",
    ),
    "an array that is not there": (
        vadd, ("results", 0, "written", 0, "value"), Read("c", (x,), I32), "reads 'c'",
    ),
    "a symbol that is not there": (
        vadd, ("results", 0, "written", 0, "extents"), (Poly.symbol("q"),), "named 'q'",
    ),
    "no result": (vadd, ("results",), (), "has no result"),
    "a result that is none": (vadd, ("results", 0, "name"), "n", "'n' is no array parameter"),
    "a result twice": (vadd, ("results",), vadd().results * 2, "given twice"),
    "a result of another type": (vadd, ("results", 0, "type"), F64, "does not have the type"),
    "places that fix no index": (vadd, ("results", 0, "written", 0, "at"), (Poly.of(0),), "do not determine"),
    "another rank": (vadd, ("results", 0, "written", 0, "at"), (x, x), "2 subscripts where there are 1 axes"),
    "counters of other loops": (gemv, ("loops", 1, "outer"), (), "are not those around it"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORM)
def test_what_cannot_be_proved_for_its_form_says_so(name: str) -> None:
    make, path, new, words = FORM[name]
    (obligation,) = obligations(put(make(), path, new))
    assert obligation.kind == "form" and words in obligation.name
    assert discharge([obligation])[0].status == "refuted"


def test_two_loops_do_not_share_a_counter() -> None:
    """Of the first loop's goals, the range would be that of the second."""
    twice = vadd()
    (facts,), (declared, around) = twice.loops, twice.function.body
    body = (declared, around, declared, replace(around, label="again"))
    shared = replace(twice, function=replace(twice.function, body=body))
    (obligation,) = obligations(replace(shared, loops=(facts, replace(facts, label="again"))))
    assert "the loop again has the counter of another one" in obligation.name


def test_a_counterexample_is_shown_in_numbers() -> None:
    (verdict,) = [
        v for v in failing(put(vadd(), ("requires",), vadd().requires[1:])) if v.obligation.subject == "a"
    ]
    assert verdict.status == "refuted"
    assert "in.n = " in verdict.detail and "len.a.0 = " in verdict.detail


def test_a_claim_may_not_reach_before_an_array() -> None:
    right = vadd()
    (result,) = right.results
    (part,) = result.written
    for extent, inside in ((n, True), (n + 1, False)):
        backward = replace(part, at=(n - 1 - x,), extents=(extent,))
        claim = replace(right, results=(replace(result, written=(backward,)),))
        bounds = [verdict for verdict in failing(claim) if verdict.obligation.kind == "bounds"]
        assert (not bounds) == inside
