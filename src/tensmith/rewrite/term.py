"""Patterns: one term language read three ways, to match a program, to build nodes, and to write formulas.

    x, w, b = Var("x"), Var("w", static=True), Var("b", optional=True)
    ops.conv(x, w, b, attrs="conv") * 2

as a left side matches a conv whose weights come from constants, with or without a bias, times a constant
that is 2 everywhere, and captures the conv's attributes under the name "conv"; on a right side `attrs="conv"`
gives them back. What of a right side depends on shapes and attributes is `Later`, which `resolve` asks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, Union

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array, Floats
from tensmith.formula.evaluate import evaluate
from tensmith.formula.expr import Call, Expr, Formula, Scalar, call, compute, guard
from tensmith.formula.poly import Dim, Poly
from tensmith.ir.op import OPS, Attrs, Node, Symbolic
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.ir.ops.shared import broadcast_read, broadcast_shapes
from tensmith.ir.program import Program, make_node
from tensmith.ir.types import TensorType
from tensmith.rewrite.values import freeze, uniform

Term: TypeAlias = Union["Var", "Const", "Number", "ConstantTable", "Use", "Later", "AnyElementwise", None]


def _operator(op: str, turned: bool = False) -> Callable[[Any, Any], Use]:
    return lambda one, other: _use(op, other, one) if turned else _use(op, one, other)


class Algebra:
    """Operators on terms: `x * w + 1` is a Use of add."""

    __add__, __radd__ = _operator("add"), _operator("add", turned=True)
    __sub__, __rsub__ = _operator("sub"), _operator("sub", turned=True)
    __mul__, __rmul__ = _operator("mul"), _operator("mul", turned=True)
    __truediv__, __rtruediv__ = _operator("div"), _operator("div", turned=True)
    __pow__, __matmul__ = _operator("pow"), _operator("matmul")

    def __neg__(self) -> Use:
        return _use("neg", self)


def _use(op: str, *args: Any) -> Use:
    return Use(op, tuple(map(_as_term, args)))


@dataclass(frozen=True)
class Var(Algebra):
    """Any value; `static`: computed from constants alone; `optional`: an input that may be omitted."""

    name: str
    static: bool = False
    optional: bool = False


@dataclass(frozen=True, eq=False)
class Const:
    """A constant that a right side brings along."""

    value: Array


@dataclass(frozen=True)
class Number(Algebra):
    """One number: on a left side a constant of any shape, on a right one a scalar in its neighbour's type."""

    value: float


@dataclass(frozen=True, eq=False)
class Later(Algebra):
    """A part of a right side that depends on shapes and attributes. `text` is how rules show it."""

    make: Callable[[Match | Case], Term]
    text: str


@dataclass(frozen=True, eq=False)
class ConstantTable:
    """A constant given by its index formula, in the element type of a variable."""

    shape: tuple[Dim, ...]
    element: Callable[..., Scalar]
    like: Var

    def array(self, dtype: np.dtype[Any]) -> Array:
        """The constant, where the shape is static."""
        return evaluate(compute(self.shape, self.element), {}, {}, Floats()).astype(dtype)


@dataclass(frozen=True, eq=False)
class Use(Algebra):
    """A use of an op. `attrs`: a name to capture them under (on a right side: captured ones), or values."""

    op: str
    args: tuple[Term, ...]
    attrs: str | Attrs | None = None


@dataclass(frozen=True, eq=False)
class AnyElementwise(Algebra):
    """Any function of one element each of some tensors, which broadcast: what is proved of it holds of every
    elementwise op. A pattern captures under the name what it matches, and a right side gives it back."""

    function: str
    args: tuple[Term, ...]


class _Ops:
    """`ops.conv(x, w)` is a Use of the op conv."""

    def __getattr__(self, name: str) -> Callable[..., Use]:
        def use(*args: Term | Array | float, attrs: str | Attrs | None = None) -> Use:
            return Use(name, tuple(map(_as_term, args)), attrs)

        return use


ops = _Ops()


def _as_term(arg: Any) -> Term:
    if arg is None or isinstance(arg, (Var, Const, Number, ConstantTable, Use, Later, AnyElementwise)):
        return arg
    return Number(arg) if isinstance(arg, (int, float)) else Const(np.asarray(arg))


