"""The background theory has a model; theories without one are found out by the same check."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axiom_model import MODEL, parse, prefix_model, prefix_violations, value, violations
from tensmith.verify import lift_checker
from tensmith.verify.solve import ask
from tensmith.verify.theory import AXIOMS, Axiom, Prefix, axioms, window


def test_every_axiom_holds_in_an_explicit_model() -> None:
    assert violations(AXIOMS, MODEL) == []


def ground(theory: list[Axiom], numbers: range) -> str:
    """All instances of a theory over some integers, as a script."""
    names = sorted({(axiom.function, 1 if axiom.function == "f" else 2) for axiom in theory})
    lines = [f"(declare-fun {name} ({' '.join(['Int'] * arity)}) Int)" for name, arity in names]
    for axiom in theory:
        for numbers_ in itertools.product(numbers, repeat=len(axiom.parameters)):
            texts = [str(n) if n >= 0 else f"(- {-n})" for n in numbers_]
            lines.append(f"(assert {axiom.instance(texts)})")
    return "\n".join(["(set-logic QF_UFLIA)", *lines, "(check-sat)"])


LIST, INDEX = ("l", "Int"), ("i", "Int")
# S(l, i) sums the first i elements x(l, 0), ..., x(l, i-1) of the list l that holds l everywhere.
ELEMENT = Axiom("x", (LIST, INDEX), "(= (x l i) l)")
EMPTY = Axiom("S", (LIST, INDEX), "(=> (<= i 0) (= (S l i) 0))")
UNFOLD = "(= (S l i) (+ (S l (- i 1)) (x l (- i 1))))"
SOUND = [ELEMENT, EMPTY, Axiom("S", (LIST, INDEX), f"(=> (>= i 1) {UNFOLD})")]
FROM_ZERO = [ELEMENT, EMPTY, Axiom("S", (LIST, INDEX), f"(=> (>= i 0) {UNFOLD})")]
MEANING = {"x": lambda held, i: held, "S": lambda held, i: held * max(0, i)}


def test_an_unfolding_that_allows_index_0_is_refuted() -> None:
    assert violations(SOUND, MEANING) == []
    assert ask(ground(SOUND, range(-2, 4)), "z3", 5)[0] == "sat"
    (found,) = violations(FROM_ZERO, MEANING)
    assert "is false at" in found and "'i': 0" in found
    assert ask(ground(FROM_ZERO, range(-2, 4)), "z3", 5)[0] == "unsat"  # no other model either


def test_a_recursion_that_never_ends_is_refuted() -> None:
    """The length of a list is one more than its tail's; but the empty list is its own tail."""
    tail = "(ite (<= n 0) 0 (- n 1))"
    endless = [Axiom("f", (("n", "Int"),), f"(= (f n) (+ 1 (f {tail})))")]

    def f(n: int) -> int:
        return 1 + f(0 if n <= 0 else n - 1)

    (found,) = violations(endless, {"f": f})
    assert "has no value" in found
    assert ask(ground(endless, range(4)), "z3", 5)[0] == "unsat"
    ends = [Axiom("f", (("n", "Int"),), f"(= (f n) (ite (<= n 0) 0 (+ 1 (f {tail}))))")]
    assert violations(ends, {"f": lambda n: max(0, n)}) == []


def test_a_wrong_axiom_is_found_at_a_number() -> None:
    floor_as_truncation = Axiom("tdiv", (("x", "Int"), ("y", "Int")), "(= (tdiv x y) (div x y))")
    assert "is false at" in violations([floor_as_truncation], MODEL)[0]


@pytest.mark.parametrize("axiom", AXIOMS, ids=lambda axiom: axiom.text[:40])
def test_a_turned_comparison_in_any_axiom_is_found(axiom: Axiom) -> None:
    """The check can fail: at every place of every axiom."""
    for old, new in ((">=", "<"), ("<=", ">")):
        for place in re.finditer(re.escape(f"({old} "), axiom.text):
            turned = f"{axiom.text[: place.start()]}({new} {axiom.text[place.end() :]}"
            assert violations([replace(axiom, text=turned)], MODEL), turned


