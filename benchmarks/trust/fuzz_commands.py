"""Gives mutated and generated ONNX files to compile, bench and load: each works or says one sentence.

    python -m benchmarks.trust.fuzz_commands [files] [first number] [--output FILE]

Every file is made from a number, so a failure is repeated by `write(number, FOLDER)`. A command has 60 s and
4 GiB; a hang, an orphan, a traceback, a signal or more than one sentence is a failure (tests/forked.py).
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks import parts
from benchmarks.trust import fuzz_importer
from command_line import tiny_model
from forked import Commands, Outcome

FLOAT = TensorProto.FLOAT
PART = 20  # files
COMMANDS = (
    ("load", "m.onnx"),
    ("bench", "m.onnx", "--seconds", "0.05", "--engines", "onnxruntime"),
    ("compile", "m.onnx", "--output", "out"),
)
_SIZES = (0, 1, 2, 3, -1, -12, 7, 2**31, 2**40, 2**62)
_NAMES = ("", "x", "y", "\x1b[2J", "\u202e", "a/b", "../x", "a\nb", "é" * 300, "int", "%s%n", "'; DROP", "\0")
_OPERATORS = (
    "Relu", "Add", "Conv", "MaxPool", "AveragePool", "Gemm", "MatMul", "Reshape", "Transpose", "Concat",
    "Gather", "Slice", "Softmax", "ReduceMean", "Pad", "Expand", "Tile", "ConstantOfShape", "Range", "Split",
    "Squeeze", "Unsqueeze", "Cast", "Where", "Resize", "TopK", "BatchNormalization", "Loop", "If", "Identity",
    "QuantizeLinear", "DequantizeLinear", "Sigmoid", "Flatten", "LRN", "Nonsense",
)  # fmt: skip
_ATTRIBUTES = {
    "kernel_shape": "ints", "strides": "ints", "pads": "ints", "dilations": "ints", "group": "int",
    "axis": "int", "axes": "ints", "perm": "ints", "to": "int", "size": "int", "alpha": "float",
    "keepdims": "int", "auto_pad": "text", "mode": "text", "epsilon": "float", "num_outputs": "int",
}  # fmt: skip


@cache
def seeds() -> tuple[bytes, ...]:
    """The files that mutants are made from: the importer's, a small classifier, an old opset, int8."""
    return (*fuzz_importer.seeds(), tiny_model().SerializeToString(), _old(), _quantized())


def _old() -> bytes:
    """Opset 9, IR version 3: weights are inputs too, and come from ConstantOfShape and Identity."""
    nodes = [
        helper.make_node(
            "ConstantOfShape", ["shape"], ["w"], value=numpy_helper.from_array(np.ones(1, np.float32))
        ),
        helper.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3]),
        helper.make_node("Identity", ["b"], ["bias"]),
        helper.make_node("Add", ["c", "bias"], ["a"]),
        helper.make_node("Dropout", ["a"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in (
            ("x", FLOAT, [1, 3, 8, 8]), ("shape", TensorProto.INT64, [4]), ("b", FLOAT, [4, 1, 1]),
        )
    ]  # fmt: skip
    weights = [
        numpy_helper.from_array(np.array([4, 3, 3, 3], np.int64), "shape"),
        numpy_helper.from_array(np.ones((4, 1, 1), np.float32), "b"),
    ]
    output = helper.make_tensor_value_info("y", FLOAT, [1, 4, 6, 6])
    graph = helper.make_graph(nodes, "old", inputs, [output], weights)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=3
    ).SerializeToString()


