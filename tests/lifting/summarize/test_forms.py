"""What comes out of small functions: folds, boxes, scans, triangles, requirements; and a wrong twin."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import pytest

from lifting.evaluate_summary import Mismatch, Unmet, arguments, check
from lifting.summarize.build import add, c, flat, function, less, load, loop, mul, nested, op, store, v
from tensmith.formula.expr import Call, Choose, Expr, Num, Read, Reduce, variable
from tensmith.formula.poly import Poly
from tensmith.formula.types import F64, I32
from tensmith.lifting import assumptions
from tensmith.lifting.loops import Allocate, Append, Array, Assign, Declare, Function, If, Return
from tensmith.lifting.summarize import summarize
from tensmith.lifting.summary import Summary, Term, Written

n = Poly.symbol("n")
ZERO = c(0)


def agrees(summary: Summary, inputs: int = 40) -> None:
    chance = random.Random(7)
    met = 0
    for _ in range(inputs):
        with suppress(Unmet):
            check(summary, arguments(summary, chance))
            met += 1
    assert met


def only(summary: Summary) -> Written:
    (result,) = summary.results
    (written,) = result.written
    return written


def total() -> Function:
    body = Assign("s", add(v("s"), load("a", v("i"))))
    parameters = {"a": flat(), "n": I32}
    return function(
        parameters, Declare("s", I32, ZERO), *loop("i", ZERO, v("n"), body), Return(v("s")), returns=I32
    )


def test_a_sum_is_a_fold_over_the_size() -> None:
    summary = summarize(total())
    fold = only(summary).value
    assert isinstance(fold, Reduce) and (fold.kind, fold.extent) == ("sum", n)
    assert fold.start == Num(Fraction(0), I32)
    assert [(size.symbol, size.poly) for size in summary.sizes] == [("n", n)]
    assert [r.text for r in summary.requires] == ["elements of a >= n"]
    assert summary.arithmetic == "machine integers"
    agrees(summary)


def test_the_facts_say_what_holds_at_the_start_of_an_iteration() -> None:
    (facts,) = summarize(total()).loops
    t = Poly.symbol(facts.counter)
    assert facts.trips == n and facts.outer == ()
    assert set(facts.scalars) == {"s", "i"}
    fold = facts.scalars["s"]
    assert isinstance(fold, Reduce) and fold.extent == t


def test_a_conditional_accumulation_adds_zero_elsewhere() -> None:
    body = If(less(ZERO, load("a", v("i"))), (Assign("s", add(v("s"), load("a", v("i")))),))
    made = function(
        {"a": flat(), "n": I32},
        Declare("s", I32, ZERO),
        *loop("i", ZERO, v("n"), body),
        Return(v("s")),
        returns=I32,
    )
    summary = summarize(made)
    fold = only(summary).value
    assert isinstance(fold, Reduce) and isinstance(fold.body, Call) and fold.body.function == "where"
    agrees(summary)


@pytest.mark.parametrize(("test", "kind"), [("less", "max"), ("greater", "min")])
def test_keeping_the_larger_is_a_maximum(test: str, kind: str) -> None:
    element = load("a", v("i"))
    condition = less(v("m"), element) if test == "less" else less(element, v("m"))
    made = function(
        {"a": flat(), "n": I32},
        Declare("m", I32, load("a", ZERO)),
        *loop("i", c(1), v("n"), If(condition, (Assign("m", element),))),
        Return(v("m")),
        returns=I32,
    )
    summary = summarize(made)
    fold = only(summary).value
    assert isinstance(fold, Reduce) and fold.kind == kind and isinstance(fold.start, Read)
    assert {r.text for r in summary.requires} == {"elements of a >= 1", "elements of a >= n"}
    agrees(summary)


def test_a_float_maximum_asks_for_numbers_that_compare() -> None:
    element = load("a", v("i"), type=F64)
    made = function(
        {"a": flat(F64), "n": I32},
        Declare("m", F64, Num(0.0, F64)),
        *loop("i", ZERO, v("n"), If(less(v("m", F64), element), (Assign("m", element),))),
        Return(v("m", F64)),
        returns=F64,
    )
    summary = summarize(made)
    assert [r.text for r in summary.requires if r.kind == "ordered"] == ["no NaN in a"]
    assert summary.arithmetic == "reals"


@pytest.mark.parametrize(
    ("start", "element", "said"),
    [
        (Num(0.0, F64), load("a", v("i"), type=F64), False),
        (v("x", F64), load("a", v("i"), type=F64), False),
        (v("x", F64), op("div", load("a", v("i"), type=F64), v("x", F64)), True),
        (op("sub", v("x", F64), v("y", F64)), load("a", v("i"), type=F64), True),
    ],
)
def test_numbers_that_may_become_nan_are_taken_not_to(start: Expr, element: Expr, said: bool) -> None:
    """inf - inf and 0 / 0, as the start of a maximum too, which fmax leaves out and a maximum keeps."""
    made = function(
        {"a": flat(F64), "n": I32, "x": F64, "y": F64},
        Declare("m", F64, start),
        *loop("i", ZERO, v("n"), If(less(v("m", F64), element), (Assign("m", element),))),
        Return(v("m", F64)),
        returns=F64,
    )
    assert (assumptions.COMPARED() in summarize(made).assumes) == said


def test_a_running_sum_in_place_is_a_fold_up_to_the_element() -> None:
    before = load("a", op("sub", v("i"), c(1)))
    summary = summarize(
        function(
            {"a": flat(), "n": I32},
            *loop("i", c(1), v("n"), store("a", v("i"), add(load("a", v("i")), before))),
        )
    )
    written = only(summary)
    (index,) = map(Poly.symbol, written.indices)
    assert written.at == (index + 1,)
    assert isinstance(written.value, Reduce) and written.value.extent == index + 1
    agrees(summary)


def row(i: str, j: str, width: str = "n") -> Call | object:
    return add(mul(v(i), v(width)), v(j))


def test_flat_memory_is_seen_as_a_matrix_and_accumulated_in_any_loop_order() -> None:
    at = add(mul(v("i"), v("n")), v("j"))
    product = mul(load("a", add(mul(v("i"), v("k")), v("p"))), load("b", add(mul(v("p"), v("n")), v("j"))))
    inner = loop("j", ZERO, v("n"), store("c", at, add(load("c", at), product)), line=3)
    middle = loop("p", ZERO, v("k"), *inner, line=2)
    parameters = {"a": flat(), "b": flat(), "c": flat(), "m": I32, "n": I32, "k": I32}
    summary = summarize(function(parameters, *loop("i", ZERO, v("m"), *middle)))
    assert summary.grids["c"].strides == (n, Poly.of(1))
    written = only(summary)
    assert written.extents == (Poly.symbol("m"), n)
    assert isinstance(written.value, Reduce) and isinstance(written.value.start, Read)
    agrees(summary)


def test_leading_dimensions_are_required_to_hold_a_row() -> None:
    at = add(mul(v("i"), v("lda")), v("j"))
    inner = loop("j", ZERO, v("n"), store("a", at, c(1)), line=2)
    parameters = {"a": flat(), "m": I32, "n": I32, "lda": I32}
    summary = summarize(function(parameters, *loop("i", ZERO, v("m"), *inner)))
    assert "lda >= n" in {r.text for r in summary.requires}
    agrees(summary)


def test_a_triangle_is_a_box_with_a_mask() -> None:
    at = add(mul(v("i"), v("n")), v("j"))
    inner = loop("j", ZERO, add(v("i"), c(1)), store("a", at, c(7)), line=2)
    summary = summarize(function({"a": flat(), "n": I32}, *loop("i", ZERO, v("n"), *inner)))
    written = only(summary)
    i, j = map(Poly.symbol, written.indices)
    assert written.extents == (n, n) and written.where == (i - j,)
    agrees(summary)


def test_a_store_under_a_condition_on_the_counter_is_masked() -> None:
    body = If(less(v("i"), v("k")), (store("a", v("i"), c(1)),), (store("a", v("i"), c(2)),))
    summary = summarize(function({"a": flat(), "n": I32, "k": I32}, *loop("i", ZERO, v("n"), body)))
    assert isinstance(only(summary).value, Choose)
    agrees(summary)


def test_a_store_under_a_condition_on_data_keeps_the_old_element() -> None:
    body = If(less(load("b", v("i")), ZERO), (store("a", v("i"), ZERO),))
    summary = summarize(function({"a": flat(), "b": flat(), "n": I32}, *loop("i", ZERO, v("n"), body)))
    value = only(summary).value
    assert isinstance(value, Call) and value.function == "where" and isinstance(value.args[2], Read)
    agrees(summary)


def test_a_list_that_grows_is_returned_with_its_shape() -> None:
    line = Array(I32, 1, "nested")
    made = function(
        {"a": nested(), "n": I32},
        Allocate("out", line, (ZERO,), None),
        *loop("i", ZERO, v("n"), Append("out", mul(load("a", v("i")), c(3)))),
        Return("out"),
        returns=line,
    )
    summary = summarize(made)
    (result,) = summary.results
    assert result.shape == (n,)
    assert any("len(out, 0)" in facts.scalars for facts in summary.loops)
    agrees(summary)


def test_a_pointer_walk_through_two_loops_has_a_closed_form() -> None:
    inner = loop(
        "j", ZERO, v("n"), store("a", v("p"), add(v("i"), v("j"))), Assign("p", add(v("p"), c(1))), line=2
    )
    made = function(
        {"a": flat(), "m": I32, "n": I32}, Declare("p", I32, ZERO), *loop("i", ZERO, v("m"), *inner)
    )
    summary = summarize(made)
    assert summary.grids["a"].strides == (n, Poly.of(1))
    agrees(summary)


def test_extents_that_differ_by_constants_share_a_size() -> None:
    made = function(
        {"a": flat(), "b": flat(), "n": I32},
        *loop("i", ZERO, v("n"), store("a", v("i"), c(1))),
        *loop("j", c(1), v("n"), store("b", v("j"), load("a", op("sub", v("j"), c(1)))), line=2),
    )
    summary = summarize(made)
    assert [(size.symbol, size.poly) for size in summary.sizes] == [("n_1", n - 1)]
    assert "n >= 1" in {r.text for r in summary.requires}
    agrees(summary)


def test_a_descending_loop_needs_its_size_to_be_exact() -> None:
    first = op("sub", v("n"), c(1))
    step = Assign("i", op("sub", v("i"), c(1)))
    _, up = loop("i", ZERO, v("n"), store("a", v("i"), v("i")))
    down = replace(
        up, condition=op("less_equal", ZERO, v("i"), type=up.condition.type), body=(up.body[0], step)
    )
    summary = summarize(function({"a": flat(), "n": I32}, Declare("i", I32, first), down))
    assert "n >= 0" in {r.text for r in summary.requires}


def test_what_a_swapped_temporary_holds_is_the_value_of_the_iteration_before() -> None:
    made = function(
        {"a": flat(), "b": flat(), "n": I32},
        Declare("last", I32, ZERO),
        *loop(
            "i",
            ZERO,
            v("n"),
            store("b", v("i"), op("sub", load("a", v("i")), v("last"))),
            Assign("last", load("a", v("i"))),
        ),
    )
    summary = summarize(made)
    value = only(summary).value
    assert isinstance(value, Call) and isinstance(value.args[1], Choose)
    agrees(summary)


def test_a_guess_is_asked_for_what_no_rule_knows() -> None:
    made = function(
        {"n": I32, "x": I32},
        Declare("s", I32, c(2)),
        *loop("i", ZERO, v("n"), Assign("s", mul(v("s"), v("s")))),
        Return(v("s")),
        returns=I32,
    )
    asked: list[tuple[str, Term]] = []

    def one(name: str, after: Term, counter: str, start: Term) -> Term:
        asked.append((name, after))
        return start

    assert only(summarize(made, one)).value == Num(Fraction(2), I32)
    assert asked and isinstance(asked[0][1], Call)


def test_the_evaluator_sees_a_wrong_twin() -> None:
    summary = summarize(total())
    written = only(summary)
    assert isinstance(written.value, Reduce)
    wrong = replace(written, value=replace(written.value, start=Read("n", (), I32)))
    broken = replace(summary, results=(replace(summary.results[0], written=(wrong,)),))
    with pytest.raises(Mismatch):
        agrees(broken)


def test_a_variable_is_what_it_is() -> None:
    made = function({"x": I32}, Return(variable("x", I32)), returns=I32)
    assert only(summarize(made)).value == Read("x", (), I32)
