"""The explorer in a real browser: it filters, tells what is behind a bar, and asks nobody for anything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from study_sample import plan, results

from chromium import Page, chromium_page, find_chromium
from tensmith.study.page import write_explorer

pytestmark = pytest.mark.skipif(
    find_chromium() is None or os.name != "posix", reason="no chromium: install the package `chromium`"
)


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium_page(tmp_path_factory.mktemp("profile")) as page:
        yield page


def test_filter_and_hover(tab: Page, tmp_path: Path) -> None:
    path = tmp_path / "explorer.html"
    write_explorer(plan(), results(), path)
    tab.open(path, 1280, 900)
    count = "document.querySelectorAll('.bar').length"
    assert tab.until(count) == len(results())
    choose = """((name, value) => {
      const list = document.getElementById(`filter-${name}`);
      list.value = value;
      list.dispatchEvent(new Event('change'));
    })"""
    tab.evaluate(f"{choose}('model', 'net-b')")
    tab.evaluate(f"{choose}('optimization', 'int8')")
    assert tab.evaluate(count) == 4
    assert tab.evaluate("document.getElementById('count').textContent") == f"4 of {len(results())} cells"
    x, y = tab.evaluate(
        "(() => { const bar = document.querySelector('.bar'); bar.scrollIntoView({block: 'center'});"
        " const box = bar.getBoundingClientRect(); return [box.x + 40, box.y + box.height / 2]; })()"
    )
    tab.move_mouse(x, y)
    told = tab.until(
        "(t => t.includes('model: net-b') && t)(document.getElementById('evidence').textContent)"
    )
    assert "measured" in told and "a <note> & more" in told
    tab.evaluate(f"{choose}('model', '')")
    tab.evaluate(f"{choose}('optimization', '')")
    tab.evaluate(f"{choose}('algorithm', 'winograd')")
    tab.evaluate("document.querySelector('.bar').focus()")
    assert "</script><b>the device was lost</b>" in tab.evaluate(
        "document.getElementById('evidence').textContent"
    )
    assert tab.evaluate("document.querySelectorAll('#tables table').length") == 5
    assert tab.evaluate("document.querySelectorAll('#observations li').length") == 13
    assert tab.requests() == [path.as_uri()]
    assert tab.complaints() == []
