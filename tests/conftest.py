"""What every test shares: the evaluation data, commands, and a hypothesis profile without deadlines."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# In continuous integration the examples are the same every time: a failure there is the change's own.
settings.register_profile("tensmith", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("tensmith")

# Until all is imported and collected there is no garbage to speak of.
gc.disable()

MANY = 100  # tests in a module
AT_ONCE = 25  # of these that a process is given
TRACING = ("tensorflow", "jax")

# A shell that starts tests in the background makes them deaf to Ctrl-C; some of them are about it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of a module run in one process: what they share is made once. So do those of targets that take
    ten seconds to import.

    Modules of many tests that share no fixture come last and in parts, for each of these is short: all
    processes end at about the same time. None is given out alone, for at the end of each test xdist goes
    through all that it gave out.
    """
    tests = Counter(item.path for item in items)
    first, last = [], []
    for place, item in enumerate(items):
        turn = first
        if item.get_closest_marker("xdist_group") is None and isinstance(item, pytest.Function):
            makers = item._fixtureinfo.name2fixturedefs.values()
            sharing = any(maker[-1].scope == "module" for maker in makers)
            group = item.module.__name__
            if not sharing and "callspec" in vars(item) and item.callspec.params.get("target") in TRACING:
                group = "traced"
            elif not sharing and tests[item.path] >= MANY:
                group, turn = f"{group} {place // AT_ONCE}", last
            item.add_marker(pytest.mark.xdist_group(group))
        turn.append(item)
    items[:] = first + last


def pytest_collection_finish() -> None:
    """Models are timed briefly. What was imported and collected stays until the end: no later collection of
    garbage goes through it."""
    if "tensmith.deploy.again" in sys.modules:
        from short_turns import take_short_turns

        take_short_turns()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Nor does the last one, as the process ends: pytest collects twice, through all that tests have left."""
    gc.freeze()


ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The evaluation data: $TENSMITH_DATA, else ../shared/data beside the repository; skips when missing."""
    path = Path(os.environ.get("TENSMITH_DATA") or ROOT.parent / "shared" / "data")
    if not path.is_dir():
        pytest.skip(f"no evaluation data at {path}; set TENSMITH_DATA to its folder")
    return path


@pytest.fixture(scope="session")
def commands() -> Any:
    """Commands as users give them; see forked."""
    import command_line

    return command_line.commands()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tiny.onnx and tiny.npz; see command_line."""
    from command_line import write_sample

    folder = tmp_path_factory.mktemp("tiny")
    write_sample(folder)
    return folder


@pytest.fixture(scope="session")
def finished(tiny: Path) -> Path:
    """The folder of a finished run on the tiny model; for reading only."""
    from command_line import QUICK, tensmith

    result = tensmith(
        "compress", "tiny.onnx", "--data", "npz:tiny.npz", *QUICK, "--output", "done", folder=tiny
    )
    assert result.returncode == 0, result.stderr
    return tiny / "done"
