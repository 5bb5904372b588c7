"""A prepared program with what steps need to know of it, derived once.

A value is seen as images (`images`, where its rank allows: floats, and bytes whose quantization parameters
are known), or as a tensor that lies dense, and `names` says what it is called there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tensmith.backend.native.images import Images, images_of, rows_of
from tensmith.backend.native.quantization import parameters_of, parameters_of_values
from tensmith.backend.native.steps.functions import ElementFunction, element_function
from tensmith.backend.native.steps.integers import IntegerOperands, integer_operands
from tensmith.errors import EngineError
from tensmith.ir import Node, Program, TensorType
from tensmith.ir.static import StaticValues
from tensmith.kernel.isa import Isa
from tensmith.kernel.quantized import QuantizationParameters

Fact = TypeVar("Fact")
_NO_KERNEL = "there is no native kernel"


@dataclass(eq=False)
class StepGraph:
    """Facts of values by name and of nodes; `tensors` are the nodes that read and make dense tensors.

    A value is kept under its own name where none but tensor nodes make and read it, else beside the image.
    `made` are views that a step makes dense as it computes what they show: nothing else of that exists.
    `tables` are floats that a step makes for others and no node of the program names, with how many they are.
    `bfloat`: products of values may round what they multiply to bfloat16.
    """

    program: Program
    isa: Isa
    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, str]
    images: Mapping[str, Images]
    constants: StaticValues
    parameters: Mapping[Node, QuantizationParameters]
    quantized: Mapping[str, QuantizationParameters]
    integers: Mapping[Node, IntegerOperands]
    functions: Mapping[Node, ElementFunction]
    tensors: frozenset[Node] = frozenset()
    names: Mapping[str, str] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)
    tables: dict[str, int] = field(default_factory=dict)
    bfloat: bool = False


def step_graph(program: Program, isa: Isa, bfloat: bool = False) -> StepGraph:
    """The facts of a program; EngineError where sizes are not fixed."""
    types = {name: program.type(name) for name in (*program.inputs, *program.constants)}
    for name, type_ in types.items():
        if type_.static is None:
            raise EngineError(f"'{name}' has the symbolic shape {type_}; the native engine needs fixed sizes")
    for node in program.nodes:
        types |= {name: program.type(name) for name in node.outputs if name}
        if any(types[name].static is None for name in node.outputs if name):  # its sizes depend on numbers
            raise EngineError(f"{node.label} has no native kernel yet; another engine runs it")
    shapes = {name: type_.static or () for name, type_ in types.items()}
    constants = StaticValues(program)
    computed = [node for node in program.nodes if node.output not in constants]
    parameters = _known(program.nodes, lambda node: parameters_of(program, node))
    quantized = parameters_of_values(program, parameters)
    return StepGraph(
        program,
        isa,
        shapes=shapes,
        dtypes={name: type_.dtype for name, type_ in types.items()},
        images={
            name: seen
            for name, type_ in types.items()
            if (type_.dtype == "f32" or name in quantized) and (seen := images_of(type_)) is not None
        },
        constants=constants,
        parameters=parameters,
        quantized=quantized,
        integers=_known(computed, lambda node: integer_operands(program, parameters, node)),
        functions=_known(
            computed, lambda node: element_function(program, node, constants, parameters.get(node))
        ),
        bfloat=bfloat,
    )


def _known(nodes: Iterable[Node], fact: Callable[[Node], Fact | None]) -> dict[Node, Fact]:
    """A fact of the nodes that have it."""
    found = ((node, fact(node)) for node in nodes)
    return {node: known for node, known in found if known is not None}


def seen(graph: StepGraph, names: Iterable[str]) -> tuple[dict[str, Images], dict[str, str]]:
    """What steps call values -> how these lie as images; and, of those that are tensors, the element types.

    EngineError if there is no native kernel for one.
    """
    called = {name: value for value, name in graph.names.items()}
    images = {name: Images(1, size, 1, 1) for name, size in graph.tables.items()}
    dtypes = dict.fromkeys(graph.tables, "f32")
    ends = {*graph.program.inputs, *graph.program.outputs}
    for name in names:
        value = called.get(name, name)
        type_ = graph.program.type(value)
        tensor = name in called and (name != value or _is_tensor(graph, value))
        found = rows_of(type_) if tensor else images_of(type_)
        if found is None:
            raise not_held(value, type_)
        images[name] = found
        if tensor:
            dtypes[name] = type_.dtype
        elif value in ends and type_.dtype != "f32" and (type_.dtype != "u8" or value not in graph.quantized):
            raise EngineError(f"'{value}' is {type_.dtype} at the border of the program: {_NO_KERNEL}")
    return images, dtypes


def not_held(value: str, type_: TensorType) -> EngineError:
    """What is said of a value that native memory does not hold."""
    return EngineError(f"'{value}' is {type_}; {_NO_KERNEL} for that yet")


def _is_tensor(graph: StepGraph, value: str) -> bool:
    """Whether none but tensor nodes make and read a value; a constant is written as it lies."""
    if value in graph.constants:
        return True
    producer = graph.program.producers.get(value)
    makers = graph.program.consumers.get(value, ()) if producer is None else (producer,)
    return graph.tensors.issuperset(makers)
