"""Random small programs of the kind exporters write, with everything in them that rules look for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensmith.ir import Node, Program, TensorType, make_node

Array = np.ndarray


class Builder:
    """Grows a program node by node; every value is an f32 tensor [2, C, H, W] or [2, K]."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self.shapes: dict[str, tuple[int, ...]] = {"x": (2, 3, 6, 5)}

    def constant(self, array: Array) -> str:
        """A constant's name."""
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def floats(self, *shape: int) -> str:
        """A random constant; one in four is uniform, with a number that rules know."""
        if self.random.integers(4) == 0:
            return self.constant(np.full(shape, self.random.choice([0.0, 1.0, 2.0]), dtype=np.float32))
        return self.constant(self.random.uniform(0.5, 1.5, shape).astype(np.float32))

    def ints(self, *values: int) -> str:
        """A vector of integers."""
        return self.constant(np.array(values, dtype=np.int64))

    def add(self, op: str, inputs: list[str], shape: tuple[int, ...], **attrs: object) -> str:
        """A node's output."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(make_node(op, inputs, (name,), attrs))
        self.shapes[name] = tuple(shape)
        return name

    def pick(self, rank: int | None = None, shape: tuple[int, ...] | None = None) -> str:
        """A value made lately, of a rank or a shape."""
        fits = [
            name
            for name, found in self.shapes.items()
            if (rank is None or len(found) == rank) and (shape is None or found == shape)
        ]
        return str(fits[-1 - int(self.random.integers(min(3, len(fits))))])

    def program(self, steps: int) -> Program:
        """A program of about that many nodes; its outputs are the last value and another."""
        for _ in range(steps):
            rank = 2 if 2 in map(len, self.shapes.values()) and self.random.integers(3) == 0 else 4
            choices = [*_ANY, *(_IMAGES if rank == 4 else _ROWS)]
            choices[int(self.random.integers(len(choices)))](self, self.pick(rank))
        outputs = dict.fromkeys([list(self.shapes)[-1], self.pick()])
        outputs.pop("x", None)
        if not outputs:
            outputs = {self.add("identity", ["x"], self.shapes["x"]): None}
        return Program(
            "random",
            {"x": TensorType("f32", (2, 3, 6, 5))},
            tuple(outputs),
            tuple(self.nodes),
            self.constants,
        )


Step = Callable[[Builder, str], object]


def _unary(b: Builder, x: str) -> None:
    op = b.random.choice(["relu", "sigmoid", "identity", "neg", "dropout"])
    b.add(str(op), [x], b.shapes[x])


def _with_constant(b: Builder, x: str) -> None:
    shape = b.shapes[x]
    constant = b.floats(*((shape[1], 1, 1) if len(shape) == 4 else (shape[1],)))
    if b.random.integers(3) == 0:
        constant = b.floats()
    # Division by a constant that may be zero has no value to compare.
    b.add(str(b.random.choice(["add", "mul", "sub"])), [x, constant], shape)


def _together(b: Builder, x: str) -> None:
    b.add(str(b.random.choice(["add", "mul"])), [x, b.pick(shape=b.shapes[x])], b.shapes[x])


def _transposed(b: Builder, x: str) -> None:
    rank = len(b.shapes[x])
    perm = (0, *(int(axis) for axis in 1 + b.random.permutation(rank - 1)))
    y = b.add("transpose", [x], tuple(b.shapes[x][axis] for axis in perm), perm=perm)
    if b.random.integers(2):
        y = b.add("relu", [y], b.shapes[y])
    back = tuple(int(axis) for axis in np.argsort(perm))
    b.add("transpose", [y], tuple(b.shapes[y][axis] for axis in back), perm=back)


def _reshaped(b: Builder, x: str) -> None:
    shape = b.shapes[x]
    flat = (shape[0], int(np.prod(shape[1:])))
    y = b.add("reshape", [x, b.ints(0, -1)], flat)
    y = b.add("unsqueeze", [y, b.ints(1)], (flat[0], 1, flat[1]))
    b.add("reshape", [y, b.ints(*shape)], shape)


def _conv(b: Builder, x: str) -> None:
    n, c, h, w = b.shapes[x]
    if min(h, w) < 3:
        return
    filters, pads = int(b.random.integers(1, 4)), tuple(int(p) for p in b.random.integers(0, 2, 4))
    inputs = [x, b.floats(filters, c, 3, 3), *([b.floats(filters)] if b.random.integers(2) else [])]
    shape = (n, filters, h + pads[0] + pads[2] - 2, w + pads[1] + pads[3] - 2)
    b.add("conv", inputs, shape, pads=pads)


def _two_convs(b: Builder, x: str) -> None:
    n, c, h, w = b.shapes[x]
    parts = [b.add("conv", [x, b.floats(k, c, 1, 1), b.floats(k)], (n, k, h, w)) for k in (1, 2)]
    b.add("concat", parts, (n, 3, h, w), axis=1)


def _batch_norm(b: Builder, x: str) -> None:
    channels = b.shapes[x][1]
    b.add("batch_normalization", [x, *(b.floats(channels) for _ in range(4))], b.shapes[x])


def _padded(b: Builder, x: str) -> None:
    n, c, h, w = b.shapes[x]
    b.add("pad", [x, b.ints(0, 0, 1, 0, 0, 0, 0, 1)], (n, c, h + 1, w + 1))


def _sliced(b: Builder, x: str) -> None:
    n, c, h, w = b.shapes[x]
    if min(h, w) < 5:
        return
    y = b.add("slice", [x, b.ints(1), b.ints(h), b.ints(2)], (n, c, h - 1, w))
    b.add("slice", [y, b.ints(0), b.ints(w - 1), b.ints(3)], (n, c, h - 1, w - 1))


def _mean(b: Builder, x: str) -> None:
    n, c, *_ = b.shapes[x]
    y = b.add("reduce_mean", [x, b.ints(2, 3)], (n, c, 1, 1))
    b.add("reshape", [y, b.ints(0, -1)], (n, c))


def _gemm(b: Builder, x: str) -> None:
    n, c = b.shapes[x]
    b.add("gemm", [x, b.floats(c, 3), b.floats(3)], (n, 3), alpha=float(b.random.choice([1.0, 0.5])))


def _matmuls(b: Builder, x: str) -> None:
    n, c = b.shapes[x]
    y, z = (b.add("matmul", [x, b.floats(c, 4)], (n, 4)) for _ in range(2))
    b.add("add", [y, z if b.random.integers(2) else b.floats(4)], (n, 4))


def _constants_in_a_row(b: Builder, x: str) -> None:
    y = b.add("mul", [x, b.floats()], b.shapes[x])
    y = b.add("mul", [y, b.floats()], b.shapes[x])
    y = b.add("add", [b.floats(), y], b.shapes[x])
    b.add("add", [y, b.floats()], b.shapes[x])


def _clipped(b: Builder, x: str) -> None:
    zero, one, six = (b.constant(np.array(v, dtype=np.float32)) for v in (0, 1, 6))
    y = b.add("clip", [x, zero, *([one] if b.random.integers(2) else [])], b.shapes[x])
    b.add("clip", [y, one, six], b.shapes[x])


def _squared(b: Builder, x: str) -> None:
    b.add("pow", [x, b.constant(np.array(2, dtype=np.float32))], b.shapes[x])


def _like_itself(b: Builder, x: str) -> None:
    zero = b.add("cast_like", [b.constant(np.array(3, dtype=np.int64)), x], ())
    b.add("add", [x, zero], b.shapes[x])


def _normalized(b: Builder, x: str) -> None:
    axis = b.ints(len(b.shapes[x]) - 1)
    shape = (*b.shapes[x][:-1], 1)
    y = b.add("reduce_mean", [b.add("pow", [x, b.constant(np.float32(2))], b.shapes[x]), axis], shape)
    y = b.add(
        "reciprocal", [b.add("sqrt", [b.add("add", [y, b.constant(np.float32(1))], shape)], shape)], shape
    )
    b.add("mul", [x, y], b.shapes[x])


def _expanded(b: Builder, x: str) -> None:
    shape = b.shapes[x]
    row = b.add("expand", [b.constant(np.float32(1.5)), b.ints(*shape[-2:])], shape[-2:])
    b.add("mul", [row, x], shape)


def _sized(b: Builder, x: str) -> None:
    shape = b.shapes[x]
    sizes = b.add("shape", [x], (len(shape),))
    b.shapes.pop(sizes)
    b.add("reshape", [b.add("flatten", [x], (shape[0], int(np.prod(shape[1:])))), sizes], shape)


def _transposed_alike(b: Builder, x: str) -> None:
    perm = (0, *range(len(b.shapes[x]) - 1, 0, -1))
    shape = tuple(b.shapes[x][axis] for axis in perm)
    parts = [
        b.add("transpose", [b.add(op, [x], b.shapes[x])], shape, perm=perm) for op in ("relu", "sigmoid")
    ]
    b.add("sub", parts, shape)


def _average(b: Builder, x: str) -> None:
    n, c, h, w = b.shapes[x]
    y = b.add("pad", [x, b.ints(0, 0, 1, 1, 0, 0, 0, 0)], (n, c, h + 1, w + 1))
    b.add("average_pool", [y], (n, c, h, w), kernel_shape=(2, 2), count_include_pad=int(b.random.integers(2)))


def _pooled(b: Builder, x: str) -> None:
    n, c, *_ = b.shapes[x]
    b.add("flatten", [b.add("global_average_pool", [x], (n, c, 1, 1))], (n, c))


def _shortcut(b: Builder, x: str) -> None:
    n, c, h, w = b.shapes[x]
    far = 2**31
    cut = [x, b.ints(0, 0), b.ints(far, far), b.ints(2, 3), b.ints(2, 2)]
    shape = (n, c, (h + 1) // 2, (w + 1) // 2)
    y = b.add("slice", cut, shape)
    b.add("pad", [y, b.ints(0, 1, 0, 0, 0, 1, 0, 0)], (n, c + 2, *shape[2:]))


def _gemm_of_transpose(b: Builder, x: str) -> None:
    n, c = b.shapes[x]
    weights = b.add("transpose", [b.add("relu", [x], (n, c))], (c, n), perm=(1, 0))
    b.add("gemm", [x, weights], (n, n))


def _gained(b: Builder, x: str) -> None:
    n, c = b.shapes[x]
    y = b.add("mul", [x, b.floats(c)], (n, c))
    parts = [b.add("matmul", [y, b.floats(c, 3)], (n, 3)) for _ in range(2)]
    b.add("mul", [b.add("sub", parts, (n, 3)), b.floats(3)], (n, 3))


_ANY: list[Step] = [
    _unary, _with_constant, _together, _transposed, _reshaped, _constants_in_a_row, _clipped, _squared,
    _like_itself, _normalized, _expanded, _sized, _transposed_alike,
]  # fmt: skip
_IMAGES: list[Step] = [
    _conv, _conv, _two_convs, _batch_norm, _batch_norm, _padded, _sliced, _mean, _average, _pooled, _shortcut,
]  # fmt: skip
_ROWS: list[Step] = [_gemm, _gemm, _matmuls, _batch_norm, _gemm_of_transpose, _gained]
