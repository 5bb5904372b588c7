"""One loop: its counters' closed forms, how often it runs, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensmith.formula.expr import Call, Read, Size, fresh
from tensmith.formula.poly import Poly, floor_div
from tensmith.formula.types import I64
from tensmith.lifting.loops import Loop, statements
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summarize.constants import unknown
from tensmith.lifting.summarize.counters import changes, from_memory, steps
from tensmith.lifting.summarize.execute import Execution
from tensmith.lifting.summarize.iteration import Iteration
from tensmith.lifting.summarize.memory import Contents
from tensmith.lifting.summarize.reasons import uncounted
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summarize.solve import Solver
from tensmith.lifting.summarize.state import State
from tensmith.lifting.summarize.substitution import index, is_open, substitute
from tensmith.lifting.summary import Term, length_of


def run_loop(run: Execution, loop: Loop, state: State, scope: Scope) -> None:
    """Execute a loop for all its iterations at once; the state changes."""
    _Runner(run, loop, state, scope).run_loop()


class _Runner:
    def __init__(self, run: Execution, loop: Loop, state: State, scope: Scope) -> None:
        self.run, self.loop, self.state, self.scope = run, loop, state, scope
        self.counter = fresh(loop.label.split("@")[0] or "t")
        self.t = Poly.symbol(self.counter)
        self.live = run.live[loop.label]
        self.changes = changes(loop.body, {name: type_.rank for name, type_ in run.arrays.items()})
        self.closed: dict[str, Term] = {}

    def run_loop(self) -> None:
        self._plain_counters()
        candidates = self._candidates()
        while candidates and self._scout(candidates):
            candidates = self._candidates()
        if self.run.scouting:
            self._leave_scouting()
            return
        trips = self._trips()
        inside = self.scope.binding((self.counter, trips))
        head = self._head()
        end = head.copy()
        mark = len(self.run.found)
        self.run.block(self.loop.body, end, inside)
        iteration = Iteration(self.run, self.loop, self.counter, trips, self.scope, self.state, end)
        Solver(iteration, self.live, self.closed).leave(self.changes.scalars, self.changes.arrays, mark)

    def _head(self) -> State:
        """The state at the start of an iteration: closed forms, and names for what is not known yet."""
        head = self.state.copy()
        for name in self.changes.scalars:
            type_ = self.run.types.get(name, I64)
            head.scalars[name] = self.closed.get(name) or Read(f"{name}@{self.loop.label}", (), type_)
        for name in self.changes.arrays:
            if name in head.arrays:
                old = head.arrays[name]
                head.arrays[name] = Contents(name, old.element, old.rank, f"{name}@{self.loop.label}")
        return head

    # Counters

    def _plain_counters(self) -> None:
        """Variables whose only change is v = v + constant, once an iteration."""
        inner = [s for top in self.loop.body for s in statements(top) if s is not top]
        for name in self.changes.scalars:
            found = [step for s in self.loop.body for step in steps(s, name)]
            if len(found) == 1 and found[0] is not None and not any(steps(s, name) for s in inner):
                self._close(name, Poly.of(found[0]))

    def _close(self, name: str, step: Poly) -> bool:
        """Note v(t) = v(0) + the sum of `step`, a polynomial in the counter, over the iterations before."""
        if name not in self.state.scalars:
            return False
        held = self.state.scalars[name]
        with self.run.algebra.counts():
            start = self.run.algebra.poly(held)
        if start is not None and not isinstance(held, Size):
            self.run.algebra.used(self.scope, start)
        slope = step.coefficient(self.counter)
        if start is None or slope is None or slope.coefficient(self.counter) != 0:
            return False
        flat = step.substitute({self.counter: 0})
        change = flat * self.t + floor_div(slope * self.t * (self.t - 1), Poly.of(2))
        self.closed[name] = index(start + change, self.run.types.get(name, I64))
        return True

    def _candidates(self) -> list[str]:
        """Integers read before they are written that may be counters: no array goes into them."""
        found = []
        for name in self.changes.scalars:
            type_ = self.run.types.get(name, I64)
            array = (length_of(name) or (name,))[0]
            if (
                name in self.closed
                or type_.kind != "int"
                or array not in self.live.head
                or name not in self.state.scalars
            ):
                continue
            if not any(from_memory(s, name) for s in statements(self.loop.body)):
                found.append(name)
        return found

    def _scout(self, candidates: Sequence[str]) -> bool:
        """Run the body once without arrays; whether a candidate turned out to be a counter."""
        run = self.run
        marks = len(run.found), len(run.extents), len(run.algebra.claims), len(run.algebra.fits)
        exact = set(run.algebra.exact)
        run.scouting += 1
        end = self._head()
        try:
            run.block(self.loop.body, end, replace(self.scope, sizes=self.scope.sizes | {self.counter}))
        except Refusal:
            return False
        finally:
            run.scouting -= 1
            run.algebra.exact = exact
            del (
                run.found[marks[0] :],
                run.extents[marks[1] :],
                run.algebra.claims[marks[2] :],
                run.algebra.fits[marks[3] :],
            )
        news = False
        for name in candidates:
            after = run.algebra.poly(end.scalars[name], loose=True)
            if after is None:
                continue
            step = after - Poly.symbol(f"{name}@{self.loop.label}")
            own = any(other.endswith(f"@{self.loop.label}") for other in step.symbols())
            if not own:
                news = self._close(name, step) or news
        return news

    def _leave_scouting(self) -> None:
        """After a loop in a scouting run: counters at their last value, the rest unknown."""
        try:
            trips: Poly | None = self._trips()
        except Refusal:
            trips = None
        for name in self.changes.scalars:
            term = self.closed.get(name)
            if term is None or trips is None:
                self.state.scalars[name] = unknown(self.run.types.get(name, I64))
            else:
                self.state.scalars[name] = substitute(term, {self.counter: trips})

    # Iterations

    def _trips(self) -> Poly:
        """How often the body runs; 0 where the polynomial is negative."""
        scope = replace(self.scope, sizes=self.scope.sizes | {self.counter})
        condition = self.run.evaluate(self.loop.condition, self._head(), scope)
        while (
            isinstance(condition, Call)
            and condition.function == "not"
            and isinstance(condition.args[0], Call)
        ):
            inner = condition.args[0]
            if inner.function not in ("equal", "not"):
                break
            condition = (
                Call("not_equal", inner.args, inner.type) if inner.function == "equal" else inner.args[0]
            )
        if isinstance(condition, Call) and condition.function == "not_equal":
            found = self._until_equal(condition)
        else:
            with self.run.algebra.counts():
                found = self._while_positive(condition)
        if is_open(found) and not self.run.scouting:
            raise self._uncounted(condition)
        return self.run.extent(found, self.scope, self._none_below(condition))

    def _none_below(self, condition: Term) -> bool:
        """Whether a loop up to a parameter does not run where that is negative, as where it is 0: it counts
        from what is >= 0 then."""
        match condition:
            case Call("less", (Size(start), Read(bound, ()))) if start.symbols() <= {self.counter, bound}:
                return self.run.algebra.poly(condition.args[1]) == Poly.symbol(bound) and (
                    start.evaluate({self.counter: 0, bound: 0}) >= 0
                )
        return False

    def _until_equal(self, condition: Call) -> Poly:
        a, b = (self.run.algebra.poly(side) for side in condition.args)
        if a is None or b is None or is_open(a - b):
            raise self._uncounted(condition)
        distance = b - a
        factor = distance.coefficient(self.counter)
        if factor is None or not factor.constant:
            raise self._no_count("its condition does not come nearer to its end by a constant step")
        start = distance.substitute({self.counter: 0})
        step = -factor.constant
        top, bottom = (start, step) if step > 0 else (-start, -step)
        if any(coefficient % bottom for _, coefficient in top.terms):
            raise self._no_count(f"it ends at equality only, with steps of {bottom}; compare with < instead")
        trips = floor_div(top, Poly.of(bottom))
        if not self.scope.proves(trips):
            self.run.algebra.claim(trips)
        return trips

    def _while_positive(self, condition: Term) -> Poly:
        found = self.run.algebra.positional(condition, self.scope, bound=True)
        if found is None or len(found) != 1:
            raise self._uncounted(condition)
        counts = [trips for poly in found[0] if (trips := self._count(poly)) is not None]
        if not counts:
            raise self._no_count("nothing in it changes its condition: it may never end")
        least = counts[0]
        for other in counts[1:]:
            if self.scope.proves(least - other):
                least = other
            elif not self.scope.proves(other - least):
                raise self._no_count("it has two bounds, and which of them ends it is not known")
        return least

    def _count(self, poly: Poly) -> Poly | None:
        """How often poly(t) >= 0 holds from t = 0 on; None where it always does, the counter not in it."""
        factor = poly.coefficient(self.counter)
        if factor is None:
            raise self._no_count("its condition is not linear in the number of iterations")
        start = poly.substitute({self.counter: 0})
        if factor == 0:
            if self.scope.proves(start):
                return None
            if self.scope.refutes(start):
                return Poly.of(0)
            raise self._no_count("a part of its condition does not change in it; test that before the loop")
        step = -factor
        if step.constant is None and not self.scope.proves(step - 1):
            self.run.algebra.claim(step - 1)
        elif step.constant is not None and step.constant < 0:
            if self.scope.refutes(start):
                return Poly.of(0)
            raise self._no_count("its counter moves away from its bound")
        return floor_div(start + step, step)

    def _uncounted(self, condition: Term) -> Refusal:
        return self._no_count(uncounted(condition, f"@{self.loop.label}"))

    def _no_count(self, why: str) -> Refusal:
        return Refusal(
            f"the number of iterations of this loop is not known: {why}; "
            "write it as a count from a start to a bound that the loop does not change",
            self.loop.position,
        )
