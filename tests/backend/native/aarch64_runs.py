"""Compiles what a folder holds into static programs for aarch64 and runs those under qemu."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensmith.backend.native.choose.choosers import Chooser, estimated
from tensmith.backend.native.emit import folder as folders
from tensmith.backend.native.emit.header import print_header
from tensmith.backend.native.emit.source import print_c
from tensmith.backend.native.plan import NativePlan, make_plan
from tensmith.cache import fetch, user_cache
from tensmith.files import sha256_bytes
from tensmith.ir import Program
from tensmith.kernel import Isa
from tensmith.kernel.toolchain import OPTIMIZED

Array = np.ndarray[Any, Any]

QEMU = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
_START = Path(__file__).with_name("start_aarch64.c")

needs_qemu = [
    pytest.mark.skipif(QEMU is None, reason="no qemu-aarch64: apt-get install qemu-user"),
    pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="no ziglang: pip install ziglang"),
]


def build(
    program: Program, isa: Isa, folder: Path, chooser: Callable[[int], Chooser] = estimated
) -> tuple[Path, NativePlan]:
    """A static program of the C files of a compiled model, and the plan behind it."""
    plan = make_plan(program, isa, chooser)
    plan.weights.tofile(folder / "weights.bin")
    sources = {
        "model.c": print_c(plan),
        "model.h": print_header(plan),
        "main.c": Path(folders.__file__).with_name("main.c").read_text(),
        "start.c": _START.read_text(),
    }
    flags = [*OPTIMIZED, *(flag.replace("+fp16", "+fullfp16") for flag in isa.flags)]
    version = importlib.metadata.version("ziglang")
    of = {
        "zig": version,
        "flags": " ".join(flags),
        **{n: sha256_bytes(t.encode()) for n, t in sources.items()},
    }
    made = fetch(user_cache("aarch64"), of, lambda room: _compile(sources, flags, room))
    shutil.copy(made / "program", folder / "program")
    return folder / "program", plan


def _compile(sources: Mapping[str, str], flags: Sequence[str], room: Path) -> None:
    """A new folder with the program of some sources; a run on the same ones finds it in the user's cache."""
    room.mkdir()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in sources.items():
            (folder / file).write_text(text)
        _zig(folder, *flags, "-c", "model.c", "-o", "model.o")
        _zig(folder, *flags, "-c", "main.c", "-o", "main.o")
        _zig(folder, *OPTIMIZED, "-ffreestanding", "-c", "start.c", "-o", "start.o")
        _zig(folder, "-nostdlib", "-static", "model.o", "main.o", "start.o", "-o", "program")
        shutil.copy(folder / "program", room / "program")


def run(built: tuple[Path, NativePlan], x: Array) -> dict[str, Array]:
    """What the program writes for the input x."""
    path, plan = built
    assert QEMU is not None
    folder = path.parent
    x.tofile(folder / "x.bin")
    types = {name: plan.program.type(name) for name in plan.program.outputs}
    files = [folder / f"y{index}.bin" for index in range(len(types))]
    words = [QEMU, path, folder / "weights.bin", folder / "x.bin", *files]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done
    return {
        name: np.fromfile(file, type_.numpy).reshape(type_.static or ())
        for file, (name, type_) in zip(files, types.items())
    }


def _zig(folder: Path, *words: str) -> None:
    caches = {"ZIG_LOCAL_CACHE_DIR": str(folder), "ZIG_GLOBAL_CACHE_DIR": str(user_cache("zig"))}
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl", *words]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | caches, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
