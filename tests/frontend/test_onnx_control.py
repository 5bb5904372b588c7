"""Branches that are always taken and loops of known length are read as what they compute."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.parser import parse_model

from tensmith.backend.onnx import to_onnx
from tensmith.formula.arith import Array
from tensmith.frontend import onnx_control
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program
from tensmith.ir.interpreter import interpret
from tensmith.ir.opaque import subgraphs

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'


def answers(model: onnx.ModelProto, inputs: dict[str, Array]) -> list[Array]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, inputs))


def expanded(text: str, **inputs: Array) -> Program:
    """The program of a model: without control flow, with the same answers, written again too."""
    model = parse_model(HEAD + text)
    for node in model.graph.node:
        for body in subgraphs(node):
            for inner in body.node:
                inner.name = f"named {inner.output[0]}"  # which copies may not share
    program = read_onnx(model)
    assert [node.op for node in program.nodes if node.opaque is not None] == []
    want = answers(model, inputs)
    found = interpret(program, inputs)
    for name, array, again in zip(program.outputs, want, answers(to_onnx(program), inputs), strict=True):
        np.testing.assert_array_equal(found[name], array)
        np.testing.assert_array_equal(again, array)
    return program


X = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_the_branch_of_a_constant() -> None:
    """Names of a branch may be those of the other one, and of what comes after."""
    expanded(
        """
        network (float[3, 4] x) => (float[3, 4] y, float[4] z) {
            yes = Constant <value = bool {1}> ()
            y, z = If (yes) <
                then_branch = then () => (a, w) <float[4] w = {1, 2, 3, 4}> {
                    t = Mul (x, w)
                    a = Add (t, x)
                },
                else_branch = other () => (a, b) <float[4] b = {1, 2, 3, 4}> {
                    t = Neg (x)
                    a = Relu (t)
                }
            >
        }
        """,
        x=X,
    )


@pytest.mark.parametrize(("columns", "op"), [(4, "neg"), (5, "relu")])
def test_the_branch_that_a_shape_decides(columns: int, op: str) -> None:
    program = expanded(
        f"""
        network (float[n, {columns}] x) => (float[n, {columns}] y) {{
            shape = Shape (x)
            one = Constant <value_int = 1> ()
            four = Constant <value_int = 4> ()
            size = Gather (shape, one)
            is = Equal (size, four)
            y = If (is) <
                then_branch = then () => (a) {{ a = Neg (x) }},
                else_branch = other () => (a) {{ a = Relu (x) }}
            >
        }}
        """,
        x=np.ones((2, columns), np.float32),
    )
    assert program.nodes[-1].op == op


@pytest.mark.parametrize(
    ("stated", "source"), [("", "NonZero"), ("", "Unique"), ("<float[rows] found>", "Unique")]
)
def test_a_branch_that_a_count_decides_stays(stated: str, source: str) -> None:
    """What data decides may be nothing, whether inferred or stated."""
    program = read_onnx(parse_model(HEAD + f"""
        network (float[3, 4] x) => (float[3, 4] y) {stated} {{
            found = {source} (x)
            shape = Shape (found)
            last = Constant <value_int = -1> ()
            count = Gather (shape, last)
            zero = Constant <value_int = 0> ()
            none = Equal (count, zero)
            y = If (none) <
                then_branch = then () => (a) {{ a = Neg (x) }},
                else_branch = other () => (a) {{ a = Relu (x) }}
            >
        }}
        """))  # fmt: skip
    assert program.producers["y"].op == "onnx.If"


def test_a_branch_of_a_branch() -> None:
    expanded(
        """
        network (float[3, 4] x) => (float[3, 4] y) {
            no = Constant <value = bool {0}> ()
            t = Abs (x)
            y = If (no) <
                then_branch = then () => (a) { a = Neg (x) },
                else_branch = other () => (b) {
                    not = Not (no)
                    b = If (not) <
                        then_branch = inner () => (d) { d = Floor (t) },
                        else_branch = last () => (c) { c = Neg (t) }
                    >
                }
            >
        }
        """,
        x=X,
    )


LOOP = """
network (float[3, 4] x) => (float[3, 4] y, float[k, 3, 4] all) {{
    turns = Constant <value_int = {turns}> ()
    go = Constant <value = bool {{{go}}}> ()
    y, all = Loop (turns, go, x) <
        body = body (int64 i, bool on, float[3, 4] s) => (still, next, row)
            <float[4] w = {{1, 2, 3, 4}}> {{
            half = Constant <value_float = 0.5> ()
            f = Cast <to = 1> (i)
            a = Mul (s, half)
            b = Add (a, f)
            next = Add (b, w)
            row = Mul (next, x)
            {still}
        }}
    >
}}
"""
ON = "still = Identity (on)"


def test_the_turns_of_a_loop() -> None:
    program = expanded(LOOP.format(turns=3, go=1, still=ON), x=X)
    assert sum(array.size == 4 for array in program.constants.values()) == 1  # weights are not copied


def test_a_loop_whose_condition_is_a_constant() -> None:
    expanded(LOOP.format(turns=2, go=1, still="still = Constant <value = bool {1}> ()"), x=X)


def test_a_loop_of_no_turns() -> None:
    expanded(
        """
        network (float[3, 4] x) => (float[3, 4] y) {
            turns = Constant <value_int = 0> ()
            y = Loop (turns, , x) <
                body = body (int64 i, bool on, float[3, 4] s) => (on, next) { next = Neg (s) }
            >
        }
        """,
        x=X,
    )


@pytest.mark.parametrize(
    "text",
    [
        LOOP.format(turns=100_000, go=1, still=ON),
        LOOP.format(turns=3, go=1, still="still = Constant <value = bool {0}> ()"),
        LOOP.format(turns=3, go=1, still="m = ReduceMax <keepdims = 0> (row)  still = Less (m, f)"),
        LOOP.replace("turns = Constant <value_int = {turns}> ()", "s = Size (x)  turns = Mul (s, s)")
        .replace("float[3, 4] x", "float[n, 4] x")
        .format(go=1, still=ON),
    ],
    ids=["long", "ends", "ends by data", "unknown"],
)
def test_other_loops_stay(text: str) -> None:
    program = read_onnx(parse_model(HEAD + text))
    assert [node.op for node in program.nodes if node.opaque is not None] == ["onnx.Loop"]


@pytest.mark.parametrize("turns", [2.5, float("nan"), float("inf")])
def test_a_number_of_turns_that_is_none_stays(turns: float) -> None:
    model = parse_model(HEAD + LOOP.format(turns=3, go=1, still=ON))
    model.graph.node[0].attribute[0].CopyFrom(onnx.helper.make_attribute("value_float", turns))
    assert any(node.opaque is not None for node in read_onnx(model).nodes)


@pytest.mark.parametrize(("turns", "stays"), [(3, False), (50, True)])
def test_what_turns_copy_is_bounded(turns: int, stays: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch that data decides holds its constants, in every turn again."""
    monkeypatch.setattr(onnx_control, "_MOST_BYTES", 2000)
    text = f"""
        network (float[3, 4] x) => (float[3, 4] y) {{
            turns = Constant <value_int = {turns}> ()
            y = Loop (turns, , x) <
                body = body (int64 i, bool on, float[3, 4] s) => (on, next) {{
                    most = ReduceMax <keepdims = 0> (s)
                    more = Cast <to = 9> (most)
                    next = If (more) <
                        then_branch = then () => (a) <float[4] w = {{1, 2, 3, 4}}> {{ a = Add (s, w) }},
                        else_branch = other () => (b) {{ b = Neg (s) }}
                    >
                }}
            >
        }}
    """
    program = read_onnx(parse_model(HEAD + text))
    assert any(node.op == "onnx.Loop" for node in program.nodes) == stays


