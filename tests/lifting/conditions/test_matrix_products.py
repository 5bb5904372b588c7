"""A matrix product whose operands fit only at some sizes is no program of the function, whatever it sums."""

from __future__ import annotations

from dataclasses import replace

from lifting.corpus import KERNELS
from tensmith.ir import Program
from tensmith.lifting.conditions import program_obligations
from tensmith.lifting.loops import Function
from tensmith.lifting.source.c.read import read_c
from tensmith.lifting.summarize import summarize
from tensmith.lifting.tensorize import tensorize
from tensmith.verify.solve import discharge


def test_turned_operands_of_a_symmetric_product_are_refused() -> None:
    """Rows of a window matrix are its columns, so that only the lengths tell."""
    found = {f.name: f for f in read_c(KERNELS / "own" / "convolution.c") if isinstance(f, Function)}
    summary = summarize(found["fir_reversed"])
    lifted = tensorize(summary)
    old = lifted.program
    turned = tuple(replace(n, inputs=n.inputs[::-1]) if n.op == "matmul" else n for n in old.nodes)
    assert turned != old.nodes
    program = Program(old.name, old.inputs, old.outputs, turned, old.constants)
    for changed, status in ((old, {"proved"}), (program, {"proved", "refuted"})):
        verdicts = discharge(program_obligations(replace(lifted, program=changed), summary))
        assert {verdict.status for verdict in verdicts} == status
