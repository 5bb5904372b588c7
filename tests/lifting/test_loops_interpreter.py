"""The interpreter of the loop language, on functions written by hand."""

from __future__ import annotations

import numpy as np
import pytest

from lifting.loops_interpreter import Endless, Undefined, run
from tensmith.formula.expr import Call, Num, variable
from tensmith.formula.types import BOOL, F32, I32, MachineType
from tensmith.lifting.loops import Array, Assign, Declare, Function, Load, Loop, Parameter, Return, Store

U8 = MachineType("u8")
N, AT = variable("n", I32), variable("i", I32)
ZERO, ONE = Num(0, I32), Num(1, I32)
STEP = Assign("i", Call("add", (AT, ONE), I32))
BELOW = Call("less", (AT, N), BOOL)


def function(*body, parameters=(), returns=None, language="c"):
    return Function("f", tuple(parameters), returns, tuple(body), language, "f.c")


def counted(*body):
    """for (i = 0; i < n; i++) body"""
    return Declare("i", I32, ZERO), Loop(BELOW, (*body, STEP), "i@1:1")


def test_a_sum_of_floats_rounds_at_every_step():
    total = variable("s", F32)
    add = Assign("s", Call("add", (total, Load("a", (AT,), F32)), F32))
    parameters = (Parameter("n", I32), Parameter("a", Array(F32)))
    body = (Declare("s", F32, Num(0.0, F32)), *counted(add), Return(total))
    values = np.array([1e8, 1, 1, -1e8], np.float32)
    assert run(function(*body, parameters=parameters, returns=F32), [4, values]).value == 0
    assert run(function(*body, parameters=parameters, returns=F32), [0, []]).value == 0


def test_bytes_wrap_where_a_cast_says_so_and_arguments_stay_as_they_were():
    grown = Call("cast", (Call("add", (Call("cast", (Load("a", (AT,), U8),), I32), ONE), I32),), U8)
    parameters = (Parameter("n", I32), Parameter("a", Array(U8)))
    source = np.array([255, 7], np.uint8)
    outcome = run(function(*counted(Store("a", (AT,), grown)), parameters=parameters), [2, source])
    assert outcome.arrays == {"a": [0, 8]} and source.tolist() == [255, 7]


@pytest.mark.parametrize(("operator", "expected"), [("div", -3), ("fmod", -1), ("floor_div", -4), ("mod", 1)])
def test_the_four_divisions(operator, expected):
    value = Call(operator, (Num(-7, I32), Num(2, I32)), I32)
    assert run(function(Return(value), returns=I32), []).value == expected


def test_a_flat_matrix_has_rows_and_a_subscript_may_not_leave_them():
    grid = Parameter("a", Array(I32, 2, "flat", (None, Num(3, I32))))
    inside = Return(Load("a", (ONE, Num(2, I32)), I32))
    outside = Return(Load("a", (ZERO, Num(3, I32)), I32))
    assert run(function(inside, parameters=[grid], returns=I32), [np.arange(6)]).value == 5
    with pytest.raises(Undefined):
        run(function(outside, parameters=[grid], returns=I32), [np.arange(6)])


def test_what_has_no_meaning_is_undefined():
    for value in (
        Call("div", (ONE, ZERO), I32),
        variable("unset", I32),
        Call("left_shift", (ONE, Num(32, I32)), I32),
        Call("cast", (Num(1e30, F32),), I32),
    ):
        with pytest.raises(Undefined):
            run(function(Declare("unset", I32, None), Return(value), returns=I32), [])


def test_a_loop_without_end_is_stopped():
    forever = Loop(Num(True, BOOL), (), "@1:1")
    with pytest.raises(Endless):
        run(function(forever), [], limit=100)


def test_the_side_not_chosen_is_not_looked_at():
    bad = Call("div", (ONE, ZERO), I32)
    value = Call("where", (Num(True, BOOL), ONE, bad), I32)
    assert run(function(Return(value), returns=I32), []).value == 1
