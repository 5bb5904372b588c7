"""A function's expression trees: what each variable and array is given, over loop counters and parameters.

Nothing is solved here: a local variable stays the name "v#n", any of its first n definitions. Counters are
those of the loops; subscripts and sizes are polynomials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tensmith.formula.expr import Call, Expr, Num, Read, Size
from tensmith.formula.poly import Poly
from tensmith.formula.types import MachineType
from tensmith.lifting import loops
from tensmith.lifting.summarize.constants import number
from tensmith.lifting.summary import Summary, Term, length_symbol

_POLYNOMIAL = {"add": Poly.__add__, "sub": Poly.__sub__, "mul": Poly.__mul__}


@dataclass(frozen=True)
class TreeDefinition:
    """A value given to a variable or to elements of an array, and the labels of the loops around it."""

    term: Term
    labels: tuple[str, ...]


@dataclass
class Trees:
    """The trees of one function; `skeleton` gives the counters' closed forms and the sizes. result: the name
    under which the output is defined."""

    skeleton: Summary
    definitions: dict[str, list[TreeDefinition]] = field(default_factory=dict)
    result: str = ""

    def __post_init__(self) -> None:
        function = self.skeleton.function
        self.result = self.skeleton.results[0].name
        self.loops = {facts.label: facts for facts in self.skeleton.loops}
        self.sizes: dict[str, Poly] = {}
        for size in self.skeleton.sizes:
            for name in size.poly.symbols():
                if size.poly.coefficient(name) == 1:
                    self.sizes.setdefault(name, Poly.symbol(size.symbol) - size.poly + Poly.symbol(name))
        inside = loops.statements(function)
        given = [s.name for s in inside if isinstance(s, (loops.Declare, loops.Assign))]
        self.once = {name for name in given if given.count(name) == 1}
        self.known: dict[str, Term] = {
            name: Size(self.sizes[name], type_) if name in self.sizes else Read(name, (), type_)
            for name, type_ in function.fields
            if isinstance(type_, MachineType)
        }
        self._block(function.body, ())

    # Statements

    def _block(self, body: Sequence[loops.Statement], labels: tuple[str, ...]) -> None:
        for statement in body:
            match statement:
                case loops.Declare(name, _, value) | loops.Assign(name, value) if value is not None:
                    self._assign(name, self.term(value), labels)
                case loops.Store(name, _, value):
                    self._define(name, self.term(value), labels)
                case loops.Append(name, value):
                    self._define(name, self._held(value), labels)
                case loops.If(condition, then, otherwise):
                    self._branch(self.term(condition), then, otherwise, labels)
                case loops.Loop(_, inner, label):
                    around = dict(self.known)
                    closed = self.loops[label].scalars
                    self.known.update({n: term for n, term in closed.items() if isinstance(term, Size)})
                    self._block(inner, (*labels, label))
                    self.known = around
                case loops.Return(str() as name):
                    self.result = name
                case loops.Return(value):
                    self._define("return", self._held(value), labels)

    def _assign(self, name: str, term: Term, labels: tuple[str, ...]) -> None:
        if name in self.once and isinstance(term, (Size, Num)):
            self.known[name] = term
        elif name not in self.known:
            self._define(name, term, labels)

    def _define(self, name: str, term: Term, labels: tuple[str, ...]) -> None:
        self.definitions.setdefault(name, []).append(TreeDefinition(term, labels))

    def _branch(
        self,
        condition: Term,
        then: Sequence[loops.Statement],
        otherwise: Sequence[loops.Statement],
        labels: tuple[str, ...],
    ) -> None:
        """Both branches' definitions, and the choice between the last of each."""
        marks = {name: len(found) for name, found in self.definitions.items()}
        ends: list[dict[str, Term]] = []
        for body in (then, otherwise):
            before = {name: len(found) for name, found in self.definitions.items()}
            self._block(body, labels)
            new = {
                name: found[-1].term
                for name, found in self.definitions.items()
                if len(found) > before.get(name, 0)
            }
            ends.append(new)
        for name in dict.fromkeys([*ends[0], *ends[1]]):
            type_ = (ends[0].get(name) or ends[1][name]).type
            old = Read(f"{name}#{marks.get(name, 0)}", (), type_)
            a, b = (end.get(name, old) for end in ends)
            self._define(name, Call("where", (condition, a, b), type_), labels)

    # Expressions

    def _held(self, value: Expr | str) -> Term:
        """A value, or the elements of a local array."""
        return (
            self._local(value, self.skeleton.results[0].type) if isinstance(value, str) else self.term(value)
        )

    def _local(self, name: str, type_: MachineType) -> Term:
        return Read(f"{name}#{len(self.definitions.get(name, ()))}", (), type_)

    def term(self, expression: Expr) -> Term:
        """An expression as it stands."""
        match expression:
            case Num(value, type_):
                return number(value, type_)
            case Read(name, _, type_):
                return self.known.get(name) or self._local(name, type_)
            case loops.Load(array, indices, type_):
                at = tuple(map(self.position, indices))
                known = tuple(poly for poly in at if poly is not None)
                if array in self.definitions or len(known) < len(at):
                    return self._local(array, type_)
                return Read(array, known, type_)
            case loops.Length(array, axis, type_):
                symbol = length_symbol(array, axis)
                return Size(self.sizes.get(symbol) or Poly.symbol(symbol), type_)
            case Call("cast", (value,), type_):
                term = self.term(value)
                if isinstance(term, Size) and type_.kind == "int":
                    return Size(term.poly, type_)
                return Call("cast", (term,), type_)
            case Call(operator, arguments, type_):
                return Call(operator, tuple(map(self.term, arguments)), type_)
        raise TypeError(f"not an expression: {expression!r}")

    def position(self, expression: Expr) -> Poly | None:
        """A subscript as a polynomial."""
        return _poly(self.term(expression))


def _poly(term: Term) -> Poly | None:
    match term:
        case Size(poly):
            return poly
        case Num(value, MachineType("int")):
            return Poly.of(int(value))
        case Read(name, (), MachineType("int")) if "#" not in name:
            return Poly.symbol(name)
        case Call("cast", (inner,), MachineType("int")):
            return _poly(inner)
        case Call(("add" | "sub" | "mul") as operator, (left, right)):
            a, b = _poly(left), _poly(right)
            return None if a is None or b is None else _POLYNOMIAL[operator](a, b)
    return None
