"""Programs of an instance's terms."""

from __future__ import annotations

import numpy as np

from tensmith.rewrite.case import Case
from tensmith.rewrite.instance import Numbers
from tensmith.rewrite.term import AnyElementwise, Var, ops


def test_functions_of_several_tensors_are_several_values() -> None:
    """What stands for any function is made on the way: one may lie where another one lay."""
    names = [f"x{n}" for n in range(40)]
    numbers = Numbers(Case("all", {}), {}, dict.fromkeys(names, np.ones(2, np.float32)), frozenset(names))
    program = numbers.program(ops.max(*(AnyElementwise("f", (Var(name),)) for name in names)))
    assert [node.inputs for node in program.nodes if node.op == "tanh"] == [(name,) for name in names]
