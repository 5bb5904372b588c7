"""Recurrent layers: a step of a few gates, folded over the elements of a sequence, forwards or backwards.

An op is its `step`: functions of scalars around products of a state with weights. Arrays are computed by it,
in floats and in a field, and native code is printed from it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.formula.poly import Dim, Poly, simplify_dim
from tensmith.formula.scalars import Scalars, T, where
from tensmith.ir.op import Attrs, Op, Run, Typed, op
from tensmith.ir.ops.activation import relu, sigmoid
from tensmith.ir.ops.shared import may_equal
from tensmith.ir.ops.sizes import as_ints
from tensmith.ir.tensors import widen
from tensmith.ir.types import Shape, TensorType

DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
ATTRIBUTES = {
    "activation_alpha": None, "activation_beta": None, "activations": None, "clip": None,
    "direction": "forward", "hidden_size": None, "layout": 0,
}  # fmt: skip

Activation: TypeAlias = Callable[[Scalars[Any], Any], Any]


def _tanh(m: Scalars[T], x: T) -> T:
    return m.call("tanh", x)


_FUNCTIONS: dict[str, Activation] = {"sigmoid": sigmoid, "tanh": _tanh, "relu": relu}


class Stacks(NamedTuple):
    """What a fold does with whole arrays: products, arrays as one along a new axis, zeros of a shape like
    those of an array."""

    matmul: Callable[[Any, Any], Any]
    stack: Callable[..., Any]
    zeros: Callable[[tuple[int, ...], Any], Any]


class Recurrent(Op):
    """state, ... = step(x[t] W + Wb, products of the state with R, + Rb, state), t = 0, 1, ...

    Inputs: x [S, N, I], W [D, G*H, I], R [D, G*H, H], B [D, 2*G*H] (Wb and then Rb), the lengths [N], else
    S, and where each state begins [D, N, H], at `first`, else with zeros. Outputs: the first state after
    every step [S, D, N, H], and each state after the last one [D, N, H]. D is 2 if bidirectional; with
    layout 1, N comes first everywhere. Without W, x holds x W + Wb [S, N, D*G*H]. Behind its length, a
    sequence's states stay as they are, and the output is 0; of one without elements, the last states, too.
    """

    gates: ClassVar[int]
    activations: ClassVar[tuple[str, ...]]
    # The inputs that states begin with, and the one that peepholes [D, 3*H] are, if there may be such.
    first: ClassVar[tuple[int, ...]] = (5,)
    peepholes: ClassVar[int | None] = None

    @abstractmethod
    def step(
        self, m: Scalars[T], x: Sequence[T], product: Callable[[int, T], T], state: tuple[T, ...],
        peepholes: Sequence[T], attrs: Attrs,
    ) -> tuple[T, ...]:  # fmt: skip
        """The next state, from the input's sums of each gate; `product` is a gate's weights times a value."""

    def functions(self, attrs: Attrs) -> list[Activation]:
        """The activation functions, in the order of ONNX."""
        return [_FUNCTIONS[name.lower()] for name in self._activations(attrs)[: len(self.activations)]]

    def _activations(self, attrs: Attrs) -> tuple[str, ...]:
        return attrs["activations"] or self.activations * len(directions(attrs))

    def accepts(self, call: Typed) -> str | None:
        """Without clipping, coupled gates and rare functions."""
        attrs, given = call.attrs, self._activations(call.attrs)
        for name in ("clip", "activation_alpha", "activation_beta"):
            if attrs[name] is not None:
                return f"{name} is {attrs[name]}"
        if attrs.get("input_forget"):
            return "input_forget is 1"
        if unknown := [name for name in given if name.lower() not in _FUNCTIONS]:
            return f"activation {unknown[0]}"
        if given != given[: len(self.activations)] * len(directions(attrs)):
            return f"activations are {', '.join(given)}"
        return None

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """Types of y and of the last states; sizes that are known must agree."""
        x, r = call.type(0), call.type(2)
        if x.shape is None or r.shape is None:
            return tuple(x.with_shape(None) for _ in range(call.n_outputs))
        for name, type_ in (("x", x), ("R", r)):
            if len(type_.dims) != 3:
                raise ProgramError(f"{name} is {type_}; a recurrent layer takes it with 3 axes")
        ways, (_, rows, hidden) = len(directions(call.attrs)), r.dims
        steps, count, depth = self._axes(call.attrs, x.dims)
        inner: Dim = simplify_dim(Poly.of(hidden) * (self.gates * ways))
        wanted: dict[int, Shape] = {2: (ways, simplify_dim(Poly.of(hidden) * self.gates), hidden)}
        if call.has(1):
            wanted[1] = (ways, rows, depth)
        elif isinstance(inner, int) and isinstance(depth, int) and inner != depth:
            raise ProgramError(f"x is {x}, and holds {inner} sums for each element")
        wanted[3] = (ways, simplify_dim(Poly.of(hidden) * (2 * self.gates)))
        last = (count, ways, hidden) if call.attrs["layout"] else (ways, count, hidden)
        wanted |= dict.fromkeys(self.first, last)
        if self.peepholes is not None:
            wanted[self.peepholes] = (ways, simplify_dim(Poly.of(hidden) * 3))
        wanted[4] = (count,)
        for place, shape in wanted.items():
            if call.has(place):
                _agrees(place, call.type(place), shape)
        stated = call.attrs["hidden_size"]
        if stated and isinstance(hidden, int) and stated != hidden:
            raise ProgramError(f"hidden_size is {stated}, but R is {r}")
        y = (count, steps, ways, hidden) if call.attrs["layout"] else (steps, ways, count, hidden)
        return (x.with_shape(y), *(x.with_shape(last) for _ in self.first))[: call.n_outputs]

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """The fold, one direction after the other."""
        inputs = [None if array is None else widen(array) for array in call.inputs]

        def zeros(shape: tuple[int, ...], like: Array) -> Array:
            return np.broadcast_to(arith.const(0.0, like=like), shape)

        folded = self.fold(inputs, call.attrs, arith, Stacks(arith.matmul, np.stack, zeros))
        return folded[: len(call.out_types)]

    def fold(self, inputs: Sequence[Any], attrs: Attrs, m: Scalars[Any], arrays: Stacks) -> tuple[Any, ...]:
        """All outputs, of arrays as NumPy and PyTorch have them; ProgramError without x or R."""
        given: list[Any] = [*inputs, *[None] * (8 - len(inputs))]
        x, w, r, b, lengths, *rest = given
        starts = [rest[place - 5] for place in self.first]
        if x is None or r is None:
            raise ProgramError("input 0 or 2 is missing")
        if attrs["layout"]:
            x, starts = x.swapaxes(0, 1), [None if s is None else s.swapaxes(0, 1) for s in starts]
        ways, rows, hidden = r.shape
        if w is not None:
            x = arrays.matmul(x, w.reshape(ways * rows, w.shape[2]).T)
            x = x if b is None else m.add(x, b[:, :rows].reshape(-1))
        length, count = x.shape[:2]
        sums = x.reshape(length, count, ways, self.gates, hidden)
        whole = lengths is None or bool((lengths == length).all())
        zeros = arrays.zeros((count, hidden), r)
        folded = []
        for way, backwards in enumerate(directions(attrs)):
            weights = r[way].reshape(self.gates, hidden, hidden)
            bias = None if b is None else b[way, rows:].reshape(self.gates, hidden)
            looks = None if self.peepholes is None else rest[self.peepholes - 5]
            holes = () if looks is None else tuple(looks[way].reshape(3, hidden))

            def product(gate: int, value: Any, weights: Any = weights, bias: Any = bias) -> Any:
                found = arrays.matmul(value, weights[gate].T)
                return found if bias is None else m.add(found, bias[gate])

            state = tuple(zeros if start is None else start[way] for start in starts)
            seen = [zeros] * length
            for t in reversed(range(length)) if backwards else range(length):
                gates = tuple(sums[t, :, way, gate] for gate in range(self.gates))
                after = self.step(m, gates, product, state, holes, attrs)
                if whole:
                    state, seen[t] = after, after[0]
                    continue
                runs = m.compare("less", m.const(t, like=lengths), lengths)[:, None]
                state = tuple(where(runs, new, old) for new, old in zip(after, state))
                seen[t] = where(runs, after[0], zeros)
            if not whole:
                begun = m.compare("less", m.const(0, like=lengths), lengths)[:, None]
                state = tuple(where(begun, last, zeros) for last in state)
            folded.append((arrays.stack(seen) if seen else arrays.zeros((0, count, hidden), r), *state))
        y, *last = (arrays.stack(parts, int(place == 0)) for place, parts in enumerate(zip(*folded)))
        if attrs["layout"]:
            y, last = y.swapaxes(1, 2).swapaxes(0, 1), [state.swapaxes(0, 1) for state in last]
        return (y, *last)

    def steps(self, call: Typed) -> int:
        """As many as x has."""
        x = call.type(0).static
        return 1 if x is None else as_ints(self._axes(call.attrs, x))[0]

    def cost(self, call: Typed, outputs: tuple[TensorType | None, ...]) -> int:
        """Products of the input and of the state with their weights."""
        x, r = call.type(0).static, call.type(2).static
        if x is None or r is None:
            return 0
        inner = r[2] + (x[2] if call.has(1) else 0)
        return math.prod(as_ints((x[0], x[1], r[0], r[1], inner)))

    def _axes(self, attrs: Attrs, x: Shape) -> Shape:
        """(steps, batch, size of an element) of x."""
        return (x[1], x[0], x[2]) if attrs["layout"] else x


def directions(attrs: Attrs) -> tuple[bool, ...]:
    """Of each direction, whether it goes backwards."""
    if attrs["direction"] not in DIRECTIONS:
        raise ProgramError(f"direction '{attrs['direction']}' is none of {', '.join(DIRECTIONS)}")
    return DIRECTIONS[attrs["direction"]]


def _agrees(place: int, type_: TensorType, shape: Shape) -> None:
    """ProgramError where an input has not the shape that the others ask for."""
    if type_.shape is not None and not may_equal(type_.shape, shape):
        wanted = ", ".join(map(str, shape))
        raise ProgramError(f"input {place} of a recurrent layer is {type_}, not [{wanted}]")


@op("lstm", onnx="LSTM", attributes={**ATTRIBUTES, "input_forget": 0})
class Lstm(Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber 1997). ONNX LSTM.

    Gates i, o, f, c. States h and c begin with inputs 5 and 6; input 7 are peepholes of i, o and f.
    """

    gates = 4
    activations = ("Sigmoid", "Tanh", "Tanh")
    first = (5, 6)
    peepholes = 7

    def step(
        self, m: Scalars[T], x: Sequence[T], product: Callable[[int, T], T], state: tuple[T, ...],
        peepholes: Sequence[T], attrs: Attrs,
    ) -> tuple[T, ...]:  # fmt: skip
        """c' = f c + i g, h' = o tanh(c')."""
        (h, c), (gate, inner, outer) = state, self.functions(attrs)
        i, o, f, g = (m.add(x[place], product(place, h)) for place in range(4))
        if peepholes:
            i, f = m.add(i, m.mul(peepholes[0], c)), m.add(f, m.mul(peepholes[2], c))
        c = m.add(m.mul(gate(m, f), c), m.mul(gate(m, i), inner(m, g)))
        if peepholes:
            o = m.add(o, m.mul(peepholes[1], c))
        return m.mul(gate(m, o), outer(m, c)), c


