"""Tokens a second of stories260k: compiled for one token at a time, with caches elsewhere, in plain C.

    python -m benchmarks.native.generation [--seconds 20] [--tokens 60,200]

One text from its beginning, the likeliest token each, one thread, taking turns. plain C: the loops of
llama2.c's run.c (plain_decoder.c), by the compiler at its most daring (-Ofast -march=native), which reads its
own file of the same weights. onnxruntime: the same decoder with caches (deploy.caching). All say the same.
native, 8 bits: after `tensmith quantize --bits 8`, which may say something else, and `same` tells.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks import DATA, ROOT, parts
from tensmith import load, quantize
from tensmith.evaluate.statistics import median_interval
from tensmith.kernel.toolchain import find_compiler

MODEL, WEIGHTS = DATA / "models" / "stories260k.onnx", DATA / "lm" / "stories260K.bin"
SOURCE = ROOT / "benchmarks" / "native" / "plain_decoder.c"
NATIVE, PLAIN, CACHED, SMALL = "native", "plain C", "onnxruntime", "native, 8 bits"
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


def measured(tokens: int, seconds: float) -> parts.Found:
    """Texts of so many tokens, in turns."""
    with tempfile.TemporaryDirectory(prefix="tensmith-generation-") as folder:
        say = {name: ours(MODEL, name, tokens) for name in (NATIVE, CACHED)}
        say[PLAIN] = plain(tokens, Path(folder))
        last = {name: each()[1] for name, each in say.items()}
        if len(set(last.values())) > 1:
            return parts.Found(wrong=[f"{tokens} tokens end in {last}"])
        quantize(MODEL, small := Path(folder) / "small.onnx", bits=8)
        say[SMALL] = ours(small, NATIVE, tokens)
        last[SMALL] = say[SMALL]()[1]
        rounds: list[dict[str, float]] = []
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            rounds.append({name: each()[0] for name, each in say.items()})
    row: dict[str, object] = {"rounds": len(rounds)}
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
    return parts.Found(row=row)


def main() -> int:
    """1 where the decoders do not say the same."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to measure each case")
    parser.add_argument("--tokens", type=parts.names, default=["60", "200"], help="of a text")
    options = parser.parse_args()
    cases = {f"{tokens} tokens": int(tokens) for tokens in options.tokens}
    settings = {"bench": "native_generation", "seconds": options.seconds}
    return parts.main(cases, measured, options.output, settings, seconds=options.seconds)


if __name__ == "__main__":
    sys.exit(main())
