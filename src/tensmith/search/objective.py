"""What is wanted: budgets that must hold, and one fitness to order what holds them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tensmith.evaluate.statistics import weighed
from tensmith.report.metric import CONFIDENCE, Metric
from tensmith.report.quantity import told_beside
from tensmith.search.candidate import Candidate, Status

# What is to be least, of bytes and milliseconds, in the point to deploy.
PREFERENCES: dict[str, Callable[[float, float], float]] = {
    "size": lambda size, latency: size,
    "latency": lambda size, latency: latency,
    "balanced": lambda size, latency: size * latency,
}
# What lies beyond the drop budget is looked at up to so many times the budget; without one, up to a point
# of accuracy, or a per cent of a loss.
_BEYOND, _WITHOUT_BUDGET = 4.0, 1.0
# Of the answers that change, how many are expected to be lost, give or take as many.
LOST_OF_CHANGED = 1 / 8
_BROKEN = {
    "packed_bytes": "ships {:.0f} bytes, more than {:.0f}",
    "latency_ms": "takes {} ms, more than {:.12g}",
    "peak_bytes": "takes {:.0f} bytes of memory, more than {:.0f}",
    "energy_mj": "takes {} mJ, more than {:.12g}",
}


@dataclass(frozen=True)
class Objective:
    """Budgets (None: no limit) and the weights of the fitness.

    max_drop: points of accuracy (or per cent of a loss) against the original; max_bytes: shipped file;
    max_latency_ms: an inference; max_memory: peak bytes of one; max_energy_mj: of one.
    """

    max_drop: float = 0.5
    max_bytes: int | None = None
    max_latency_ms: float | None = None
    alpha: float = 1.0
    beta: float = 1.0
    max_memory: int | None = None
    max_energy_mj: float | None = None

    @property
    def limits(self) -> dict[str, float]:
        """The most that is allowed, by the name of the metric; the drop's is always there."""
        limits = {
            "accuracy_drop": self.max_drop,
            "packed_bytes": self.max_bytes,
            "latency_ms": self.max_latency_ms,
            "peak_bytes": self.max_memory,
            "energy_mj": self.max_energy_mj,
        }
        return {name: most for name, most in limits.items() if most is not None}

    @property
    def reach(self) -> float:
        """The largest drop that is looked at: the budget is a line through the front and not its edge."""
        return _BEYOND * self.max_drop or _WITHOUT_BUDGET

    def widened(self) -> Objective:
        """The same with all of the reach as its drop budget."""
        return replace(self, max_drop=self.reach)

    def over_budget(self, metrics: Mapping[str, Metric]) -> str | None:
        """Which budget but that of the drop is broken, as a sentence; None if all hold.

        Figures that are not known break none.
        """
        for name, sentence in _BROKEN.items():
            most = self.limits.get(name, math.inf)
            if name in metrics and metrics[name].value > most:
                value = metrics[name].value
                return sentence.format(value if "bytes" in sentence else told_beside(value, most, "g"), most)
        return None

    def standing(
        self,
        metrics: Mapping[str, Metric],
        drop: Metric | None,
        samples: int = 0,
        at_most: float | None = None,
        changed: float | None = None,
    ) -> tuple[Status, str]:
        """Where a candidate with these figures stands, and what stands against it.

        A drop breaks its budget by what is expected of it (see `expected_drop`). What it is at most, from so
        many samples, says whether that is sure to hold; without that the value counts.
        """
        if reason := self.over_budget(metrics):
            return "rejected", reason
        if drop is None:
            return "accepted", ""
        most = drop.value if at_most is None else at_most
        if most <= self.max_drop:
            return "accepted", ""
        seen = f" on {samples:,} samples" if samples else ""
        lost = f"loses {told_beside(drop.value, self.max_drop)} {drop.unit}{seen}"
        expected = expected_drop(drop, changed)
        if expected <= self.max_drop:
            return "unsure", f"{lost}, at most {told_beside(most, self.max_drop)} with {100 * CONFIDENCE:g}%"
        if expected > drop.value:
            told = told_beside(expected, self.max_drop)
            lost += f", but changes {changed:.1f}% of the answers: expected are {told}"
        return "beyond" if expected <= self.reach else "rejected", f"{lost}, more than {self.max_drop:.12g}"

    def settles(self, drop: Metric) -> bool:
        """Whether a drop that lies between its bounds surely holds the budget, or surely breaks it."""
        return drop.high <= self.max_drop or drop.low > self.max_drop

    def fitness(self, candidate: Candidate, original_bytes: float) -> float:
        """alpha * accuracy retention + beta * (throughput gain + size gain) / 2, higher is better.

        Gains are log2 of the ratios, so that halving twice counts twice; retention is 1 minus the share of
        the drop budget used up, and 0 where more is lost: what lies next to it may still hold the budget.
        What is proved equal changes answers by rounding alone, and is expected to lose what was seen.
        """
        changed = None if candidate.plan.is_exact else candidate.changed
        lost = expected_drop(candidate.drop, changed) if candidate.drop else 0.0
        used = lost / self.max_drop if self.max_drop > 0 else float(lost > 0)
        speed = max(candidate.metrics["speedup"].value, 1e-9)
        size = max(original_bytes / max(candidate.bytes, 1.0), 1e-9)
        retention = 1 - min(max(used, 0.0), 1.0)
        return self.alpha * retention + self.beta * (math.log2(speed) + math.log2(size)) / 2


def expected_drop(drop: Metric, changed: float | None) -> float:
    """What a candidate is expected to lose on other samples, in the unit of `drop`.

    On few samples right answers that are lost and wrong ones that become right by chance hide one another,
    and of several candidates the luckiest looks best. How many answers change (`changed`, per cent) varies
    less: before anything was judged, an eighth of them is expected to be lost, give or take an eighth (on
    held-out samples of quantized SqueezeNets, MobileNetV2s and ResNet-20s a tenth to a third were). A smaller
    drop is weighed against that by how sure either is, as the mean of a normal prior and a normal sample.
    """
    prior = LOST_OF_CHANGED * (changed or 0.0)
    if not prior or drop.value >= prior:
        return drop.value
    return weighed(drop.value, (drop.high - drop.low) / 2, prior)
