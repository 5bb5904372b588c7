"""A term of a symbolic case as a program with numbers: what formulas say, held against the ops themselves.

Both sides of a claim are made from the same `Numbers`, so they have the same inputs and constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula import walk
from tensmith.formula.arith import Array, Floats
from tensmith.formula.evaluate import evaluate
from tensmith.formula.expr import Formula, Read, compute
from tensmith.formula.poly import Dim, Poly
from tensmith.ir.op import OPS, Node, trimmed
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.ir.program import Program, make_node
from tensmith.ir.types import DTYPES, TensorType
from tensmith.rewrite.case import Case
from tensmith.rewrite.term import AnyElementwise, Const, ConstantTable, Number, Term, Use, Var, parts, resolve

RESULT = "the result"
# Some elements are these, so that there are ties, zeros and both signs.
_PLAIN = (-1.0, 0.0, 0.0, 1.0, 2.0)
_ROOM = 48
# So many numbers are drawn for such a room, and repeated. A prime: what lies beside each other along an axis
# is never the same number.
_DRAWN = 65_521


@dataclass(frozen=True)
class Numbers:
    """A case at some sizes: an array for every variable. `given` are inputs, the others constants."""

    case: Case
    sizes: Mapping[str, int]
    arrays: Mapping[str, Array]
    given: frozenset[str]

    @property
    def inputs(self) -> dict[str, Array]:
        """What a program of this instance takes."""
        return {name: self.arrays[name] for name in self.arrays if name in self.given}

    def program(self, term: Term) -> Program:
        """The program that computes a term as its output RESULT; ProgramError where it is none."""
        builder = _Builder(self)
        root = builder.value(resolve(term, self.case))
        nodes = (*builder.nodes, Node("identity", (root,), (RESULT,)))
        constants = {n: a for n, a in self.arrays.items() if n not in self.given}
        types = {name: TensorType.of(array) for name, array in self.inputs.items()}
        program = Program("instance", types, (RESULT,), nodes, {**constants, **builder.constants})
        len(program.facts)
        return program


def size_names(*terms: Term, case: Case) -> list[str]:
    """The symbolic sizes of a case and of what terms bring along, in order."""
    found: set[str] = set()
    for tensor in case.tensors.values():
        found |= walk.size_names(tensor)
    for value in [*case.values.values(), *(v for a in case.attrs.values() for v in a.values())]:
        found |= _symbols(value)
    for part in parts(*terms):
        match part:
            case Const(value):
                found |= _symbols(value)
            case ConstantTable(shape, element):
                found |= walk.size_names(compute(shape, element))
            case Use(attrs=dict(attrs)):
                found |= set().union(*map(_symbols, attrs.values()))
    return sorted(found)


def numbers(left: Term, case: Case, sizes: Mapping[str, int], generator: np.random.Generator) -> Numbers:
    """Random arrays for the variables of a case. What `left` wants static is constant, and so is what is
    known or follows from other tensors. ProgramError where a size is negative.
    """
    static = {part.name for part in parts(left) if isinstance(part, Var) and part.static}
    read = {n: rank for tensor in case.tensors.values() for n, rank in walk.ranks(tensor.body).items()}
    plain = {name for name, tensor in case.tensors.items() if _is_input(tensor)}
    derived = {n for name in case.tensors.keys() - plain for n in walk.ranks(case.tensors[name].body)}
    # What other variables are made of, with room for all that these read.
    sources = {n: _with_room(rank, generator) for n, rank in read.items() if n in derived}
    arrays: dict[str, Array] = {}
    for name, tensor in case.tensors.items():
        shape = tuple(int(dim.evaluate(sizes)) for dim in tensor.shape)
        if min(shape, default=0) < 0:
            raise ProgramError(f"'{name}' has no shape of sizes {dict(sizes)}")
        dtype = case.dtypes.get(name, "f32")
        if name in case.values:
            arrays[name] = _concrete(case.values[name], sizes)
        elif name in plain:
            arrays[name] = _random(shape, dtype, generator)
        else:
            arrays[name] = evaluate(tensor, sources, sizes, Floats()).astype(DTYPES[dtype])
    return Numbers(case, sizes, arrays, frozenset(plain - static - case.values.keys()))


def _is_input(tensor: Formula) -> bool:
    """Whether a variable is any tensor of its shape."""
    return tensor.body == Read(getattr(tensor.body, "tensor", ""), tuple(map(Poly.symbol, tensor.indices)))


def _with_room(rank: int, generator: np.random.Generator) -> Array:
    drawn = _random((min(_ROOM**rank, _DRAWN),), "f32", generator)
    return np.resize(drawn, (_ROOM,) * rank)


def _random(shape: tuple[int, ...], dtype: str, generator: np.random.Generator) -> Array:
    type_ = DTYPES[dtype]
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(type_)
    if type_.kind in "iu":
        info = np.iinfo(type_)
        wide = generator.integers(info.min, info.max, shape, dtype=type_, endpoint=True)
        near = generator.integers(max(-3, info.min), 4, shape).astype(type_)
        return np.where(generator.random(shape) < 0.5, wide, near)
    values = np.where(
        generator.random(shape) < 0.7, generator.normal(size=shape), generator.choice(_PLAIN, shape)
    )
    return np.asarray(values).astype(type_)


def _symbols(value: Any) -> set[str]:
    if isinstance(value, Poly):
        return set(value.symbols())
    if isinstance(value, (tuple, list)) or (isinstance(value, np.ndarray) and value.dtype == object):
        return set().union(*map(_symbols, value.reshape(-1) if isinstance(value, np.ndarray) else value))
    return set()


def _concrete(value: Any, sizes: Mapping[str, int]) -> Any:
    """A known value or attribute with numbers for symbolic sizes."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        flat = [_number(item, sizes) for item in value.reshape(-1)]
        return np.array(flat, dtype=np.int64).reshape(value.shape)
    if isinstance(value, tuple):
        return tuple(_concrete(item, sizes) for item in value)
    return _number(value, sizes) if isinstance(value, Poly) else value


