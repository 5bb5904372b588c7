"""Thirteen observations on the whole stack as statistical tests on a study's results.

The first three are what the abstract of the DLAS paper (Gibson et al., 2023) states; the others are what its
layers let one ask, in our words and order. Each holds, does not hold, or has not enough data.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tensmith.backend.native.choose.choosers import ANY
from tensmith.backend.native.choose.tuning import TUNED, UNTUNED
from tensmith.evaluate.statistics import bootstrap, median_interval, wilson
from tensmith.formula.arith import Array
from tensmith.study.materials import ORIGINAL
from tensmith.study.plan import TRAINED, rung, untrained
from tensmith.study.results import CellResult
from tensmith.study.tables import ELBOW_POINTS, Reached, beside, elbows, fastest, reached

# Pairs below which nothing is said; ranks that go together more than this count as one order.
FEWEST = 4
_ONE_ORDER = 0.9
# Values below which no interval of their median holds 95%.
_FEW = 6
# The share of an expected speed-up above which it counts as reached, and what counts as another speed-up.
_HALF, _OTHER = 0.5, 1.1
_NEAR_POINTS = 0.5
# A difference in no more cells than this share is a rarity.
_RARE = 0.05
# Numbers that ranks are compared by at once.
_COMPARED = 1 << 22


@dataclass(frozen=True)
class Observation:
    """One claim and what the results say; `numbers` is the test in words."""

    number: int
    claim: str
    answer: str
    numbers: str


_Test = Callable[[Sequence[CellResult]], tuple[str, str]]
_TESTS: list[tuple[str, _Test]] = []


def _claim(sentence: str) -> Callable[[_Test], _Test]:
    def register(test: _Test) -> _Test:
        _TESTS.append((sentence, test))
        return test

    return register


def observations(results: Iterable[CellResult]) -> list[Observation]:
    """All thirteen, on the cells that ran."""
    done = [result for result in results if not result.failed and "latency_ms" in result.figures]
    return [Observation(n, claim, *test(done)) for n, (claim, test) in enumerate(_TESTS, 1)]


def _too_few(count: int, of: str, fewest: int = FEWEST) -> tuple[str, str]:
    return "not enough data", f"{count} {of}, and {fewest} are the fewest"


def _median_above(values: Sequence[float], bound: float, of: str) -> tuple[str, str]:
    """Whether the median lies above a bound, by its interval."""
    if len(values) < FEWEST:
        return _too_few(len(values), of)
    low, high = median_interval(np.array(values))
    # From the least to the greatest, which is all that so few values have, holds this much.
    covered = f", {100 * (1 - 2 * 0.5 ** len(values)):.0f}%" if len(values) < _FEW else ""
    told = (
        f"median {np.median(values):.3g} [{low:.3g} to {high:.3g}{covered}] of {len(values)} {of}; "
        f"bound {bound:g}"
    )
    if low > bound:
        return "holds", told
    return ("does not hold" if high <= bound else "not enough data"), told


def _median_below(values: Sequence[float], bound: float, of: str) -> tuple[str, str]:
    """Whether the median lies at or below a bound: the other side of `_median_above`."""
    answer, told = _median_above(values, bound, of)
    return {"holds": "does not hold", "does not hold": "holds"}.get(answer, answer), told


def _each_once(found: Iterable[tuple[tuple[str, ...], float]]) -> list[float]:
    """The median of what was held against one dense cell, by its layers: of one measurement, whose noise
    is in all of that."""
    by: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for dense, value in found:
        by[dense].append(value)
    return [float(np.median(values)) for values in by.values()]


def _some_differ(differ: Sequence[tuple[bool, bool]], of: str) -> tuple[str, str]:
    """Whether a difference, (for sure, perhaps), is more than a rarity: over one in twenty, by Wilson's
    interval; it is a rarity only where what may differ is one."""
    if len(differ) < FEWEST:
        return _too_few(len(differ), of)
    surely, perhaps = map(sum, zip(*differ))
    low, high = wilson(surely, len(differ))[0], wilson(perhaps, len(differ))[1]
    told = f"{surely} of {len(differ)} {of}, {perhaps} may ({100 * low:.0f} to {100 * high:.0f}%)"
    if low > _RARE:
        return "holds", told
    return ("does not hold", told) if high <= _RARE else ("not enough data", told)


def _kind(result: CellResult) -> str:
    """The kind of the optimization: time does not care whether weights were trained."""
    return rung(untrained(result.cell.optimization))[0]


def _pairs(
    results: Sequence[CellResult], layer: str, first: str, second: str
) -> Iterator[tuple[CellResult, CellResult]]:
    """Cells that differ in one layer alone."""
    at = {beside(result.cell): result for result in results}
    for result in results:
        other = at.get(beside(result.cell, **{layer: second}))
        if getattr(result.cell, layer) == first and other is not None:
            yield result, other


@_claim("Size, accuracy and time of a model do not go together")
def _uncorrelated(results: Sequence[CellResult]) -> tuple[str, str]:
    best: dict[tuple[str, str], CellResult] = {}
    for result in results:
        key = result.cell.model, result.cell.optimization
        if "accuracy" not in result.figures or result.figures["accuracy"].unit != "%":
            continue  # other units have another order, or another scale
        if result.cell.hardware.startswith("cpu:") and (key not in best or result.ms < best[key].ms):
            best[key] = result
    if len(best) < 2 * FEWEST:
        return _too_few(len(best), "models with optimizations, judged in per cent", 2 * FEWEST)
    columns = np.array(
        [[r.figures["file_bytes"].value, r.figures["accuracy"].value, r.ms] for r in best.values()]
    )
    told, intervals = [], []
    for name, one, other in (
        ("size and accuracy", 0, 1),
        ("size and time", 0, 2),
        ("accuracy and time", 1, 2),
    ):
        if not np.ptp(columns[:, [one, other]], axis=0).all():
            told.append(f"{name}: one of them is the same everywhere")
            intervals.append((-1.0, 1.0))
            continue
        low, high = bootstrap(columns[:, [one, other]], _rank_correlations)
        intervals.append((low, high))
        told.append(f"{name}: rank correlation {low:.2f} to {high:.2f}")
    if any(high < _ONE_ORDER for _, high in intervals):
        return "holds", "; ".join(told)
    together = all(low >= _ONE_ORDER for low, _ in intervals)
    return ("does not hold" if together else "not enough data"), "; ".join(told)


def _rank_correlations(rows: Array) -> Array:
    """Spearman's, of [resamples, n, 2], equal values with the mean of their ranks; 0 where all are one."""
    count, n = rows.shape[:2]
    step = max(1, _COMPARED // (2 * n * n))
    blocks = (rows[start : start + step] for start in range(0, count, step))
    # less their mean
    ranks = np.concatenate([np.sign(block[:, :, None] - block[:, None]).sum(axis=2) / 2 for block in blocks])
    scale = np.sqrt((ranks**2).sum(axis=1).prod(axis=1))
    found: Array = ranks.prod(axis=2).sum(axis=1) / np.maximum(scale, 1e-12)
    return found


@_claim("What an optimization gains depends on the hardware")
def _hardware(results: Sequence[CellResult]) -> tuple[str, str]:
    found: dict[tuple[str, ...], list[Reached]] = defaultdict(list)
    for one in _measured(results):
        found[beside(one.result.cell, hardware="")].append(one)
    least, seen = [], []
    for values in found.values():
        if len(values) > 1:
            best, worst = (end(values, key=lambda one: one.speedup) for end in (max, min))
            least.append((best.dense[:-1], best.low / worst.high))
            seen.append((best.dense[:-1], best.speedup / worst.speedup))
    of = "ratios of the best to the worst hardware's speed-up"
    surely = _median_above(_each_once(least), _OTHER, f"{of}, by the ends of their intervals")
    if surely[0] == "holds":
        return surely
    # Noise moves the best and the worst apart rather than together.
    told = _median_above(_each_once(seen), _OTHER, of)
    return told if told[0] == "does not hold" else ("not enough data", surely[1])


@_claim("Tuning changes which algorithm is the fastest")
def _tuning_changes(results: Sequence[CellResult]) -> tuple[str, str]:
    chosen = _chosen_among(results)
    best, at = fastest(chosen), {beside(result.cell): result for result in chosen}

    def surely_first(key: tuple[str, ...], other: tuple[str, ...]) -> bool:
        """Whether what is the fastest in one place surely is faster there than the fastest of another."""
        rival = at.get(beside(best[key].cell, algorithm=best[other].cell.algorithm))
        return rival is not None and _surely_faster(best[key], rival)

    differ = [
        (
            surely_first(key, other) and surely_first(other, key),
            best[key].cell.algorithm != best[other].cell.algorithm,
        )
        for key in best
        if key[4] == UNTUNED and (other := (*key[:4], TUNED, key[5])) in best
    ]
    return _some_differ(differ, "cells surely have another fastest algorithm when tuned")


def _surely_faster(one: CellResult, other: CellResult) -> bool:
    """Whether the intervals say so."""
    return one.figures["latency_ms"].high < other.figures["latency_ms"].low


def _chosen_among(results: Sequence[CellResult]) -> list[CellResult]:
    """Those by an algorithm that another one is beside, and not by a mix of them."""
    known: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for result in results:
        if result.cell.algorithm != ANY:
            known[beside(result.cell, algorithm="")].add(result.cell.algorithm)
    return [r for r in results if r.cell.algorithm != ANY and len(known[beside(r.cell, algorithm="")]) > 1]


@_claim("Weight pruning reaches less than half of its expected speed-up")
def _sparse_share(results: Sequence[CellResult]) -> tuple[str, str]:
    return _median_below(_shares(results, "weight_pruning"), _HALF, "shares reached")


def _shares(results: Sequence[CellResult], *kinds: str) -> list[float]:
    return _each_once((one.dense, one.share) for one in _measured(results) if _kind(one.result) in kinds)


def _measured(results: Sequence[CellResult]) -> list[Reached]:
    """Over the dense model by the same algorithm, and of an algorithm for zeros over the fastest mix."""
    return [
        one
        for one in reached(results)
        if one.result.figures["latency_ms"].evidence == "measured"
        and one.over in (one.result.cell.algorithm, ANY)
    ]


@_claim("Channel pruning reaches a larger share of its expected speed-up than weight pruning")
def _channels_reach_more(results: Sequence[CellResult]) -> tuple[str, str]:
    shares: dict[tuple[tuple[str, ...], str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in _measured(results):
        shares[one.dense, one.result.cell.algorithm][_kind(one.result)].append(one.share)
    gaps = (
        (dense, float(np.mean(kinds["channel_pruning"]) - np.mean(kinds["weight_pruning"])))
        for (dense, _), kinds in shares.items()
        if {"channel_pruning", "weight_pruning"} <= kinds.keys()
    )
    return _median_above(_each_once(gaps), 0.0, "differences of shares between like cells")


@_claim("Weights can be pruned further than channels before accuracy falls")
def _elbows_apart(results: Sequence[CellResult]) -> tuple[str, str]:
    at = {(elbow.model, elbow.kind): elbow for elbow in elbows(results)}

    def gap(model: str, trained: str) -> float | None:
        """None where the ladders do not say which elbow is further."""
        weights, channels = (
            at.get((model, f"{trained}{kind}")) for kind in ("weight_pruning", "channel_pruning")
        )
        if weights is None or channels is None:
            return None
        # Accuracy falls somewhere between the last rung that holds and the first that does not.
        open_ = weights.amount < channels.falls and channels.amount < weights.falls
        return None if open_ else float(weights.amount - channels.amount)

    gaps = []
    for model in dict.fromkeys(model for model, _ in at):
        # What is left is trained, as in the paper, where that of both was.
        both = all((model, f"{TRAINED}:{kind}") in at for kind in ("weight_pruning", "channel_pruning"))
        if (found := gap(model, f"{TRAINED}:" if both else "")) is not None:
            gaps.append(found)
    return _median_above(gaps, 0.0, "models' differences of elbows in per cent")


@_claim(f"Pruning 95% of the weights costs at most {ELBOW_POINTS:g} point of accuracy")
def _deep_pruning(results: Sequence[CellResult]) -> tuple[str, str]:
    # The paper trains what is left; without that nothing of the kind is claimed.
    drops = _drops(results, f"{TRAINED}:weight_pruning:95") or _drops(results, "weight_pruning:95")
    return _median_below(drops, ELBOW_POINTS, "models' points lost")


def _in_points(result: CellResult) -> bool:
    """Whether what a model lost is told in points: of a language model it is per cent of the loss."""
    return "drop" in result.figures and result.figures["drop"].unit == "pt"


def _drops(results: Sequence[CellResult], optimization: str) -> list[float]:
    found = {
        r.cell.model: r.figures["drop"].value
        for r in results
        if r.cell.optimization == optimization and _in_points(r)
    }
    return list(found.values())


@_claim("Tuned, a model with pruned weights is no faster than the dense one")
def _sparse_slower(results: Sequence[CellResult]) -> tuple[str, str]:
    chosen = ((one.dense, one.speedup) for one in _measured(results)
              if _kind(one.result) == "weight_pruning" and one.result.cell.system == TUNED)  # fmt: skip
    return _median_below(_each_once(chosen), 1.0, "tuned speed-ups")


@_claim(f"float16 weights cost at most {_NEAR_POINTS:g} points of accuracy")
def _half(results: Sequence[CellResult]) -> tuple[str, str]:
    return _median_below(_drops(results, "float16"), _NEAR_POINTS, "models' points lost")


@_claim("int8 with calibration is more accurate than without")
def _calibration(results: Sequence[CellResult]) -> tuple[str, str]:
    pairs = {
        one.cell.model: one.figures["accuracy"].value - other.figures["accuracy"].value
        for one, other in _pairs(results, "optimization", "int8", "int8_uncalibrated")
        if _in_points(one) and _in_points(other)
    }
    return _median_above(list(pairs.values()), 0.0, "models' points gained")


@_claim("Narrower numbers do not reach the speed-up that their width lets expect")
def _formats(results: Sequence[CellResult]) -> tuple[str, str]:
    return _median_below(_shares(results, "float16", "int8", "int8_uncalibrated"), 1.0, "shares reached")


@_claim("Tuning makes models faster")
def _tuning_gains(results: Sequence[CellResult]) -> tuple[str, str]:
    gains = [one.ms / other.ms for one, other in _pairs(results, "system", UNTUNED, TUNED)]
    return _median_above(gains, 1.0, "speed-ups of tuned over untuned cells")


@_claim("No algorithm is the fastest for every model")
def _no_winner(results: Sequence[CellResult]) -> tuple[str, str]:
    chosen = [result for result in _chosen_among(results) if result.cell.optimization == ORIGINAL]
    best = fastest(chosen)
    # Of each setting the algorithms that are the fastest or tied with it, a set a model.
    first: dict[tuple[str, str], list[set[str]]] = defaultdict(list)
    for winner in best.values():
        place = beside(winner.cell, algorithm="")
        beside_it = (r for r in chosen if beside(r.cell, algorithm="") == place)
        tied = {r.cell.algorithm for r in beside_it if not _surely_faster(winner, r)}
        first[winner.cell.system, winner.cell.hardware].append(tied)
    settings = {where: found for where, found in first.items() if len(found) >= FEWEST}
    if not settings:
        return _too_few(max(map(len, first.values()), default=0), "models with algorithms to choose from")
    told = "; ".join(
        f"{system} on {hardware}, {len(found)} models: {_told_of(found)}"
        for (system, hardware), found in settings.items()
    )
    answers = set(map(_of_winners, settings.values()))
    return (answers.pop() if len(answers) == 1 else "not enough data"), told


def _of_winners(first: Sequence[set[str]]) -> str:
    """Whether no algorithm is among the first for every model; it is not known of one that only ties."""
    if not set.intersection(*first):
        return "holds"
    return "does not hold" if all(len(tied) == 1 for tied in first) else "not enough data"


def _told_of(first: Sequence[set[str]]) -> str:
    """Every algorithm that is the fastest or tied, and for how many models."""
    counts = Counter(name for tied in first for name in tied)
    return ", ".join(f"{name} first or tied in {count}" for name, count in sorted(counts.items()))
