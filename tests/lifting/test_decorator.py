"""`@tensmith.lift`: the program in place of the loops, the loops wherever a guard or a refusal says so."""

from __future__ import annotations

import importlib.util
import os
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from unittest import mock

import numpy as np
import pytest

import tensmith
from lifting import decorated
from tensmith.errors import UsageError
from tensmith.lifting import decorator, running
from tensmith.lifting.decorator import LiftWarning, _Lifted, kind_of, module_of
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.running import installed


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error", LiftWarning)
        yield


def test_a_list_and_an_array_are_lifted_each_in_its_kind():
    assert decorated.plain([1, 2, 3], 3) == 14 + 9
    assert decorated.plain([0.5, 1.5], 2) == pytest.approx(2.5 + 6)
    assert decorated.plain(np.array([1, 2], np.int32), n=2) == 5 + 6
    assert decorated.plain.__name__ == "plain"


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_the_target_is_the_one_named():
    result = decorated.scaled([0.0, 1.0], 2.0)
    assert type(result).__module__ == "torch"
    np.testing.assert_allclose(np.asarray(result), [2, 2 * np.e])


def test_written_arrays_are_returned_and_arguments_stay():
    a, b = np.ones(3, np.float32), np.arange(3.0)
    result = decorated.in_place(a, b, 2)
    np.testing.assert_array_equal(result, [1, 2, 1])
    np.testing.assert_array_equal(a, [1, 1, 1])


