"""How kernels are chosen, by the words that users say: tuned or not, the precision, the algorithm."""

from __future__ import annotations

import contextlib

from tensmith.backend.native.choose.choosers import Choosing, restricted_to
from tensmith.backend.native.choose.measured import measured, metascheduled
from tensmith.backend.native.choose.precision import InPrecision
from tensmith.errors import EngineError, OutputError
from tensmith.kernel import scheduled
from tensmith.kernel.timings import Timings

# By what `tensmith tune` has measured where it has; by estimates alone; those that TVM's MetaSchedule found
# where it was asked.
TUNED, UNTUNED, METASCHEDULE = "tuned", "untuned", "metaschedule"
TUNINGS = (TUNED, UNTUNED, METASCHEDULE)


def chosen_by(tuning: str, precision: str, algorithm: str) -> Choosing:
    """The choice in TUNINGS, of an algorithm's family or ANY, for layers that may multiply in a precision."""
    untuned = restricted_to(algorithm)
    if tuning == UNTUNED:
        return InPrecision(untuned, precision)
    timings = Timings()
    known = measured(timings, untuned)
    return InPrecision(metascheduled(known, timings) if tuning == METASCHEDULE else known, precision)


def timings_revision(tuning: str) -> str:
    """What is known of kernels: "" untuned, else their timings, and for MetaSchedule those that are kept."""
    if tuning == UNTUNED:
        return ""
    try:
        with contextlib.closing(Timings()) as timings:
            return timings.revision() + (scheduled.revision() if tuning == METASCHEDULE else "")
    except OutputError as error:
        raise EngineError(f"native cannot choose kernels: {error}") from error
