"""Tables, figures and observations of results whose law is known."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from study_sample import EXPECTED, GAINED, LOST, MODELS, results

from tensmith.report.metric import exact
from tensmith.study.observations import _median_above, _rank_correlations, observations
from tensmith.study.results import CellResult, Results, _digest
from tensmith.study.tables import StudyTable, draw_as, elbows, figures, reached, tables, write_as

# What the sample was made to say, by the number of the observation.
SAID = {
    1: "holds", 2: "not enough data", 3: "holds", 4: "holds", 5: "holds", 6: "holds", 7: "holds",
    9: "holds", 10: "holds", 11: "holds", 12: "holds", 13: "not enough data",
}  # fmt: skip


def test_elbows_are_the_last_rungs_that_hold() -> None:
    found = {(elbow.model, elbow.kind): elbow for elbow in elbows(results())}
    assert len(found) == 2 * len(MODELS)
    for (_, kind), elbow in found.items():
        assert elbow.amount == {"weight_pruning": 95, "channel_pruning": 20}[kind] and elbow.certain


def test_shares_are_against_the_dense_model_in_a_like_cell() -> None:
    found = reached(results())
    assert len(found) == 5 * 7 * 2 * 2
    for one in found:
        name = one.result.cell.optimization
        assert one.speedup == pytest.approx(GAINED[name])
        assert one.share == pytest.approx(GAINED[name] / EXPECTED[name])


def test_skipping_zeros_is_held_against_the_same_products_too() -> None:
    def turned(result: CellResult) -> CellResult:
        """GEMM becomes the fastest mix where nothing is zero, and skips zeros elsewhere."""
        dense = result.cell.optimization == "none"
        name = {"gemm": "any" if dense else "sparse"}.get(result.cell.algorithm, "direct")
        return replace(result, cell=replace(result.cell, algorithm=name))

    tuned = [turned(r) for r in results() if r.cell.system == "tuned"]
    found = {
        one.over: one.speedup
        for one in reached(tuned)
        if one.result.cell.algorithm == "sparse" and one.result.cell.optimization == "weight_pruning:95"
    }
    gained = GAINED["weight_pruning:95"]
    assert found == {"any": pytest.approx(gained), "direct": pytest.approx(1.5 * gained)}


def test_the_observations_say_what_the_results_were_made_to() -> None:
    found = {one.number: one for one in observations(results())}
    assert sorted(found) == list(range(1, 14))
    assert {number: found[number].answer for number in SAID} == SAID
    assert "[" in found[12].numbers and found[12].numbers.startswith("median 2")
    untuned = {one.number: one for one in observations(r for r in results() if r.cell.system == "untuned")}
    told = "untuned on cpu:1, 5 models: direct first or tied in 2, gemm first or tied in 3"
    assert untuned[13].answer == "holds" and told == untuned[13].numbers


def spread_out(result: CellResult, share: float) -> CellResult:
    """The same latency with an interval so wide."""
    metric = result.figures.get("latency_ms")
    if metric is None:
        return result
    wide = replace(metric, low=(1 - share) * metric.value, high=(1 + share) * metric.value)
    return replace(result, figures={**result.figures, "latency_ms": wide})


def test_winners_that_may_be_noise_are_no_evidence() -> None:
    """The fastest is 1.5 times as fast as the other, which 30% of doubt leaves open."""
    noisy = [spread_out(result, 0.3) for result in results()]
    found = {one.number: one for one in observations(noisy)}
    assert found[3].answer != "holds" and found[3].numbers.startswith("0 of 40 cells surely have")
    untuned = {one.number: one for one in observations(r for r in noisy if r.cell.system == "untuned")}
    assert untuned[13].answer == "not enough data" and "gemm first or tied in 5" in untuned[13].numbers
    tuned = [r for r in results() if r.cell.system == "tuned"]
    sure = {one.number: one for one in observations(tuned)}
    assert sure[13].answer == "does not hold" and sure[13].numbers.endswith("gemm first or tied in 5")
    doubted = {one.number: one for one in observations(spread_out(r, 0.3) for r in tuned)}
    assert doubted[13].answer == "not enough data"


@pytest.mark.parametrize(
    ("models", "told", "answer"),
    [(MODELS, "64 may (0 to 48%)", "not enough data"), (MODELS[::2], "0 may (0 to 4%)", "does not hold")],
)
def test_what_tuning_may_change_is_not_said_to_stay(models: tuple[str, ...], told: str, answer: str) -> None:
    """The fastest are others in every other model, which 30% of doubt leaves open."""
    noisy = [spread_out(r, 0.3) for r in results() if r.cell.model in models]
    many = [replace(r, cell=replace(r.cell, dataset=dataset)) for r in noisy for dataset in "abcd"]
    found = observations(many)[2]
    assert found.answer == answer and found.numbers.startswith("0 of ") and told in found.numbers


def test_a_mix_of_algorithms_is_none() -> None:
    """It is as fast as the fastest of them, and takes no first place from it."""
    for system, answer in (("untuned", "holds"), ("tuned", "does not hold")):
        alone = [r for r in results() if r.cell.system == system]
        mixed = [replace(r, cell=replace(r.cell, algorithm="any")) for r in alone
                 if r.cell.algorithm == "gemm"]  # fmt: skip
        found, beside = (observations(some)[12] for some in (alone, [*alone, *mixed]))
        assert found.answer == answer and beside == found


def on_two_processors(gain: float, noise: float, share: float) -> list[CellResult]:
    """What is pruned gains more on the second one; its latencies are noise, of intervals so wide."""
    random, found = np.random.default_rng(0), []
    for result in results():
        for hardware, more in (
            ("cpu:1", 1.0),
            ("cpu:2", gain if result.cell.optimization != "none" else 1.0),
        ):
            if not result.failed:
                metric = result.figures["latency_ms"]
                value = metric.value / more * random.uniform(1 - noise, 1 + noise)
                figures = {
                    **result.figures,
                    "latency_ms": replace(metric, value=value, low=0.0, high=9 * value),
                }
                cell = replace(result.cell, hardware=hardware)
                found.append(spread_out(replace(result, cell=cell, figures=figures), share))
    return found


@pytest.mark.parametrize(
    ("gain", "noise", "share", "answer"),
    [
        (1.0, 0.3, 0.3, "not enough data"),
        (1.0, 0.0, 0.01, "does not hold"),
        (2.0, 0.01, 0.02, "holds"),
        (2.0, 0.01, 0.3, "not enough data"),
    ],
)
def test_what_depends_on_hardware_is_no_noise(gain: float, noise: float, share: float, answer: str) -> None:
    found = observations(on_two_processors(gain, noise, share))[1]
    assert found.answer == answer and "of 20 ratios" in found.numbers


def test_what_shares_a_dense_cell_counts_once() -> None:
    """Else the noise of one measurement would be in all that was held against it, and look certain."""
    one = [r for r in results() if r.cell.model == MODELS[0] and r.cell.algorithm == "gemm"]
    found = {each.number: each for each in observations(one)}
    assert [found[number].numbers.split()[0] for number in (4, 5, 8, 11)] == ["2", "2", "1", "2"]
    every = {each.number: each for each in observations(results())}
    assert all("of 20 " in every[number].numbers for number in (4, 5, 11)) and "of 10 " in every[8].numbers


def test_a_change_needs_both_winners_where_the_other_one_won() -> None:
    """Where direct, the fastest untuned, has no result tuned, nothing says that tuning made the change."""
    gone = [r for r in results() if not (r.cell.system == "tuned" and r.cell.algorithm == "direct")]
    other = [replace(r, cell=replace(r.cell, algorithm="winograd")) for r in results()
             if r.cell.system == "tuned" and r.cell.algorithm == "direct"]  # fmt: skip
    found = {one.number: one for one in observations([*gone, *other])}
    assert found[3].numbers.startswith("0 of 40 ")


def test_what_is_the_same_everywhere_says_nothing_of_what_goes_together() -> None:
    same = exact(90.0, "%")
    flat = [replace(r, figures=r.figures | {"accuracy": same, "file_bytes": same}) for r in results()]
    first = {one.number: one for one in observations(flat)}[1]
    assert first.answer == "not enough data"
    assert first.numbers.count("one of them is the same everywhere") == 3


@pytest.mark.parametrize(("count", "said"), [(4, "[1 to 4, 88%]"), (5, "[1 to 5, 94%]"), (6, "[1 to 6]")])
def test_intervals_of_few_values_say_what_they_cover(count: int, said: str) -> None:
    assert said in _median_above(np.arange(1.0, count + 1), 0.0, "values")[1]


def test_nothing_is_said_where_nothing_was_compared() -> None:
    alone = [result for result in results() if result.cell.algorithm == "gemm"]
    found = {one.number: one.answer for one in observations(alone)}
    assert found[3] == found[13] == "not enough data"
    few = {one.number: one for one in observations(r for r in results() if r.cell.model == MODELS[0])}
    assert few[3].answer == "not enough data"


def test_elbows_that_the_ladders_leave_open_are_not_compared() -> None:
    def held(result: CellResult) -> CellResult:
        """No rung of channels loses anything, and none of weights at their last."""
        figures = dict(result.figures)
        figures["drop"] = replace(figures["drop"], value=0.0, low=0.0, high=0.0)
        return replace(result, figures=figures) if result.cell.optimization != "none" else result

    every = [held(result) for result in results() if not result.failed]
    assert all(elbow.beyond for elbow in elbows(every))
    assert {one.number: one.answer for one in observations(every)}[6] == "not enough data"


def test_an_elbow_below_the_ladder_is_not_compared() -> None:
    def fallen(result: CellResult) -> CellResult:
        """Not even the first rung of weights holds, and channels hold theirs."""
        if not result.cell.optimization.startswith("weight_pruning"):
            return result
        drop = replace(result.figures["drop"], value=9.0, low=8.0, high=10.0)
        return replace(result, figures={**result.figures, "drop": drop})

    every = [fallen(result) for result in results() if not result.failed]
    assert {elbow.amount for elbow in elbows(every)} == {0, 20}
    assert {one.number: one.answer for one in observations(every)}[6] == "not enough data"


def test_elbows_between_the_same_rungs_are_not_compared() -> None:
    """Weights fall between 50 and 95 per cent, channels between 70 and 90: either may be the further one."""
    names = {"channel_pruning:20": "channel_pruning:70", "channel_pruning:50": "channel_pruning:90"}

    def coarse(result: CellResult) -> CellResult:
        name = result.cell.optimization
        moved = replace(result, cell=replace(result.cell, optimization=names.get(name, name)))
        if name != "weight_pruning:95":
            return moved
        drop = replace(result.figures["drop"], value=9.0, low=8.0, high=10.0)
        return replace(moved, figures={**result.figures, "drop": drop})

    every = [coarse(result) for result in results() if not result.failed]
    assert {(elbow.amount, elbow.falls) for elbow in elbows(every)} == {(50, 95), (70, 90)}
    found = {one.number: one for one in observations(every)}
    assert found[6].answer == "not enough data" and found[6].numbers.startswith("0 models")


def test_models_of_random_weights_are_no_evidence_of_accuracy() -> None:
    random, trained = MODELS[:2], MODELS[2:]
    every = [r.without_accuracy() if r.cell.model in random else r for r in results()]
    found = {one.number: one for one in observations(every)}
    for number in (6, 7, 9, 10):
        assert found[number].numbers.startswith(f"{len(trained)} "), found[number]
    alone = {one.number: one for one in observations(r for r in every if r.cell.model in trained)}
    assert found[1] == alone[1] and found[12].answer == "holds" and "of 80" in found[12].numbers
    made = {table.number: table for table in tables(every)}
    assert {row[0] for number in (3, 4) for row in made[number].rows} - {MODELS[0]} == set(trained)
    assert all("no result" in row for row in made[2].rows if row[1] in random)
    for figure in figures(every)[:2]:
        assert {curve.name for curve in figure.curves} == set(trained)


@pytest.mark.parametrize(
    ("disorder", "answer"), [(0.0, "does not hold"), (2.0, "not enough data"), (9.0, "holds")]
)
def test_what_may_or_may_not_go_together_is_not_said_to(disorder: float, answer: str) -> None:
    """Twelve models of one order by size, by accuracy and by time, the more disturbed the less is known."""
    noise = np.random.default_rng(0).normal(size=(12, 3)) * disorder
    first, made = next(r for r in results() if not r.failed), []
    for number, row in enumerate(number + noise[number] for number in range(12)):
        figures = {name: exact(20.0 + value, first.figures[name].unit)
                   for name, value in zip(("file_bytes", "accuracy", "latency_ms"), row)}  # fmt: skip
        made.append(replace(first, cell=replace(first.cell, model=f"m{number}"), figures=figures))
    assert observations(made)[0].answer == answer, observations(made)[0].numbers


def test_what_a_language_model_loses_is_not_told_in_points() -> None:
    """Two models are judged by nats a token, of which less is better, and lose per cent of them."""
    units = {"accuracy": "nats/token", "drop": "%"}

    def speaking(result: CellResult) -> CellResult:
        if result.cell.model not in MODELS[:2]:
            return result
        figures = {name: replace(metric, unit=units.get(name, metric.unit))
                   for name, metric in result.figures.items()}  # fmt: skip
        return replace(result, figures=figures)

    every, others = list(map(speaking, results())), [r for r in results() if r.cell.model not in MODELS[:2]]
    found, alone = ({one.number: one for one in observations(each)} for each in (every, others))
    assert all(found[number] == alone[number] for number in (1, 7, 9, 10))
    elbow_table = next(table for table in tables(every) if table.number == 3)
    assert "not judged in points" in elbow_table.note
    assert {row[0] for row in elbow_table.rows if " % [" in row[4]} == set(MODELS[:2])
    assert figures(every)[0].up == "accuracy, nats/token or %" and figures(others)[0].up == "accuracy, %"


def test_ranks_in_blocks_are_those_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).integers(0, 9, (50, 12, 2)).astype(float)
    whole = _rank_correlations(rows)
    monkeypatch.setattr("tensmith.study.observations._COMPARED", 1)
    np.testing.assert_array_equal(_rank_correlations(rows), whole)


def test_contrary_results_turn_the_observations() -> None:
    def contrary(result: CellResult) -> CellResult:
        """Tuning slows down, and drops are turned around."""
        if result.failed:
            return result
        slower = 4.0 if result.cell.system == "tuned" else 1.0
        figure = dict(result.figures)
        metric = figure["latency_ms"]
        figure["latency_ms"] = replace(metric, value=metric.value * slower, low=metric.low * slower,
                                   high=metric.high * slower)  # fmt: skip
        if result.cell.optimization == "float16":
            figure["drop"] = replace(figure["drop"], value=5.0, low=4.0, high=6.0)
        return replace(result, figures=figure)

    found = {one.number: one.answer for one in observations(map(contrary, results()))}
    assert found[12] == "does not hold" and found[9] == "does not hold"
    assert all(one.answer == "not enough data" for one in observations([]))


def test_the_five_tables_in_three_languages(tmp_path: Path) -> None:
    made = {table.number: table for table in tables(results())}
    assert sorted(made) == [2, 3, 4, 5, 6]
    assert len(made[2].rows) == len(MODELS) and made[3].rows[0][2] == "95% at least"
    assert made[4].rows[0][3].startswith(f"{90 - LOST['int8_uncalibrated']:g} [")
    assert [row[3:6:2] for row in made[5].rows[:9:8]] == [("gemm", "gemm"), ("direct", "gemm")]
    write_as(tables(results()), "tables", tmp_path)
    assert (tmp_path / "tables.html").read_text().count("<table>") == 5
    assert "| model | pruning | elbow |" in (tmp_path / "tables.md").read_text()
    latex = (tmp_path / "tables.tex").read_text()
    assert latex.count("\\begin{tabular}") == 5 and "weight\\_pruning" in latex and "95\\%" in latex


def test_figures_hold_what_was_measured(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    made = {figure.number: figure for figure in figures(results())}
    assert [made[n].curves[0].x for n in (3, 4)] == [(0, 50, 95), (0, 20, 50)]
    assert {curve.name for curve in made[5].curves} == {"direct", "gemm"}
    draw_as(figures(results()), "figure", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"figure-{n}.png" for n in (3, 4, 5, 6)]
    assert (tmp_path / "figure-3.png").read_bytes().startswith(b"\x89PNG")


def test_equal_values_share_their_rank() -> None:
    rows = np.array([[[1, 5], [1, 5], [2, 5], [3, 6]], [[1, 4], [2, 3], [3, 2], [4, 1]]], float)
    # By scipy.stats.spearmanr.
    assert _rank_correlations(rows) == pytest.approx([0.8164965809, -1.0])


def test_what_a_plan_calls_itself_is_no_html_in_markdown() -> None:
    told = StudyTable(1, "<script>", ("a",), (("b",),), "<img>").markdown()
    assert "<" not in told and "&lt;script>" in told


def test_a_row_that_is_no_text_any_more_counts_as_missing(tmp_path: Path) -> None:
    first, second = results()[:2]
    with contextlib.closing(Results(tmp_path / "study.sqlite")) as kept:
        for result in (first, second):
            kept.add(result)
        body = b"\xff{}"
        for digest in ("", _digest(first.cell.id, body)):
            kept.write("UPDATE rows SET body = CAST(? AS TEXT), digest = ?", (body, digest))
            assert kept.of([first.cell, second.cell]) == []
        kept.add(first)
        assert kept.of([first.cell, second.cell]) == [first]
