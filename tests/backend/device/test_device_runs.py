"""What devices compute is what the interpreter computes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from device_runs import Array, example, load

from extremes import activations, check
from extremes import reductions as large_reductions
from nets import NETS, Net
from opencl_device import needs_opencl
from tensmith.ir import Program, TensorType, interpret, make_node

pytestmark = needs_opencl


def transformer() -> Program:
    """Attention over heads, layer norms, a gelu between two layers."""
    net = Net(2, 7, 24)
    scale, shift = net.constant(24), net.constant(24)
    x = net.add("layer_normalization", "x", scale, shift)
    shape = net.constant(values=np.array([2, 7, 3, 8], np.int64))
    q, k, v = (
        net.add("transpose", net.add("reshape", net.add("matmul", x, net.constant(24, 24)), shape), perm=perm)
        for perm in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
    )
    weights = net.add("softmax", net.add("matmul", q, k), axis=-1)
    heads = net.add("transpose", net.add("matmul", weights, v), perm=(0, 2, 1, 3))
    back = net.constant(values=np.array([2, 7, 24], np.int64))
    y = net.add("add", "x", net.add("reshape", heads, back))
    hidden = net.add("gelu", net.add("add", net.add("matmul", y, net.constant(24, 70)), net.constant(70)))
    return net.program(net.add("add", y, net.add("matmul", hidden, net.constant(70, 24))))


def reductions() -> Program:
    """Long and short ones, of every kind, of whole tensors too."""
    net = Net(3, 5, 130)
    axes = [net.constant(values=np.array(axis, np.int64)) for axis in ([2], [0], [0, 1, 2], [1])]
    kinds = ("reduce_mean", "reduce_max", "reduce_l2", "reduce_prod")
    return net.program(*(net.add(kind, "x", a) for kind, a in zip(kinds, axes)))


def borders() -> Program:
    """Padding that reflects, and as much as it takes; a transposed convolution, remainders, neighbours."""
    net = Net(1, 6, 5, 7)
    pads = net.constant(values=np.array([0, 0, 2, 1, 0, 0, 0, 3], np.int64))
    a = net.add("pad", "x", pads, mode="reflect")
    b = net.add("conv_transpose", "x", net.constant(6, 4, 3, 3), strides=(2, 2), pads=(1, 0, 0, 1))
    c = net.conv("x", 6, 5, strides=(2, 2), pads=None, auto_pad="SAME_UPPER")
    d = net.add("mod", "x", net.constant(values=np.float32(-0.7)))
    return net.program(a, b, c, d, net.add("lrn", "x", size=3))


MORE = (transformer, reductions, borders)


@pytest.mark.parametrize("build", (*NETS, *MORE), ids=lambda build: build.__name__)
def test_answers_are_the_interpreter_s_on_a_device(build: Callable[[], Program]) -> None:
    program = build()
    inputs = example(program)
    found, expected = load(program)(**inputs), interpret(program, inputs)
    for name, array in expected.items():
        assert found[name].dtype == program.type(name).numpy
        # Inputs and weights are scaled so that values stay near 1; a few hundred roundings in a row.
        np.testing.assert_allclose(found[name], array, rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("case", [activations(2, 7), large_reductions()], ids=["activations", "reductions"])
def test_large_numbers_do_not_overflow_on_a_device(case: tuple[Program, Array]) -> None:
    program, x = case
    check(program, x, load(program)(x=x))


def test_halves_are_off_by_their_rounding() -> None:
    net = Net(1, 20, 9, 9)
    x = net.add("relu", net.conv("x", 20, 20))
    program = net.program(net.conv(net.add("max_pool", x, kernel_shape=(2, 2)), 20, 24))
    inputs = example(program)
    found, expected = load(program, halves=True)(**inputs), interpret(program, inputs)
    for name, array in expected.items():
        # Sums are floats: two values between kernels, weights and biases are rounded, each by up to 2**-11.
        spread = float(np.abs(array).max())
        assert 2**-20 * spread < np.abs(found[name] - array).max() <= 4 * 2**-11 * spread


def ragged(seed: int, count: int) -> Program:
    """Convolutions side by side, of sizes, strides, pads, dilations and groups that fit nothing."""
    random = np.random.default_rng(seed)

    def draw(low: int, high: int) -> int:
        return int(random.integers(low, high + 1))

    net = Net(1)
    inputs, outputs = {}, []
    for number in range(count):
        groups, batch = draw(1, 3), draw(1, 2)
        depth, filters = draw(1, 30), groups * draw(1, 40)
        inputs[f"x{number}"] = TensorType("f32", (batch, groups * depth, draw(5, 12), draw(5, 12)))
        weights = net.constant(filters, depth, draw(1, 3), draw(1, 3))
        attrs = {"strides": (draw(1, 2), draw(1, 3)), "dilations": (draw(1, 2), draw(1, 2))}
        pads = tuple(draw(0, 2) for _ in range(4))
        outputs.append(net.add("conv", f"x{number}", weights, group=groups, pads=pads, **attrs))
    return Program("ragged", inputs, tuple(outputs), tuple(net.nodes), net.constants)


@pytest.mark.parametrize(("halves", "rounding"), [(False, 0.0), (True, 2.0**-11)])
def test_ragged_convolutions_on_a_device(halves: bool, rounding: float) -> None:
    program = ragged(seed=5, count=6)
    inputs = example(program)
    found, expected = load(program, halves)(**inputs), interpret(program, _doubled(inputs))
    absolute = program.with_constants({name: abs(array) for name, array in program.constants.items()})
    sums = interpret(absolute, {name: abs(array) for name, array in inputs.items()})
    for name, array in expected.items():
        # A sum of n products in any order is off by n * eps * sum |x||w| (Higham, 2002, eq. 3.5), and each
        # weight in halves by 2**-11 of itself.
        depth = 9 * 30
        bound = (depth * np.finfo(np.float32).eps + rounding) * sums[name]
        assert (np.abs(found[name] - array) <= bound).all()


def _doubled(inputs: dict[str, Array]) -> dict[str, Array]:
    return {name: array.astype(np.float64) for name, array in inputs.items()}


def test_whole_numbers_and_truth_values() -> None:
    net = Net(4, 9)
    zero = net.constant(values=np.float32(0))
    big = net.constant(values=np.array(2**40 + 1, np.int64))
    positive = net.add("greater", "x", zero)
    chosen = net.add("where", positive, "x", zero)
    shifted = net.add("add", "n", big)
    least = net.add("reduce_max", "n", net.constant(values=np.array([0], np.int64)))
    program = net.program(positive, chosen, shifted, net.add("max", "n", shifted), least)
    inputs = {**program.inputs, "n": TensorType("i64", (9,))}
    program = Program("whole", inputs, program.outputs, program.nodes, program.constants)
    given = example(program)
    found, expected = load(program)(**given), interpret(program, given)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_rows_are_gathered_by_computed_indices() -> None:
    net = Net(5, 6)
    program = net.program(net.add("gather", "x", "n"))
    program = Program("rows", {**program.inputs, "n": TensorType("i64", (4,))}, ("v0",), program.nodes, {})
    given = example(program) | {"n": np.array([3, -1, 0, 3])}
    np.testing.assert_array_equal(load(program)(**given)["v0"], given["x"][[3, -1, 0, 3]])


def test_nan_and_infinity_go_through() -> None:
    net = Net(1, 20, 9, 9)
    pooled = net.add("max_pool", net.add("relu", net.conv("x", 20, 20)), kernel_shape=(2, 2))
    program = net.program(pooled, net.add("softmax", net.add("flatten", pooled)))
    machine, inputs = load(program), example(program)
    for value in (np.nan, np.inf, -np.inf):
        inputs["x"][0, 3, 4, 4] = value
        found, expected = machine(**inputs), _quietly(program, inputs)
        for name, array in expected.items():
            np.testing.assert_array_equal(np.isnan(found[name]), np.isnan(array))
            np.testing.assert_array_equal(np.isinf(found[name]), np.isinf(array))


def _quietly(program: Program, inputs: dict[str, Array]) -> dict[str, Array]:
    with np.errstate(invalid="ignore", over="ignore"):
        return interpret(program, inputs)


def test_tensors_without_elements() -> None:
    net = Net(0, 4)
    rows, axis = net.add("relu", "x"), net.constant(values=np.array([0], np.int64))
    total, least = net.add("reduce_sum", rows, axis), net.add("reduce_min", rows, axis)
    none = net.add("reduce_max", net.add("isnan", "x"), axis)
    found = load(net.program(rows, total, least, none))(x=np.zeros((0, 4), np.float32))
    assert found[rows].shape == (0, 4)
    np.testing.assert_array_equal(found[total], np.zeros((1, 4), np.float32))
    np.testing.assert_array_equal(found[least], np.full((1, 4), np.inf, np.float32))
    np.testing.assert_array_equal(found[none], np.zeros((1, 4), np.bool_))


def test_outputs_that_are_inputs_or_constants() -> None:
    net = Net(2, 3)
    fixed = net.constant(2, 2)
    program = net.program("x", fixed, net.add("relu", "x"))
    inputs = example(program)
    found = load(program)(**inputs)
    np.testing.assert_array_equal(found["x"], inputs["x"])
    np.testing.assert_array_equal(found[fixed], program.constants[fixed])


def test_no_name_of_a_model_is_one_of_a_kernel() -> None:
    net = Net(2, 3)
    net.add("add", net.add("matmul", "x", net.constant(3, 5)), "folded")
    net.nodes.append(make_node("softmax", ["x"], ["y"], {"axis": -1}))
    own = net.add("exp", "y sum 1")
    inputs = {"folded": TensorType("f32", (2, 5)), "y sum 1": TensorType("f32", (2,))}
    program = net.program("v1", "y", own)
    program = Program("names", {**program.inputs, **inputs}, program.outputs, program.nodes, net.constants)
    given = example(program)
    found, expected = load(program)(**given), interpret(program, given)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5)


def test_infinities_that_are_not_gathered_leave_no_trace() -> None:
    net = Net(3, 2)
    table = np.array([[1, np.inf], [-np.inf, 2], [3, np.nan]], np.float32)
    net.add("gather", "x", "n")
    net.add("gather", net.constant(values=table), "n")
    inputs = {"x": TensorType("f32", (3, 2)), "n": TensorType("i64", (2,))}
    program = Program("table", inputs, ("v0", "v1"), tuple(net.nodes), net.constants)
    found = load(program)(x=table, n=np.array([0, 2]))
    for name in program.outputs:
        np.testing.assert_array_equal(found[name], table[[0, 2]])


def test_a_product_over_nothing_is_zero() -> None:
    net = Net(0, 4)
    net.add("gemm", "x", "w", transA=1)
    inputs = {"x": TensorType("f32", (0, 4)), "w": TensorType("f32", (0, 5))}
    program = Program("nothing", inputs, ("v0",), tuple(net.nodes), {})
    found = load(program)(x=np.zeros((0, 4), np.float32), w=np.zeros((0, 5), np.float32))
    np.testing.assert_array_equal(found["v0"], np.zeros((4, 5), np.float32))


def test_powers_of_integers_by_negative_ones() -> None:
    net = Net(5)
    net.add("pow", "n", "e")
    inputs = {"n": TensorType("i64", (5,)), "e": TensorType("i64", (5,))}
    program = Program("powers", inputs, ("v0",), tuple(net.nodes), {})
    given = {"n": np.array([2, -1, -1, 1, 0]), "e": np.array([-2, -3, -2, -5, -1])}
    assert load(program)(**given)["v0"].tolist() == [0, -1, 1, 1, 0]
    assert interpret(program, given)["v0"].tolist() == [0, -1, 1, 1, 0]
