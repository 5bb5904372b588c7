"""GPT-2 as an ONNX file of random weights, written tensor by tensor, in the form in which exporters write it.

    python -m benchmarks.compress.gpt2_graph FILE.onnx [--layers 48]

tokens int64 [batch, length] -> logits float32 [batch, length, vocabulary] (Radford et al. 2019): linear
layers are Gemm nodes between reshapes, GELU and the mask are spelled out, the head multiplies with the turned
table of tokens. Weights lie in FILE.onnx.data, and no more than one of them is in memory. They are drawn as
GPT-2's are before training, so that activations have the sizes of a real one.
"""

from __future__ import annotations

import math
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import onnx
from onnx import TensorProto, helper

_ALIGNMENT = 4096
_SPREAD = 0.02
OPSET, IR_VERSION = 18, 10


@dataclass(frozen=True)
class Gpt2Sizes:
    """GPT-2 XL, unless other sizes are given."""

    layers: int = 48
    width: int = 1600
    heads: int = 25
    vocabulary: int = 50257
    context: int = 1024

    @property
    def parameters(self) -> int:
        """How many weights it has."""
        w = self.width
        return (self.vocabulary + self.context) * w + self.layers * (12 * w * w + 13 * w) + 2 * w


@dataclass
class _Writing:
    """A graph while it is made; weights go to the open file at once."""

    sizes: Gpt2Sizes
    file: BinaryIO
    location: str
    random: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    tensors: dict[str, onnx.TensorProto] = field(default_factory=dict)

    def weight(self, name: str, *shape: int, spread: float = _SPREAD, mean: float = 0.0) -> str:
        """A tensor of normal numbers in the data file."""
        array = self.random.standard_normal(shape, np.float32)
        array *= np.float32(spread)
        array += np.float32(mean)
        self.file.write(b"\0" * (-self.file.tell() % _ALIGNMENT))
        proto = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
        proto.data_location = TensorProto.EXTERNAL
        place = {"location": self.location, "offset": self.file.tell(), "length": array.nbytes}
        for key, value in place.items():
            proto.external_data.add(key=key, value=str(value))
        self.file.write(array.data)
        self.tensors[name] = proto
        return name

    def ints(self, *numbers: int) -> str:
        """A constant of whole numbers, [n]."""
        name = f"ints_{'_'.join(map(str, numbers))}"
        self.tensors[name] = helper.make_tensor(name, TensorProto.INT64, [len(numbers)], numbers)
        return name

    def real(self, name: str, number: float) -> str:
        """A constant number, []."""
        self.tensors[name] = helper.make_tensor(name, TensorProto.FLOAT, [], [number])
        return name

    def add(self, op: str, inputs: Sequence[str], *outputs: str, **attributes: Any) -> str:
        """A node; its first output."""
        self.nodes.append(helper.make_node(op, inputs, outputs, name=f"/{outputs[0]}/{op}", **attributes))
        return outputs[0]

    def linear(self, x: str, name: str, columns: int, out: int, spread: float = _SPREAD) -> str:
        """x W + b for rows of all texts at once, as transformers' Conv1D is exported; W [columns, out]."""
        given = (self.weight(f"{name}.weight", columns, out, spread=spread), self.weight(f"{name}.bias", out))
        rows = self.add("Reshape", (x, self.ints(-1, columns)), f"{name}.rows")
        product = self.add("Gemm", (rows, *given), f"{name}.product")
        shape = self.add("Concat", ("text", self.ints(out)), f"{name}.shape", axis=0)
        return self.add("Reshape", (product, shape), name)

    def norm(self, x: str, name: str) -> str:
        """A layer normalization."""
        scale = self.weight(f"{name}.weight", self.sizes.width, mean=1.0)
        bias = self.weight(f"{name}.bias", self.sizes.width)
        return self.add("LayerNormalization", (x, scale, bias), name, axis=-1, epsilon=1e-5)

    def gelu(self, x: str, name: str) -> str:
        """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
        cube = self.add("Pow", (x, self.real("three", 3.0)), f"{name}.cube")
        small = self.add("Mul", (cube, self.real("cubic", 0.044715)), f"{name}.small")
        sum_ = self.add("Add", (x, small), f"{name}.sum")
        scaled = self.add("Mul", (sum_, self.real("root", math.sqrt(2 / math.pi))), f"{name}.scaled")
        curve = self.add("Tanh", (scaled,), f"{name}.curve")
        above = self.add("Add", (curve, self.real("one", 1.0)), f"{name}.above")
        half = self.add("Mul", (x, self.real("half", 0.5)), f"{name}.half")
        return self.add("Mul", (half, above), name)

    def attention(self, x: str, name: str) -> str:
        """Masked attention over heads."""
        width, heads = self.sizes.width, self.sizes.heads
        all_ = self.linear(x, f"{name}.c_attn", width, 3 * width)
        parts = [f"{name}.{part}" for part in "qkv"]
        self.add("Split", (all_, self.ints(width, width, width)), *parts, axis=2)
        shape = self.ints(0, 0, heads, width // heads)
        q, k, v = (
            self.add(
                "Transpose",
                (self.add("Reshape", (part, shape), f"{part}.split"),),
                f"{part}.heads",
                perm=(0, 2, 3, 1) if part.endswith("k") else (0, 2, 1, 3),
            )
            for part in parts
        )
        products = self.add("MatMul", (q, k), f"{name}.products")
        root = self.real("depth", math.sqrt(width // heads))
        scores = self.add("Div", (products, root), f"{name}.scores")
        seen = self.add("Where", ("seen", scores, self.real("never", -3.4028235e38)), f"{name}.seen")
        shares = self.add("Softmax", (seen,), f"{name}.shares", axis=-1)
        mixed = self.add("MatMul", (shares, v), f"{name}.mixed")
        turned = self.add("Transpose", (mixed,), f"{name}.turned", perm=(0, 2, 1, 3))
        joined = self.add("Reshape", (turned, self.ints(0, 0, width)), f"{name}.joined")
        return self.linear(joined, f"{name}.c_proj", width, width, self._last_spread)

    def block(self, x: str, name: str) -> str:
        """A layer: attention and two products, each after a norm and beside a shortcut."""
        width = self.sizes.width
        attended = self.attention(self.norm(x, f"{name}.ln_1"), f"{name}.attn")
        x = self.add("Add", (x, attended), f"{name}.attended")
        wide = self.linear(self.norm(x, f"{name}.ln_2"), f"{name}.mlp.c_fc", width, 4 * width)
        active = self.gelu(wide, f"{name}.mlp.act")
        narrow = self.linear(active, f"{name}.mlp.c_proj", 4 * width, width, self._last_spread)
        return self.add("Add", (x, narrow), name)

    @property
    def _last_spread(self) -> float:
        """Of what ends at a shortcut."""
        return _SPREAD / math.sqrt(2 * self.sizes.layers)

    def graph(self) -> onnx.GraphProto:
        """The whole graph."""
        sizes = self.sizes
        table = self.weight("wte.weight", sizes.vocabulary, sizes.width)
        places = self.weight("wpe.weight", sizes.context, sizes.width, spread=_SPREAD / 2)
        self.add("Shape", ("input_ids",), "text")
        length = self.add("Gather", ("text", self._scalar("index_1", 1)), "length", axis=0)
        positions = self.add("Range", (self._scalar("zero", 0), length, self._scalar("step", 1)), "positions")
        column = self.add("Unsqueeze", (positions, self.ints(1)), "column")
        self.add("GreaterOrEqual", (column, positions), "seen")
        tokens = self.add("Gather", (table, "input_ids"), "tokens", axis=0)
        x = self.add("Add", (tokens, self.add("Gather", (places, positions), "places", axis=0)), "embedded")
        for layer in range(sizes.layers):
            x = self.block(x, f"h.{layer}")
        turned = self.add("Transpose", (table,), "wte.turned", perm=(1, 0))
        self.add("MatMul", (self.norm(x, "ln_f"), turned), "logits")
        return helper.make_graph(
            self.nodes,
            "gpt2",
            [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"])],
            [
                helper.make_tensor_value_info(
                    "logits", TensorProto.FLOAT, ["batch", "length", sizes.vocabulary]
                )
            ],
            list(self.tensors.values()),
        )

    def _scalar(self, name: str, number: int) -> str:
        self.tensors[name] = helper.make_tensor(name, TensorProto.INT64, [], [number])
        return name


def write_gpt2(path: Path, sizes: Gpt2Sizes, seed: int = 0) -> None:
    """Writes `path` and `path`.data."""
    data = path.with_name(path.name + ".data")
    with data.open("wb") as file:
        graph = _Writing(sizes, file, data.name, np.random.default_rng(seed)).graph()
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="pytorch")
    path.write_bytes(model.SerializeToString(deterministic=True))


def main() -> None:
    """Writes one."""
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--layers", type=int, default=Gpt2Sizes.layers)
    options = parser.parse_args()
    sizes = Gpt2Sizes(layers=options.layers)
    write_gpt2(options.file, sizes)
    print(f"{options.file}: {sizes.parameters} weights")


if __name__ == "__main__":
    main()
