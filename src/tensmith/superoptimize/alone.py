"""Whether a function of a file ends: it is run once by itself, in a process that has limits.

    python -m tensmith.superoptimize.alone FILE FUNCTION '{"examples": [...], "domain": {...}, "seconds": 12}'

Whose text is admitted can do nothing but compute, yet that may take any time and memory, and nothing in the
process that runs it would stop it. With equal arguments it does the same again: so it is run there first.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tensmith.children import Limits, memory_bytes
from tensmith.fork_server import run_module
from tensmith.superoptimize.admit import admit_file
from tensmith.superoptimize.compiled import answered
from tensmith.superoptimize.domain import read_domain
from tensmith.superoptimize.examples import example_arguments
from tensmith.superoptimize.pipeline import example_samples, trace
from tensmith.superoptimize.trace import NotTraceable

# Beside the time that there is: to start a process on a busy machine, and once it has started.
_STARTING, _BUSY = 30.0, 2.0
_LEAST_MEMORY = 4 << 30


def demand_ending(
    file: Path, function: str, examples: Sequence[str], domain: Mapping[str, str], seconds: float
) -> None:
    """NotTraceable unless the function is traced, and answers all sets of arguments, within some seconds and
    half of this machine's memory."""
    longest = seconds + _BUSY
    words = json.dumps({"examples": list(examples), "domain": dict(domain), "seconds": longest})
    limits = Limits(memory=max(_LEAST_MEMORY, memory_bytes() // 2))
    endless = f"it does not end within {seconds:g} s; give it smaller examples"
    try:
        ended = run_module(__name__, (str(file), function, words), (), longest + _STARTING, limits)
    except subprocess.TimeoutExpired as error:
        raise NotTraceable(endless) from error
    if ended.code == -signal.SIGALRM:
        raise NotTraceable(endless)
    if ended.code:
        raise NotTraceable(f"it takes too much memory, or {ended.ending}; give it smaller examples")


def main() -> int:
    """1 where there is too little memory; what else is wrong is found again by whoever asked. The alarm ends
    what takes too long, whatever it is computing."""
    file, function, words = sys.argv[1:]
    given = json.loads(words)
    try:
        admitted = admit_file(Path(file), function)
        domain = read_domain(given["domain"], admitted.parameters)
        arguments = example_arguments(given["examples"], admitted.parameters, domain)
        named = dict(zip(admitted.parameters, arguments))
        signal.setitimer(signal.ITIMER_REAL, given["seconds"])
        trace(admitted, named, domain)
        answered(admitted.plain, example_samples(named, domain))
    except Exception as error:
        return int(any(isinstance(each, MemoryError) for each in (error, error.__cause__)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
