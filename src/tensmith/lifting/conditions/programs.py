"""A lifted program computes what the summary says: every element of every output, at an arbitrary index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tensmith.formula.types import MachineType
from tensmith.lifting.choices import Cases, Choice, needed
from tensmith.lifting.conditions import operators
from tensmith.lifting.conditions.elements import ProofElements
from tensmith.lifting.conditions.execute import Goal
from tensmith.lifting.conditions.folds import Folds
from tensmith.lifting.conditions.memory import ArrayMemory, memory_of
from tensmith.lifting.conditions.nodes import Arena, ProofTerm, monomials
from tensmith.lifting.conditions.operators import sort_of
from tensmith.lifting.conditions.script import ObligationWriter
from tensmith.lifting.conditions.state import At, claimed_content, select
from tensmith.lifting.conditions.world import Malformed, ProofWorld
from tensmith.lifting.lifted import ArrayView, Lifted, Output
from tensmith.lifting.loops import dtype_of
from tensmith.lifting.summary import Requirement, Result, SizeSymbol, Summary
from tensmith.verify.obligation import Obligation

# Prefix functions of a program are numbered from here, so that they are not those of the summary's proof.
_FIRST_FUNCTION = 10_000


def program_goals(lifted: Lifted, summary: Summary) -> list[Obligation]:
    """The obligations of a program; raises Malformed for one that cannot be compared."""
    stated = replace(summary, requires=lifted.requires, sizes=lifted.sizes)
    world = ProofWorld(stated, Folds(Arena(), _FIRST_FUNCTION, linear=True), every_range=True)
    memories = {name: memory_of(world, name, kind, None) for name, kind in world.arrays.items()}
    comparison = ProgramComparison(world, lifted, memories)
    comparison.run()
    writer = ObligationWriter(world)
    # Boxes that a program adds may exclude one another, as parts at borders do.
    sizes = [world.scope[size.symbol] for size in summary.sizes]
    return [writer.satisfiable(sizes=sizes), *map(writer.obligation, comparison.goals)]


@dataclass
class ProgramComparison:
    """Collects what must hold of a program, its views, and its outputs."""

    world: ProofWorld
    lifted: Lifted
    memories: Mapping[str, ArrayMemory]

    def __post_init__(self) -> None:
        self.goals: list[Goal] = []
        self.path: tuple[ProofTerm, ...] = ()
        self.elements = ProofElements(self.world, self.lifted, self.memories, self.demand)

    def demand(self, subject: str, claim: ProofTerm) -> None:
        """Something to prove under the conditions of the moment."""
        position = self.world.summary.function.position
        self.goals.append(Goal("program", subject, "", position, self.path, claim))

    def run(self) -> None:
        """Outputs are the summary's results; views lie inside their arrays."""
        for node in filter(self.lifted.program.presumes, self.lifted.program.nodes):
            raise Malformed(f"types of the op '{node.op}' take it that open sizes are equal")
        by_name = {**self.lifted.written, **{name: [one] for name, one in self.lifted.returned.items()}}
        if sum(map(len, by_name.values())) != len(self.lifted.outputs):
            raise Malformed("the program returns more than the function does")
        results = {result.name: result for result in self.world.summary.results}
        if by_name.keys() != results.keys():
            raise Malformed("the program has other outputs than the function has results")
        for name, outputs in by_name.items():
            types = self.lifted.program.type
            if any(MachineType(types(output.name).dtype) != dtype_of(output.type) for output in outputs):
                raise Malformed(f"the output '{name}' does not have its type")
            if outputs[0].view is None:
                self._returned(outputs[0], results[name])
            else:
                self._written(outputs, results[name])
        self._views()

    def _products_fit(self) -> None:
        """What is summed over in a matrix product is as long in both operands, which types leave open."""
        for node in self.lifted.program.nodes:
            if node.op == "matmul":
                first, second = map(self.elements.shape, node.inputs)
                claim = self.world.arena.eq(first[-1], second[-2:][0])
                self.demand(f"the operands of {node.output}", claim)

    # Views

    def _views(self) -> None:
        """Every view lies inside its array wherever it is read, and is read where it is needed. Asked last:
        conditions are values that the summary computes too."""
        cases = needed(self.lifted.program)
        for given in self.lifted.inputs:
            if given.view is not None:
                self._inside(given.view, self._guard(given.when))
                if given.when:
                    self.path = (self._asked(cases[given.name]),)
                    self.demand(
                        f"a view of {given.view.array} read where it is needed", self._guard(given.when)
                    )
                    self.path = ()
        for view in dict.fromkeys(out.view for out in self.lifted.outputs if out.view is not None):
            self._inside(view, self.world.arena.true)
        conditional: tuple[Requirement | SizeSymbol, ...] = (*self.lifted.requires, *self.lifted.sizes)
        for stated in conditional:
            if stated.where or stated.when:
                claim = self.world.arena.eq(self._guard(stated.when), self.world.where(stated))
                about = (
                    f"{stated.symbol} is not 0"
                    if isinstance(stated, SizeSymbol)
                    else (f"{stated.array or 'it'} is required")
                )
                self.demand(f"where {about}", claim)
        self._products_fit()

    def _guard(self, name: str) -> ProofTerm:
        """A truth value of the program; "" always holds."""
        if not name:
            return self.world.arena.true
        if self.lifted.program.type(name).dims or self.lifted.program.type(name).dtype != "bool":
            raise Malformed(f"the guard '{name}' is no truth value")
        return self.elements.at(name, ())

    def _asked(self, cases: Cases) -> ProofTerm:
        """Whether one of the cases in which a value is needed holds."""
        arena = self.world.arena

        def holds(choice: Choice) -> ProofTerm:
            condition = self.elements.at(choice[0], ())
            return condition if choice[1] else arena.negate(condition)

        return arena.any(arena.all(map(holds, sorted(case))) for case in sorted(cases, key=sorted))

    def _inside(self, view: ArrayView, asked: ProofTerm) -> None:
        """At arbitrary indices in the box of a view."""
        world, arena = self.world, self.world.arena
        indices = world.subscripts(len(view.shape))
        box = arena.below(indices, [world.poly(extent, world.scope) for extent in view.shape])
        self.path = (*box, *(asked.args if asked.op in ("and", "true") else (asked,)))
        place, same = self.elements.place(view, indices)
        inside = self.memories[view.array].inside(world, place)
        self.demand(f"a view of {view.array} inside it", arena.all([same, inside]))
        self.path = ()

    # Outputs

    def _written(self, outputs: list[Output], result: Result) -> None:
        """After all outputs are put in place, the array is what the summary says it is."""
        world, arena = self.world, self.world.arena
        memory = self.memories[result.name]
        at = world.subscripts(memory.rank)
        claimed = claimed_content(world, lambda place: world.read(result.name, place), result.written)
        expected = select(world, claimed, at)
        found = world.read(result.name, at)
        for output in outputs:
            assert output.view is not None
            if output.whole and any(g.view and g.view.array == result.name for g in self.lifted.inputs):
                raise Malformed(f"'{result.name}' is read although it may be left out")
            hit, indices = self._solved(output.view, at)
            found = arena.ite(hit, self.elements.at(output.name, indices), found)
        self.path = tuple(memory.proper(world, at))
        self._equal(result.name, found, expected)

    def _equal(self, subject: str, found: ProofTerm, expected: ProofTerm) -> None:
        if found.sort != expected.sort:
            raise Malformed(f"the output '{subject}' does not have its type")
        self.path = (*self.path, *self._beyond((found, expected)))
        self.demand(subject, self.world.arena.eq(found, expected))
        self.path = ()

    def _beyond(self, sides: tuple[ProofTerm, ...]) -> Iterator[ProofTerm]:
        """Infinities are beyond the starts of maxima and minima."""
        arena, folds = self.world.arena, self.world.folds
        units = {self.elements.infinity(False): "max", self.elements.infinity(True): "min"}
        ordered = [f for f in folds.occurring(sides) if folds.bodies[f].prefix.kind in ("max", "min")]
        inner = [g for f in ordered for g in folds.occurring((folds.bodies[f].body,)) if g not in ordered]
        for unit, kind in units.items():
            for fold in dict.fromkeys((*ordered, *inner)):
                start = fold.args[-2]
                if folds.bodies[fold].prefix.kind == kind and start is not unit and start.sort == "Real":
                    yield arena.claim(start, unit) if kind == "max" else arena.claim(unit, start)

    def _solved(self, view: ArrayView, at: At) -> tuple[ProofTerm, At]:
        """Whether subscripts lie in a view, and the indices there."""
        world, arena = self.world, self.world.arena
        unknown = [arena.symbol(f"solved.{axis}", "Int") for axis in range(len(view.shape))]
        place, _ = self.elements.place(view, tuple(unknown))
        found: dict[ProofTerm, ProofTerm] = {}
        equations = list(zip(place, at))
        for _ in unknown:
            for equation in list(equations):
                digit = arena.substitute(equation[0], found)
                left = [(a, c) for a, c in monomials(digit) if any(u in a for u in unknown)]
                if len(left) == 1 and len(left[0][0]) == 1:
                    (((symbol,), step),) = left
                    rest = arena.sub(equation[1], arena.sub(digit, arena.scale(symbol, step)))
                    sign = 1 if step > 0 else -1
                    width = arena.number(step * sign, "Int")
                    found[symbol] = operators.quotient_of(arena, "fdiv", arena.scale(rest, sign), width)
                    if step * sign == 1:  # elsewhere it must lie on a step
                        equations.remove(equation)
        if len(found) != len(unknown):
            raise Malformed(f"where elements of '{view.array}' lie in a view is not clear")
        indices = tuple(found[symbol] for symbol in unknown)
        hit = [arena.eq(arena.substitute(digit, found), x) for digit, x in equations]
        for index, extent in zip(indices, view.shape):
            hit += [arena.ge(index, world.zero), arena.gt(world.poly(extent, world.scope), index)]
        return arena.all(hit), indices

    def _returned(self, output: Output, result: Result) -> None:
        world, arena = self.world, self.world.arena
        shape = self.elements.shape(output.name)
        stated = () if result.shape is None else result.shape
        if len(shape) != len(stated):
            raise Malformed("the returned value does not have its rank")
        for axis, (extent, poly) in enumerate(zip(shape, stated)):
            self.demand(f"axis {axis} of {result.name}", arena.eq(extent, world.poly(poly, world.scope)))
        at = world.subscripts(len(shape))
        self.path, known = tuple(arena.below(at, shape)), len(arena.known)
        arena.assume(*(arena.shift(arena.sub(extent, place), -1) for extent, place in zip(shape, at)))
        if result.shape is None:
            expected = world.term(result.written[0].value, world.scope)
        else:
            sort = sort_of(result.type)
            claimed = claimed_content(
                world, lambda _: arena.symbol(f"any.{result.name}", sort), result.written
            )
            expected = select(world, claimed, at)
        self._equal(result.name, self.elements.at(output.name, at), expected)
        arena.forget(known)
