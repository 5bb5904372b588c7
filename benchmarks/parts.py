"""The document of a bench: what each part found, written when the part ends, and gone on with from there.

settings  what all parts have in common
runs      each time that the bench was started: commit, cpu, load of the machine, date, parts, seconds, and
          how many parts or benches ran at once where several did, each on a core of its own
of        how many parts there are
done      names of the parts that ended
rows      by part: its figures by name
counts    numbers by name, or mappings of such, summed over the parts
counted   by part that is wrong: what of the counts is its own
wrong     by part: a sentence for each fault that was found; the next run of another commit tries it again
mended    by part: the commit that found no fault any more, and the sentences that were said before
failed    by part: why it could not be measured; it is tried again by the next run
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing import SimpleQueue
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks import ROOT
from tensmith.errors import TensmithError
from tensmith.files import write_text
from tensmith.hardware.cpu import detect_cpu

# How many benches run at once, for those that are started.
BENCHES = "TENSMITH_BENCHES_AT_ONCE"

Part = TypeVar("Part")
Document = dict[str, Any]


@dataclass(frozen=True)
class Found:
    """What a part found: its row, its counts, and a sentence for each fault."""

    counts: Mapping[str, Any] = field(default_factory=dict)
    wrong: tuple[str, ...] = ()
    row: Mapping[str, Any] = field(default_factory=dict)


def arguments(doc: str | None) -> ArgumentParser:
    """A command line with the options that every bench takes."""
    parser = ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, help="JSON, written after each part; gone on with if there")
    return parser


def arguments_at_once(doc: str | None) -> ArgumentParser:
    """Of a bench whose parts may run beside each other."""
    parser = arguments(doc)
    parser.add_argument("--at-once", type=cores, default=1, help="parts, each on a core of its own")
    return parser


def cores(text: str) -> int:
    """The type of options that take a number of cores: one at least, and as many as there are."""
    found, most = int(text), len(os.sched_getaffinity(0))
    if not 1 <= found <= most:
        raise ArgumentTypeError(f"{found} is not between 1 and the {most} cores that are here")
    return found


def names(text: str) -> list[str]:
    """The type of options that take A,B."""
    return text.split(",")


def unusual(parser: ArgumentParser, options: Namespace, *names: str) -> dict[str, Any]:
    """Options that are not what they are where nobody says so, as settings."""
    return {
        name: getattr(options, name) for name in names if getattr(options, name) != parser.get_default(name)
    }


def run(
    parts: Mapping[str, Part] | Sequence[str],
    work: Callable[[Part], Found],
    output: Path | None,
    settings: Mapping[str, Any],
    processes: int = 1,
    pinned: bool = False,
) -> Document:
    """The document of all parts, of which those that `output` holds are not done again.

    pinned: each of several processes, with all that it starts, runs on a core of its own. Names alone are
    parts too. Figures and faults are printed as they come. Ends the program where the output is of other
    settings.
    """
    every = parts if isinstance(parts, Mapping) else {name: name for name in parts}
    document = _begun(output, settings)
    document["of"] = len(every)
    this = _this_run()
    wrong = {name for name in document["wrong"] if document["runs"][-1]["commit"] != this["commit"]}
    left = {name: part for name, part in every.items() if name not in document["done"] or name in wrong}
    this |= {"at_once": processes} if processes > 1 and pinned else {}
    document["runs"] += [this] if left else []
    began = time.perf_counter()
    for name, found in _as_they_end(functools.partial(_tried, work), left, processes, pinned):
        _add(document, name, found, this["commit"])
        rows = document["rows"]
        document["rows"] = {each: rows[each] for each in (*every, *rows) if each in rows}
        this |= {"parts": this["parts"] + 1, "seconds": round(time.perf_counter() - began, 1)}
        if output is not None:
            output.parent.mkdir(parents=True, exist_ok=True)
            write_text(output, json.dumps(document, indent=1) + "\n")
        print(told(name, found), end="", flush=True)
        done = f"{len(document['done'])} of {len(every)} parts, {len(document['wrong'])} wrong"
        print(done, end="\r", file=sys.stderr, flush=True)
    return document


def _as_they_end(
    work: Callable[[Part], Found | str], parts: Mapping[str, Part], processes: int, pinned: bool
) -> Iterator[tuple[str, Found | str]]:
    """What comes of each part, as they end."""
    if processes == 1:
        yield from ((name, work(part)) for name, part in parts.items())
        return
    with _pool(processes, pinned) as pool:
        asked = {pool.submit(work, part): name for name, part in parts.items()}
        yield from ((asked[each], each.result()) for each in as_completed(asked))


def _pool(processes: int, pinned: bool) -> ProcessPoolExecutor:
    """So many processes; pinned: no more than there are cores."""
    if not pinned:
        return ProcessPoolExecutor(processes)
    return ProcessPoolExecutor(processes, initializer=_pin, initargs=(_free_cores(processes),))


def pinned_threads(count: int) -> ThreadPoolExecutor:
    """So many threads; what each starts runs on a core of its own. No more than there are cores."""
    return ThreadPoolExecutor(count, initializer=_pin, initargs=(_free_cores(count),))


def _free_cores(count: int) -> SimpleQueue[int]:
    free: SimpleQueue[int] = SimpleQueue()
    for core in sorted(os.sched_getaffinity(0))[:count]:
        free.put(core)
    return free


def _pin(free: SimpleQueue[int]) -> None:
    os.sched_setaffinity(0, {free.get()})


def main(
    parts: Mapping[str, Part] | Sequence[str],
    work: Callable[..., Found],
    output: Path | None,
    settings: Mapping[str, Any],
    /,
    processes: int = 1,
    pinned: bool = False,
    **given: Any,
) -> int:
    """Runs all parts and says how it ended: the exit status. given: what `work` takes beside a part.

    NumPy says nothing of overflows and the like: what comes of them is compared.
    """
    with np.errstate(all="ignore"):
        return ended(run(parts, functools.partial(work, **given), output, settings, processes, pinned))


def told(name: str, found: Found | str) -> str:
    """The lines that say what a part found: its figures, its faults, or why it failed."""
    if isinstance(found, str):
        return f"{name:28} failed: {found}\n"
    figures = "  ".join(f"{key} {_short(value)}" for key, value in found.row.items() if not _tree(value))
    lines = [f"{name:28} {figures}"] if figures else []
    return "".join(f"{line}\n" for line in (*lines, *found.wrong))


def ended(document: Document) -> int:
    """Says how the bench ended, how long its runs took, and of which commits they are; the exit status."""
    seconds = sum(entry["seconds"] for entry in document["runs"])
    commits = ", ".join(dict.fromkeys(entry["commit"] for entry in document["runs"]))
    wrong, failed = len(document["wrong"]), len(document["failed"])
    mended = f" ({len(document['mended'])} that were wrong are mended)" if document["mended"] else ""
    counts = document["counts"] or ""
    print(f"{len(document['done'])} parts {counts}: {wrong} wrong{mended}, {failed} failed", end=" ")
    print(f"in {seconds:.0f} s, of {commits}")
    return int(bool(wrong or failed))


def added(one: Mapping[str, Any], other: Mapping[str, Any], times: int = 1) -> dict[str, Any]:
    """Two trees of numbers, summed leaf by leaf, the other one so many times."""
    total = dict(one)
    for name, value in other.items():
        if isinstance(value, Mapping):
            total[name] = added(total.get(name, {}), value, times)
        else:
            total[name] = total.get(name, 0) + times * value
    return total


def read(path: Path) -> Document:
    """The document of a file, with all its fields."""
    return _empty() | json.loads(path.read_text())


def _empty() -> Document:
    lists: Document = {"runs": [], "of": 0, "done": []}
    return lists | {name: {} for name in ("rows", "counts", "counted", "wrong", "mended", "failed")}


def _begun(output: Path | None, settings: Mapping[str, Any]) -> Document:
    """What the output holds, or nothing yet."""
    if output is None or not output.exists():
        return {"settings": dict(settings)} | _empty()
    document = read(output)
    if document.get("settings") != settings:
        sys.exit(f"{output} is of other settings, {document.get('settings')}; give another --output")
    return document


def _this_run() -> dict[str, Any]:
    """What is known of a run when it begins. load: processes that wanted to run in the last minute."""
    benches = int(os.environ.get(BENCHES, 1))
    return {
        "commit": _commit(),
        "cpu": _cpu(),
        "load": round(os.getloadavg()[0], 2),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "parts": 0,
        "seconds": 0.0,
        **({"benches": benches} if benches > 1 else {}),
    }


def _cpu() -> str:
    """The model, and the widest instructions that decide how fast it multiplies."""
    cpu = detect_cpu()
    vectors = {"avx512_vnni": "AVX-512 VNNI", "avx512f": "AVX-512", "avx2": "AVX2"}
    widest = [name for key, name in vectors.items() if key in cpu.features][:1]
    return ", ".join([cpu.model, *widest, *(["AMX"] if "amx_int8" in cpu.features else [])])


def _tried(work: Callable[[Part], Found], part: Part) -> Found | str:
    """What a part found, or why it could not be measured."""
    try:
        return work(part)
    except (TensmithError, ImportError, OSError, subprocess.SubprocessError) as error:
        return f"{error}"[:300] or type(error).__name__


def _add(document: Document, name: str, found: Found | str, commit: str) -> None:
    """Writes down what came of a part, in place of what it said before."""
    if isinstance(found, str):
        document["failed"][name] = found
        return
    document["failed"].pop(name, None)
    said = document["wrong"].pop(name, None)
    before = document["counted"].pop(name, None if said else {})
    if found.wrong:
        document["wrong"][name] = list(found.wrong)
    elif said is not None:
        document["mended"][name] = {"commit": commit, "said": said}
    if before is not None:  # older documents do not say what of the counts is of a part that was wrong
        document["counts"] = added(added(document["counts"], before, -1), found.counts)
        document["counted"] |= {name: dict(found.counts)} if found.wrong else {}
    document["rows"] |= {name: dict(found.row)} if found.row else {}
    if said is None:
        document["done"].append(name)


def _tree(value: Any) -> bool:
    return isinstance(value, (Mapping, list, tuple))


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _commit() -> str:
    """The commit of the sources, "-dirty" where they are changed; what benches write does not count."""
    sources = (".", ":!benchmarks/results", ":!README.md")
    try:
        commit = _git("rev-parse", "--short", "HEAD").stdout.strip()
        return commit + ("-dirty" if _git("status", "--porcelain", "--", *sources).stdout else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(("git", *words), cwd=ROOT, capture_output=True, text=True, check=True)
