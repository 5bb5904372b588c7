"""Types an ONNX file states: of its inputs, and of values that cannot be inferred."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from tensmith.formula.poly import Dim, Poly
from tensmith.frontend.onnx_passes import with_shapes
from tensmith.ir.names import size_symbol, take
from tensmith.ir.onnx_schema import ELEMENT_TYPES
from tensmith.ir.ops.sizes import stated_size
from tensmith.ir.types import TensorType


class Symbols:
    """The sizes a file leaves open: each name it gives is one variable, each unnamed size a new one.

    inputs_read: from then on new sizes are of values that nothing infers, and data may decide them.
    """

    def __init__(self) -> None:
        self.inputs_read = False
        self._of_param: dict[str, str] = {}
        self._taken: set[str] = set()

    def named(self, param: str) -> Poly:
        """The variable of a dim_param, whose name is made an identifier."""
        if param not in self._of_param:
            self._of_param[param] = self._free(size_symbol(param))
        return Poly.symbol(self._of_param[param])

    def fresh(self) -> Poly:
        """A variable of its own."""
        return Poly.symbol(self._free("unknown"))

    def _free(self, base: str) -> str:
        return take(stated_size(base) if self.inputs_read else base, self._taken, 1)

    def dim(self, proto: onnx.TensorShapeProto.Dimension, place: str = "") -> Dim:
        """One size; a negative one means unknown, as some exporters write it.

        `place` names a size that has no name.
        """
        if proto.dim_param:
            return self.named(proto.dim_param)
        if proto.HasField("dim_value") and proto.dim_value >= 0:
            return proto.dim_value
        return self.named(place) if place else self.fresh()


def tensor_type(proto: onnx.TypeProto, symbols: Symbols, name: str = "") -> TensorType | None:
    """The type a file states; None for sequences, maps, optionals and unknown element types.

    Sizes without a name are called INPUT.AXIS, as engines do, where `name` says the input.
    """
    element = ELEMENT_TYPES.get(proto.tensor_type.elem_type) if proto.HasField("tensor_type") else None
    if element is None:
        return None
    if not proto.tensor_type.HasField("shape"):
        return TensorType(element, None)
    dims = proto.tensor_type.shape.dim
    places = (f"{name}.{axis}" if name else "" for axis in range(len(dims)))
    return TensorType(element, tuple(map(symbols.dim, dims, places)))


class Stated:
    """Types the file states or ONNX's own shape inference finds, looked up only where needed."""

    def __init__(self, model: onnx.ModelProto, symbols: Symbols) -> None:
        self._model = model
        symbols.inputs_read = True
        self._symbols = symbols
        self._stated = _protos((*model.graph.value_info, *model.graph.output))
        self._inferred: dict[str, onnx.TypeProto] | None = None

    def find(self, name: str) -> TensorType | None:
        """The type of a value if it is a tensor and known."""
        if name not in self._stated:
            if self._inferred is None:
                self._inferred = self._infer()
            proto = self._inferred.get(name)
        else:
            proto = self._stated[name]
        return None if proto is None else tensor_type(proto, self._symbols)

    def _infer(self) -> dict[str, onnx.TypeProto]:
        model = with_shapes(self._model)
        return {} if model is None else _protos((*model.graph.value_info, *model.graph.output))


def _protos(values: Iterable[onnx.ValueInfoProto]) -> dict[str, onnx.TypeProto]:
    return {value.name: value.type for value in values}
