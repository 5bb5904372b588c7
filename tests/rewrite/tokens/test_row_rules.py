"""Which rows of its inputs an op reads, as its formula says: of ops that nobody wrote a line about, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tensmith.errors import ModelError
from tensmith.formula.poly import Poly
from tensmith.ir import Program, TensorType, make_node
from tensmith.rewrite.tokens.row_rules import ALL, NEW, Rows, inputs_for
from tensmith.rewrite.tokens.rows import TokenRows

_NUMBERS = {f"{n}": np.array([n]) for n in (-1, 0, 1, 2)}
_WEIGHTS = {
    "words": np.ones((5, 4), np.float32), "few": np.ones((4, 2), np.float32),
    "scales": np.ones(4, np.float32), "zeros": np.zeros(4, np.int8), "pads": np.array([0, 1, 0, 0, 0, 0]),
    "wider": np.array([0, 0, 1, 0, 0, 1]),
}  # fmt: skip


@dataclass
class Asked:
    """Says what it is asked for."""

    rows: TokenRows

    def value(self, name: str, rows: Rows) -> str:
        return f"{name} {' '.join(rows)}".strip()

    def shape(self, name: str, rows: Rows) -> str:
        return f"shape of {self.value(name, rows)}"


def asked(op: str, *inputs: str, rows: Rows, **attrs: Any) -> list[str]:
    """What a node reads of x [batch, length, 4], of it turned, of its codes, and of two scales a row."""
    nodes = (
        make_node("gather", ("words", "ids"), ("x",)),
        make_node("transpose", ("x",), ("turned",), {"perm": (0, 2, 1)}),
        make_node("cast", ("x",), ("codes",), {"to": 3}),
        make_node("matmul", ("x", "few"), ("halves",)),
        make_node(op, inputs, ("y",), attrs),
    )
    ids = TensorType("i64", (Poly.symbol("batch"), Poly.symbol("length")))
    c = Asked(TokenRows(Program("rows", {"ids": ids}, ("y",), nodes, {**_NUMBERS, **_WEIGHTS})))
    return inputs_for(c, nodes[-1], "y", dict(zip(c.rows.axes("y"), rows)))


def test_products_need_new_rows_of_one_side_and_all_of_the_other() -> None:
    for rows, found in (((NEW, ALL), ["x new", "x all"]), ((ALL, NEW), ["x all", "x new"])):
        assert asked("einsum", "x", "x", equation="bik,bjk->bij", rows=rows) == found
    assert asked("einsum", "x", "x", equation="bik,bil->bkl", rows=()) == ["x all", "x all"]
    assert asked("matmul", "x", "turned", rows=(NEW, ALL)) == ["x new", "turned all"]
    assert asked("matmul", "turned", "x", rows=()) == ["turned all", "x all"]


def test_each_row_alone() -> None:
    assert asked("dropout", "x", rows=(NEW,)) == ["x new"]
    assert asked("pad", "x", "wider", rows=(NEW,)) == ["x new", "wider"]
    assert asked("softmax", "x", axis=-1, rows=(NEW,)) == ["x new"]
    assert asked("softmax", "x", axis=1, rows=(ALL,)) == ["x all"]
    assert asked("slice", "x", "0", "2", "2", rows=(NEW,)) == ["x new", "0", "2", "2"]


def test_what_is_read_at_a_place_of_its_own_is_kept() -> None:
    assert asked("slice", "x", "0", "1", "1", rows=()) == ["x all", "0", "1", "1"]
    assert asked("reduce_mean", "x", "1", keepdims=0, rows=()) == ["x all", "1"]


def test_scales_have_the_rows_that_they_belong_to() -> None:
    blocks = asked("dequantize_linear", "codes", "halves", axis=2, block_size=2, rows=(NEW,))
    assert blocks == ["codes new", "halves new"]
    found = asked("dequantize_linear", "codes", "scales", "zeros", axis=2, rows=(NEW,))
    assert found == ["codes new", "scales", "zeros"]


@pytest.mark.parametrize(
    ("op", "inputs", "attrs"),
    [
        ("cum_sum", ("x", "1"), {}),
        ("cum_max", ("x", "1"), {}),
        ("pad", ("x", "pads"), {}),
        ("softmax", ("x",), {"axis": 1}),
        ("reverse_sequence", ("x", "1"), {"batch_axis": 0, "time_axis": 1}),
        ("hardmax", ("x",), {"axis": 2}),
    ],
)
def test_rows_that_are_not_alike_are_refused(op: str, inputs: tuple[str, ...], attrs: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="rows"):
        asked(op, *inputs, rows=(NEW,), **attrs)
