"""How an op is declared: one class with its type rule, its meaning and its formula.

Reading `ops/` tells everything TensIR knows about an op. A class registers itself by its decorator:

    @op("relu", onnx="Relu")
    class Relu(Op):
        def infer(self, call): return (call.types[0],)
        def run(self, call, arith): return (arith.call("maximum", call.inputs[0], zero),)
        def formula(self, call): return (compute(x.shape, lambda *i: call("maximum", x[i], 0)),)

An op whose formula is missing is still typed, run and exported; rules cannot be proved about it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar, cast

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Formula
from tensmith.ir.types import TensorType
from tensmith.registry import Registry

if TYPE_CHECKING:
    from tensmith.ir.elements import Elements

Attrs: TypeAlias = Mapping[str, Any]

Operand = TypeVar("Operand")
Sortable = TypeVar("Sortable", int, str)

REQUIRED: Any = object()


def _given(operands: Sequence[Operand | None], index: int, lacking: str) -> Operand:
    found = operands[index] if index < len(operands) else None
    if found is None:
        raise ProgramError(f"input {index} {lacking}")
    return found


@dataclass(frozen=True)
class Typed:
    """A use of an op at typing time.

    `types[i]` is None for an omitted optional input (and past the end of the list there are none);
    `values[i]` is the input's value where it is known before running: an integer or boolean array, or an
    object array of int and Poly for shape arithmetic on symbolic sizes.
    """

    attrs: Attrs
    types: tuple[TensorType | None, ...]
    values: tuple[Array | None, ...]
    n_outputs: int = 1

    def type(self, index: int) -> TensorType:
        """The type of a required input."""
        return _given(self.types, index, "is missing")

    def has(self, index: int) -> bool:
        """Whether an optional input is there."""
        return index < len(self.types) and self.types[index] is not None

    def value(self, index: int) -> Array | None:
        """The known value of an input, or None."""
        return self.values[index] if index < len(self.values) else None

    def ints(self, index: int) -> tuple[int, ...] | None:
        """A known integer input as a flat tuple; None where unknown or symbolic."""
        value = self.value(index)
        if value is None:
            return None
        flat = np.asarray(value).reshape(-1).tolist()
        return tuple(flat) if all(isinstance(item, int) for item in flat) else None


@dataclass(frozen=True)
class Operands(Generic[Operand]):
    """Attributes and inputs of a use of an op, None for those omitted."""

    attrs: Attrs
    inputs: tuple[Operand | None, ...]

    def __getitem__(self, index: int) -> Operand:
        return _given(self.inputs, index, "is missing")

    def get(self, index: int) -> Operand | None:
        """An optional input."""
        return self.inputs[index] if index < len(self.inputs) else None


@dataclass(frozen=True)
class Run(Operands[Array]):
    """A use of an op at run time: arrays, and the types of values."""

    types: tuple[TensorType | None, ...]
    out_types: tuple[TensorType | None, ...]


@dataclass(frozen=True)
class Symbolic(Operands[Formula]):
    """A use of an op as a formula: input formulas, attributes (whose integers may be Poly), known values.

    `dtypes` are element types where they matter and are known: formulas have none.
    """

    values: tuple[Array | None, ...] = ()
    n_outputs: int = 1
    dtypes: tuple[str | None, ...] = ()

    def value(self, index: int) -> Array:
        """The known value of an input (shapes, axes, pads)."""
        return _given(self.values, index, "must be a known constant for a formula")

    def dtype(self, index: int) -> str:
        """The element type of an input."""
        found = self.dtypes[index] if index < len(self.dtypes) else None
        return found or TensorType.of(self.value(index)).dtype


class Op(ABC):
    """One TensIR op. Instances are stateless; subclasses override the three readings."""

    name: ClassVar[str]
    # The ONNX operator it stands for, "" if there is none, and its domain.
    onnx: ClassVar[str]
    domain: ClassVar[str] = ""
    # Attribute -> default (REQUIRED where ONNX gives none). Attributes are always stored in full.
    attributes: ClassVar[Mapping[str, Any]] = {}
    # Attribute of old opsets -> (input position it became, opset of the change). The importer turns the
    # attribute into a constant input and the exporter turns it back.
    moved: ClassVar[Mapping[str, tuple[int, int]]] = {}
    # First opset (default domain) whose meaning this class implements; older uses stay opaque.
    since: ClassVar[int] = 1
    commutative: ClassVar[bool] = False
    # The output holds elements of the first input and no others; renames: all of them, in row-major order;
    # selects: chosen by their order, window by window. joins: the elements of all inputs, part by part.
    moves: ClassVar[bool] = False
    renames: ClassVar[bool] = False
    selects: ClassVar[bool] = False
    joins: ClassVar[bool] = False
    # What each output is depends on how many there are, those that nobody reads among them.
    divides: ClassVar[bool] = False
    # Elements of the first input too, but by a condition or subscripts, or constants among them.
    carries: ClassVar[bool] = False
    # Sums and products of the inputs and whole numbers: of integers, modulo 2^bits, it is a function of the
    # inputs modulo 2^bits.
    ring: ClassVar[bool] = False
    # Over whole numbers it is another function than over real ones: what is no whole number is cut off.
    cuts: ClassVar[bool] = False
    # The second input holds whole numbers that say which elements of the first are read or written.
    subscripts: ClassVar[bool] = False
    # The outputs depend on the shapes of the inputs alone.
    measures: ClassVar[bool] = False
    # Which elements the outputs hold depends on how real numbers are ordered.
    orders: ClassVar[bool] = False
    # The output is floats brought onto a grid, so that it depends on how these were rounded.
    rounds: ClassVar[bool] = False
    # The output jumps where a real number passes some value: there it depends on how that was rounded.
    jumps: ClassVar[bool] = False

    def accepts(self, call: Typed) -> str | None:
        """None if this use is inside what the class implements, else why it is not."""
        return None

    def presumes(self, call: Typed) -> bool:
        """Whether the types that are inferred take for granted what some open sizes do not hold."""
        return False

    @abstractmethod
    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """Output types; raises ProgramError on a use that is wrong."""

    @abstractmethod
    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """Output arrays. Real arithmetic goes through `arith`; moving data around does not."""

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """Index formulas of the outputs."""
        raise ProgramError(f"op '{self.name}' has no formula")

    def element(self, m: Elements[Any, Any], node: Node, at: tuple[Any, ...]) -> Any:
        """The element of the output at subscripts, in an algebra `m`; None: as the formula says.

        For what formulas do not tell: element types, a choice among parts, subscripts that are computed.
        """
        return None

    def steps(self, call: Typed) -> int:
        """How often the op applies a function to its own result, at the given static types."""
        return 1

    def cost(self, call: Typed, outputs: tuple[TensorType | None, ...]) -> int:
        """Multiply-adds of the op at the given static types; 0 for data movement and elementwise ops."""
        return 0


OPS: Registry[Op] = Registry("op", "tensmith.ir.ops")
BY_ONNX: dict[tuple[str, str], Op] = {}

Class = TypeVar("Class", bound=type[Op])
Family = TypeVar("Family")


def op(
    name: str,
    onnx: str = "",
    *,
    attributes: Attrs | None = None,
    moved: Mapping[str, tuple[int, int]] | None = None,
    since: int = 1,
    domain: str = "",
) -> Callable[[Class], Class]:
    """Registers an op class under its TensIR name and its ONNX operator, if there is one."""

    def register(cls: Class) -> Class:
        cls.name, cls.onnx, cls.domain, cls.since = name, onnx, domain, since
        cls.attributes = dict(attributes or {})
        cls.moved = dict(moved or {})
        instance = cls()
        OPS.add(name, instance)
        if onnx:
            BY_ONNX[domain, onnx] = instance
        return cls

    return register


def find_onnx(domain: str, op_type: str) -> Op | None:
    """The op that stands for an ONNX operator, or None."""
    len(OPS)  # discovers the families
    return BY_ONNX.get(("" if domain == "ai.onnx" else domain, op_type))


@dataclass(frozen=True, eq=False)
class Node:
    """One use of an op in a program. Omitted optional inputs and unused outputs are empty strings.

    `opaque` holds the serialised ONNX NodeProto of an operator TensIR does not know; `op` is then its
    qualified name, as "onnx.Loop" or "com.microsoft.FusedConv". Opaque nodes run and round-trip, and
    rewrites go around them.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Attrs = field(default_factory=dict)
    name: str = ""
    opaque: bytes | None = None

    @property
    def definition(self) -> Op:
        """The op's class."""
        return OPS[self.op]

    def kind(self, family: Callable[..., Family]) -> Family | None:
        """The op as one of a family of ops (a class, abstract ones too), with what these declare, or None."""
        if self.opaque is not None or not isinstance(self.definition, cast(type, family)):
            return None
        return cast(Family, self.definition)

    def surely(self, family: Callable[..., Family]) -> Family:
        """The op as one of a family that it is known to be of."""
        found = self.kind(family)
        assert found is not None, self.label
        return found

    @property
    def traits(self) -> type[Op]:
        """What the op declares of itself; nothing of an op that TensIR does not know."""
        return Op if self.opaque is not None else type(self.definition)

    @property
    def function(self) -> Hashable:
        """What it computes of what it reads: equal for equal ops with equal attributes. An opaque node's is
        its own alone, as it may draw random numbers."""
        own = (self.opaque, self.outputs) if self.opaque is not None else None
        return self.op, _frozen(self.attrs), own

    def operand(self, index: int) -> str:
        """An input by its place, "" where it is omitted."""
        return self.inputs[index] if index < len(self.inputs) else ""

    def operands(self, count: int) -> tuple[str, ...]:
        """The first inputs, "" for those omitted."""
        return tuple(map(self.operand, range(count)))

    def fixed_by(self, values: Container[str]) -> bool:
        """Whether all that it reads beside its first input is among some values, constants above all."""
        return all(name in values for name in self.inputs[1:] if name)

    def unordered(self, read: Iterable[Sortable]) -> tuple[Sortable, ...]:
        """What stands for its inputs, sorted where their order does not matter."""
        return tuple(sorted(read)) if self.traits.commutative else tuple(read)

    @property
    def picked(self) -> tuple[str, ...]:
        """The inputs whose elements the outputs hold, where they hold no others: the op commutes with every
        rising function. () of an op that computes."""
        if self.traits.joins:
            return self.inputs
        return self.inputs[:1] if self.traits.moves or self.traits.selects else ()

    @property
    def modular(self) -> bool:
        """Whether integers modulo 2^bits come of the inputs modulo 2^bits: sums, products, what moves."""
        traits = self.traits
        return traits.ring or traits.moves or traits.joins or traits.carries

    @property
    def output(self) -> str:
        """The first output that is not omitted, which names the node's site."""
        return self.outputs[0] or next(filter(None, self.outputs), "")

    @property
    def label(self) -> str:
        """How messages call it."""
        return f"node '{self.name or self.output}' ({self.op})"


def trimmed(operands: Sequence[str]) -> tuple[str, ...]:
    """Operands without the omitted ones at the end."""
    count = len(operands)
    while count and not operands[count - 1]:
        count -= 1
    return tuple(operands[:count])


def _frozen(value: object) -> Hashable:
    """An attribute's value as something that can be a dictionary's key."""
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.shape, value.tobytes())
    if isinstance(value, Mapping):
        return tuple(sorted((key, _frozen(item)) for key, item in value.items()))
    if isinstance(value, tuple):
        return tuple(map(_frozen, value))
    return (value, math.copysign(1.0, value)) if isinstance(value, float) else value  # 0.0 is not -0.0
