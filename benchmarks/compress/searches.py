"""The searches by name at equal budgets: what area their fronts cover, without device and feedback too.

    python -m benchmarks.compress.searches --models resnet20_cifar10 --seconds 120 --output searches.json

A part is a model. A plan is measured once, by the road of `tensmith compress`; all searches then read a table
of what came of it, and each pays for a plan what measuring it took, and what it computes itself. So searches
meet the same figures, and what is done once replays in seconds (--table). On a machine that is not quiet
seconds say little: with --plan-seconds every plan costs as much, wherever it was measured. With a seed, what
a search sees of drop and latency is drawn from their recorded intervals, as another measurement would show
it; what it found is judged by the recorded figures, on the search split.

area    hypervolume in size and latency below those of the original, 1 is all
faster  the speed-up of the plan that the search would deploy, by its own figures the best in size and latency
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import DATA, ROOT, parts
from benchmarks.compress.hypervolume import hypervolume
from benchmarks.compress.stock.cases import CASES, Case
from tensmith.compression import compress
from tensmith.egraph.explore import price
from tensmith.evaluate.statistics import bootstrap
from tensmith.files import write_text
from tensmith.frontend.onnx import read_onnx
from tensmith.report.metric import Metric
from tensmith.search.candidate import Candidate
from tensmith.search.objective import Objective
from tensmith.search.plan import UNTOUCHED, Plan
from tensmith.search.sensitivity import Sensitivity
from tensmith.search.strategy import STRATEGIES, Quest, strategy

# What a search may go without: moves that look at the device, and latencies that were measured.
ABLATIONS = ("no hardware", "no feedback", "neither")
_ABLATED = ("beam", "genetic")
_ASKED = (*STRATEGIES, *(f"beam: {without}" for without in ABLATIONS))
# Half the width of a 95% interval in standard deviations.
_SIGMAS = 1.96


class Compared(Exception):
    """The searches were compared; the road need not be walked to its end."""


@dataclass
class Table:
    """What came of each plan of a model, by key: its candidate without the plan, what measuring it took in
    seconds, and its roofline estimate in milliseconds. It is written when anything is new."""

    path: Path
    plans: dict[str, dict[str, Any]] = field(default_factory=dict)
    sensitivity_seconds: float = 0.0

    @staticmethod
    def read(path: Path, earlier: Path | None, model: str) -> Table:
        """What is at `path`, else what an earlier result holds of the model, else nothing."""
        if path.exists():
            document = json.loads(path.read_text())
        else:
            rows = parts.read(earlier)["rows"] if earlier else {}
            document = rows.get(model, {}).get("table", {"plans": {}, "sensitivity_seconds": 0.0})
        return Table(path, **document)

    def to_json(self) -> dict[str, Any]:
        """As a result holds it."""
        return {"plans": self.plans, "sensitivity_seconds": self.sensitivity_seconds}

    def keep(self) -> None:
        """Writes it down."""
        write_text(self.path, json.dumps(self.to_json()) + "\n")

    def candidate(self, plan: Plan) -> Candidate:
        """The recorded candidate of a plan."""
        return Candidate.from_json({**self.plans[plan.key]["candidate"], "plan": plan.to_json()})


@dataclass
class Purse:
    """Seconds that one search may spend: what measuring took once, and what it computes itself."""

    left: float
    since: float = field(default_factory=time.process_time)

    def pay(self, seconds: float = 0.0) -> None:
        """Takes so many seconds, and what was computed since the last time."""
        self.left -= seconds + time.process_time() - self.since
        self.since = time.process_time()

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        """What is computed inside is not taken."""
        self.pay()
        yield
        self.since = time.process_time()


@dataclass
class Comparison:
    """Runs every search on the quest of one compression."""

    case: Case
    table: Table
    options: Namespace
    found: dict[str, dict[str, Any]] = field(default_factory=dict)

    def run(self, quest: Quest) -> list[Candidate]:
        """All searches and seeds. Raises Compared at the end."""
        for name in self.options.searches:
            self.found[name] = {}
            for seed in range(self.options.seeds):
                self.found[name][str(seed)] = self._searched(quest, name, seed)
        raise Compared

    def _searched(self, quest: Quest, name: str, seed: int) -> dict[str, Any]:
        search, _, without = name.partition(": ")
        purse = Purse(self.options.seconds)
        said: list[str] = []
        guess = without in ("no feedback", "neither")

        def attempt(plan: Plan) -> Candidate:
            with purse.closed():
                if plan.key not in self.table.plans:
                    self._measure(quest, plan)
            purse.pay(self.options.plan_seconds or self.table.plans[plan.key]["seconds"])
            return self._seen(plan, seed, guess, quest.objective)

        def time_left() -> bool:
            purse.pay()
            return purse.left > 0

        def sensitivity() -> Mapping[str, Sensitivity]:
            with purse.closed():
                began = time.monotonic()
                answer = quest.space.sensitivity()
                if not self.table.sensitivity_seconds:
                    self.table.sensitivity_seconds = time.monotonic() - began
            purse.pay(self.table.sensitivity_seconds)
            return answer

        space = replace(quest.space, sensitivity=sensitivity)
        if without in ("no hardware", "neither"):
            space = replace(space, layer_seconds={})
        seen = STRATEGIES[search].run(
            replace(
                quest, space=space, attempt=attempt, time_left=time_left, tell=said.append, seed=seed,
                seconds=0.1 * self.options.seconds,
            )
        )  # fmt: skip
        return self._judged(seen, quest) | {"said": said, "over": max(0.0, -purse.left)}

    def _measure(self, quest: Quest, plan: Plan) -> None:
        """Writes down what comes of a plan that nobody tried."""
        began = time.monotonic()
        candidate = quest.attempt(plan)
        seconds = time.monotonic() - began
        file = self.table.path.with_suffix("") / "work" / f"{plan.id}.onnx"
        file = self.case.model(DATA) if plan == UNTOUCHED else file
        program = read_onnx(file) if file.exists() and candidate.status != "failed" else None
        estimate = 1e3 * price(program, quest.space.cost(program)) if program else 0.0
        body = {name: value for name, value in candidate.to_json().items() if name != "plan"}
        body["metrics"] = {name: m for name, m in body["metrics"].items() if name in _FIGURES}
        self.table.plans[plan.key] = {"candidate": body, "seconds": seconds, "estimate": estimate}
        self.table.keep()

    def _seen(self, plan: Plan, seed: int, guess: bool, objective: Objective) -> Candidate:
        """What a search sees of a plan: the recorded figures as measured another time, or an estimate."""
        candidate = self.table.candidate(plan)
        metrics = dict(candidate.metrics)
        if "latency_ms" not in metrics or candidate.drop is None:
            return candidate
        drop = _drawn(candidate.drop, f"{seed} {plan.key}") if seed else candidate.drop
        latency = metrics["latency_ms"]
        if seed and plan != UNTOUCHED:
            latency = _drawn(latency, f"{seed} {latency.value}")
        factor = latency.value / metrics["latency_ms"].value
        if guess:
            estimate, original = (self.table.plans[each.key]["estimate"] for each in (plan, UNTOUCHED))
            factor = estimate / original * metrics["speedup"].value
        metrics["latency_ms"] = _scaled(metrics["latency_ms"], factor)
        metrics["speedup"] = _scaled(metrics["speedup"], 1 / factor)
        status, reason = objective.standing(metrics, drop)
        return replace(candidate, metrics=metrics, drop=drop, status=status, reason=reason)

    def _judged(self, seen: Sequence[Candidate], quest: Quest) -> dict[str, Any]:
        """What a search found, by the recorded figures."""
        recorded = {each.plan.key: self.table.candidate(each.plan) for each in seen}
        accepted = [each for each in recorded.values() if each.holds]
        points = [(each.bytes / quest.original_bytes, 1 / each.metrics["speedup"].value) for each in accepted]
        chosen = min((each for each in seen if each.holds), key=lambda c: c.bytes * c.latency)
        faster = recorded[chosen.plan.key].metrics["speedup"].value
        return {"area": hypervolume(points, (1, 1)), "faster": faster, "tried": len(recorded)}


_FIGURES = ("packed_bytes", "latency_ms", "speedup")


def _drawn(metric: Metric, seed: str) -> Metric:
    """A metric as another measurement might show it."""
    deviation = (metric.high - metric.low) / 2 / _SIGMAS
    shift = random.Random(seed).gauss(0.0, deviation)
    return replace(metric, value=metric.value + shift, low=metric.low + shift, high=metric.high + shift)


def _scaled(metric: Metric, factor: float) -> Metric:
    return replace(metric, value=metric.value * factor, low=metric.low * factor, high=metric.high * factor)


def compared(model: str, options: Namespace) -> parts.Found:
    """All searches of one model."""
    case = CASES[model]
    folder = options.folder / model
    options.folder.mkdir(parents=True, exist_ok=True)
    table = Table.read(options.folder / f"{model}.json", options.table, model)
    comparison = Comparison(case, table, options)
    name = strategy(f"compared on {model}")(comparison.run).name
    known = len(table.plans)
    with contextlib.suppress(Compared):
        compress(
            str(case.model(DATA)), case.spec(DATA), output=folder, max_drop=case.budget,
            measure=case.measure, time_budget=options.time_budget, search=name,
            resume=(folder / "run.sqlite").exists(),
            **({"engines": options.engines.split(",")} if options.engines else {}),
        )  # fmt: skip
    row = {"measured": len(table.plans) - known, "searches": comparison.found, "table": table.to_json()}
    return parts.Found(row=row)


def mean_with_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean and its 95% interval."""
    return float(np.mean(values)), *bootstrap(np.array(values), lambda rows: rows.mean(axis=1))


