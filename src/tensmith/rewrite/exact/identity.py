"""Nodes that give back one of their inputs, and are cut out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from tensmith.ir import Node, Program, make_node
from tensmith.ir.edits import reading_as
from tensmith.ir.handlers import Handlers
from tensmith.ir.ops.shape import Renaming
from tensmith.rewrite.given import MATRIX, Given, Instance
from tensmith.rewrite.law import lemma
from tensmith.rewrite.rule import ProgramRule, Rule, exact
from tensmith.rewrite.term import Term, Var, ops
from tensmith.rewrite.values import known, uniform

# Gives the input that a node's output would equal if their types are the same, or "".
Finder = Callable[[Program, Node], str]
finders = Handlers[Finder]()


@finders("identity", "cast", "cast_like")
def _itself(program: Program, node: Node) -> str:
    return node.inputs[0]


@finders("expand", "tile", Renaming)
def _first(program: Program, node: Node) -> str:
    """Same shape, same elements: the row-major order leaves no other choice."""
    return node.inputs[0]


@finders("concat", "sum", "mean", "max", "min", "clip")
def _only(program: Program, node: Node) -> str:
    """The one input, of ops that join several."""
    return node.inputs[0] if len([name for name in node.inputs if name]) == 1 else ""


def _neutral(number: float, either: bool, program: Program, node: Node) -> str:
    """Of x op number, or also of number op x."""
    left, right = node.inputs
    if uniform(program, right) == number:
        return left
    return right if either and uniform(program, left) == number else ""


@finders("dropout")
def _unmasked(program: Program, node: Node) -> str:
    mask = node.outputs[1] if len(node.outputs) > 1 else ""
    return "" if mask and program.uses(mask) else node.inputs[0]


@finders("pad")
def _zero_pads(program: Program, node: Node) -> str:
    pads = known(program, node.inputs[1])
    return node.inputs[0] if pads is not None and not np.any(pads) else ""


@finders("slice")
def _unit_steps(program: Program, node: Node) -> str:
    steps = node.operand(4)
    value = known(program, steps) if steps else np.ones(1)
    return node.inputs[0] if value is not None and np.all(value == 1) else ""


@finders("transpose")
def _order_kept(program: Program, node: Node) -> str:
    """A transpose that leaves the order of the axes longer than 1 alone."""
    shape = program.type(node.inputs[0]).dims
    perm = node.attrs["perm"] or tuple(reversed(range(len(shape))))
    long = [axis for axis in perm if shape[axis] != 1]
    return node.inputs[0] if long == sorted(long) else ""


@finders("split")
def _single_part(program: Program, node: Node) -> str:
    return node.inputs[0] if len(node.outputs) == 1 else ""


@finders("where")
def _chosen(program: Program, node: Node) -> str:
    condition = known(program, node.inputs[0])
    if condition is None or condition.size == 0:
        return ""
    if np.all(condition):
        return node.inputs[1]
    return "" if np.any(condition) else node.inputs[2]


for _number, _either, *_ops in (
    (0, True, "add"), (0, False, "sub"), (1, True, "mul"), (1, False, "div", "pow"),
):  # fmt: skip
    finders(*_ops)(partial(_neutral, _number, _either))

# Those that do not go by shapes.
_OF_ANY_RANK = frozenset({_itself, _only, _unmasked, _zero_pads, _single_part})


@exact("no_operation", order=4)
class NoOperation(ProgramRule):
    """A node whose output is one of its inputs, in value and in type, is cut out."""

    def rewrite(self, program: Program) -> Program | None:
        """Every such node at once."""
        cut: dict[str, str] = {}
        nodes, changed = [], False
        for node in program.nodes:
            source = _source(program, node)
            if source is None:
                nodes.append(reading_as(node, cut))
            elif node.output in program.outputs and not _can_rename(program, cut, source):
                plain = node if node.op == "identity" else make_node("identity", (source,), (node.output,))
                changed = changed or plain is not node
                nodes.append(reading_as(plain, cut))
            else:
                _forward(program, cut, node.output, cut.get(source, source))
        if not cut and not changed:
            return None
        # A value that was given the name of an output is renamed where it is made, too.
        nodes = [replace(n, outputs=tuple(cut.get(o, o) if o else o for o in n.outputs)) for n in nodes]
        return replace(program, nodes=tuple(reading_as(node, cut) for node in nodes))

    def lemmas(self) -> Iterable[Rule]:
        """One for each kind of node cut out; the twins have numbers next to the neutral ones, or move."""
        for name, (left, wrong) in _EQUAL_TO_X.items():
            yield lemma(name, left, X, wrong, given=_GIVEN.get(name, MATRIX))


def _source(program: Program, node: Node) -> str | None:
    """The input that the node's first output equals, or None."""
    finder = finders.find(node)
    if finder is None or any(program.uses(name) for name in node.outputs[1:] if name):
        return None
    types = [program.facts[name].type for name in (node.output, *node.inputs[:1]) if name]
    if None in types:
        return None
    # Of an unknown rank every shape is of the same type.
    if finder not in _OF_ANY_RANK and any(type_ is None or type_.shape is None for type_ in types):
        return None
    source = finder(program, node)
    return source if source and program.facts[source].type == program.type(node.output) else None


