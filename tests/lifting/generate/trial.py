"""Generated programs through the lift road, and those that are proved beside their source."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from unittest.mock import patch

from lifting.generate import c, python
from lifting.generate.program import Generated
from tensmith.errors import TensmithError
from tensmith.lifting import pipeline
from tensmith.lifting.pipeline import derive_or_search, lift_function, read_source
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.second import SecondReader

# Searches for closed forms that succeed take a tenth of a second; hopeless ones took a quarter of all time.
_SEARCH_SECONDS = 0.25


@dataclass(frozen=True)
class Language:
    """A generator: the head of its files, their suffix, and the function of a seed and a name."""

    suffix: str
    head: str
    program: Callable[[int, str], Generated]


LANGUAGES = {
    "c": Language(".c", c.HEAD_C, c.program),
    "c++": Language(".cpp", c.HEAD_CPP, lambda seed, name: c.program(seed, name, cpp=True)),
    "python": Language(".py", python.HEAD, python.program),
}


@dataclass
class Tally:
    """What came of programs. different: those proved that differ from their source, with the sentence;
    unchecked: proved, but the source could not be run, by reason; constructs: how many programs with each
    were made, and proved."""

    made: int = 0
    proved: int = 0
    compared: int = 0
    inputs: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    unchecked: Counter[str] = field(default_factory=Counter)
    different: list[tuple[str, str]] = field(default_factory=list)
    constructs: dict[str, list[int]] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Count another's programs too."""
        for name in ("made", "proved", "compared", "inputs"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.refused += other.refused
        self.unchecked += other.unchecked
        self.different += other.different
        for construct, (made, proved) in other.constructs.items():
            held = self.constructs.setdefault(construct, [0, 0])
            held[0] += made
            held[1] += proved


def programs(language: str, seeds: Sequence[int]) -> list[Generated]:
    """The functions of some seeds."""
    return [LANGUAGES[language].program(seed, f"f{seed}") for seed in seeds]


def trial(language: str, made: Sequence[Generated], folder: Path, inputs: int = 32) -> Tally:
    """Lifts programs from one file, and runs each that is proved on some inputs."""
    tally = Tally(made=len(made))
    path = folder / f"generated{LANGUAGES[language].suffix}"
    path.write_text(LANGUAGES[language].head + "\n".join(program.text for program in made))
    texts = {program.name: program for program in made}
    try:
        found = [entry for entry in read_source(path) if _name(entry) in texts]
    except TensmithError as error:  # one of them cannot be parsed
        if len(made) == 1:
            tally.refused[_plain(str(error))] += 1
            return tally
        halves = made[: len(made) // 2], made[len(made) // 2 :]
        tally = Tally()
        for half in halves:
            tally.add(trial(language, half, folder, inputs))
        return tally
    with patch.object(pipeline, "derive_or_search", partial(derive_or_search, seconds=_SEARCH_SECONDS)):
        results = [lift_function(entry, ()) for entry in found]
    proved = [result for result in results if result.proved]
    reader = SecondReader(path, [r.work.function for r in proved if r.work.function is not None], inputs)
    for result in results:
        for construct in texts[result.name].constructs:
            held = tally.constructs.setdefault(construct, [0, 0])
            held[0] += 1
            held[1] += result.proved
        if not result.proved:
            tally.refused[_plain(result.reason)] += 1
            continue
        assert result.work.lifted is not None
        tally.proved += 1
        try:
            checked = reader.check(result.work.lifted)
        except Refusal as refusal:
            tally.different.append((texts[result.name].text, refusal.reason))
            continue
        tally.inputs += checked.inputs
        tally.compared += checked.inputs > 0
        if not checked.inputs:
            tally.unchecked[_plain(checked.why_not)] += 1
    return tally


def _name(entry: object) -> str:
    return str(getattr(entry, "function" if isinstance(entry, Refusal) else "name"))


def _plain(reason: str) -> str:
    """A reason without names and numbers, so that like ones count together."""
    return re.sub(r"\d+", "N", re.sub(r"/\S+|'[^']*'|\b\w\b", "_", reason))[:90]
