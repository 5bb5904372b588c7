"""Small programs of every shape that pruning meets, and calibration by the reference interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from tensmith.formula.arith import Array
from tensmith.formula.poly import Poly
from tensmith.ir import Program, TensorType, interpret, make_node
from tensmith.ir.ops.convolution import window_attrs, windows
from tensmith.rewrite.archives import digest_of
from tensmith.rewrite.calibration import Histogram, Moment
from tensmith.rewrite.rule import Step


class Net:
    """Builds a program a layer at a time; every call gives the name of its output."""

    def __init__(self, seed: int = 0, image: tuple[int, ...] = (3, 6, 6)) -> None:
        self.random = np.random.default_rng(seed)
        self.input = TensorType("f32", (Poly.symbol("batch"), *image))
        self.nodes: list = []
        self.constants: dict[str, Array] = {}

    def constant(self, value: object, dtype: type = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value, dtype=dtype)
        return name

    def weights(self, *shape: int) -> str:
        scale = np.sqrt(2 / max(1, int(np.prod(shape[1:]))))
        return self.constant(self.random.normal(size=shape) * scale)

    def op(self, op: str, *inputs: str, outputs: int = 1, **attrs: object) -> str:
        names = tuple(f"v{len(self.nodes)}" + (f".{i}" if i else "") for i in range(outputs))
        self.nodes.append(make_node(op, inputs, names, attrs))
        return names[0]

    def channels(self, value: str) -> int:
        return int(self.program(value).type(value).dims[1])  # type: ignore[arg-type]

    def conv(
        self, x: str, filters: int, kernel: int = 3, *, group: int = 1, bias: bool = True, **attrs: object
    ) -> str:
        weights = self.weights(filters, self.channels(x) // group, kernel, kernel)
        pads = (kernel // 2,) * 4
        extra = [self.constant(self.random.normal(size=filters) * 0.1)] if bias else []
        return self.op("conv", x, weights, *extra, **{"group": group, "pads": pads, **attrs})

    def norm(self, x: str) -> str:
        c = self.channels(x)
        parts = [self.random.uniform(0.5, 2, size=c), *(self.random.normal(size=(2, c)) * 0.1)]
        variance = self.constant(self.random.uniform(0.5, 2, size=c))
        return self.op("batch_normalization", x, *map(self.constant, parts), variance)

    def head(self, x: str, classes: int = 5) -> str:
        pooled = self.op("global_average_pool", x)
        flat = self.op("flatten", pooled)
        c = self.channels(x)
        return self.op("gemm", flat, self.weights(classes, c), self.constant(np.zeros(classes)), transB=1)

    def program(self, *outputs: str) -> Program:
        return Program("net", {"x": self.input}, outputs, tuple(self.nodes), dict(self.constants))


def chain() -> Program:
    net = Net()
    x = net.op("relu", net.norm(net.conv("x", 8, bias=False)))
    x = net.op("max_pool", net.op("relu", net.conv(x, 12)), kernel_shape=(2, 2), strides=(2, 2))
    return net.program(net.head(net.op("relu", net.conv(x, 10, 1))))


def residual() -> Program:
    net = Net()
    x = net.op("relu", net.conv("x", 8))
    for _ in range(2):
        inner = net.op("relu", net.conv(x, 6))
        x = net.op("relu", net.op("add", x, net.norm(net.conv(inner, 8))))
    return net.program(net.head(x))


def option_a() -> Program:
    """A residual stream that widens by zeros, after every second position (He et al. 2016, option A)."""
    net = Net()
    x = net.op("relu", net.conv("x", 4))
    inner = net.op("relu", net.conv(x, 8, strides=(2, 2)))
    ints = [net.constant(v, np.int64) for v in ([0, 0, 0], [9999] * 3, [1, 2, 3], [1, 2, 2])]
    short = net.op("slice", x, *ints)
    short = net.op("pad", short, net.constant([0, 2, 0, 0, 0, 2, 0, 0], np.int64))
    return net.program(net.head(net.op("relu", net.op("add", net.conv(inner, 8), short))))


def mobile() -> Program:
    net = Net()
    x = net.conv("x", 6, 1)
    low, high = net.constant(0.0), net.constant(6.0)
    wide = net.op("clip", net.conv(x, 12, 1), low, high)
    deep = net.op("clip", net.conv(wide, 12, group=12, bias=False), low, high)
    x = net.op("add", x, net.conv(deep, 6, 1))
    twice = net.conv(net.op("relu", net.conv(x, 4, 1)), 8, group=4)
    return net.program(net.head(twice))


def fire() -> Program:
    net = Net()
    squeezed = net.op("relu", net.conv("x", 4, 1))
    parts = [net.op("relu", net.conv(squeezed, 6, k)) for k in (1, 3)]
    joined = net.op("concat", *parts, axis=1)
    first = net.op("split", joined, net.constant([5, 7], np.int64), outputs=2, axis=1)
    cut = net.op("slice", joined, *(net.constant(v, np.int64) for v in ([2], [9], [1])))
    y = net.op("add", net.conv(first + ".1", 5, 1), net.conv(first, 5, 3))
    return net.program(net.head(net.op("add", y, net.conv(cut, 5, 1))))


def grouped() -> Program:
    net = Net()
    x = net.op("relu", net.conv("x", 12, 1))
    x = net.op("relu", net.conv(x, 8, group=2, bias=False))
    return net.program(net.head(net.op("relu", net.conv(x, 6, 1))))


def flattened() -> Program:
    """Channels that become several columns of a matrix, by a reshape with numbers in it."""
    net = Net(image=(3, 4, 4))
    x = net.op("relu", net.conv("x", 6))
    x = net.op("reshape", x, net.constant([-1, 6 * 16], np.int64))
    x = net.op("relu", net.op("gemm", x, net.weights(96, 9), net.constant(np.zeros(9))))
    return net.program(net.op("add", net.op("matmul", x, net.weights(9, 5)), net.constant(np.ones(5))))


def transformer() -> Program:
    """A feed-forward block behind a layer norm, on rows [batch, 4, 8]."""
    net = Net(image=(4, 8))
    scale, bias = net.constant(np.ones(8)), net.constant(np.zeros(8))
    x = net.op("add", net.op("matmul", "x", net.weights(8, 8)), "x")
    h = net.op("layer_normalization", x, scale, bias)
    h = net.op("add", net.op("matmul", h, net.weights(8, 16)), net.constant(net.random.normal(size=16)))
    h = net.op("matmul", net.op("gelu", h), net.weights(16, 8))
    return net.program(net.op("transpose", net.op("add", x, h), perm=(0, 2, 1)))


def shared_keys() -> Program:
    """Attention of six heads on rows [batch, 4, 8], each two of which share their keys and values."""
    net = Net(image=(4, 8))

    def heads(count: int) -> str:
        split = net.constant([-1, 4, count, 2], np.int64)
        rows = net.op("reshape", net.op("matmul", "x", net.weights(8, 2 * count)), split)
        return net.op("transpose", rows, perm=(0, 2, 1, 3))

    def twice(value: str) -> str:
        apart = net.op("unsqueeze", value, net.constant([2], np.int64))
        copied = net.op("expand", apart, net.constant([1, 3, 2, 4, 2], np.int64))
        return net.op("reshape", copied, net.constant([-1, 6, 4, 2], np.int64))

    scores = net.op("matmul", heads(6), net.op("transpose", twice(heads(3)), perm=(0, 1, 3, 2)))
    mixed = net.op("matmul", net.op("softmax", scores), twice(heads(3)))
    rows = net.op(
        "reshape", net.op("transpose", mixed, perm=(0, 2, 1, 3)), net.constant([0, 4, -1], np.int64)
    )
    return net.program(net.op("matmul", rows, net.weights(12, 5)))


def parts_first() -> Program:
    """Attention of three heads on rows [4, batch, 6], as PyTorch writes it: queries, keys and values are told
    apart before their heads are."""
    net = Net(image=(4, 6))
    every = net.op("matmul", net.op("transpose", "x", perm=(1, 0, 2)), net.weights(6, 18))
    split = net.op("reshape", every, net.constant([4, -1, 3, 6], np.int64))
    every = net.op("transpose", split, perm=(2, 0, 1, 3))

    def heads(part: int, *perm: int) -> str:
        chosen = net.op("gather", every, net.constant(part, np.int64))
        split = net.op("reshape", chosen, net.constant([4, -1, 3, 2], np.int64))
        return net.op("transpose", split, perm=perm)

    scores = net.op("matmul", heads(0, 1, 2, 0, 3), heads(1, 1, 2, 3, 0))
    mixed = net.op("matmul", net.op("softmax", scores), heads(2, 1, 2, 0, 3))
    rows = net.op("transpose", mixed, perm=(2, 0, 1, 3))
    rows = net.op("reshape", rows, net.constant([4, -1, 6], np.int64))
    return net.program(net.op("matmul", rows, net.weights(6, 5)))


def attention(heads: int = 4, size: int = 2) -> Program:
    """Attention of a few heads on rows [batch, 4, 8]; one layer gives queries, keys and values."""
    net, width = Net(image=(4, 8)), heads * size
    every = net.op("add", net.op("matmul", "x", net.weights(8, 3 * width)), net.constant(np.ones(3 * width)))
    split = net.op("reshape", every, net.constant([-1, 4, 3, heads, size], np.int64))
    every = net.op("transpose", split, perm=(2, 0, 3, 1, 4))
    zero = net.constant([0], np.int64)
    parts = [
        net.op("squeeze", net.op("slice", every, *(net.constant([v], np.int64) for v in (i, i + 1, 0))), zero)
        for i in range(3)
    ]
    scores = net.op("matmul", parts[0], net.op("transpose", parts[1], perm=(0, 1, 3, 2)))
    mixed = net.op("matmul", net.op("softmax", scores), parts[2])
    rows = net.op(
        "reshape", net.op("transpose", mixed, perm=(0, 2, 1, 3)), net.constant([0, 4, -1], np.int64)
    )
    return net.program(net.op("matmul", rows, net.weights(width, 5)))


def equal_biases() -> Program:
    """Layers that share a bias, as constants that are alike become one."""
    net = Net()
    x, bias = "x", net.constant(np.full(8, 0.1))
    for _ in range(3):
        x = net.op("relu", net.op("conv", x, net.weights(8, net.channels(x), 3, 3), bias, pads=(1,) * 4))
    return net.program(net.head(x))


SAMPLES: dict[str, Callable[[], Program]] = {
    function.__name__: function
    for function in (
        chain,
        residual,
        option_a,
        mobile,
        fire,
        grouped,
        flattened,
        transformer,
        attention,
        shared_keys,
        parts_first,
        equal_biases,
    )
}


def inputs_of(program: Program, count: int = 16, seed: int = 1) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    return {
        name: random.normal(size=(count, *(int(d) for d in type_.dims[1:]))).astype(np.float32)
        for name, type_ in program.inputs.items()
    }


def run(program: Program, count: int = 16, seed: int = 1) -> Array:
    """The first output on random inputs."""
    return interpret(program, inputs_of(program, count, seed))[program.outputs[0]]


class Interpreted:
    """A Calibration over random inputs, by the reference interpreter."""

    def __init__(self, count: int = 16) -> None:
        self._count = count

    def _value(self, program: Program, name: str) -> Array:
        if name in program.inputs:
            return inputs_of(program, self._count, seed=2)[name]
        return interpret(replace(program, outputs=(name,)), inputs_of(program, self._count, seed=2))[name]

    def histograms(self, program: Program, values: Iterable[str]) -> Mapping[str, Histogram]:
        return {name: Histogram.of(self._value(program, name)) for name in values}

    def moment(self, program: Program, site: str) -> Moment:
        name, _, of = (site, "", "") if site in program.producers else site.partition(" ")
        node = program.producers[name]
        x = self._value(program, name if of == "(state)" else node.inputs[0])
        rows = x.reshape(1, -1, x.shape[-1])
        if of == "(state)":  # [steps, directions, batch, states]
            rows = x.swapaxes(0, 1).reshape(x.shape[1], -1, x.shape[-1])
        elif node.op == "conv":
            kernel, groups = program.constants[node.inputs[1]].shape[2:], node.attrs["group"]
            view = windows(x, kernel, *window_attrs(node.attrs, x.shape[2:], kernel))
            rows = view.transpose(0, 2, 3, 1, 4, 5).reshape(
                view.shape[0] * view.shape[2] * view.shape[3], groups, -1
            )
            rows = rows.swapaxes(0, 1)
        rows = rows.astype(np.float64)
        return Moment(rows.mean(axis=1), rows.swapaxes(1, 2) @ rows / rows.shape[1], rows.shape[1])


# A table that is too large for folding to keep a turned copy of it.
WORDS, WIDTH, LENGTH = 900, 24, 9
TOKENS = np.random.default_rng(5).integers(0, WORDS, (4, LENGTH))


class OnTokens(Interpreted):
    """Calibration on TOKENS."""

    def _value(self, program: Program, name: str) -> Array:
        alone = Program(program.name, program.inputs, (name,), program.nodes, program.constants)
        return interpret(alone, {"x": TOKENS})[name]


def language_model(op: str = "matmul") -> Program:
    """Words to vectors, a layer, every word's score: by a transposed table, or as linear layers have it."""
    net = Net()
    net.input = TensorType("i64", (Poly.symbol("batch"), LENGTH))
    table = net.weights(WORDS, WIDTH)
    x = net.op("relu", net.op("matmul", net.op("gather", table, "x"), net.weights(WIDTH, WIDTH)))
    if op == "matmul":
        return net.program(net.op("matmul", x, net.op("transpose", table, perm=(1, 0))))
    x = net.op("reshape", x, net.constant([-1, WIDTH], np.int64))
    return net.program(net.op("gemm", x, table, transB=1))


def recovered(arrays: Mapping[str, Array], **params: object) -> Step:
    """The step of weights that a training found."""
    told = {
        "original": "0" * 64,
        "data": "0" * 64,
        "samples": 8,
        "seed": 0,
        "steps": 3,
        "batch": 4,
        "rate": 0.01,
    }
    return Step("recover", params={"weights": digest_of(arrays), **told, **params}, kind="lossy")
