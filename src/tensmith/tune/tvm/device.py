"""Times kernels on a device that runs TVM's RPC server: the same trials as tune.timer's, over the network.

The device needs no compiler and nothing of tensmith: libraries are compiled here and sent. A kernel that
crashes or hangs there is skipped; a device that does not answer ends the tuning, what was timed is kept.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.children import Ending
from tensmith.engine.frame import Array
from tensmith.engine.module_worker import ModuleWorker, WorkerEnded
from tensmith.errors import EngineError, TensmithError, UsageError
from tensmith.files import TemporaryFolder
from tensmith.hardware.cpu import features_of, model_of, parse_cpuinfo
from tensmith.hardware.target import Target
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.alone import text_alone
from tensmith.kernel.isa import Isa, isa_of, target_isa
from tensmith.kernel.toolchain import compile_library
from tensmith.tune.timer import LONGEST_COMPILE_SECONDS, PATIENCE_SECONDS
from tensmith.tune.trial import trial
from tensmith.tune.tvm.packages import check_packages

_ARCHITECTURES = ("x86_64", "aarch64")
_MOST_TEXT_BYTES = 1 << 20
# Beside what a kernel may take: to start tvm here, to connect, and to send what it needs.
_NETWORK_SECONDS = 60.0


class DeviceLost(TensmithError):
    """A device cannot be reached, or has stopped to answer."""


@dataclass(frozen=True)
class Description:
    """What a device says of its CPU; names of features as in hardware.cpu."""

    model: str
    architecture: str
    features: frozenset[str]

    def isa(self, target: Target | None) -> Isa:
        """The widest instruction set it has, or the one of `target`; UsageError if it lacks that."""
        if target is None:
            return isa_of(self.features, self.architecture)
        isa = target_isa(target)
        if missing := isa.needs - self.features:
            raise UsageError(
                f"the device is no '{target.name}': it lacks {', '.join(sorted(missing))}; leave out --target"
            )
        return isa


class RpcDevice(Ending):
    """The server at HOST:PORT. Use as a context: it ends the session and removes the libraries."""

    def __init__(self, address: str, patience: float = PATIENCE_SECONDS) -> None:
        check_packages()
        self.address = address
        self._patience = patience
        self._folder = TemporaryFolder()
        command = ("tensmith.tune.tvm.remote", *_host_and_port(address))
        self._worker = ModuleWorker(command, patience + _NETWORK_SECONDS)

    def end(self) -> None:
        """Ends the processes."""
        self._worker.end()
        self._folder.cleanup()

    def describe(self) -> Description:
        """What the device is: the first library that it loads tells its architecture, and reads the rest."""
        refused = ""
        for architecture in _ARCHITECTURES:
            library = self._compiled(_c_text("probe"), isa_of((), architecture))
            request = {"library": library, "function": "describe", "numbers": [], "back": ["text"]}
            answer, arrays = self._ask(request, {"text": np.zeros(_MOST_TEXT_BYTES, np.uint8)})
            if "value" in answer:
                length = self._number(answer, 0, _MOST_TEXT_BYTES)
                text = arrays["text"][: int(length)].tobytes().decode(errors="replace")
                fields = parse_cpuinfo(text)
                flags = fields.get("flags", fields.get("features", ""))
                return Description(model_of(fields), architecture, features_of(flags))
            refused = answer["refused"]
        raise EngineError(f"the device at {self.address} loads no library of ours: {refused}")

    def seconds(self, kernel: Kernel, memory: int, span: float) -> float:
        """As tune.timer.Timer's; DeviceLost if the device does not answer."""
        made = trial(kernel, memory)
        sizes = [made.target_bytes, made.scratch_bytes, made.copies]
        request = {
            "library": self._compiled(text_alone(kernel) + _c_text("harness"), kernel.isa),
            "function": "time",
            "numbers": [*sizes, round(1e6 * span), round(self._patience)],
        }
        answer, _ = self._ask(request, made.arrays)
        if "refused" in answer:
            raise EngineError(f"the device at {self.address} does not load {kernel}: {answer['refused']}")
        value = self._number(answer, -signal.NSIG, sys.float_info.max)
        if value < 0:
            how = f"did not end within {self._patience:g} s" if value == -signal.SIGALRM else "died"
            raise EngineError(f"{kernel} {how} computing a {kernel.problem} on {self.address}")
        if not value:
            raise EngineError(
                f"the device at {self.address} says that {kernel} took no time, as no call does"
            )
        return value

    def _number(self, answer: Mapping[str, Any], least: float, most: float) -> float:
        """What a function of ours says; EngineError unless it is a number within bounds."""
        value = answer["value"]
        if not isinstance(value, int | float) or not least <= value <= most:
            raise EngineError(
                f"the device at {self.address} answers {value!r:.40}, as no function of ours does"
            )
        return float(value)

    def _compiled(self, text: str, isa: Isa) -> str:
        room = Path(self._folder.name)
        return str(compile_library(text, isa, room=room, longest=LONGEST_COMPILE_SECONDS))

    def _ask(
        self, request: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        """The answer; a session that has ended is begun once more."""
        reason = ""
        for _ in range(2):
            try:
                return self._worker.ask(request, arrays)
            except WorkerEnded as error:
                reason = f"the session {error}"
                break
            except EngineError as error:
                self._worker.end()
                reason = str(error)
        raise DeviceLost(
            f"the device at {self.address} does not answer ({reason}); what was timed is kept: see that "
            "'python -m tvm.exec.rpc_server' runs there and serves nobody else, then repeat the command"
        )


def _host_and_port(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 1 << 16:
        raise UsageError(f"--rpc is HOST:PORT, as 192.168.1.20:9090, not '{address}'")
    return host.removeprefix("[").removesuffix("]"), port


def _c_text(name: str) -> str:
    """The C text of a function that TVM can call."""
    here = resources.files("tensmith.tune.tvm")
    return "".join(here.joinpath(f"{part}.c").read_text(encoding="utf-8") for part in ("ffi", name))
