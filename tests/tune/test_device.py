"""Tuning over TVM's RPC, the server being on this machine: what a device says, and what is lost with it."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import json
import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from small_networks import answered, problem, two_layers

from command_line import refused, tensmith
from own_cache import own_cache
from tensmith.backend.native.emit.loader import Model
from tensmith.cli.tune import _place
from tensmith.errors import EngineError, MissingExtra, UsageError
from tensmith.hardware import detect_cpu, load_target
from tensmith.kernel import ALGORITHMS, Kernel, candidates, host_isa, isa_named
from tensmith.kernel.alone import text_alone
from tensmith.kernel.timings import Timings
from tensmith.kernel.toolchain import compile_library
from tensmith.progress import silent
from tensmith.tune.network import tasks_of
from tensmith.tune.search import Budget, TuningSearch
from tensmith.tune.tvm import device as remote
from tensmith.tune.tvm.device import Description, DeviceLost, RpcDevice
from tensmith.tune.tvm.packages import check_packages
from tensmith.tune.tvm.remote import RpcSession

# The server imports torch where it can, which takes seconds and is of no use here.
_SERVE = """
import runpy, sys
sys.modules["torch"] = None
runpy.run_module("tvm.exec.rpc_server", run_name="__main__")
"""


def installed() -> bool:
    try:
        check_packages()
    except (MissingExtra, EngineError):
        return False
    return True


needs_tvm = pytest.mark.skipif(not installed(), reason="TVM is not installed: pip install 'tensmith[tvm]'")


@contextlib.contextmanager
def serving() -> Iterator[tuple[str, int]]:
    """(address, process group) of a server on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ("--host", "127.0.0.1", "--port", str(port), "--port-end", str(port + 1))
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, *options], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stderr is not None
        while "bind to" not in (line := process.stderr.readline()):
            assert line, "the server did not start"
        yield f"127.0.0.1:{port}", process.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving() as (found, _):
        yield found


@pytest.fixture
def device(address: str) -> Iterator[RpcDevice]:
    """A session with it: the server has one at a time."""
    with RpcDevice(address, patience=3.0) as made:
        yield made


def first(**changes: object) -> Kernel:
    return candidates(dataclasses.replace(problem(), **changes), host_isa())[0]  # type: ignore[arg-type]


@needs_tvm
def test_a_device_says_what_it_is_and_times_kernels(device: RpcDevice) -> None:
    cpu, found = detect_cpu(), device.describe()
    assert (found.model, found.architecture, found.features) == (cpu.model, cpu.architecture, cpu.features)
    assert found.isa(None) == host_isa()
    for dtype, memory in (("f32", 0), ("u8", 1), ("f32", 2)):
        assert 0 < device.seconds(first(dtype=dtype), memory, 0.01) < 1


