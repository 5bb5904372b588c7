"""Products by 4-bit weights: the native engine against its own fp32 and against ONNX Runtime's MatMulNBits.

    python -m benchmarks.native.codes [--seconds 20] [--rows 1,4,16,128] [--sizes 768x3072,2048x8192]

A chain of layers with relu behind each, of alternating shape, with more weights in all than caches hold. One
thread, taking turns. ONNX Runtime computes in fp32 (accuracy_level 1). Figures are the latencies, and how
many times faster the native 4-bit product is than each of the others, with intervals.
"""

from __future__ import annotations

import sys
import tempfile
from itertools import product
from pathlib import Path

import numpy as np
import onnx
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

from benchmarks import parts, timing
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.latency import compare

BLOCK = 32
_CODE_BYTES = 64 << 20
# Contender -> its engine, and whether its weights are packed.
NAMES = {"native 4 bits": ("native", True), "native fp32": ("native", False),
         "onnxruntime 4 bits": ("onnxruntime", True), "onnxruntime fp32": ("onnxruntime", False)}  # fmt: skip


def layers(inner: int, columns: int) -> list[tuple[int, int]]:
    """(inner, columns) of each layer: so many that the codes of all fill _CODE_BYTES."""
    count = max(2, 2 * round(_CODE_BYTES / (inner * columns)))
    return [(inner, columns), (columns, inner)] * (count // 2)


def write(path: Path, rows: int, shapes: list[tuple[int, int]], packed: bool) -> None:
    """The chain as an ONNX file, of floats or of MatMulNBits."""
    random = np.random.default_rng(0)
    nodes, tensors = [], []
    for index, (inner, columns) in enumerate(shapes):
        sums = f"s{index}"
        if packed:
            blocks = inner // BLOCK
            codes = random.integers(0, 256, (columns, blocks, BLOCK // 2), np.uint8)
            scales = random.uniform(0.1, 0.3, columns * blocks).astype(np.float32) / np.float32(inner**0.5)
            tensors += [onnx.numpy_helper.from_array(codes, f"w{index}"),
                        onnx.numpy_helper.from_array(scales, f"scales{index}")]  # fmt: skip
            attrs = {"K": inner, "N": columns, "bits": 4, "block_size": BLOCK, "accuracy_level": 1}
            inputs = [f"v{index}", f"w{index}", f"scales{index}"]
            nodes.append(make_node("MatMulNBits", inputs, [sums], domain="com.microsoft", **attrs))
        else:
            weights = random.standard_normal((inner, columns), np.float32) / np.float32(inner**0.5)
            tensors.append(onnx.numpy_helper.from_array(weights, f"w{index}"))
            nodes.append(make_node("MatMul", [f"v{index}", f"w{index}"], [sums]))
        nodes.append(make_node("Relu", [sums], [f"v{index + 1}"]))
    ends = [make_tensor_value_info(name, 1, [1, rows, size])
            for name, size in (("v0", shapes[0][0]), (f"v{len(shapes)}", shapes[-1][1]))]  # fmt: skip
    graph = make_graph(nodes, "chain", ends[:1], ends[1:], tensors)
    opsets = [make_opsetid("", 21), make_opsetid("com.microsoft", 1)]
    onnx.save(make_model(graph, opset_imports=opsets, ir_version=10), path)


def measured(case: tuple[str, str], seconds: float) -> parts.Found:
    """Layers of one size, for so many rows."""
    size, rows = case
    shapes = layers(*map(int, size.split("x")))
    with tempfile.TemporaryDirectory(prefix="tensmith-codes-") as folder:
        files = {packed: Path(folder) / f"packed{packed}.onnx" for packed in (True, False)}
        for packed, path in files.items():
            write(path, int(rows), shapes, packed)
        contenders = [Contender(engine, files[packed]) for engine, packed in NAMES.values()]
        x = np.random.default_rng(1).standard_normal((1, int(rows), shapes[0][0])).astype(np.float32)
        found = dict(zip(NAMES, compare(contenders, {"v0": x}, 1, seconds)))
    over = {f"over {name}": timing.faster(other) for name, other in found.items() if name != "native 4 bits"}
    return parts.Found(row=timing.row(found) | over)


def main() -> int:
    """1 where a case could not be measured."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to measure each case")
    parser.add_argument("--rows", type=parts.names, default=["1", "4", "16", "128"], help="rows of x")
    parser.add_argument(
        "--sizes", type=parts.names, default=["768x3072", "2048x8192"], help="inner x columns"
    )
    options = parser.parse_args()
    cases = {f"{size}, {rows} rows": (size, rows) for size, rows in product(options.sizes, options.rows)}
    settings = {"bench": "native_codes", "seconds": options.seconds}
    return parts.main(cases, measured, options.output, settings, seconds=options.seconds)


if __name__ == "__main__":
    sys.exit(main())