def lines(rows: Mapping[str, Any]) -> Iterator[str]:
    """A line for each model and search, its share of the best search's area beside it."""
    for model, row in rows.items():
        means = {
            name: {figure: mean_with_interval([run[figure] for run in runs.values()]) for figure in _SHOWN}
            for name, runs in row["searches"].items()
        }
        best = max(found["area"][0] for found in means.values())
        for name, found in means.items():
            area, faster = ("{:.4f} ({:.4f} to {:.4f})".format(*found[figure]) for figure in _SHOWN)
            tried = np.mean([run["tried"] for run in row["searches"][name].values()])
            share = 100 * (found["area"][0] / best - 1) if best else 0.0
            yield f"{model:22} {name:22} area {area} {share:+6.2f}%  faster {faster}  {tried:.0f} plans"


_SHOWN = ("area", "faster")


def main() -> int:
    """1 where a model failed."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--models", nargs="+", choices=CASES, default=list(CASES), metavar="NAME")
    searches = [*STRATEGIES, *(f"{name}: {without}" for name in _ABLATED for without in ABLATIONS)]
    parser.add_argument("--searches", nargs="+", choices=searches, default=list(_ASKED), metavar="NAME")
    parser.add_argument("--seeds", type=int, default=5, help="how many; the first sees the record itself")
    parser.add_argument("--seconds", type=float, default=120.0, help="that each search may spend")
    parser.add_argument("--plan-seconds", type=float, help="that each plan costs, whatever it took")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "searches", help="of the runs")
    parser.add_argument("--table", type=Path, help="an earlier result, whose plans are not measured again")
    parser.add_argument("--time-budget", type=float, default=600.0, help="that samples are judged for")
    parser.add_argument("--engines", help="as compress takes them, where not its default")
    options = parser.parse_args()
    settings = {
        "bench": "searches", "seconds": options.seconds, "time_budget": options.time_budget,
        "plan_seconds": options.plan_seconds, "engines": options.engines, "seeds": options.seeds,
        "replayed": "from plans that were measured once",
    }  # fmt: skip
    work: Callable[[str], parts.Found] = partial(compared, options=options)
    document = parts.run(options.models, work, options.output, settings)
    print("\n".join(lines(document["rows"])))
    return parts.ended(document)


if __name__ == "__main__":
    sys.exit(main())