@dataclass
class Match:
    """What a left side matched: values by variable name, captured attributes, and the nodes to replace."""

    program: Program
    values: dict[str, str] = field(default_factory=dict)
    attrs: dict[str, Attrs] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    functions: dict[str, Node] = field(default_factory=dict)

    def has(self, var: Var) -> bool:
        """Whether an optional variable is there."""
        return bool(self.values.get(var.name))

    def type(self, var: Var) -> TensorType:
        """The type of a matched value."""
        return self.program.type(self.values[var.name])

    def shape(self, var: Var) -> tuple[Dim, ...]:
        """The shape of a matched value (its rank must be known)."""
        return self.type(var).dims

    def value(self, var: Var) -> Array | None:
        """The value if it is known before running: a constant, or shape arithmetic. None if omitted too."""
        name = self.values.get(var.name)
        if not name:
            return None
        return self.program.constants.get(name, self.program.facts[name].value)

    def number(self, value: float, like: Var) -> Const:
        """A scalar constant in the element type of a variable."""
        return Const(np.asarray(value, dtype=self.type(like).numpy))


# What is still to be matched: parts of a pattern, each against a value.
_Pending: TypeAlias = tuple[tuple[Term, str], ...]


def match(term: Term, program: Program, value: str) -> Match | str:
    """The match of `term` rooted at `value`, or why there is none."""
    if not isinstance(term, Use | AnyElementwise):
        return ""
    state = Match(program)
    reason = _match(((term, value),), state)
    return state if reason is None else reason


def _read_twice(state: Match) -> str | None:
    """Why a match cannot be replaced: a node of it is read by another of it in a second way."""
    inner = {name for node in state.nodes[1:] for name in node.outputs}
    twice = next((name for name in state.values.values() if name in inner), None)
    return None if twice is None else f"'{twice}' is read twice"


def _could_be(term: Use | AnyElementwise, node: Node) -> bool:
    """Whether a node is of the op of a term, or of any elementwise one of as many inputs."""
    if isinstance(term, Use):
        return node.op == term.op
    return node.kind(Elementwise) is not None and len(node.inputs) == len(term.args) and all(node.inputs)


def _orders(term: Use | AnyElementwise, node: Node) -> Iterator[tuple[str, ...]]:
    yield node.inputs
    if len(node.inputs) == 2 and node.traits.commutative:
        yield node.inputs[::-1]


def _match(pending: _Pending, state: Match) -> str | None:
    """None on success, else why not ("" where the program is nothing like the pattern).

    Operands that an op takes in any order are tried in both, with all that is still to be matched.
    """
    if not pending:
        return _read_twice(state)
    (term, name), *rest = pending
    if not isinstance(term, Use | AnyElementwise):
        reason = _match_leaf(term, name, state)
        return _match(tuple(rest), state) if reason is None else reason
    node = state.program.producers.get(name)
    if node is None or not _could_be(term, node):
        return ""
    reason = _refused(term, node, state)
    if reason is not None:
        return reason
    found = ""
    for inputs in _orders(term, node):
        before = dict(state.values), dict(state.attrs), list(state.nodes), dict(state.functions)
        _note(term, node, state)
        reason = _match((*zip(term.args, inputs + ("",) * (len(term.args) - len(inputs))), *rest), state)
        if reason is None:
            return None
        found = found or reason
        state.values, state.attrs, state.nodes, state.functions = before
    return found


def _refused(term: Use | AnyElementwise, node: Node, state: Match) -> str | None:
    """Why a node cannot be the one of a use, whatever its operands are."""
    if state.nodes:  # it is not the root: nobody else may read it
        if state.program.uses(node.output) > 1:
            return f"'{node.output}' ({node.op}) is also used elsewhere"
        if any(name in state.program.outputs for name in node.outputs):
            return f"'{node.output}' ({node.op}) is an output of the program"
    if any(node.outputs[1:]):
        return f"'{node.output}' ({node.op}) has further outputs"
    if isinstance(term, AnyElementwise):
        before = state.functions.get(term.function, node)
        if (before.op, freeze(before.attrs)) != (node.op, freeze(node.attrs)):
            return f"{node.op} is another function than {before.op}"
    elif term.attrs is not None and not isinstance(term.attrs, str):
        for name, wanted in term.attrs.items():
            if node.attrs.get(name) != wanted:
                return f"{node.op} has {name}={node.attrs.get(name)}, not {wanted}"
    if any(node.inputs[len(term.args) :]):
        return f"{node.op} has more inputs than the rule knows"
    return None


def _note(term: Use | AnyElementwise, node: Node, state: Match) -> None:
    """Writes down the node of a use."""
    state.nodes.append(node)
    if isinstance(term, AnyElementwise):
        state.functions.setdefault(term.function, node)
    elif isinstance(term.attrs, str):
        state.attrs[term.attrs] = node.attrs