def test_a_loop_in_a_loop() -> None:
    expanded(
        """
        network (float[3, 4] x) => (float[3, 4] y) {
            two = Constant <value_int = 2> ()
            y = Loop (two, , x) <
                body = body (int64 i, bool on, float[3, 4] s) => (on, next) {
                    next = Loop (two, , s) <
                        body = inner (int64 j, bool go, float[3, 4] u) => (go, v) {
                            n = Add (i, j)
                            f = Cast <to = 1> (n)
                            v = Add (u, f)
                        }
                    >
                }
            >
        }
        """,
        x=X,
    )


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_the_turns_of_a_scan(axis: int, direction: int) -> None:
    """A running sum, along either axis, forwards or backwards, joined along another axis."""
    width = X.shape[1 - axis]
    expanded(
        f"""
        network (float[3, 4] x) => (float[{width}] last, float[{width}, k] sums) {{
            zero = Constant <value = float[{width}] {{{", ".join("0" * width)}}}> ()
            last, sums = Scan <
                num_scan_inputs = 1, scan_input_axes = [{axis}], scan_input_directions = [{direction}],
                scan_output_axes = [1], scan_output_directions = [{direction}],
                body = body (float[{width}] s, float[{width}] e) => (float[{width}] t, float[{width}] o) {{
                    t = Add (s, e)
                    o = Mul (t, e)
                }}
            > (zero, x)
        }}
        """,
        x=X,
    )
