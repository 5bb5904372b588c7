"""The page in a real browser: it draws, hovers, switches and sorts, silently and without the network."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from report_sample import sample
from test_report_page import HOSTILE, poisoned

from chromium import Page, chromium_page, find_chromium
from tensmith.report.page import write_report

pytestmark = pytest.mark.skipif(
    find_chromium() is None or os.name != "posix", reason="no chromium: install the package `chromium`"
)

READY = "document.querySelectorAll('#plot .scatterlayer .point').length > 100"
FRONT_POINT = """(() => {
  const trace = [...document.querySelectorAll('#plot .scatterlayer .trace')].pop();
  const point = trace.querySelectorAll('.point')[2];
  point.scrollIntoView({block: 'center'});
  const box = point.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
})()"""
HOVERED = (
    "[...document.querySelectorAll('#plot .hoverlayer tspan.line')].map((t) => t.textContent).join('\\n')"
)


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium_page(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def report_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(sample(), path)
    return path


def hover(tab: Page) -> str:
    """Moves the mouse over the third front point; the text that appears."""
    x, y = tab.evaluate(FRONT_POINT)
    tab.move_mouse(x - 4, y)
    tab.move_mouse(x, y)
    text: str = tab.until(HOVERED)
    return text


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_hovering_a_point_tells_its_figures(
    tab: Page, report_path: Path, tmp_path: Path, width: int, scheme: str
) -> None:
    tab.events.clear()
    tab.open(report_path, width, 900, scheme)
    tab.until(READY)
    lines = hover(tab).splitlines()
    assert lines[0] == "057 (chosen)"
    assert "speed-up 2.28× [2.23 to 2.33×], measured" in lines
    assert "accuracy 92.30 % [92.06 to 92.54 %], measured" in lines
    assert any(line.startswith("prune_channels × 4, quantize_static × 19") for line in lines)
    assert tab.evaluate("document.querySelector('.points tr.hot th').textContent").startswith("057")

    tab.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
    assert tab.requests() == [report_path.as_uri()]
    assert tab.complaints() == []


def choose(tab: Page, axis: str, name: str) -> None:
    """Chooses what an axis shows, as a reader does."""
    tab.evaluate(
        f"(() => {{ const chooser = document.querySelector('[data-axis={axis}]');"
        f"chooser.value = '{name}'; chooser.dispatchEvent(new Event('change')); }})()"
    )


def test_choosing_axes_and_sorting(tab: Page, report_path: Path) -> None:
    tab.open(report_path, 1280, 900)
    tab.until(READY)
    choose(tab, "y", "accuracy")
    tab.until("document.querySelector('#plot .ytitle').textContent === 'top-1 accuracy (%)'")
    choose(tab, "x", "packed_bytes")
    tab.until("document.querySelector('#plot .xtitle').textContent === 'file shipped (MB)'")
    notes = "[...document.querySelectorAll('#plot .annotation-text')].map((t) => t.textContent)"
    assert tab.evaluate(notes) == ["budget", "budget", "knee"]
    left, right = tab.evaluate("document.getElementById('plot').layout.xaxis.range")
    assert left > right, "further right is better: fewer bytes"

    first = "document.querySelector('.points tbody th').firstChild.textContent.trim()"
    assert tab.evaluate(first) == "original"
    for expected in ("126", "ONNX Runtime dynamic int8", "original"):
        tab.evaluate("document.querySelectorAll('.points thead button')[1].click()")
        assert tab.evaluate(first) == expected


def test_hostile_names_do_nothing(tab: Page, tmp_path: Path) -> None:
    text = "".join(HOSTILE[:6])
    write_report(poisoned(text), tmp_path / "report.html")
    tab.events.clear()
    tab.open(tmp_path / "report.html", 1280, 900)
    tab.until(READY)
    assert "</script>" in hover(tab)
    assert tab.evaluate("document.querySelector('h1').textContent").startswith("</script><script>alert(1)")
    assert tab.evaluate("document.querySelectorAll('img, iframe, main a').length") == 0
    assert tab.requests() == [(tmp_path / "report.html").as_uri()]
    assert tab.complaints() == []


def test_a_page_with_foreign_script_is_stopped_and_noticed(
    tab: Page, report_path: Path, tmp_path: Path
) -> None:
    """The wrong twin of the tests above: silence there means nothing unless noise is heard here."""
    foreign = "<script>document.title = 'owned'</script><img src='http://127.0.0.1:9/x'></body>"
    twin = tmp_path / "twin.html"
    twin.write_text(report_path.read_text().replace("</body>", foreign))
    tab.events.clear()
    tab.open(twin, 1280, 900)
    tab.until(READY)
    assert tab.evaluate("document.title") != "owned"
    violations = [e["params"]["entry"]["text"] for e in tab.complaints() if e["method"] == "Log.entryAdded"]
    assert any("script-src" in text for text in violations)
    assert any("img-src" in text for text in violations)