def _match_leaf(arg: Term, name: str, state: Match) -> str | None:
    """As _match, of a part of a pattern that is no use of an op."""
    match arg:
        case None:
            return "" if name else None
        case Var():
            if not name and not arg.optional:
                return ""
            if name and arg.static and name not in state.program.static_values:
                return f"'{name}' is not computed from constants alone"
            return None if state.values.setdefault(arg.name, name) == name else ""
        case Const(value):
            known = state.program.constants.get(name)
            same = known is not None and known.shape == value.shape and bool(np.all(known == value))
            return None if same else ""
        case Number(value):
            return None if uniform(state.program, name) == value else ""
        case ConstantTable() | Later():
            return ""
    raise TypeError(f"not a term: {arg!r}")


def build(term: Term, found: Match, outputs: Sequence[str]) -> tuple[list[Node], dict[str, Array], str]:
    """(nodes, constants, root value) of a right side; the root node takes the names in `outputs`.

    Equal subterms (the same object) become one node. A new node keeps the name of a replaced one of its op.
    """
    nodes: list[Node] = []
    labels = {node.op: node.name for node in reversed(found.nodes)}
    constants: dict[str, Array] = {}
    names = found.program.fresh(outputs[0])
    done: dict[int, str] = {}

    def emit(part: Term, wanted: Sequence[str] | None) -> str:
        if part is None:
            return ""
        if isinstance(part, Var):
            return found.values.get(part.name, "")
        if id(part) in done:
            return done[id(part)]
        name = wanted[0] if wanted else next(names)
        if isinstance(part, Const):
            constants[name] = part.value
        elif isinstance(part, ConstantTable):
            constants[name] = part.array(found.type(part.like).numpy)
        elif isinstance(part, AnyElementwise):
            function = found.functions[part.function]
            inputs = [emit(arg, None) for arg in part.args]
            nodes.append(make_node(function.op, inputs, wanted or (name,), function.attrs))
        elif not isinstance(part, Use):
            raise ProgramError(f"a right side holds {part!r} outside of an op; rules are resolved first")
        else:
            dtype = _dtype_beside(part, found)
            inputs = []
            for arg in part.args:
                if isinstance(arg, Number):
                    inputs.append(next(names))
                    constants[inputs[-1]] = np.asarray(arg.value, dtype)
                else:
                    inputs.append(emit(arg, None))
            while inputs and not inputs[-1]:
                inputs.pop()
            if isinstance(part.attrs, str):
                raise ProgramError(f"right side of a rule captures attributes of {part.op}")
            made = make_node(part.op, inputs, wanted or (name,), part.attrs)
            nodes.append(replace(made, name=labels.pop(part.op, "")))
        done[id(part)] = name
        return name

    root = emit(term, outputs if isinstance(term, Use | AnyElementwise) else None)
    return nodes, constants, root


def _dtype_beside(part: Use, found: Match) -> np.dtype[Any] | None:
    """The element type of the first variable in a use: what its numbers are written in."""
    stack: list[Term] = [*reversed(part.args)]
    while stack:
        term = stack.pop()
        if isinstance(term, Var) and found.has(term):
            return found.type(term).numpy
        if isinstance(term, Use):
            stack.extend(reversed(term.args))
    return None


def resolve(term: Term, m: Match | Case) -> Term:
    """A right side with nothing left for later, captured attributes in place, and absent inputs gone.

    What is absent counts as zero where it is added, and stays absent where it is multiplied: a bias.
    """
    done: dict[int, tuple[Term, Term]] = {}  # the part itself is kept, so that no other takes its id

    def settle(part: Term) -> Term:
        if id(part) not in done:
            done[id(part)] = part, _settled(part)
        return done[id(part)][1]

    def _settled(part: Term) -> Term:
        if isinstance(part, Var):
            return part if not part.optional or m.has(part) else None
        if isinstance(part, Later):
            return settle(part.make(m))
        if isinstance(part, AnyElementwise):
            return AnyElementwise(part.function, tuple(map(settle, part.args)))
        if not isinstance(part, Use):
            return part
        args = tuple(map(settle, part.args))
        without = _WITHOUT.get(part.op)
        if without is not None and None in args:
            return without(*args)
        attrs = m.attrs[part.attrs] if isinstance(part.attrs, str) else part.attrs
        return Use(part.op, args, attrs)

    return settle(term)


# Sums and products with an operand that may be absent, which None stands for.
_WITHOUT: Mapping[str, Callable[[Any, Any], Term]] = {
    "add": lambda a, b: b if a is None else a,
    "sub": lambda a, b: a if b is None else ops.neg(b),
    "mul": lambda a, b: None,
    "div": lambda a, b: None,
}


def show(term: Term) -> str:
    """A term as a line of algebra: x * (w + 1)."""
    return _shown(term)[0]


_SIGNS = {
    "add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "div": ("/", 2), "matmul": ("@", 2), "pow": ("**", 3),
}  # fmt: skip


