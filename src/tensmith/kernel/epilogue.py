"""What happens to a vector of sums before it is stored: bias, residual, activation.

y = activation(sums + bias + residual)
"""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.kernel.buffer import Buffer


@dataclass(frozen=True)
class Activation:
    """A function in C of its own: the statements `body` make of the vector x_ the value of the last one."""

    name: str
    body: str

    def apply(self, x: str) -> str:
        """The C expression of the activated vector `x`."""
        return f"({{ vf x_ = {x}; {self.body}; }})"


@dataclass(frozen=True)
class Epilogue:
    """What a kernel does to its sums: whether it adds a `bias`; how the `residual` lies, if it adds one.

    `inner` if sums of 8-bit products, with the bias unless it is `late`, are rounded onto a grid of their own
    before anything else. Bytes are `shifted` by a zero point, and `bounded` more narrowly than bytes are, but
    where it is known that they are not.
    """

    bias: bool = False
    residual: Buffer | None = None
    activation: Activation | None = None
    inner: bool = False
    late: bool = False
    shifted: bool = True
    bounded: bool = True

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