def test_a_first_call_that_was_stopped_is_made_again():
    function = tensmith.lift(decorated.in_place.__wrapped__)
    a, b = np.ones(3, np.float32), np.arange(3.0)
    with (
        mock.patch.object(_Lifted, "lift", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        function(a, b, 2)
    np.testing.assert_array_equal(function(a, b, 2), [1, 2, 1])


def test_threads_that_come_first_together_wait_for_the_program():
    function, together = tensmith.lift(decorated.in_place.__wrapped__), Barrier(3)

    def called(_: int) -> object:
        together.wait(60)
        return function(np.ones(3, np.float32), np.arange(3.0), 2)

    with ThreadPoolExecutor(3) as pool:
        np.testing.assert_array_equal(list(pool.map(called, range(3))), 3 * [[1, 2, 1]])


def test_constants_and_helpers_of_the_module_are_seen():
    np.testing.assert_allclose(decorated.smoothed(np.arange(5.0)), [4, 8, 12])


def test_a_guard_that_refuses_runs_the_original_and_says_so_once():
    function = tensmith.lift(decorated.plain.__wrapped__)
    with (
        pytest.warns(LiftWarning, match=r"plain runs as written: .*len\(a\) >= n"),
        pytest.raises(IndexError),
    ):
        function([1, 2], 3)
    with pytest.raises(IndexError):
        function([1, 2], 3)
    assert function([1, 2], 2) == 11


def test_what_cannot_be_lifted_runs_as_written_with_the_reason():
    with pytest.warns(LiftWarning, match="a return inside a loop.* at decorated.py:6"):
        assert decorated.early([1, -1]) == 1
    assert decorated.early([1]) == 0
    with pytest.warns(LiftWarning):
        assert decorated.counted([5]) == 5
    assert decorated.runs == ["run"]


def test_what_is_no_function_and_a_target_that_is_none_are_refused_at_once():
    with pytest.raises(UsageError, match=r"a Python function, not str; .* tensmith lift FILE"):
        tensmith.lift("loops.c")
    with pytest.raises(UsageError, match="has no Python source; lift a function made by def"):
        tensmith.lift(int)
    with pytest.warns(LiftWarning, match="len runs as written: only functions made by def can be lifted"):
        assert tensmith.lift(len)([1, 2]) == 2
    with pytest.raises(UsageError, match="did you mean 'torch'"):
        tensmith.lift(to="torhc")


def test_a_function_without_a_source_runs_as_written():
    space: dict[str, object] = {}
    exec("def f(x):\n return x + 1", space)
    with pytest.warns(LiftWarning, match="source of f cannot be read"):
        assert tensmith.lift(space["f"])(1) == 2


@pytest.mark.parametrize("value", ["x", {1: 2}, None, 1j, np.zeros(2, np.complex128), ["x"]])
def test_arguments_that_are_no_numbers(value):
    with pytest.raises(Refusal):
        kind_of(value, "a")


def test_kinds_of_arguments():
    assert str(kind_of([1, 2.0], "a").element) == "f64"
    assert kind_of([[1], [2]], "a").rank == 2 and str(kind_of([[1], [2.0]], "a").element) == "f64"
    assert kind_of(np.zeros((2, 2), np.uint8), "a").numpy
    assert str(kind_of(True, "a")) == "bool" and str(kind_of(np.float32(1), "a")) == "f32"


def test_lines_are_those_of_the_file():
    node = module_of(decorated.early.__wrapped__).functions["early"]
    assert "def early" in Path(decorated.__file__).read_text().splitlines()[node.lineno - 1]


def test_a_helper_inside_a_wrapper_runs_as_written():
    with pytest.warns(LiftWarning, match="a wrapper changes what tripled does"):
        assert tensmith.lift(decorated.uses_a_wrapper)(2) == 107


def test_a_wrapper_runs_as_written():
    with pytest.warns(LiftWarning, match="a wrapper changes what the function does"):
        assert tensmith.lift(decorated.tripled)(2) == 106


def test_names_of_python_mean_what_the_module_says():
    assert tensmith.lift(decorated.sum_of_squares)([1, 2, 3]) == 14


def test_variables_of_the_maker_are_seen_and_what_is_no_number_is_not():
    assert tensmith.lift(decorated.closed(3))(5) == 15
    with pytest.warns(LiftWarning, match="k is bound more than once"):
        assert tensmith.lift(decorated.closed(np.array([1, 2])))(5).tolist() == [5, 10]


def test_a_tuple_that_is_written_runs_as_written():
    function = tensmith.lift(decorated.first_is_one)
    with pytest.warns(LiftWarning, match="a is a tuple"), pytest.raises(TypeError):
        function((1, 2))
    np.testing.assert_array_equal(function([5, 2]), [1, 2])


@pytest.mark.parametrize(
    "value", [[1, np.int8(3)], [1.0, 1j], [np.int8(1), np.float32(2)], [[1], 2], np.ma.ones(2), [1, None]]
)
def test_lists_of_mixed_kinds_are_no_arrays(value):
    with pytest.raises(Refusal):
        kind_of(value, "a")


def test_a_list_of_the_module_that_is_written_is_for_the_function_itself():
    with pytest.warns(LiftWarning, match="a list of the file is changed"):
        assert decorated.grid_written(7) == 7
    assert decorated.GRID == [[7, 2], [7, 4]]


def test_integers_beyond_64_bits_are_for_the_function_itself():
    assert decorated.multiplied([3] * 39) == 3**39
    with pytest.warns(LiftWarning, match="may not fit in 64 bits"):
        assert decorated.multiplied([3] * 50) == 3**50
    large = [2**40, -(2**40), 7]
    assert list(decorated.differences(large, [1, 2, 3], 2**15)) == [0, -(2**57), 3 * 2**15 * (7 + 2**40)]
    with pytest.warns(LiftWarning, match="may not fit in 64 bits"):
        assert decorated.differences(large, large, 2**20)[1] == 2**101


def test_what_python_raises_for_is_raised():
    assert decorated.mean([1.0, 2.0]) == 1.5
    with pytest.warns(LiftWarning, match="no finite number"), pytest.raises(ZeroDivisionError):
        decorated.mean([])
    assert decorated.mean([np.inf]) == np.inf


def test_what_python_raises_for_on_the_way_is_raised():
    assert decorated.logistic([0.0, 1000.0]) == pytest.approx([0.5, 1.0])
    with pytest.warns(LiftWarning, match="no finite number"), pytest.raises(OverflowError):
        decorated.logistic([-1000.0])
    assert decorated.above([2.0, 1.0], [1.0, 2.0]) == 1
    with pytest.warns(LiftWarning, match="no finite number"), pytest.raises(ZeroDivisionError):
        decorated.above([2.0], [0.0])


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_a_target_that_says_nothing_on_the_way_is_refused():
    function = tensmith.lift(to="torch")(decorated.logistic.__wrapped__)
    with pytest.warns(LiftWarning, match="may go unseen in torch"):
        assert function([0.0]) == [0.5]


def test_what_no_call_can_check_runs_as_written():
    with pytest.warns(LiftWarning, match="an assertion is taken to hold"), pytest.raises(AssertionError):
        decorated.asserted([])
    with pytest.warns(LiftWarning, match="empty range raises"), pytest.raises(ValueError, match="empty"):
        decorated.widest([1.0], 0)
    with pytest.warns(LiftWarning, match="rounded quotients"):
        assert decorated.rests([1.0], 0.1) == [1.0 % 0.1]
    with pytest.warns(LiftWarning, match="log10 are computed from rounded quotients"):
        assert decorated.digits([1000.0]) == [4]


@pytest.mark.parametrize("to", ["c", "onnx"])
def test_numbers_and_shapes_that_are_not_those_annotated_are_for_the_function_itself(to):
    if not installed(to):
        pytest.skip(f"{to} cannot run here")
    largest = tensmith.lift(to=to)(decorated.largest)
    assert largest([1, 5, 2]) == 5
    with pytest.warns(LiftWarning, match="x holds values that int64 does not"):
        assert largest([1.5, 2.5]) == 2.5
    total = tensmith.lift(to=to)(decorated.total)
    assert total([1, 2.5]) == 3.5
    with pytest.warns(LiftWarning, match="x must have 1 axes, not 2"), pytest.raises(TypeError):
        total([[1.0, 2.0], [3.0, 4.0]])


def test_no_rows_are_rows():
    function = tensmith.lift(decorated.total_of_rows)
    assert function([[1.0, 2.0], [3.0, 4.0]]) == 10 and function([]) == 0 and function([[]]) == 0
    with pytest.warns(LiftWarning, match="rows must have 2 axes, not 1"), pytest.raises(TypeError):
        function([1.0])


def test_one_list_under_two_names_is_for_the_function_itself():
    np.testing.assert_array_equal(decorated.shift([1, 2, 3], [5, 6, 7]), [1, 5, 6])
    same = [1, 2, 3]
    with pytest.warns(LiftWarning, match="x is written, and shares memory"):
        assert decorated.shift(same, same) is None
    assert same == [1, 1, 1]
    function = tensmith.lift(decorated.shift.__wrapped__)
    whole = np.arange(5.0)
    with pytest.warns(LiftWarning, match="shares memory"):
        function(whole[1:], whole[:-1])
    assert whole.tolist() == [0, 1, 0, 1, 0]
    np.testing.assert_array_equal(decorated.first_column([[0, 0], [0, 0]], 1), [[1, 0], [2, 0]])
    rows = [[0, 0]] * 2
    with pytest.warns(LiftWarning, match="rows is written, and shares memory"):
        decorated.first_column(rows, 1)
    assert rows == [[2, 0], [2, 0]]


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_numpys_32_bits_wrap_as_numpy_does():
    given = np.full(3, 7, np.int32)
    assert decorated.dot(given, given) == 147
    given = np.full(3, 50000, np.int32)
    with pytest.warns(LiftWarning, match="may not fit"):
        assert decorated.dot(given, given) == 3 * int(np.int32(50000) * np.int32(50000))
    assert decorated.steps(np.int32(3), np.int32(4)) == 12
    with pytest.warns(LiftWarning, match="may not fit"):
        assert decorated.steps(np.int32(50000), np.int32(50000)) == 0


def test_shifts_and_masks_stay_in_bounds_and_floats_that_become_integers_are_named():
    given = [1, -3, 2**40]
    assert list(decorated.halves(given)) == [(v >> 1) + (v & 255) for v in given]
    with pytest.warns(LiftWarning, match="a float becomes an integer"):
        assert decorated.whole([1.5, -2.5]) == [1, -2]


def test_a_number_in_place_of_a_bool_keeps_its_value():
    assert list(decorated.raised_by([1.0], True)) == [2.0]
    with pytest.warns(LiftWarning, match="k must be an integer of 1 bits, not 2"):
        assert list(decorated.raised_by([1.0], 2)) == [3.0]


@pytest.mark.parametrize("error", [OSError("no room"), MemoryError(), KeyError("i"), AttributeError("jit")])
def test_whatever_fails_in_a_lift_the_function_runs_as_written_with_one_warning_a_form(monkeypatch, error):
    def failing(*given):
        raise error

    monkeypatch.setattr(running, "load", failing)
    function = tensmith.lift(decorated.plain.__wrapped__)
    for given in ([1, 2], [1.0, 2.0]):
        with pytest.warns(LiftWarning, match=f"plain runs as written: {type(error).__name__}"):
            assert function(given, 2) == 11
        assert function(given, 2) == 11


def test_a_float_for_a_count_is_for_the_function_itself():
    function = tensmith.lift(decorated.to_count)
    assert function([1.0, 2.0], 2) == 3
    with pytest.warns(LiftWarning, match="n is no integer"):
        assert function([1.0, 2.0], 2.0) == 3


def test_infinities_that_a_lift_takes_not_to_be_there_are_for_the_function_itself():
    function = tensmith.lift(decorated.largest_product)
    assert function([2.0, 5.0], [0.0, 1.0]) == 1 and function([2.0, 0.5], [0.0, 1.0]) == 0
    with pytest.warns(LiftWarning, match="a holds numbers that are not finite"):
        assert function([np.inf, 5.0], [0.0, 1.0]) == 1
    function = tensmith.lift(decorated.largest_product)
    with pytest.warns(LiftWarning, match="no finite number"):
        assert function([1e200, 5.0], [1e200, 1.0]) == 1
    function = tensmith.lift(decorated.heavy_rows)
    assert function([[2.0, 9.0], [0.0, 3.0]], [1.0, 1.0]) == 2
    with pytest.warns(LiftWarning, match="x holds numbers that are not finite"):
        assert function([[2.0, 9.0], [0.0, 3.0]], [1.0, np.inf]) == 2


@pytest.mark.skipif(not installed("c"), reason="there is no C compiler")
def test_a_target_whose_answers_hide_a_number_that_is_not_finite_is_refused():
    function = tensmith.lift(to="c")(decorated.largest_product)
    with pytest.warns(LiftWarning, match="may go unseen in c"):
        assert function([1e200, 5.0], [1e200, 1.0]) == 1


@pytest.mark.skipif(not installed("c"), reason="there is no C compiler")
def test_what_no_running_total_holds_goes_unseen():
    """The last quotient, which Python divides all the same."""
    function = tensmith.lift(to="c")(decorated.shares_before)
    with pytest.warns(LiftWarning, match="may go unseen in c"), pytest.raises(ZeroDivisionError):
        function([1.0, 2.0], [1.0, 0.0])


@pytest.mark.skipif(not installed("c"), reason="there is no C compiler")
@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value encountered")
def test_a_root_of_what_is_not_finite_shows_in_what_it_divides():
    function = tensmith.lift(to="c")(decorated.with_length_1)
    np.testing.assert_allclose(function(np.array([3.0, 4.0])), [0.6, 0.8])
    with pytest.warns(LiftWarning, match="x holds numbers that are not finite"):
        assert function(np.array([np.inf, 4.0]))[1] == 0.0
    with pytest.warns(LiftWarning, match="may go unseen in c"):
        assert tensmith.lift(to="c")(decorated.is_long)(np.full(20, 1e307)) == 1


def test_rows_are_divided_by_their_lengths():
    function = tensmith.lift(decorated.rows_with_length_1)
    np.testing.assert_allclose(function(np.array([[3.0, 4.0], [0.0, 2.0]]), 2, 2), [[0.6, 0.8], [0, 1]])


def test_a_function_may_have_another_name_than_its_def():
    assert tensmith.lift(decorated.named_otherwise(3))(5) == 15


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_numbers_of_numpy_keep_their_type_under_annotations_of_pythons():
    with pytest.warns(LiftWarning, match="may not fit"):
        assert tensmith.lift(decorated.total_of_whole)(list(np.array([200, 100], np.uint8))) == 44
    assert tensmith.lift(decorated.closed(3))(np.uint8(5)).dtype == np.uint8


def test_types_that_are_imported_by_name_are_known():
    assert tensmith.lift(decorated.typed)([1.0, 2.0], [1.0, 2.0], [1.0, 2.0]) == 9
    assert tensmith.lift(decorated.typed_by_other_names)([2.0], [3.0]) == 6


def test_a_number_of_numpy_in_the_module_is_none_of_pythons():
    given = np.ones(2, np.float32)
    assert tensmith.lift(decorated.rated)(given).dtype == np.float64
    assert tensmith.lift(decorated.rated_each)(given).dtype == np.float32
    with pytest.warns(LiftWarning, match="MIXED"):
        assert tensmith.lift(decorated.rated_by_several)(given).dtype == np.float32


def test_an_array_without_axes_is_no_number():
    with pytest.raises(Refusal, match="an array without axes"):
        kind_of(np.array(1.0), "a")


def test_a_process_forked_while_a_thread_lifts_may_lift() -> None:
    taken, done = threading.Event(), threading.Event()

    def lifting() -> None:
        with decorator._LIFTING:
            taken.set()
            done.wait(60)

    thread = threading.Thread(target=lifting)
    thread.start()
    taken.wait(60)
    child = os.fork()
    if not child:
        os._exit(0 if decorator._LIFTING.acquire(timeout=5) else 1)
    assert os.waitpid(child, 0)[1] == 0
    done.set()
    thread.join()
