"""False claims of every shape are refuted, left open or refused; true ones beside them are proved."""

from __future__ import annotations

import claims_data
import claims_numbers
import numpy as np
import pytest
from claims_table import PAIRS, Pair, pair

from tensmith.errors import ProgramError
from tensmith.rewrite.judge import judge
from tensmith.rewrite.term import Const, Var, ops

ROWS = (claims_data, claims_numbers)


@pytest.mark.parametrize("row", PAIRS, ids=lambda row: row.name)
def test_a_false_claim_is_not_accepted(row: Pair) -> None:
    try:
        obligation = row.claim(row.false)
    except ProgramError:
        return  # refused with a reason: nothing was claimed
    assert judge(obligation).verdict != "proved"


@pytest.mark.parametrize("row", [row for row in PAIRS if row.true], ids=lambda row: row.name)
def test_a_true_claim_of_the_same_shape_is_proved(row: Pair) -> None:
    assert row.true is not None
    judgement = judge(row.claim(row.true))
    assert judgement.verdict == "proved", judgement.how


def test_there_are_enough_of_both_and_no_two_of_one_name() -> None:
    assert len(PAIRS) >= 90 and sum(row.true is not None for row in PAIRS) >= 65
    assert len({row.name for row in PAIRS}) == len(PAIRS) and pair


@pytest.mark.parametrize(
    ("constant", "reason"),
    [
        (np.array([1.0, np.inf]), "infinite"),
        (np.float32(np.nan), "infinite"),
        (np.arange(1000), "1000 different elements"),
    ],
)
def test_a_constant_that_no_formula_says_is_refused(constant: np.ndarray, reason: str) -> None:
    row = Pair(
        "constant", {"x": constant.shape}, lambda: (ops.add(Var("x"), Const(constant)), Var("x")), None
    )
    with pytest.raises(ProgramError, match=reason):
        row.claim(row.false)
