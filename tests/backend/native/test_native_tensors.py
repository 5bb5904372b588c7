"""Programs on tensors: products, attention, normalizations, views; whole small transformers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_programs import Net, answers, compile_folder, steps_of

from tensmith.backend.native.emit.loader import Model
from tensmith.backend.native.plan import fixed, make_plan
from tensmith.backend.native.steps.step import Dense, Heavy, Rename
from tensmith.engine import ENGINES
from tensmith.errors import EngineError
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program, TensorType, interpret
from tensmith.kernel import host_isa, isa_named
from tensmith.kernel.routines.attention import AttentionRoutine
from tensmith.kernel.routines.rows import RowNorm
from tensmith.kernel.routines.strided import Strided

UPPER = np.triu(np.full((13, 13), -np.inf, np.float32), 1)


def ints(net: Net, *values: int) -> str:
    return net.constant(values=np.array(values, np.int64))


def scalar(net: Net, value: float) -> str:
    return net.constant(values=np.float32(value))


def linear(net: Net, x: str, inner: int, columns: int) -> str:
    """A fully connected layer."""
    return net.add("add", net.add("matmul", x, net.constant(values=_matrix(net, inner, columns))),
                   net.constant(columns))  # fmt: skip


def _matrix(net: Net, inner: int, columns: int) -> Any:
    return (net.random.standard_normal((inner, columns)) / np.sqrt(inner)).astype(np.float32)


def layers() -> Program:
    """Ragged widths, a residual, gelu written out in both forms, a product that keeps plain sums."""
    net = Net(2, 9, 40)
    x = linear(net, "x", 40, 37)
    bent = net.add("add", net.add("erf", net.add("div", x, scalar(net, 2**0.5))), scalar(net, 1))
    x = net.add("mul", x, net.add("mul", scalar(net, 0.5), bent))
    x = linear(net, x, 37, 48)
    cube = net.add("mul", scalar(net, 0.044715), net.add("pow", x, scalar(net, 3)))
    inner = net.add("mul", scalar(net, 0.7978846), net.add("add", x, cube))
    bent = net.add("add", net.add("tanh", inner), scalar(net, 1))
    x = net.add("mul", x, net.add("mul", scalar(net, 0.5), bent))
    x = net.add("add", "x", linear(net, x, 48, 40))
    return net.program(net.add("matmul", x, net.constant(values=_matrix(net, 40, 3))))


def attention_layer(heads: int, size: int, mask: str) -> Callable[[], Program]:
    """q, k and v from one product, as exporters split it; heads joined again."""

    def build() -> Program:
        net = Net(2, 13, heads * size)
        wide = heads * size
        split = net.add("reshape", linear(net, "x", wide, 3 * wide), ints(net, 2, 13, 3, heads, size))
        split = net.add("transpose", split, perm=(2, 0, 3, 1, 4))
        q, k, v = (
            net.add("squeeze", net.add("slice", split, *(ints(net, n) for n in (i, i + 1, 0))), ints(net, 0))
            for i in range(3)
        )  # fmt: skip
        scores = net.add("matmul", q, net.add("transpose", k, perm=(0, 1, 3, 2)))
        scores = net.add("div", scores, scalar(net, size**0.5))
        if mask == "causal":
            scores = net.add("add", scores, net.constant(values=UPPER))
        elif mask == "computed":
            scores = net.add("add", scores, net.add("reshape", _column(net), ints(net, 2, 1, 1, 13)))
        mixed = net.add("matmul", net.add("softmax", scores, axis=-1), v)
        joined = net.add("reshape", net.add("transpose", mixed, perm=(0, 2, 1, 3)), ints(net, 2, 13, wide))
        return net.program(linear(net, joined, wide, wide))

    return build


def _column(net: Net) -> str:
    return net.add("slice", "x", ints(net, 0), ints(net, 1), ints(net, 2))


def normalizations() -> Program:
    """The op, the small ops it stands for, and that of root mean squares; 21 columns, then 64."""
    net = Net(3, 5, 21)
    x = net.add("layer_normalization", "x", net.constant(21), net.constant(21), axis=-1, epsilon=1e-5)
    distance = net.add("sub", x, net.add("reduce_mean", x, ints(net, -1), keepdims=1))
    squares = net.add("reduce_mean", net.add("pow", distance, scalar(net, 2)), ints(net, -1), keepdims=1)
    root = net.add("sqrt", net.add("add", squares, scalar(net, 1e-5)))
    scaled = net.add("mul", net.add("div", distance, root), net.constant(21))
    x = linear(net, net.add("add", scaled, net.constant(21)), 21, 64)
    squares = net.add("reduce_mean", net.add("mul", x, x), ints(net, 2), keepdims=1)
    root = net.add("sqrt", net.add("add", squares, scalar(net, 1e-5)))
    return net.program(net.add("mul", net.add("div", x, root), net.constant(64)))


def computed_products() -> Program:
    """Batched products whose operands are turned or broadcast; ragged sizes."""
    net = Net(2, 3, 7, 18)
    square = net.add("matmul", "x", net.add("transpose", "x", perm=(0, 1, 3, 2)))
    one = net.add("slice", "x", ints(net, 0), ints(net, 1), ints(net, 0))
    return net.program(net.add("matmul", square, one), net.add("softmax", square, axis=3))


def rotations() -> Program:
    """Every other element times tables, woven together again; heads that serve two."""
    net = Net(1, 6, 4, 8)
    every = [ints(net, n) for n in (99, 3, 2)]
    even, odd = (net.add("slice", "x", ints(net, first), *every) for first in (0, 1))
    sine, cosine = net.constant(6, 1, 4), net.constant(6, 1, 4)
    a = net.add("sub", net.add("mul", even, cosine), net.add("mul", odd, sine))
    b = net.add("add", net.add("mul", even, sine), net.add("mul", odd, cosine))
    woven = net.add("concat", *(net.add("unsqueeze", v, ints(net, -1)) for v in (a, b)), axis=-1)
    turned = net.add("transpose", net.add("reshape", woven, ints(net, 1, 6, 4, 8)), perm=(0, 2, 1, 3))
    doubled = net.add("expand", net.add("unsqueeze", turned, ints(net, 2)), ints(net, 1, 4, 2, 6, 8))
    return net.program(net.add("reshape", doubled, ints(net, 1, 8, 6, 8)), woven)


def reductions() -> Program:
    """Over the last axis, the first, two, all; masks and where."""
    net = Net(3, 4, 19)
    positive = net.add("greater", "x", scalar(net, 0))
    chosen = net.add("where", positive, "x", scalar(net, -2))
    return net.program(
        net.add("reduce_mean", "x", ints(net, 2), keepdims=0),
        net.add("reduce_sum", "x", ints(net, 0), keepdims=1),
        net.add("reduce_max", chosen, ints(net, 0, 2), keepdims=0),
        net.add("reduce_min", net.add("exp", chosen), keepdims=1),
    )


def patches() -> Program:
    """A convolution cuts an image into patches, a transformer reads them, a convolution takes them back."""
    net = Net(2, 3, 16, 12)
    cut = net.add("conv", "x", net.constant(20, 3, 4, 4), net.constant(20), strides=(4, 4), group=1)
    rows = net.add("transpose", net.add("reshape", cut, ints(net, 2, 20, 12)), perm=(0, 2, 1))
    rows = net.add("layer_normalization", linear(net, rows, 20, 20), net.constant(20), axis=-1, epsilon=1e-5)
    image = net.add("reshape", net.add("transpose", rows, perm=(0, 2, 1)), ints(net, 2, 20, 4, 3))
    return net.program(net.conv(image, 20, 5), rows)


NETS = (
    layers, attention_layer(3, 8, ""), attention_layer(2, 20, "causal"), attention_layer(2, 16, "computed"),
    normalizations, computed_products, rotations, reductions, patches,
)  # fmt: skip


@pytest.mark.parametrize("build", NETS, ids=lambda build: build.__qualname__)
def test_tensor_programs_answer_as_the_interpreter(build: Callable[[], Program], tmp_path: Path) -> None:
    found, expected = answers(build(), tmp_path)
    for name, array in expected.items():
        # Values stay near 1, and no sum is of more than a few hundred terms.
        np.testing.assert_allclose(found[name], array, rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("name", ["generic", "avx2"])
@pytest.mark.parametrize("build", [NETS[2], normalizations], ids=lambda build: build.__qualname__)
def test_tensors_on_other_instruction_sets(name: str, build: Callable[[], Program], tmp_path: Path) -> None:
    if name == "avx2" and "avx2" not in host_isa().features:
        pytest.skip("this CPU has no AVX2")
    found, expected = answers(build(), tmp_path, isa_named(name))
    for value, array in expected.items():
        np.testing.assert_allclose(found[value], array, rtol=3e-5, atol=3e-5)


def test_a_whole_head_is_one_step() -> None:
    program = attention_layer(2, 16, "causal")()
    steps = steps_of(program)
    kinds = [type(step.routine) if isinstance(step, Dense) else type(step) for step in steps]
    assert kinds == [Heavy, AttentionRoutine, Rename, Heavy]


def test_normalizations_are_found_in_every_form() -> None:
    steps = steps_of(normalizations())
    kinds = [type(step.routine) if isinstance(step, Dense) else type(step) for step in steps]
    assert kinds == [RowNorm, RowNorm, Heavy, RowNorm]


def test_gelu_is_part_of_the_product_before_it() -> None:
    steps = steps_of(layers())
    assert [step.activation is not None for step in steps if isinstance(step, Heavy)] == [
        True,
        True,
        False,
        False,
    ]
    assert all(isinstance(step, Heavy) for step in steps)


def test_a_value_read_twice_is_no_part_of_a_curve() -> None:
    net = Net(4, 8)
    x = net.add("matmul", "x", net.constant(values=_matrix(net, 8, 8)))
    half = net.add("mul", x, scalar(net, 0.5))
    program = net.program(net.add("mul", half, net.add("tanh", x)), half)
    heavy = next(step for step in steps_of(program) if isinstance(step, Heavy))
    assert heavy.activation is None


def embedding() -> Program:
    net = Net(2, 5)
    rows = net.add("gather", net.constant(11, 6), "x", axis=0)
    mask = net.add("cast", net.add("less", "x", ints(net, 4)), to=1)
    weighted = net.add("mul", rows, net.add("unsqueeze", mask, ints(net, -1)))
    program = net.program(weighted, net.add("gather", weighted, ints(net, 0, -1), axis=1))
    return Program("net", {"x": TensorType("i64", (2, 5))}, program.outputs, program.nodes, program.constants)


def test_embeddings_and_masks_of_whole_numbers(tmp_path: Path) -> None:
    program = embedding()
    x = np.array([[0, 3, -1, 10, 4], [-11, 2, 2, 5, 7]])
    model = Model(compile_folder(program, tmp_path))
    found, expected = model(x=x), interpret(program, {"x": x})
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)
    assert np.isnan(model(x=np.full((2, 5), 11))["v0" if "v0" in found else "v4"]).all()


@pytest.mark.parametrize("dtype", ["i64", "i32", "u8", "bool", "f32"])
def test_outputs_that_are_copied_keep_their_type(dtype: str, tmp_path: Path) -> None:
    """An input under another shape, and an output under two."""
    net = Net()
    first, both = net.add("reshape", "x", ints(net, 3)), net.add("where", "c", "x", "x2")
    outputs = (first, both, net.add("reshape", both, ints(net, 3, 1)), "x")
    inputs = {
        "x": TensorType(dtype, (1, 3)),
        "x2": TensorType(dtype, (1, 3)),
        "c": TensorType("bool", (1, 3)),
    }
    program = Program("copied", inputs, outputs, tuple(net.nodes), net.constants)
    x = np.array([[2**62 + 5, -7, 0]]).astype(inputs["x"].numpy)
    given = {"x": x, "x2": x[:, ::-1].copy(), "c": np.array([[True, False, True]])}
    found, expected = Model(compile_folder(program, tmp_path))(**given), interpret(program, given)
    for name in outputs:
        assert found[name].dtype == x.dtype and np.array_equal(found[name], expected[name]), name


def test_what_is_no_number_spoils_its_row_alone(tmp_path: Path) -> None:
    net = Net(4, 20)
    program = net.program(net.add("softmax", net.add("layer_normalization", "x", net.constant(20), axis=-1)))
    model = Model(compile_folder(program, tmp_path))
    x = net.random.standard_normal((4, 20)).astype(np.float32)
    x[1, 19], x[2, 3] = np.nan, np.inf
    assert np.isnan(model(x=x)[program.outputs[0]]).all(1).tolist() == [False, True, True, False]


def test_elements_far_apart_are_read_where_they_lie() -> None:
    steps = steps_of(rotations())
    assert [type(step.routine) for step in steps if isinstance(step, Dense)] == [Strided, Strided]


def test_a_tensor_node_without_a_kernel_is_named() -> None:
    net = Net(2, 3, 4, 5, 6)
    whole = net.add("cast", "x", to=7)
    with pytest.raises(EngineError, match=r"'v1' .bit_shift. has no native kernel"):
        make_plan(net.program(net.add("bit_shift", whole, whole, direction="LEFT")), host_isa())


@pytest.mark.data
@pytest.mark.parametrize(("batch", "length"), [(1, 1), (2, 21)])
def test_a_language_model(data_dir: Path, tmp_path: Path, batch: int, length: int) -> None:
    path = data_dir / "models" / "stories260k.onnx"
    tokens = np.random.default_rng(5).integers(0, 512, (batch, length))
    model = Model(compile_folder(fixed(read_onnx(path), {"batch": batch, "length": length}), tmp_path))
    expected = ENGINES["onnxruntime"].prepare(path, 1).run({"tokens": tokens})["logits"]
    spread = float(expected.max() - expected.min())
    assert abs(model(tokens=tokens)["logits"] - expected).max() <= 1e-5 * spread
