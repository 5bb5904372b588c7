"""The site builds without a warning, asks nobody outside for anything, and search works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from chromium import chromium_page, find_chromium

ROOT = Path(__file__).resolve().parents[2]
# What a page loads by itself; a link that a reader may follow is no such thing.
LOADED = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*\s(?:src|href)="((?:https?:)?//[^"]*)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="no mkdocs-material: pip install --group docs")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_pages_load_nothing_from_outside(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 25
    assert {page.name: found for page in pages if (found := LOADED.findall(page.read_text()))} == {}


def test_other_files_are_taken_in(site: Path) -> None:
    assert 'title="quick_gelu.py"' not in (site / "contributing.html").read_text()  # it became a title
    assert "quick_gelu.py" in (site / "contributing.html").read_text()
    assert "MobileNetV2" in (site / "choosing.html").read_text()  # of README's tables
    assert not list(site.rglob("*.py"))


@pytest.mark.skipif(
    find_chromium() is None or os.name != "posix", reason="no chromium: install the package `chromium`"
)
def test_search_finds_a_word_without_a_server(site: Path, tmp_path: Path) -> None:
    with chromium_page(tmp_path / "profile") as page:
        page.open(site / "index.html", 1280, 900)
        page.evaluate(
            "(field => { field.focus(); field.value = 'saxpy';"
            " field.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true})); })"
            "(document.querySelector('[data-md-component=search-query]'))"
        )
        found = page.until("document.querySelector('.md-search-result__link')?.href")
        assert "lift.html" in found
        assert [address for address in page.requests() if not address.startswith(("file:", "data:"))] == []
        assert page.complaints() == []
