"""What a whole-program test runs on: random primes, sizes for symbolic axes, and random inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array, PrimeField
from tensmith.formula.poly import Poly
from tensmith.ir import Node, Program
from tensmith.ir.ops.cast import Conversion
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.ir.ops.slicing import Slice
from tensmith.ir.types import TensorType

# Primes are drawn from [2**20, 2**21): products of residues stay exact in float64 sums of 2**11 terms.
LOWEST = 2**20
PRIMES_IN_RANGE = 73_586
# As wide as networks usually want their inputs, from normalized numbers to raw bytes.
_SCALES = (0.3, 1.0, 30.0, 255.0)
# Constants of so many numbers are looked at for what a program tells apart, and so many of these are drawn.
_MOST_TOLD = 64
# The longest axis on which a program is run to get past a number that its sizes are held against.
_LONGEST = 4096
_SMALL_PRIMES = tuple(n for n in range(2, 1449) if all(n % d for d in range(2, int(n**0.5) + 1)))


def random_primes(count: int, generator: np.random.Generator) -> tuple[int, ...]:
    """Distinct primes of the range, each as likely as any other."""
    found: list[int] = []
    while len(found) < count:
        n = int(generator.integers(LOWEST, 2 * LOWEST))
        if n not in found and all(n % q for q in _SMALL_PRIMES):
            found.append(n)
    return tuple(found)


def symbols(program: Program) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(symbols of first axes, symbols of other axes) of the inputs: batches and lengths."""
    batches: dict[str, None] = {}
    lengths: dict[str, None] = {}
    for type_ in program.inputs.values():
        for axis, dim in enumerate(type_.dims):
            if isinstance(dim, Poly):
                (batches if axis == 0 else lengths).update(dict.fromkeys(sorted(dim.symbols())))
    return tuple(batches), tuple(name for name in lengths if name not in batches)


def sizes(
    program: Program, generator: np.random.Generator
) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
    """Pairs of assignments to symbolic sizes, a small and a larger one; later pairs suit larger windows."""
    batches, lengths = symbols(program)
    for low, middle, high in ((3, 6, 10), (16, 28, 40), (64, 82, 100), (224, 225, 226)):
        small = {name: int(generator.integers(low, middle)) for name in lengths}
        large = {name: int(generator.integers(middle, high)) for name in lengths}
        yield {**dict.fromkeys(batches, 1), **small}, {**dict.fromkeys(batches, 2), **large}
        if not lengths:
            return


def beyond(programs: tuple[Program, ...], assignment: Mapping[str, int]) -> dict[str, int]:
    """The assignment, with sizes above all numbers that slices and comparisons of sizes hold against them."""
    found = dict(assignment)
    for program in programs:
        measured = _measured(program)
        for node in program.nodes:
            met: set[str] = set()
            numbers = node.inputs
            if node.kind(Slice):
                met, numbers = _sliced(program, node), node.inputs[1:3]
            elif _compares(program, node) and measured.issuperset(node.inputs):
                met = _sizes_of(program, node.inputs)
            most = max((abs(n) for n in _numbers(program, numbers) if abs(n) < _LONGEST), default=0)
            for symbol in met & assignment.keys():
                found[symbol] = max(found[symbol], most + 1)
    return found


def _sliced(program: Program, node: Node) -> set[str]:
    """The open sizes of the axes along which a node slices."""
    x = program.facts[node.inputs[0]].type
    if x is None or x.shape is None:
        return set()
    axes = program.facts[node.inputs[3]].value if node.operand(3) else None
    named = range(len(x.shape)) if axes is None else [int(axis) for axis in axes]
    return _open(x.with_shape([x.shape[axis] for axis in named]))


def _measured(program: Program) -> set[str]:
    """What hangs on constants and the sizes of inputs alone."""
    found = {"", *program.constants}
    for node in program.nodes:
        if node.traits.measures or (node.opaque is None and found.issuperset(node.inputs)):
            found.update(node.outputs)
    return found


