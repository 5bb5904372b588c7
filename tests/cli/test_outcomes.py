"""From what happens inside a command to its exit code and its one sentence."""

from __future__ import annotations

import errno
import sys

import pytest

from tensmith.cli import compress
from tensmith.cli.command import Answer, _outcome, app
from tensmith.errors import ModelError, UsageError


def failing(error: BaseException) -> object:
    def call() -> Answer:
        raise error

    return call


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ModelError("m.onnx is\n  empty"), 1, "error: m.onnx is empty"),
        (UsageError("no"), 2, "error: no"),
        (KeyboardInterrupt(), 130, "error: interrupted; nothing was written"),
        (
            OSError(errno.ENOSPC, "No space left on device", "a/b"),
            1,
            "(a/b): No space left on device; free some",
        ),
        (MemoryError(), 1, "not enough memory"),
        (
            ZeroDivisionError("division by zero"),
            1,
            "ZeroDivisionError: division by zero); see why with --debug",
        ),
    ],
)
def test_errors(error: BaseException, code: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _outcome(failing(error), False, False, "nothing was written") == code  # type: ignore[arg-type]
    shown = capsys.readouterr()
    assert shown.out == ""
    assert words in shown.err and shown.err.count("\n") == 1


def test_before_there_is_a_folder_an_interrupt_speaks_of_no_resume(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(config: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(compress, "_demand_files", interrupt)
    with pytest.raises(SystemExit, match="130"):
        app(["compress", "m.onnx"])
    assert capsys.readouterr().err == "error: interrupted; nothing that was measured is lost\n"


def test_answers(capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer({"a": [1]}, ["a long line: " + "x" * 300, "[bold]not markup[/bold]"], 3)
    assert _outcome(lambda: answer, True, False, "") == 3
    assert capsys.readouterr().out == '{\n "a": [\n  1\n ]\n}\n'
    assert _outcome(lambda: answer, False, False, "") == 3
    assert capsys.readouterr().out == f"a long line: {'x' * 300}\n[bold]not markup[/bold]\n"


@pytest.mark.parametrize("as_json", [False, True])
def test_streams_that_were_closed_are_told_nothing(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert _outcome(lambda: Answer({}, ["done"]), as_json, False, "") == 0
    monkeypatch.undo()
    monkeypatch.setattr(sys, "stderr", None)
    assert _outcome(failing(UsageError("no")), as_json, False, "") == 2  # type: ignore[arg-type]
    assert capsys.readouterr().out == ""
