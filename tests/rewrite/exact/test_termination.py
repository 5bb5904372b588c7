"""Simplification ends: rules that make a program simpler do so by a measure, whatever they meet."""

from __future__ import annotations

import numpy as np
import pytest

from tensmith.ir import Node, Program, TensorType, interpret, make_node
from tensmith.rewrite.trail import simplify

UNARY = ("neg", "abs", "exp", "log", "sqrt", "relu", "reciprocal", "sigmoid", "tanh")
BINARY = ("add", "sub", "mul", "div", "max", "min", "matmul")
VIEWS = ("transpose", "slice", "reduce", "softmax", "concat", "where")
# Steps that a node may take until nothing applies to it any more; the most that was seen is 3.
MOST_STEPS = 12


def random_program(seed: int, count: int) -> Program:
    """Squares of floats through elementwise ops, products, views and reductions, constants among them."""
    random = np.random.default_rng(seed)
    nodes: list[Node] = []
    constants = {"axes": np.array([1]), "zero": np.array([0]), "two": np.array([2]), "four": np.array([4])}
    values = ["x", "y"]
    for number in range(3):
        constants[f"c{number}"] = np.asarray(random.choice([0.0, 0.5, 1.0, 3.0]), np.float32)
        values.append(f"c{number}")

    def add(op: str, *inputs: str, **attrs: object) -> str:
        nodes.append(make_node(op, inputs, (f"v{len(nodes)}",), attrs))
        return f"v{len(nodes) - 1}"

    def pick() -> str:
        return str(random.choice(values[-4:] if random.integers(2) else values))

    def varying() -> str:
        return str(random.choice([v for v in values if v[0] != "c"][-5:]))

    while len(nodes) < count:
        op = str(random.choice([*UNARY, *BINARY, *BINARY, *VIEWS]))
        if op in UNARY:
            values.append(add(op, varying()))
        elif op in BINARY:
            other = varying() if op == "matmul" else pick()
            pair = [varying(), other] if random.integers(2) else [other, varying()]
            values.append(add(op, *pair))
        elif op == "transpose":
            values.append(add(op, varying(), perm=(1, 0)))
        elif op == "slice":
            both = [add("slice", varying(), *cut, "axes") for cut in (("zero", "two"), ("two", "four"))]
            values.append(add("concat", *both, axis=1))
        elif op == "reduce":
            kind = str(random.choice(["reduce_sum", "reduce_max", "reduce_mean"]))
            values.append(add("add", add(kind, varying(), "axes"), varying()))
        elif op == "softmax":
            values.append(add(op, varying(), axis=1))
        elif op == "concat":
            joined = add("concat", varying(), varying(), axis=1)
            values.append(add("slice", joined, "zero", "four", "axes"))
        else:
            values.append(add("where", add("less", varying(), pick()), varying(), varying()))
    square = TensorType("f32", (4, 4))
    return Program("random", {"x": square, "y": square}, (values[-1], "v0"), tuple(nodes), constants)


@pytest.mark.parametrize("start", range(0, 200, 50))
def test_simplification_ends_and_computes_the_same(start: int) -> None:
    for seed in range(start, start + 50):
        program = random_program(seed, 4 + seed % 13)
        simple = simplify(program)
        assert len(simple.trail) <= MOST_STEPS * len(program.nodes), program
        assert simplify(simple.program).trail == ()
        generator = np.random.default_rng(seed)
        inputs = {name: generator.uniform(0.5, 1.5, (4, 4)).astype(np.float32) for name in ("x", "y")}
        with np.errstate(all="ignore"):
            before, after = interpret(program, inputs), interpret(simple.program, inputs)
        for name, wanted in before.items():
            there = np.isfinite(wanted) & (np.abs(wanted) < 1e3)
            assert np.allclose(wanted[there], after[name][there], rtol=1e-2, atol=1e-2), (
                f"{program}{simple.program}"
            )