def _can_rename(program: Program, cut: Mapping[str, str], source: str) -> bool:
    """Whether a value may take the name of an output: made by a node, and no output itself."""
    current = cut.get(source, source)
    return current in program.producers and current not in program.outputs


def _forward(program: Program, cut: dict[str, str], old: str, new: str) -> None:
    """Whoever reads `old` reads `new`; an output keeps its name, so there the names change places."""
    keep, gone = (old, new) if old in program.outputs else (new, old)
    for name, target in cut.items():
        if target == gone:
            cut[name] = keep
    cut[gone] = keep


# What is proved: name -> a term that equals x, and one that nearly does.

X = Var("x")
_UNIT = np.array([1])
_OTHER = -X

_GIVEN: Mapping[str, Given] = {
    "pad": [Instance("five rows", {"x": "5 N"})],
    "slice": [Instance("five rows", {"x": "5 N"})],
    "transpose": [Instance("square", {"x": "N N"})],
    "transpose of ones": [Instance("ones", {"x": "1 1 N"})],
}
_EQUAL_TO_X: Mapping[str, tuple[Term, Term]] = {
    "add": (X + 0, X + 1), "sub": (X - 0, X - 1), "mul": (1 * X, 2 * X), "div": (X / 1, X / 2),
    "pow": (X**1, X**2), "sum": (ops.sum(X), ops.sum(X, X)), "mean": (ops.mean(X), ops.sum(X, X)),
    "max": (ops.max(X), ops.max(X, 0)), "clip": (ops.clip(X), ops.clip(X, 0)),
    "where": (ops.where(np.array(True), X, _OTHER), ops.where(np.array(False), X, _OTHER)),
    "pad": (ops.pad(X, np.array([0, 0, 0, 0])), ops.pad(X, np.array([1, 0, -1, 0]))),
    "slice": (
        ops.slice(X, np.array([0]), np.array([5]), None, np.array([1])),
        ops.slice(X, np.array([-1]), np.array([-9]), None, np.array([-1])),
    ),
    "transpose": (ops.transpose(X, attrs={"perm": (0, 1)}), ops.transpose(X, attrs={"perm": (1, 0)})),
    "transpose of ones": (ops.transpose(X, attrs={"perm": (1, 0, 2)}), _OTHER),
    "identity": (ops.identity(X), _OTHER), "dropout": (ops.dropout(X), _OTHER),
    "cast": (ops.cast(X, attrs={"to": 1}), _OTHER), "flatten": (ops.flatten(X), _OTHER),
    "reshape": (ops.reshape(X, np.array([0, -1])), _OTHER),
    "squeeze": (ops.squeeze(ops.unsqueeze(X, _UNIT), _UNIT), _OTHER),
    "expand": (ops.expand(X, np.array([1, 1])), _OTHER), "tile": (ops.tile(X, np.array([1, 1])), _OTHER),
    "concat": (ops.concat(X, attrs={"axis": 0}), _OTHER), "split": (ops.split(X, attrs={"axis": 0}), _OTHER),
}  # fmt: skip
