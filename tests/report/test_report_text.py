"""The front in a terminal, and as a picture."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest
from report_sample import metric, sample

from tensmith.errors import MissingExtra, OutputError
from tensmith.report.figure import save_figure
from tensmith.report.text import front_text

GOLDEN = """\
                     speed-up  size ratio                    accuracy                       latency  file shipped
model                measured    measured                    measured                      measured      measured  engine
original                1.00×       1.00×  92.58 % [92.34 to 92.82 %]     1.04 ms [1.03 to 1.05 ms]       1.12 MB  ONNX Runtime fp32
041     2.43× [2.38 to 2.48×]       3.91×  92.41 % [92.17 to 92.65 %]  0.429 ms [0.418 to 0.440 ms]        286 kB  onnxruntime
057 *   2.28× [2.23 to 2.33×]       4.62×  92.30 % [92.06 to 92.54 %]  0.457 ms [0.446 to 0.468 ms]        242 kB  onnxruntime
* chosen. Brackets hold 95% intervals. Speed-ups are over the original on ONNX Runtime fp32.
"""  # noqa: E501


def test_terminal_table() -> None:
    front = sample()["front"]
    front["points"] = [front["points"][2], front["points"][1]]
    squeezed = [" ".join(line.split()) for line in front_text(front, chosen="057").strip().splitlines()]
    assert squeezed == [" ".join(line.split()) for line in GOLDEN.splitlines()]


def test_evidence_moves_into_the_cells_where_it_differs() -> None:
    front = sample()["front"]
    front["points"][1]["metrics"]["speedup"] = metric("speedup", 2.4, evidence="estimated")
    text = front_text(front)
    assert "2.40×, estimated" in text
    assert "2.28× [2.23 to 2.33×], measured" in text


def test_hostile_ids_send_no_escape_codes_and_no_markup() -> None:
    front = sample()["front"]
    front["points"][0]["id"] = "\x1b]0;owned\x07[red]x[/red]\n"
    text = front_text(front)
    assert "\x1b" not in text and "\x07" not in text
    assert "\\x1b]0;owned\\x07[red]x[/red]\\n" in text


@pytest.mark.parametrize(("name", "magic"), [("front.png", b"\x89PNG"), ("front.svg", b"<?xml")])
def test_picture(tmp_path: Path, name: str, magic: bytes) -> None:
    pytest.importorskip("matplotlib")
    report = sample()
    report["context"]["model"] = "$\\frac{1}{<script>"
    save_figure(report, tmp_path / name)
    written = (tmp_path / name).read_bytes()
    assert written.startswith(magic)
    assert b"<script>" not in written


def test_picture_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(OutputError, match=r"\.docx.*\.png, \.svg or \.pdf"):
        save_figure(sample(), tmp_path / "front.docx")


def test_picture_without_matplotlib_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real_import(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"tensmith\[figure\]"):
        save_figure(sample(), tmp_path / "front.png")
