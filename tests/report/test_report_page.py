"""The page: what stands on it, what it says honestly, and that names from strangers stay text."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_sample import metric, metrics, sample

from tensmith.errors import OutputError
from tensmith.report.document import Report
from tensmith.report.escape import html_text, plot_text, printable, script_json
from tensmith.report.headline import headline
from tensmith.report.metric import Metric
from tensmith.report.page import render, write_report
from tensmith.report.plots import HIGHER, front_plot, steps_of, treatment
from tensmith.report.quantity import byte_text, quantity, significant
from tensmith.report.tables import MOST_ROWS, evenly

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "<img src=x onerror=alert(1)>",
    "\"><svg onload='alert(1)'>",
    "<a href='javascript:alert(1)'>x</a>",
    "${policy} $$ %{x}",
    "a\x00b\x1b[31mred\u202etxt\ud800",
    "&lt;b&gt;",
    "]]>",
]


class Outline(html.parser.HTMLParser):
    """Tags with attributes, and the text, of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def shape(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(tag, tuple(sorted(attributes))) for tag, attributes in self.tags]


def poisoned(text: str) -> Report:
    """The sample with `text` wherever a stranger can write."""
    report = sample()
    report["context"] |= {"model": text, "data": text, "target": text, "command": text, "prefer": text}  # type: ignore[typeddict-item]
    report["context"]["accuracy_name"] = text
    report["context"]["versions"] = {text: text}
    report["front"]["baseline"]["engine"] = text
    chosen = report["front"]["points"][2]
    report["context"]["chosen"] = chosen["id"] = text
    chosen["engine"] = text
    chosen["files"][text] = "0" * 64
    chosen["trail"][0] |= {"rule": text, "site": text, "params": {text: text}}  # type: ignore[typeddict-item]
    report["peers"][0]["name"] = text
    report["layers"][0] |= {"name": text, "op": text, "shape": text, "treatment": text}  # type: ignore[typeddict-item]
    report["tried"][10] |= {"id": text, "status": text, "reason": text}  # type: ignore[typeddict-item]
    report["evidence"][0] |= {"claim": text, "detail": text, "assumptions": [text]}  # type: ignore[typeddict-item]
    report["notes"] = [text]
    return report


@pytest.fixture(scope="module")
def page() -> str:
    return render(sample())


def test_page_holds_every_section_and_figure(page: str) -> None:
    outline = Outline(page)
    ids = [attributes["id"] for tag, attributes in outline.tags if tag == "section"]
    assert ids == ["front", "layers", "trail", "evidence", "tried", "reproduce"]
    text = " ".join(outline.text)
    for expected in ("resnet20_cifar10.onnx", "OpenVINO int8 (NNCF)", "layer3.5.conv", "fold_batch_norm"):
        assert expected in text
    assert text.count("of peak memory the least and the most of a few processes") == 2
    assert sample()["context"]["command"] in text
    assert sample()["front"]["points"][2]["files"]["model.onnx"] in text


def test_every_figure_has_its_evidence_word(page: str) -> None:
    cells = re.findall(r'<td class="num" .*?</td>', page)
    assert len(cells) > 90
    assert all(re.search(r'<i class="word \w+">(measured|estimated)</i>', each) for each in cells)


