"""Einstein sums are known whatever their letters, and products are written as such."""

from __future__ import annotations

import numpy as np
import pytest

from nets import Net
from tensmith.ir import interpret
from tensmith.rewrite.trail import simplify


@pytest.mark.parametrize("equation", ["blv,vd->bld", "xyz, zw -> xyw", "bij,jk->bik"])
def test_a_product_with_a_table_is_one_in_any_letters(equation: str) -> None:
    net = Net(2, 3, 5)
    program = net.program(net.add("einsum", "x", net.constant(5, 4), equation=equation))
    changed = simplify(program).program
    assert [node.op for node in changed.nodes] == ["matmul"]
    x = np.random.default_rng(0).standard_normal((2, 3, 5)).astype(np.float32)
    ((first,), (second,)) = (interpret(p, {"x": x}).values() for p in (program, changed))
    np.testing.assert_allclose(second, first, rtol=0, atol=1e-6)  # sums of 5 terms near 1


@pytest.mark.parametrize("equation", ["...v,vd->...d", "blv,vd"])
def test_equations_that_name_not_every_axis_stay(equation: str) -> None:
    net = Net(2, 3, 5)
    changed = simplify(net.program(net.add("einsum", "x", net.constant(5, 4), equation=equation))).program
    assert [node.attrs.get("equation") for node in changed.nodes] == [equation]
