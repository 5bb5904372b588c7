"""The element of every value of a program at subscripts, in any algebra.

What an op does is its own business: it says so in `Op.element`, or its formula does. An algebra says what
numbers (`V`) and subscripts (`I`) are: C to be printed, terms to be proved.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from tensmith.errors import ProgramError
from tensmith.formula.expr import Formula, tensor
from tensmith.formula.poly import Dim, Poly
from tensmith.formula.types import MachineType
from tensmith.ir.op import Node, Symbolic
from tensmith.ir.program import Program
from tensmith.ir.types import Shape

V = TypeVar("V")
I = TypeVar("I")  # noqa: E741 - the subscript of mathematics


class Elements(ABC, Generic[V, I]):
    """The elements of a program's values. What conditions are is the algebra's business too."""

    program: Program
    zero: I
    # Whether numbers have element types here, so that no formula reads one type and gives another.
    typed: ClassVar[bool] = True

    # Leaves and numbers

    @abstractmethod
    def at(self, value: str, indices: Sequence[I]) -> V:
        """The element of a value."""

    @abstractmethod
    def literal(self, value: bool | int | float, dtype: MachineType) -> V:
        """A number of an element type."""

    @abstractmethod
    def size(self, size: Dim, dtype: MachineType) -> V:
        """A size as a number."""

    @abstractmethod
    def apply(self, function: str, args: tuple[V, ...], node: Node) -> V:
        """A scalar function (`formula.functions`) of a node's operands, or of two of many."""

    @abstractmethod
    def cast(self, x: V, node: Node) -> V:
        """A node's first operand in the element type of its output."""

    @abstractmethod
    def choose(
        self, conditions: Sequence[Any], then: Callable[[], V], otherwise: Callable[[], V], dtype: MachineType
    ) -> V:
        """`then` where all conditions hold, else `otherwise`; what is not chosen may be undefined."""

    @abstractmethod
    def pick(self, node: Node, index: V, size: Dim, read: Callable[[I], V]) -> V:
        """What is read at a computed subscript, a node's second input; a negative one is from the back."""

    @abstractmethod
    def fold(self, kind: str, count: I, element: Callable[[I], V], node: Node) -> V:
        """The sum, product, maximum or minimum of the elements at 0 .. count-1, or of none."""

    @abstractmethod
    def read_formula(self, formula: Formula, indices: Sequence[I], node: Node) -> V:
        """The element of a formula over the node's operands, all of the type of its output."""

    @abstractmethod
    def refuse(self, node: Node, reason: str) -> Exception:
        """What to raise where a node has no element here."""

    def knows(self, function: str) -> bool:
        """Whether there is such a scalar function here; else the formula of its op is read."""
        return True

    # Subscripts

    @abstractmethod
    def index(self, size: Dim) -> I:
        """A size as a subscript."""

    @abstractmethod
    def plus(self, a: I, b: I) -> I:
        """a + b."""

    @abstractmethod
    def minus(self, a: I, b: I) -> I:
        """a - b."""

    @abstractmethod
    def fixed(self, index: I) -> int | None:
        """The number that a subscript is, if it is one."""

    @abstractmethod
    def below(self, index: I, bound: I) -> Any:
        """The condition index < bound."""

    @abstractmethod
    def reaches(self, index: I, bound: I) -> Any:
        """The condition index >= bound."""

    # What all algebras share

    def dtype(self, value: str) -> MachineType:
        """The element type of a value."""
        return MachineType(self.program.type(value).dtype)

    def dims(self, value: str) -> Shape:
        """The sizes of a value."""
        return self.program.type(value).dims

    def operands(self, node: Node, indices: Sequence[I]) -> tuple[V, ...]:
        """The operands of a node, broadcast."""
        return tuple(self.broadcast(name, indices) for name in node.inputs if name)

    def broadcast(self, name: str, indices: Sequence[I]) -> V:
        """The element of a value under the subscripts of what it broadcasts to."""
        dims = self.dims(name)
        tail = indices[len(indices) - len(dims) :]
        return self.at(name, [self.zero if size == 1 else i for size, i in zip(dims, tail)])

    def element(self, value: str, indices: tuple[I, ...]) -> V:
        """The element of a computed value, as its op declares it."""
        node = self.program.producers[value]
        if node.opaque is not None:
            raise self.refuse(node, "it has no formula")
        first = node.outputs[0] == value
        found: V | None = node.definition.element(self, node, indices) if first else None
        return self._by_formula(node, value, indices) if found is None else found

    def _by_formula(self, node: Node, value: str, indices: tuple[I, ...]) -> V:
        facts, dtype = self.program.facts, self.dtype(value)
        known = tuple(facts[name].value if name else None for name in node.inputs)
        for name, constant in zip(node.inputs, known):
            if self.typed and name and constant is None and self.dtype(name) != dtype:
                raise self.refuse(node, f"it takes {self.dtype(name)} and gives {dtype}")
        tensors = tuple(tensor(name, *self.dims(name)) if name else None for name in node.inputs)
        try:
            dtypes = tuple(self.dtype(name) if name else None for name in node.inputs)
            use = Symbolic(node.attrs, tensors, known, len(node.outputs), dtypes)
            found = node.definition.formula(use)
        except ProgramError as error:
            raise self.refuse(node, str(error)) from error
        place = node.outputs.index(value)
        if place >= len(found):
            raise self.refuse(node, f"its output '{value}' has no formula")
        return self.read_formula(found[place], indices, node)


class PolyElements(Elements[V, Poly]):
    """Elements at subscripts that are polynomials; a condition is one that is >= 0."""

    zero = Poly.of(0)

    def index(self, size: Dim) -> Poly:
        """See Elements."""
        return Poly.of(size)

    def plus(self, a: Poly, b: Poly) -> Poly:
        """See Elements."""
        return a + b

    def minus(self, a: Poly, b: Poly) -> Poly:
        """See Elements."""
        return a - b

    def fixed(self, index: Poly) -> int | None:
        """See Elements."""
        return index.constant

    def below(self, index: Poly, bound: Poly) -> Poly:
        """See Elements."""
        return bound - 1 - index

    def reaches(self, index: Poly, bound: Poly) -> Poly:
        """See Elements."""
        return index - bound