def _compares(program: Program, node: Node) -> bool:
    """Whether a node tells numbers apart by their order."""
    op, type_ = node.kind(Elementwise), program.facts[node.output].type
    if op is None or type_ is None:
        return False
    return type_.dtype == "bool" or op.scalar(node.attrs) in ("maximum", "minimum")


def _numbers(program: Program, names: Iterable[str]) -> set[int]:
    """The whole numbers that known values hold, where these are few."""
    found: set[int] = set()
    for value in (program.facts[name].value for name in names if name):
        if value is not None and value.size <= _MOST_TOLD:
            flat = [n for n in value.reshape(-1).tolist() if isinstance(n, (int, float))]
            found.update(int(n) for n in flat if float(n).is_integer())
    return found


def _sizes_of(program: Program, names: Iterable[str]) -> set[str]:
    """The open sizes in the shapes of values, and in values that are known to be sizes."""
    found: set[str] = set()
    for fact in (program.facts[name] for name in names if name):
        found |= _open(fact.type)
        if fact.value is not None and fact.value.dtype == object:
            found.update(*(n.symbols() for n in fact.value.reshape(-1) if isinstance(n, Poly)))
    return found


def _open(type_: TensorType | None) -> set[str]:
    """The open sizes of a shape."""
    shape = type_.shape if type_ is not None else None
    return set().union(*(dim.symbols() for dim in shape or () if isinstance(dim, Poly)))


