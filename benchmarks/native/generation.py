"""Tokens a second of stories260k: compiled for one token at a time, with caches elsewhere, in plain C.

    python -m benchmarks.native.generation [--seconds 20] [--tokens 60,200]

One text from its beginning, the likeliest token each, one thread, taking turns. plain C: the loops of
llama2.c's run.c (plain_decoder.c), by the compiler at its most daring (-Ofast -march=native), which reads its
own file of the same weights. onnxruntime: the same decoder with caches (deploy.caching). All say the same.
native, int8: after the int8 method, calibrated on other stories; it may say something else, and `same` tells.
`lost`: by how many per cent its loss is above the original's, of held-out stories.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import DATA, ROOT, parts
from benchmarks.compress.stock.cases import CASES
from tensmith import load
from tensmith.backend.onnx import write_onnx
from tensmith.engine import ENGINES
from tensmith.evaluate.calibrator import Calibrator
from tensmith.evaluate.likelihood import log_softmax
from tensmith.evaluate.statistics import median_interval
from tensmith.frontend.onnx import read_onnx
from tensmith.kernel.toolchain import find_compiler
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import EVERYWHERE, Step
from tensmith.rewrite.trail import simplify

CASE, WEIGHTS = CASES["stories260k"], DATA / "lm" / "stories260K.bin"
MODEL = CASE.model(DATA)
SOURCE = ROOT / "benchmarks" / "native" / "plain_decoder.c"
NATIVE, PLAIN, CACHED, SMALL = "native", "plain C", "onnxruntime", "native, int8"
INT8 = {"calibration": "mse", "scales": "mse", "rounding": "compensated", "default_bits": 8}
# (seconds of one text, its last token)
Said = tuple[float, int]


def plain(tokens: int, folder: Path) -> Callable[[], Said]:
    """The decoder in plain loops, a process that says a text whenever it is asked."""
    program = folder / "plain"
    flags = ["-Ofast", "-march=native", "-o", str(program), str(SOURCE), "-lm"]
    subprocess.run([*find_compiler().command, *flags], check=True)
    words = [str(program), str(WEIGHTS), str(tokens)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say() -> Said:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        seconds, last = process.stdout.readline().split()
        return float(seconds), int(last)

    return say


def ours(path: Path, engine: str, tokens: int) -> Callable[[], Said]:
    """A model as `generate` runs it in an engine."""
    model = load(path, engine)

    def say() -> Said:
        began = time.perf_counter()
        last = model.generate([1], tokens)[-1]
        return time.perf_counter() - began, last

    return say


@cache
def in_bytes(folder: Path) -> tuple[Path, float]:
    """The model as the int8 method makes it, in a folder, and by how many per cent its loss is above the
    original's."""
    program, calibration = simplify(read_onnx(MODEL)).program, CASE.views(DATA).calibration
    calibrator = Calibrator(calibration, None, 1)
    treated = apply_lossy(program, Step("int8", EVERYWHERE, INT8, "lossy"), calibrator)
    write_onnx(simplify(treated).program, path := folder / "small.onnx")
    return path, 100 * (nats(path) / nats(MODEL) - 1)


def nats(path: Path) -> float:
    """The loss a token, of held-out stories."""
    session = ENGINES["onnxruntime"].prepare(path, 1)
    found = []
    for inputs, labels in CASE.singles(CASE.views(DATA).held_out, MODEL):
        (rows,) = log_softmax(next(iter(session.run(inputs).values())))
        known = labels[0] >= 0
        found.append(-rows[known, labels[0][known]])
    return float(np.concatenate(found).mean())


def measured(tokens: int, seconds: float, kept: Path) -> parts.Found:
    """Texts of so many tokens, in turns. kept: the folder of what all cases run."""
    with tempfile.TemporaryDirectory(prefix="tensmith-generation-") as folder:
        say = {name: ours(MODEL, name, tokens) for name in (NATIVE, CACHED)}
        say[PLAIN] = plain(tokens, Path(folder))
        last = {name: each()[1] for name, each in say.items()}
        if len(set(last.values())) > 1:
            return parts.Found(wrong=[f"{tokens} tokens end in {last}"])
        small, lost = in_bytes(kept)
        say[SMALL] = ours(small, NATIVE, tokens)
        last[SMALL] = say[SMALL]()[1]
        rounds: list[dict[str, float]] = []
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            rounds.append({name: each()[0] for name, each in say.items()})
    row: dict[str, Any] = {"rounds": len(rounds)}
    for name in say:
        spent = np.array([each[name] for each in rounds])
        ratio = spent / [each[NATIVE] for each in rounds]
        low, high = median_interval(ratio)
        row[name] = {
            "tokens_per_second": tokens / float(np.median(spent)),
            "native_faster": float(np.median(ratio)), "low": low, "high": high,
            "same": last[name] == last[NATIVE],
        }  # fmt: skip
        print(f"{tokens:5} tokens  {name:14} {tokens / np.median(spent):9.0f} a second, "
              f"native {np.median(ratio):.2f}x [{low:.2f} to {high:.2f}]")  # fmt: skip
    row[SMALL]["lost"] = lost
    return parts.Found(row=row)


def main() -> int:
    """1 where the decoders do not say the same."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to measure each case")
    parser.add_argument("--tokens", type=parts.names, default=["60", "200"], help="of a text")
    options = parser.parse_args()
    cases = {f"{tokens} tokens": int(tokens) for tokens in options.tokens}
    settings = {"bench": "native_generation", "seconds": options.seconds}
    with tempfile.TemporaryDirectory(prefix="tensmith-generation-") as folder:
        more = {"seconds": options.seconds, "kept": Path(folder)}
        return parts.main(cases, measured, options.output, settings, **more)


if __name__ == "__main__":
    sys.exit(main())
