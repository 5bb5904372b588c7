"""A law is a line of algebra, whatever its right side is, and never changes the type of what it replaces."""

from __future__ import annotations

import numpy as np
import pytest
from golden import program

from tensmith.errors import ProgramError
from tensmith.ir.interpreter import interpret
from tensmith.rewrite.judge import judged
from tensmith.rewrite.law import lemma
from tensmith.rewrite.term import Var

X = Var("x")
NEUTRAL = lemma("neutral", X + 0, X, X + 1)

SUM = """
input %x: f32[n, 3]
const %zero: f32[{shape}] = {zero}
%y: f32[{result}] = add(%x, %zero)
%z: f32[{result}] = exp(%y)
return %z
"""


def test_a_right_side_may_be_one_of_the_variables() -> None:
    assert judged(NEUTRAL).problems == ()
    given = program(SUM.format(shape="", zero="0.0", result="n, 3"))
    after = NEUTRAL.apply(given, "y")
    assert [node.op for node in after.nodes] == ["exp"] and after.nodes[0].inputs == ("x",)
    assert NEUTRAL.applies(given, "y") and interpret(after, {"x": np.ones((2, 3), np.float32)})[
        "z"
    ].shape == (2, 3)


def test_a_value_keeps_its_shape() -> None:
    given = program(SUM.format(shape="1, 1, 1", zero="[[[0.0]]]", result="1, n, 3"))
    assert not NEUTRAL.applies(given, "y") and list(NEUTRAL.sites(given)) == []
    with pytest.raises(ProgramError, match="does not apply"):
        NEUTRAL.apply(given, "y")