@op("gru", onnx="GRU", attributes={**ATTRIBUTES, "linear_before_reset": 0})
class Gru(Recurrent):
    """Gated recurrent unit (Cho et al. 2014). ONNX GRU.

    Gates z, r, h. r is applied to the state before its product with the weights of the last gate, or, if
    linear_before_reset, to that product.
    """

    gates = 3
    activations = ("Sigmoid", "Tanh")

    def step(
        self, m: Scalars[T], x: Sequence[T], product: Callable[[int, T], T], state: tuple[T, ...],
        peepholes: Sequence[T], attrs: Attrs,
    ) -> tuple[T, ...]:  # fmt: skip
        """h' = (1 - z) new + z h."""
        (h,), (gate, inner) = state, self.functions(attrs)
        z, r = (gate(m, m.add(x[place], product(place, h))) for place in range(2))
        linear = attrs["linear_before_reset"]
        reset = m.mul(r, product(2, h)) if linear else product(2, m.mul(r, h))
        new = inner(m, m.add(x[2], reset))
        return (m.add(m.mul(m.sub(m.const(1, z), z), new), m.mul(z, h)),)


@op("rnn", onnx="RNN", attributes=ATTRIBUTES)
class Rnn(Recurrent):
    """h' = f(x W + Wb + h R + Rb) (Elman 1990). ONNX RNN."""

    gates = 1
    activations = ("Tanh",)

    def step(
        self, m: Scalars[T], x: Sequence[T], product: Callable[[int, T], T], state: tuple[T, ...],
        peepholes: Sequence[T], attrs: Attrs,
    ) -> tuple[T, ...]:  # fmt: skip
        """One gate, which is the state."""
        (function,) = self.functions(attrs)
        return (function(m, m.add(x[0], product(0, state[0]))),)