def test_the_small_checker_knows_the_same_axioms() -> None:
    """It imports nothing, so it has a copy of its own."""
    assert {text.replace("?", "") for text in lift_checker._AXIOMS} == {axiom.text for axiom in AXIOMS}


def test_functions_without_axioms_have_none() -> None:
    assert axioms("f.exp") == ()
    assert [axiom.weak for axiom in axioms("wrap.u8")] == [True, True, False]


# Prefix functions

BODIES = {
    "element": Prefix("fold.0", "sum", "Int", ("Int",), "(+ k p0)"),
    "product": Prefix("fold.0", "prod", "Int", ("Int",), "(- (* k p0) 1)"),
    "largest": Prefix("fold.0", "max", "Int", ("Int", "Int"), "(* (- k p0) (- k p0))"),
    "least": Prefix("fold.0", "min", "Int", ("Int", "Int"), "(* (- k p0) (- k p0))"),
    "real": Prefix("fold.0", "sum", "Real", ("Real",), "(* 0.5 p0)"),
}


@pytest.mark.parametrize("name", BODIES)
def test_the_small_checker_knows_the_same_recurrences(name: str) -> None:
    prefix = BODIES[name]
    given_ = [f"?p{i}" for i in range(len(prefix.parameters))]
    laws = {prefix.base(given_, "?t"), prefix.step(given_, "?t")}
    if prefix.kind in ("max", "min"):
        laws |= {prefix.bound(given_, "?t"), prefix.restart(given_, "?q", "?t")}
        laws |= {prefix.reached(given_, "?t"), prefix.covers(given_, "?t", "?k")}
    assert set(lift_checker._laws(vars(prefix))) == laws


@pytest.mark.parametrize("name", BODIES)
def test_the_recurrence_of_a_prefix_function_holds_in_its_model(name: str) -> None:
    assert prefix_violations(BODIES[name], MODEL) == []


def test_a_recurrence_from_the_wrong_end_would_be_found() -> None:
    class Wrong(Prefix):
        def step(self, arguments: object, position: str) -> str:
            return super().step(arguments, position).replace("(>= t 0)", "(>= t (- 1))")  # type: ignore[arg-type]

    assert prefix_violations(Wrong("fold.0", "sum", "Int", ("Int",), "(+ k p0)"), MODEL)


@given(
    st.sampled_from(["sum", "prod", "max", "min"]),
    st.lists(st.integers(-3, 3), max_size=6),
    st.lists(st.integers(-3, 3), max_size=6),
    st.integers(-1, 6),
    st.booleans(),
    st.integers(-2, 2),
)
def test_folds_whose_window_lemma_holds_are_equal(
    kind: str, first: list[int], second: list[int], shift: int, reverse: bool, start: int
) -> None:
    ordered = kind in ("max", "min")
    parameters = ("Int",) if ordered else ()
    a, b = (Prefix(name, kind, "Int", parameters, f"({name}.at k)") for name in ("fold.0", "fold.1"))
    model = {
        **MODEL,
        "fold.0.at": lambda k: first[k] if 0 <= k < len(first) else 7,
        "fold.1.at": lambda k: second[k] if 0 <= k < len(second) else 9,
    }
    given_ = tuple(([str(start)] if ordered else [], str(len(items))) for items in (first, second))
    given_ = tuple(([s if start >= 0 else f"(- {-start})" for s in args], n) for args, n in given_)
    text = window(a, b, given_, str(shift) if shift >= 0 else f"(- {-shift})", reverse)
    if all(value(parse(text), {"k0": k}, model) for k in range(len(first) + 2)):
        arguments = [start] if ordered else []
        results = [
            prefix_model(fold, model)(*arguments, len(items)) for fold, items in ((a, first), (b, second))
        ]
        assert results[0] == results[1]


@given(st.integers(-9, 9), st.integers(-9, 9))
def test_prefix_expressions_mean_what_they_say(a: int, b: int) -> None:
    scope = {"a": a, "b": b}
    assert value(parse("(ite (< a b) (- a) (+ a (* 2 b)))"), scope, MODEL) == (-a if a < b else a + 2 * b)
    assert value(parse("(=> (distinct b 0) (= (tdiv (* a b) b) a))"), scope, MODEL)
    assert value(parse("(to_real a)"), scope, MODEL) == Fraction(a)
