"""From nodes to steps: each heavy op takes its bias, residual and activation with it; elementwise nodes join.

A group takes the place of its last node, so that everything it reads exists by then.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tensmith.backend.native.elementwise import Expression, activation_of, is_elementwise
from tensmith.backend.native.grids import grid_of
from tensmith.backend.native.images import images_of
from tensmith.backend.native.operands import Tensors
from tensmith.backend.native.parts import padded_slice
from tensmith.backend.native.quantized import integer_step, operands
from tensmith.backend.native.steps import Array, Encode, Heavy, Join, Light, Rename, Step, reads
from tensmith.backend.native.tensor_groups import tensor_steps
from tensmith.backend.native.tensors import tensor_nodes
from tensmith.backend.native.views import RESHAPING
from tensmith.errors import EngineError
from tensmith.ir import Node, Program, interpret
from tensmith.ir.ops.convolution import window_attrs
from tensmith.ir.ops.pooling import Window
from tensmith.ir.ops.sizes import as_ints
from tensmith.kernel.epilogue import Activation
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import Convolution
from tensmith.kernel.quantized import Grid
from tensmith.kernel.routines.pool import GlobalPool, Pool
from tensmith.kernel.routines.softmax import Softmax
from tensmith.kernel.sparse_stream import density, quads, strips


def group(program: Program, isa: Isa, tensors: Tensors | None = None) -> list[Step]:
    """The steps of a simplified program of fixed sizes; EngineError naming a node without a native kernel."""
    tensors = tensors or Tensors(program, tensor_nodes(program))
    lanes = isa.lanes
    found = _Grouping(program, lanes)
    found.taken.update(node for node in program.nodes if node.output in program.static_values)
    found.taken.update(tensors.nodes)
    for node in program.nodes:
        heavy = node not in found.taken and node.op in ("conv", "gemm", "matmul")
        if heavy and not found.integers(node):
            found.heavy(node)
    for node in program.nodes:
        if node not in found.taken and found.encodes(node):
            found.place(node, Encode(node.inputs[0], node.output, _grid(program, node)))
    for node in reversed(program.nodes):
        if node not in found.taken and is_elementwise(program, node):
            found.elementwise(node)
    for node in reversed(program.nodes):
        if node not in found.taken and node.op in ("slice", "pad"):
            found.part(node)
    for node in program.nodes:
        if node not in found.taken:
            found.place(node, _other(program, node, lanes))
    steps: dict[Node | None, list[Step]] = {node: [step] for node, step in found.steps.items()}
    for node, more in tensor_steps(tensors, isa).items():
        steps[node] = more
    for value, maker in tensors.bridges:
        ends = (value, tensors.name(value)) if maker not in tensors.nodes else (tensors.name(value), value)
        steps.setdefault(maker, []).append(Rename(*ends))
    ordered = [step for node in (None, *program.nodes) for step in steps.get(node, [])]
    return _alive(ordered, program.outputs)


def _alive(steps: list[Step], outputs: tuple[str, ...]) -> list[Step]:
    """The steps whose output somebody reads."""
    read = set(outputs)
    kept = []
    for step in reversed(steps):
        if step.output in read:
            kept.append(step)
            read.update(reads(step))
    return kept[::-1]


@dataclass
class _Grouping:
    """Which nodes are already part of a step, and the steps by their last node."""

    program: Program
    lanes: int
    taken: set[Node] = field(default_factory=set)
    steps: dict[Node, Step] = field(default_factory=dict)

    def place(self, node: Node, step: Step) -> None:
        """Puts a step where `node` stands."""
        self.taken.add(node)
        self.steps[node] = step

    def integers(self, node: Node) -> bool:
        """A convolution or product of bytes, if it is one."""
        given = operands(self.program, node)
        if given is None:
            return False
        step = _heavy(self.program, given.node)
        found = integer_step(self.program, step, given, node, self.taken)
        if found is None:
            return False
        self.taken.update(found[1])
        self.place(found[1][-1], found[0])
        return True

    def encodes(self, node: Node) -> bool:
        """Whether a node quantizes an input of the program for kernels alone."""
        if node.op != "quantize_linear" or node.inputs[0] not in self.program.inputs:
            return False
        if grid_of(self.program, node) is None or node.output in self.program.outputs:
            return False
        readers = {step.source for step in self.steps.values() if isinstance(step, Heavy) and step.rescaling}
        pairs = self.program.consumers.get(node.output, ())
        taken = all(reader in self.taken for pair in pairs for reader in self.program.consumers[pair.output])
        return node.output in readers and taken

    def heavy(self, node: Node) -> None:
        """A convolution or product, and the nodes behind it that its epilogue computes."""
        step, last = _heavy(self.program, node), node
        self.taken.add(node)
        while step.activation is None:
            following = self._epilogue(step)
            if following is None:
                break
            step, nodes = following
            self.taken.update(nodes)
            last = nodes[-1]
        self.place(last, step)

    def _epilogue(self, step: Heavy) -> tuple[Heavy, list[Node]] | None:
        """The step with one thing more in its epilogue, and the nodes that this computes."""
        program = self.program
        consumers = program.consumers.get(step.output, ())
        if step.output in program.outputs or not consumers:
            return None
        if len(consumers) == 2 and _gates(program, step.output, *consumers):
            return replace(step, activation=Activation("swish"), output=consumers[1].output), [*consumers]
        if len(consumers) > 1 or consumers[0] in self.taken:
            return None
        node = consumers[0]
        activation = activation_of(program, node)
        if activation is not None and node.inputs[0] == step.output:
            return replace(step, activation=activation, output=node.output), [node]
        if node.op != "add" or node.inputs[0] == node.inputs[1]:
            return None
        other = next(name for name in node.inputs if name != step.output)
        constant = program.constants.get(other)
        if constant is not None:
            if step.residual is not None or not _is_bias(program, node, constant):
                return None
            bias = constant.reshape(-1) + (0 if step.bias is None else step.bias)
            return replace(step, bias=bias, output=node.output), [node]
        same = program.type(other).static == program.type(step.output).static
        if step.residual is not None or not same:
            return None
        return replace(step, residual=other, output=node.output), [node]

    def part(self, node: Node) -> None:
        """A slice of images, a padded image, or a padded slice."""
        program = self.program
        source = program.producers.get(node.inputs[0])
        joined = node.op == "pad" and source is not None and source.op == "slice"
        if joined and source is not None and program.uses(source.output) == 1:
            self.taken.add(source)
            self.place(node, padded_slice(program, node, source))
        else:
            self.place(node, padded_slice(program, *((node, None) if node.op == "pad" else (None, node))))

    def elementwise(self, root: Node) -> None:
        """The tree of elementwise nodes that ends in `root`."""

        read = {name for step in self.steps.values() for name in reads(step)}

        def may_inline(node: Node) -> bool:
            free = node not in self.taken and node.output not in read
            return free and is_elementwise(self.program, node)

        tree = Expression(self.program, images_of(self.program, root.output), self.lanes, may_inline)
        step = tree.step(root)
        self.taken.update(tree.taken)
        self.place(root, step)


def _gates(program: Program, value: str, gate: Node, product: Node) -> bool:
    """Whether the nodes are value * sigmoid(value)."""
    whole = product.op == "mul" and set(product.inputs) == {value, gate.output}
    return gate.op == "sigmoid" and whole and program.uses(gate.output) == 1


def _is_bias(program: Program, node: Node, constant: Array) -> bool:
    """Whether a constant that is added holds one number a channel."""
    shape = program.type(node.output).static or ()
    aligned = (1,) * (len(shape) - constant.ndim) + constant.shape
    return len(aligned) == len(shape) and aligned == tuple(
        size if axis == 1 else 1 for axis, size in enumerate(shape)
    )


def _grid(program: Program, node: Node) -> Grid:
    grid = grid_of(program, node)
    assert grid is not None
    return grid


def _constant(program: Program, node: Node, index: int) -> Array:
    name = node.inputs[index]
    producer = program.producers.get(name)
    if producer is not None and name in program.static_values:
        alone = Program("constant", {}, (name,), (producer,), program.constants)
        return np.asarray(interpret(alone, {})[name], np.float32)
    if name not in program.constants:
        raise EngineError(f"{_label(node)} multiplies two computed tensors, which has no native kernel yet")
    return np.asarray(program.constants[name], np.float32)


def _heavy(program: Program, node: Node) -> Heavy:
    return (_convolution if node.op == "conv" else _product)(program, node)


def _convolution(program: Program, node: Node) -> Heavy:
    """A convolution of images; sequences are images of one row."""
    weights = _constant(program, node, 1)
    images = images_of(program, node.inputs[0])
    axes = weights.ndim - 2
    given = window_attrs(node.attrs, images.extent[-axes:], weights.shape[2:])
    strides, dilations, pads = map(as_ints, given)
    if axes == 1:
        weights = weights[:, :, None]
        strides, dilations, pads = (1, *strides), (1, *dilations), (0, pads[0], 0, pads[1])
    problem = Convolution(
        images.channels, images.height, images.width, weights.shape[0], window=weights.shape[2:],
        strides=(strides[0], strides[1]), pads=(pads[0], pads[1], pads[2], pads[3]),
        dilations=(dilations[0], dilations[1]), groups=node.attrs["group"], density=density(weights),
        quads=quads(weights), strips=strips(weights),
    )  # fmt: skip
    bias = _constant(program, node, 2) if len(node.inputs) > 2 and node.inputs[2] else None
    return Heavy(problem, node.inputs[0], weights, node.output, bias)


def _product(program: Program, node: Node) -> Heavy:
    """A fully connected layer; of flattened images, it is a convolution by a window as large as they are."""
    matrix = _constant(program, node, 1)
    attrs = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0} | dict(node.attrs)
    if matrix.ndim != 2 or attrs["transA"] or program.type(node.inputs[0]).rank != 2:
        raise EngineError(f"{_label(node)} is no product of rows with a matrix; it has no native kernel yet")
    weights = (matrix if attrs["transB"] else matrix.T) * np.float32(attrs["alpha"])
    bias = None
    if len(node.inputs) > 2 and node.inputs[2]:
        scaled = _constant(program, node, 2) * np.float32(attrs["beta"])
        if scaled.ndim > 1 and scaled.shape[0] != 1:
            raise EngineError(f"{_label(node)} adds a matrix, which has no native kernel yet")
        bias = np.broadcast_to(scaled.reshape(-1), weights.shape[:1])
    source = _flattened(program, node.inputs[0])
    images = images_of(program, source)
    window = images.extent
    weights = weights.reshape(-1, images.channels, *window)
    problem = Convolution(
        images.channels, *window, len(weights), window=window, density=density(weights),
        quads=quads(weights), strips=strips(weights),
    )  # fmt: skip
    return Heavy(problem, source, weights, node.output, bias)


def _flattened(program: Program, value: str) -> str:
    """What `value` flattens to rows; itself if it is no flattening."""
    producer = program.producers.get(value)
    if producer is None or producer.op not in ("flatten", "reshape") or program.type(value).rank != 2:
        return value
    before = program.type(producer.inputs[0]).static
    after = program.type(value).static
    same = before is not None and after is not None and len(before) == 4 and before[0] == after[0]
    return producer.inputs[0] if same else value


def _other(program: Program, node: Node, lanes: int) -> Step:
    """A node that stands alone."""
    source = node.inputs[0] if node.inputs else ""
    if node.op in RESHAPING:
        return Rename(source, node.output)
    if node.op == "concat" and node.attrs["axis"] % len(program.type(node.output).dims) == 1:
        return Join(node.inputs, node.output)
    if node.op in ("max_pool", "average_pool"):
        return Light(_pool(program, node, lanes), (source,), node.output)
    rank = len(program.type(source).dims) if source else 0
    if node.op in ("global_average_pool", "global_max_pool"):
        pool = GlobalPool("max" if node.op == "global_max_pool" else "average", lanes)
        return Light(pool, (source,), node.output)
    if node.op in ("reduce_mean", "reduce_max") and rank == 4 and _axes(program, node, rank) == (2, 3):
        return Light(
            GlobalPool("max" if node.op == "reduce_max" else "average", lanes), (source,), node.output
        )
    if node.op == "softmax" and node.attrs["axis"] % rank == 1:
        return Light(Softmax(lanes), (source,), node.output)
    raise EngineError(f"{_label(node)} has no native kernel yet; another engine runs it")


def _pool(program: Program, node: Node, lanes: int) -> Pool:
    images = images_of(program, node.inputs[0])
    window = Window.of(node.attrs, images.extent)
    if len(window.kernel) != 2 or len(node.outputs) > 1:
        raise EngineError(f"{_label(node)} has no native kernel yet; another engine runs it")
    begins, padded = as_ints(window.begins), as_ints(window.padded)
    strides, dilations = as_ints(window.strides), as_ints(window.dilations)
    return Pool(
        "max" if node.op == "max_pool" else "average",
        (window.kernel[0], window.kernel[1]),
        (strides[0], strides[1]),
        (begins[0], begins[1]),
        lanes,
        (dilations[0], dilations[1]),
        (padded[0], padded[1]) if node.attrs.get("count_include_pad") else None,
    )


def _axes(program: Program, node: Node, rank: int) -> tuple[int, ...]:
    axes = program.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
    return tuple(sorted(int(axis) % rank for axis in axes.reshape(-1))) if axes is not None else ()


def _label(node: Node) -> str:
    return f"node '{node.name or node.output}' ({node.op})"
