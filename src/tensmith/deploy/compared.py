"""Figures that a certificate states against those that were found here: whether the claims hold."""

from __future__ import annotations

from tensmith.evaluate.outcome import decibels
from tensmith.evaluate.statistics import wilson
from tensmith.hardware import detect_cpu
from tensmith.report.metric import Metric
from tensmith.verify.finding import Finding
from tensmith.verify.schema import Judged

# Where sums are rounded otherwise, one of so many samples may be answered otherwise.
_SAMPLES_A_FLIP = 1000
# By how much rounding moves an average precision (points), a loss (a share of it), and an error of outputs
# (a share of the outputs, and one of the error).
_OF_PRECISION, _OF_LOSS, _OF_OUTPUTS, _OF_ERROR = 0.1, 1e-4, 1e-5, 1e-2
# What bounds an interval hangs on fewer samples than what lies inside it, and moves by so much more.
_OF_ENDS = 3
# The most decibels, of outputs that are the same; and so few of them that no error is as large.
_MOST, _MANY = {"dB": decibels(0) + 1e-6}, 6000.0
# By how much a figure of one process may be above that of another on the same machine.
_ELSEWHERE = 1.05


def answers_compared(name: str, claim: str, stated: Metric, found: Metric, judged: Judged) -> Finding:
    """`accuracy` or `accuracy_drop` against what was found on the same samples.

    Nothing is drawn anew, so both are one number but for rounding: other machines sum in another order, and
    few answers change by that. What is further apart is another figure, though it lies inside the interval,
    which is about other samples; beyond that the claim is false.
    """
    here = f"here {found}"
    counts = judged.measure in ("accuracy", "agreement")
    if stated.unit != found.unit or stated.high > _MOST.get(stated.unit, stated.high):
        return Finding(claim, "does not hold", here)
    if counts and not _is_count(name, stated, judged.judged):
        return Finding(claim, "does not hold", f"{here}; no number of {judged.judged:,} samples gives that")
    number, *ends = (
        abs(a - b) / _rounding(name, b, judged)
        for a, b in zip(_numbers(stated, judged), _numbers(found, judged))
    )
    if number <= 1:
        return Finding(claim, "holds" if max(ends) <= _OF_ENDS else "does not hold", here)
    alike = 0.5 <= (stated.high - stated.low + 1e-9) / (found.high - found.low + 1e-9) <= 2
    inside = found.low <= stated.value <= found.high
    why = f"{here}: further apart than rounding explains"
    if counts:
        differing = round(abs(stated.value - found.value) * judged.judged / 100)
        why = f"{here}: differs by {differing:,} of {judged.judged:,} samples; rounding explains 1 in 1,000"
    return Finding(claim, "differs here" if inside and alike else "does not hold", why)


def _is_count(name: str, stated: Metric, samples: int) -> bool:
    """Whether per cent of so many samples, or points, are of a whole number of them."""
    if abs(stated.value) > 100:
        return False
    count = stated.value * samples / 100
    if abs(count - round(count)) > 1e-6:
        return False
    if name == "accuracy_drop":
        return True
    ends = zip(wilson(abs(round(count)), samples), (stated.low, stated.high))
    return stated.value >= 0 and all(abs(100 * a - b) <= 1e-6 for a, b in ends)


def _numbers(metric: Metric, judged: Judged) -> tuple[float, float, float]:
    """Value and interval; of outputs the errors behind decibels, in per cent."""
    numbers = metric.value, metric.low, metric.high
    if metric.unit == "dB":
        value, low, high = (100 * 10 ** (min(-number, _MANY) / 20) for number in numbers)
        return value, low, high
    return numbers


def _rounding(name: str, number: float, judged: Judged) -> float:
    """By how much rounding may move a number of `_numbers`."""
    if judged.measure == "loss":
        return _OF_LOSS * (100 if name == "accuracy_drop" else max(abs(number), 1e-9))
    if judged.measure == "fidelity":
        return 100 * _OF_OUTPUTS + _OF_ERROR * abs(number)
    if judged.measure == "average-precision":
        return _OF_PRECISION
    return 100 * (judged.judged // _SAMPLES_A_FLIP + 0.5) / judged.judged


def estimates_compared(claim: str, stated: Metric, found: Metric) -> Finding:
    """Estimates are computed, not drawn."""
    ends = ((found.value, stated.value), (found.low, stated.low), (found.high, stated.high))
    near = all(abs(a - b) <= 0.01 * a for a, b in ends)
    return Finding(claim, "holds" if near else "does not hold", f"here {found}")


def measures_compared(claim: str, stated: Metric, found: Metric) -> Finding:
    """Latency and memory are one machine's on one day: agreement confirms them, disagreement is said and
    refutes nothing.

    An interval knows one process alone, and another one lies elsewhere in memory: what is apart by less than
    5 % agrees. An interval that was made too wide holds any figure, so one that is over twice as wide as that
    found here does not speak for the figure in it.
    """
    wide = stated.high - stated.low > 2 * (found.high - found.low) + (_ELSEWHERE - 1) * found.value
    near = _near(found, stated.value) or (not wide and _near(stated, found.value))
    return Finding(claim, "holds" if near else "differs here", f"here {found} on {detect_cpu().model}")


def _near(metric: Metric, value: float) -> bool:
    """Whether a figure of another process may be this one."""
    return metric.low <= value * _ELSEWHERE and value <= metric.high * _ELSEWHERE
