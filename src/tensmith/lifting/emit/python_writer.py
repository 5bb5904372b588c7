"""Programs as Python statements: values used once go into the expression that uses them."""

from __future__ import annotations

import keyword
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tensmith.formula.arith import Array
from tensmith.formula.functions import JOINS
from tensmith.formula.poly import Poly
from tensmith.ir import Node, Program, TensorType
from tensmith.ir.names import take
from tensmith.lifting.emit.every import every_so_many
from tensmith.lifting.emit.expression import (
    AND,
    ARITHMETIC,
    NOT,
    OR,
    SIGN,
    ExpressionText,
    infix,
    prefix,
)
from tensmith.lifting.emit.python_names import FORBIDDEN
from tensmith.lifting.lifted import Input, Lifted
from tensmith.lifting.ranges import ranges

if TYPE_CHECKING:
    from tensmith.lifting.emit.python_frame import PythonEmitter

# Ops whose first operand alone is a value; the others are shapes, axes and fills that the text spells out.
ONE_VALUE = frozenset({
    "expand", "unsqueeze", "squeeze", "reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "pad", "slice",
    *(f"cum_{kind}" for kind in JOINS), "transpose", "size", "cast",
})  # fmt: skip
# Ops that give a view of their operand, or may.
VIEWS = frozenset({"identity", "unsqueeze", "transpose", "expand", "squeeze", "reshape", "slice"})
# Arithmetic on sizes stays in Python.
_SUMS = ("add", "sub", "mul", "neg")
ON_SIZES = {
    **{name: ARITHMETIC[name] for name in _SUMS},
    **{name: ARITHMETIC[name] for name in ("less", "less_or_equal", "greater", "greater_or_equal", "equal")},
    "and": infix("and", AND), "or": infix("or", OR), "not": prefix("not ", NOT),
}  # fmt: skip
_LONG = 72


