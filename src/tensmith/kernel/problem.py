"""What a heavy op computes, at fixed sizes and for one image: the question that algorithms answer."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class ConvolutionProblem:
    """y[k,o] = sum(c < C/groups, r; x[g(k)*C/groups + c, o*strides + r*dilations - pads] * w[k,c,r]).

    x: [channels, height, width]; w: [filters, channels/groups, *window]. `pads` are (top, left, bottom,
    right), as in ONNX. A matrix product a[rows, inner] @ b[inner, columns] is the 1x1 convolution of an image
    of 1 x rows positions: see `product`. `density` is the share of w that is not zero, `quads` and
    `strips` the shares of its fours of neighbouring channels and filters that are not all zero. Weights
    may be codes of which each `block` channels share a scale: see kernel.codes. `narrow` if none of the bytes
    of w is beyond 64, so that the sum of two products with unsigned bytes fits 16 bits.
    """

    channels: int
    height: int
    width: int
    filters: int
    window: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)
    groups: int = 1
    dtype: str = "f32"
    density: float = 1.0
    block: int = 0
    quads: float = 1.0
    strips: float = 1.0
    narrow: bool = False

    @property
    def output(self) -> tuple[int, int]:
        """Height and width of y."""
        top, left, bottom, right = self.pads
        sizes = (self.height + top + bottom, self.width + left + right)
        return (
            (sizes[0] - self.dilations[0] * (self.window[0] - 1) - 1) // self.strides[0] + 1,
            (sizes[1] - self.dilations[1] * (self.window[1] - 1) - 1) // self.strides[1] + 1,
        )

    @property
    def depth(self) -> int:
        """Multiply-adds behind one element of y."""
        return self.channels // self.groups * self.window[0] * self.window[1]

    @property
    def macs(self) -> int:
        """Multiply-adds of the whole image."""
        height, width = self.output
        return self.filters * height * width * self.depth

    @property
    def dense(self) -> ConvolutionProblem:
        """The same, wherever w has zeros: what it is for kernels that multiply by all of w."""
        return replace(self, density=1.0, quads=1.0, strips=1.0)

    @property
    def pointwise(self) -> bool:
        """Whether each position of y depends on the same position of x alone."""
        return self.window == (1, 1) and self.strides == (1, 1) and self.pads == (0, 0, 0, 0)

    @property
    def depthwise(self) -> bool:
        """Whether each channel is convolved by itself."""
        return self.groups == self.channels == self.filters

    def __str__(self) -> str:
        grouped = f", {self.groups} groups" if self.groups > 1 else ""
        dilated = f", dilations {self.dilations[0]}x{self.dilations[1]}" if max(self.dilations) > 1 else ""
        sparse = f", {1 - self.density:.0%} zeros" if self.density < 1 else ""
        coded = f" in blocks of {self.block}" if self.block else " by narrow weights" if self.narrow else ""
        return (
            f"{self.window[0]}x{self.window[1]} convolution of {self.channels}x{self.height}x{self.width}"
            f" to {self.filters}x{self.output[0]}x{self.output[1]}, {self.dtype}{coded}, strides"
            f" {self.strides[0]}x{self.strides[1]}, pads {self.pads}{dilated}{grouped}{sparse}"
        )


def product(rows: int, inner: int, columns: int, dtype: str = "f32", block: int = 0) -> ConvolutionProblem:
    """a[rows, inner] @ b[inner, columns] as a convolution; w = b transposed, as [columns, inner, 1, 1]."""
    return ConvolutionProblem(inner, 1, rows, columns, dtype=dtype, block=block)


def distance(one: ConvolutionProblem, other: ConvolutionProblem) -> float:
    """Sum of the octaves between their sizes; infinity between problems that differ in more than sizes."""
    if _kind(one) != _kind(other):
        return math.inf
    sizes = ((p.channels, p.height, p.width, p.filters) for p in (one, other))
    return sum(abs(math.log2(mine / its)) for mine, its in zip(*sizes))


def _kind(problem: ConvolutionProblem) -> ConvolutionProblem:
    """The problem but for its sizes; each channel by itself is one kind, however many there are."""
    groups = 0 if problem.groups == problem.channels else problem.groups
    return replace(problem, channels=0, height=0, width=0, filters=0, groups=groups)
