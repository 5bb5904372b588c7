"""Lifts the four C files beside this one to PyTorch, checks the results and measures them.

    python examples/lifting/run.py [--threads 1]

Each source is compiled with `cc -O3 -march=native`; compiled function and lifted one take turns on the same
arrays, and the ratio is the median over the turns. Needs a C compiler, and the extras `lift` and `torch`.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tensmith.lifting.pipeline import lift_file

HERE = Path(__file__).resolve().parent
TURNS = 15
Arguments = list[Any]


def arguments(rng: np.random.Generator) -> dict[str, tuple[Arguments, list[int]]]:
    """Each function's arguments, and which of them it writes."""

    def image(count: int) -> np.ndarray[Any, Any]:
        return rng.integers(0, 256, count, dtype=np.uint8)

    def floats(*shape: int) -> np.ndarray[Any, Any]:
        return rng.standard_normal(shape, dtype=np.float32)

    height, width, length, d, rows, size = 480, 640, 512, 64, 512, 512
    pixels = height * width
    return {
        "blur": ([image(pixels), np.zeros(pixels, np.uint8), height, width], [1]),
        "blend": ([image(pixels), image(pixels), np.zeros(pixels, np.uint8), pixels, 77], [2]),
        "attention": (
            [*(floats(length * d) for _ in "qkv"), floats(length * length), floats(length * d), length, d],
            [3, 4],
        ),
        "rms_norm": ([floats(rows * size), floats(rows * size), floats(size), rows, size], [0]),
    }


def compiled(name: str, folder: Path) -> Callable[..., None]:
    """The C function, which writes into its arguments."""
    library = folder / f"{name}.so"
    source = HERE / f"{name}.c"
    subprocess.run(
        ["cc", "-O3", "-march=native", "-shared", "-fPIC", source, "-o", library, "-lm"], check=True
    )
    function = ctypes.CDLL(str(library))[name]
    function.restype = None

    def call(*values: Any) -> None:
        function(*(v.ctypes.data_as(ctypes.c_void_p) if isinstance(v, np.ndarray) else v for v in values))

    return call


def lifted(name: str, folder: Path) -> Callable[..., Any]:
    """The proved PyTorch function."""
    (result,) = lift_file(HERE / f"{name}.c", name, ["torch"], folder)
    if not result.proved:
        sys.exit(f"{name}.c:{result.line}:{result.column}: {result.reason}")
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    print(f"{name}: {result.obligations} obligations proved in {result.seconds:.2f} s")
    return getattr(module, name)  # type: ignore[no-any-return]


def seconds(call: Callable[[], Any]) -> float:
    """Of one call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def compare(name: str, values: Arguments, written: list[int], folder: Path) -> str:
    """One line of the table, once both functions gave the same outputs."""
    source, target = compiled(name, folder), lifted(name, folder)
    given = [torch.from_numpy(v.copy()) if isinstance(v, np.ndarray) else v for v in values]
    found = target(*given)
    source(*values)
    for place, output in zip(written, found if isinstance(found, tuple) else (found,)):
        np.testing.assert_allclose(output.numpy(), values[place], rtol=1e-4, atol=1e-5)
    turns = [(seconds(lambda: source(*values)), seconds(lambda: target(*given))) for _ in range(TURNS)]
    ratio = statistics.median(before / after for before, after in turns)
    before, after = (1000 * statistics.median(column) for column in zip(*turns))
    return f"{name:10} {before:9.2f} ms {after:9.2f} ms {ratio:7.2f}x"


def main() -> None:
    """Lifts, checks, measures, prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch; the C code has one")
    torch.set_num_threads(parser.parse_args().threads)
    with tempfile.TemporaryDirectory() as folder:
        cases = arguments(np.random.default_rng(0)).items()
        lines = [compare(name, *case, Path(folder)) for name, case in cases]
    print(f"\n{'':10} {'C, -O3':>12} {'PyTorch':>12} {'faster':>8}", *lines, sep="\n")


if __name__ == "__main__":
    main()
