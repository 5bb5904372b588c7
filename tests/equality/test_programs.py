"""Equal programs pass the field check; programs with one small difference do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_network import network
from tensmith.equality import sampling
from tensmith.equality.programs import compare_programs
from tensmith.formula.arith import Array, PrimeField
from tensmith.formula.poly import Poly
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Node, Program
from tensmith.ir.program import make_node
from tensmith.ir.types import TensorType
from tensmith.rewrite.trail import simplify

MODELS = ("resnet8_cifar10", "resnet20_cifar10")


def small(nodes: tuple[Node, ...], **constants: Array) -> Program:
    x = TensorType("f32", (Poly.symbol("batch"), 4))
    return Program("small", {"x": x}, (nodes[-1].output,), nodes, constants)


def with_node(program: Program, name: str, **changes: object) -> Program:
    nodes = tuple(
        replace(node, **changes) if node.output == name else node  # type: ignore[arg-type]
        for node in program.nodes
    )
    return replace(program, nodes=nodes)


# Equal programs


def test_a_simplified_network_equals_the_network() -> None:
    start = network()
    found = compare_programs(start, simplify(start, fold=False).program)
    assert found.equal and found.error_probability < 1e-8 and found.sizes == {"batch": 1}


@pytest.mark.parametrize("code", [127, 126])
def test_a_rounded_constant_is_its_code(code: int) -> None:
    """What quantized a constant, and the code that simplifying left of it."""
    numbers = {"s": np.float32(2.0**-20).reshape(()), "z": np.uint8(0).reshape(())}
    rest = (make_node("dequantize_linear", ("q", "s", "z"), ("d",)), make_node("add", ("x", "d"), ("y",)))
    quantize = make_node("quantize_linear", ("c", "s", "z"), ("q",))
    left = small((quantize, *rest), c=np.full(4, 127 * 2.0**-20, np.float32), **numbers)
    right = small(rest, q=np.full(4, code, np.uint8), **numbers)
    found = compare_programs(left, right)
    assert found.equal == (code == 127)


def test_distributing_a_product_is_equal_and_its_degree_is_reported() -> None:
    w = np.arange(16, dtype=np.float32).reshape(4, 4)
    left = small(
        (
            make_node("mul", ("x", "x"), ("s",)),
            make_node("add", ("s", "x"), ("t",)),
            make_node("matmul", ("t", "w"), ("y",)),
        ),
        w=w,
    )
    right = small(
        (
            make_node("mul", ("x", "x"), ("s",)),
            make_node("matmul", ("s", "w"), ("a",)),
            make_node("matmul", ("x", "w"), ("b",)),
            make_node("add", ("a", "b"), ("y",)),
        ),
        w=w,
    )
    found = compare_programs(left, right)
    assert found.equal and found.degree == 2 and 0 < found.error_probability < 1e-8


def test_only_what_the_outputs_need_is_run() -> None:
    start = small((make_node("relu", ("x",), ("y",)),))
    dead = Node("onnx.Mystery", ("x",), ("z",), opaque=b"")
    found = compare_programs(start, replace(start, nodes=(*start.nodes, dead)))
    assert found.equal and not found.primes and found.error_probability == 0.0


@pytest.mark.parametrize("name", MODELS)
def test_real_networks_equal_their_simplified_forms(data_dir: Path, name: str) -> None:
    start = read_onnx(data_dir / "models" / f"{name}.onnx")
    found = compare_programs(start, simplify(start, fold=False).program, seed=1)
    assert found.equal and found.error_probability < 1e-8


# Wrong twins


def one_ulp(program: Program) -> Program:
    w = program.constants["w2"].copy()
    w.flat[3] = np.nextafter(w.flat[3], np.float32(np.inf))
    return program.with_constants({"w2": w})


def other_padding(program: Program) -> Program:
    attrs = dict(next(node for node in program.nodes if node.output == "c1").attrs)
    return with_node(program, "c1", attrs={**attrs, "pads": (0, 0, 2, 2)})


def other_epsilon(program: Program) -> Program:
    attrs = dict(next(node for node in program.nodes if node.output == "n1").attrs)
    return with_node(program, "n1", attrs={**attrs, "epsilon": 1.1e-5})


def no_relu(program: Program) -> Program:
    return with_node(program, "r1", op="identity")


def swapped_channels(program: Program) -> Program:
    w = program.constants["w2"][:, [1, 0, 2, 3]]
    return program.with_constants({"w2": w})


def swapped_filters(program: Program) -> Program:
    return program.with_constants({"w1": program.constants["w1"][[0, 1, 3, 2]]})


def no_bias(program: Program) -> Program:
    return with_node(program, "c1", inputs=("x", "w1"))


def sum_for_mean(program: Program) -> Program:
    return with_node(program, "m", op="reduce_sum")


@pytest.mark.parametrize(
    "mistake",
    [
        one_ulp, other_padding, other_epsilon, no_relu, swapped_channels, swapped_filters, no_bias,
        sum_for_mean,
    ],
)  # fmt: skip
@pytest.mark.parametrize("seed", [0, 1])
def test_one_mistake_is_seen(mistake: Callable[[Program], Program], seed: int) -> None:
    start = network()
    found = compare_programs(start, mistake(start), seed=seed)
    assert found.verdict == "different" and found.output == "y"


def test_one_mistake_in_a_real_network_is_seen(data_dir: Path) -> None:
    start = read_onnx(data_dir / "models" / "resnet8_cifar10.onnx")
    name = next(n for n, a in start.constants.items() if a.ndim == 4)
    w = start.constants[name].copy()
    w.flat[11] = np.nextafter(w.flat[11], np.float32(np.inf))
    assert compare_programs(start, start.with_constants({name: w})).verdict == "different"


def test_a_maximum_over_one_window_element_less_is_seen() -> None:
    left = small((make_node("max", ("x", "x"), ("m",)), make_node("relu", ("m",), ("y",))))
    right = small((make_node("identity", ("x",), ("m",)), make_node("relu", ("m",), ("y",))))
    wrong = small((make_node("neg", ("x",), ("m",)), make_node("relu", ("m",), ("y",))))
    assert compare_programs(left, right).equal  # max(x, x) = x
    assert compare_programs(left, wrong).verdict == "different"


def test_other_interfaces_are_different_programs() -> None:
    start = small((make_node("relu", ("x",), ("y",)),))
    named = small((make_node("relu", ("x",), ("z",)),))
    assert compare_programs(start, named).verdict == "different"


# What cannot be checked


def test_an_opaque_node_is_named_and_nothing_is_claimed() -> None:
    node = Node("onnx.Mystery", ("x",), ("y",), name="the one", opaque=b"")
    program = replace(small((node,)), hints={"y": TensorType("f32", (Poly.symbol("batch"), 4))})
    found = compare_programs(program, program)
    assert found.verdict == "unknown" and "the one" in found.reason and found.error_probability == 1.0


def test_programs_that_compare_real_numbers_pass_without_a_bound() -> None:
    program = small((make_node("leaky_relu", ("x",), ("y",)),))
    copied = small((make_node("identity", ("x",), ("c",)), make_node("leaky_relu", ("c",), ("y",))))
    found = compare_programs(program, copied)
    assert found.equal and found.error_probability == 1.0 and "compared" in found.reason


def test_a_budget_of_no_time_uses_two_primes_and_says_what_that_is_worth() -> None:
    start = network()
    equal = simplify(start, fold=False).program
    found = compare_programs(start, equal, seconds=0.0)
    assert found.equal and len(found.primes) == 2
    assert found.error_probability > compare_programs(start, equal, most=4).error_probability


def test_tokens_stay_inside_the_vocabulary() -> None:
    tokens = TensorType("i64", (Poly.symbol("batch"), Poly.symbol("length")))
    table = np.random.default_rng(0).normal(size=(11, 4)).astype(np.float32)
    nodes = (make_node("gather", ("table", "tokens"), ("e",)), make_node("exp", ("e",), ("y",)))
    program = Program("tokens", {"tokens": tokens}, ("y",), nodes, {"table": table})
    once_more = replace(
        program, nodes=(nodes[0], make_node("identity", ("e",), ("i",)), make_node("exp", ("i",), ("y",)))
    )
    assert compare_programs(program, once_more).equal
    other = program.with_constants({"table": np.roll(table, 1, axis=0)})
    assert compare_programs(program, other).verdict == "different"


# Whole numbers and open sizes


def whole(*nodes: Node, dtype: str = "u8", shape: tuple[int, ...] = (4,), **constants: object) -> Program:
    """A program of whole numbers x and floats a and b."""
    inputs = {"x": TensorType(dtype, shape)} | {name: TensorType("f32", (3,)) for name in "ab"}
    return Program("p", inputs, ("y",), nodes, {name: np.asarray(c) for name, c in constants.items()})


def test_integers_are_more_than_0_and_1() -> None:
    once = whole(make_node("cast", ("x",), ("y",), {"to": 1}))
    squared = whole(make_node("cast", ("x",), ("c",), {"to": 1}), make_node("mul", ("c", "c"), ("y",)))
    assert compare_programs(once, squared).verdict == "different"
    masked = whole(make_node("bitwise_and", ("x", "k"), ("y",)), k=np.uint8(15))
    assert compare_programs(masked, whole(make_node("identity", ("x",), ("y",)))).verdict == "different"


@pytest.mark.parametrize("mode", [2, 777])
def test_a_number_that_a_program_asks_for_is_drawn(mode: int) -> None:
    nodes = make_node("equal", ("x", "k"), ("e",)), make_node("where", ("e", "a", "b"), ("y",))
    asked = whole(*nodes, dtype="i64", shape=(), k=mode)
    plain = whole(make_node("identity", ("b",), ("y",)), dtype="i64", shape=())
    assert compare_programs(asked, plain).verdict == "different"


def test_integers_that_are_sizes_stay_small() -> None:
    """A range up to any 64-bit number has no room anywhere."""
    counted = make_node("range", ("zero", "x", "one"), ("r",))
    ends = {"zero": np.int64(0), "one": np.int64(1)}
    left = whole(counted, make_node("cast", ("r",), ("y",), {"to": 1}), dtype="i64", shape=(), **ends)
    right = replace(left, nodes=(counted, make_node("identity", ("r",), ("i",)),
                                 make_node("cast", ("i",), ("y",), {"to": 1})))  # fmt: skip
    assert compare_programs(left, right).equal


def test_a_row_that_differs_is_picked() -> None:
    table = np.random.default_rng(0).normal(size=(20_000, 3)).astype(np.float32)
    left = whole(make_node("gather", ("table", "x"), ("y",)), dtype="i64", table=table)
    other = table.copy()
    other[12_345] += 1
    assert compare_programs(left, left.with_constants({"table": other})).verdict == "different"


@pytest.mark.parametrize("bounds", [([0], [512]), ([-512], [2**63 - 1])])
def test_a_length_beyond_what_is_cut_off_is_run(bounds: tuple[list[int], list[int]]) -> None:
    inputs = {"x": TensorType("f32", (Poly.symbol("batch"), Poly.symbol("length")))}
    constants = {"s": np.array(bounds[0]), "e": np.array(bounds[1]), "axis": np.array([1])}
    cut = Program("p", inputs, ("y",), (make_node("slice", ("x", "s", "e", "axis"), ("y",)),), constants)
    whole = replace(cut, nodes=(make_node("identity", ("x",), ("y",)),))
    assert compare_programs(cut, whole).verdict == "different"


# Primes and sums


def test_random_primes_are_prime_distinct_and_repeatable() -> None:
    found = sampling.random_primes(12, np.random.default_rng(5))
    assert found == sampling.random_primes(12, np.random.default_rng(5)) and len(set(found)) == 12
    assert all(2**20 <= p < 2**21 and all(p % d for d in range(2, 1449)) for p in found)


def test_the_number_of_primes_in_the_range_is_right() -> None:
    sieve = np.ones(2**21, dtype=bool)
    for d in range(2, 1449):
        sieve[d * d :: d] = False
    assert np.count_nonzero(sieve[2**20 :]) == sampling.PRIMES_IN_RANGE


@given(
    st.integers(1, 40), st.integers(1, 3000), st.integers(1, 40), st.sampled_from([1048583, 2097143]),
    st.integers(0, 99),
)  # fmt: skip
def test_field_products_are_exact(rows: int, depth: int, columns: int, p: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    a = p - 1 - generator.integers(0, 3, (rows, depth))
    b = p - 1 - generator.integers(0, 3, (depth, columns))
    found = PrimeField(p, 0).matmul(a, b)
    i, j = int(generator.integers(rows)), int(generator.integers(columns))
    assert found[i, j] == sum(int(x) * int(y) for x, y in zip(a[i], b[:, j])) % p


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([1048583, 2097143]))
def test_constants_have_the_residue_of_their_exact_value(value: float, p: int) -> None:
    numerator, denominator = value.as_integer_ratio()
    assert int(PrimeField(p, 0).const(value)) == numerator * pow(denominator, -1, p) % p


# Cuts


_BLOCKS = 18


def gated(last: str = "mul", swap: bool = False) -> Program:
    """Residual blocks x + sigmoid(g) v v: the degree doubles from block to block, too large for a bound."""
    nodes: list[Node] = []
    before = "x"
    for block in range(_BLOCKS):
        gate, value = (f"v{block}", f"g{block}") if swap and block == 5 else (f"g{block}", f"v{block}")
        nodes += [
            make_node("matmul", (before, "w"), (f"g{block}",)),
            make_node("matmul", (before, "u"), (f"v{block}",)),
            make_node("sigmoid", (gate,), (f"s{block}",)),
            make_node("mul", (value, value), (f"q{block}",)),
            make_node(last if block == _BLOCKS - 1 else "mul", (f"s{block}", f"q{block}"), (f"p{block}",)),
            make_node("add", (before, f"p{block}"), (f"r{block}",)),
        ]
        before = f"r{block}"
    generator = np.random.default_rng(3)
    w, u = (generator.normal(size=(4, 4)).astype(np.float32) for _ in range(2))
    return small((*nodes, make_node("exp", (before,), ("y",))), w=w, u=u)


def test_deep_quotients_get_a_bound_by_cuts() -> None:
    left = gated()
    nodes = tuple(
        replace(n, inputs=n.inputs[::-1]) if n.op in ("mul", "add") else n for n in left.nodes
    )  # fmt: skip
    found = compare_programs(left, replace(left, nodes=nodes))
    assert found.equal and found.cuts and found.error_probability < 1e-8


@pytest.mark.parametrize("wrong", [gated(last="add"), gated(swap=True)])
def test_cuts_hide_no_mistake(wrong: Program) -> None:
    assert compare_programs(gated(), wrong).verdict == "different"


def test_values_of_one_name_need_not_be_equal() -> None:
    """r0 is half as large on one side, which the end makes up for: cuts fail, the programs are equal."""
    half = np.float32(0.5)
    left = gated()
    moved = []
    for node in left.nodes:
        if node.output == "r0":
            moved += [replace(node, outputs=("r0.whole",)), make_node("mul", ("r0.whole", "half"), ("r0",))]
        else:
            inputs = tuple("r0.twice" if name == "r0" else name for name in node.inputs)
            moved.append(replace(node, inputs=inputs))
        if node.output == "r0":
            moved.append(make_node("add", ("r0", "r0"), ("r0.twice",)))
    right = replace(left, nodes=tuple(moved), constants={**left.constants, "half": np.asarray(half)})
    found = compare_programs(left, right)
    assert found.equal


def test_sizes_are_drawn_until_they_suit_the_largest_windows() -> None:
    length = TensorType("f32", (Poly.symbol("batch"), Poly.symbol("length")))
    program = Program("identity", {"x": length}, ("x",), (), {})
    pairs = list(sampling.sizes(program, np.random.default_rng(0)))
    assert [small["batch"] for small, _ in pairs] == [1] * 4
    assert all(small["length"] < large["length"] for small, large in pairs)
    assert pairs[-1] == ({"batch": 1, "length": 224}, {"batch": 2, "length": 225})
