"""Generated programs: how many lift, and whether those that are proved compute what their source computes.

    python -m benchmarks.lifting.generated --programs 100000 --output build/generated.json

Every program is the function of a seed, so a range of seeds is a part of the whole. `--mutants` instead
damages the front ends, one table entry at a time, and says which damage the programs show.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import parts
from lifting.generate.mutants import MUTANTS, caught
from lifting.generate.trial import LANGUAGES, programs, trial

PART = 100  # programs that are compiled together
SHOWN = 25


def part(work: tuple[str, int]) -> parts.Found:
    """What came of the programs of a language from a seed on."""
    language, start = work
    with tempfile.TemporaryDirectory(prefix="tensmith-generated-") as folder:
        tally = trial(language, programs(language, range(start, start + PART)), Path(folder))
    counts = {name: getattr(tally, name) for name in ("made", "proved", "compared", "inputs")}
    constructs = {name: {"made": m, "proved": p} for name, (m, p) in tally.constructs.items()}
    found = {**counts, "refused": tally.refused, "unchecked": tally.unchecked, "constructs": constructs}
    return parts.Found({language: found}, tuple(f"{text}\n  {said}\n" for text, said in tally.different))


def show(language: str, counts: dict[str, Any]) -> None:
    """Prints what came of the programs of a language."""
    print(
        f"{language}: {counts['made']} programs, {counts['proved']} proved, {counts['compared']} of them run "
        f"beside their source on {counts['inputs']} inputs"
    )
    for kind, words in (("refused", "refused"), ("unchecked", "not run")):
        for reason, count in sorted(counts[kind].items(), key=lambda item: -item[1])[:SHOWN]:
            print(f"  {count:6} {words}: {reason}")
    for construct, count in sorted(counts["constructs"].items()):
        print(f"  {count['proved']:6} of {count['made']:6} proved: {construct}")


def main() -> int:
    parser = parts.arguments(__doc__)
    parser.add_argument("--programs", type=int, default=100_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--mutants", action="store_true")
    options = parser.parse_args()
    if options.mutants:
        missed = [name for name in MUTANTS if not print_caught(name)]
        print(f"{len(MUTANTS) - len(missed)} of {len(MUTANTS)} mutants caught")
        return int(bool(missed))
    starts = range(0, options.programs // len(LANGUAGES), PART)
    every = {f"{language} {start}": (language, start) for start in starts for language in LANGUAGES}
    settings = {"bench": "lifting_generated", "part": PART}
    document = parts.run(every, part, options.output, settings, options.processes)
    for language, counts in document["counts"].items():
        show(language, counts)
    return parts.ended(document)


def print_caught(name: str) -> bool:
    """Whether a mutant is caught, said in a line."""
    found = caught(name)
    print(f"{name}: {f'caught by program {found}' if found is not None else 'NOT CAUGHT'}", flush=True)
    return found is not None


if __name__ == "__main__":
    sys.exit(main())
