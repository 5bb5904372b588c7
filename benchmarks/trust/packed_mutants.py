"""Damaged and forged packed files: both decoders refuse each in one sentence, or both give the exact model.

    python -m benchmarks.trust.packed_mutants [--mutants 100000] [--output FILE]

A part is a thousand mutants of one kind: damaged by chance; behind a check sum that was made anew; inside a
decompressed section, so that the decoders see it. None may end otherwise, take over five seconds of the
processor, or make the process grow by more than 256 MiB.
"""

from __future__ import annotations

import random
import resource
import sys
import time
from collections.abc import Callable
from functools import cache

from packed_damage import SECTIONS, forged, mutated, under_a_seal
from packed_samples import varied_model

from benchmarks import parts
from tensmith.backend.packed import container, pack, unpack
from tensmith.backend.packed.compiled import compiled_library
from tensmith.errors import TensmithError

A_PART = 1000
SECONDS, GROWTH_KIB = 5.0, 256 << 10
KINDS = ("damaged", "sealed anew", *SECTIONS)


@cache
def sample() -> tuple[bytes, bytes]:
    """A model with every kind of tensor that the format knows, and its packed file."""
    model = varied_model()
    return model, pack(model)


def mutant(kind: str, rng: random.Random) -> bytes:
    """A file of that kind."""
    model, packed = sample()
    if kind == "damaged":
        return mutated(packed, rng)
    if kind == "sealed anew":
        return under_a_seal(packed, rng)
    return forged(packed, kind, rng, len(model))


def fault_of(file: bytes) -> tuple[str, str]:
    """What came of a file by NumPy, and what is wrong with that, or with what C makes of it."""
    came, problem = fault(lambda: unpack(file, compiled=False))
    compiled, another = fault(lambda: unpack(file, compiled=True))
    differs = "" if came == compiled else f"is {came} by NumPy and {compiled} by C"
    return came, problem or another or differs


def fault(unpacked: Callable[[], bytes]) -> tuple[str, str]:
    """What came of a file, and what is wrong with that, if anything."""
    model, _ = sample()
    began = time.process_time()
    try:
        came, problem = ("exact", "") if unpacked() == model else ("another model", "gives another model")
    except TensmithError as error:
        came, problem = "refused", "" if len(str(error).splitlines()) == 1 else "is refused in several lines"
    except Exception as error:
        came, problem = "raised", f"raises {type(error).__name__}: {error}"
    if (seconds := time.process_time() - began) > SECONDS:
        problem = problem or f"takes {seconds:.1f} s"
    return came, problem


def tried(number: int) -> parts.Found:
    """A thousand mutants."""
    kind = KINDS[number % len(KINDS)]
    if compiled_library(sys.maxsize) is None:
        raise SystemExit("there is no C compiler, and both decoders are to be compared")
    container._compress = lambda data: (0, data)  # forged sections are stored: the strongest takes long
    before = _peak_kib()
    counts: dict[str, int] = {}
    wrong: list[str] = []
    for seed in range(number * A_PART, (number + 1) * A_PART):
        file = mutant(kind, random.Random(seed))
        came, problem = fault_of(file)
        counts[came] = counts.get(came, 0) + 1
        if problem:
            wrong.append(f"mutant {seed} ({kind}) {problem}")
    if (grown := _peak_kib() - before) > GROWTH_KIB:
        wrong.append(f"the process grew by {grown >> 10} MiB")
    return parts.Found({kind: counts}, tuple(wrong))


def _peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> int:
    """1 where anything is wrong."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--mutants", type=int, default=100_000)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    numbers = {str(number): number for number in range(-(-options.mutants // A_PART))}
    settings = {"bench": "packed mutants", "format": container.VERSION, "a part": A_PART}
    return parts.main(numbers, tried, options.output, settings, options.processes)


if __name__ == "__main__":
    sys.exit(main())
