"""What the pages point at exists: links, and the rooms and modules that hand-written ones name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ("automotive", "digits", "edge_vision", "lifting", "sensor_node", "study")
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/architecture.md",
         *(f"examples/{name}/README.md" for name in EXAMPLES))  # fmt: skip
SITE = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("page", sorted({*PAGES, *SITE}))
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_named_files_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`((?:[a-z_]+/)+[a-z0-9_.]+\.(?:py|md|toml))`", text)
    places = (ROOT, ROOT / "src" / "tensmith", (ROOT / page).parent, ROOT / "src")
    assert [name for name in named if not any((place / name).exists() for place in places)] == []


def test_the_road_names_modules_that_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    road = text.partition("## The compress road")[2].partition("## The rooms")[0]
    named = re.findall(r"^ +\w+ +([a-z]+\.[a-z]+)[.:]", road, re.MULTILINE)
    assert len(named) >= 8
    package = ROOT / "src" / "tensmith"
    assert [name for name in named if not (package / f"{name.replace('.', '/')}.py").exists()] == []
