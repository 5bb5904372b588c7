"""The compress road is one walk: the model hardly ever comes back to a room that it has left.

A small compression runs, the same on any machine (latencies, and the end of the search, are made up), and the
walk of the model through it is followed.

A *hop* is a call from one module to another in which the model goes in or comes out: a program or an ONNX
file, alone, or held by what is handed over or returned, by the object whose method is called, or by the
function around a nested one. It begins in a room of the road (floors 6 and up) and ends in one that runs or
judges (floors 4 and up): what lies below knows programs and no runs, and is a tool wherever it is used. A
function that calls the same other one again makes no new hop, so a loop is walked once.
A *return* is a hop to a module that an earlier hop led to, but not the last one.
"""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import tensmith
from made_up_time import make_up_time
from tensmith.deploy.schedule import Schedule
from tensmith.engine import ENGINES
from tensmith.engine.compiled import NATIVE
from tensmith.evaluate.memory import measure_memory
from tensmith.ir import Program
from tensmith.search import run
from test_floors import FLOOR_OF

MOST_RETURNS = 10
_CANDIDATES = 10
_ROAD, _RUNS = 6, 4
_DEPTH = 3

Hop = tuple[str, str, str, str]


def carries(value: object, depth: int = _DEPTH) -> bool:
    """Whether a value is the model, a file of it, or an object of ours that holds one."""
    if isinstance(value, Program) or (isinstance(value, Path) and value.suffix == ".onnx"):
        return True
    if isinstance(value, (list, tuple)):
        return any(carries(each, depth) for each in value[:8])
    ours = type(value).__module__.startswith("tensmith.") and depth > 0
    return ours and any(carries(each, depth - 1) for each in getattr(value, "__dict__", {}).values())


def module(frame: FrameType) -> str:
    """The module that a frame is of, without the package; "" for code that is not ours or not written."""
    name = str(frame.f_globals.get("__name__"))
    written = frame.f_code.co_filename != "<string>"  # as methods of dataclasses are
    return name.removeprefix("tensmith.") if name.startswith("tensmith.") and written else ""


def floor(name: str) -> int:
    return FLOOR_OF.get(name.partition(".")[0], -1)


def given(code: CodeType) -> Iterable[str]:
    """The names of what a function is given, or has from the function around it."""
    return (*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], *code.co_freevars)


def from_road_to_runs(caller: str, callee: str) -> bool:
    """Whether a call is a hop of the compress road."""
    return floor(callee) >= _RUNS and floor(caller) >= _ROAD


class Walk:
    """Follows the model while a function runs; `hops` in the order in which they were made first.

    They begin in the module `start`; `is_hop` says which calls between modules count.
    """

    def __init__(
        self, start: str = "compression", is_hop: Callable[[str, str], bool] = from_road_to_runs
    ) -> None:
        self._start, self._is_hop = start, is_hop
        self._found: dict[Hop, int] = {}
        self._open: dict[FrameType, tuple[Hop, int]] = {}
        self._events = 0

    def follow(self, act: Callable[[], object]) -> None:
        sys.setprofile(self._event)
        try:
            act()
        finally:
            sys.setprofile(None)

    @property
    def hops(self) -> list[Hop]:
        return sorted(self._found, key=lambda hop: self._found[hop])

    @property
    def returns(self) -> list[Hop]:
        seen, place, found = {self._start}, self._start, []
        for hop in self.hops:
            room = hop[2]
            if room != place and room in seen:
                found.append(hop)
            seen.add(room)
            place = room
        return found

    def _event(self, frame: FrameType, event: str, result: Any) -> None:
        if event == "call":
            self._called(frame)
        elif event == "return" and frame in self._open:
            hop, moment = self._open.pop(frame)
            if carries(result):
                self._found.setdefault(hop, moment)

    def _called(self, frame: FrameType) -> None:
        callee, caller = module(frame), frame.f_back
        if not callee:  # most calls are of libraries
            return
        while caller is not None and not module(caller):
            caller = caller.f_back
        if caller is None or module(caller) == callee or not self._is_hop(module(caller), callee):
            return
        code = frame.f_code
        hop = module(caller), caller.f_code.co_qualname, callee, code.co_qualname
        if hop in self._found:
            return
        self._events += 1
        if any(carries(frame.f_locals.get(name)) for name in given(code)):
            self._found[hop] = self._events
        else:
            self._open[frame] = hop, self._events


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is made up, and the search ends after so many candidates."""
    asked: list[None] = []

    def reserve(*_: Any) -> float:
        asked.append(None)
        return 0.0 if len(asked) <= _CANDIDATES else math.inf

    make_up_time(monkeypatch)
    monkeypatch.setattr(Schedule, "reserve", reserve)
    monkeypatch.setattr(run, "measure_memory", measure_memory)  # the tests' own is no room of the road


@pytest.mark.skipif(bool(ENGINES[NATIVE].missing()), reason="no C compiler is installed")
def test_the_model_is_walked_through_the_road_once(tiny: Path, tmp_path: Path, at_once: None) -> None:
    for name in ("tiny.onnx", "tiny.npz"):
        shutil.copy(tiny / name, tmp_path)
    walk = Walk()
    walk.follow(
        lambda: tensmith.compress(
            tmp_path / "tiny.onnx", f"npz:{tmp_path / 'tiny.npz'}", output=tmp_path / "out",
            engines=("onnxruntime", NATIVE), time_budget=3600, preprocess="raw", max_drop=10.0,
        )
    )  # fmt: skip
    returns = walk.returns
    lines = (f"{'R' if hop in returns else ' '} {hop[0]}.{hop[1]} -> {hop[2]}.{hop[3]}" for hop in walk.hops)
    shown = "\n".join(lines)
    assert len(walk.hops) > 30, shown
    assert len(returns) <= MOST_RETURNS, shown
