"""Compiles single kernels, runs them on images and compares them with the reference interpreter."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tensmith.backend.native.steps.curves import function_behind
from tensmith.backend.native.steps.graph import step_graph
from tensmith.ir import Program, TensorType, interpret, make_node
from tensmith.kernel import host_isa
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.algorithms.winograd import Winograd
from tensmith.kernel.buffer import Buffer, Halo
from tensmith.kernel.epilogue import Activation, Epilogue
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.toolchain import compile_library

Array = np.ndarray[Any, Any]

# Wider halos than a kernel asks for must do as well.
LOOSE = Halo(2, 1, 3, 2)


def aligned(count: int, dtype: Any = np.float32, fill: Any = np.nan) -> Array:
    """An array that begins at a multiple of 64 bytes, all elements `fill`."""
    size = np.dtype(dtype).itemsize
    raw = np.zeros(count * size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    found = raw[start : start + count * size].view(dtype)
    if np.dtype(dtype).kind == "f":
        found[...] = fill
    return found


def curve(op: str, *numbers: float, **attrs: Any) -> Activation:
    """An op of a value and numbers, as kernels compute it behind their sums."""
    constants = {f"c{place}": np.array(number, np.float32) for place, number in enumerate(numbers)}
    node = make_node(op, ["x", *constants], ["y"], attrs)
    program = Program("activation", {"x": TensorType("f32", (1,))}, ("y",), (node,), constants)
    found = function_behind(step_graph(program, host_isa()), "x", {node})
    assert found is not None
    return found[0]


@dataclass(frozen=True)
class Fitted:
    """A kernel with the buffers and the epilogue that its code is made for."""

    kernel: Kernel
    source: Buffer
    target: Buffer
    epilogue: Epilogue

    def text(self, name: str) -> str:
        """C text of a function `name` that a library shows."""
        code = self.kernel.code(f"{name}_kernel", self.source, self.target, self.epilogue)
        return code + _ENTRY.format(name)

    def run(
        self, function: Any, image: Array, weights: Array, bias: Array | None, residual: Array | None
    ) -> Array:
        """y [filters, height, width]; lanes past the channels hold NaN on the way in."""
        kernel = self.kernel
        x, y, w = copy(self.source.lay(image, np.nan)), aligned(self.target.size), copy(kernel.pack(weights))
        b = aligned(kernel.isa.round_up(kernel.problem.filters), fill=0)
        if bias is not None:
            b[: len(bias)] = bias
        kept = self.epilogue.residual
        r = copy(kept.lay(residual, np.nan)) if kept is not None and residual is not None else aligned(1)
        scratch = aligned(kernel.scratch_bytes // 4 + 16)
        function(*(ctypes.c_void_p(array.ctypes.data) for array in (x, w, b, r, y, scratch)))
        return self.target.read(y)


def wider(buffer: Buffer) -> Buffer:
    """The buffer with more of a halo."""
    return replace(buffer, halo=buffer.halo.union(LOOSE))


def fitted(kernel: Kernel, epilogue: Epilogue, loose: bool = False) -> Fitted:
    """The kernel for buffers as it asks for them, or with wider halos."""
    source, target = kernel.source, kernel.target
    if loose:
        source, target = wider(source), wider(target)
    return Fitted(kernel, source, target, epilogue)


def run_kernel(
    kernel: Kernel,
    image: Array,
    weights: Array,
    bias: Array | None = None,
    residual: Array | None = None,
    epilogue: Epilogue | None = None,
    loose: bool = False,
) -> Array:
    """y [filters, height, width] of one kernel."""
    kept = kernel.target if residual is not None else None
    made = fitted(kernel, epilogue or Epilogue(bias is not None, kept), loose)
    text = kernel.isa.prelude + made.text("entry")
    function = ctypes.CDLL(str(compile_library(text, kernel.isa))).entry
    return made.run(function, image, weights, bias, residual)


_ENTRY = """
__attribute__((visibility("default")))
void {0}(const void *in, const void *weights, const float *bias, const void *residual, void *out, void *s)
{{ {0}_kernel(in, weights, bias, residual, out, s); }}
"""


def copy(array: Array) -> Array:
    """The array, aligned."""
    found = aligned(array.size, array.dtype, 0)
    found[...] = array.reshape(-1)
    return found


def reference(problem: ConvolutionProblem, image: Array, weights: Array) -> Array:
    """y by the reference interpreter, in double precision."""
    attrs = {
        "strides": problem.strides, "dilations": problem.dilations, "pads": problem.pads,
        "group": problem.groups,
    }  # fmt: skip
    node = make_node("conv", ["x", "w"], ["y"], attrs)
    x, w = image[None].astype(np.float64), weights.astype(np.float64)
    program = Program("one", {"x": TensorType.of(x)}, ("y",), (node,), {"w": w})
    return interpret(program, {"x": x})["y"][0]


def drawn(data: st.DataObject, dtype: str = "f32") -> ConvolutionProblem:
    """A ragged convolution with strides, pads, dilations and groups, as hypothesis picks it."""

    def draw(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    groups = draw(1, 3)
    return ConvolutionProblem(
        groups * draw(1, 40), draw(5, 12), draw(5, 12), groups * draw(1, 40), (draw(1, 3), draw(1, 3)),
        (draw(1, 2), draw(1, 3)), (draw(0, 2), draw(0, 2), draw(0, 2), draw(0, 2)), (draw(1, 2), draw(1, 2)),
        groups, dtype,
    )  # fmt: skip


def sample(problem: ConvolutionProblem, seed: int = 0) -> tuple[Array, Array]:
    """A random image and weights."""
    generator = np.random.default_rng(seed)
    image = generator.standard_normal((problem.channels, problem.height, problem.width), np.float32)
    depth = problem.channels // problem.groups
    weights = generator.standard_normal((problem.filters, depth, *problem.window), np.float32)
    return image, weights


def rounding_bound(problem: ConvolutionProblem, image: Array, weights: Array) -> Array:
    """How far a float32 sum in any order may be off: depth * eps * sum |x||w| (Higham, 2002, eq. 3.5)."""
    eps = float(np.finfo(np.float32).eps)
    return (problem.depth + 4) * eps * reference(problem, abs(image), abs(weights))


def winograd_bound(kernel: Winograd, image: Array, weights: Array) -> float:
    """How far an output may be off in float32: the bound that `winograd` states, for all tiles at once.

    image: [channels, height, width], weights: [filters, channels, *window]; both finite.
    """
    f, phases = kernel.transforms, kernel._phases
    a, g, b = (abs(np.array(m, np.float64)) for m in (f.output_matrix, f.filter_matrix, f.input_matrix))
    split = phases.split(abs(weights.astype(np.float64)))
    filters = np.einsum("pi,kcij,qj->kcpq", g, split.reshape(len(weights), -1, *split.shape[3:]), g)
    # Every tile is at most the largest element of each channel everywhere.
    most = np.tile(abs(image.astype(np.float64)).max((1, 2)), len(phases.order))
    sums = np.einsum("kcpq,c,p,q->kpq", filters, most, b.sum(1), b.sum(1))
    outputs = np.einsum("ip,kpq,jq->kij", a, sums, a)
    eps = float(np.finfo(np.float32).eps)
    return eps * (len(most) + 8 * f.products) * float(outputs.max())