def _shown(term: Term) -> tuple[str, int]:
    """The text, and how tightly its outermost operator binds."""
    match term:
        case None:
            return "", 9
        case Var(name):
            return name, 9
        case Number(value):
            return f"{value:g}", 9
        case Later(text=text):
            return text, 9
        case Const(value):
            return str(value.tolist()), 9
        case ConstantTable():
            return "table", 9
        case Use("neg", (arg,)):
            text, level = _shown(arg)
            return f"-{text if level > 2 else f'({text})'}", 2
        case Use(op, (left, right)) if op in _SIGNS:
            sign, level = _SIGNS[op]
            (a, tight), (b, tighter) = _shown(left), _shown(right)
            a = a if tight >= level else f"({a})"
            b = b if tighter > level else f"({b})"
            return f"{a} {sign} {b}", level
        case Use(op, args) | AnyElementwise(op, args):
            return f"{op}({', '.join(_shown(arg)[0] for arg in args if arg is not None)})", 9
    raise TypeError(f"not a term: {term!r}")


@dataclass(frozen=True)
class Case:
    """A symbolic instance of a pattern: formulas of its variables and attributes of its captures.

    `values` are known before running; `dtypes` are element types other than f32, which formulas do not know
    but programs made of the case have (rewrite.instance).
    """

    name: str
    tensors: Mapping[str, Formula]
    attrs: Mapping[str, Attrs] = field(default_factory=dict)
    values: Mapping[str, Array] = field(default_factory=dict)
    lower: Mapping[str, int] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)

    def has(self, var: Var) -> bool:
        """Whether an optional variable is there."""
        return var.name in self.tensors

    def shape(self, var: Var) -> tuple[Dim, ...]:
        """The symbolic shape of a variable."""
        return self.tensors[var.name].shape

    def value(self, var: Var) -> Array | None:
        """The known value of a variable, where the case fixes one."""
        return self.values.get(var.name)

    def number(self, value: float, like: Var) -> Const:
        """A scalar constant."""
        return Const(np.asarray(value))


def formula(term: Term, case: Case) -> Formula:
    """The formula of a term in a symbolic instance."""
    done: dict[int, Formula] = {}

    def read(part: Term) -> Formula | None:
        match part:
            case None:
                return None
            case Var(name):
                return case.tensors.get(name)
            case Const(value):
                return constant(value)
            case Number(value):
                return compute((), lambda *_: value)
            case Later():
                return read(resolve(part, case))
            case AnyElementwise(function, args):
                tensors = [found for arg in args if (found := read(arg)) is not None]
                shape = broadcast_shapes(*(tensor.shape for tensor in tensors))
                return compute(shape, lambda *at: call(function, *(broadcast_read(t, at) for t in tensors)))
            case ConstantTable(shape, element):
                return compute(shape, element)
            case Use(op, args, attrs):
                if id(part) not in done:
                    given = case.attrs[attrs] if isinstance(attrs, str) else (attrs or {})
                    use = Symbolic(
                        {**OPS[op].attributes, **given},
                        tuple(read(arg) for arg in args),
                        tuple(_known(arg, case) for arg in args),
                        dtypes=tuple(case.dtypes.get(a.name) if isinstance(a, Var) else None for a in args),
                    )
                    done[id(part)] = OPS[op].formula(use)[0]
                return done[id(part)]
        raise TypeError(f"not a term: {part!r}")

    result = read(term)
    if result is None:
        raise ProgramError("a pattern cannot be an omitted input")
    return result


def _known(arg: Term, case: Case) -> Array | None:
    if isinstance(arg, (Const, Number)):
        return np.asarray(arg.value)
    return case.values.get(arg.name) if isinstance(arg, Var) else None


# A constant of more different numbers is a Table, or an input.
_MOST_ELEMENTS = 64


def constant(value: Array) -> Formula:
    """A constant at its exact values (numbers, truth values, symbolic sizes): one case an element.

    ProgramError for what is no real number, and for what is too large to be told apart by cases.
    """
    flat = value.reshape(-1).tolist()
    if any(isinstance(item, float) and not math.isfinite(item) for item in flat):
        raise ProgramError("a constant of a rule is infinite or no number; its formula is over the reals")
    if len(set(flat)) <= 1:
        return compute(value.shape, lambda *_: flat[0] if flat else 0)
    if len(flat) > _MOST_ELEMENTS:
        raise ProgramError(
            f"a constant of a rule has {len(flat)} different elements; give it as a Table, by its formula"
        )
    cells = list(zip(np.ndindex(value.shape), flat))

    def element(*at: Poly) -> Expr:
        here = (([p for i, n in zip(at, cell) for p in (i - n, n - i)], item) for cell, item in cells)
        return Call("add", tuple(guard(conditions, item) for conditions, item in here))

    return compute(value.shape, element)
