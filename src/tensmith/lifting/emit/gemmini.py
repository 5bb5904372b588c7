"""Gemmini: C for its CPU core that gives matrix products and sums to the mesh, and computes the rest itself.

There is no such hardware here: the code is checked on a functional model of the ISA, nothing more.
"""

from __future__ import annotations

import re

from tensmith.ctext.loops import nest_lines
from tensmith.ctext.names import Names, enclosed, unmixed
from tensmith.ctext.scalar import CBlock
from tensmith.formula.expr import Expr, Read
from tensmith.formula.poly import Poly
from tensmith.lifting.emit import EmittedFiles, Emitter, emitter
from tensmith.lifting.emit.c import CSource
from tensmith.lifting.emit.kernel.body import Rooms
from tensmith.lifting.emit.kernel.plan import LoopNest, LoopPlan, make_plan
from tensmith.lifting.emit.mesh import text
from tensmith.lifting.emit.mesh.find import (
    MatrixOperand,
    MatrixProduct,
    Sum,
    find_product,
    find_sum,
    stored_for_mesh,
)
from tensmith.lifting.lifted import Lifted

_Job = MatrixProduct | Sum | None


@emitter
class Gemmini(Emitter):
    """C against the Gemmini ISA."""

    name = "gemmini"

    def emit(self, lifted: Lifted) -> EmittedFiles:
        """F.c and F.h."""
        plan = make_plan(lifted, stored_for_mesh)
        return unmixed(lambda names: MeshSource(lifted, plan, names), MeshSource.own).files()


