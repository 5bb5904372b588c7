"""What happens to a vector of sums before it is stored: bias, residual, activation.

y = activation(sums + bias + residual)
"""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.kernel.buffer import Buffer


@dataclass(frozen=True)
class Activation:
    """An elementwise function of C vectors: `name` and up to two numbers, as clip's bounds."""

    name: str
    parameters: tuple[float, ...] = ()

    def apply(self, x: str) -> str:
        """The C expression of the activated vector `x`."""
        return ACTIVATIONS[self.name].format(x, *(f"splat({literal(p)})" for p in self.parameters))


@dataclass(frozen=True)
class Curve(Activation):
    """A function in C of its own: the statements `body` make of the vector x_ the value of the last one."""

    body: str = ""

    def apply(self, x: str) -> str:
        """The statements on `x`."""
        return f"({{ vf x_ = {x}; {self.body} }})"


# C expressions of a vector {0} and parameters {1}, {2}. A NaN stays one: vmax and vmin give their second
# argument where either is NaN.
ACTIVATIONS = {
    "relu": "vmax(splat(0), {0})",
    "clip": "vmin({2}, vmax({1}, {0}))",
    "leaky_relu": "vleaky({0}, {1})",
    "hard_sigmoid": "vmin(splat(1), vmax(splat(0), {1} * ({0}) + {2}))",
    "sigmoid": "vsigmoid({0})",
    "tanh": "vtanh({0})",
    "swish": "vswish({0})",
    "gelu": "vgelu({0})",
    "hard_swish": "vhard_swish({0})",
}


@dataclass(frozen=True)
class Epilogue:
    """What a kernel does to its sums: whether it adds a `bias`; how the `residual` lies, if it adds one.

    `inner` if sums of 8-bit products, with the bias unless it is `late`, are rounded onto a grid of their own
    before anything else.
    """

    bias: bool = False
    residual: Buffer | None = None
    activation: Activation | None = None
    inner: bool = False
    late: bool = False

    def apply(self, sums: str, bias: str, residual: str) -> str:
        """The C expression of the finished vector, from those of its three inputs."""
        terms = [sums, *([bias] if self.bias else []), *([residual] if self.residual else [])]
        value = " + ".join(terms)
        return value if self.activation is None else self.activation.apply(value)

    def __str__(self) -> str:
        words = [
            *(["own grid"] if self.inner else []),
            *(["late bias" if self.late else "bias"] if self.bias else []),
            *(["residual"] if self.residual else []),
            *([self.activation.name] if self.activation else []),
        ]
        return ", ".join(words) or "plain sums"


def literal(value: float) -> str:
    """A C float literal of exactly this single-precision number."""
    if value != value:
        return "NAN"
    if value in (float("inf"), float("-inf")):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    return f"({float(value).hex()}f)" if value < 0 else f"{float(value).hex()}f"