def _number(item: Dim, sizes: Mapping[str, int]) -> int:
    return int(Poly.of(item).evaluate(sizes))


@dataclass
class _Builder:
    """The nodes of one term; equal subterms (the same object) become one."""

    numbers: Numbers
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    done: dict[Term, str] = field(default_factory=dict)

    def value(self, part: Term, like: np.dtype[Any] | None = None) -> str:
        """The name of a term's value; `like` is the float type that a bare number beside it takes."""
        match part:
            case None:
                return ""
            case Var(name):
                return name if name in self.numbers.arrays else ""
            case Const(value):
                array = _concrete(value, self.numbers.sizes)
                return self._constant(array if like is None else array.astype(like))
            case ConstantTable(shape, element, var):
                array = evaluate(compute(shape, element), {}, self.numbers.sizes, Floats())
                return self._constant(array.astype(self.numbers.arrays[var.name].dtype))
            case Number(number):
                return self._constant(np.asarray(number, like or np.float32))
            case AnyElementwise(_, args):  # any function will do
                return self._once(part, Use("tanh" if len(args) == 1 else "sub", args))
            case Use():
                return self._once(part, part)
        raise TypeError(f"not a term: {part!r}")

    def _once(self, part: Term, use: Use) -> str:
        if part not in self.done:
            self.done[part] = self._use(use)
        return self.done[part]

    def _constant(self, array: Array) -> str:
        name = f"constant {len(self.constants)}"
        self.constants[name] = array
        return name

    def _use(self, use: Use) -> str:
        assert not isinstance(use.attrs, str)
        like = self._float_type(use) if isinstance(OPS[use.op], Elementwise) else None
        inputs = [self.value(arg, like) for arg in use.args]
        name = f"value {len(self.nodes)}"
        fixed = {key: _concrete(item, self.numbers.sizes) for key, item in (use.attrs or {}).items()}
        self.nodes.append(make_node(use.op, trimmed(inputs), [name], fixed))
        return name

    def _float_type(self, use: Use) -> np.dtype[Any] | None:
        """The element type of the first variable in an elementwise use, if it is a float's."""
        found = (
            self.numbers.arrays[part.name].dtype
            for part in parts(use)
            if isinstance(part, Var) and part.name in self.numbers.arrays
        )
        dtype = next(found, None)
        return dtype if dtype is not None and dtype.kind == "f" else None
