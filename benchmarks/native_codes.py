"""Products by 4-bit weights: the native engine against its own fp32 and against ONNX Runtime's MatMulNBits.

    python benchmarks/native_codes.py [--seconds 20] [--rows 1,4,16,128] [--sizes 768x3072,2048x8192]

A chain of layers with relu behind each, of alternating shape, with more weights in all than caches hold. One
thread, taking turns. ONNX Runtime computes in fp32 (accuracy_level 1). Prints the latencies, and how many
times faster the native 4-bit product is than each of the others, with intervals.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

from tensmith.evaluate.contender import Contender
from tensmith.evaluate.latency import compare

BLOCK = 32
_CODE_BYTES = 64 << 20


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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to measure each case")
    parser.add_argument("--rows", default="1,4,16,128", help="rows of x")
    parser.add_argument("--sizes", default="768x3072,2048x8192", help="inner x columns")
    arguments = parser.parse_args()
    print(
        "size, rows: ms of native 4 bits; then times faster than [ms]: native fp32, ONNX Runtime 4 bits, fp32"
    )
    for size in arguments.sizes.split(","):
        shapes = layers(*map(int, size.split("x")))
        for rows in map(int, arguments.rows.split(",")):
            with tempfile.TemporaryDirectory(prefix="tensmith-codes-") as folder:
                files = {packed: Path(folder) / f"packed{packed}.onnx" for packed in (True, False)}
                for packed, path in files.items():
                    write(path, rows, shapes, packed)
                order = [("native", True), ("native", False), ("onnxruntime", True), ("onnxruntime", False)]
                contenders = [Contender(engine, files[packed]) for engine, packed in order]
                x = np.random.default_rng(1).standard_normal((1, rows, shapes[0][0])).astype(np.float32)
                found = compare(contenders, {"v0": x}, 1, arguments.seconds)
            line = f"{size:>10} x {len(shapes):2}, {rows:3}: {found[0].latency.value:9.2f} ms"
            for other in found[1:]:
                ratio = other.ratio
                line += f"   {1 / ratio.value:5.2f} [{1 / ratio.high:.2f} to {1 / ratio.low:.2f}]"
                line += f" ({other.latency.value:.2f} ms)"
            print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
