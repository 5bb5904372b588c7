"""Runs a lifted function through the reference interpreter: what every emitter's text must do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensmith.ir import Program, interpret
from tensmith.ir.types import DTYPES
from tensmith.lifting.lifted import ArrayView, Input, Lifted


def sizes(lifted: Lifted, arguments: Mapping[str, Any]) -> dict[str, int]:
    """Every symbol's value."""
    known = {key: int(v) for key, v in arguments.items() if np.ndim(v) == 0}
    for key, array in arguments.items():
        known |= {f"len({key}, {axis})": size for axis, size in enumerate(np.shape(array))}
    values = dict(known)
    for size in lifted.sizes:
        taken = not size.when or _holds(lifted, size.when, arguments, values)
        values[size.symbol] = max(0, size.poly.evaluate({**values, **known})) if taken else 0
    return values


def _holds(lifted: Lifted, value: str, arguments: Mapping[str, Any], values: Mapping[str, int]) -> bool:
    """A truth value of the program that scalars decide."""
    program, needed, nodes = lifted.program, {value}, []
    for node in reversed(program.nodes):
        if needed & {*node.outputs}:
            nodes.insert(0, node)
            needed.update(node.inputs)
    inputs = {name: type_ for name, type_ in program.inputs.items() if name in needed}
    constants = {name: array for name, array in program.constants.items() if name in needed}
    asked = Program(program.name, inputs, (value,), tuple(nodes), constants)
    return bool(interpret(asked, _given(lifted, asked, arguments, values))[value])


def _given(
    lifted: Lifted, program: Program, arguments: Mapping[str, Any], values: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """The inputs of a program that is the lifted one, or a part of it."""
    given = {}
    for item in (item for item in lifted.inputs if item.name in program.inputs):
        dtype = DTYPES[program.inputs[item.name].dtype]
        if item.view is not None:
            given[item.name] = read(item, arguments[item.view.array], values)
        elif item.positions is not None:
            given[item.name] = np.arange(item.positions.evaluate(values))
        else:
            given[item.name] = np.asarray(arguments[item.scalar or ""], dtype=dtype)
    return given


def places(view: ArrayView, values: Mapping[str, int], guarded: bool = False) -> tuple[np.ndarray, ...]:
    """Subscripts of a view's elements."""
    shape = [extent.evaluate(values) for extent in view.shape]
    grids = np.indices(shape)
    found = []
    for offset, row in zip(view.offset, view.steps):
        place = np.full(shape, offset.evaluate(values))
        for step, grid in zip(row, grids):
            place = place + step.evaluate(values) * grid
        assert guarded or np.all(place >= 0), f"{view} begins before its array"
        found.append(place)
    return tuple(found)


def read(item: Input, array: np.ndarray, values: Mapping[str, int]) -> np.ndarray:
    """The elements of a view; of one that is guarded, anything in the place of those that are not there."""
    assert item.view is not None
    if not item.when:
        return array[places(item.view, values)]
    padded = np.pad(array, [(0, 1)] * array.ndim)
    found = places(item.view, values, guarded=True)
    return padded[tuple(np.clip(place, 0, size) for place, size in zip(found, array.shape))]


def run(lifted: Lifted, arguments: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Parameter (or "return") -> its content afterwards."""
    values = sizes(lifted, arguments)
    results = interpret(lifted.program, _given(lifted, lifted.program, arguments, values))
    found: dict[str, np.ndarray] = {}
    for output in lifted.outputs:
        value = results[output.name]
        type_ = lifted.program.type(output.name)
        assert value.shape == tuple(d if isinstance(d, int) else d.evaluate(values) for d in type_.dims)
        if output.view is None:
            found["return"] = value
            continue
        array = found.setdefault(output.view.array, np.array(arguments[output.view.array]))
        array[places(output.view, values)] = value
    return found
