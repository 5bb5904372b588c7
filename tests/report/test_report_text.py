"""The front in a terminal, and as a picture."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest
from report_sample import metric, sample

from tensmith.errors import MissingExtra, OutputError
from tensmith.report.document import marks_of
from tensmith.report.figure import save_figure
from tensmith.report.headline import size_words, speed_words
from tensmith.report.metric import spread
from tensmith.report.tables import points_table
from tensmith.report.text import front_text, run_lines

GOLDEN = """\
                                     speed-up  size ratio          accuracy         accuracy lost            latency  file shipped      peak memory     energy
model                                measured    measured          measured              measured           measured      measured         measured  estimated
original                                1.00×       1.00×           92.58 %           0.00 points            1.04 ms       1.12 MB          31.0 MB    9.80 mJ
ONNX Runtime fp32                                          92.34 to 92.82 %  -0.19 to 0.19 points    1.03 to 1.05 ms                30.6 to 31.4 MB
041                                     2.43×       3.91×           92.41 %           0.17 points           0.429 ms        286 kB          19.9 MB    4.03 mJ
onnxruntime                     2.38 to 2.48×              92.17 to 92.65 %  -0.02 to 0.36 points  0.418 to 0.440 ms                19.5 to 20.3 MB
088                                     2.12×       5.37×           92.19 %           0.39 points           0.492 ms        209 kB          21.3 MB    4.62 mJ
onnxruntime, chosen, knee       2.08 to 2.16×              91.95 to 92.43 %  0.20 to 0.58 points  0.481 to 0.503 ms                20.9 to 21.7 MB
budget                                                                              ≤ 0.50 points                         ≤ 400 kB
133                                     2.20×       7.41×           91.47 %           1.11 points           0.474 ms        151 kB          20.9 MB    4.45 mJ
onnxruntime, beyond the budget  2.16 to 2.24×              91.23 to 91.71 %  0.92 to 1.30 points  0.463 to 0.485 ms                20.5 to 21.3 MB
Intervals are 95%, of peak memory the least and the most of a few processes. Accuracy is of 10,000 held-out samples. Speed-ups are over the original on ONNX
Runtime fp32.
"""  # noqa: E501


def test_terminal_table() -> None:
    front = sample()["front"]
    front["points"] = [front["points"][number] for number in (6, 3, 1)]
    squeezed = [" ".join(line.split()) for line in front_text(front, chosen="088").strip().splitlines()]
    assert squeezed == [" ".join(line.split()) for line in GOLDEN.splitlines()]


def test_a_long_unit_stands_in_the_heading_and_nothing_is_minus_nothing() -> None:
    front = sample()["front"]
    for metrics in (front["baseline"]["metrics"], *(point["metrics"] for point in front["points"])):
        metrics["accuracy"] = {**metrics["accuracy"], "unit": "nats/token"}
        metrics["accuracy_drop"] = metric("accuracy_drop", -1e-4, 2e-4, unit="%")
    words = " ".join(front_text(front, width=200).split())
    assert words.count("nats/token") == 1
    assert "-0.00" not in words and "0.00 to 0.00 %" in words
    assert "nats/token" not in front_text(front, measure="nats a token", width=200)


def test_what_accuracy_is_called_is_no_markup() -> None:
    assert "[/nats]" in front_text(sample()["front"], measure="[/nats]")


@pytest.mark.parametrize(("budget", "shown"), [(0.125, "0.125"), (0.004, "0.004"), (1.0, "1.00")])
def test_a_budget_is_shown_as_it_was_given(budget: float, shown: str) -> None:
    front = sample()["front"]
    front["budget"] = {"accuracy_drop": budget}
    assert f"≤ {shown} points" in front_text(front)


@pytest.mark.parametrize(("lost", "shown"), [(0.503, "0.503 points"), (0.5, "0.50 points")])
def test_what_is_just_beyond_a_budget_is_shown_so(lost: float, shown: str) -> None:
    report = sample()
    front = report["front"]
    front["budget"] = {"accuracy_drop": 0.5}
    front["points"][0]["metrics"]["accuracy_drop"] = metric("accuracy_drop", lost, 0.1, unit="pt")
    assert f" {shown}" in front_text(front, width=200)
    assert f">{shown}<" in points_table(report)


def test_held_out_samples_bring_no_point_back_within_the_budget() -> None:
    front = sample()["front"]
    last = front["points"][-1]
    last["metrics"]["accuracy_drop"] = metric("accuracy_drop", 0.0, 0.1, unit="pt")
    marks = []
    for searched in (front["budget"]["accuracy_drop"] + 0.1, 0.0):
        last["search"] = {"accuracy_drop": metric("accuracy_drop", searched, unit="pt"), "samples": 500}
        marks.append(marks_of(front, last, ""))
    assert marks == [["beyond the budget in the search"], ["beyond the budget"]]


@pytest.mark.parametrize(("ratio", "shown"), [(1.003, "1.003×"), (1.2, "1.20×")])
def test_what_is_just_faster_and_smaller_is_not_shown_as_the_same(ratio: float, shown: str) -> None:
    found = spread(ratio, ratio - 0.001, ratio + 0.001, "x")
    assert f"is faster than the original on it: {shown} its speed" in speed_words(found, "it")
    assert f"{shown} smaller" in size_words(found)


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (0.997, 0.999, "is slower than the original on it: 0.998× its speed (0.997 to 0.999×, measured)"),
        (0.5, 0.9, "is slower than the original on it: 0.70× its speed (0.50 to 0.90×, measured)"),
        (1.0, 1.0, "shows no difference in speed from the original on it: 1.00× its speed (exact, measured)"),
        (1.001, 1.003, "is faster than the original on it: 1.002× its speed (1.001 to 1.003×, measured)"),
    ],
)
def test_a_speed_stands_on_the_side_that_it_is_said_to_be_on(low: float, high: float, shown: str) -> None:
    assert speed_words(spread((low + high) / 2, low, high, "x"), "it") == shown


def test_the_range_of_an_estimate_is_not_called_an_interval_of_95() -> None:
    front = sample()["front"]
    assert "of estimated energy" not in front_text(front)
    front["points"][1]["metrics"]["energy_mj"] |= {"low": 0.1, "high": 100.0}
    words = " ".join(front_text(front, width=200).split())
    assert "of estimated energy from all bytes in the cache to all in memory" in words


def test_a_sentence_that_must_not_be_missed_is_shown_whole() -> None:
    note = f"take care: {'much is to be said, ' * 20}and this above all"
    assert note in run_lines({**sample(), "notes": [note]})


def test_what_a_search_saw_of_the_part_that_is_judged_by_is_said() -> None:
    front = sample()["front"] | {"held_out_samples": 8000, "searched_samples": 2000}
    words = " ".join(front_text(front, width=200).split())
    assert "8,000 held-out samples; the search saw 2,000 others of that part of the data." in words


def test_evidence_moves_into_the_cells_where_it_differs() -> None:
    front = sample()["front"]
    front["points"][1]["metrics"]["speedup"] = metric("speedup", 2.4, evidence="estimated")
    words = " ".join(front_text(front, width=200).split())
    assert "2.40×" in words and "2.23 to 2.33×, measured" in words
    assert "onnxruntime estimated" in words, "an exact figure has its word alone under it"


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
    report["front"]["points"][0]["within_budget"] = False
    save_figure(report, tmp_path / name)
    written = (tmp_path / name).read_bytes()
    assert written.startswith(magic)
    assert b"<script>" not in written
    assert name != "front.svg" or b">beyond the budget<" in written  # whichever of them it is


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
