"""Kills a small run at many moments: every file is whole, front.json and candidates/ agree, --resume goes on.

    python -m benchmarks.trust.kills [moments] [seed] [--output FILE]

Two thirds of the kills are SIGKILL at a random time of `tensmith compress` on the tiny model of the tests; in
one third the process ends in place of a random file operation of publishing (tests/deploy/test_publish.py).
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from benchmarks import ROOT, parts
from command_line import QUICK, command, environment, write_sample
from tensmith.deploy.front import Front
from tensmith.files import sha256_file
from tensmith.report.stored import read_report

RUN = ("compress", "tiny.onnx", "--data", "npz:tiny.npz", *QUICK, "--output", "out")
# What stands before the command where publishing is cut off: the operation to die at is its first argument.
CUT = """
import sys
number = int(sys.argv.pop(1))
import test_publish
from tensmith.deploy import write
publish = write.publish
def cut(*arguments):
    test_publish._count_down(number)
    publish(*arguments)
write.publish = cut
from tensmith.cli import main
main()
"""
_OPERATIONS = 24
PART = 20  # kills in one folder, one after the other


def faults(out: Path) -> Iterator[str]:
    """What is wrong with a run's folder, whoever killed it."""
    if (out / "run.sqlite").exists():
        with closing(sqlite3.connect(out / "run.sqlite")) as database:
            if database.execute("PRAGMA integrity_check").fetchone() != ("ok",):
                yield "run.sqlite is damaged"
    if not (out / "front.json").exists():
        return
    for point in Front.read(out).points:
        held = (
            {file.name: sha256_file(file) for file in point.folder.iterdir()} if point.folder.is_dir() else {}
        )
        if held != point.files:
            yield f"{point.folder} is not the point that front.json lists"
    if (out / "best").is_dir():
        stated = json.loads((out / "best" / "certificate.json").read_text())["files"]
        if any(sha256_file(out / "best" / name) != digest for name, digest in stated.items()):
            yield "best/ does not hold the files of its certificate"
    if (out / "report.json").exists():
        read_report(out)


def kill(
    folder: Path, arguments: tuple[str, ...], rng: random.Random, publishing: bool, seconds: float
) -> str:
    """Starts a run that is killed at a random moment; which one, in words."""
    if publishing:
        number = rng.randrange(_OPERATIONS)
        path = f"{ROOT}/tests:{ROOT}/tests/deploy"
        subprocess.run(
            [sys.executable, "-c", CUT, str(number), *arguments],
            cwd=folder, env={**environment(), "PYTHONPATH": path}, capture_output=True,
        )  # fmt: skip
        return f"operation {number} of publishing"
    after = rng.uniform(0, seconds)
    process = subprocess.Popen(
        command(*arguments),
        cwd=folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return f"{after:.2f} s"


def killed(moments: range, seed: int) -> parts.Found:
    """Every fault that was found in one folder."""
    rng, found = random.Random(f"{seed} {moments.start}"), []
    kinds: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_sample(folder)
        start = time.monotonic()
        subprocess.run(command(*RUN), cwd=folder, env=environment(), check=True, capture_output=True)
        seconds = time.monotonic() - start
        for moment in moments:
            if rng.random() < 0.3:  # else the run goes on with what the last kill left
                shutil.rmtree(folder / "out", ignore_errors=True)
            again = ("--resume",) if (folder / "out" / "run.sqlite").exists() else ()
            publishing = moment % 3 == 0
            words = kill(folder, (*RUN, *again), rng, publishing, seconds)
            kinds["while publishing" if publishing else "at a time"] += 1
            kinds["resumed"] += bool(again)
            found += [f"{moment}, {words}: {fault}" for fault in faults(folder / "out")]
        again = ("--resume",) if (folder / "out" / "run.sqlite").exists() else ()
        last = subprocess.run(
            command(*RUN, *again), cwd=folder, env=environment(), capture_output=True, text=True
        )
        found += [f"at last: {last.stderr}"] if last.returncode else []
        found += [f"at last: {fault}" for fault in faults(folder / "out")]
        left = [each.name for each in (folder / "out").iterdir() if each.name.endswith((".new", ".old"))]
        return parts.Found(kinds, (*found, *(f"left over: {each}" for each in left)))


def main() -> int:
    """Prints every fault; 1 if there are any."""
    parser = parts.arguments(__doc__)
    parser.add_argument("moments", nargs="?", type=int, default=200)
    parser.add_argument("seed", nargs="?", type=int, default=0)
    options = parser.parse_args()
    every = {
        str(start): range(start, min(start + PART, options.moments))
        for start in range(0, options.moments, PART)
    }
    settings = {"bench": "kills", "seed": options.seed}
    return parts.main(every, killed, options.output, settings, seed=options.seed)


if __name__ == "__main__":
    sys.exit(main())
