"""Runs what `tensmith compile --target` wrote for an Arm board under qemu-aarch64, beside ONNX Runtime.

    python emulate.py FOLDER MODEL.onnx --data KIND:PATH [--preprocess auto] [--samples 100] [--cc COMMAND]

FOLDER is what was compiled, MODEL the file that it was compiled from. Samples are those that no search saw.
COMMAND is a C compiler that makes static programs for the board, with its options; by default zig's, which
builds a C library at first, for a minute or two. The exit status is 1 where an answer is far off or of
another class. An emulator says nothing about time.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tensmith.config import make_config
from tensmith.data import Subset
from tensmith.engine import ENGINES
from tensmith.engine.base import Arrays
from tensmith.progress import silent
from tensmith.request import judged_by, read_request

EMULATOR = "qemu-aarch64"
CROSS_COMPILER = f"{shlex.quote(sys.executable)} -m ziglang cc -target aarch64-linux-musl -static"
# How far outputs may be, over the largest of them: a code of 8 bits may fall to either side of a border.
NEAR = 0.05


def samples(model: Path, data: str, preprocess: str, count: int) -> Iterator[Arrays]:
    """Held-out samples, one by one, as the model takes them."""
    config = make_config(model=str(model), data=data, preprocess=preprocess, held_out_samples=count)
    request = read_request(config, data)
    task, view = judged_by(request, config, silent), request.splits.held_out
    for number in range(len(view)):
        yield task.example(request.program, Subset(view.part, view.indices[number : number + 1]))


def build(folder: Path, compiler: str) -> Path:
    """A static Linux program of the C in the folder, by the options in its first line."""
    first = (folder / "model.c").read_text(encoding="utf-8").partition("\n")[0]
    options = first.partition(": cc ")[2].partition(" main.c")[0].replace("+fp16", "+fullfp16")
    subprocess.run(
        [*shlex.split(compiler), *options.split(), "main.c", "model.c", "-o", "program"],
        cwd=folder,
        check=True,
    )
    return folder / "program"


def emulated(program: Path, inputs: Arrays) -> Arrays:
    """What the program answers; inputs and outputs in the order of model.json."""
    folder = program.parent
    manifest = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    given, wanted = (manifest[key] for key in ("inputs", "outputs"))
    reads = [folder / f"in{number}.bin" for number in range(len(given))]
    writes = [folder / f"out{number}.bin" for number in range(len(wanted))]
    for file, spec in zip(reads, given):
        inputs[spec["name"]].tofile(file)
    subprocess.run([EMULATOR, program, folder / "weights.bin", *reads, *writes], check=True)
    return {
        spec["name"]: np.fromfile(file, spec["dtype"]).reshape(spec["shape"])
        for file, spec in zip(writes, wanted)
    }


def main() -> int:
    """1 where an answer differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", required=True)
    parser.add_argument("--preprocess", default="auto")
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--cc", default=CROSS_COMPILER)
    options = parser.parse_args()
    if shutil.which(EMULATOR) is None:
        print(f"{EMULATOR} is not installed: apt-get install qemu-user", file=sys.stderr)
        return 1
    program = build(options.folder.resolve(), options.cc)
    here = ENGINES["onnxruntime"].prepare(options.model, 1)
    same = count = 0
    farthest = 0.0
    for inputs in samples(options.model, options.data, options.preprocess, options.samples):
        expected, found = here.run(inputs), emulated(program, inputs)
        count += 1
        first = next(iter(expected))
        same += int(np.argmax(expected[first]) == np.argmax(found[first]))
        for name, array in expected.items():
            scale = max(float(np.abs(array).max()), 1e-6)
            farthest = max(farthest, float(np.abs(found[name] - array).max()) / scale)
    print(f"{same} of {count} answers are those of ONNX Runtime; outputs differ by {farthest:.1e} at most")
    return int(same < count or farthest > NEAR)


if __name__ == "__main__":
    sys.exit(main())
