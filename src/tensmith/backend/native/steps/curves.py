"""Functions of one value, as activations are, which kernels compute in their epilogues."""

from __future__ import annotations

from collections.abc import Mapping

from tensmith.backend.native.steps.elementwise import MOST_PRINTED
from tensmith.backend.native.steps.graph import StepGraph
from tensmith.backend.native.steps.operands import Free
from tensmith.ir import Node
from tensmith.ir.ops.quantization import OnGrid
from tensmith.kernel.epilogue import Activation


def function_behind(graph: StepGraph, value: str, free: Free) -> tuple[Activation, list[Node]] | None:
    """The longest function of `value` alone that begins with its readers, and the nodes it stands for.

    They read `value`, each other and single numbers, and nobody else reads what is inside. None if there is
    no such function.
    """
    inside: list[Node] = []
    lines: list[str] = []
    known = {value: "x_"}
    best: tuple[Activation, list[Node]] | None = None
    while len(inside) < MOST_PRINTED and (node := _next(graph, inside, known, free)) is not None:
        function = graph.functions[node]
        text = function.filled({hole: known[node.inputs[int(hole)]] for hole in function.holes})
        known[node.output] = f"t{len(inside)}_"
        lines.append(f"vf {known[node.output]} = {f'rounded({text})' if function.product else text};")
        inside.append(node)
        if all(_read_inside(graph, name, inside) for name in known if name != node.output):
            name = node.op if len(inside) == 1 else "curve"
            best = Activation(name, f"{' '.join(lines)} {known[node.output]}"), list(inside)
    return best


def _next(graph: StepGraph, inside: list[Node], known: Mapping[str, str], free: Free) -> Node | None:
    """A reader of known values that needs nothing else but numbers."""
    for name in known:
        for node in graph.program.consumers.get(name, ()):
            if node in inside or node.kind(OnGrid) is not None or node not in free:
                continue
            function = graph.functions.get(node)
            holes = function.holes if function is not None else ()
            read = holes and all(hole.isdigit() and node.inputs[int(hole)] in known for hole in holes)
            if read and graph.shapes[node.output] == graph.shapes[name]:
                return node
    return None


def _read_inside(graph: StepGraph, value: str, inside: list[Node]) -> bool:
    readers = graph.program.consumers.get(value, ())
    return value not in graph.program.outputs and all(node in inside for node in readers)
