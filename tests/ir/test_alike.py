"""When nodes compute the same of what they read, and when arrays are the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tensmith.ir.program import make_node
from tensmith.ir.text_values import same_array

SUM, OPAQUE = make_node("add", ("a", "b"), ("y",)), make_node("add", ("a",), ("y",))


def test_equal_ops_with_equal_attributes_are_one_function() -> None:
    one, other = (make_node("softmax", (x,), (f"{x}.y",), {"axis": 1}) for x in "ab")
    assert one.function == other.function
    assert one.function != replace(other, attrs={"axis": 0}).function
    assert one.function != SUM.function


def test_an_opaque_node_is_a_function_of_its_own() -> None:
    one = replace(OPAQUE, op="onnx.RandomNormalLike", opaque=b"drawn")
    assert one.function == replace(one).function
    assert one.function != replace(one, outputs=("z",)).function
    assert one.unordered(("b", "a")) == ("b", "a")


def test_only_a_commutative_op_has_no_order_of_operands() -> None:
    assert SUM.unordered((2, 1)) == SUM.unordered((1, 2))
    difference = make_node("sub", ("a", "b"), ("y",))
    assert difference.unordered((2, 1)) != difference.unordered((1, 2))


def test_arrays_are_the_same_by_their_bits() -> None:
    numbers = np.array([[np.nan, 0.0], [1.0, 2.0]], np.float32)
    assert same_array(numbers, numbers.T.copy().T)
    assert not same_array(numbers, np.where(numbers == 0, np.float32(-0.0), numbers))
    assert not same_array(numbers, numbers.reshape(4)) and not same_array(numbers, numbers.view(np.int32))
    assert same_array(np.array(["a", ""], object), np.array(["a", ""], object))
    assert not same_array(np.array(["a"], object), np.array(["b"], object))
