"""The front holds what nobody beats."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tensmith.report.metric import Metric, exact
from tensmith.rewrite.rule import Step
from tensmith.search.candidate import Candidate
from tensmith.search.front import best, costs, crowding, front, knee, pareto, shortlist, spread
from tensmith.search.objective import PREFERENCES
from tensmith.search.plan import UNTOUCHED, Plan

points_of_integers = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=30)


def candidate(size: float, latency: float, status: str = "accepted", lost: float = 0.0) -> Candidate:
    metrics = {"packed_bytes": exact(size, "bytes"), "latency_ms": exact(latency, "ms")}
    drop = exact(lost, "pt")
    return Candidate(f"{size}-{latency}", Plan(), status, metrics=metrics, drop=drop)  # type: ignore[arg-type]


@given(points_of_integers)
def test_nobody_on_the_front_is_covered_and_everybody_else_is(points: list[tuple[int, int]]) -> None:
    kept = pareto(points, lambda p: (float(p[0]), float(p[1])))
    for p in kept:
        assert not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)
    for p in points:
        assert any(q[0] <= p[0] and q[1] <= p[1] for q in kept)


def test_rejected_candidates_are_never_on_the_front() -> None:
    good, cheating = candidate(10, 10), candidate(1, 1, "rejected")
    assert front([cheating, good]) == [good]


def test_who_loses_less_is_not_beaten_by_who_is_smaller_and_faster() -> None:
    safe, bold, worse = candidate(10, 10), candidate(5, 5, lost=0.4), candidate(11, 10, lost=0.1)
    assert front([safe, bold, worse]) == [bold, safe]
    gaining = candidate(10, 11, lost=-0.1)
    assert front([safe, gaining]) == [safe], "accuracy gained buys nothing"


def test_who_changes_no_answer_is_surer_than_who_lost_as_many_as_it_gained() -> None:
    safe, lucky = candidate(10, 10), candidate(5, 5)
    safe = replace(safe, drop=Metric(0.0, -0.08, 0.08, "pt", "measured"))
    for gained in (0.0, 0.1, 0.4):
        drop = Metric(-gained, -gained - 0.3, 0.3 - gained, "pt", "measured")
        assert len(front([safe, replace(lucky, drop=drop)])) == 2


def test_memory_and_energy_are_of_the_front_where_they_are_known() -> None:
    first, second = candidate(10, 10), candidate(11, 11)
    assert front([first, second]) == [first]
    for name in ("peak_bytes", "energy_mj"):
        less, more = (exact(amount, "") for amount in (7.0, 9.0))
        ours = replace(first, metrics={**first.metrics, name: more})
        theirs = replace(second, metrics={**second.metrics, name: less})
        assert front([ours, theirs]) == [ours, theirs]


def test_of_points_that_are_alike_the_one_that_loses_least_stays() -> None:
    one, other = candidate(1000, 10.0, lost=0.4), candidate(1004, 9.95, lost=0.3)
    smaller = candidate(500, 20.0, lost=0.5)
    assert front([smaller, one, other]) == [smaller, other]


def test_what_gains_less_than_was_measured_goes() -> None:
    good, tied = candidate(1000, 10.0), candidate(999, 11.0)
    assert front([tied, good]) == [good]
    faster = candidate(1100, 9.5)
    assert front([faster, good]) == [good, faster]
    unsure = Metric(9.5, 8.9, 10.1, "ms", "measured")
    assert front([replace(faster, metrics={**faster.metrics, "latency_ms": unsure}), good]) == [good]


def test_what_is_beyond_the_budget_takes_no_place_of_what_is_within_it() -> None:
    within, lucky = candidate(10, 10, lost=0.4), candidate(5, 5, "beyond", 0.3)
    assert front([within, lucky]) == [lucky, within]
    useless = candidate(10, 10, "beyond", 0.6)
    assert front([within, useless]) == [within]


def test_what_is_unsure_hides_nothing_that_is_sure() -> None:
    sure, hope = candidate(10, 10, lost=0.1), candidate(5, 5, "unsure", 0.1)
    assert front([sure, hope]) == [hope, sure]
    assert front([sure, candidate(10, 10, "unsure", 0.2)]) == [sure]
    assert front([hope, candidate(6, 6, "beyond", 0.6)]) == [hope]
    assert best([sure, hope], "size") == sure


def test_a_short_list_holds_unsure_points_in_the_room_that_sure_ones_leave() -> None:
    sure = [candidate(100 - n, 50 + n * n, lost=0.001 * n) for n in range(10)]
    hopes = [candidate(50 - n, 20 + n * n, "unsure", 0.1 + 0.01 * n) for n in range(10)]
    count = [sum(each.status == "unsure" for each in shortlist([*sure[:n], *hopes])) for n in (0, 2, 10)]
    assert count[:2] == [8, 6] and count[2] >= 3
    preferred = {best([replace(hope, status="accepted") for hope in hopes], p).bytes for p in PREFERENCES}
    assert preferred <= {each.bytes for each in shortlist(hopes)}


def test_the_most_crowded_points_leave() -> None:
    line = [candidate(2.0**place, 2.0**-place) for place in (0, 1, 2, 2.1, 4, 5)]
    kept = spread(line, 4)
    assert kept[0] == line[0] and kept[-1] == line[-1]
    assert not {line[2].id, line[3].id} <= {point.id for point in kept}
    assert spread(line, 2, line) == line
    room = crowding([costs(point) for point in line])
    assert room[0] == room[-1] == float("inf")
    assert min(room) == room[2]


def test_a_short_list_holds_the_best_of_what_was_trained() -> None:
    beyond = [candidate(70 - n, 40 + n * n, "beyond", 0.6 + n) for n in range(10)]
    trained = Plan((Step("recover", kind="lossy"),))
    for n in range(4, 7):
        listed = shortlist([*beyond[:n], replace(beyond[n], plan=trained), *beyond[n + 1 :]])
        assert any(point.plan == trained for point in listed)
        assert sum(point.status == "beyond" for point in listed) == 3


def test_until_held_out_data_spoke_what_only_trained_points_beat_stays() -> None:
    trained = replace(candidate(20, 20, "unsure", 0.1), plan=Plan((Step("recover", kind="lossy"),)))
    plain = [candidate(30, 30, "unsure", 0.2), candidate(25, 40, "unsure", 0.3)]
    assert set(map(id, shortlist([trained, *plain], judged=False))) == set(map(id, (trained, *plain)))
    assert shortlist([trained, *plain]) == [trained]
    assert shortlist(plain, judged=False) == shortlist(plain)


def test_a_short_list_holds_whatever_may_be_preferred_and_the_ends_beyond() -> None:
    within = [candidate(100 - n, 50 + n * n, lost=0.001 * n) for n in range(30)]
    beyond = [candidate(70 - n, 40 + n * n, "beyond", 0.6 + n) for n in range(10)]
    listed = shortlist([*within, *beyond])
    assert len(listed) == 11
    assert all(best(within, prefer) in listed for prefer in PREFERENCES)
    assert within[0] in listed and beyond[0] in listed and beyond[-1] in listed


def test_a_front_bends_at_its_knee() -> None:
    corner = candidate(2, 2)
    bent = [candidate(1, 100), candidate(1.9, 60), corner, candidate(60, 1.9), candidate(100, 1)]
    assert knee(bent) == corner
    assert knee(bent[:2]) is None


def test_the_preference_picks_an_end_or_the_best_product() -> None:
    small, fast, both = candidate(1, 100), candidate(100, 1), candidate(5, 5)
    beyond = candidate(0.1, 0.1, "beyond")
    assert [best([small, fast, both, beyond], p) for p in PREFERENCES] == [small, fast, both]
    original = replace(candidate(9, 9, "rejected"), plan=UNTOUCHED)
    assert best([beyond, original], "size") == original
