"""Some nodes of a program, cut out as a program of their own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from tensmith.ir.op import Node
from tensmith.ir.program import Program


def alive(nodes: Sequence[Node], outputs: Iterable[str]) -> list[Node]:
    """The nodes, in their order, that some values depend on."""
    needed, kept = set(outputs), list[Node]()
    for node in reversed(nodes):
        if not needed.isdisjoint(filter(None, node.outputs)):
            needed.update(node.inputs)
            kept.append(node)
    return kept[::-1]


def without_dead(program: Program) -> Program:
    """The program without nodes and constants that no output depends on; itself where there are none."""
    nodes = alive(program.nodes, program.outputs)
    read = {*program.outputs, *(name for node in nodes for name in node.inputs)}
    constants = {name: array for name, array in program.constants.items() if name in read}
    same = len(nodes) == len(program.nodes) and len(constants) == len(program.constants)
    return program if same else replace(program, nodes=tuple(nodes), constants=constants)


def cut_out(program: Program, nodes: Collection[Node]) -> Program:
    """Some nodes as a program that keeps the names of values, with what constants alone compute for them.

    It reads what they read of others, and gives what others read of them. ProgramError where the type of a
    value that it reads is not known.
    """
    inside = set(nodes)
    waiting = [name for node in nodes for name in node.inputs]
    while waiting:
        node = program.producers.get(name := waiting.pop())
        if node is not None and node not in inside and name in program.static_values:
            inside.add(node)
            waiting += node.inputs
    ordered = [node for node in program.nodes if node in inside]
    made = {name for node in ordered for name in node.outputs}
    read = dict.fromkeys(name for node in ordered for name in node.inputs if name and name not in made)
    given = {name: program.type(name) for name in read if name not in program.constants}
    wanted = [name for node in ordered if node in nodes for name in node.outputs if name]
    return replace(
        program,
        inputs=given,
        outputs=tuple(name for name in wanted if _is_wanted(program, name, inside)),
        nodes=tuple(ordered),
        constants={name: program.constants[name] for name in read if name in program.constants},
        hints={},
    )


def _is_wanted(program: Program, name: str, inside: Collection[Node]) -> bool:
    """Whether anybody outside reads a value."""
    return name in program.outputs or any(node not in inside for node in program.consumers.get(name, ()))
