"""Discharging obligations in process, by z3 or cvc5: the weakest theory first, then exact definitions.

A proof with free functions for division and casts is a proof; only the exact theory refutes. z3 crashes when
many contexts are made, so all scripts share one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

import z3

from tensmith.errors import VerificationError
from tensmith.verify.obligation import Lemma, Obligation, Script, Verdict

Answer = tuple[Literal["sat", "unsat", "unknown"], str]
_MODEL_LINES = 24
# Seconds for the theory without definitions, where a solver that needs longer seldom ends.
_FIRST = 0.7
# A second of a question is so much of the solver's own count of its work, so that a busy machine answers what
# an idle one does; by the clock it may take so many times as long.
_WORK = {"z3": 6_000_000, "cvc5": 600_000}
_PATIENCE = 10


def discharge(obligations: Iterable[Obligation], solver: str = "z3", timeout: float = 5.0) -> list[Verdict]:
    """A verdict for each obligation, in order. timeout: seconds for each question to the solver,
    in work that usually takes so long.

    Raises VerificationError for a solver that is not known or not installed.
    """
    _solver(solver)  # which there is, even if nothing is asked
    known: dict[tuple[str, str], Verdict] = {}
    verdicts = []
    for obligation in obligations:
        key = (obligation.expects, obligation.script.text(True) if obligation.script else "")
        found = known.get(key)
        if found is None or not key[1]:
            found = known[key] = _discharge(obligation, solver, timeout)
            verdicts.append(found)
        else:
            verdicts.append(replace(found, obligation=obligation, seconds=0.0))
    return verdicts


def _discharge(obligation: Obligation, solver: str, timeout: float) -> Verdict:
    script, began = obligation.script, time.perf_counter()

    def verdict(
        status: Literal["proved", "refuted", "unknown"], rung: str, detail: str = "", text: str = "",
        lemmas: tuple[tuple[Lemma, Verdict], ...] = (),
    ) -> Verdict:  # fmt: skip
        seconds = time.perf_counter() - began
        return Verdict(obligation, status, rung, solver, seconds, detail, text, lemmas)

    if script is None:
        return verdict("proved", "structure", obligation.structural)
    text = script.text(exact=False)
    if obligation.expects == "sat":
        answer, detail = ask(text, solver, timeout)
        status: Literal["proved", "refuted", "unknown"] = (
            "proved" if answer == "sat" else "refuted" if answer == "unsat" else "unknown"
        )
        return verdict(status, "free functions", detail, text)
    more = bool(script.definitions or script.further)
    answer, detail = ask(text, solver, min(timeout, _FIRST) if more else timeout)
    if answer == "unsat":
        return verdict("proved", "free functions", text=text)
    # A model found at once speaks for definitions that are missing, a long search for a lemma that is.
    tries = [_exactly, _by_lemmas] if answer == "sat" else [_by_lemmas, _exactly]
    for attempt in tries:
        proof = attempt(obligation, script, solver, timeout)
        if proof is None:
            continue
        answer, detail, text, rung, used = proof
        if answer == "unsat":
            return verdict("proved", rung, text=text, lemmas=used)
    return verdict("refuted" if answer == "sat" else "unknown", "exact definitions", detail, text)


_Proof = tuple[Literal["sat", "unsat", "unknown"], str, str, str, tuple[tuple[Lemma, Verdict], ...]]


def _exactly(_: Obligation, script: Script, solver: str, timeout: float) -> _Proof | None:
    """With further facts and exact definitions; None where there are none."""
    if not (script.definitions or script.further):
        return None
    text = script.text(exact=True)
    return (*ask(text, solver, timeout), text, "exact definitions", ())


def _by_lemmas(obligation: Obligation, script: Script, solver: str, timeout: float) -> _Proof | None:
    """With equations of folds, first without the recurrences, which make a search longer; None where there
    are no equations."""
    used = tuple(_lemmas(obligation.lemmas(), solver, timeout))
    if not used:
        return None
    equations = tuple(lemma.equation for lemma, _ in used)
    for steps in (False, True):
        text = script.text(exact=True, lemmas=equations, steps=steps)
        answer, detail = ask(text, solver, timeout if steps else min(timeout, _FIRST))
        if answer == "unsat":
            break
    return answer, detail, text, "fold lemma", used


def _lemmas(lemmas: Iterable[Lemma], solver: str, timeout: float) -> Iterator[tuple[Lemma, Verdict]]:
    """The lemmas that hold."""
    for lemma in lemmas:
        proof = _discharge(lemma.obligation, solver, min(timeout, _FIRST))
        if proof.status == "proved":
            yield lemma, proof


def ask(text: str, solver: str, timeout: float) -> Answer:
    """(answer, model or reason) of an SMT-LIB 2 script. Raises as `discharge` does."""
    return _solver(solver)(text, timeout)


def _solver(name: str) -> Callable[[str, float], Answer]:
    if name == "z3":
        return ask_z3
    if name == "cvc5":
        try:
            import cvc5  # noqa: F401
        except ImportError as error:
            raise VerificationError("cvc5 is not installed; pip install 'tensmith[lift]'") from error
        return ask_cvc5
    raise VerificationError(f"there is no solver '{name}'; known: z3, cvc5")


def _limits(solver: str, timeout: float) -> tuple[int, int]:
    """(work, milliseconds by the clock), of either at least 1: solvers take 0 for no limit."""
    return max(1, int(timeout * _WORK[solver])), max(1, int(timeout * 1000 * _PATIENCE))


@lru_cache(maxsize=1)
def _context() -> Any:
    return z3.Context()


def ask_z3(text: str, timeout: float) -> Answer:
    """(answer, model or reason) of a script.

    By the search itself: the tactics that z3 would choose by the script's logic take longer to set up than
    most questions to answer, and lose themselves in products now and then. What was answered is not asked
    again: functions of one shape share most of their scripts.
    """
    try:
        return _decided(text, timeout)
    except z3.Z3Exception as error:
        return "unknown", str(error)


@lru_cache(maxsize=4096)
def _decided(text: str, timeout: float) -> Answer:
    """The answer; Z3Exception with the reason where there is none."""
    solver = z3.SimpleSolver(ctx=_context())
    work, milliseconds = _limits("z3", timeout)
    solver.set("rlimit", work)
    solver.set("timeout", milliseconds)
    solver.set("ctrl_c", False)  # z3 would answer a Ctrl-C by "unknown", and Python would not hear of it
    try:
        solver.from_string(text)
        answer = solver.check()
    except z3.Z3Exception as error:
        raise z3.Z3Exception(f"z3: {error}") from error
    if answer == z3.unknown:
        reason = solver.reason_unknown()
        raise z3.Z3Exception("timeout" if reason == "canceled" else reason)
    return ("sat", _readable(solver.model())) if answer == z3.sat else ("unsat", "")


def _readable(model: Any) -> str:
    """The values of a model, one a line: constants first."""
    lines = [(d.arity() > 0, f"{d.name()} = {_flat(model[d])}") for d in model.decls()]
    ordered = [line for _, line in sorted(lines) if not line.startswith(("div0", "mod0", "/0"))]
    return "\n".join(ordered[:_MODEL_LINES])


def _flat(value: Any) -> str:
    return " ".join(str(value).split())[:200]


@lru_cache(maxsize=1)
def _terms() -> Any:
    import cvc5

    return cvc5.TermManager()


def ask_cvc5(text: str, timeout: float) -> Answer:
    """(answer, "" or reason) of a script."""
    import cvc5

    solver = cvc5.Solver(_terms())
    work, milliseconds = _limits("cvc5", timeout)
    solver.setOption("rlimit-per", str(work))
    solver.setOption("tlimit-per", str(milliseconds))
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "obligation")
    symbols, last = parser.getSymbolManager(), ""
    try:
        while True:
            command = parser.nextCommand()
            if command.isNull():
                break
            last = command.invoke(solver, symbols).strip() or last
    except RuntimeError as error:
        return "unknown", f"cvc5: {error}"
    if last == "unsat":
        return "unsat", ""
    return ("sat", "") if last == "sat" else ("unknown", last)
