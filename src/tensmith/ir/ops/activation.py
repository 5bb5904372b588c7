"""Activation functions, each a formula of one element; equal functions are built of equal parts."""

from __future__ import annotations

import math

from tensmith.formula.scalars import Scalars, T, where
from tensmith.ir.op import Typed
from tensmith.ir.ops.arithmetic import clip
from tensmith.ir.ops.elementwise import Elementwise, elementwise, single


@elementwise("Relu")
def relu(m: Scalars[T], x: T) -> T:
    """y = max(x, 0)."""
    return m.call("maximum", x, m.const(0, x))


@elementwise("LeakyRelu")
def leaky_relu(m: Scalars[T], x: T, *, alpha: float = 0.01) -> T:
    """y = alpha x where x < 0, else x."""
    return _leaky(m, x, m.mul(m.const(alpha, x), x))


@elementwise("PRelu", "prelu", one_way=True)
def prelu(m: Scalars[T], x: T, slope: T) -> T:
    """y = slope x where x < 0, else x."""
    return _leaky(m, x, m.mul(slope, x))


def _leaky(m: Scalars[T], x: T, below: T) -> T:
    return where(m.compare("less", x, m.const(0, x)), below, x)


@elementwise("Elu")
def elu(m: Scalars[T], x: T, *, alpha: float = 1.0) -> T:
    """y = alpha (exp(x) - 1) where x < 0, else x."""
    return _leaky(m, x, m.mul(m.const(alpha, x), _exp_minus_one(m, x)))


def _exp_minus_one(m: Scalars[T], x: T) -> T:
    return m.sub(m.call("exp", x), m.const(1, x))


@elementwise("Selu")
def selu(m: Scalars[T], x: T, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323) -> T:
    """y = gamma elu(x, alpha)."""
    return m.mul(m.const(gamma, x), elu(m, x, alpha=alpha))


@elementwise("Celu")
def celu(m: Scalars[T], x: T, *, alpha: float = 1.0) -> T:
    """y = alpha elu(x / alpha, 1)."""
    scale = m.const(alpha, x)
    return m.mul(scale, elu(m, m.div(x, scale)))


@elementwise("Sigmoid")
def sigmoid(m: Scalars[T], x: T) -> T:
    """y = 1 / (1 + exp(-x))."""
    one = m.const(1, x)
    return m.div(one, m.add(one, m.call("exp", m.sub(m.const(0, x), x))))


@elementwise("HardSigmoid")
def hard_sigmoid(m: Scalars[T], x: T, *, alpha: float = 0.2, beta: float = 0.5) -> T:
    """y = clip(alpha x + beta, 0, 1)."""
    line = m.add(m.mul(m.const(alpha, x), x), m.const(beta, x))
    return clip(m, line, m.const(0, x), m.const(1, x))


@elementwise("HardSwish")
def hard_swish(m: Scalars[T], x: T) -> T:
    """y = x hard_sigmoid(x, 1/6, 1/2)."""
    return m.mul(x, hard_sigmoid(m, x, alpha=single(1 / 6)))


@elementwise("Swish")
def swish(m: Scalars[T], x: T, *, alpha: float = 1.0) -> T:
    """y = x sigmoid(alpha x)."""
    return m.mul(x, sigmoid(m, x if alpha == 1.0 else m.mul(m.const(alpha, x), x)))


@elementwise("SwiGLU", "swiglu")
def swiglu(m: Scalars[T], gate: T, value: T, *, alpha: float = 1.0) -> T:
    """y = swish(gate, alpha) value."""
    return m.mul(swish(m, gate, alpha=alpha), value)


@elementwise("Softplus")
def softplus(m: Scalars[T], x: T) -> T:
    """y = log(1 + exp(x)), as max(x, 0) + log1p(exp(-|x|)), which does not overflow."""
    zero = m.const(0, x)
    rest = m.call("exp", m.sub(zero, m.call("abs", x)))
    return m.add(m.call("maximum", x, zero), m.call("log1p", rest))


@elementwise("Mish")
def mish(m: Scalars[T], x: T) -> T:
    """y = x tanh(softplus(x))."""
    return m.mul(x, m.call("tanh", softplus(m, x)))


@elementwise("Softsign")
def softsign(m: Scalars[T], x: T) -> T:
    """y = x / (1 + |x|)."""
    return m.div(x, m.add(m.const(1, x), m.call("abs", x)))


@elementwise("ThresholdedRelu", jumps=True)
def thresholded_relu(m: Scalars[T], x: T, *, alpha: float = 1.0) -> T:
    """y = x where alpha < x, else 0."""
    return where(m.compare("less", m.const(alpha, x), x), x, m.const(0, x))


class OfFloats(Elementwise):
    """A function whose attributes an integer type would cut off."""

    def accepts(self, call: Typed) -> str | None:
        """Floats alone."""
        x = call.type(0)
        return None if x.floating else f"{self.name} of {x.dtype}"


@elementwise("Shrink", jumps=True, base=OfFloats)
def shrink(m: Scalars[T], x: T, *, lambd: float = 0.5, bias: float = 0.0) -> T:
    """y = x + bias where x < -lambd, x - bias where lambd < x, else 0."""
    shift = m.const(bias, x)
    above = where(m.compare("less", m.const(lambd, x), x), m.sub(x, shift), m.const(0, x))
    return where(m.compare("less", x, m.const(-lambd, x)), m.add(x, shift), above)


@elementwise("Gelu")
def gelu(m: Scalars[T], x: T, *, approximate: str = "none") -> T:
    """y = x (1 + erf(x / sqrt 2)) / 2, or the tanh approximation (Hendrycks and Gimpel 2016)."""
    if approximate == "tanh":
        cubic = m.mul(m.const(single(0.044715), x), m.mul(x, m.mul(x, x)))
        bent = m.call("tanh", m.mul(m.const(single(math.sqrt(2 / math.pi)), x), m.add(x, cubic)))
    else:
        bent = m.call("erf", m.div(x, m.const(single(math.sqrt(2)), x)))
    return m.mul(m.mul(m.const(0.5, x), x), m.add(m.const(1, x), bent))
