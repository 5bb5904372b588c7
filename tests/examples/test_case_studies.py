"""The case studies' steps do what their pages say: they end a build where something does not hold."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import environment, tensmith

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DIGITS = EXAMPLES / "digits"
START = EXAMPLES.parent / "tests" / "backend" / "native" / "start_aarch64.c"
# A compiler that links what little of a C library START has; zig would build a whole one, for a minute.
WITHOUT_LIBRARY = """#!/bin/sh -e
zig() {{ {python} -m ziglang cc -target aarch64-linux-musl "$@"; }}
options=
while [ "$1" != main.c ]; do options="$options $1"; shift; done
zig -O2 -ffreestanding -c {start} -o start.o
zig $options -c main.c -o main.o
zig $options -c model.c -o model.o
zig -nostdlib -static main.o model.o start.o -o program
"""
needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="no make")


def planned(study: str, *settings: str) -> str:
    """The commands that make would run, with nothing made yet."""
    words = ["make", "--no-print-directory", "-n", "-C", str(EXAMPLES / study), *settings]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@needs_make
def test_a_detector_ships_after_its_bound_and_its_certificate(tmp_path: Path) -> None:
    told = planned("automotive", f"OUT={tmp_path}", "DATA=/data", "LATENCY_MS=20").replace("\\\n", "")
    compress, bench, verify = (told.index(f"tensmith {name}") for name in ("compress", "bench", "verify"))
    assert compress < bench < verify
    assert "--max-latency 20" in told and "--max-p99 20" in told
    assert f"verify {tmp_path}/best --original /data/models/fastestdet_coco.onnx" in told


@needs_make
def test_missing_data_is_said() -> None:
    words = ["make", "-C", str(EXAMPLES / "automotive"), "OUT=nowhere", "DATA=/nowhere"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "give DATA=FOLDER, as README.md says" in done.stderr


def test_a_bound_that_is_not_held_fails_the_step(tmp_path: Path) -> None:
    model = str(DIGITS / "digits.onnx")
    for bound, code in (("0.000001", 1), ("100000", 0)):
        words = ("bench", model, "--engines", "onnxruntime", "--seconds", "0.5", "--max-p99", bound, "--json")
        done = tensmith(*words, folder=tmp_path)
        assert done.returncode == code, done.stderr
        document = json.loads(done.stdout)
        assert len(document["beyond"]) == code
        assert document["models"][0]["engines"][0]["tail"]["runs"] >= 400


@needs_make
def test_the_board_s_program_is_run_beside_its_times(tmp_path: Path) -> None:
    told = planned("edge_vision", f"OUT={tmp_path}")
    steps = [
        told.index(word) for word in ("tensmith compress", "tensmith compile", "emulate.py", "tensmith study")
    ]
    assert steps == sorted(steps)


@pytest.mark.skipif(shutil.which("qemu-aarch64") is None, reason="no qemu-aarch64: apt-get install qemu-user")
def test_emulated_answers_are_compared_and_a_wrong_model_is_noticed(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    model, data = DIGITS / "digits.onnx", f"npz:{DIGITS / 'digits.npz'}"
    board = tmp_path / "board"
    compiled = tensmith(
        "compile", str(model), "--target", "raspberry-pi-5", "--output", str(board), folder=tmp_path
    )
    assert compiled.returncode == 0, compiled.stderr
    compiler = tmp_path / "cc"
    compiler.write_text(WITHOUT_LIBRARY.format(python=sys.executable, start=START))
    compiler.chmod(0o755)
    script = EXAMPLES / "edge_vision" / "emulate.py"
    words = [sys.executable, script, board, model, "--data", data, "--samples", "3", "--cc", compiler]
    for wrong in (False, True):
        if wrong:
            weights = bytearray((board / "weights.bin").read_bytes())
            weights[::4] = bytes(len(weights[::4]))
            weights[3::4] = bytes(len(weights[3::4]))
            (board / "weights.bin").write_bytes(weights)
        done = subprocess.run(
            list(map(str, words)), capture_output=True, text=True, check=False, env=environment()
        )
        assert done.returncode == int(wrong), done.stdout + done.stderr
