"""Long benches in parts: what each part found is written when it ends, and gone on with from there.

The file is one JSON document: `settings` (what all parts have in common), `runs` (commit, processor, parts
and seconds of each time that the bench was started), `done`, `counts`, `wrong` (a sentence for each fault).
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tensmith.files import write_text
from tensmith.hardware.cpu import detect_cpu

Part = TypeVar("Part")
Document = dict[str, Any]


@dataclass(frozen=True)
class Found:
    """What a part found. counts: numbers by name, or mappings of such; wrong: a sentence for each fault."""

    counts: Mapping[str, Any] = field(default_factory=dict)
    wrong: tuple[str, ...] = ()


def add_output(parser: ArgumentParser) -> None:
    """The option that `run` takes."""
    parser.add_argument("--output", type=Path, help="JSON, written after each part; gone on with if there")


def run(
    parts: Mapping[str, Part],
    work: Callable[[Part], Found],
    output: Path | None,
    settings: Mapping[str, Any],
    processes: int = 1,
) -> Document:
    """The document of all parts, of which those that `output` holds are not done again.

    Faults are printed when they are found. Ends the program where the output is of other settings.
    """
    document = _begun(output, settings)
    left = {name: part for name, part in parts.items() if name not in document["done"]}
    this = {"commit": _commit(), "cpu": detect_cpu().model, "parts": 0, "seconds": 0.0}
    document["runs"] += [this] if left else []
    began = time.perf_counter()
    with contextlib.ExitStack() as stack:
        each = map if processes == 1 else stack.enter_context(ProcessPoolExecutor(processes)).map
        for name, found in zip(left, each(work, left.values())):
            document["done"].append(name)
            document["counts"] = added(document["counts"], found.counts)
            document["wrong"] += found.wrong
            this |= {"parts": this["parts"] + 1, "seconds": round(time.perf_counter() - began, 1)}
            document["runs"][-1] = this
            if output is not None:
                output.parent.mkdir(parents=True, exist_ok=True)
                write_text(output, json.dumps(document, indent=1))
            print("".join(f"{sentence}\n" for sentence in found.wrong), end="", flush=True)
            done = f"{len(document['done'])} of {len(parts)} parts, {len(document['wrong'])} wrong"
            print(done, end="\r", file=sys.stderr, flush=True)
    return document


def summary(document: Document) -> str:
    """How long all runs took, and of which commits they are."""
    seconds = sum(entry["seconds"] for entry in document["runs"])
    commits = ", ".join(dict.fromkeys(entry["commit"] for entry in document["runs"]))
    return f"{len(document['wrong'])} wrong in {seconds:.0f} s, of {commits}"


def added(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Two trees of numbers, summed leaf by leaf."""
    total = dict(one)
    for name, value in other.items():
        if isinstance(value, Mapping):
            total[name] = added(total.get(name, {}), value)
        else:
            total[name] = total.get(name, 0) + value
    return total


def _begun(output: Path | None, settings: Mapping[str, Any]) -> Document:
    """What the output holds, or nothing yet."""
    if output is None or not output.exists():
        return {"settings": dict(settings), "runs": [], "done": [], "counts": {}, "wrong": []}
    document: Document = json.loads(output.read_text())
    if document.get("settings") != settings:
        sys.exit(f"{output} is of other settings, {document.get('settings')}; give another --output")
    return document


def _commit() -> str:
    """The commit of the sources, "-dirty" where they are changed."""
    command = ("git", "describe", "--always", "--dirty", "--exclude=*")
    try:
        return subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
