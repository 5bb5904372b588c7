"""The examples of CONTRIBUTING.md are whole: each section's files, in a folder of their own, pass."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from forked import Commands

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

# ```language file-name, up to the closing fence: file name -> content.
BLOCK = re.compile(r"^```\w+ (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTIONS = {
    title: dict(BLOCK.findall(body))
    for title, body in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
}


def test_every_way_to_grow_has_an_example() -> None:
    assert list(SECTIONS) == [
        "An op", "An exact rule", "A lossy method", "An engine", "An engine that compiles", "An algorithm",
        "A dataset", "A target", "A lifting target",
    ]  # fmt: skip
    assert all(any(name.startswith("test_") for name in files) for files in SECTIONS.values())
    assert PAGE.count("```") == 2 * sum(map(len, SECTIONS.values())), "a block without a file name is not run"


@pytest.mark.parametrize("title", SECTIONS)
def test_examples_run(title: str, commands: Commands, tmp_path: Path) -> None:
    for name, content in SECTIONS[title].items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    # In a process of its own, so that what the examples register stays out of the other tests.
    tests = (ROOT / "tests" / room for room in ("ir/ops", "engine", "kernel"))
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path)
    paths = os.pathsep.join(map(str, [tmp_path, ROOT / "src", *tests]))
    environment = {**os.environ, "PYTHONPATH": paths}
    done = commands("python", *words, folder=tmp_path, seconds=120, memory=None, environment=environment)
    assert done.code == 0, done.stdout + done.stderr
