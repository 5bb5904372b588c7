"""TPC-C for Gaudi: kernels (F_1.tpc.c, ...) and their glue (F_glue.cpp), and a host (F.c, F.h).

There is no such hardware here: the kernels are checked on a functional model of the intrinsics, nothing more.
"""

from __future__ import annotations

from dataclasses import replace

from tensmith.ctext.names import unmixed
from tensmith.formula.types import MachineType
from tensmith.lifting.emit import EmittedFiles, Emitter, emitter
from tensmith.lifting.emit.kernel.plan import LoopNest, make_plan
from tensmith.lifting.emit.vector import glue
from tensmith.lifting.emit.vector.host import Host
from tensmith.lifting.emit.vector.kernel import VectorKernel, make_kernel, stored_for_lanes
from tensmith.lifting.lifted import Lifted
from tensmith.lifting.loops import dtype_of


@emitter
class Tpc(Emitter):
    """TPC-C kernels, glue and host code."""

    name = "tpc"

    def emit(self, lifted: Lifted) -> EmittedFiles:
        """F_k.tpc.c, F_glue.cpp, F.c and F.h."""
        # The host packs views, guards included: kernels read what it packed.
        packed = tuple(replace(given, when="") for given in lifted.inputs)
        plan = make_plan(replace(lifted, inputs=packed), stored_for_lanes, flat=False)
        kernels = _kernels(lifted, plan.steps)
        host = unmixed(lambda names: Host(lifted, plan, kernels, names), Host.own)
        dtypes = {name: lifted.program.type(name).dtype for kernel in kernels for name in kernel.inputs}
        files = {f"{kernel.name}.tpc.c": kernel.text.encode() for kernel in kernels}
        classes = [glue.glue_class(kernel, dtypes) for kernel in kernels]
        files[f"{lifted.function.name}_glue.cpp"] = "\n".join([glue.HEADER, *classes]).encode()
        beside = host.files()
        return EmittedFiles({**files, **beside.files}, beside.notes)


def _kernels(lifted: Lifted, steps: tuple[LoopNest, ...]) -> tuple[VectorKernel, ...]:
    fields = lifted.function.fields
    scalars = {name: dtype_of(type_) for name, type_ in fields if isinstance(type_, MachineType)}
    return tuple(
        make_kernel(f"{lifted.function.name}_{number}", step, scalars) for number, step in enumerate(steps, 1)
    )
