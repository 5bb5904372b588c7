"""What is compared: the delivered file on both runtimes, the files of the peers, and tensmith's fronts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import ROOT
from benchmarks.compress.stock.cases import Case
from benchmarks.compress.stock.make import MEMORY_BYTES
from tensmith.errors import OutputError
from tensmith.evaluate.contender import Contender
from tensmith.files import sha256_file, write_text

TENSMITH = "tensmith"
# What OpenVINO takes for layers in floats by itself, on processors that multiply so.
BF16 = (("precision", "bf16"),)
OUT_OF_MEMORY = ("MemoryError", "bad_alloc", "nable to allocate", "ailed to allocate")

# Peer -> (maker, what distinguishes it) of each of its files; a user would keep the best, so all count.
PEERS = {
    "ONNX Runtime fp32": (("ort-fp32-folded", "folded first"),),
    "ONNX Runtime static int8": (("ort-static-minmax", "min-max"), ("ort-static-percentile", "percentile")),
    "ONNX Runtime dynamic int8": (("ort-dynamic", ""),),
    "NNCF post-training": (("nncf-performance", "performance"), ("nncf-mixed", "mixed")),
    "NNCF accuracy-aware": (("nncf-accuracy-aware", ""),),
}


@dataclass(frozen=True)
class Entry:
    """One file set on one engine. `failure` says why there is none.

    runtime: onnxruntime or openvino. packed: tensmith's own coded file.
    """

    peer: str
    variant: str
    runtime: str
    contender: Contender | None
    files: tuple[Path, ...] = ()
    packed: Path | None = None
    note: str = ""
    failure: str = ""


def originals(model: Path) -> list[Entry]:
    """The delivered file: the baseline first, then OpenVINO in fp32 and in its default on CPUs with bf16."""
    bf16 = Contender("openvino", model, BF16)
    return [
        Entry("ONNX Runtime fp32", "as delivered", "onnxruntime", Contender("onnxruntime", model), (model,)),
        Entry("OpenVINO fp32", "as delivered", "openvino", Contender("openvino", model), (model,)),
        Entry("OpenVINO bf16", "as delivered", "openvino", bf16, (model,)),
    ]


def made(case: Case, data: Path, folder: Path, limit: float) -> Iterator[Entry]:
    """Every peer's files, made once and kept in `folder`; each has `limit` seconds and MEMORY_BYTES."""
    for peer, makers in PEERS.items():
        for maker, variant in makers:
            home = folder / maker
            record = home / "made.json"
            if not record.exists() or json.loads(record.read_text()).get("limit", limit) < limit:
                home.mkdir(parents=True, exist_ok=True)
                failure = _make(maker, case, data, home, limit)
                if failure:
                    write_text(record, json.dumps({"failure": failure, "limit": limit}))
            yield from _entries(peer, variant, home, json.loads(record.read_text()))


def _make(maker: str, case: Case, data: Path, home: Path, limit: float) -> str:
    """Runs the maker in its own process, its talk going to home/log.txt; "" or why it failed."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.compress.stock.make",
        maker,
        case.name,
        str(data.absolute()),
        str(home.absolute()),
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with (home / "log.txt").open("w") as log:
        try:
            done = subprocess.run(command, stdout=log, stderr=log, timeout=limit, env=environment, cwd=home)
        except subprocess.TimeoutExpired:
            return f"not finished after {limit:.0f} s"
    if done.returncode == 0:
        return ""
    lines = (home / "log.txt").read_text(errors="replace").strip().splitlines()
    if lines and any(sign in lines[-1] for sign in OUT_OF_MEMORY):
        return f"needs more than {MEMORY_BYTES >> 30} GiB of memory"
    return lines[-1][:200] if done.returncode > 0 and lines else f"died with signal {-done.returncode}"


def _entries(peer: str, variant: str, home: Path, record: dict[str, str]) -> Iterator[Entry]:
    """What a maker left; OpenVINO's own format with other layers in floats, and in bfloat16, its default."""
    if "failure" in record:
        runtime = "openvino" if home.name.startswith("nncf") else "onnxruntime"
        yield Entry(peer, variant, runtime, None, failure=record["failure"])
        return
    path = home / record["file"]
    if path.suffix == ".xml":
        from benchmarks.compress.stock.ir import (
            IrContender,  # registers an engine, which only this benchmark wants
        )

        files = (path, path.with_suffix(".bin"))
        yield Entry(peer, variant, "openvino", IrContender("openvino-ir", path), files)
        both = f"{variant}, bf16" if variant else "bf16"
        yield Entry(peer, both, "openvino", IrContender("openvino-ir", path, BF16), files)
        return
    contender = Contender("onnxruntime", path)
    yield Entry(peer, variant, "onnxruntime", contender, (path,), note=record["note"])


def front(folder: Path) -> list[Entry]:
    """The points of a finished run, their files found by hash; OutputError if one is missing.

    A point's engine is a name, with settings after it where it has any: "openvino precision=bf16".
    """
    document = json.loads((folder / "front.json").read_text())
    files = {sha256_file(path): path for path in folder.rglob("model.*")}
    entries = []
    for point in document["points"]:
        found = {name: files.get(digest) for name, digest in point["files"].items()}
        if lost := [name for name, path in found.items() if path is None and Path(name).stem == "model"]:
            raise OutputError(f"{folder} lacks {lost[0]} of point {point['id']}; run tensmith compress again")
        paths = [path for path in found.values() if path is not None]
        engine, *settings = point["engine"].split()
        pairs = tuple((name, value) for name, _, value in (word.partition("=") for word in settings))
        (model,) = (path for path in paths if path.suffix == ".onnx")
        written = tuple(path for path in paths if path == model or path.name == "model.onnx.data")
        packed = next((path for path in paths if path.suffix == ".packed"), None)
        entries.append(Entry(TENSMITH, point["id"], engine, Contender(engine, model, pairs), written, packed))
    return entries
