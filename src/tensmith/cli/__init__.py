"""The command line: `tensmith COMMAND`, one file a command. Nothing heavy is imported before one runs."""

from __future__ import annotations

import importlib
import signal

from tensmith.cli.command import app

# In the order of `tensmith --help`.
_COMMANDS = (
    "compress",
    "lift",
    "bench",
    "tune",
    "compile",
    "unpack",
    "verify",
    "sign",
    "explain",
    "report",
    "targets",
    "doctor",
)


def main() -> None:
    """The console script `tensmith`. Exit codes: 0 done, 1 failed, 2 bad usage, 130 interrupted."""
    for name in _COMMANDS:
        importlib.import_module(f"tensmith.cli.{name}")
    try:
        app()
    finally:
        # The exit code stands: an impatient Ctrl-C while Python shuts down must not replace it by a signal's.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
