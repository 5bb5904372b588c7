"""What becomes of programs on a device: which kernels, over what, and what lies where."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from nets import Net, residual_block
from tensmith.backend.device.plan import DevicePlan, make_plan
from tensmith.errors import EngineError
from tensmith.formula.expr import Expr, Formula, call, compute, total
from tensmith.formula.poly import Dim
from tensmith.ir import Program, TensorType
from tensmith.ir.op import OPS, Symbolic


def words(plan: DevicePlan) -> list[str]:
    return [launch.kernel.rpartition("_")[0] for launch in plan.launches]


def test_a_convolution_is_one_kernel_with_all_that_follows() -> None:
    net = Net(1, 16, 8, 8)
    scaled = net.add("mul", net.conv("x", 16, 16), net.constant(1, 16, 1, 1))
    plan = make_plan(net.program(net.add("relu", net.add("add", scaled, "x"))))
    assert words(plan) == ["tiled"]


def test_of_two_convolutions_that_are_added_one_waits_for_the_other() -> None:
    net = Net(1, 16, 8, 8)
    both = net.add("add", net.conv("x", 16, 16), net.conv("x", 16, 16))
    assert words(make_plan(net.program(net.add("relu", both)))) == ["tiled", "tiled"]


def test_what_others_read_is_stored() -> None:
    net = Net(1, 16, 8, 8)
    x = net.conv("x", 16, 16)
    plan = make_plan(net.program(net.add("relu", x), net.add("tanh", x)))
    assert words(plan) == ["tiled", "each", "each"]


def test_a_grouped_convolution_is_a_batch_of_products_a_depthwise_one_is_not() -> None:
    net = Net(1, 16, 8, 8)
    grouped = net.conv("x", 16, 32, group=2)
    plan = make_plan(net.program(net.conv(grouped, 32, 32, group=32)))
    assert words(plan) == ["tiled", "each"]
    assert plan.launches[0].groups == 2  # one tile of 16 filters and 64 positions in each


def test_softmax_is_two_reductions_and_what_they_are_for() -> None:
    net = Net(6, 100)
    plan = make_plan(net.program(net.add("softmax", "x", axis=-1)))
    assert words(plan) == ["together", "together", "each"]


def test_views_are_no_kernels() -> None:
    net = Net(4, 6)
    turned = net.add("transpose", net.add("relu", "x"), perm=(1, 0))
    shape = net.constant(values=np.array([3, 8], np.int64))
    plan = make_plan(net.program(net.add("exp", net.add("reshape", turned, shape))))
    assert words(plan) == ["each", "each"]


def test_layers_of_one_shape_share_a_kernel() -> None:
    net = Net(1, 16, 8, 8)
    x = "x"
    for _ in range(3):
        x = net.add("relu", net.conv(x, 16, 16))
    plan = make_plan(net.program(x))
    assert len(plan.launches) == 3
    assert plan.source.count("KERNEL(") == 1


def test_halves_lie_between_kernels_and_never_outside() -> None:
    plan = make_plan(residual_block(), halves=True)
    given = {*plan.program.inputs, *plan.program.outputs}
    assert {plan.places[name].dtype for name in given} == {"f32"}
    assert {place.dtype for name, place in plan.places.items() if name not in given} == {"f16"}
    assert {array.dtype for array in plan.constants.values()} == {np.dtype(np.float16)}


def test_a_constant_that_is_given_out_is_no_halves() -> None:
    net = Net(2)
    given = net.constant(values=np.array([1e5, 0.1], np.float32))
    plan = make_plan(net.program(net.add("add", "x", given), given), halves=True)
    assert plan.constants[given].tolist() == net.constants[given].tolist()


def test_values_alive_together_do_not_overlap() -> None:
    plan = make_plan(residual_block())
    alive = {name: [-1] for name in plan.program.inputs}
    for number, launch in enumerate(plan.launches):
        for name in launch.values:
            if name in plan.places:
                alive.setdefault(name, []).append(number)
    for name in plan.program.outputs:
        alive[name].append(len(plan.launches))
    for (a, first), (b, second) in combinations(alive.items(), 2):
        if min(first) <= max(second) and min(second) <= max(first):
            p, q = plan.places[a], plan.places[b]
            assert p.start + p.bytes <= q.start or q.start + q.bytes <= p.start


def test_an_op_without_a_formula_is_named() -> None:
    net = Net(4, 6)
    net.add("arg_max", "x")
    with pytest.raises(EngineError, match=r"node 'v0' .arg_max. has no device kernel: .*no formula"):
        make_plan(net.program("v0"))


def test_an_element_type_without_kernels_is_named() -> None:
    program = Program("wide", {"x": TensorType("f64", (3,))}, ("x",), (), {})
    with pytest.raises(EngineError, match="'x' is f64"):
        make_plan(program)


def test_sizes_are_fixed() -> None:
    net = Net(4, 6)
    with pytest.raises(EngineError, match="symbolic shape"):
        from tensmith.formula.poly import Poly

        open_ = TensorType("f32", (Poly.symbol("batch"), 6))
        program = net.program(net.add("relu", "x"))
        make_plan(Program("open", {"x": open_}, program.outputs, program.nodes, {}))


def test_a_sum_beyond_32_bits_is_named() -> None:
    net = Net(70000)
    program = net.program(net.add("einsum", "x", "x", equation="i,j->"))
    with pytest.raises(EngineError, match=r"'v0' .einsum. computes with more elements than 32 bits count"):
        make_plan(program)


def test_what_is_computed_in_between_is_named_beyond_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows_by_rows(_: object, x: Symbolic) -> tuple[Formula]:
        def products(i: Dim, k: Dim) -> Expr:
            return total(2, lambda d: call("mul", x[0][i, d], x[0][k, d]))

        return (compute((70000, 2), lambda i, _: total(70000, lambda k: call("exp", products(i, k)))),)

    monkeypatch.setattr(type(OPS["trilu"]), "formula", rows_by_rows)
    net = Net(70000, 2)
    with pytest.raises(EngineError, match=r"'v0' .trilu. computes with more elements than 32 bits count"):
        make_plan(net.program(net.add("trilu", "x")))


def test_what_reads_outside_of_its_input_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(4)
    program = net.program(net.add("trilu", net.add("reshape", "x", net.constant(values=np.array([2, 2])))))
    assert make_plan(program)
    monkeypatch.setattr(
        type(OPS["trilu"]), "formula", lambda op, call: (compute((2, 2), lambda i, j: call[0][i + j, j]),)
    )
    with pytest.raises(
        EngineError, match=r"node 'v1' .trilu. has no device kernel: it may read outside of 'v0'"
    ):
        make_plan(program)


def test_a_formula_of_another_shape_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(4)
    program = net.program(net.add("trilu", net.add("reshape", "x", net.constant(values=np.array([2, 2])))))
    monkeypatch.setattr(type(OPS["trilu"]), "formula", lambda op, call: (compute((2, 4), lambda *i: 0),))
    with pytest.raises(
        EngineError, match=r"node 'v1' .trilu. has no device kernel: its formula has another shape"
    ):
        make_plan(program)


def test_powers_of_integers_by_floats_need_doubles() -> None:
    net = Net(3)
    net.add("pow", "n", "x")
    program = Program(
        "p", {"n": TensorType("i64", (3,)), "x": TensorType("f32", (3,))}, ("v0",), tuple(net.nodes), {}
    )
    with pytest.raises(EngineError, match="there are no doubles"):
        make_plan(program)


@pytest.mark.parametrize("dtype", ["f32", "i64"])
def test_a_whole_float_is_a_float(dtype: str) -> None:
    net = Net(3)
    net.add("pow", net.constant(values=np.float32(2)), "n")
    plan = make_plan(Program("p", {"n": TensorType(dtype, (3,))}, ("v0",), tuple(net.nodes), net.constants))
    assert "pow(2.0f, " in plan.source


def test_gathering_from_a_finite_table_stays_a_product() -> None:
    def plan(table: np.ndarray) -> DevicePlan:
        net = Net(8)
        net.add("gather", net.constant(values=table.astype(np.float32)), "n")
        return make_plan(
            Program("p", {"n": TensorType("i64", (8,))}, ("v0",), tuple(net.nodes), net.constants)
        )

    table = np.ones((16, 8))
    assert words(plan(table)) == ["tiled"]
    table[3, 4] = np.inf
    assert "tiled" not in words(plan(table))
