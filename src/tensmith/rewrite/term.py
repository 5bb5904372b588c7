"""Patterns: one term language read three ways, to match a program, to build nodes, and to write formulas.

    x, w, b = Var("x"), Var("w", static=True), Var("b", optional=True)
    ops.conv(x, w, b, attrs="conv")

as a left side matches a conv whose weights come from constants, with or without a bias, and captures its
attributes under the name "conv"; as a right side, `attrs=m.attrs["conv"]` gives them back.
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
from tensmith.formula.expr import Add, Expr, Formula, Scalar, compute, guard
from tensmith.formula.poly import Dim, Poly
from tensmith.ir.op import OPS, Attrs, Node, Symbolic
from tensmith.ir.program import Program, make_node
from tensmith.ir.types import TensorType

Term: TypeAlias = Union["Var", "Const", "Table", "Use", None]


@dataclass(frozen=True)
class Var:
    """Any value; `static`: computed from constants alone; `optional`: an input that may be omitted."""

    name: str
    static: bool = False
    optional: bool = False


@dataclass(frozen=True, eq=False)
class Const:
    """A constant that a right side brings along."""

    value: Array


@dataclass(frozen=True, eq=False)
class Table:
    """A constant given by its index formula, in the element type of a variable."""

    shape: tuple[Dim, ...]
    element: Callable[..., Scalar]
    like: Var

    def array(self, dtype: np.dtype[Any]) -> Array:
        """The constant, where the shape is static."""
        return evaluate(compute(self.shape, self.element), {}, {}, Floats()).astype(dtype)


@dataclass(frozen=True, eq=False)
class Use:
    """A use of an op. `attrs`: on a left side a name to capture them under, or the values wanted."""

    op: str
    args: tuple[Term, ...]
    attrs: str | Attrs | None = None


class _Ops:
    """`ops.conv(x, w)` is a Use of the op conv."""

    def __getattr__(self, name: str) -> Callable[..., Use]:
        def use(*args: Term | Array | float, attrs: str | Attrs | None = None) -> Use:
            return Use(name, tuple(_as_term(arg) for arg in args), attrs)

        return use


ops = _Ops()


def _as_term(arg: Any) -> Term:
    if arg is None or isinstance(arg, (Var, Const, Table, Use)):
        return arg
    return Const(np.asarray(arg))


@dataclass
class Match:
    """What a left side matched: values by variable name, captured attributes, and the nodes to replace."""

    program: Program
    values: dict[str, str] = field(default_factory=dict)
    attrs: dict[str, Attrs] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)

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


def match(term: Term, program: Program, value: str) -> Match | str:
    """The match of `term` rooted at `value`, or why there is none."""
    node = program.producers.get(value)
    if not isinstance(term, Use) or node is None or node.op != term.op:
        return ""
    found: str = ""
    for attempt in _orders(term, node):
        state = Match(program)
        reason = _match_use(term, node, attempt, state, root=True)
        if reason is None:
            reason = _read_twice(state)
        if reason is None:
            return state
        found = found or reason
    return found


def _read_twice(state: Match) -> str | None:
    """Why a match cannot be replaced: a node of it is read by another of it in a second way."""
    inner = {name for node in state.nodes[1:] for name in node.outputs}
    twice = next((name for name in state.values.values() if name in inner), None)
    return None if twice is None else f"'{twice}' is read twice"


def _orders(term: Use, node: Node) -> Iterator[tuple[str, ...]]:
    yield node.inputs
    if len(node.inputs) == 2 and node.opaque is None and node.definition.commutative:
        yield node.inputs[::-1]


def _match_use(
    term: Use, node: Node, inputs: tuple[str, ...], state: Match, root: bool = False
) -> str | None:
    """None on success, else why not ("" where the program is nothing like the pattern)."""
    if not root:
        if state.program.uses(node.output) > 1:
            return f"'{node.output}' ({node.op}) is also used elsewhere"
        if any(name in state.program.outputs for name in node.outputs):
            return f"'{node.output}' ({node.op}) is an output of the program"
    if any(node.outputs[1:]):
        return f"'{node.output}' ({node.op}) has further outputs"
    if isinstance(term.attrs, str):
        state.attrs[term.attrs] = node.attrs
    elif term.attrs is not None:
        for name, wanted in term.attrs.items():
            if node.attrs.get(name) != wanted:
                return f"{node.op} has {name}={node.attrs.get(name)}, not {wanted}"
    state.nodes.append(node)
    given = inputs + ("",) * (len(term.args) - len(inputs))
    if any(given[len(term.args) :]):
        return f"{node.op} has more inputs than the rule knows"
    for arg, name in zip(term.args, given):
        reason = _match_arg(arg, name, state)
        if reason is not None:
            return reason
    return None


def _match_arg(arg: Term, name: str, state: Match) -> str | None:
    match arg:
        case None:
            return "" if name else None
        case Var():
            if not name and not arg.optional:
                return ""
            if name and arg.static and name not in state.program.static_values:
                return f"'{name}' is not computed from constants alone"
            if state.values.setdefault(arg.name, name) != name:
                return ""
            return None
        case Const(value):
            known = state.program.constants.get(name)
            same = known is not None and known.shape == value.shape and bool(np.all(known == value))
            return None if same else ""
        case Table():
            return ""
        case Use():
            node = state.program.producers.get(name)
            if node is None or node.op != arg.op:
                return ""
            before = (dict(state.values), dict(state.attrs), list(state.nodes))
            reason: str | None = ""
            for attempt in _orders(arg, node):
                reason = _match_use(arg, node, attempt, state)
                if reason is None:
                    return None
                state.values, state.attrs, state.nodes = (dict(before[0]), dict(before[1]), list(before[2]))
            return reason
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
        elif isinstance(part, Table):
            constants[name] = part.array(found.type(part.like).numpy)
        else:
            inputs = [emit(arg, None) for arg in part.args]
            while inputs and not inputs[-1]:
                inputs.pop()
            if isinstance(part.attrs, str):
                raise ProgramError(f"right side of a rule captures attributes of {part.op}")
            made = make_node(part.op, inputs, wanted or (name,), part.attrs)
            nodes.append(replace(made, name=labels.pop(part.op, "")))
        done[id(part)] = name
        return name

    root = emit(term, outputs if isinstance(term, Use) else None)
    return nodes, constants, root


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
                return _constant_formula(value)
            case Table(shape, element):
                return compute(shape, element)
            case Use(op, args, attrs):
                if id(part) not in done:
                    given = case.attrs[attrs] if isinstance(attrs, str) else (attrs or {})
                    call = Symbolic(
                        {**OPS[op].attributes, **given},
                        tuple(read(arg) for arg in args),
                        tuple(_known(arg, case) for arg in args),
                    )
                    done[id(part)] = OPS[op].formula(call)[0]
                return done[id(part)]
        raise TypeError(f"not a term: {part!r}")

    result = read(term)
    if result is None:
        raise ProgramError("a pattern cannot be an omitted input")
    return result


def _known(arg: Term, case: Case) -> Array | None:
    if isinstance(arg, Const):
        return arg.value
    return case.values.get(arg.name) if isinstance(arg, Var) else None


# A constant of more different numbers is a Table, or an input.
_MOST_ELEMENTS = 64


def _constant_formula(value: Array) -> Formula:
    """A constant at its exact values, which are numbers, truth values or symbolic sizes: one case an element.

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
        return Add(tuple(guard(conditions, item) for conditions, item in here))

    return compute(value.shape, element)
