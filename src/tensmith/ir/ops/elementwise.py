"""Ops that act on each element alone, with broadcasting: a function of scalars is the whole declaration.

    @elementwise("LeakyRelu")
    def leaky_relu(m, x, *, alpha=0.01):
        return where(m.compare("less", x, m.const(0, x)), m.mul(m.const(alpha, x), x), x)

`m` is the arithmetic: NumPy's, a prime field's, or the one that builds the formula. Keyword parameters are
the ONNX attributes with their defaults; a positional parameter with a default is an optional input.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import reduce as fold
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Expr, Formula, compute
from tensmith.formula.functions import DIVISIONS
from tensmith.formula.scalars import EXPRESSIONS
from tensmith.ir.op import Attrs, Node, Op, Run, Symbolic, Typed, op
from tensmith.ir.ops.shared import broadcast_read, broadcast_shapes, surely_broadcast
from tensmith.ir.tensors import widen
from tensmith.ir.types import TensorType

if TYPE_CHECKING:
    from tensmith.ir.elements import Elements

V = TypeVar("V")
I = TypeVar("I")  # noqa: E741
Meaning = TypeVar("Meaning", bound=Callable[..., Any])


def single(value: float) -> float:
    """A float attribute as ONNX stores it, in 32 bits."""
    return float(np.float32(value))


class Elementwise(Op):
    """y[i] = meaning(a[i], b[i], ...), inputs broadcast.

    The output has the element type `result`, or that of input number `like`.
    """

    meaning: ClassVar[Callable[..., Any]]
    # The scalar function (`formula.functions`) that the meaning is, of two at a time where it takes many;
    # "" where it is made of several.
    function: ClassVar[str] = ""
    many: ClassVar[bool] = False
    # ONNX gives the output the shape of the first input, to which the others are broadcast.
    one_way: ClassVar[bool] = False
    result: ClassVar[str | None] = None
    like: ClassVar[int] = 0

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """The broadcast of the shapes."""
        types = [t for t in call.types if t is not None]
        dtype = self.result or call.type(self.like).dtype
        if any(t.shape is None for t in types):
            return (TensorType(dtype, None),)
        return (TensorType(dtype, broadcast_shapes(*(t.dims for t in types))),)

    def presumes(self, call: Typed) -> bool:
        """Where open sizes meet others, and where sizes are divided."""
        sizes = any(value is not None and value.dtype == object for value in call.values)
        divided = sizes and self.scalar(call.attrs) in DIVISIONS
        return divided or not surely_broadcast(*(t.shape for t in call.types if t is not None))

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """The meaning over arrays, 16-bit floats in 32 bits so that only the result is rounded."""
        return (np.asarray(self._apply(arith, call.attrs, *map(widen, call.inputs))),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """The meaning as one expression at each position."""
        shape = broadcast_shapes(*(t.shape for t in call.inputs if t is not None))

        def element(*at: Any) -> Expr:
            reads = (None if t is None else broadcast_read(t, at) for t in call.inputs)
            value: Expr = self.value(EXPRESSIONS, call, *reads)
            return value

        return (compute(shape, element),)

    def element(self, m: Elements[V, I], node: Node, at: tuple[I, ...]) -> V | None:
        """The scalar function of the operands."""
        function = self.scalar(node.attrs)
        if not function or not m.knows(function):
            return None
        args = m.operands(node, at)
        if self.many:
            return fold(lambda a, b: m.apply(function, (a, b), node), args)
        return m.apply(function, args, node)

    def scalar(self, attrs: Attrs) -> str:
        """`function`, where attributes choose it."""
        return self.function

    def value(self, m: Any, call: Symbolic, *args: Any) -> Any:
        """The meaning of one element of each input, where constants may be known."""
        return self._apply(m, call.attrs, *args)

    def _apply(self, m: Any, attrs: Attrs, *args: Any) -> Any:
        given = {name: _rounded(attrs[name]) for name in self.attributes}
        return type(self).meaning(m, *args, **given)


def _rounded(value: Any) -> Any:
    return single(value) if isinstance(value, float) else value


def elementwise(
    onnx: str,
    name: str | None = None,
    *,
    function: str = "",
    result: str | None = None,
    like: int = 0,
    base: type[Elementwise] = Elementwise,
    **traits: bool,
) -> Callable[[Meaning], Meaning]:
    """Declares an op by its meaning; the function's own name is the op's unless `name` is given. `traits` as
    `Op` has them."""

    def declare(meaning: Meaning) -> Meaning:
        parameters = inspect.signature(meaning).parameters.values()
        attributes = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
        fields = {
            "__doc__": f"{meaning.__doc__ or onnx} ONNX {onnx}.",
            "__module__": meaning.__module__,
            "meaning": staticmethod(meaning),
            "function": function,
            "many": any(p.kind is p.VAR_POSITIONAL for p in parameters),
            "result": result,
            "like": like,
            **traits,
        }
        declared = type(onnx, (base,), fields)
        op(name or meaning.__name__, onnx=onnx, attributes=attributes)(declared)
        return meaning

    return declare


@op("identity", onnx="Identity")
class Identity(Elementwise):
    """y = x. ONNX Identity."""

    moves = renames = True
    meaning = staticmethod(lambda m, x: x)

    def element(self, m: Elements[V, I], node: Node, at: tuple[I, ...]) -> V:
        """x."""
        return m.at(node.inputs[0], at)


@op("dropout", onnx="Dropout", attributes={"seed": None})
class Dropout(Op):
    """y = x, as dropout is at inference; the mask is all true. ONNX Dropout.

    x: any shape; ratio and training_mode: scalars, without effect at inference. Without its mask it is an
    identity, as which a rule writes it; with it, no trait holds of both outputs.
    """

    def accepts(self, call: Typed) -> str | None:
        """Training mode draws random numbers, so only a known false is accepted."""
        mode = call.value(2)
        if not call.has(2) or (mode is not None and not bool(np.any(mode))):
            return None
        return "training_mode is true or not a constant"

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """x's type, and its shape in booleans for the mask."""
        x = call.type(0)
        return (x, x.with_dtype("bool"))[: call.n_outputs]

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """x itself."""
        mode = call.get(2)
        if mode is not None and bool(np.any(mode)):
            raise ProgramError(
                "dropout in training mode draws random numbers; export the model for inference"
            )
        return (call[0], np.ones(call[0].shape, dtype=np.bool_))[: len(call.out_types)]

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """x, and ones."""
        x = call[0]
        return (x, compute(x.shape, lambda *_: 1))[: call.n_outputs]
