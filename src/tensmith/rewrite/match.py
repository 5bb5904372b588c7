"""Terms in programs: where a pattern stands, and what a right side is made to there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.formula.poly import Dim
from tensmith.ir.op import OPS, REQUIRED, Attrs, Node, trimmed
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.ir.program import Program, make_node
from tensmith.ir.types import TensorType
from tensmith.rewrite.term import AnyElementwise, Const, ConstantTable, Later, Number, Term, Use, Var
from tensmith.rewrite.values import uniform


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


def _orders(node: Node) -> Iterator[tuple[str, ...]]:
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
    for inputs in _orders(node):
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
        if before.function != node.function:
            return f"{node.op} is another function than {before.op}"
    elif isinstance(term.attrs, str):
        if state.attrs.get(term.attrs, node.attrs) != node.attrs:
            return f"{node.op} has other attributes than another {term.attrs}"
    else:
        for name, wanted in {**OPS[term.op].attributes, **(term.attrs or {})}.items():
            if wanted is not REQUIRED and node.attrs.get(name) != wanted:
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
            if isinstance(part.attrs, str):
                raise ProgramError(f"right side of a rule captures attributes of {part.op}")
            made = make_node(part.op, trimmed(inputs), wanted or (name,), part.attrs)
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
