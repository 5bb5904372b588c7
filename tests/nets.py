"""Small programs built node by node, which every compiler of programs must compute."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensmith.ir import Node, Program, TensorType, make_node

Array = np.ndarray[Any, Any]


class Net:
    """A program under construction; every method gives the name of a value."""

    def __init__(self, *shape: int) -> None:
        self.random = np.random.default_rng(7)
        self.shape = shape
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}

    def constant(self, *shape: int, values: Any = None) -> str:
        name = f"c{len(self.constants)}"
        scale = 1 / np.sqrt(max(1, np.prod(shape[1:], dtype=int)))
        array = self.random.standard_normal(shape) * scale if values is None else np.array(values)
        self.constants[name] = array.astype(np.float32) if values is None else array
        return name

    def add(self, op: str, *inputs: str, **attrs: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(make_node(op, inputs, [name], attrs))
        return name

    def conv(self, x: str, channels: int, filters: int, size: int = 3, group: int = 1, **attrs: Any) -> str:
        weights = self.constant(filters, channels // group, size, size)
        attrs = {"pads": (size // 2,) * 4} | attrs
        return self.add("conv", x, weights, self.constant(filters), group=group, **attrs)

    def program(self, *outputs: str) -> Program:
        return Program(
            "net", {"x": TensorType("f32", self.shape)}, outputs, tuple(self.nodes), self.constants
        )


def residual_block() -> Program:
    """Two convolutions, a strided shortcut, sums and activations; halos that differ."""
    net = Net(2, 3, 18, 14)
    stem = net.add("relu", net.conv("x", 3, 20))
    body = net.conv(net.add("relu", net.conv(stem, 20, 32, strides=(2, 2))), 32, 32)
    shortcut = net.conv(stem, 20, 32, 1, strides=(2, 2))
    joined = net.add("relu", net.add("add", body, shortcut))
    low, high = net.constant(values=np.float32(-1)), net.constant(values=np.float32(2))
    return net.program(net.add("clip", net.conv(joined, 32, 17), low, high), joined)


def concatenations() -> Program:
    """Parts that fill blocks, parts that do not, one used twice, and one that is another's part."""
    net = Net(1, 16, 6, 7)
    a, b, c = net.conv("x", 16, 32), net.conv("x", 16, 16, 1), net.conv("x", 16, 5)
    inner = net.add("concat", a, b, axis=1)
    whole = net.add("concat", inner, c, a, "x", axis=1)
    return net.program(net.conv(whole, 32 + 16 + 5 + 32 + 16, 8), inner)


def pools() -> Program:
    """Windows over borders, counted and not, with ceil; whole images."""
    net = Net(1, 20, 11, 9)
    deep = net.conv("x", 20, 20)
    a = net.add("max_pool", deep, kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    b = net.add("average_pool", deep, kernel_shape=(2, 3), strides=(2, 2), pads=(0, 1, 1, 1), ceil_mode=1)
    c = net.add("average_pool", deep, kernel_shape=(3, 3), pads=(1, 1, 1, 1), count_include_pad=1)
    d = net.add("global_average_pool", a)
    return net.program(a, b, c, d)


def classifier() -> Program:
    """Flattened images, fully connected layers, probabilities."""
    net = Net(3, 6, 5, 4)
    rows = net.add("flatten", net.add("relu", net.conv("x", 6, 12)))
    hidden = net.add("relu", net.add("gemm", rows, net.constant(50, 240), net.constant(50), transB=1))
    logits = net.add("matmul", hidden, net.constant(50, 11))
    return net.program(net.add("softmax", net.add("add", logits, net.constant(11)), axis=1))


def squeeze_excite() -> Program:
    """Depthwise, swish in two forms, a channel scale that is computed, one that is constant."""
    net = Net(1, 24, 10, 9)
    x = net.conv("x", 24, 24, 5, group=24)
    x = net.add("mul", x, net.add("sigmoid", x))
    gate = net.add("sigmoid", net.conv(net.add("global_average_pool", x), 24, 24, 1))
    scaled = net.add("mul", net.add("mul", x, gate), net.constant(1, 24, 1, 1))
    return net.program(net.add("tanh", net.add("sub", scaled, "x")))


def shortcut_of_zeros() -> Program:
    """Every other pixel, padded with channels of zeros: the shortcut of the CIFAR ResNets."""
    net = Net(1, 16, 8, 8)
    ints = [net.constant(values=np.array(v, np.int64)) for v in ([0, 0], [99, 99], [2, 3], [2, 2])]
    pads = net.constant(values=np.array([0, 8, 0, 0, 0, 8, 0, 0], np.int64))
    short = net.add("pad", net.add("slice", "x", *ints), pads)
    return net.program(net.add("relu", net.add("add", net.conv("x", 16, 32, strides=(2, 2)), short)))


def reshapes() -> Program:
    """Planes seen under another shape, with a border wanted before and after."""
    net = Net(2, 8, 6, 6)
    shape = net.constant(values=np.array([2, 16, 6, 3], np.int64))
    return net.program(net.conv(net.add("reshape", net.conv("x", 8, 8), shape), 16, 4))


def sequences() -> Program:
    """Convolutions along one axis: strided, dilated, depthwise, with a shortcut."""
    net = Net(2, 5, 33)
    x = net.add("relu", net.add("conv", "x", net.constant(24, 5, 7), net.constant(24), pads=(3, 3), group=1))
    deep = net.add("conv", x, net.constant(24, 1, 3), pads=(2, 2), dilations=(2,), group=24)
    wide = net.add("add", x, net.add("conv", deep, net.constant(24, 24, 1), net.constant(24), group=1))
    return net.program(net.add("conv", wide, net.constant(10, 12, 4), strides=(3,), pads=(1, 0), group=2))


NETS = (
    sequences,
    residual_block,
    concatenations,
    pools,
    classifier,
    squeeze_excite,
    shortcut_of_zeros,
    reshapes,
)
