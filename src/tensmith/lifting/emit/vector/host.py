"""The host side of TPC kernels in C: requirements, packing, launches and unpacking.

Views of arrays are packed into dense tensors; what a kernel stores for the next one stays a tensor. The
launch itself belongs to the runtime: F_launch creates a node of the kernel's name and runs it.
"""

from __future__ import annotations

from dataclasses import replace

from tensmith.ctext.loops import nest_lines
from tensmith.ctext.names import Names, enclosed
from tensmith.ctext.scalar import CBlock
from tensmith.formula.expr import Read
from tensmith.formula.poly import Poly, product
from tensmith.formula.types import MachineType
from tensmith.ir.ops.sizes import flat_position
from tensmith.lifting.emit.c import CSource
from tensmith.lifting.emit.kernel.body import allocation
from tensmith.lifting.emit.kernel.elements import KernelElements, place
from tensmith.lifting.emit.kernel.plan import LoopNest, LoopPlan
from tensmith.lifting.emit.vector.kernel import PARAMETER, VectorKernel
from tensmith.lifting.lifted import Lifted


class Host(CSource):
    """F.c of a function whose loops run on the device."""

    def __init__(
        self, lifted: Lifted, plan: LoopPlan, kernels: tuple[VectorKernel, ...], names: Names
    ) -> None:
        self.kernels = kernels
        self._tensors: dict[str, str] = {}
        super().__init__(lifted, plan, names)
        unchecked = " (not checked: lanes divide by zero without a trap)"
        for place_, entry in enumerate(lifted.requires):
            if entry.kind == "nonzero":
                self.requirements[place_] += unchecked

    def declarations(self) -> str:
        """What F.h says of the launch."""
        name = self.signature.function
        return (
            f"/* A dense tensor: sizes[0] is the fastest dimension. */\n"
            f"struct {name}_tensor {{\n    void *data;\n    const char *type;\n    unsigned rank;\n"
            f"    unsigned sizes[5];\n}};\n\n"
            f"/* Runs a kernel by name on `count` tensors, the last of which it writes; scalars are 32-bit\n"
            f"   words. Returns 0, or a status that {name} returns. To be defined for the runtime. */\n"
            f"int {name}_launch(const char *kernel, const struct {name}_tensor *tensors, int count,\n"
            f"                const int32_t *scalars, int scalar_count);\n\n"
        )

    def notes(self) -> list[str]:
        """What stands behind the kernels."""
        names = ", ".join(kernel.name for kernel in self.kernels)
        return ["", f"Kernels: {names}. Checked on a functional model of the intrinsics."]

    def run(self, scope: CBlock) -> None:
        """Packs, launches each kernel, unpacks."""
        values = dict.fromkeys(value for kernel in self.kernels for value in kernel.inputs)
        fed = [value for value in values if value not in self.plan.stored]
        for value in [*fed, *self.plan.stored]:
            self._allocated(scope, value, self.lifted.program.type(value).dtype, self._shape(value))
        results = {_result(kernel): kernel.step for kernel in self.kernels if kernel.step.output is not None}
        for key, step in results.items():
            self._allocated(scope, key, step.dtype, step.extents)
        tests = " || ".join(f"{name} == NULL" for name in self._tensors.values())
        scope.line(f"int launched = {tests} ? {self.no_memory()} : 0;")
        inner = scope.inner()
        for value in fed:
            self._pack(inner, value)
        for kernel in self.kernels:
            self._launch(inner, kernel)
        done = inner.inner()
        for key, step in results.items():
            self._unpack(done, step, key)
        inner.block("if (!launched)", done)
        scope.block("if (!launched)", inner)
        for name in self._tensors.values():
            scope.line(f"free({name});")
        scope.line("if (launched) return launched;")

    def _shape(self, value: str) -> tuple[Poly, ...]:
        return tuple(map(Poly.of, self.lifted.program.type(value).dims))

    def _allocated(self, scope: CBlock, key: str, dtype: str, shape: tuple[Poly, ...]) -> None:
        name = self.unit.names.fresh(f"tensor_{key.rpartition(' ')[2]}")
        self._tensors[key] = name
        self.unit.buffers[f"tensor {key}"] = name
        scope.line(allocation(scope, name, dtype, Poly.of(product(shape))))

    def _pack(self, scope: CBlock, value: str) -> None:
        """A view, or a constant, as a dense tensor."""
        shape = self._shape(value)
        variables = tuple(f"pack {value} {axis}" for axis in range(len(shape)))
        indices = tuple(map(Poly.symbol, variables))
        dtype = MachineType(self.lifted.program.type(value).dtype)
        entry = next((e for e in self.lifted.inputs if e.name == value), None)
        flat = Poly.of(flat_position(indices, shape))
        if entry is not None and entry.view is not None:
            when = KernelElements(self.lifted).at(entry.when, ()) if entry.when else None
            source = Read(entry.view.array, (place(entry.view, indices),), dtype, when)
        else:
            source = Read(value, (flat,), dtype)
        nest_lines(scope, LoopNest(f"tensor {value}", dtype, variables, shape, flat, source))

    def _launch(self, scope: CBlock, kernel: VectorKernel) -> None:
        name = self.signature.function
        types = self.lifted.program.type
        entries = [(value, types(value).dtype, self._shape(value)) for value in kernel.inputs]
        entries.append((_result(kernel), kernel.step.dtype, kernel.step.extents))
        inner = scope.inner()
        inner.line(f"const struct {name}_tensor tensors[] = {{")
        for value, dtype, shape in entries:
            sizes = ", ".join(f"(unsigned)({scope.poly(size)})" for size in reversed(shape)) or "1"
            rank = max(1, len(shape))
            inner.line(f'    {{ {self._tensors[value]}, "{dtype}", {rank}, {{ {sizes} }} }},')
        inner.line("};")
        words = self._scalars(inner, kernel)
        count = len(kernel.scalars)
        inner.line(f'launched = {name}_launch("{kernel.name}", tensors, {len(entries)}, {words}, {count});')
        empty = " && ".join(f"{enclosed(scope.poly(extent))} > 0" for extent in kernel.step.extents)
        scope.block(f"if (!launched{' && ' + empty if empty else ''})", inner)

    def _scalars(self, scope: CBlock, kernel: VectorKernel) -> str:
        """Scalars and sizes as 32-bit words; floats by their bits."""
        if not kernel.scalars:
            return "NULL"
        scope.line(f"int32_t words[{len(kernel.scalars)}];")
        for position, name in enumerate(kernel.scalars):
            if not name.startswith(PARAMETER):
                scope.line(f"words[{position}] = (int32_t){enclosed(scope.symbol(name))};")
                continue
            parameter = name.removeprefix(PARAMETER)
            text = self.signature.scalars[parameter]
            if dict(self.lifted.function.fields)[parameter] == "f32":
                scope.line(f"memcpy(&words[{position}], &{text}, 4);")
            else:
                scope.line(f"words[{position}] = {text};")
        return "words"

    def _unpack(self, scope: CBlock, step: LoopNest, key: str) -> None:
        """A result put where the source writes it."""
        indices = tuple(map(Poly.symbol, step.variables))
        flat = Poly.of(flat_position(indices, step.extents))
        source = Read(f"tensor {key}", (flat,), MachineType(step.dtype))
        nest_lines(scope, replace(step, expr=source))


def _result(kernel: VectorKernel) -> str:
    """The key of the tensor that a kernel writes."""
    return kernel.step.buffer if kernel.step.output is None else f"result of {kernel.name}"
