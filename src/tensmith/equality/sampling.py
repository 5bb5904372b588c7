"""What a whole-program test runs on: random primes, sizes for symbolic axes, and random inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array, PrimeField
from tensmith.formula.poly import Poly
from tensmith.ir import Node, Program

# Primes are drawn from [2**20, 2**21): products of residues stay exact in float64 sums of 2**11 terms.
LOWEST = 2**20
PRIMES_IN_RANGE = 73_586
# As wide as networks usually want their inputs, from normalized numbers to raw bytes.
_SCALES = (0.3, 1.0, 30.0, 255.0)
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


def shapes(program: Program, assignment: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The shape of each input."""
    return {
        name: tuple(int(dim.evaluate(assignment)) if isinstance(dim, Poly) else dim for dim in type_.dims)
        for name, type_ in program.inputs.items()
    }


def whole_inputs(
    programs: tuple[Program, ...], assignment: Mapping[str, int], generator: np.random.Generator
) -> dict[str, Array]:
    """Random values of the integer and Boolean inputs: the same, and themselves, in every arithmetic."""
    program = programs[0]
    found: dict[str, Array] = {}
    for name, shape in shapes(program, assignment).items():
        type_ = program.inputs[name]
        if type_.floating:
            continue
        if type_.numpy.kind not in "iub":
            raise ProgramError(f"input '{name}' is {type_}, which has no random values")
        bound = 2 if type_.dtype == "bool" else min(_index_bound(p, name) for p in programs)
        found[name] = generator.integers(0, bound, shape).astype(type_.numpy)
    return found


def normal_inputs(program: Program, assignment: Mapping[str, int], seed: int) -> dict[str, Array]:
    """Normal floats around zero, as wide as the seed says, and random values of the other inputs."""
    generator = np.random.default_rng(seed)
    found = whole_inputs((program,), assignment, generator)
    for name, shape in shapes(program, assignment).items():
        if name not in found:
            wide = _SCALES[seed % len(_SCALES)] * generator.standard_normal(shape)
            found[name] = wide.astype(program.inputs[name].numpy)
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
    carried = {name}
    bounds: list[int] = []
    for node in program.nodes:
        if node.traits.subscripts and "axis" in node.attrs and node.inputs[1] in carried:
            size = _axis_size(program, node)
            if size is not None:
                bounds.append(size)
        if carried.intersection(node.inputs):
            for output in node.outputs:
                type_ = program.facts[output].type if output else None
                if type_ is not None and type_.numpy.kind in "iu":
                    carried.add(output)
    return min(bounds, default=2)


def _axis_size(program: Program, node: Node) -> int | None:
    dim = program.type(node.inputs[0]).dims[node.attrs["axis"]]
    return dim if isinstance(dim, int) else None