def _quantized() -> bytes:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["f"]),
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["v"]),
        helper.make_node("MatMul", ["f", "v"], ["y"]),
    ]
    weights = [
        numpy_helper.from_array(np.float32(0.1), "s"),
        numpy_helper.from_array(np.int8(0), "z"),
        numpy_helper.from_array(np.arange(12, dtype=np.int8).reshape(4, 3), "w"),
    ]
    graph = helper.make_graph(
        nodes,
        "quantized",
        [helper.make_tensor_value_info("x", FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", FLOAT, ["n", 3])],
        weights,
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()


def _generated(rng: random.Random) -> onnx.ModelProto:
    """A chain of random operators with random attributes, constants and names."""
    names, nodes, weights = ["x"], [], []
    for number in range(rng.randrange(1, 6)):
        operator = rng.choice(_OPERATORS)
        inputs = [rng.choice(names)]
        for _ in range(rng.randrange(3)):
            inputs.append(_constant(rng, weights) if rng.random() < 0.7 else rng.choice(names))
        attributes = {
            name: _attribute(rng, kind) for name, kind in _ATTRIBUTES.items() if rng.random() < 0.12
        }
        names.append(f"v{number}" if rng.random() < 0.9 else rng.choice(_NAMES))
        nodes.append(helper.make_node(operator, inputs, [names[-1]], name=rng.choice(_NAMES), **attributes))
    shape = [rng.choice((*_SIZES, "n", "m", 3, 8, 8)) for _ in range(rng.randrange(6))]
    graph = helper.make_graph(
        nodes,
        rng.choice(_NAMES),
        [helper.make_tensor_value_info("x", rng.choice([1, 1, 1, 6, 7, 9, 10, 3, 8]), shape)],
        [helper.make_tensor_value_info(names[-1], FLOAT, None)],
        weights,
    )
    opset = helper.make_opsetid("", rng.choice([7, 9, 11, 13, 17, 21]))
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


def _constant(rng: random.Random, weights: list[TensorProto]) -> str:
    shape = [rng.choice([0, 1, 2, 3, 4]) for _ in range(rng.randrange(5))]
    if rng.random() < 0.5:
        array = np.array([rng.choice(_SIZES) for _ in range(rng.randrange(5))], np.int64)
    else:
        array = np.full(shape, rng.choice([0.0, 1.0, -1.0, float("nan"), 1e30]), np.float32)
    weights.append(numpy_helper.from_array(array, f"w{len(weights)}"))
    return weights[-1].name


def _attribute(rng: random.Random, kind: str) -> object:
    if kind == "ints":
        return [rng.choice((*_SIZES, 1, 2, 3)) for _ in range(rng.randrange(1, 5))]
    if kind == "int":
        return rng.choice(_SIZES)
    return rng.choice([0.0, 1.0, float("nan"), float("inf")]) if kind == "float" else rng.choice(_NAMES[:6])


def _renamed(rng: random.Random) -> onnx.ModelProto:
    """A seed whose values, nodes, inputs and texts have hostile names."""
    model = onnx.ModelProto.FromString(rng.choice(seeds()))
    old = rng.choice([name for node in model.graph.node for name in (*node.input, *node.output) if name])
    new = rng.choice(_NAMES)
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [new if name == old else name for name in names]
        node.name = rng.choice(_NAMES)
    for value in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        value.name = new if value.name == old else value.name
    model.doc_string = model.graph.doc_string = new
    model.metadata_props.add(key=new, value=new)
    return model


def _external(rng: random.Random) -> onnx.ModelProto:
    """A seed one of whose weights claims to lie in a file."""
    model = onnx.ModelProto.FromString(seeds()[3])
    tensor = rng.choice(model.graph.initializer)
    tensor.data_location = TensorProto.EXTERNAL
    if rng.random() < 0.7:
        tensor.ClearField("raw_data")
    places = ("m.onnx", "../m.onnx", "/dev/zero", "gone.bin", "pipe", "", "w.bin", ".", "a\0b")
    tensor.external_data.add(key="location", value=rng.choice(places))
    for key in ("offset", "length"):
        if rng.random() < 0.5:
            tensor.external_data.add(key=key, value=str(rng.choice([*_SIZES, "many", "1e9"])))
    return model


def _functions(rng: random.Random) -> onnx.ModelProto:
    """Functions that call each other, many times or in a circle."""
    model = onnx.ModelProto.FromString(seeds()[3])
    depth = rng.choice([1, 2, 5, 30])
    opsets = [helper.make_opsetid("d", 1), helper.make_opsetid("", 19)]
    for level in range(depth):
        called = rng.choice([level + 1, level + 1, level + 1, rng.randrange(depth)])
        body = [
            helper.make_node(f"F{called}", ["a"], ["t"], domain="d"),
            helper.make_node(f"F{called}", ["t"], ["b"], domain="d"),
        ]
        model.functions.append(helper.make_function("d", f"F{level}", ["a"], ["b"], body, opsets))
    last = helper.make_node("Neg", ["a"], ["b"])
    model.functions.append(helper.make_function("d", f"F{depth}", ["a"], ["b"], [last], opsets))
    model.graph.node[1].CopyFrom(helper.make_node("F0", ["c"], ["r"], domain="d"))
    model.opset_import.append(helper.make_opsetid("d", 1))
    return model


def _damaged(rng: random.Random) -> onnx.ModelProto:
    """A seed with one to six fields changed; see fuzz_importer."""
    model = onnx.ModelProto.FromString(rng.choice(seeds()))
    for _ in range(rng.choice([1, 1, 1, 2, 6])):
        fuzz_importer.mutate(model, rng)
    return model


_KINDS: tuple[Callable[[random.Random], onnx.ModelProto], ...] = (
    _damaged, _damaged, _damaged, _generated, _generated, _renamed, _external, _functions,
)  # fmt: skip


def write(number: int, folder: Path) -> None:
    """The file of a number as m.onnx, and what lies beside it."""
    rng = random.Random(number)
    if rng.random() < 0.1:
        data = fuzz_importer.mutant(number)
    else:
        data = rng.choice(_KINDS)(rng).SerializeToString()
    (folder / "m.onnx").write_bytes(data)
    (folder / "w.bin").write_bytes(bytes(4096))


def check(number: int, commands: Commands) -> list[tuple[str, Outcome]]:
    """(command, outcome) of the file of a number."""
    outcomes = []
    with tempfile.TemporaryDirectory() as name:
        write(number, Path(name))
        for arguments in COMMANDS:
            outcomes.append((arguments[0], commands(*arguments, folder=Path(name))))
            shutil.rmtree(Path(name) / "out", ignore_errors=True)
    return outcomes


def found(numbers: range, commands: Commands) -> parts.Found:
    """How often each command worked and was refused, and every failure."""
    counts: Counter[str] = Counter()
    wrong = []
    for number in numbers:
        for name, outcome in check(number, commands):
            counts[f"{name} {'refused' if outcome.code else 'worked'}"] += 1
            if outcome.fault:
                wrong.append(f"{number} {name}: {outcome.fault}")
    return parts.Found(counts, tuple(wrong))


def main() -> int:
    """Prints totals and every failure; 1 if there are any."""
    parser = parts.arguments(__doc__)
    parser.add_argument("files", nargs="?", type=int, default=5000)
    parser.add_argument("first", nargs="?", type=int, default=0, help="number")
    options = parser.parse_args()
    end = options.first + options.files
    every = {str(start): range(start, min(start + PART, end)) for start in range(options.first, end, PART)}
    with Commands() as commands:
        return parts.main(every, found, options.output, {"bench": "fuzz_commands"}, commands=commands)


if __name__ == "__main__":
    sys.exit(main())