def shapes(program: Program, assignment: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The shape of each input."""
    return {
        name: tuple(int(dim.evaluate(assignment)) if isinstance(dim, Poly) else dim for dim in type_.dims)
        for name, type_ in program.inputs.items()
    }


def whole_inputs(
    programs: tuple[Program, ...],
    assignment: Mapping[str, int],
    generator: np.random.Generator,
    *,
    wide: bool = False,
) -> dict[str, Array]:
    """Random values of the integer and Boolean inputs: the same, and themselves, in every arithmetic.

    Integers are positions that exist, or 0 and 1. wide: those that `roam` are of all the range of their type,
    and some positions are such where the programs' tables differ.
    """
    program = programs[0]
    found: dict[str, Array] = {}
    for name, shape in shapes(program, assignment).items():
        type_ = program.inputs[name]
        if type_.floating:
            continue
        if type_.numpy.kind not in "iub":
            raise ProgramError(f"input '{name}' is {type_}, which has no random values")
        if wide and roams(programs, name):
            found[name] = _whole_numbers(type_, shape, _told(programs), generator).astype(type_.numpy)
            continue
        bound = 2 if type_.dtype == "bool" else min(_index_bound(p, name) for p in programs)
        drawn = generator.integers(0, bound, shape)
        if wide:
            drawn = _with_told(drawn, [n for n in _other_rows(programs, name) if n < bound], generator)
        found[name] = drawn.astype(type_.numpy)
    return found


def roams(programs: tuple[Program, ...], name: str) -> bool:
    """Whether an integer input may hold any number: no position is read of it, and no size hangs on it."""
    return programs[0].inputs[name].numpy.kind in "iu" and all(_roams(p, name) for p in programs)


def _roams(program: Program, name: str) -> bool:
    reached, whole = {name}, {name}
    given = set().union(*map(_open, program.inputs.values()))
    for node in program.nodes:
        if node.traits.measures or reached.isdisjoint(node.inputs):
            continue
        if node.opaque is not None or (node.traits.subscripts and node.inputs[1] in whole):
            return False
        sizes = given.union(*(_open(program.facts[read].type) for read in node.inputs if read))
        for output in filter(None, node.outputs):
            type_ = program.facts[output].type
            if type_ is None or type_.shape is None or not _open(type_) <= sizes:
                return False
            reached.add(output)
            if type_.numpy.kind in "iu":
                whole.add(output)
    return True


def picks_alone(program: Program, name: str) -> bool:
    """Whether an input of whole numbers is read for positions alone, moved about and cast at most."""
    carried = {name}
    for node in program.nodes:
        places = [place for place, read in enumerate(node.inputs) if read in carried]
        if not places or node.traits.measures or (node.traits.subscripts and places == [1]):
            continue
        moves = node.traits.joins or (node.traits.moves and places == [0])
        if not moves and not (node.kind(Conversion) and program.type(node.output).numpy.kind in "iu"):
            return False
        carried.update(filter(None, node.outputs))
    return carried.isdisjoint(program.outputs)


def _told(programs: tuple[Program, ...]) -> list[int]:
    """Numbers that functions of elements read beside others, and those next to them."""
    found: set[int] = set()
    for program in programs:
        for node in program.nodes:
            if node.kind(Elementwise):
                found |= _numbers(program, node.inputs)
    return sorted({n + step for n in found for step in (-1, 0, 1)}, key=abs)[:_MOST_TOLD]


def _whole_numbers(
    type_: TensorType, shape: tuple[int, ...], told: list[int], generator: np.random.Generator
) -> Array:
    """Half of them near 0, half over all the range of their type, in all magnitudes; and told ones."""
    info = np.iinfo(type_.numpy)
    wide = generator.integers(info.min, info.max, shape, dtype=type_.numpy, endpoint=True)
    less = np.where(generator.random(shape) < 0.5, 0, generator.integers(0, info.bits, shape))
    near = generator.integers(max(-3, info.min), 4, shape)
    found = np.where(
        generator.random(shape) < 0.5, wide >> less.astype(type_.numpy), near.astype(type_.numpy)
    )
    return _with_told(found, [n for n in told if info.min <= n <= info.max], generator)


def _with_told(drawn: Array, told: list[int], generator: np.random.Generator) -> Array:
    """Numbers, every third of which is a told one."""
    if not told:
        return drawn
    return np.where(generator.random(drawn.shape) < 1 / 3, generator.choice(told, drawn.shape), drawn)


def normal_inputs(
    program: Program, assignment: Mapping[str, int], seed: int, *, wide: bool = False
) -> dict[str, Array]:
    """Normal floats around zero, as wide as the seed says, and random values of the other inputs."""
    generator = np.random.default_rng(seed)
    found = whole_inputs((program,), assignment, generator, wide=wide)
    for name, shape in shapes(program, assignment).items():
        if name not in found:
            scaled = _SCALES[seed % len(_SCALES)] * generator.standard_normal(shape)
            found[name] = scaled.astype(program.inputs[name].numpy)
    return found


def residues(program: Program, assignment: Mapping[str, int], field: PrimeField) -> dict[str, Array]:
    """Random values of the floating inputs in a field."""
    return {
        name: field.random(name, shape)
        for name, shape in shapes(program, assignment).items()
        if program.inputs[name].floating
    }


def _index_bound(program: Program, name: str) -> int:
    """The least size of an axis that an integer input picks from, as it is or moved about; else 2."""
    dims = [program.type(value).dims[axis] for value, axis in _picked_from(program, name)]
    return min((dim for dim in dims if isinstance(dim, int)), default=2)


def _picked_from(program: Program, name: str) -> Iterator[tuple[str, int]]:
    """The values, and their axes, that an integer input picks from, as it is or moved about."""
    carried = {name}
    for node in program.nodes:
        if node.traits.subscripts and "axis" in node.attrs and node.inputs[1] in carried:
            yield node.inputs[0], node.attrs["axis"]
        if carried.intersection(node.inputs):
            for output in node.outputs:
                type_ = program.facts[output].type if output else None
                if type_ is not None and type_.numpy.kind in "iu":
                    carried.add(output)


def _other_rows(programs: tuple[Program, ...], name: str) -> list[int]:
    """Positions that an integer input may pick in constants, where those of two programs differ."""

    def tables(program: Program) -> list[Array]:
        picked = ((program.constants.get(value), axis) for value, axis in _picked_from(program, name))
        return [np.moveaxis(array, axis, 0) for array, axis in picked if array is not None]

    found: set[int] = set()
    for one in tables(programs[0]):
        for other in tables(programs[-1]):
            if one.shape == other.shape:
                differ = (one != other).reshape(len(one), -1).any(axis=1)
                found.update(np.flatnonzero(differ)[:_MOST_TOLD].tolist())
    return sorted(found)
