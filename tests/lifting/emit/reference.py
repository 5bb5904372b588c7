"""What a lifted function means: its program in the reference interpreter, between views of NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensmith.formula.poly import Poly
from tensmith.ir.interpreter import interpret
from tensmith.ir.types import DTYPES
from tensmith.lifting.lifted import ArrayView, Lifted, Output


def symbols(lifted: Lifted, arguments: Mapping[str, Any]) -> dict[str, int]:
    """Sizes, integer parameters and lengths."""
    found: dict[str, int] = {}
    for name, value in arguments.items():
        if isinstance(value, np.ndarray) and value.ndim:
            found |= {f"len({name}, {axis})": size for axis, size in enumerate(value.shape)}
        elif value is not None and np.asarray(value).dtype.kind in "iu":
            found[name] = int(value)
    sizes: dict[str, int] = {}
    for size in lifted.sizes:
        sizes[size.symbol] = max(0, int(size.poly.evaluate({**sizes, **found})))
    return {**found, **sizes}


def _places(view: ArrayView, known: Mapping[str, int]) -> tuple[Any, ...]:
    """One index array for each axis of the array."""
    shape = tuple(int(extent.evaluate(known)) for extent in view.shape)
    grids = np.indices(shape)
    return tuple(
        np.asarray(offset.evaluate(known) + sum(step.evaluate(known) * g for step, g in zip(steps, grids)))
        .astype(np.int64).reshape(shape)
        for offset, steps in zip(view.offset, view.steps)
    )  # fmt: skip


def run(lifted: Lifted, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Every written array, and "return", by name."""
    known = symbols(lifted, arguments)
    program, given = lifted.program, {}
    for entry in lifted.inputs:
        dtype = DTYPES[program.type(entry.name).dtype]
        if entry.view is not None:
            given[entry.name] = np.asarray(arguments[entry.view.array])[_places(entry.view, known)]
        elif entry.scalar is not None:
            given[entry.name] = np.asarray(arguments[entry.scalar], dtype)
        else:
            assert isinstance(entry.positions, Poly)
            given[entry.name] = np.arange(int(entry.positions.evaluate(known)), dtype=np.int64)
    values = interpret(program, given)
    found: dict[str, Any] = {}
    for output in lifted.outputs:
        _put(output, values[output.name], arguments, known, found)
    return found


def _put(
    output: Output, value: Any, arguments: Mapping[str, Any], known: Mapping[str, int], found: dict[str, Any]
) -> None:
    if output.view is None:
        found["return"] = value
        return
    array = output.view.array
    if array not in found:
        found[array] = np.array(arguments[array])
    shape = tuple(int(extent.evaluate(known)) for extent in output.view.shape)
    found[array][_places(output.view, known)] = np.broadcast_to(value, shape)