@needs_tvm
def test_a_kernel_that_crashes_or_hangs_there_is_survived(
    device: RpcDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = first()
    broken = (
        "#include <string.h>\n#include <math.h>\n"
        "void repeat(long f, long n, long c, long s, const void *volatile in, const char *w, const float *b,"
        " void *out, void *t) {{ {} }}"
    )
    bodies = {"__builtin_trap();": "died", "for (;;) in = out;": "did not end within 3 s"}
    for body, words in bodies.items():
        with monkeypatch.context() as patch:
            patch.setattr(remote, "text_alone", lambda _, body=body: broken.format(body))
            with pytest.raises(EngineError, match=words):
                device.seconds(kernel, 0, 0.01)
        assert device.seconds(kernel, 0, 0.01) > 0


@needs_tvm
def test_a_device_that_goes_takes_nothing_along(tmp_path: Path) -> None:
    timings = Timings(tmp_path / "timings.sqlite")
    tasks, memory = tasks_of(two_layers(), host_isa())
    with serving() as (address, group), RpcDevice(address, patience=3.0) as device:

        def measure(kernel: Kernel, memory: int, span: float) -> float:
            if search.trials == 3:
                os.killpg(group, signal.SIGKILL)
            return device.seconds(kernel, memory, span)

        search = TuningSearch(tasks, memory, timings, measure)
        with pytest.raises(DeviceLost, match=r"does not answer.*what was timed is kept"):
            search.run(Budget(600.0))
    again = Timings(timings.path)
    assert sum(len(again.known(task.kernels, memory)) for task in tasks) == 2


@needs_tvm
def test_a_network_is_tuned_there_and_compiled_for_it(
    address: str, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_cache(tmp_path / "cache", monkeypatch)
    arguments = ("tune", tiny / "tiny.onnx", "--rpc", address, "--trials", "3", "--json", "--output", "made")
    found = json.loads(tensmith(*arguments, "--target", "host", folder=tmp_path).stdout)
    assert found["trials"] == 3 and found["failures"] == []
    assert all(row["best"]["microseconds"] > 0 for row in found["problems"])
    x, truth = answered(tiny / "tiny.onnx")
    np.testing.assert_allclose(Model(tmp_path / "made")(x=x)["y"], truth, rtol=1e-4, atol=1e-4)


def test_the_timings_of_a_device_are_closed_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_cache(tmp_path / "cache", monkeypatch)
    monkeypatch.setattr(remote, "check_packages", lambda: None)
    monkeypatch.setattr(RpcDevice, "describe", lambda _: Description("old", "aarch64", frozenset({"neon"})))
    with _place("127.0.0.1:1", None, silent) as place:
        place.timings.add(candidates(problem(), place.isa)[0], 0, 1e-6)
        assert place.timings._db is not None
    assert place.timings._db is None


@needs_tvm
def test_nobody_at_an_address_is_one_sentence(tiny: Path, tmp_path: Path) -> None:
    arguments = ("tune", tiny / "tiny.onnx", "--rpc", "127.0.0.1:1")
    refused(tensmith(*arguments, folder=tmp_path), 1, "127.0.0.1:1 does not answer", "rpc_server")


class Session:
    """Stands for tvm's: a device that holds files and loads what it is told to."""

    def __init__(self, load_module: Callable[[str], dict[str, Callable[[], float]]]) -> None:
        self.files: set[str] = set()
        self.load_module = load_module

    def cpu(self) -> None:
        """Its memory."""

    def upload(self, data: bytearray, name: str) -> None:
        """Keeps a file."""
        self.files.add(name)

    def remove(self, name: str) -> None:
        """Drops a file."""
        self.files.remove(name)


@pytest.mark.parametrize("words", ["is refused", "has no function"])
def test_no_library_stays_on_a_device(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> dict[str, Callable[[], float]]:
        if words == "is refused":
            raise RuntimeError(f"{name} {words}")
        return {}

    session = Session(load)
    rpc = SimpleNamespace(connect=lambda host, port: session)
    monkeypatch.setitem(sys.modules, "tvm", SimpleNamespace(rpc=rpc, runtime=SimpleNamespace(tensor=None)))
    (tmp_path / "library.so").write_bytes(b"code")
    request = {"library": str(tmp_path / "library.so"), "function": "time", "numbers": []}
    asked = RpcSession("host", 9090)
    if words == "is refused":
        assert asked.answer(request, {}) == ({"refused": "1.so is refused"}, {})
    else:
        with pytest.raises(KeyError, match="time"):
            asked.answer(request, {})
    assert session.files == set()


def answering(said: object, monkeypatch: pytest.MonkeyPatch) -> RpcDevice:
    """A device that says this of all that it is asked."""
    monkeypatch.setattr(remote, "check_packages", lambda: None)
    device = RpcDevice("127.0.0.1:1")
    monkeypatch.setattr(device, "_compiled", lambda *_: "library.so")
    monkeypatch.setattr(device._worker, "ask", lambda *_: ({"value": said}, {"text": np.zeros(9, np.uint8)}))
    return device


def test_no_time_is_none_that_a_call_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(0.0, monkeypatch) as device, pytest.raises(EngineError, match="took no time"):
        device.seconds(first(), 0, 0.01)


@pytest.mark.parametrize("said", [math.nan, math.inf, -math.inf, -(10**6), 2**1024, "text", None])
def test_what_no_function_of_ours_says_is_refused(said: object, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(said, monkeypatch) as device:
        with pytest.raises(EngineError, match=r"127.0.0.1:1 answers .*, as no function of ours does"):
            device.seconds(first(), 0, 0.01)
        with pytest.raises(EngineError, match=r"127.0.0.1:1 answers .*, as no function of ours does"):
            device.describe()


@pytest.mark.parametrize("said", [-1, 2**20 + 1])
def test_a_text_of_no_length_is_refused(said: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(said, monkeypatch) as device, pytest.raises(EngineError, match=f"answers {said}"):
        device.describe()


@pytest.mark.parametrize("address", ["", "host", "host:", ":9090", "host:port", "host:99999", "host:²"])
def test_what_is_no_address_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "check_packages", lambda: None)
    with pytest.raises(UsageError, match="HOST:PORT"):
        RpcDevice(address)


def test_a_target_without_a_device_is_refused(tiny: Path, tmp_path: Path) -> None:
    arguments = ("tune", tiny / "tiny.onnx", "--target", "raspberry-pi-5")
    refused(tensmith(*arguments, folder=tmp_path), 2, "--rpc", "tensmith compile")


def test_a_device_must_have_what_its_target_has() -> None:
    old = Description("old", "aarch64", frozenset({"neon"}))
    assert old.isa(None) == isa_named("neon")
    with pytest.raises(UsageError, match="no 'raspberry-pi-5': it lacks dotprod, fp16"):
        old.isa(load_target("raspberry-pi-5"))


@pytest.mark.parametrize(("version", "error", "words"), [
    (None, MissingExtra, "tensmith\\[tvm\\]"), ("0.26.1", EngineError, "0.26.1.*works with 0.27"),
])  # fmt: skip
def test_another_tvm_is_refused(
    version: str | None, error: type[Exception], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(package: str) -> str:
        if version is None:
            raise importlib.metadata.PackageNotFoundError(package)
        return version

    monkeypatch.setattr(importlib.metadata, "version", found)
    with pytest.raises(error, match=words):
        check_packages()


def test_every_algorithm_is_compiled_for_a_device(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    shapes = [{}, {"dtype": "u8"}, {"groups": 32}, {"density": 0.1}]
    asked = [dataclasses.replace(problem(), **shape) for shape in shapes]  # type: ignore[arg-type]
    found = {kernel.name: kernel for shape in asked for kernel in candidates(shape, isa_named("neon"))}
    assert len(found) > len(ALGORITHMS) / 2
    for kernel in found.values():
        assert compile_library(text_alone(kernel) + remote._c_text("harness"), kernel.isa, room=tmp_path)
