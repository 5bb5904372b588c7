"""How the work of a search grows with its depth and the width of its beam, and what canonical hashes save.

    python -m benchmarks.search.growth [--depths 5] [--widths 1,2,4,8] [--output FILE] [NAME ...]

In small spaces of equal programs, by the cost model alone. For each depth d: the sequences of d moves, which
a walk without hashes would build (about b^d of them, for b moves at a program), the programs that they lead
to, which are all that a walk with canonical hashes goes on from, and what beams build that keep the `width`
cheapest at each depth: at most width times b at each depth, and so linear in both.
"""

from __future__ import annotations

import math
import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from benchmarks import parts
from benchmarks.search.small_spaces import SPACES
from tensmith.egraph.explore import price, searched_rules
from tensmith.egraph.programs import ArrayHashes, signature
from tensmith.evaluate.count import node_seconds
from tensmith.hardware import load_target
from tensmith.rewrite.trail import Traced, moves, simplified

# A device whose roofline does not depend on the machine at hand.
_TARGET = "server-avx512-vnni"


class Walked:
    """The programs of a space, by signature, with the moves of each: made once, when asked for."""

    def __init__(self, name: str) -> None:
        self.cost = node_seconds(load_target(_TARGET))
        self.hashes = ArrayHashes()
        self.programs: dict[str, Traced] = {}
        self.known: dict[str, list[str]] = {}
        self.start = self._met(simplified(Traced(SPACES[name]())))

    def _met(self, traced: Traced) -> str:
        key = signature(traced.program, self.hashes)
        self.programs.setdefault(key, Traced(traced.program))
        return key

    def behind(self, key: str) -> list[str]:
        """Where each move at a program leads."""
        if key not in self.known:
            self.known[key] = [self._met(after) for _, after in moves(self.programs[key], searched_rules())]
        return self.known[key]

    def estimate(self, key: str) -> float:
        """What a program is estimated to take."""
        program = self.programs[key].program
        return price(program, self.cost(program))


def without_beam(space: Walked, depths: int) -> list[dict[str, Any]]:
    """By depth: sequences of moves, and programs that they were the first to reach, in all so far."""
    paths, seen = {space.start: 1}, {space.start}
    rows, sequences = [], 0
    for depth in range(1, depths + 1):
        after: dict[str, int] = {}
        for key, count in paths.items():
            for reached in space.behind(key):
                after[reached] = after.get(reached, 0) + count
        paths = after
        seen |= after.keys()
        sequences += sum(after.values())
        rows.append({"depth": depth, "sequences": sequences, "programs": len(seen)})
    return rows


def beam(space: Walked, width: int, depths: int, hashed: bool) -> list[int]:
    """By depth: programs that a beam built so far; without hashes it may hold one program many times."""
    front, seen, built, counts = [space.start], {space.start}, 0, []
    for _ in range(depths):
        found = [reached for key in front for reached in space.behind(key)]
        built += len(found)
        if hashed:
            found = list(dict.fromkeys(key for key in found if key not in seen))
            seen.update(found)
        front = sorted(found, key=space.estimate)[:width]
        counts.append(built)
    return counts


def grown(name: str, options: Namespace) -> parts.Found:
    """One space."""
    space = Walked(name)
    rows = without_beam(space, options.depths)
    for width in map(int, options.widths):
        for hashed in (True, False):
            word = f"beam of {width}" + ("" if hashed else " without hashes")
            for row, built in zip(rows, beam(space, width, options.depths, hashed)):
                row[word] = built
    last = rows[-1]
    base = (last["sequences"] / max(1, rows[-2]["sequences"])) if len(rows) > 1 else math.nan
    figures: Mapping[str, Any] = {
        "moves": len(space.behind(space.start)), "base": base,
        "saved": last["sequences"] / last["programs"], **last, "depths": rows,
    }  # fmt: skip
    return parts.Found(row=figures)


def main() -> int:
    """1 where a space failed."""
    parser = parts.arguments(__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SPACES)}")
    parser.add_argument("--depths", type=int, default=5)
    parser.add_argument("--widths", type=parts.names, default=["1", "2", "4", "8"])
    options = parser.parse_args()
    if unknown := set(options.names) - set(SPACES):
        parser.error(f"no space {', '.join(sorted(unknown))}")
    names = options.names or ("pairs", "gates", "sums", "bert")
    settings = {"bench": "growth", "depths": options.depths, "widths": options.widths, "target": _TARGET}
    return parts.main(names, grown, options.output, settings, options=options)


if __name__ == "__main__":
    sys.exit(main())
