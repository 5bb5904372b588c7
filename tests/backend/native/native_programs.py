"""Builds small programs node by node, compiles them into folders, runs those, and asks the interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tensmith.backend.native.folder import write_folder
from tensmith.backend.native.loader import Model
from tensmith.backend.native.plan import make_plan
from tensmith.ir import Node, Program, TensorType, interpret, make_node
from tensmith.kernel import Isa, host_isa

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


def compile_folder(program: Program, folder: Path, isa: Isa | None = None) -> Path:
    """The program as a folder inside `folder`."""
    path = folder / "compiled"
    write_folder(make_plan(program, isa or host_isa()), path)
    return path


def answers(
    program: Program, folder: Path, isa: Isa | None = None, sixteenths: bool = False
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Outputs of the compiled program, and of the interpreter in double precision."""
    shape = program.inputs["x"].static
    random = np.random.default_rng(1)
    x = random.integers(-96, 96, shape) / 16 if sixteenths else random.standard_normal(shape)
    x = x.astype(np.float32)
    found = Model(compile_folder(program, folder, isa))(x=x)
    return found, interpret(program, {"x": x})