class PythonWriter:
    """Statements so far, and the names of values; `names`: symbol of a polynomial -> Python name.

    reserved: names that the text needs for itself; public: local of a parameter -> its name for users.
    """

    def __init__(
        self, target: PythonEmitter, lifted: Lifted, program: Program, reserved: Collection[str]
    ) -> None:
        self.target, self.lifted, self.program, self.reserved = target, lifted, program, reserved
        self.lines: list[str] = []
        self.helpers: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.arrays: dict[str, str] = {}
        self.taken: set[str] = set()
        self.public: dict[str, str] = {}
        self.inputs: Mapping[str, Input] = {given.name: given for given in lifted.inputs}
        self.ranges = ranges(program)
        self.every = {
            node.output: every
            for node in program.nodes
            if (every := every_so_many(program, self.inputs, node)) is not None
            and not self.is_view(node.inputs[0])  # a result must not be part of a parameter
        }
        self.uses = self._uses()
        self.nonzero: set[str] = set()  # divisors with a guard
        self._texts: dict[str, ExpressionText] = {}
        self.function = lifted.function.name
        while self.function in reserved:
            self.function += "_"

    # Names and lines

    def name(self, base: str) -> str:
        """A Python name that nothing else has."""
        base = _plain(base)
        while base in self.reserved:
            base += "_"
        return take(base, self.taken)

    def parameter(self, name: str) -> str:
        """The local of a parameter, as users name it where the text has no other use for that."""
        local, public = self.name(name), _plain(name)
        while public in self.public.values():
            public += "_"
        self.public[local] = public
        return local

    def line(self, code: str) -> None:
        """Appends a statement."""
        self.lines.append(code)

    def helper(self, name: str) -> str:
        """The name of a function that the file then defines, after those it calls."""
        if name not in self.helpers:
            texts = self.target.helper_texts
            for other in texts:
                if other != name and f"{other}(" in texts[name]:
                    self.helper(other)
            self.helpers[name] = texts[name]
        return name

    def refuse_if(self, condition: str, requirement: str) -> None:
        """A guard."""
        message = f"{self.lifted.function.name} requires {requirement}".replace("\\", "/").replace('"', "'")
        self.line(f"if {condition}:")
        self.line(f'    raise ValueError("{message}")')

    # Values

    def type(self, value: str) -> TensorType:
        """The type of a value."""
        return self.program.type(value)

    def shape(self, value: str) -> tuple[Poly, ...]:
        """The shape of a value."""
        return tuple(map(Poly.of, self.type(value).dims))

    def constant(self, value: str) -> Array | None:
        """The array of a constant."""
        return self.program.constants.get(value)

    def producer(self, value: str) -> Node | None:
        """The node that defines a value."""
        return self.program.producers.get(value)

    def value(self, name: str) -> ExpressionText:
        """The expression of a value, a name where it is used more than once."""
        if name not in self._texts:
            self._texts[name] = self._value(name)
        return self._texts[name]

    def assigned(self, name: str) -> ExpressionText:
        """The value under a name of its own."""
        text = self.value(name)
        if not text.code.isidentifier() and self.constant(name) is None:
            text = self._assign(name, text)
            self._texts[name] = text
        return text

    def is_view(self, name: str) -> bool:
        """Whether a value may share memory with a parameter."""
        node = self.producer(name)
        if node is None:
            return name in self.inputs and self.inputs[name].view is not None
        if node.op == "where":  # of one condition for all positions
            return not self.shape(node.inputs[0]) and any(map(self.is_view, node.inputs[1:]))
        return node.op in VIEWS and self.is_view(node.inputs[0])

    def _value(self, name: str) -> ExpressionText:
        array = self.constant(name)
        if array is not None:
            return self.target.constant(array)
        node = self.producer(name)
        text = self.target.input(self, self.inputs[name]) if node is None else self._node(node)
        simple = text.code.isidentifier() or text.literal
        long = len(text.code) > _LONG and (node is None or node.op != "cast")  # sums read what is cast
        if not simple and (self.uses[name] > 1 or long):
            return self._assign(name, text)
        return text

    def _node(self, node: Node) -> ExpressionText:
        if node.op == "where" and self._alike(node) and self._plain(node.inputs[0]) is not None:
            sides = [self.value(name) for name in node.inputs[1:]]
            return self.chosen(node, self.condition(node.inputs[0]), sides)
        names = self._values_of(node)
        operands = [self.value(name) for name in names]
        if all(operand.literal for operand in operands) and node.op not in ("cast", "expand", "size"):
            if node.op in ON_SIZES and all(self.type(name).dtype in ("i64", "bool") for name in names):
                return replace(ON_SIZES[node.op](self, node, operands), literal=True)
            first = self.target.typed(operands[0], self.type(names[0]).dtype)
            operands = [first, *operands[1:]]
        if node.op == "where" and operands[0].literal and self._alike(node):
            return self.chosen(node, operands[0].code, operands[1:])
        return self.target.rule(node.op)(self, node, operands)

    def _values_of(self, node: Node) -> tuple[str, ...]:
        """The inputs that are values; the others the text spells out."""
        return node.inputs[:1] if node.op in ONE_VALUE or node.output in self.every else node.inputs

    def _uses(self) -> Counter[str]:
        """How often each value is read as a value."""
        found: Counter[str] = Counter(self.program.outputs)
        for node in reversed(self.program.nodes):
            if found[node.output]:
                found.update(self._values_of(node))
        return found

    def typed(self, text: ExpressionText, dtype: str) -> ExpressionText:
        """An operand where a plain number would not take the element type of what it meets."""
        return self.target.typed(text, dtype) if text.literal else text

    def chosen(self, node: Node, condition: str, sides: Sequence[ExpressionText]) -> ExpressionText:
        """One of two values, where a condition decides for all positions."""
        a, b = (self.typed(side, self.type(node.output).dtype) for side in sides)
        return ExpressionText(f"({a.code} if {condition} else {b.code})")

    def _alike(self, node: Node) -> bool:
        """Whether both branches of a selection have its shape."""
        return all(self.shape(name) == self.shape(node.output) for name in node.inputs[1:])

    def _assign(self, name: str, text: ExpressionText) -> ExpressionText:
        given = self.inputs.get(name)
        base = given.view.array if given is not None and given.view is not None else "t"
        local = self.name(base)
        self.line(f"{local} = {text.code}")
        return ExpressionText(local)

    # Guards

    def condition(self, name: str) -> str:
        """A truth value of the program, for an `if`: of plain numbers where scalars alone decide."""
        plain = self._plain(name)
        return plain.code if plain is not None else self.target.holds(self, self.value(name))

    def _plain(self, name: str) -> ExpressionText | None:
        """A value over integer parameters as Python computes it; None where it takes more."""
        array, node, dtype = self.constant(name), self.producer(name), self.type(name).dtype
        if array is not None:
            return literal(array) if array.ndim == 0 else None
        if node is None:
            scalar = self.inputs[name].scalar
            return ExpressionText(self.arrays[scalar]) if scalar is not None and dtype[0] in "iu" else None
        whole = node.op == "cast" and dtype[0] in "iu" and self.type(node.inputs[0]).dtype[0] in "iu"
        if whole and self.ranges[node.inputs[0]].inside(self.ranges[name]):
            return self._plain(node.inputs[0])
        if node.op not in ON_SIZES or (node.op in _SUMS and dtype not in ("i32", "i64")):
            return None
        operands = [self._plain(operand) for operand in node.inputs]
        if any(operand is None for operand in operands):
            return None
        return ON_SIZES[node.op](self, node, [operand for operand in operands if operand is not None])


def _plain(name: str) -> str:
    """A name as Python may spell it, and reads it: C's `in` as in_, ligatures as the letters they are."""
    name = unicodedata.normalize("NFKC", name)
    name = "".join(c if f"_{c}".isidentifier() else "_" for c in name) or "x"
    return f"{name}_" if keyword.iskeyword(name) or name in FORBIDDEN else name


def literal(array: Array) -> ExpressionText:
    """A 0-d constant as a Python number."""
    number = array.item()
    if isinstance(number, float) and number not in (float("inf"), float("-inf")) and number == number:
        code = str(array.dtype.type(number))  # the shortest digits that give this value in its type
    elif isinstance(number, float):
        code = f'float("{number}")'
    else:
        code = repr(number)
    return ExpressionText(code, SIGN if code.startswith("-") else ExpressionText(code).level, literal=True)
