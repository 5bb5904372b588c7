"""What a node says of its inputs, omitted ones among them."""

from __future__ import annotations

import pytest

from tensmith.ir import Node
from tensmith.ir.ops.pooling import Pool
from tensmith.ir.ops.product import Product

CLIP = Node("clip", ("x", "", "high"), ("y",))


def test_omitted_inputs_are_empty_wherever_they_are() -> None:
    assert [CLIP.operand(place) for place in range(4)] == ["x", "", "high", ""]
    assert CLIP.operands(2) == ("x", "") and CLIP.operands(5) == ("x", "", "high", "", "")


def test_all_but_the_first_input_fix_a_node() -> None:
    assert CLIP.fixed_by({"high"}) and not CLIP.fixed_by({"x"})
    assert Node("relu", ("x",), ("y",)).fixed_by(())


def test_a_node_is_of_the_family_that_it_is_known_to_be_of() -> None:
    conv = Node("conv", ("x", "w"), ("y",))
    assert conv.surely(Product) is conv.kind(Product)
    with pytest.raises(AssertionError):
        conv.surely(Pool)
