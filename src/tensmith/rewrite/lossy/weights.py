"""Layers with constant weights, and weights as the rows that calibration moments speak about.

A layer is a conv, gemm or matmul whose second input is a constant, or a constant matrix turned, as output
heads have it that are tied to an embedding. Its weights as rows are [groups, rows, d]: one row an output
channel, d what the row is multiplied with, in the order of `Moment`. A constant that several nodes read is
one tensor and stays one: a new value reaches all of them.

A recurrent layer has two matrices, one for the element and one for the state. A table is what rows are looked
up in, and multiplies nothing. Both are `StoredWeights`, as layers are: what only rounds takes all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir import Node, Program, make_node
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.ir.ops.product import Product
from tensmith.ir.ops.recurrence import Recurrent, directions
from tensmith.ir.types import Shape
from tensmith.rewrite.rule import EVERYWHERE

# Which inputs of a recurrent layer are weights, and what follows its name in theirs.
_ELEMENT, _STATE = 1, 2
_RECURRENT = {_ELEMENT: " (element)", _STATE: " (state)"}
# A table's rows are vectors, not coordinates; rounding a small one would save less than it adds; and masks
# that are looked up by position hold numbers that embeddings do not. They are looked for in every row of a
# small table, and in so many of a large one.
_NARROWEST_ROW, _SMALLEST_TABLE = 8, 1024
_LARGEST_ELEMENT, _ALL_OF, _LOOKED_AT = 1e3, 1 << 20, 64
# Bits that entropy coding saves a weight on a grid that reaches as far as its largest.
GRID_GAIN = 0.75


@dataclass(frozen=True)
class StoredWeights:
    """A constant that a node multiplies by, or looks rows up in: [rows, ...], or turned.

    site: what it is called in plans. shape: that of `stored`. place: which input of the node it is. share: of
    the node's weights.
    """

    site: str
    op: str
    weight: str
    shape: tuple[int, ...]
    groups: int
    node: Node
    place: int
    share: float
    bias_place: ClassVar[int] = 2

    @property
    def transposed(self) -> bool:
        """Whether the stored matrix is [d, rows] rather than [rows, d]."""
        return False

    @property
    def depth(self) -> int:
        """The d of its rows: how many products a number of the output sums."""
        return math.prod(self.shape[:-1] if self.transposed else self.shape[1:])

    @property
    def multiplies(self) -> bool:
        """Whether it multiplies a value of the program: no table does, and a state is none."""
        return False

    @property
    def bias(self) -> str:
        """The name of the bias input, "" without one."""
        return self.node.operand(self.bias_place)

    def as_bias(self, numbers: Array) -> Array:
        """A number of each row as the bias input has them."""
        return numbers

    def stored(self, program: Program) -> Array:
        """The constant, that of a recurrent layer as a matrix."""
        return program.constants[self.weight].reshape(self.shape)

    def rows(self, weights: Array) -> Array:
        """A weight tensor as float64 rows [groups, rows, d]."""
        matrix = weights.T if self.transposed else weights
        size = matrix.shape[0] // self.groups
        return matrix.reshape(self.groups, size, int(np.prod(matrix.shape[1:]))).astype(np.float64)

    def tensor(self, rows: Array, like: Array) -> Array:
        """Rows [groups, rows, d] back in the layout and the element type of `like`."""
        matrix = rows.reshape(rows.shape[0] * rows.shape[1], rows.shape[2])
        return (matrix.T if self.transposed else matrix).reshape(like.shape).astype(like.dtype)


class RecurrentWeights(StoredWeights):
    """One of the two matrices of a recurrent layer: a row is one gate of one state.

    Those of the state have a group a direction: each multiplies the states of its own.
    """

    bias_place = 3

    @property
    def multiplies(self) -> bool:
        """See StoredWeights: one multiplies the elements of the sequence, the other one states."""
        return self.place == _ELEMENT

    def as_bias(self, numbers: Array) -> Array:
        """The bias of both matrices, [D, 2*G*H], that is zero but for these numbers of one."""
        rows = numbers.reshape(len(directions(self.node.attrs)), -1)
        halves = [rows if place == self.place else np.zeros_like(rows) for place in _RECURRENT]
        return np.concatenate(halves, axis=1)


class LookupTable(StoredWeights):
    """A matrix [rows, d] that nodes gather rows of, and nothing else reads: an embedding."""


@dataclass(frozen=True)
class WeightedLayer(StoredWeights):
    """A conv, gemm or matmul node by its output `site`, and the constant that holds its weights.

    turned: whether a transpose lies between the two.
    """

    product: Product
    turned: bool = False

    @property
    def multiplies(self) -> bool:
        return True

    @property
    def transposed(self) -> bool:
        return (self.product.filters(self.node.attrs) != 0) != self.turned


def behind(program: Program, value: str) -> tuple[str, bool]:
    """The value that another is, through identities and transposes of matrices, and whether it is turned."""
    turned = False
    while (producer := program.producers.get(value)) is not None:
        if producer.op == "transpose" and producer.attrs["perm"] in (None, (), (1, 0)):
            turned = not turned
        elif not producer.traits.renames or producer.kind(Elementwise) is None:  # no identity
            break
        value = producer.inputs[0]
    return value, turned


def weight_constant(program: Program, value: str) -> tuple[str, bool] | None:
    """The constant behind `value`, and whether it is turned; None if it is computed in any other way."""
    value, turned = behind(program, value)
    if value not in program.constants or (turned and program.constants[value].ndim != 2):
        return None
    return value, turned


def known_shape(program: Program, value: str) -> Shape | None:
    """None of what is of unknown type or rank, as what opaque nodes give may be."""
    type_ = program.facts[value].type
    return None if type_ is None else type_.shape


def layer_of(program: Program, node: Node) -> WeightedLayer | None:
    """The layer that a node is, or None: floating weights, known shape, two axes unless a convolution.

    What constants alone make is none: nobody sees values of it, and engines compute it once.
    """
    product = node.kind(Product)
    if product is None or len(node.inputs) < 2 or node.inputs[0] in program.static_values:
        return None
    found = weight_constant(program, node.inputs[1])
    if found is None or not program.type(found[0]).floating:
        return None
    name, turned = found
    shape = program.constants[name].shape
    if 0 in shape or (not product.windowed and len(shape) != 2):
        return None
    groups = node.attrs.get("group", 1)
    return WeightedLayer(node.output, node.op, name, shape, groups, node, 1, 1.0, product, turned)


def weighted_layers(program: Program) -> list[WeightedLayer]:
    """Every layer, in the order of the program."""
    return [layer for node in program.nodes if (layer := layer_of(program, node)) is not None]


def recurrent_weights(program: Program, node: Node) -> Iterator[RecurrentWeights]:
    """The floating constants that weights of a recurrent layer are, but for one whose site is the name of a
    value: plans could not tell the two."""
    if node.kind(Recurrent) is None:
        return
    named = {place: node.inputs[place] for place in _RECURRENT}
    arrays = {
        place: program.constants[name]
        for place, name in named.items()
        if name in program.constants and program.type(name).floating and program.constants[name].size
    }
    in_all = sum(array.size for array in arrays.values())
    for place, array in arrays.items():
        site, shape = f"{node.output}{_RECURRENT[place]}", (array.size // array.shape[-1], array.shape[-1])
        groups = array.shape[0] if place == _STATE else 1
        if site in program.producers:
            continue
        yield RecurrentWeights(site, node.op, named[place], shape, groups, node, place, array.size / in_all)


def lookups(program: Program, constant: str) -> list[Node]:
    """The nodes that gather rows of a constant."""
    return [
        node
        for node in program.consumers.get(constant, ())
        if node.op == "gather" and node.inputs[0] == constant and node.attrs["axis"] == 0
    ]


def is_table(program: Program, layer: StoredWeights) -> bool:
    """Whether the rows of a layer's weights are looked up, too."""
    return bool(lookups(program, layer.weight))


