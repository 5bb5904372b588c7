"""Elementwise programs over unbroken runs of flat memory need no axes: one run in, one run out."""

from __future__ import annotations

from dataclasses import replace

from tensmith.formula.poly import Poly, product
from tensmith.ir import Program
from tensmith.ir.op import OPS
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.lifting.lifted import ArrayView, Input, Lifted, Output


def flattened(lifted: Lifted) -> Lifted:
    """The same function with one axis in place of several, where no node tells them apart."""
    placed: tuple[Input | Output, ...] = (*lifted.inputs, *lifted.outputs)
    views = [entry.view for entry in placed if entry.view is not None]
    shapes = {view.shape for view in views}
    alike = len(shapes) == 1 and all(view.run == tuple(range(len(view.shape))) for view in views)
    if not alike or len(views[0].shape) < 2 or not _elementwise(lifted.program):
        return lifted
    if any(x.positions is not None for x in lifted.inputs) or any(x.view is None for x in lifted.outputs):
        return lifted
    extent = product(views[0].shape)
    program = lifted.program
    types = {
        name: type_.with_shape((extent,)) if type_.dims else type_ for name, type_ in program.inputs.items()
    }

    def run(view: ArrayView | None) -> ArrayView | None:
        return view and ArrayView(view.array, view.offset, ((Poly.of(1),),), (Poly.of(extent),))

    return replace(
        lifted,
        program=replace(program, inputs=types),
        inputs=tuple(replace(given, view=run(given.view)) for given in lifted.inputs),
        outputs=tuple(replace(output, view=run(output.view)) for output in lifted.outputs),
    )


def _elementwise(program: Program) -> bool:
    alone = all(node.op == "cast" or isinstance(OPS.get(node.op), Elementwise) for node in program.nodes)
    return alone and not any(array.ndim for array in program.constants.values())
