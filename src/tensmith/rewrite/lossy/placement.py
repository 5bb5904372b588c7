"""Which values of a program are quantized, so that engines find whole chains of 8-bit kernels.

Every operand and every result of a convolution or matrix product that is treated, but a result to which a
bias is added: that is done in floats; and what a recurrent layer multiplies with weights that are treated,
all steps at once, while states stay floats. Both operands and the result of a residual add between them; all
operands of a concatenation, on one grid, and what parts of others are among them: channels that go past a
block of layers stay as they are. A rectifier whose only effect is to cut at zero disappears: an unsigned
grid that starts at zero cuts just so (Jacob et al. 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tensmith.ir import Node, Program
from tensmith.ir.handlers import Handlers
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.ir.ops.product import Product
from tensmith.rewrite.lossy.weights import (
    WeightedLayer,
    called,
    known_shape,
    recurrent_weights,
    weighted_layers,
)

# Ops whose result is their input's values moved: it stays on the input's grid.
_MOVING = frozenset({"max_pool", "reshape", "flatten", "slice", "squeeze", "unsqueeze", "transpose"})

# (0, upper bound or None) of a rectifier; None if it cuts elsewhere.
Bounds: TypeAlias = "tuple[float, float | None] | None"
rectifiers = Handlers[Callable[[Program, Node], Bounds]]()


@dataclass
class Placement:
    """values: what is quantized, in the order of the program; same: value -> the value whose grid it shares;
    spans: value -> the others whose range its grid holds as well.

    rectified: value before a rectifier that may disappear -> value after it, and the upper bound of a clip.
    biased: value after the addition of a bias in floats -> the bias.
    """

    layers: list[WeightedLayer]
    values: list[str] = field(default_factory=list)
    same: dict[str, str] = field(default_factory=dict)
    spans: dict[str, list[str]] = field(default_factory=dict)
    rectified: dict[str, tuple[str, float | None]] = field(default_factory=dict)
    biased: dict[str, str] = field(default_factory=dict)

    def grid_of(self, value: str) -> str:
        """The value whose range decides the grid of `value`."""
        while value in self.same:
            value = self.same[value]
        return value

    def join(self, parts: Iterable[str], whole: str) -> None:
        """Puts parts on the grid of the whole, and with them what these are parts of."""
        for part in parts:
            grid = self.grid_of(part)
            if grid == whole:
                continue
            handed_on = [*([] if grid == part else [grid]), *self.spans.pop(grid, [])]
            self.spans.setdefault(whole, []).extend(handed_on)
            self.same[grid] = whole


def place(program: Program, skip: frozenset[str]) -> Placement:
    """The placement that treats every layer but those in `skip`."""
    layers = [layer for layer in weighted_layers(program) if layer.site not in skip]
    placement = Placement(layers)
    treated = {layer.site for layer in layers}
    chosen: set[str] = set()
    for node in program.nodes:
        if node.output in treated:
            chosen.update((node.inputs[0], *_result(program, node, placement)))
        elif _multiplies_elements(program, node, skip):
            chosen.add(node.inputs[0])
        elif node.op == "add" and _joins_layers(program, node, treated | chosen):
            chosen.update((*node.inputs, *_result(program, node, placement)))
        elif node.traits.joins and all(name in chosen for name in node.inputs):
            chosen.add(node.output)
            placement.join(node.inputs, node.output)
        elif node.op in _MOVING and node.inputs[0] in chosen and _floating(program, node.output):
            chosen.add(node.output)
            placement.same.setdefault(node.output, node.inputs[0])
    order = [*program.inputs, *(name for node in program.nodes for name in node.outputs)]
    placement.values = [name for name in order if name in chosen and name not in program.constants]
    return placement


def _floating(program: Program, value: str) -> bool:
    type_ = program.facts[value].type
    return type_ is not None and type_.floating


def _multiplies_elements(program: Program, node: Node, skip: frozenset[str]) -> bool:
    """Whether it is a recurrent layer whose weights of elements are treated."""
    weights = recurrent_weights(program, node)
    return any(own.multiplies and skip.isdisjoint(called(program, own)) for own in weights)


def _joins_layers(program: Program, node: Node, known: set[str]) -> bool:
    """Whether an add is residual: both operands computed, at least one on a chain that is treated."""
    if any(name in program.static_values for name in node.inputs) or known.isdisjoint(node.inputs):
        return False
    shapes = {known_shape(program, name) for name in node.inputs}
    return len(shapes) == 1 and None not in shapes


def _result(program: Program, node: Node, placement: Placement) -> Iterator[str]:
    """The value to quantize after `node`: past a rectifier it can swallow; none if it leaves the program, or
    gets a bias."""
    readers = program.consumers.get(node.output, ())
    if node.output in program.outputs:
        return
    if bias := _bias(program, node, readers):
        placement.biased[readers[0].output] = bias
        return
    rectifier = rectifiers.find(readers[0]) if len(readers) == 1 else None
    if rectifier is not None:
        bounds = rectifier(program, readers[0])
        if bounds is not None and readers[0].output not in program.outputs:
            placement.rectified[node.output] = (readers[0].output, bounds[1])
            yield readers[0].output
            return
    yield node.output


def _bias(program: Program, node: Node, readers: Sequence[Node]) -> str:
    """The vector [n] that all that reads a product [.., m, n] without a bias of its own adds to it; or ""."""
    product = node.kind(Product)
    shape = known_shape(program, node.output) or ()
    if product is None or not product.bare or len(shape) < 3 or len(readers) != 1:
        return ""
    elementwise = readers[0].kind(Elementwise)
    if elementwise is None or elementwise.function != "add":
        return ""
    added = (name for name in readers[0].inputs if name in program.constants)
    return next((name for name in added if program.type(name).dims == shape[-1:]), "")


@rectifiers("relu")
def _relu(program: Program, node: Node) -> Bounds:
    return 0.0, None


@rectifiers("clip")
def _clip(program: Program, node: Node) -> Bounds:
    limits: list[float | None] = []
    for name in node.operands(3)[1:]:
        array = program.constants.get(name)
        if name and (array is None or array.size != 1):
            return None
        limits.append(None if array is None else float(array.reshape(-1)[0]))
    return None if limits[0] != 0.0 else (0.0, limits[1])
