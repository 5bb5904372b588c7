"""Small terms that compute the same are proved equal, and what other rules imply is left out."""

from __future__ import annotations

import numpy as np
import pytest

from tensmith.discovery import selection
from tensmith.discovery.enumeration import Enumeration
from tensmith.discovery.selection import Discovery, Sieve, discover, ranked
from tensmith.discovery.vocabulary import VOCABULARIES, Vocabulary, Word, of_ops, simple
from tensmith.discovery.written import lines, written
from tensmith.errors import UsageError
from tensmith.ir import Program
from tensmith.ir.text_parser import parse_program
from tensmith.rewrite.rule import EXACT
from tensmith.rewrite.term import Var, ops, show

X, Y = Var("x"), Var("y")


def test_equal_terms_are_met_and_the_cheaper_one_is_on_the_right() -> None:
    found = Enumeration(of_ops(("neg", "abs", "add")), 2, 60.0).candidates()
    shown = {f"{show(c.left.term)} = {show(c.right.term)}" for c in found}
    assert {"-(-x) = x", "abs(-x) = abs(x)", "abs(abs(x)) = abs(x)"} <= shown
    assert all(c.left.cost > c.right.cost for c in found)


def test_larger_terms_are_made_of_the_cheapest_of_a_class_whenever_it_was_met() -> None:
    """reduce_sum(-x) is met first."""
    axis = np.array([1])
    words = (Word("r", lambda x: ops.reduce_sum(x, axis, attrs={"keepdims": 1})), *simple(("neg", "exp")))
    sums = Vocabulary("sums", {"x": "M N"}, words, alike=False)
    found = Enumeration(sums, 3, 60.0).candidates()
    assert "-(-reduce_sum(x, [1])) = reduce_sum(x, [1])" in {
        f"{show(c.left.term)} = {show(c.right.term)}" for c in found
    }


def test_what_the_rules_imply_is_left_out() -> None:
    searched = discover(of_ops(("neg", "add", "sub")), 2, 60.0)
    assert searched.candidates > 20 and searched.implied > 20
    assert "-(-x) = x" not in {row.statement for row in searched.kept}
    assert "implied" in searched.sentence


def test_what_is_kept_implies_what_comes_after_it() -> None:
    small = of_ops(("sign", "reciprocal"))
    candidates = Enumeration(small, 3, 60.0).candidates()
    kept = {row.statement for row in Sieve(small).run(candidates, np.inf)}
    assert "sign(sign(x)) = sign(x)" not in kept or "sign(sign(sign(x))) = sign(x)" not in kept


def test_numbers_that_agree_by_chance_are_not_proved() -> None:
    one = Vocabulary("one", {"x": "M N", "y": "M N"}, simple(("max", "min")), (9.0,))
    searched = discover(one, 1, 60.0)  # no number drawn is above 9
    assert searched.unproved >= 2 and not searched.kept


def _found() -> Discovery:
    right = ops.abs(X * Y)
    return Discovery(VOCABULARIES["elements"], ops.abs(X) * ops.abs(Y), right, X * Y, "by hand", 0.3)


def test_a_law_is_printed_as_a_line_that_declares_it() -> None:
    line = written(_found())
    assert line == (
        "law(\"mul_abs_x_abs_y\", ops.abs(X) * ops.abs(Y), ops.abs(X * Y), wrong=X * Y, found='enumeration')"
    )
    reduced = VOCABULARIES["reductions"]
    axes = np.array([1])
    of = Discovery(reduced, ops.reduce_l1(-X, axes, attrs={"keepdims": 1}), X, Y, "", 0.0)
    assert 'x="M N"' in written(of) and "np.array([1]), attrs={'keepdims': 1}" in written(of)


def test_laws_of_one_file_have_names_of_their_own() -> None:
    of = VOCABULARIES["choices"]
    found = [
        Discovery(of, ops.less(0, X + X), ops.less(0, X), ops.less(X, 0), "", 0.0),
        Discovery(of, ops.less(X + X, 0), ops.less(X, 0), ops.less(0, X), "", 0.0),
    ]
    assert [line.split('"')[1] for line in lines(found)] == ["less_add_x_x", "less_add_x_x_2"]


def test_vocabularies_share_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []
    monkeypatch.setattr(selection, "discover", lambda of, size, seconds: given.append(seconds))
    list(selection.discover_each([*VOCABULARIES.values()], 2, 70.0))
    assert given[0] == pytest.approx(10.0, rel=0.01) and len(given) == 7


def test_laws_are_ranked_by_what_they_save_in_models() -> None:
    net = parse_program(
        """
        program net {
        input %x: f32[n, 3]
        input %y: f32[n, 3]
        %a: f32[n, 3] = abs(%x)
        %b: f32[n, 3] = abs(%y)
        %z: f32[n, 3] = mul(%a, %b)
        return %z
        }
        """
    )

    def cost(of: Program) -> dict[str, float]:
        return {node.output: 1.0 for node in of.nodes}

    other = Discovery(VOCABULARIES["elements"], ops.relu(ops.abs(X)), ops.abs(X), X, "", 0.9)
    rows = ranked([other, _found()], [net], cost)
    assert [row.sites for row in rows] == [1, 0]
    assert rows[0].saves == pytest.approx(1 / 3)


def test_an_unknown_op_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="'matmul' is no op"):
        of_ops(("abs", "matmul"))


def test_rules_say_how_they_were_found() -> None:
    found = [name for name, rule in EXACT.unproved().items() if rule.found == "enumeration"]
    assert len(found) >= 20 and "extremes_of_shared" in found and "neg_of_neg" not in found
