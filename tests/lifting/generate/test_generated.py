"""Generated programs that are proved compute what their source computes; damaged front ends are found out.

`benchmarks/lifting/generated.py` goes through many more, and through all mutants.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lifting.generate.mutants import MUTANTS, caught
from lifting.generate.trial import LANGUAGES, Tally, programs, trial
from lifting.harness_native import compilers

SEEDS = {"c": range(100_000, 100_200), "c++": range(100_000, 100_100), "python": range(100_000, 100_200)}
PART = 25
INPUTS = 16

pytestmark = pytest.mark.skipif(not compilers(), reason="gcc and g++ are not installed")


@pytest.mark.parametrize(
    ("language", "start"), [(name, start) for name, seeds in SEEDS.items() for start in seeds[::PART]]
)
def test_what_is_proved_is_what_the_source_computes(language: str, start: int, tmp_path: Path) -> None:
    tally = trial(language, programs(language, range(start, start + PART)), tmp_path, INPUTS)
    assert not tally.different, "\n".join(tally.different[0])
    assert not tally.unchecked
    assert tally.compared > PART // 4, tally.refused


def test_programs_are_of_their_seed_alone() -> None:
    for language in LANGUAGES:
        assert programs(language, range(9)) == programs(language, range(9))
        assert len({program.text for program in programs(language, range(9))}) == 9


def test_tallies_add_up() -> None:
    one = Tally(made=2, proved=1, constructs={"for": [2, 1]})
    one.refused["too hard"] += 1
    whole = Tally()
    whole.add(one)
    whole.add(one)
    assert (whole.made, whole.proved, whole.refused["too hard"]) == (4, 2, 2)
    assert whole.constructs == {"for": [4, 2]}


@pytest.mark.parametrize("name", ["C < as <=", "C unsigned as int", "C x++ as ++x", "Python // truncates"])
def test_a_damaged_front_end_is_found_out(name: str) -> None:
    assert name in MUTANTS and caught(name) is not None