def lookup_table(program: Program, node: Node) -> LookupTable | None:
    """The table of which a node gathers rows; None where somebody else reads it, or it is none of vectors."""
    name = node.inputs[0] if node.traits.subscripts else ""
    array = program.constants.get(name)
    if array is None or array.ndim != 2 or array.dtype.kind != "f" or name in program.outputs:
        return None
    if array.shape[1] < _NARROWEST_ROW or array.size < _SMALLEST_TABLE:
        return None
    whole = array.size <= _ALL_OF
    some = array if whole else array[np.linspace(0, len(array) - 1, _LOOKED_AT, dtype=int)]
    if not (np.abs(some) <= _LARGEST_ELEMENT).all():
        return None
    if len(lookups(program, name)) != program.uses(name):
        return None
    return LookupTable(node.output, node.op, name, array.shape, 1, node, 0, 1.0)


def stored_weights(program: Program) -> list[StoredWeights]:
    """Of every layer, every recurrent one and every table, in the order of the program."""
    found: list[StoredWeights] = []
    for node in program.nodes:
        own = layer_of(program, node) or lookup_table(program, node)
        found += recurrent_weights(program, node) if own is None else [own]
    return found


Stored = TypeVar("Stored", bound=StoredWeights)


def distinct(stored: Iterable[Stored]) -> list[Stored]:
    """One of each constant, the first that reads it."""
    first: dict[str, Stored] = {}
    for own in stored:
        first.setdefault(own.weight, own)
    return list(first.values())


