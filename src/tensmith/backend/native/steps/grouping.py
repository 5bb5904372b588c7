"""From nodes to steps: those of images, those of tensors, and a renaming where a value is both."""

from __future__ import annotations

from tensmith.backend.native.steps.image_grouping import image_steps
from tensmith.backend.native.steps.operands import TensorOperands
from tensmith.backend.native.steps.placement import tensor_nodes
from tensmith.backend.native.steps.step import Rename, Step, reads
from tensmith.backend.native.steps.tensor_grouping import tensor_steps
from tensmith.ir import Node, Program
from tensmith.kernel.isa import Isa


def group(program: Program, isa: Isa, tensors: TensorOperands | None = None) -> list[Step]:
    """The steps of a simplified program of fixed sizes; EngineError naming a node without a native kernel."""
    tensors = tensors or TensorOperands(program, tensor_nodes(program))
    steps: dict[Node | None, list[Step]] = {}
    for found in (image_steps(program, isa, tensors.nodes), tensor_steps(tensors, isa)):
        steps |= dict(found.items())
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
