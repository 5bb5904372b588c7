"""Models larger than they should be for this machine: GPT-2 of 4 and of 48 layers (XL), put into 4 bits.

    python -m benchmarks.compress.large_model [--layers 4,48]

The graph is written with random weights (gpt2_graph) and goes through `tensmith quantize` in a process of its
own: its seconds, and the most memory that was resident, pages of mapped files among it. What it wrote answers
one token in ONNX Runtime, and in the interpreter, which opens one matrix at a time: they may differ by
rounding. As ONNX Runtime comes, it also rounds what it multiplies with codes to 8 bits; that is told beside.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks import ROOT, cache, parts
from benchmarks.compress.gpt2_graph import Gpt2Sizes
from tensmith.engine.engines.onnxruntime import session_options
from tensmith.frontend.onnx import read_onnx
from tensmith.ir.interpreter import interpret

_TOKEN = np.array([[464]])
# Of the range of logits: of float32, summed in another order through all layers.
_APART = 1e-4
_MOST_BYTES = 12 << 30
# How ONNX Runtime multiplies with codes: 1 in floats, 4 in bytes, which is what it does unless told.
_FLOATS, _BYTES = "1", "4"
_LEVEL = "session.qdq_matmulnbits_accuracy_level"


def measured(layers: int) -> parts.Found:
    """A GPT-2 of so many layers."""
    sizes = Gpt2Sizes(layers=layers)
    with TemporaryDirectory(dir=cache()) as name:
        folder = Path(name)
        source, small, told = folder / "gpt2.onnx", folder / "small.onnx", folder / "told.json"
        # A process inherits the peak of the one that starts it, so the graph is written by another.
        _process(["benchmarks.compress.gpt2_graph", str(source), "--layers", str(layers)], told)
        row: dict[str, float] = {"weights": sizes.parameters, "original_bytes": _bytes(source)}
        row |= _process(["tensmith", "quantize", str(source), str(small), "--json"], told)
        found = json.loads(told.read_text())
        row |= {"bytes": _bytes(small), "moved_of_weights": found["error"]["value"]}
        answers = {}
        for who in ("interpreter", _FLOATS, _BYTES):
            words = ["benchmarks.compress.large_model", "--answer", who, str(small)]
            spent = _process(words, folder / "logits")
            answers[who] = np.fromfile(folder / "logits", np.float32)
            if who == _FLOATS:
                row |= {f"onnxruntime_{key}": value for key, value in spent.items()}
    exact = answers["interpreter"]
    row["apart_of_range"] = float(abs(answers[_FLOATS] - exact).max() / np.ptp(exact))
    row["apart_in_bytes_of_range"] = float(abs(answers[_BYTES] - exact).max() / np.ptp(exact))
    return parts.Found(row=row, wrong=tuple(_wrong(row)))


def _wrong(row: dict[str, float]) -> list[str]:
    wrong = []
    if row["peak_bytes"] > _MOST_BYTES:
        wrong.append(f"quantizing takes {row['peak_bytes']} bytes, over {_MOST_BYTES}")
    if row["apart_of_range"] > _APART:
        wrong.append(f"logits are {row['apart_of_range']:.1e} of their range apart, over {_APART}")
    return wrong


def _bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in (path, path.with_name(path.name + ".data")) if file.exists())


def _process(words: list[str], output: Path) -> dict[str, float]:
    """What a module takes in a process of its own: seconds, those of a processor, and its peak memory."""
    began = time.perf_counter()
    with output.open("wb") as file:
        process = subprocess.Popen([sys.executable, "-m", *words], stdout=file, cwd=ROOT)
        _, status, used = os.wait4(process.pid, 0)
    if code := os.waitstatus_to_exitcode(status):
        raise subprocess.CalledProcessError(code, words)
    cpu = used.ru_utime + used.ru_stime
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": cpu,
        "peak_bytes": used.ru_maxrss * 1024,
    }


def _answer(who: str, path: Path) -> None:
    """Writes the logits of the token to the standard output."""
    inputs = {"input_ids": _TOKEN}
    if who == "interpreter":
        logits = interpret(read_onnx(path), inputs)["logits"]
    else:
        import onnxruntime

        options = session_options(1)
        options.add_session_config_entry(_LEVEL, who)
        logits = onnxruntime.InferenceSession(str(path), options).run(["logits"], inputs)[0]
    sys.stdout.buffer.write(np.ascontiguousarray(logits, np.float32).tobytes())


def main() -> int:
    """1 where memory or answers are not what they should be."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--layers", type=parts.names, default=["4", "48"], help="as A,B")
    parser.add_argument("--answer", metavar="WHO", help="answer in this very process")
    parser.add_argument("model", nargs="?", type=Path)
    options = parser.parse_args()
    if options.answer:
        _answer(options.answer, options.model)
        return 0
    chosen = {f"gpt2 of {layers} layers": int(layers) for layers in options.layers}
    return parts.main(chosen, measured, options.output, {"bench": "large_model"})


if __name__ == "__main__":
    sys.exit(main())
