"""Layers that lossy methods leave as they are.

A method that must leave layers alone is handed a program in which the constants of these are inputs. It finds
no weights there, so it can neither change nor cut them, whichever method it is; what runs the program for
statistics gets it whole again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from tensmith.errors import ProgramError, UsageError, nearest
from tensmith.formula.arith import Array
from tensmith.ir import Node, Program
from tensmith.ir.ops.recurrence import Recurrent
from tensmith.ir.text_values import same_array
from tensmith.rewrite.calibration import Kind, RelayedCalibration
from tensmith.rewrite.lossy.weights import layer_of, recurrent_weights
from tensmith.rewrite.rule import Step

# The parameter by which any lossy step names the layers that it leaves alone.
KEPT = "kept"


def kept_by(step: Step) -> tuple[str, ...]:
    """The layers that a step leaves alone; ProgramError where it names them by no list."""
    named = step.params.get(KEPT, ())
    if not isinstance(named, (list, tuple)) or not all(isinstance(site, str) for site in named):
        raise ProgramError(f"lossy method '{step.rule}': {KEPT} is {named!r}; give a list of layers")
    return tuple(named)


@dataclass(frozen=True)
class NamedLayer:
    """A layer by its `site`, the value that it computes, and all that people may call it by."""

    site: str
    names: tuple[str, ...]


def layers_with_weights(program: Program) -> list[Node]:
    """The nodes that multiply by constant weights, or look rows of a constant table up."""
    return [node for node in program.nodes if _has_weights(program, node)]


def _has_weights(program: Program, node: Node) -> bool:
    if layer_of(program, node) is not None:
        return True
    table = program.constants.get(node.inputs[0]) if node.op == "gather" else None
    if table is not None:
        return table.ndim > 1 and program.type(node.inputs[0]).floating
    return node.kind(Recurrent) is not None and bool(_constants(program, node))


def named_layers(original: Program, simplified: Program) -> list[NamedLayer]:
    """The layers of a simplified program, by their names in it and by those in the original.

    These are the site, the name of the node, and the names of its weights.
    """
    names = {node.output: list(_names(simplified, node)) for node in layers_with_weights(simplified)}
    for node in layers_with_weights(original):
        site = _became(original, node, names)
        if site:
            names[site] += _names(original, node)
    return [NamedLayer(site, tuple(dict.fromkeys(called))) for site, called in names.items()]


def _names(program: Program, node: Node) -> Iterable[str]:
    own = (weights.site for weights in recurrent_weights(program, node))
    return filter(None, (node.output, node.name, *_constants(program, node), *own))


def _became(original: Program, node: Node, sites: Collection[str]) -> str:
    """The site that a layer has after exact rewrites: its own, or what only it leads to; "" if none."""
    value = node.output
    while value not in sites:
        readers = original.consumers.get(value, ())
        if len(readers) != 1 or _has_weights(original, readers[0]):
            return ""
        value = readers[0].output
    return value


def kept_sites(original: Program, simplified: Program, patterns: Sequence[str]) -> tuple[str, ...]:
    """The sites of the layers that patterns fit, in the order of the program; UsageError if one fits none."""
    layers = named_layers(original, simplified)
    known = list(dict.fromkeys(name for layer in layers for name in layer.names))
    for pattern in patterns:
        if not any(_fits(name, pattern) for name in known):
            raise UsageError(
                f"there is no layer '{pattern}' to keep{nearest(pattern, known, 8)}; "
                "`tensmith explain MODEL` lists the layers"
            )
    return tuple(
        layer.site
        for layer in layers
        if any(_fits(name, pattern) for name in layer.names for pattern in patterns)
    )


def _fits(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)


@dataclass(frozen=True)
class Covered:
    """A program in which the constants of some layers are inputs, and these constants.

    order: of all constants of the whole one.
    """

    program: Program
    constants: Mapping[str, Array]
    order: tuple[str, ...]

    @staticmethod
    def of(whole: Program, sites: Iterable[str]) -> Covered:
        """ProgramError where one of the sites is no layer of the program."""
        constants = {}
        for site in sites:
            node = whole.producers.get(site)
            if node is None or not _has_weights(whole, node):
                raise ProgramError(f"'{site}' is to be kept and is no layer with weights here")
            constants.update(_constants(whole, node))
        inputs = {name: whole.type(name) for name in constants}
        left = {name: array for name, array in whole.constants.items() if name not in constants}
        program = replace(whole, inputs={**whole.inputs, **inputs}, constants=left)
        return Covered(program, constants, tuple(whole.constants))

    def uncovered(self, treated: Program) -> Program:
        """What was made of the program, with the constants in it again."""
        inputs = {name: type_ for name, type_ in treated.inputs.items() if name not in self.constants}
        constants = {**treated.constants, **self.constants}
        in_order = {name: constants[name] for name in self.order if name in constants}
        return replace(treated, inputs=inputs, constants={**in_order, **constants})


@dataclass
class UncoveredCalibration(RelayedCalibration):
    """A calibration that is asked of a covered program, and answers for the whole one."""

    uncovered: Callable[[Program], Program]

    def answers(self, program: Program, kind: Kind, names: Sequence[str]) -> Mapping[str, Any]:
        return super().answers(self.uncovered(program), kind, names)


def changed_layer(before: Program, after: Program, sites: Iterable[str]) -> str | None:
    """The first of some layers that does not multiply by the very same numbers as before; None if all do."""
    return next((site for site in sites if not _same(before, after, site)), None)


def demand_unchanged(before: Program, after: Program, sites: Iterable[str], who: str) -> None:
    """ProgramError where one of the layers is another than before, naming it and who did it."""
    if (changed := changed_layer(before, after, sites)) is not None:
        raise ProgramError(f"{who} changes '{changed}', which is to be kept as it is")


def _same(before: Program, after: Program, site: str) -> bool:
    old, new = before.producers.get(site), after.producers.get(site)
    if old is None or new is None or old.function != new.function:
        return False
    ours, theirs = _weights(before, old), _weights(after, new)
    return ours.keys() == theirs.keys() and all(map(_equal, ours.values(), theirs.values()))


def _equal(left: Node | Array, right: Node | Array) -> bool:
    if isinstance(left, Node) and isinstance(right, Node):
        names = (left.inputs, left.outputs) == (right.inputs, right.outputs)
        return names and left.function == right.function
    return isinstance(left, np.ndarray) and isinstance(right, np.ndarray) and same_array(left, right)


def _constants(program: Program, node: Node) -> dict[str, Array]:
    """The floating constants that a node's inputs are, or are computed from alone."""
    found = _weights(program, node)
    return {
        name: part
        for name, part in found.items()
        if isinstance(part, np.ndarray) and program.type(name).floating
    }


def _weights(program: Program, node: Node) -> dict[str, Node | Array]:
    """All that a node's inputs are computed from where that is constant: constants and nodes, by name."""
    waiting = [name for name in node.inputs if name in program.static_values]
    found: dict[str, Node | Array] = {}
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = program.constants[name] if name in program.constants else program.producers[name]
            if name in program.producers:
                waiting += filter(None, program.producers[name].inputs)
    return found
