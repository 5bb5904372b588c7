"""The first Ctrl-C waits for the end of a block, the second does not."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable

import pytest
import z3

from tensmith.formula import smt
from tensmith.formula.expr import Choose, Formula, Num
from tensmith.formula.poly import Poly
from tensmith.interrupt import postponed, unmissed
from tensmith.verify.solve import ask_z3


def test_the_first_one_waits() -> None:
    with postponed() as came:
        assert not came()
        signal.raise_signal(signal.SIGINT)
        assert came()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_second_one_does_not() -> None:
    with pytest.raises(KeyboardInterrupt), postponed():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_termination_waits_only_where_it_is_handled() -> None:
    with postponed():
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with postponed() as came:
            signal.raise_signal(signal.SIGTERM)
            assert came()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_threads_are_left_alone() -> None:
    found = []

    def work() -> None:
        with postponed() as came:
            found.append(came())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False]


def test_an_interrupt_that_became_another_error_is_still_one() -> None:
    with pytest.raises(KeyboardInterrupt), unmissed():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as interrupt:
            raise ImportError("initialization failed") from interrupt


def test_an_interrupt_that_somebody_kept_is_still_one() -> None:
    with pytest.raises(KeyboardInterrupt), unmissed(), contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(ImportError), unmissed():
        raise ImportError("no such thing")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# Whether 114 is a sum of three cubes, which nobody knows.
CUBES = """(declare-const x Int) (declare-const y Int) (declare-const z Int)
(assert (= (+ (* x x x) (* y y y) (* z z z)) 114)) (assert (> x 1))"""


def _cubes() -> bool:
    x, y, z = map(Poly.symbol, "xyz")
    rest = x * x * x + y * y * y - z * z * z - 114
    sums = Formula((), (), Choose((rest, -rest), Num(1), Num(0)))
    return smt.prove_equal(sums, Formula((), (), Num(0)))


@pytest.mark.parametrize("ask", [lambda: ask_z3(CUBES, 0.3), _cubes], ids=["script", "formulas"])
def test_an_interrupt_of_a_solver_is_no_answer(
    ask: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = z3.Solver.check

    def check(solver: z3.Solver) -> z3.CheckSatResult:
        threading.Timer(0.03, os.kill, (os.getpid(), signal.SIGINT)).start()
        return usual(solver)

    monkeypatch.setattr(z3.Solver, "check", check)
    monkeypatch.setattr(smt, "_TIMEOUT_MS", 400)
    with pytest.raises(KeyboardInterrupt):
        ask()
