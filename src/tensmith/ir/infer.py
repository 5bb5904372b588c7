"""Types, and values known before running, of a node's outputs.

Shape arithmetic (Shape, Gather, Concat, Mul ...) is run here on arrays of sizes, symbolic ones included, so
that a Reshape whose target is computed from a symbolic batch still gets a type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array, Floats
from tensmith.formula.poly import Dim, Poly, simplify_dim
from tensmith.ir.domains import check_attributes
from tensmith.ir.op import Node, Run, Typed
from tensmith.ir.ops.sizes import is_negative
from tensmith.ir.types import TensorType

_MAX_KNOWN = 256
# Constants of at most so many elements are read by shape arithmetic, by kind of their type.
_READ = {"i": 4096, "u": 4096, "b": 4096, "f": 64}
_MAX_SIZE = 2**63
_MAX_TERMS = 64


@dataclass(frozen=True, eq=False)
class Facts:
    """The type of a value (None if unknown) and its value if known before running."""

    type: TensorType | None
    value: Array | None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Facts) or self.type != other.type:
            return False
        if self.value is other.value:
            return True
        if self.value is None or other.value is None:
            return False
        return self.value.shape == other.value.shape and bool(np.all(self.value == other.value))


def constant_facts(array: Array) -> Facts:
    """The type of a constant, and its value where shape arithmetic may read it."""
    known = array if array.size <= _READ.get(array.dtype.kind, 0) else None
    return Facts(TensorType.of(array), known)


def typed_call(node: Node, given: Sequence[Facts | None]) -> Typed:
    """A node as a use of its op on inputs of which this is known."""
    types = tuple(fact.type if fact else None for fact in given)
    values = tuple(fact.value if fact else None for fact in given)
    return Typed(node.attrs, types, values, len(node.outputs))


def infer_node(
    node: Node, given: tuple[Facts | None, ...], hints: Mapping[str, TensorType]
) -> tuple[Facts, ...]:
    """Facts of each output. Raises ProgramError naming the node."""
    if node.opaque is not None:
        return tuple(Facts(hints.get(name), None) for name in node.outputs)
    call = typed_call(node, given)
    if any(fact is not None and fact.type is None for fact in given):
        return tuple(Facts(hints.get(name), None) for name in node.outputs)
    try:
        check_attributes(node.op, node.attrs)
        types = node.definition.infer(call)
    except ProgramError as error:
        raise ProgramError(f"{node.label}: {error}") from error
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise ProgramError(f"{node.label}: its attributes do not fit its inputs ({error})") from error
    _check_sizes(node, types)
    types = _named_sizes(node, types)
    values = _known_values(node, call, types)
    merged = tuple(_merge(type_, hints.get(name)) for name, type_ in zip(node.outputs, types))
    return tuple(Facts(type_, value) for type_, value in zip(merged, values))


def _check_sizes(node: Node, types: tuple[TensorType | None, ...]) -> None:
    """ProgramError where an output has a size that is surely negative, or more elements than any memory."""
    for output, type_ in zip(node.outputs, types):
        shape = type_.shape if type_ is not None and type_.shape is not None else ()
        if wrong := [dim for dim in shape if (dim < 0 if isinstance(dim, int) else is_negative(dim))]:
            raise ProgramError(f"{node.label}: {output} would have the size {wrong[0]}")
        if math.prod(dim for dim in shape if isinstance(dim, int)) >= _MAX_SIZE:
            raise ProgramError(f"{node.label}: {output} would have over 2**63 elements")


def _named_sizes(node: Node, types: tuple[TensorType | None, ...]) -> tuple[TensorType | None, ...]:
    """Sizes known only at run time, which type rules make fresh, named after the value that first has them.

    So the same node always has the same types, and texts of programs parse. Formulas that have grown out of
    bounds are such sizes too.
    """
    names: dict[str, Poly] = {}
    found = []
    for output, type_ in zip(node.outputs, types):
        if type_ is None or type_.shape is None or type_.static is not None:
            found.append(type_)
            continue
        shape: list[Dim] = []
        for position, dim in enumerate(type_.shape):
            if isinstance(dim, Poly):
                for symbol in sorted(s for s in dim.symbols() if "%" in s):
                    names.setdefault(symbol, Poly.symbol(f"n.{_escaped(output)}.{len(names)}"))
                dim = (
                    dim.substitute(names)
                    if _bounded(dim)
                    else Poly.symbol(f"m.{_escaped(output)}.{position}")
                )
            shape.append(dim)
        found.append(type_.with_shape(shape))
    return tuple(found)


def _bounded(item: object) -> bool:
    """Whether a size or known value is of reasonable extent: a chain of products could grow without end."""
    if not isinstance(item, Poly):
        return not isinstance(item, int) or abs(item) < _MAX_SIZE
    return len(item.terms) <= _MAX_TERMS and all(
        abs(coefficient) < _MAX_SIZE
        and sum(power for _, power in monomial) <= _MAX_TERMS
        and all(
            isinstance(atom, str) or (_bounded(atom.top) and _bounded(atom.bottom)) for atom, _ in monomial
        )
        for monomial, coefficient in item.terms
    )


def _escaped(name: str) -> str:
    """An identifier that no other name gives."""
    return re.sub(r"[^A-Za-z0-9_]", lambda match: f".{ord(match.group()):x}.", name)


def _merge(inferred: TensorType | None, hint: TensorType | None) -> TensorType | None:
    if inferred is None or inferred.shape is None:
        return hint if hint is not None and (inferred is None or hint.dtype == inferred.dtype) else inferred
    return inferred


def _known_values(node: Node, call: Typed, types: tuple[TensorType | None, ...]) -> tuple[Array | None, ...]:
    unknown: tuple[Array | None, ...] = (None,) * len(node.outputs)
    if node.op == "shape":
        return (_shape_value(call, node),)
    first = types[0] if types else None
    if first is None or first.floating or first.static is None or math.prod(first.static) > _MAX_KNOWN:
        return unknown
    if not node.inputs or any(v is None for v, t in zip(call.values, call.types) if t is not None):
        return unknown
    try:
        arrays = node.definition.run(Run(node.attrs, call.values, call.types, types), Floats())
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, ProgramError):
        return unknown  # no meaning on symbolic sizes, or an error that will be met when it runs
    return tuple(
        _simplify(_held(array, type_)) if _all_bounded(array) else None for array, type_ in zip(arrays, types)
    )


def _held(array: Array, type_: TensorType | None) -> Array:
    """As the type holds it: a mean of whole numbers is cut off."""
    return array if array.dtype == object or type_ is None else array.astype(type_.numpy)


def _all_bounded(array: Array) -> bool:
    return array.dtype != object or all(map(_bounded, array.reshape(-1)))


def _simplify(array: Array) -> Array:
    """Object arrays with no symbol left become integer arrays."""
    if array.dtype != object:
        return array
    items = [simplify_dim(item) if isinstance(item, (Poly, int)) else item for item in array.reshape(-1)]
    if all(isinstance(item, (int, bool)) for item in items):
        return np.array(items, dtype=np.int64).reshape(array.shape)
    result = np.empty(len(items), dtype=object)
    result[:] = items
    return result.reshape(array.shape)


def _shape_value(call: Typed, node: Node) -> Array | None:
    type_ = call.types[0]
    if type_ is None or type_.shape is None:
        return None
    dims = list(type_.shape)[node.attrs.get("start", 0) or 0 : node.attrs.get("end")]
    result = np.empty(len(dims), dtype=object)
    result[:] = dims
    return _simplify(result)
