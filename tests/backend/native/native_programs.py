"""Compiles small programs into folders, runs those, and asks the interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nets import Net as Net
from tensmith.backend.native.emit.folder import write_folder
from tensmith.backend.native.emit.loader import Model
from tensmith.backend.native.plan import make_plan
from tensmith.backend.native.steps.graph import step_graph
from tensmith.backend.native.steps.grouping import group
from tensmith.backend.native.steps.placement import placed
from tensmith.backend.native.steps.step import Step
from tensmith.ir import Program, interpret
from tensmith.kernel import Isa, host_isa

Array = np.ndarray[Any, Any]


def steps_of(program: Program) -> list[Step]:
    """The steps of a prepared program."""
    return group(placed(step_graph(program, host_isa())))


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
