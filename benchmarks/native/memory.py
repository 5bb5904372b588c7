"""Peak memory while running: the native engine against ONNX Runtime and OpenVINO, a process each.

    python -m benchmarks.native.memory [--only resnet18,...]

The networks of networks.py in fp32. Counted is what a file adds while it runs to a process that holds its
engine already (evaluate/memory.py): weights, arena, what else an engine keeps. Compiling comes before.
"""

from __future__ import annotations

import sys

from benchmarks import parts
from benchmarks.native.networks import OTHERS, arguments, file_of, inputs_of
from tensmith.engine import ENGINES
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.memory import measure_memory


def measured(name: str) -> parts.Found:
    """MiB of one network by engine, and the native engine's share of ONNX Runtime's."""
    path = file_of(name)
    inputs = inputs_of(path)
    ENGINES["native"].prepare(path, 1).run(inputs)
    peaks = {
        engine: measure_memory(Contender(engine, path), inputs).value / 2**20
        for engine in ("native", *OTHERS)
    }
    return parts.Found(row={**peaks, "share": peaks["native"] / peaks["onnxruntime"]})


def main() -> int:
    """1 where a network could not be measured."""
    options = arguments(__doc__).parse_args()
    settings = {"bench": "native_memory"}
    return parts.main(options.only, measured, options.output, settings)


if __name__ == "__main__":
    sys.exit(main())
