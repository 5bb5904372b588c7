"""The command line: `tensmith COMMAND`, one file a command. Nothing heavy is imported before one runs."""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
from typing import Any

# In the order of `tensmith --help`.
_COMMANDS = (
    "compress",
    "init",
    "lift",
    "optimize",
    "bench",
    "tune",
    "study",
    "compile",
    "quantize",
    "pack",
    "unpack",
    "inspect",
    "generate",
    "cache",
    "convert",
    "verify",
    "diff",
    "sign",
    "diagnose",
    "explain",
    "rules",
    "prove",
    "report",
    "targets",
    "doctor",
)


def main() -> None:
    """The console script `tensmith`. Exit codes: 0 done, 1 failed, 2 bad usage, 130 interrupted."""
    _end_when_interrupted()
    import typer

    from tensmith.cli.command import app
    from tensmith.cli.terminal import complain

    for name in _COMMANDS:
        importlib.import_module(f"tensmith.cli.{name}")
    # What typer raises for a wrong option: its own class, or click's where typer is older.
    refusal: Any = typer.BadParameter.__mro__[2]
    try:
        sys.exit(app(standalone_mode=False))
    except refusal as error:  # a wrong option, told with the words that were given
        told = io.StringIO()
        error.show(told)
        complain(told.getvalue().rstrip())
        sys.exit(error.exit_code)
    except typer.Abort:
        sys.exit(1)
    finally:
        # The exit code stands: an impatient Ctrl-C while Python shuts down must not replace it by a signal's.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        # Nor must one that met text being executed (dataclasses are made so): `python -m` ends by
        # SIGINT after any such interrupt, caught or not, unless other text was executed since.
        exec("")


def _end_when_interrupted() -> None:
    """Until a command runs, Ctrl-C ends the process at once: an exception could get lost among imports."""

    def end(*_: object) -> None:
        os.write(2, b"error: interrupted; nothing was written\n")
        os._exit(130)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else somebody wants it ignored
        signal.signal(signal.SIGINT, end)