def called(program: Program, weights: StoredWeights) -> set[str]:
    """All sites that parameters may name weights by: those of every node that reads them alike."""
    if isinstance(weights, WeightedLayer):
        return {tied.site for tied in tied_layers(program, weights)}
    tied = [own for own in stored_weights(program) if own.weight == weights.weight]
    return {name for own in tied for name in (own.site, own.node.output)}


def sites_of(layer: str) -> list[str]:
    """The names under which weights of a layer may be found."""
    return [layer, *(layer + suffix for suffix in _RECURRENT.values())]


def grid_bytes(layer: StoredWeights, bits: int) -> float:
    """What the weights of a layer take on a grid: a Gaussian's entropy there, and a scale a row."""
    size, rows = math.prod(layer.shape), layer.shape[1 if layer.transposed else 0]
    return size * (bits - GRID_GAIN) / 8 + 4 * rows


def layer_sites(program: Program) -> Iterator[str]:
    """Every layer, and all at once."""
    layers = weighted_layers(program)
    yield from [EVERYWHERE] if layers else []
    yield from (layer.site for layer in layers)


def find_layer(program: Program, site: str) -> WeightedLayer:
    """The layer whose output is `site`; ProgramError if there is none."""
    node = program.producers.get(site)
    layer = layer_of(program, node) if node is not None else None
    if layer is None:
        raise ProgramError(f"'{site}' is not the output of a conv, gemm or matmul with constant weights")
    return layer


def find_multiplying(program: Program, site: str) -> WeightedLayer | RecurrentWeights:
    """The layer, or the matrix of a recurrent layer, at `site`: what has moments. ProgramError without."""
    for suffix in _RECURRENT.values():
        node = program.producers.get(site.removesuffix(suffix)) if site.endswith(suffix) else None
        for own in recurrent_weights(program, node) if node is not None else ():
            if own.site == site:
                return own
    return find_layer(program, site)


def layers_at(program: Program, site: str) -> list[WeightedLayer]:
    """All layers for EVERYWHERE, one for each constant; else the one at `site`. Never an empty list."""
    if site != EVERYWHERE:
        return [find_layer(program, site)]
    found = distinct(weighted_layers(program))
    if not found:
        raise ProgramError("the program has no conv, gemm or matmul with constant weights")
    return found


def tied_layers(program: Program, layer: WeightedLayer) -> list[WeightedLayer]:
    """Every layer that reads the weights of `layer` in the same layout, itself first."""
    others = [
        other
        for other in weighted_layers(program)
        if other.weight == layer.weight
        and other.site != layer.site
        and (other.transposed, other.groups) == (layer.transposed, layer.groups)
    ]
    return [layer, *others]


def sole_reader(program: Program, layer: StoredWeights) -> bool:
    """Whether nothing but this layer reads its weights, so that their shape may change."""
    return layer.node.inputs[layer.place] == layer.weight and program.uses(layer.weight) == 1


def alone(program: Program, layer: WeightedLayer) -> bool:
    """As `sole_reader`, of weights that are turned or renamed on their way, too."""
    value = layer.node.inputs[1]
    while value != layer.weight and program.uses(value) == 1:
        value = program.producers[value].inputs[0]
    return value == layer.weight and program.uses(value) == 1


def dequantized(
    program: Program, base: str, output: str, codes: Array, scales: Array, axis: int
) -> tuple[Node, dict[str, Array]]:
    """The node that opens codes of zero point 0, a scale a slice of an axis, and its constants by name."""
    names = [program.unused(f"{base}.{part}") for part in ("codes", "scale", "zero")]
    constants = dict(zip(names, (codes, scales, np.zeros(scales.shape, codes.dtype))))
    return make_node("dequantize_linear", names, (output,), {"axis": axis}), constants


def with_rows(program: Program, changed: Mapping[Stored, Array]) -> Program:
    """The program with the weights of some layers replaced by rows [groups, rows, d] of the same shape."""
    constants = {
        layer.weight: layer.tensor(rows, program.constants[layer.weight]) for layer, rows in changed.items()
    }
    return program.with_constants(constants)
