"""Figures as people read them: units, sensible digits, intervals, evidence words."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from tensmith.report.metric import Metric


class Quantity(NamedTuple):
    """A metric as text; `interval` is empty where the figure is exact."""

    value: str
    interval: str
    evidence: str

    def __str__(self) -> str:
        interval = f" [{self.interval}]" if self.interval else ""
        return f"{self.value}{interval}, {self.evidence}"


def with_interval(metric: Metric, unit: str = "") -> str:
    """`0.75x [0.74 to 0.77]` without evidence or its own unit; the interval only where there is one."""
    interval = "" if metric.low == metric.high else f" [{metric.low:.4g} to {metric.high:.4g}]"
    return f"{metric.value:.4g}{unit}{interval}"


def significant(value: float, digits: int = 3) -> str:
    """`value` to `digits` significant digits, zeros kept; with an exponent only where it is far from 1."""
    if value != 0 and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.{digits - 1}e}"
    text = f"{value:#.{digits}g}"
    return f"{float(text):.0f}" if "e" in text else text.rstrip(".")


def byte_parts(count: float) -> tuple[str, str]:
    """Bytes in decimal units, three digits: ("286", "kB")."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(count) >= 0.9995 * size:
            return significant(count / size), unit
    return f"{count:.0f}", "B"


def byte_text(count: float) -> str:
    """Bytes in decimal units, three digits: 286 kB, 1.09 MB."""
    return " ".join(byte_parts(count))


def value_parts(name: str, value: float, unit: str) -> tuple[str, str]:
    """One value of metric `name`: its number, and its unit with the space before it."""
    if name.endswith("_bytes"):
        number, unit = byte_parts(value)
        return number, f" {unit}"
    hundredths = f"{round(value, 2) + 0.0:.2f}"  # and no -0.00
    if name in ("speedup", "size_ratio"):
        return hundredths, "×"
    if is_percent(unit):
        return hundredths, " %"
    if name == "accuracy_drop" and unit == "pt":
        return hundredths, " points"
    return significant(value, 4 if name == "accuracy" else 3), f" {unit}" if unit else ""


def told_beside(value: float, limit: float, form: Literal["f", "g"] = "f") -> str:
    """A figure in two decimals ("f") or three digits ("g"), or in as many more as show on which side of
    `limit` it is."""
    for digits in range(2 if form == "f" else 3, 17):
        told = f"{value:.{digits}{form}}"
        if value == limit or (float(told) > limit if value > limit else float(told) < limit):
            break
    return told


def limit_text(name: str, limit: float, unit: str) -> str:
    """A budget as it was given, where rounding would tell another; bytes to three digits."""
    number, unit = value_parts(name, limit, unit)
    rounded = name.endswith("_bytes") or float(number) == limit
    return f"{number if rounded else f'{limit:.12g}'}{unit}"


def is_percent(unit: str) -> bool:
    """Whether differences in `unit` are called points."""
    return unit in ("%", "percent", "per cent")


def quantity(name: str, metric: Metric, limit: float = math.inf) -> Quantity:
    """The metric as text; both ends of an interval share the unit where they have the same one.

    Of what is over a `limit`, no bytes, it has as many digits as show that.
    """
    numbers = (metric.value, metric.low, metric.high)
    value, low, high = (value_parts(name, number, metric.unit) for number in numbers)
    if metric.value > limit >= float(value[0]) and not name.endswith("_bytes"):
        value = told_beside(metric.value, limit), value[1]
    if metric.low == metric.high:
        return Quantity("".join(value), "", metric.evidence)
    start = low[0] if low[1] == high[1] else "".join(low)
    return Quantity("".join(value), f"{start} to {''.join(high)}", metric.evidence)
