"""Peak memory while running: the native engine against ONNX Runtime and OpenVINO, a process each.

    python benchmarks/native_memory.py [--only resnet18,...]

The networks of native.py in fp32. Counted is what a file adds while it runs to a process that holds its
engine already (evaluate/memory.py): weights, arena, what else an engine keeps. Compiling comes before.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from native import BUILT, DATA, OTHERS, REAL, export, inputs_of

from tensmith.engine import ENGINES
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.memory import measure_memory


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="networks to measure, as A,B")
    only = parser.parse_args().only
    chosen = only.split(",") if only else [*REAL, *BUILT]
    engines = ("native", *OTHERS)
    print(f"{'MiB':24} " + "  ".join(f"{name:>11}" for name in engines) + "   of ONNX Runtime's")
    cache = Path(tempfile.gettempdir()) / "tensmith-native-benchmark"
    cache.mkdir(exist_ok=True)
    for name in chosen:
        path = DATA / "models" / f"{name}.onnx"
        path = path if path.exists() else export(name, cache)
        inputs = inputs_of(path)
        ENGINES["native"].prepare(path, 1).run(inputs)
        peaks = [measure_memory(Contender(engine, path), inputs).running.value / 2**20 for engine in engines]
        found = "  ".join(f"{peak:11.1f}" for peak in peaks)
        print(f"{path.stem:24} {found}   {peaks[0] / peaks[1]:.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
