"""Programs on which a rule would be wrong, though it is proved: of other types, ranks, attributes."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import numpy as np
import pytest
from golden import program

from tensmith.equality.programs import compare_programs
from tensmith.formula.poly import Poly
from tensmith.ir import Node, Program
from tensmith.ir.edits import reading_as
from tensmith.ir.interpreter import interpret
from tensmith.ir.part import without_dead
from tensmith.ir.program import make_node
from tensmith.ir.text import parse_program
from tensmith.ir.types import DTYPES, TensorType
from tensmith.rewrite.match import Match, match
from tensmith.rewrite.rule import EXACT
from tensmith.rewrite.term import Var, ops
from tensmith.rewrite.trail import applied, exhaust, in_phase, simplify

UNKNOWN_RANK = """program p {
  input %x: f32[2, 3]
  input %a: i64[1]
  const %zero: i64[1] = [0]
  %z = reduce_sum(%x, %a) {keepdims = 0}
  %w = unsqueeze(%z, %zero)
  %y = relu(%w)
  return %y
}"""
MEAN = """program p {
  input %x: i32[2, 1]
  const %w: i32[1, 1] = [[2]]
  const %a: i64[1] = [0]
  %p = matmul(%x, %w)
  %y = reduce_mean(%p, %a)
  return %y
}"""
MEANS = """program p {
  input %x: i32[2, 2]
  const %a: i64[1] = [1]
  const %b: i64[1] = [0]
  %p = reduce_mean(%x, %a)
  %y = reduce_mean(%p, %b)
  return %y
}"""
QUOTIENT = """program p {
  input %x: i32[1, 1]
  const %w: i32[1, 1] = [[3]]
  const %b: i32[1] = [1]
  const %c: i32[1] = [2]
  %p = matmul(%x, %w)
  %g = add(%p, %b)
  %y = div(%g, %c)
  return %y
}"""
BOUNDS = """program p {
  input %x: i64[1]
  const %a: i64[] = 9007199254740993
  const %b: i64[] = 9223372036854775807
  %c = clip(%x, %a)
  %y = clip(%c, _, %b)
  return %y
}"""
SLOPE = """program p {
  input %x: f64[1]
  const %s: f64[] = 0.1
  %y = prelu(%x, %s)
  return %y
}"""
KEPT = """program p {
  input %x: f32[2, 2]
  const %two: f32[] = 2.0
  const %ax: i64[1] = [-1]
  const %e: f32[] = 0.0009765625
  const %g: f32[2] = [1.0, 1.0]
  %q = pow(%x, %two)
  %m = reduce_mean(%q, %ax) {keepdims = 0}
  %v = add(%m, %e)
  %r = sqrt(%v)
  %i = reciprocal(%r)
  %t = mul(%x, %i)
  %y = mul(%t, %g)
  return %y
}"""
EPSILON = KEPT.replace(" {keepdims = 0}", "").replace("f32", "f64").replace("0.0009765625", "0.001")


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        (UNKNOWN_RANK, {"x": np.ones((2, 3), "f"), "a": np.array([1])}),
        (MEAN, {"x": np.array([[1], [2]], "i4")}),
        (MEANS, {"x": np.array([[1, 0], [1, 2]], "i4")}),
        (QUOTIENT, {"x": np.array([[1]], "i4")}),
        (BOUNDS, {"x": np.array([0])}),
        (SLOPE, {"x": np.array([-1.0])}),
    ],
)
def test_simpler_programs_compute_the_same(text: str, inputs: dict[str, np.ndarray]) -> None:
    program = parse_program(text)
    wanted = interpret(program, inputs)["y"]
    for after in (simplify(program).program, exhaust(simplify(program), in_phase("fold")).program):
        found = interpret(after, inputs)["y"]
        assert found.shape == wanted.shape and np.array_equal(found, wanted)


RANKLESS = (
    """
    %a: f32[*] = transpose(%x) {perm = [0, 2, 1]}
    %y: f32[*] = transpose(%a) {perm = [0, 2, 1]}
    """,
    """
    %a: f32[*] = transpose(%x)
    %b: f32[*] = relu(%a)
    %y: f32[*] = transpose(%b)
    """,
    """
    %a: f32[*] = transpose(%x)
    %b: f32[*] = transpose(%z)
    %y: f32[*] = add(%a, %b)
    """,
    """
    const %w: f32[2, 2] = [[1.0, 2.0], [3.0, 4.0]]
    const %v: f32[2, 2] = [[1.0, 2.0], [3.0, 5.0]]
    %a: f32[*] = matmul(%x, %w)
    %b: f32[*] = matmul(%x, %v)
    %y: f32[*] = concat(%a, %b) {axis = 1}
    """,
    """
    const %w: f32[1, 2, 1, 1] = [[[[1.0]], [[2.0]]]]
    %a: f32[*] = concat(%x, %z) {axis = 1}
    %y: f32[*] = conv(%a, %w)
    """,
    """
    const %c: f32[2] = [1.0, 3.0]
    const %w: f32[2, 2] = [[1.0, 2.0], [3.0, 4.0]]
    %a: f32[*] = mul(%x, %c)
    %y: f32[*] = matmul(%a, %w)
    """,
)


def behind_mystery(made: Program) -> Program:
    """The program with inputs that an operator gives of which nothing is known."""
    strange = tuple(Node("onnx.Mystery", (name,), (f"{name}.odd",), opaque=b"") for name in made.inputs)
    odd = {name: f"{name}.odd" for name in made.inputs}
    nodes = (*strange, *(reading_as(node, odd) for node in made.nodes))
    return without_dead(replace(made, nodes=nodes, _known={}))


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("number", range(len(RANKLESS)))
def test_where_no_rank_is_known_rules_that_need_one_do_not_apply(number: int, typed: bool) -> None:
    body = RANKLESS[number]
    made = program(f"input %x: f32[*]\ninput %z: f32[*]\n{dedent(body)}return %y")
    made = made if typed else behind_mystery(made)
    assert simplify(made).program.digest == made.digest
    assert list(applied(made, in_phase("offer"))) == []


def test_parts_of_so_many_channels_as_a_run_has_stay_joined() -> None:
    style = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    nodes = (
        make_node("resize", ("x", "", "s"), ("large",), style),
        make_node("concat", ("z", "large"), ("both",), {"axis": 1}),
        make_node("conv", ("both", "w"), ("y",)),
    )
    constants = {"s": np.array([1, 1, 2, 2], "f"), "w": np.ones((4, 11, 1, 1), "f")}
    inputs = {"x": TensorType("f32", (1, 8, 4, 4)), "z": TensorType("f32", (1, 3, 8, 8))}
    made = Program("p", inputs, ("y",), nodes, constants)
    rule = EXACT["enlarged_behind_conv"]
    assert rule.applies(made, "y")
    inputs["z"] = TensorType("f32", (1, Poly.symbol("c"), 8, 8))
    assert rule.attempt(replace(made, inputs=inputs, _known={}), "y") is None


@pytest.mark.parametrize("dtype", ["i32", "i64", "u32"])
def test_products_of_whole_numbers_are_no_gemm(dtype: str) -> None:
    """ONNX Runtime has none for them."""
    made = program(
        f"""
        input %x: {dtype}[n, 2]
        const %w: {dtype}[2, 2] = [[1, 2], [3, 4]]
        const %b: {dtype}[2] = [5, 6]
        %a: {dtype}[n, 2] = matmul(%x, %w)
        %y: {dtype}[n, 2] = add(%a, %b)
        return %y
        """
    )
    assert simplify(made).trail == ()


FILTERS = np.arange(300, 306).reshape(2, 3, 1, 1)


@pytest.mark.parametrize(
    ("dtype", "first", "then"),
    [
        ("f16", ("div", 256), ("div", 256)),
        ("f16", ("mul", 300), ("mul", 300)),
        ("f16", ("mul", 2.0**-13), ("mul", 2.0**-13)),
        ("f16", ("conv", FILTERS), ("mul", [[[300]], [[400]]])),
        ("f16", ("matmul", FILTERS[..., 0, 0].T), ("div", 2.0**-10)),
        ("f32", ("div", 1e20), ("div", 1e20)),
    ],
)
def test_constants_that_do_not_fit_their_type_together_stay_apart(
    dtype: str, first: tuple[str, object], then: tuple[str, object]
) -> None:
    shape = {"conv": (1, 3, 2, 2), "matmul": (4, 3)}.get(first[0], (4,))

    def of(dtype: str) -> Program:
        constants = {
            name: np.asarray(value, DTYPES[dtype]) for name, (_, value) in {"c": first, "d": then}.items()
        }
        nodes = (make_node(first[0], ("x", "c"), ("a",)), make_node(then[0], ("a", "d"), ("y",)))
        return Program("p", {"x": TensorType(dtype, shape)}, ("y",), nodes, constants)

    narrow, wide = (simplify(of(t)).program for t in (dtype, "f64"))
    assert (len(narrow.nodes), len(wide.nodes)) == (2, 1)
    assert all(np.isfinite(array).all() for array in narrow.constants.values())


def test_constants_that_are_infinite_come_together() -> None:
    """As masks are."""
    made = program(
        """
        input %x: f16[2]
        const %c: f16[2] = [-inf, 0.0]
        const %d: f16[2] = [1.0, 2.0]
        %a: f16[2] = add(%x, %c)
        %y: f16[2] = add(%a, %d)
        return %y
        """
    )
    assert len(simplify(made).program.nodes) == 1


def test_attributes_that_a_rule_leaves_out_are_the_default() -> None:
    program = parse_program(KEPT)
    assert EXACT["rms_norm_from_parts"].attempt(program, "y") is None


@pytest.mark.parametrize(("epsilon", "applies"), [("0.001", False), ("0.0009765625", True)])
def test_an_epsilon_that_an_attribute_cannot_hold_stays(epsilon: str, applies: bool) -> None:
    program = parse_program(EPSILON.replace("0.001", epsilon))
    assert EXACT["rms_norm_from_parts"].applies(program, "y") == applies


def test_filters_that_broadcasting_adds_are_no_larger_filters() -> None:
    """One channel beside four: the sum is valid, but one convolution has no bias for it."""
    generator = np.random.default_rng(0)
    constants = {name: generator.normal(size=shape).astype("f") for name, shape in
                 {"w": (1, 2, 3, 3), "b": (1,), "v": (4, 2, 1, 1)}.items()}  # fmt: skip
    nodes = (
        make_node("conv", ("x", "w", "b"), ("p",), {"pads": (1, 1, 1, 1)}),
        make_node("conv", ("x", "v"), ("q",)),
        make_node("add", ("p", "q"), ("y",)),
    )
    program = Program("p", {"x": TensorType("f32", (1, 2, 5, 5))}, ("y",), nodes, constants)
    assert EXACT["pointwise_beside_conv"].attempt(program, "y") is None


@pytest.mark.parametrize("axes", [(1, 1), (1, 2), (2, 1)])
def test_what_is_captured_twice_is_alike(axes: tuple[int, int]) -> None:
    inputs = {name: TensorType("f32", (2, 1, 2)) for name in "ab"}
    flat = [make_node("flatten", (name,), (f"{name}.flat",), {"axis": at}) for name, at in zip("ab", axes)]
    program = Program("p", inputs, ("y",), (*flat, make_node("add", ("a.flat", "b.flat"), ("y",))), {})
    view = ops.flatten(Var("x"), attrs="view") + ops.flatten(Var("z"), attrs="view")
    assert isinstance(match(view, program, "y"), Match) == (axes == (1, 1))


def test_what_a_slope_would_stretch_stays_expanded() -> None:
    """ONNX gives prelu the shape of its first input."""
    nodes = (make_node("expand", ("x", "s"), ("wide",)), make_node("prelu", ("wide", "slope"), ("y",)))
    constants = {"s": np.array([2, 4]), "slope": np.ones(4, "f")}
    program = Program("p", {"x": TensorType("f32", (2, 1))}, ("y",), nodes, constants)
    assert EXACT["expand_before_elementwise"].attempt(program, "y") is None
    added = replace(program, nodes=(nodes[0], make_node("add", ("wide", "slope"), ("y",))))
    assert EXACT["expand_before_elementwise"].applies(added, "y")


def test_relu_stays_with_the_layer_before_a_pool() -> None:
    """Engines compute it with the layer, whose 8-bit codes then hold no negative numbers."""
    nodes = (
        make_node("conv", ("x", "w"), ("c",)),
        make_node("relu", ("c",), ("r",)),
        make_node("max_pool", ("r",), ("y",), {"kernel_shape": (2, 2), "strides": (2, 2)}),
    )
    inputs, weights = {"x": TensorType("f32", (1, 2, 4, 4))}, {"w": np.ones((3, 2, 1, 1), "f")}
    program = Program("p", inputs, ("y",), nodes, weights)
    assert EXACT["relu_before_max"].attempt(program, "y") is None
    alone = replace(program, nodes=(replace(nodes[1], inputs=("x",)), nodes[2]), constants={})
    assert EXACT["relu_before_max"].applies(alone, "y")


def test_a_bias_of_one_number_is_no_row() -> None:
    constants = {name: np.ones(shape, "f") for name, shape in
                 {"w": (2, 3), "b": (1,), "v": (3, 2), "d": (2,)}.items()}  # fmt: skip
    nodes = (make_node("gemm", ("x", "w", "b"), ("g",)), make_node("gemm", ("g", "v", "d"), ("y",)))
    program = Program("p", {"x": TensorType("f32", (3, 2))}, ("y",), nodes, constants)
    assert EXACT["gemm_of_gemm"].attempt(program, "y") is None


def of_choice(node: str) -> Program:
    """x where k, or twice that; or one of both alone."""
    inputs = {"x": TensorType("f32", (4,)), "k": TensorType("bool", ())}
    two = {"two": np.float32(2)}
    nodes = {
        "either": (make_node("mul", ("x", "two"), ("t",)), make_node("where", ("k", "x", "t"), ("y",))),
        "once": (make_node("identity", ("x",), ("y",)),),
        "twice": (make_node("mul", ("x", "two"), ("y",)),),
    }[node]
    return Program("p", inputs, ("y",), nodes, {k: np.asarray(v) for k, v in two.items()})


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("other", ["once", "twice"])
def test_both_values_of_a_condition_are_tested(other: str, seed: int) -> None:
    assert not compare_programs(of_choice("either"), of_choice(other), seed=seed).equal
    assert compare_programs(of_choice("either"), of_choice("either"), seed=seed).equal


def test_means_of_whole_numbers_are_cut_off_in_every_arithmetic() -> None:
    inputs, axes = {"x": TensorType("i32", (2, 8))}, {"a": np.array([0])}
    to = {"to": 1}  # f32
    first = (make_node("reduce_mean", ("x", "a"), ("m",)), make_node("cast", ("m",), ("y",), to))
    second = (make_node("cast", ("x",), ("m",), to), make_node("reduce_mean", ("m", "a"), ("y",)))
    left, right = (Program("p", inputs, ("y",), nodes, axes) for nodes in (first, second))
    assert not compare_programs(left, right).equal
