"""Our own e-graphs: seven networks' parts as TensIR programs, rewritten by saturation, proved and measured.

    python -m benchmarks.search.egraphs [--target host] [--seconds 60] [--timing 6] [--output FILE] [NAME ...]

For each: the cheapest equal program by the target's roofline and by multiply-adds, each with its proved
distance from the optimum of its e-graph, its trail checked over prime fields, and what it takes in ONNX
Runtime (one thread, graph optimizations on) beside the program as it came, in processes that take turns. An
answer is kept where it is faster beyond the noise, else the program as it came is. Weights are random, sizes
as published unless a line says so.
"""

from __future__ import annotations

import math
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import parts
from tensmith.backend.onnx import write_onnx
from tensmith.egraph.explore import Explored, Reach, saturate
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.count import node_costs, node_seconds
from tensmith.evaluate.latency import compare
from tensmith.files import TemporaryFolder
from tensmith.hardware import detect_host, load_target
from tensmith.ir import Node, Program, TensorType, make_node
from tensmith.verify.runs import Checker, FoldError

# The farthest from the optimum that an answer may be.
MOST_GAP = 0.05


class Net:
    """A program under construction; every method gives the name of a value."""

    def __init__(self, **inputs: tuple[int, ...]) -> None:
        self.inputs = {name: TensorType("f32", shape) for name, shape in inputs.items()}
        self.random = np.random.default_rng(13)
        self.nodes: list[Node] = []
        self.constants: dict[str, np.ndarray[Any, Any]] = {}

    def add(self, op: str, *read: str, **attrs: Any) -> str:
        """A node."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(make_node(op, read, [name], attrs))
        return name

    def constant(self, values: Any) -> str:
        """A constant."""
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(values)
        return name

    def weights(self, *shape: int) -> str:
        """Random weights."""
        scale = 1 / math.sqrt(max(1, math.prod(shape[1:])))
        return self.constant((self.random.standard_normal(shape) * scale).astype(np.float32))

    def linear(self, x: str, n: int, m: int) -> str:
        """x @ W + b."""
        return self.add("add", self.add("matmul", x, self.weights(n, m)), self.weights(m))

    def conv(self, x: str, channels: int, filters: int, size: int, group: int = 1, stride: int = 1) -> str:
        """A convolution that keeps the size but for its stride."""
        weights = self.weights(filters, channels // group, size, size)
        pads, strides = (size // 2,) * 4, (stride, stride)
        return self.add("conv", x, weights, self.weights(filters), group=group, pads=pads, strides=strides)

    def norm(self, x: str, channels: int) -> str:
        """A batch normalization."""
        positive = np.abs(self.random.standard_normal(channels)).astype(np.float32) + 0.5
        given = [self.weights(channels) for _ in range(3)]
        return self.add("batch_normalization", x, *given, self.constant(positive))

    def pool(self, x: str, kind: str, size: int, stride: int) -> str:
        """A pooling."""
        pads = ((size // 2,) if stride == 1 else (0,)) * 4
        return self.add(f"{kind}_pool", x, kernel_shape=(size, size), strides=(stride, stride), pads=pads)

    def program(self, name: str, *outputs: str) -> Program:
        """What was built."""
        return Program(name, self.inputs, outputs, tuple(self.nodes), self.constants)


def nasrnn() -> Program:
    """One cell of NasRNN (Zoph, Le 2017) as TASO draws it: eight sums of two products, 512 units."""
    net, units = Net(x=(1, 512), h=(1, 512)), 512

    def product(x: str) -> str:
        return net.add("matmul", x, net.weights(units, units))

    t = [net.add("add", product("x"), product("h")) for _ in range(8)]
    kinds = ["relu", "sigmoid", "tanh", "sigmoid", "sigmoid", "tanh", "sigmoid", "relu"]
    a = [net.add(kind, value) for kind, value in zip(kinds, t)]
    m = [net.add("add", a[0], a[3]), net.add("add", a[1], a[2]),
         net.add("mul", a[4], a[5]), net.add("mul", a[6], a[7])]  # fmt: skip
    low = net.add("add", net.add("sigmoid", m[1]), net.add("tanh", m[2]))
    high = net.add("mul", net.add("tanh", m[0]), net.add("tanh", m[3]))
    return net.program("nasrnn", net.add("tanh", net.add("mul", low, high)))


def bert() -> Program:
    """Self-attention of BERT-base: 64 tokens, 768 wide, 12 heads."""
    tokens, width, heads = 64, 768, 12
    net = Net(x=(1, tokens, width))
    shape = net.constant(np.array([1, tokens, heads, width // heads]))

    def head() -> str:
        return net.add(
            "transpose", net.add("reshape", net.linear("x", width, width), shape), perm=(0, 2, 1, 3)
        )

    q, k, v = head(), head(), head()
    scores = net.add("matmul", q, net.add("transpose", k, perm=(0, 1, 3, 2)))
    scaled = net.add("div", scores, net.constant(np.float32(math.sqrt(width // heads))))
    mixed = net.add("transpose", net.add("matmul", net.add("softmax", scaled, axis=-1), v), perm=(0, 2, 1, 3))
    flat = net.add("reshape", mixed, net.constant(np.array([1, tokens, width])))
    return net.program("bert", net.add("add", net.linear(flat, width, width), "x"))


def resnext() -> Program:
    """A block of ResNeXt-50 32x4d: 256 channels, 28 x 28."""
    net = Net(x=(1, 256, 28, 28))
    y = net.add("relu", net.norm(net.conv("x", 256, 128, 1), 128))
    y = net.add("relu", net.norm(net.conv(y, 128, 128, 3, group=32), 128))
    y = net.norm(net.conv(y, 128, 256, 1), 256)
    return net.program("resnext", net.add("relu", net.add("add", y, "x")))


def nasnet() -> Program:
    """A normal cell of NASNet-A: 44 channels, 28 x 28."""
    channels = 44
    net = Net(h=(1, channels, 28, 28), p=(1, channels, 28, 28))

    def separable(x: str, size: int) -> str:
        for _ in range(2):
            x = net.conv(net.add("relu", x), channels, channels, size, group=channels)
            x = net.norm(net.conv(x, channels, channels, 1), channels)
        return x

    h, p = (net.norm(net.conv(net.add("relu", x), channels, channels, 1), channels) for x in ("h", "p"))
    parts = [
        net.add("add", separable(h, 3), h),
        net.add("add", separable(p, 3), separable(h, 5)),
        net.add("add", net.pool(h, "average", 3, 1), p),
        net.add("add", net.pool(p, "average", 3, 1), net.pool(p, "average", 3, 1)),
        net.add("add", separable(p, 5), separable(p, 3)),
    ]
    return net.program("nasnet", net.add("concat", *parts, axis=1))


def squeezenet() -> Program:
    """SqueezeNet 1.1: eight fire modules."""
    net = Net(x=(1, 3, 224, 224))
    y = net.add("relu", net.conv("x", 3, 64, 3, stride=2))
    channels = 64
    for number, (squeezed, expanded) in enumerate(
        [(16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)]
    ):
        if number in (0, 2, 4):
            y = net.pool(y, "max", 3, 2)
        s = net.add("relu", net.conv(y, channels, squeezed, 1))
        e = [net.add("relu", net.conv(s, squeezed, expanded, size)) for size in (1, 3)]
        y, channels = net.add("concat", *e, axis=1), 2 * expanded
    y = net.add("relu", net.conv(y, channels, 1000, 1))
    return net.program("squeezenet", net.add("global_average_pool", y))


def inception() -> Program:
    """The first block of Inception-v3: 192 channels, 35 x 35."""
    net = Net(x=(1, 192, 35, 35))

    def layer(x: str, channels: int, filters: int, size: int) -> str:
        return net.add("relu", net.norm(net.conv(x, channels, filters, size), filters))

    five = layer(layer("x", 192, 48, 1), 48, 64, 5)
    three = layer(layer(layer("x", 192, 64, 1), 64, 96, 3), 96, 96, 3)
    pooled = layer(net.pool("x", "average", 3, 1), 192, 32, 1)
    return net.program("inception", net.add("concat", layer("x", 192, 64, 1), five, three, pooled, axis=1))


def vgg() -> Program:
    """VGG-19 on images of 64 x 64, so that its first dense layer reads 2048 numbers."""
    net, y, channels = Net(x=(1, 3, 64, 64)), "x", 3
    for filters, layers in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(layers):
            y, channels = net.add("relu", net.conv(y, channels, filters, 3)), filters
        y = net.pool(y, "max", 2, 2)
    y = net.add("reshape", y, net.constant(np.array([1, 2048])))
    for n, m in ((2048, 4096), (4096, 4096)):
        y = net.add("relu", net.linear(y, n, m))
    return net.program("vgg", net.linear(y, 4096, 1000))


NETS: Mapping[str, Callable[[], Program]] = {
    f.__name__: f for f in (nasrnn, bert, resnext, nasnet, squeezenet, inception, vgg)
}


def multiply_adds(program: Program) -> dict[str, float]:
    """Of each node; a millionth for what has none, so that of equal programs the shortest is taken."""
    return {node.output: cost.macs + 1e-6 for node, cost in node_costs(program)}


def checked(program: Program, found: Explored) -> str:
    """What is known of the trail: the worst of its runs."""
    worst, folded = 0.0, 0
    for _, check in Checker(program, seconds=10).check(found.best.trail):
        if isinstance(check, FoldError):
            folded += check.count
        elif not check.equal:
            return f"{check.verdict}: {check.reason}"
        else:
            worst = max(worst, check.error_probability)
    return f"equal, chance of error {worst:.0e}, {folded} folded"


def row(name: str, options: Namespace) -> parts.Found:
    """What became of one network."""
    program = NETS[name]()
    target = detect_host() if options.target == "host" else load_target(options.target)
    answers = {
        "roofline": saturate(program, node_seconds(target), Reach(seconds=options.seconds)),
        "multiply-adds": saturate(program, multiply_adds, Reach(seconds=options.seconds)),
    }
    with TemporaryFolder("egraphs") as folder:
        programs = {"original": program, **{model: a.best.program for model, a in answers.items()}}
        files = {model: Path(folder) / f"{model}.onnx" for model in programs}
        for model, file in files.items():
            write_onnx(programs[model], file)
        example = {
            n: np.random.default_rng(1).standard_normal(t.static or ()).astype(np.float32)
            for n, t in program.inputs.items()
        }
        timed = compare(
            [Contender("onnxruntime", file) for file in files.values()], example, 1, options.timing
        )
    latencies = dict(zip(files, timed))
    trails = {model: checked(program, found) for model, found in answers.items()}
    wrong = [f"{name}, {model}: {trail}" for model, trail in trails.items() if not trail.startswith("equal")]
    wrong += [
        f"{name}, {model}: {_gap(found)} from the optimum, more than {MOST_GAP:.0%}"
        for model, found in answers.items()
        if found.gap is None or found.gap > MOST_GAP
    ]
    kept = max([1.0, *(each.ratio.value for each in timed[1:] if each.verdict == "faster")])
    return parts.Found(
        row={
            "kept": kept,
            "ms": timed[0].latency.value,
            "models": {
                model: {
                    "cheaper": found.start_cost / found.cost,
                    "gap": found.gap,
                    "programs": found.programs,
                    "nodes": found.size[0] if found.size else 0,
                    "ended": found.ended or "saturated",
                    "moves": len(found.moves),
                    "seconds": found.seconds,
                    "faster": latencies[model].ratio.to_json(),
                    "trail": trails[model],
                }
                for model, found in answers.items()
            },
        },
        wrong=tuple(wrong),
    )


def _gap(found: Explored) -> str:
    return "nobody knows how far" if found.gap is None else f"{found.gap:.1%}"


def lines(rows: Mapping[str, Any]) -> Iterator[str]:
    """Two lines a network, and the geometric mean of what is kept."""
    for name, figures in rows.items():
        for model, found in figures["models"].items():
            gap = "unknown" if found["gap"] is None else f"{found['gap']:.2%}"
            yield (
                f"{name:18} {model:14} cheaper {found['cheaper']:.3f}x  gap {gap}  {found['seconds']:.1f} s  "
                f"faster {found['faster']['value']:.3f}x  {found['trail']}"
            )
    if gains := [figures["kept"] for figures in rows.values()]:
        mean = math.exp(math.fsum(map(math.log, gains)) / len(gains))
        yield f"kept: {mean:.3f}x geometric mean over ONNX Runtime with its own optimizer"


def main() -> int:
    """1 where an optimum was not proved near, or a trail did not hold."""
    parser = parts.arguments(__doc__)
    parser.add_argument("names", nargs="*", default=list(NETS), help=f"of {', '.join(NETS)}")
    parser.add_argument("--target", default="host")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit for each saturation")
    parser.add_argument("--timing", type=float, default=6.0, help="seconds for each network's measurement")
    options = parser.parse_args()
    settings = {"bench": "egraphs", **{n: getattr(options, n) for n in ("target", "seconds", "timing")}}
    work = partial(row, options=options)
    document = parts.run(options.names, work, options.output, settings)
    print("\n".join(lines(document["rows"])))
    return parts.ended(document)


if __name__ == "__main__":
    sys.exit(main())