def test_page_asks_no_network_and_runs_only_its_own_scripts(page: str) -> None:
    outline = Outline(page)
    policy = next(a["content"] for t, a in outline.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 2
    for script in scripts:
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy
    for tag, attributes in outline.tags:
        assert "src" not in attributes
        assert tag not in {"iframe", "object", "embed", "form"}
        assert attributes.get("href") in (None, "data:,")
        assert not any(name.startswith("on") for name in attributes)


def test_page_stays_under_six_megabytes_however_long_the_run(tmp_path: Path) -> None:
    report = sample()
    report["tried"] = [dict(each, reason="x" * 500) for each in report["tried"]] * 100  # type: ignore[misc]
    report["layers"] = [dict(each, name="n" * 300) for each in report["layers"]] * 100  # type: ignore[misc]
    for point in report["front"]["points"]:
        point["trail"] = point["trail"] * 50
    write_report(report, tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size < 6_000_000
    assert f"Shown: {MOST_ROWS:,} of 14,100 candidates" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_change_no_tag(text: str, page: str) -> None:
    hostile = Outline(render(poisoned(text)))
    assert hostile.shape() == Outline(render(poisoned("plain"))).shape()


@settings(max_examples=10)
@given(text=st.text(st.sampled_from("<>\"'&/!-\\$%{}\u2028\x00scriptSCRIPT "), min_size=1, max_size=40))
def test_any_name_changes_no_tag(text: str) -> None:
    text = "x" + text  # ids and engines must not be empty, and 003 is taken
    assert Outline(render(poisoned(text))).shape() == Outline(render(poisoned("plain"))).shape()


@given(st.text(max_size=60))
def test_script_json_holds_no_markup_and_reads_back(text: str) -> None:
    written = script_json({"name": text})
    assert not set("<>&\u2028\u2029") & set(written)
    assert json.loads(written) == {"name": text}


@given(st.text(max_size=300))
def test_escaped_text_is_inert(text: str) -> None:
    assert printable(text).isprintable()
    assert len(printable(text * 10, 50)) <= 50 * len("\\U0010ffff")
    assert not set("<>\"'") & set(html_text(text))
    assert not set("<>") & set(plot_text(text))
    html_text(text).encode()


def test_a_front_that_is_not_valid_writes_nothing(tmp_path: Path) -> None:
    report = sample()
    report["front"]["points"] = []
    with pytest.raises(OutputError, match=r"front\.points"):
        write_report(report, tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_a_chosen_point_that_is_not_on_the_front_is_refused() -> None:
    report = sample()
    report["context"]["chosen"] = "999"
    with pytest.raises(OutputError, match="no point '999'; its points: 003, 041"):
        render(report)


@pytest.mark.parametrize(
    ("value", "spread", "words"),
    [
        (
            2.0,
            0.1,
            "is faster than the original on ONNX Runtime fp32: 2.00× its speed (1.90 to 2.10×, measured)",
        ),
        (1.05, 0.06, "shows no difference in speed from the original on ONNX Runtime fp32"),
        (0.5, 0.1, "is slower than the original on ONNX Runtime fp32"),
    ],
)
def test_headline_says_faster_only_when_the_interval_excludes_one(
    value: float, spread: float, words: str
) -> None:
    report = sample()
    report["front"]["points"][2]["metrics"]["speedup"] = metric("speedup", value, spread)
    assert words in headline(report)
    assert ("faster" in headline(report)) == (value - spread > 1)


def test_headline_tells_the_paired_loss() -> None:
    assert headline(sample()).endswith(
        "with top-1 accuracy 92.30 % (92.06 to 92.54 %, measured) where the original has 92.58 % "
        "(measured; paired, the loss is 0.28 points, 0.09 to 0.47 points)."
    )


def test_headline_never_calls_an_estimate_faster() -> None:
    report = sample()
    report["front"]["points"][2]["metrics"]["speedup"] = metric("speedup", 3.0, evidence="estimated")
    assert "faster" not in headline(report)
    assert "is not timed" in headline(report)


def test_headline_does_not_call_a_larger_file_smaller() -> None:
    report = sample()
    report["front"]["points"][2]["metrics"]["size_ratio"] = metric("size_ratio", 0.97)
    assert "in a file that is not smaller (0.97×, measured)" in headline(report)


@pytest.mark.parametrize(
    ("value", "text"), [(0.42, "0.420"), (242.4, "242"), (1234.5, "1230"), (0.0, "0.00")]
)
def test_significant_digits(value: float, text: str) -> None:
    assert significant(value) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (999_600, "1.00 MB"), (286_000, "286 kB"), (2e9, "2.00 GB")],
)
def test_bytes_in_decimal_units(count: float, text: str) -> None:
    assert byte_text(count) == text


@pytest.mark.parametrize(
    ("name", "figure", "shown"),
    [
        ("accuracy", metric("accuracy", 92.3, 0.24), "92.30 % [92.06 to 92.54 %], measured"),
        ("file_bytes", metric("file_bytes", 1_090_000), "1.09 MB, measured"),
        (
            "accuracy",
            metric("accuracy", 1.2345, 0.001, unit="nats per token"),
            "1.234 nats per token [1.234 to 1.235 nats per token], measured",
        ),
    ],
)
def test_figures_carry_interval_and_evidence(name: str, figure: dict[str, Any], shown: str) -> None:
    assert str(quantity(name, Metric.from_json(figure))) == shown


def test_steps_are_the_points_no_other_beats() -> None:
    figures = [(1, 5, 90), (2, 4, 92), (1.5, 3, 91), (3, 4, 89)]
    points: Any = [{"metrics": metrics(*each), "within_budget": True} for each in figures]
    assert steps_of(points, "speedup", "size_ratio", HIGHER) == [[1, 5], [3, 4]]
    assert steps_of(points, "size_ratio", "speedup", HIGHER) == [[4, 3], [5, 1]]
    assert steps_of(points, "speedup", "accuracy", {"speedup", "accuracy"}) == [[2, 92], [3, 89]]
    assert steps_of(points, "speedup", "accuracy", HIGHER) == [[3, 89]]
    points[3]["within_budget"] = False
    assert steps_of(points, "speedup", "size_ratio", HIGHER) == [[1, 5], [2, 4]]


def test_plot_frames_the_front_not_the_cloud() -> None:
    report = sample()
    report["tried"][20]["metrics"] = metrics(90.0, 70.0, 10.0)
    low, high = front_plot(report)["ranges"]["speedup"]
    assert low < 0.62 and 2.55 < high < 3
    assert [point["chosen"] for point in front_plot(report)["front"]].index(True) == 2


def test_points_beyond_the_budget_are_drawn_apart_and_budgets_are_lines() -> None:
    plot = front_plot(sample())
    assert [point["label"] for point in plot["beyond"]] == ["133 (beyond the budget)"]
    assert (len(plot["front"]), plot["beyond"][0]["row"]) == (6, 6)
    assert plot["limits"] == {"accuracy_drop": 0.5, "packed_bytes": 0.4, "accuracy": 92.08}
    assert [point["label"] for point in plot["front"] if point["knee"]] == ["088 (knee)"]
    for name, limit in plot["limits"].items():
        low, high = plot["ranges"][name]
        assert low < limit < high, "a budget is in sight"


def test_where_less_is_better_the_plot_says_so() -> None:
    report = sample()
    report["context"] |= {"accuracy_better": "lower", "accuracy_limit": None}  # type: ignore[typeddict-item]
    plot = front_plot(report)
    assert plot["higher"] == ["size_ratio", "speedup"]
    assert "accuracy" not in plot["limits"]
    assert plot["steps"]["speedup"]["accuracy"] == [[1.31, 92.11], [2.55, 92.12]]


def test_treatment_counts_steps() -> None:
    trail = sample()["front"]["points"][2]["trail"]
    assert treatment(trail) == "prune_channels × 4, quantize_static × 19, 20 exact steps"
    assert treatment([]) == "untouched"


def test_a_long_run_is_thinned_evenly() -> None:
    report = sample()
    tried: Any = [dict(report["tried"][0], id=str(index)) for index in range(4 * MOST_ROWS)]
    assert [each["id"] for each in evenly(tried)][:3] == ["0", "4", "8"]
    assert evenly(tried[:5]) == tried[:5]


def test_a_candidate_says_on_how_many_samples_it_was_judged_and_what_it_loses_at_most() -> None:
    report = sample()
    report["tried"][20] |= {"samples": 1600, "at_most": 0.52}
    report["tried"][21] |= {"samples": 64, "at_most": None}
    text = " ".join(Outline(render(report)).text)
    assert "1,600 loses at most 0.52 with 99%" in text
    assert text.count("loses at most") == 1


def test_a_bare_report_renders() -> None:
    report = sample()
    report |= {"peers": [], "layers": [], "tried": [], "evidence": [], "notes": []}  # type: ignore[typeddict-item]
    report["front"]["points"] = report["front"]["points"][:1]
    report["front"]["points"][0]["trail"] = []
    report["context"] |= {"chosen": "003", "accuracy_limit": None}  # type: ignore[typeddict-item]
    del report["front"]["knee"]
    text = " ".join(Outline(render(report)).text)
    assert "No step: the original." in text
    assert "No certificate was recorded." in text
