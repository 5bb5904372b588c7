"""Generated programs: how many lift, and whether those that are proved compute what their source computes.

    python benchmarks/lifting_generated.py --programs 100000 --output build/generated.json

Every program is the function of a seed, so a range of seeds is a part of the whole: what is written after
each part is gone on with when the same output is given again. `--mutants` instead damages the front ends, one
table entry at a time, and says which damage the programs show.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

sys.path[:0] = [
    str(Path(__file__).parents[1] / "tests"),
    str(Path(__file__).parents[1] / "tests" / "lifting"),
]

from lifting.generate.mutants import MUTANTS, caught  # noqa: E402
from lifting.generate.trial import LANGUAGES, Tally, programs, trial  # noqa: E402

PART = 100  # programs that are compiled together
SHOWN = 25


def part(work: tuple[str, int]) -> Tally:
    """The programs of a language from a seed on."""
    language, start = work
    with tempfile.TemporaryDirectory(prefix="tensmith-generated-") as folder:
        return trial(language, programs(language, range(start, start + PART)), Path(folder))


def document(tallies: dict[str, Tally], done: dict[str, list[int]], seconds: float) -> dict[str, Any]:
    """What is written: all counts, every program that differs, and how often each construct was proved."""
    return {
        "seconds": round(seconds, 1),
        "done": done,
        "languages": {name: vars(tally) for name, tally in tallies.items()},
    }


def run(count: int, output: Path, processes: int) -> dict[str, Tally]:
    """All programs that the output does not hold yet."""
    tallies = {language: Tally() for language in LANGUAGES}
    done: dict[str, list[int]] = {language: [] for language in LANGUAGES}
    seconds = 0.0
    if output.exists():
        held = json.loads(output.read_text())
        done, seconds = held["done"], held["seconds"]
        tallies = {language: Tally.of(row) for language, row in held["languages"].items()}
    parts = [(name, start) for start in range(0, count // len(LANGUAGES), PART) for name in LANGUAGES]
    left = [work for work in parts if work[1] not in done[work[0]]]
    began = time.perf_counter()
    with ProcessPoolExecutor(processes) as pool:
        for (language, start), tally in zip(left, pool.map(part, left)):
            tallies[language].add(tally)
            done[language].append(start)
            text = json.dumps(document(tallies, done, seconds + time.perf_counter() - began), indent=1)
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(text)
    return tallies


def show(tallies: dict[str, Tally]) -> int:
    """Prints what came of it; how many programs were proved and differ."""
    for language, tally in tallies.items():
        print(
            f"{language}: {tally.made} programs, {tally.proved} proved, {tally.compared} of them run beside "
            f"their source on {tally.inputs} inputs, {len(tally.different)} different"
        )
        for reason, count in tally.refused.most_common(SHOWN):
            print(f"  {count:6} refused: {reason}")
        for reason, count in tally.unchecked.most_common(SHOWN):
            print(f"  {count:6} not run: {reason}")
        for construct, (made, proved) in sorted(tally.constructs.items()):
            print(f"  {proved:6} of {made:6} proved: {construct}")
        for text, sentence in tally.different:
            print(f"{text}\n  {sentence}\n")
    return sum(len(tally.different) for tally in tallies.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--programs", type=int, default=100_000)
    parser.add_argument("--output", type=Path, default=Path("build/lifting_generated.json"))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--mutants", action="store_true")
    options = parser.parse_args()
    if options.mutants:
        missed = [name for name in MUTANTS if not print_caught(name)]
        print(f"{len(MUTANTS) - len(missed)} of {len(MUTANTS)} mutants caught")
        return int(bool(missed))
    different = show(run(options.programs, options.output, options.processes))
    print(f"proved and different: {different}")
    return int(bool(different))


def print_caught(name: str) -> bool:
    """Whether a mutant is caught, said in a line."""
    found = caught(name)
    print(f"{name}: {f'caught by program {found}' if found is not None else 'NOT CAUGHT'}", flush=True)
    return found is not None


if __name__ == "__main__":
    sys.exit(main())
