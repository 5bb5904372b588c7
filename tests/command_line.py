"""The command line as users have it, and a model with data small enough to run it often."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from forked import Commands

# A run that is over in seconds: one engine, few samples, hardly any time.
QUICK = ("--engines", "onnxruntime", "--time-budget", "1s", "--preprocess", "raw")
TIMEOUT_S = 180
Array = np.ndarray[Any, Any]


@functools.cache
def commands() -> Commands:
    """The server of this process, which starts at the first command and ends with the tests."""
    server = Commands()
    atexit.register(server.__exit__, None, None, None)
    return server.__enter__()


def tensmith(
    *arguments: str | Path, folder: Path, file_limit: int | None = None
) -> subprocess.CompletedProcess[str]:
    """`tensmith ARGUMENTS` in `folder`; `file_limit` is the largest file in bytes it may write."""
    outcome = commands()(
        *arguments, folder=folder, seconds=TIMEOUT_S, file_limit=file_limit, memory=None,
        environment=environment(),
    )  # fmt: skip
    assert outcome.code is not None, outcome.fault
    return subprocess.CompletedProcess(arguments, outcome.code, outcome.stdout, outcome.stderr)


@contextlib.contextmanager
def started(*arguments: str | Path, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The same, not waited for; whatever happens in the block, it does not outlive it."""
    process = subprocess.Popen(
        command(*arguments),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "tensmith", *map(str, arguments)]


def environment() -> dict[str, str]:
    return {**os.environ, "NO_COLOR": "1", "COLUMNS": "100"}


def refused(result: subprocess.CompletedProcess[str], code: int, *words: str) -> str:
    """Asserts exit code `code` and one sentence on stderr that holds `words`; returns it."""
    assert result.returncode == code, result.stderr
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: ")
    for word in words:
        assert word in lines[0]
    return lines[0]


def tiny_model(**weights: Array) -> onnx.ModelProto:
    """conv 3x3, relu, global average, gemm: images [n, 3, 8, 8] to 4 classes. `weights` replace its own."""
    random = np.random.default_rng(0)
    own: dict[str, Array] = {
        "w": random.standard_normal((8, 3, 3, 3)),
        "b": random.standard_normal(8),
        "fw": random.standard_normal((4, 8)),
        "fb": np.zeros(4),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "fw", "fb"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(a.astype(np.float32), name) for name, a in {**own, **weights}.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def images(count: int = 240, size: int = 8) -> Array:
    """uint8 [count, size, size, 3]."""
    return np.random.default_rng(1).integers(0, 256, (count, size, size, 3)).astype(np.uint8)


def answers(model: onnx.ModelProto, samples: Array) -> Array:
    """What the model answers on raw images: with these as labels it is right every time."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    logits = session.run(None, {"x": samples.transpose(0, 3, 1, 2).astype(np.float32)})[0]
    return np.asarray(logits.argmax(axis=1))


def write_sample(folder: Path) -> None:
    """tiny.onnx and tiny.npz, whose labels are the model's own answers, all four about as frequent."""
    samples = images()
    model = tiny_model()
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    logits = session.run(None, {"x": samples.transpose(0, 3, 1, 2).astype(np.float32)})[0]
    model = tiny_model(fb=-np.median(logits, axis=0))
    onnx.save(model, folder / "tiny.onnx")
    np.savez(folder / "tiny.npz", x=samples, y=answers(model, samples))


def candidates(out: Path) -> list[tuple[int, str, str]]:
    """(number, key, body) of every candidate in a run's database; empty while there is none."""
    try:
        with sqlite3.connect(f"file:{out / 'run.sqlite'}?mode=ro", uri=True, timeout=10) as database:
            return database.execute("SELECT number, key, body FROM candidates ORDER BY number").fetchall()
    except sqlite3.OperationalError:
        return []


def wait_for_candidates(process: subprocess.Popen[str], out: Path, count: int) -> None:
    """Returns when a run has measured `count` candidates."""
    deadline = time.monotonic() + TIMEOUT_S
    while len(candidates(out)) < count:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.1)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())