class MeshSource(CSource):
    """F.c whose products and sums run on the mesh; all of them in one build of the hardware."""

    def __init__(self, lifted: Lifted, plan: LoopPlan, names: Names) -> None:
        self.jobs: list[_Job] = [find_product(step) or find_sum(step) for step in plan.steps]
        builds = {job.build for job in self.jobs if job is not None}
        self.build = "fp32" if "fp32" in builds else "int8" if builds else ""
        self.jobs = [job if job is not None and job.build == self.build else None for job in self.jobs]
        super().__init__(lifted, plan, names)

    # Files

    def text(self) -> str:
        """F.c, with the functions that drive the mesh before it."""
        if not self.build:
            return super().text()
        head, rest = super().text().split("\n\n", 1)
        parts = ['#include "include/gemmini.h"', text.GUARDS[self.build]]
        if any(isinstance(job, MatrixProduct) for job in self.jobs):
            parts += [text.PRODUCT, text.EMPTY]
        if any(isinstance(job, Sum) for job in self.jobs):
            parts.append(text.SUM)
        return "\n\n".join([head, "\n\n".join(part.rstrip() for part in parts), rest])

    def own(self) -> str:
        """Also the functions that drive the mesh."""
        beside = re.findall(r"^\w[^;={]*?\b(\w+)\(", self.text(), re.MULTILINE)
        return " ".join([super().own(), *(name for name in beside if name != self.signature.function)])

    def notes(self) -> list[str]:
        """What runs where, for the header."""
        mesh = [step.buffer for step, job in zip(self.plan.steps, self.jobs) if job is not None]
        core = [step.buffer for step, job in zip(self.plan.steps, self.jobs) if job is None]
        if not mesh:
            reason = "Gemmini multiplies and adds float, int8_t and int32_t matrices"
            return ["", f"Nothing of it runs on Gemmini, all of it on the CPU core: {reason}."]
        lines = ["", f"On Gemmini ({self.build} build): {', '.join(mesh)}."]
        lines += [f"On the CPU core, for want of a counterpart: {', '.join(core)}."] if core else []
        return [*lines, "Checked on a functional model of the ISA."]

    # Steps

    def nest(self, scope: CBlock, step: LoopNest) -> None:
        """A call of the mesh, or plain loops."""
        number = self.plan.steps.index(step)
        job = self.jobs[number]
        if isinstance(job, MatrixProduct):
            self._product(scope, step, job, number)
        elif isinstance(job, Sum):
            self._sum(scope, step, job)
        else:
            scope.line("/* On the CPU core. */")
            nest_lines(scope, step)

    def rooms(self) -> Rooms:
        """Also matrices whose rows are not contiguous, which are copied first."""
        found = dict(super().rooms())
        for number, job in enumerate(self.jobs):
            if not isinstance(job, MatrixProduct):
                continue
            sizes = {"a": job.rows * job.depth, "b": job.depth * job.columns, "d": job.rows * job.columns}
            for side, operand in (("a", job.a), ("b", job.b), ("d", job.bias)):
                if operand is not None and not operand.dense:
                    key = f"packed {number} {side}"
                    found[key] = (operand.load.type, sizes[side])
                    self.unit.buffers[key] = self.unit.names.fresh(f"packed_{side}")
        return found

    def _product(self, scope: CBlock, step: LoopNest, job: MatrixProduct, number: int) -> None:
        """One call of the mesh for each index of the loops around."""
        current, opened = scope, []
        for axis in job.outer:
            name = scope.unit.names.fresh("i")
            inner = current.inner()
            inner.variables[step.variables[axis]] = name
            extent = enclosed(current.poly(step.extents[axis]))
            opened.append((current, f"for (int64_t {name} = 0; {name} < {extent}; {name}++)", inner))
            current = inner
        a = self._operand(current, job.a, f"packed {number} a", job.rows, job.depth)
        b = self._operand(current, job.b, f"packed {number} b", job.depth, job.columns)
        bias = "NULL, 0"
        if job.bias is not None:
            bias = self._operand(current, job.bias, f"packed {number} d", job.rows, job.columns)
        start, stride = (current.poly(poly) for poly in job.c)
        target = f"{self._written(step)} + {enclosed(start)}, (size_t){enclosed(stride)}"
        rows, columns, depth = (
            f"(size_t){enclosed(current.poly(poly))}" for poly in (job.rows, job.columns, job.depth)
        )
        current.line(
            f"if ({depth} > 0) mesh_product({rows}, {columns}, {depth}, {a}, {b}, {bias}, {target});"
        )
        current.line(f"else empty_product({rows}, {columns}, {bias}, {target});")
        for outer, head, inner in reversed(opened):
            outer.block(head, inner)

    def _operand(self, scope: CBlock, operand: MatrixOperand, packed: str, rows: Poly, columns: Poly) -> str:
        """Pointer and row stride of a matrix, copied row by row where its rows are not contiguous."""
        if operand.dense:
            base = self.unit.buffers[operand.load.tensor]
            start = enclosed(scope.poly(operand.start))
            return f"{base} + {start}, (size_t){enclosed(scope.poly(operand.stride))}"
        variables = (f"{packed} row", f"{packed} column")
        i, j = map(Poly.symbol, variables)
        index = operand.start + operand.stride * i + operand.column * j
        source = Read(operand.load.tensor, (index,), operand.load.type)
        nest_lines(scope, LoopNest(packed, source.type, variables, (rows, columns), i * columns + j, source))
        return f"{self.unit.buffers[packed]}, (size_t){enclosed(scope.poly(columns))}"

    def _sum(self, scope: CBlock, step: LoopNest, job: Sum) -> None:
        given = []
        for factor, sign, load, offset in job.terms:
            pointer = f"{self.unit.buffers[load.tensor]} + {enclosed(scope.poly(offset))}"
            given.append(f"{pointer}, {self._scale(scope, factor, sign)}")
        given += ["NULL, MVIN_SCALE_IDENTITY"] * (3 - len(given))
        target = f"{self._written(step)} + {enclosed(scope.poly(job.target))}"
        scope.line(f"mesh_sum((size_t){enclosed(scope.poly(job.count))}, {', '.join(given)}, {target});")

    def _scale(self, scope: CBlock, factor: Expr | None, sign: int) -> str:
        if factor is None:
            return "MVIN_SCALE_IDENTITY" if sign > 0 else "-1.0f"
        text_ = enclosed(scope.value(factor))
        return text_ if sign > 0 else f"-{text_}"

    def _written(self, step: LoopNest) -> str:
        return self.unit.buffers[step.target]
