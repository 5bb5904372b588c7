"""Follows docs/tutorial.md and writes into it what came out: `python -m docs.tutorial`, four minutes or so.

Figures are those of the machine that this runs on, which the page names.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from docs.blocks import Block, blocks

from tensmith import __version__
from tensmith.files import write_bytes, write_text
from tensmith.hardware import detect_cpu
from tensmith.report.figure import save_figure
from tensmith.report.stored import read_report

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "tutorial.md"
FIGURE = ROOT / "docs" / "images" / "front-digits.png"

# A block that is run, and the block right behind it with what it printed.
_SHOWN = re.compile(r"(^```(?:sh|python)\n.*?^```\n)(?:\n```text\n.*?^```\n)?", re.MULTILINE | re.DOTALL)
_MACHINE = re.compile(r"(?<=<!-- machine -->\n).*?(?=<!-- end machine -->)", re.DOTALL)
# Of longer outputs the beginning and the end are shown.
_HEAD, _TAIL = 18, 2


def follow(folder: Path) -> str:
    """The page, its blocks run in a folder that has the examples."""
    load = os.getloadavg()[0]
    text = _SHOWN.sub(partial(_followed, folder), PAGE.read_text(encoding="utf-8"))
    cpu = detect_cpu()
    made = f"What is shown came out on {cpu.model}, {cpu.cores} cores, load {load:.1f} before, "
    made += f"with tensmith {__version__}, on {datetime.now(UTC):%Y-%m-%d}.\n"
    return _MACHINE.sub(lambda _: made, text)


def _followed(folder: Path, found: re.Match[str]) -> str:
    """A block, and what it prints."""
    (block,) = blocks(found[1])
    printed = "".join(_output(folder, command) for command in _commands(block)).splitlines()
    if len(printed) > _HEAD + _TAIL + 1:
        printed = [*printed[:_HEAD], "...", *printed[-_TAIL:]]
    shown = "".join(f"{line.rstrip()}\n" for line in printed)
    return f"{found[1]}\n```text\n{shown}```\n" if shown else found[1]


def _commands(block: Block) -> list[list[str]]:
    if block.language == "python":
        return [[sys.executable, "-c", block.text]]
    return [["sh", "-c", command] for command, _ in block.commands]


def _output(folder: Path, command: list[str]) -> str:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "110"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.replace(f"{folder}/", "")


def main() -> None:
    """Writes the page and its picture, or neither."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "examples").symlink_to(ROOT / "examples")
        text = follow(folder)
        save_figure(read_report(folder / "digits"), folder / FIGURE.name)
        write_bytes(FIGURE, (folder / FIGURE.name).read_bytes())
        write_text(PAGE, text)


if __name__ == "__main__":
    main()
