"""`tensmith.optimize`: the program where it is faster and right, the function everywhere else."""

from __future__ import annotations

import functools
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest

import tensmith
from tensmith.errors import UsageError
from tensmith.evaluate.latency import BUSY
from tensmith.lifting import running
from tensmith.report.metric import spread
from tensmith.superoptimize import pipeline
from tensmith.superoptimize.decorator import OptimizeWarning
from tensmith.superoptimize.domain import PROMISES, holds, read_domain
from tensmith.superoptimize.examples import example_arguments

RATE = 2.0


@pytest.fixture(autouse=True)
def untimed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Nothing is timed: what is found is called twice as fast, or as a test says."""
    said: dict[str, Any] = {"speedup": 2.0, "busy": False}
    monkeypatch.setattr(pipeline, "_fastest", lambda calls, arguments: calls[0])
    monkeypatch.setattr(pipeline, "_cheap", lambda *of: True)
    monkeypatch.setattr(pipeline, "_race", lambda *of: (spread(*3 * (said["speedup"],), "x"), said["busy"]))
    return said


def product(a, b):
    """The trace of a product."""
    return np.trace(a @ b) * RATE


def test_arguments_of_the_examples_kind_go_to_the_program() -> None:
    a, b = np.ones((4, 3)), np.ones((3, 4))
    found = tensmith.optimize(product, example_inputs=(a, b), seconds=1.0)
    (report,) = found.reports
    assert found.__name__ == "product" and report.program is not None
    assert "trace_of_product" in {step.rule for step in report.trail}
    assert found(a, b) == product(a, b) and isinstance(found(a, b=b), np.float64)
    assert found(np.ones((2, 2)), np.ones((2, 2))) == 8.0  # the function itself
    with pytest.raises(ValueError, match="matmul"):
        found(a, a)


def test_threads_that_come_first_together_search_once() -> None:
    found, together = tensmith.optimize(product, seconds=1.0), Barrier(3)

    def called(_: int) -> Any:
        together.wait(60)
        return found(np.ones((4, 3)), np.ones((3, 4)))

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(called, range(3))) == [24.0] * 3
    assert len(found.reports) == 1


@pytest.mark.parametrize("busy", [False, True])
def test_it_is_said_that_the_machine_was_busy(untimed: dict[str, Any], busy: bool) -> None:
    untimed["busy"] = busy
    a, b = np.ones((4, 3)), np.ones((3, 4))
    (report,) = tensmith.optimize(product, example_inputs=(a, b), seconds=1.0).reports
    assert report.to_json()["busy"] == busy
    assert any(BUSY in sentence for sentence in report.sentences()) == busy


def test_a_program_by_itself_takes_its_own_kind_alone() -> None:
    a, b = np.ones((4, 3)), np.ones((3, 4))
    (report,) = tensmith.optimize(product, example_inputs=(a, b), seconds=1.0).reports
    assert report.program(a, b) == 24.0
    for other in ((np.ones((2, 2)), np.ones((2, 2))), (a.astype(int), b), (a,)):
        with pytest.raises(UsageError, match="'product' is for other shapes"):
            report.program(*other)


def of_names(x, of_x):
    return np.exp(x) * of_x + x


def test_arrays_lie_as_they_like() -> None:
    x, y = np.linspace(0, 1, 12).reshape(3, 4), np.ones((3, 4))
    found = tensmith.optimize(of_names, example_inputs=(x, y), seconds=1.0)
    turned = np.linspace(0, 1, 12).reshape(4, 3).T
    np.testing.assert_allclose(found(turned, y), of_names(turned, y), rtol=1e-14)
    bytes_before = np.frombuffer(b"0" + x.tobytes(), np.float64, offset=1).reshape(3, 4)
    np.testing.assert_allclose(found(bytes_before, y), of_names(x, y), rtol=1e-14)
    swapped = x.astype(">f8")
    np.testing.assert_allclose(found(swapped, y), of_names(x, y), rtol=1e-14)
    result = found(x, y)
    result += 1
    np.testing.assert_allclose(found(x, y), result - 1, rtol=1e-14)


def test_a_number_that_has_changed_is_the_functions_business(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = np.ones((4, 3)), np.ones((3, 4))
    found = tensmith.optimize(product, example_inputs=(a, b), seconds=1.0)
    assert found(a, b) == 24.0
    monkeypatch.setitem(globals(), "RATE", 3.0)
    assert found(a, b) == 36.0


def scaled_by(k):
    def scaled(x):
        return np.exp(x) * k + np.exp(x)

    def change(to):
        nonlocal k
        k = to

    return scaled, change


def test_so_is_a_number_of_the_function_around() -> None:
    scaled, change = scaled_by(2.0)
    found = tensmith.optimize(scaled, example_inputs=(np.zeros(3),), seconds=1.0)
    assert found(np.zeros(3)).tolist() == [3.0] * 3
    change(4.0)
    assert found(np.zeros(3)).tolist() == [5.0] * 3


def test_a_number_that_is_not_there_yet_is_waited_for() -> None:
    @tensmith.optimize(seconds=1.0)
    def late(x):
        return x * k

    k = 2.0
    assert late(np.ones(2)).tolist() == [2.0, 2.0]
    assert late.reports[0].program is not None
    k = 3.0
    assert late(np.ones(2)).tolist() == [3.0, 3.0]


@tensmith.optimize(seconds=1.0)
def early(a, b):
    return below(a @ b)


def lost(a):
    return nowhere(a) + 1  # noqa: F821


def below(y):
    return np.trace(y)


def test_so_is_a_helper_that_stands_below() -> None:
    assert early(np.ones((4, 3)), np.ones((3, 4))) == 12.0
    assert early.reports[0].program is not None
    line = lost.__code__.co_firstlineno + 1
    words = f"it reads 'nowhere' in line {line}, which has no value yet; define it above"
    with pytest.warns(OptimizeWarning, match=words) as warned:
        assert tensmith.optimize(lost, example_inputs=(np.ones(3),), seconds=1.0) is lost
    assert warned[0].filename == __file__


def solved(a, b):
    return np.linalg.solve(a, b)


def test_warnings_are_of_the_line_that_calls() -> None:
    with pytest.warns(OptimizeWarning, match="nowhere") as warned, pytest.raises(NameError):
        tensmith.optimize(lost, seconds=1.0)(np.ones(3))
    assert warned[0].filename == __file__


def test_what_is_no_function_and_no_call_is_refused() -> None:
    with pytest.raises(UsageError, match="takes a Python function, not int"):
        tensmith.optimize(3)
    with pytest.raises(
        UsageError, match="example_inputs= is no call of solved: missing a required argument: 'b'"
    ):
        tensmith.optimize(solved, example_inputs=(np.ones(3),))


def summed(x, n):
    return sum([x * k for k in range(n)])


def looped(x):
    total = 0.0
    i = 0
    while i < len(x):
        total = total + 2.0 * x[i]
        i += 1
    return total


@pytest.mark.parametrize(
    ("function", "arguments", "name"), [(summed, (np.ones(3), 3), "sum"), (looped, (np.ones(100),), "len")]
)
def test_builtins_may_get_another_meaning_below(
    function: Any, arguments: tuple[Any, ...], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tensmith.optimize(function, example_inputs=arguments, seconds=1.0)
    assert found.reports[0].program is not None
    monkeypatch.setitem(globals(), name, lambda *of: 7.0)
    assert found(*arguments) == function(*arguments)


x = np.ones(2)


def test_globals_by_the_name_of_a_parameter_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tensmith.optimize(logged, example_inputs=(np.ones(3),), domain={"x": "positive"}, seconds=1.0)
    monkeypatch.setitem(globals(), "x", np.ones(3))
    monkeypatch.setattr(found.__closure__[0].cell_contents, "original", None)
    np.testing.assert_allclose(found(np.ones(3)), 2.0)


def plus_one(function):
    @functools.wraps(function)
    def added(*given):
        return function(*given) + 1

    return added


@plus_one
def helping(y):
    return y * 2.0


def helped(y):
    return helping(y) + helping(y)


def test_what_a_decorator_makes_of_a_helper_is_not_known() -> None:
    with pytest.warns(OptimizeWarning, match="a decorator changes what 'helping' does"):
        assert tensmith.optimize(helped, example_inputs=(np.ones(3),), seconds=1.0) is helped


def of_factors(x):
    return np.sum(np.linalg.cholesky(x)) + np.sum(np.linalg.cholesky(x))


def test_only_what_was_compared_is_counted() -> None:
    found = tensmith.optimize(of_factors, example_inputs=(np.eye(4) + 1,), seconds=1.0)
    (report,) = found.reports
    assert report.samples == 1  # others are not positive definite
    with pytest.raises(np.linalg.LinAlgError):
        found(-np.eye(4))
    assert "between are finite" in report.assumes[0]


def checked_first(a, x):
    np.linalg.cholesky(a)
    return np.exp(-x * x) * 2.0


def test_a_call_that_nobody_reads_still_raises() -> None:
    x = np.linspace(0, 1, 8)
    found = tensmith.optimize(checked_first, example_inputs=(np.eye(4) + 1, x), seconds=1.0)
    assert found.reports[0].program is not None
    np.testing.assert_allclose(found(np.eye(4), x), checked_first(np.eye(4), x))
    with pytest.raises(np.linalg.LinAlgError):
        found(-np.eye(4), x)


def falls_with(x, s):
    return np.exp(-x * x * s**-2)


def root_of(x, s):
    return x * s**0.5


def inverse_within(a, tolerance):
    return np.linalg.pinv(a, rcond=tolerance)


@pytest.mark.parametrize(
    ("function", "arguments", "reason"),
    [
        (falls_with, (np.ones(3), 2.0), "a power that it may not have"),
        (root_of, (np.ones(3), 2.0), "a power that it may not have"),
        (inverse_within, (np.eye(3), 1e-9), "options that are computed or given"),
    ],
)
def test_what_raises_at_some_values_is_left_to_the_function(
    function: Any, arguments: tuple[Any, ...], reason: str
) -> None:
    with pytest.warns(OptimizeWarning, match=reason):
        assert tensmith.optimize(function, example_inputs=arguments, seconds=1.0) is function


def overload(x):
    total = 0
    i = 0
    while i < len(x):
        if x[i] > 100.0:
            total = total + (x[i] - 100.0)
        i += 1
    return total


def test_loops_whose_results_are_of_several_types_lose_nothing() -> None:
    x = np.linspace(0, 1, 100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptimizeWarning)
        found = tensmith.optimize(overload, example_inputs=(x,), seconds=1.0)
    x[0] = 100.75
    assert found(x) == 0.75


def logged(x):
    return np.exp(np.log(x)) + 1.0


def test_a_promise_is_checked_in_every_call() -> None:
    x = np.linspace(1, 2, 50)
    found = tensmith.optimize(logged, example_inputs=(x,), domain={"x": "positive"}, seconds=1.0)
    (report,) = found.reports
    assert "exp_of_log" in {step.rule for step in report.trail} and report.promises == ("x is positive",)
    np.testing.assert_allclose(found(x), x + 1)
    with np.errstate(invalid="ignore"):
        assert np.isnan(found(-x)).all()


def test_what_is_cheap_for_one_kind_is_not_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_cheap", lambda original, domain, named: named["x"].size > 3)
    found = tensmith.optimize(logged, domain={"x": "positive"}, seconds=1.0)
    found(np.ones(50)), found(np.ones(3))
    large, small = found.reports
    assert large.checked and not small.checked and large.program and small.program
    with np.errstate(invalid="ignore"):
        assert np.isnan(found(-np.ones(50))).all()


def test_without_a_promise_what_is_undefined_stays_so() -> None:
    x = np.linspace(1, 2, 50)
    found = tensmith.optimize(logged, example_inputs=(x,), seconds=1.0)
    (report,) = found.reports
    assert any("undefined" in text for text in report.left_out)
    with np.errstate(invalid="ignore"):
        assert np.isnan(found(-x)).all()


def test_where_nothing_is_faster_the_original_comes_back(untimed: dict[str, Any]) -> None:
    untimed["speedup"] = 0.9
    with pytest.warns(OptimizeWarning, match="nothing faster was found"):
        assert tensmith.optimize(logged, example_inputs=(np.ones(3),), seconds=1.0) is logged


def polynomial(x, c):
    total = 0.0
    for i in range(len(x)):
        total = total + c * x[i] * x[i]
    return total


def test_loops_are_lifted() -> None:
    x = np.linspace(0, 1, 3000)
    found = tensmith.optimize(polynomial, example_inputs=(x, 2.0), seconds=1.0)
    (report,) = found.reports
    assert "lifted" in report.proof
    assert found(x, 2.0) == pytest.approx(polynomial(x, 2.0)) and type(found(x, 2.0)) is type(
        polynomial(x, 2.0)
    )


@pytest.mark.parametrize("error", [OSError("no room"), KeyError("i")])
def test_whatever_fails_in_a_lift_the_function_runs_as_written(monkeypatch, error: Exception) -> None:
    def failing(*given: Any) -> None:
        raise error

    monkeypatch.setattr(running, "load", failing)
    with pytest.warns(OptimizeWarning, match=f"its loops are not lifted: {type(error).__name__}: "):
        assert tensmith.optimize(above)(np.ones(3)) == 3


def above(x):
    count = 0
    i = 0
    while i < len(x):
        if x[i] > 0.5:
            count = count + 1
        i += 1
    return count


def test_loops_that_are_shown_a_nan_do_not_write_it() -> None:
    x = np.linspace(0, 1, 100)
    x[7] = np.nan
    found = tensmith.optimize(above, example_inputs=(x,), seconds=1.0)
    assert "lifted" in found.reports[0].proof and found(x) == 50


def of_rate(x):
    total = 0.0
    i = 0
    while i < len(x):
        total = total + RATE * x[i]
        i += 1
    return total


def test_a_number_that_loops_read_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones(100)
    found = tensmith.optimize(of_rate, example_inputs=(x,), seconds=1.0)
    assert "lifted" in found.reports[0].proof and found(x) == 200.0
    monkeypatch.setitem(globals(), "RATE", 3.0)
    assert found(x) == 300.0


@tensmith.optimize(seconds=1.0)
def decorated_loop(x):
    total = 0.0
    i = 0
    while i < len(x):
        total = total + 2.0 * x[i]
        i += 1
    return total


def test_loops_under_the_decorator_are_lifted() -> None:
    assert decorated_loop(np.ones(100)) == 200.0
    assert "lifted" in decorated_loop.reports[0].proof


SEEN = []


def tells(x):
    SEEN.append(len(x))
    return x


def test_what_has_effects_has_them_once() -> None:
    found = tensmith.optimize(tells)
    with pytest.warns(OptimizeWarning, match="not lifted"):
        found(np.ones(3))
    assert SEEN == [3]


def decides(x):
    return x if x.sum() > 0 else -x


def writes(x):
    x += 1
    return x


@pytest.mark.parametrize("function", [decides, writes, np.sum, abs])
def test_what_is_not_traced_comes_back(function: Any) -> None:
    with pytest.warns(OptimizeWarning, match="runs as it was written"):
        assert tensmith.optimize(function, example_inputs=(np.ones(3),)) is function


def any_number(*parts):
    return sum(parts)


def by_name(x, *, k=2.0):
    return x * k


def others(x, **named):
    return x, named


@pytest.mark.parametrize("function", [any_number, by_name, others])
def test_parameters_by_stars_are_left_to_the_function(function: Any) -> None:
    with pytest.warns(OptimizeWarning, match="by \\* or \\*\\*"):
        found = tensmith.optimize(function)
    assert found is function


def test_a_decorated_function_learns_the_kinds_it_is_called_with() -> None:
    @tensmith.optimize(seconds=1.0)
    def twice(x, k=2.0):
        return x * k + x * k

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (np.ones(3), np.ones((2, 2)), np.ones(3, np.float32), np.ones(3)):
            result = twice(x)
            assert result.dtype == x.dtype
            np.testing.assert_array_equal(result, 4 * x)
        np.testing.assert_array_equal(twice(np.ones(3), k=1.5), 3 * np.ones(3))
    assert len(twice.reports) == 3
    assert twice(1.0) == 4.0


def scaled_by_first(x, factors):
    return x * factors[0] + x


def test_tuples_are_alike_by_the_types_of_their_parts() -> None:
    found = tensmith.optimize(scaled_by_first, seconds=1.0)
    x = np.arange(3)
    for factors in ((2,), (2.0,), (True,), ([2.0],), (np.ones(3),)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected, result = scaled_by_first(x, factors), found(x, factors)
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("word", PROMISES)
@pytest.mark.parametrize("x", [np.arange(1, 50), np.linspace(1, 2, 50, dtype=np.float32), 1.5])
def test_whatever_is_promised_holds_for_samples(word: str, x: Any) -> None:
    domain = read_domain({"x": word}, ("x",))
    samples = pipeline.example_samples({"x": x}, domain)
    assert all(holds(domain, {"x": each}) for (each,) in samples)
    (drawn,) = example_arguments(["x=i64[9]"], ["x"], domain)
    assert holds(domain, {"x": drawn})


def test_masks_and_whole_numbers_are_drawn_anew_and_counted_once() -> None:
    drawn = example_arguments(["m=bool[64]", "n=i64[64]"], ["m", "n"], {})
    assert len(np.unique(drawn[0])) == 2 and len(np.unique(drawn[1])) > 2
    samples = pipeline.example_samples({"m": np.ones(64, bool), "n": np.arange(64)}, {})
    masks, numbers = (np.array(column) for column in zip(*samples))
    assert len(samples) == 5 and (numbers < 0).any() and not masks.all()
    assert all(
        value.dtype == np.int8 for (value,) in pipeline.example_samples({"n": np.ones(9, np.int8)}, {})
    )
    (only,) = pipeline.example_samples({"n": 3, "s": ("x", (1, 2))}, {})
    assert only == (3, ("x", (1, 2)))


def test_an_array_that_is_none_is_refused() -> None:
    for good, shape in (("f64[]", ()), ("f64[ 3 , 4 ]", (3, 4)), ("f32[5,]", (5,))):
        assert example_arguments([f"x={good}"], ["x"], {})[0].shape == shape
    for sizes in ("1000 50", "1," * 99, "0" + 3 * ",999999999", "9" * 30, "9" * 5000):
        with pytest.raises(UsageError, match="is no array; write f64"):
            example_arguments([f"x=f64[{sizes}]"], ["x"], {})


def spread_of(x):
    y = np.sort(x)
    return y[-1] - y[0] + np.sum(y)


def test_what_is_promised_to_be_sorted_is_not_sorted() -> None:
    x = np.arange(50.0)
    found = tensmith.optimize(spread_of, example_inputs=(x,), domain={"x": "sorted"}, seconds=1.0)
    (report,) = found.reports
    assert "sort" not in report.source
    assert found(x) == spread_of(x) and found(x[::-1].copy()) == spread_of(x)
