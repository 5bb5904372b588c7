"""Recurrent layers: the native engine against ONNX Runtime and OpenVINO, one step and a whole sequence.

    python -m benchmarks.native.recurrent [--seconds 10] [--hidden 64,128,256,512] [--steps 1,100]

One layer, one sequence, as many features as it has states. One step takes its states and gives them back, as
a stream is read. One thread, taking turns. In 8 bits, weights are bytes with a scale a row. Native reads them
with x in bytes too, as method int8 writes it, and OpenVINO with x in floats. ONNX Runtime does LSTM by its
own dynamic quantization, in which states are bytes as well, and GRU with x in floats. Figures are the
latencies, and the ratio to the fastest other with its interval.
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
from benchmarks.native.networks import OTHERS
from tensmith.engine import read_signature
from tensmith.evaluate.bench import random_inputs
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.latency import compare

GATES = {"LSTM": 4, "GRU": 3}


# Inputs in bytes lie within +-4.
X_SCALE, X_ZERO = np.float32(4 / 127), np.uint8(128)


def write(path: Path, kind: str, hidden: int, steps: int, coded: bool, x_in_bytes: bool = False) -> None:
    """One layer as an ONNX file: W and R as floats or as codes behind a dequantization, x likewise."""
    random, rows = np.random.default_rng(0), GATES[kind] * hidden
    nodes, tensors = [], [onnx.numpy_helper.from_array(np.zeros((1, 2 * rows), np.float32), "b")]
    for name in ("w", "r"):
        matrix = random.uniform(-1, 1, (rows, hidden)).astype(np.float32) / np.float32(hidden**0.5)
        if coded:
            scales = np.abs(matrix).max(1) / np.float32(127)
            stored = {
                f"{name} codes": np.rint(matrix / scales[:, None]).astype(np.int8),
                f"{name} scales": scales,
                f"{name} shape": np.array([1, rows, hidden]),
            }
            tensors += [onnx.numpy_helper.from_array(array, key) for key, array in stored.items()]
            keys = [*stored]
            nodes += [make_node("DequantizeLinear", keys[:2], [f"{name} opened"], axis=0),
                      make_node("Reshape", [f"{name} opened", keys[2]], [name])]  # fmt: skip
        else:
            tensors.append(onnx.numpy_helper.from_array(matrix[None], name))
    x = "x"
    if x_in_bytes:
        tensors += [onnx.numpy_helper.from_array(X_SCALE, "x scale"),
                    onnx.numpy_helper.from_array(X_ZERO, "x zero")]  # fmt: skip
        parameters, x = ["x scale", "x zero"], "x again"
        nodes += [make_node("QuantizeLinear", ["x", *parameters], ["x codes"]),
                  make_node("DequantizeLinear", ["x codes", *parameters], [x])]  # fmt: skip
    states = ["h", "c"] if kind == "LSTM" else ["h"]
    given = states if steps == 1 else []
    after = [f"next {state}" for state in given]
    attrs = {"linear_before_reset": 1} if kind == "GRU" else {}
    nodes.append(make_node(kind, [x, "w", "r", "b", "", *given], ["y", *after], hidden_size=hidden, **attrs))
    ends = [make_tensor_value_info("x", 1, [steps, 1, hidden]),
            *(make_tensor_value_info(state, 1, [1, 1, hidden]) for state in given)]  # fmt: skip
    outs = [make_tensor_value_info("y", 1, [steps, 1, 1, hidden]),
            *(make_tensor_value_info(state, 1, [1, 1, hidden]) for state in after)]  # fmt: skip
    graph = make_graph(nodes, kind.lower(), ends, outs, tensors)
    onnx.save(make_model(graph, opset_imports=[make_opsetid("", 17)], ir_version=10), path)


def contenders(kind: str, hidden: int, steps: int, bits: str, folder: Path) -> list[Contender]:
    """Native first."""
    floats, codes, all_codes, dynamic = (
        folder / f"{name}.onnx" for name in ("floats", "codes", "all codes", "dynamic")
    )
    write(floats, kind, hidden, steps, coded=False)
    if bits == "fp32":
        return [Contender(engine, floats) for engine in ("native", *OTHERS)]
    write(codes, kind, hidden, steps, coded=True)
    write(all_codes, kind, hidden, steps, coded=True, x_in_bytes=True)
    files = {"native": all_codes, "onnxruntime": codes, "openvino": codes}
    if kind == "LSTM":
        from onnxruntime.quantization import quantize_dynamic

        quantize_dynamic(floats, dynamic, op_types_to_quantize=["LSTM"])
        files["onnxruntime"] = dynamic
    return [Contender(engine, files[engine]) for engine in ("native", *OTHERS)]


def measured(case: tuple[str, str, str, str], seconds: float) -> parts.Found:
    """One layer."""
    kind, bits, hidden, steps = case
    with tempfile.TemporaryDirectory(prefix="tensmith-recurrent-") as folder:
        those = contenders(kind, int(hidden), int(steps), bits, Path(folder))
        found = compare(those, random_inputs(read_signature(those[0].path).inputs), 1, seconds)
    return parts.Found(row=timing.row(dict(zip(("native", *OTHERS), found))))


def main() -> int:
    """1 where a layer could not be measured."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to measure each case")
    parser.add_argument("--hidden", type=parts.names, default=["64", "128", "256", "512"], help="states")
    parser.add_argument("--steps", type=parts.names, default=["1", "100"], help="elements of the sequence")
    parser.add_argument("--bits", type=parts.names, default=["fp32", "int8"], help="of the weights")
    options = parser.parse_args()
    cases = {
        f"{kind} {bits}, {hidden} states, {steps} steps": (kind, bits, hidden, steps)
        for kind, bits, hidden, steps in product(GATES, options.bits, options.hidden, options.steps)
    }
    settings = {"bench": "native_recurrent", "seconds": options.seconds}
    return parts.main(cases, measured, options.output, settings, seconds=options.seconds)


if __name__ == "__main__":
    sys.exit(main())
