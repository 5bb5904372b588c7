"""Glue code of TPC kernels: what the graph compiler asks of a kernel before it divides the work.

The class follows the public kernel library interface: it validates tensors, gives the index space, and says
which part of every tensor a point of the index space touches.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensmith.formula.expr import Read
from tensmith.formula.poly import Poly
from tensmith.formula.walk import loads
from tensmith.lifting.emit.vector.kernel import VectorKernel

_DATA = {"f32": "F32", "i32": "I32", "i16": "I16", "u16": "U16", "i8": "I8", "u8": "U8"}

HEADER = """\
#include <cstring>
#include "tpc_kernel_lib_interface.h"
"""


def glue_class(kernel: VectorKernel, dtypes: dict[str, str]) -> str:
    """A class with GetKernelName and GetGcDefinitions; `dtypes`: element type of each input tensor."""
    name = kernel.name
    inputs = kernel.inputs
    types = [dtypes[value] for value in inputs]
    lines = [
        f"extern unsigned char _binary___{name}_o_start;",
        f"extern unsigned char _binary___{name}_o_end;",
        "",
        f"/* Tensors: {len(inputs)} in, 1 out. Scalars of 32 bits: {len(kernel.scalars)}. */",
        f"class {name}_glue",
        "{",
        "public:",
        "    tpc_lib_api::GlueCodeReturn GetKernelName(char kernelName[tpc_lib_api::MAX_NODE_NAME])",
        "    {",
        f'        strcpy(kernelName, "{name}");',
        "        return tpc_lib_api::GLUE_SUCCESS;",
        "    }",
        "",
        "    tpc_lib_api::GlueCodeReturn GetGcDefinitions(tpc_lib_api::HabanaKernelParams *in_defs,",
        "                                                 tpc_lib_api::HabanaKernelInstantiation *out_defs)",
        "    {",
        *(f"        {line}" for line in _body(kernel, types)),
        "    }",
        "};",
    ]
    return "\n".join(lines) + "\n"


def _body(kernel: VectorKernel, types: list[str]) -> Iterator[str]:
    yield f"if (in_defs->inputTensorNr != {len(types)}) {{"
    yield f"    in_defs->inputTensorNr = {len(types)};"
    yield "    return tpc_lib_api::GLUE_INCOMPATIBLE_INPUT_COUNT;"
    yield "}"
    yield "if (in_defs->outputTensorNr != 1) {"
    yield "    in_defs->outputTensorNr = 1;"
    yield "    return tpc_lib_api::GLUE_INCOMPATIBLE_OUTPUT_COUNT;"
    yield "}"
    for side, place, dtype in [
        *(("inputTensors", place, dtype) for place, dtype in enumerate(types)),
        ("outputTensors", 0, kernel.step.dtype),
    ]:
        data = f"tpc_lib_api::DATA_{_DATA[dtype]}"
        yield f"if (in_defs->{side}[{place}].geometry.dataType != {data}) {{"
        yield f"    in_defs->{side}[{place}].geometry.dataType = {data};"
        yield "    return tpc_lib_api::GLUE_INCOMPATIBLE_DATA_TYPE;"
        yield "}"
    yield from _geometry(kernel)
    for place, value in enumerate(kernel.inputs):
        yield from _input_pattern(kernel, place, value)
    yield from _parameters(kernel)
    yield f"const unsigned size = &_binary___{kernel.name}_o_end - &_binary___{kernel.name}_o_start;"
    yield "const unsigned room = out_defs->kernel.elfSize;"
    yield "out_defs->kernel.elfSize = size;"
    yield "if (room < size)"
    yield "    return tpc_lib_api::GLUE_INSUFFICIENT_ELF_BUFFER;"
    yield f"memcpy(out_defs->kernel.kernelElf, &_binary___{kernel.name}_o_start, size);"
    yield "return tpc_lib_api::GLUE_SUCCESS;"


def _geometry(kernel: VectorKernel) -> Iterator[str]:
    rank = max(1, len(kernel.step.variables))
    yield f"out_defs->indexSpaceRank = {rank};"
    yield "const auto &out = in_defs->outputTensors[0].geometry;"
    for dimension in range(rank):
        covered = kernel.lanes if dimension == 0 else 1
        rounded = (
            f"(out.maxSizes[0] + {covered - 1}) / {covered}" if covered > 1 else f"out.maxSizes[{dimension}]"
        )
        yield f"out_defs->indexSpaceGeometry[{dimension}] = {rounded};"
        target = f"out_defs->outputTensorAccessPattern[0].mapping[{dimension}]"
        yield from _mapping(target, dimension, covered)


def _mapping(target: str, dimension: int, covered: int) -> Iterator[str]:
    """Point i touches covered * i up to covered * i + covered - 1."""
    yield f"{target}.indexSpaceDim = {dimension};"
    yield f"{target}.a = {covered};"
    yield f"{target}.start_b = 0;"
    yield f"{target}.end_b = {covered - 1};"


def _input_pattern(kernel: VectorKernel, place: int, value: str) -> Iterator[str]:
    """Which part of an input a point reads; all of it where loops of the kernel run over it."""
    pattern = f"out_defs->inputTensorAccessPattern[{place}]"
    found = [load for load in loads(kernel.step.expr) if load.tensor == value]
    dimensions = [_dimension(kernel, found, axis) for axis in range(len(found[0].indices))]
    if any(dimension is None for dimension in dimensions):
        yield f"{pattern}.allRequired = true;"
        return
    for axis, dimension in enumerate(dimensions):
        assert dimension is not None
        target = f"{pattern}.mapping[{len(dimensions) - 1 - axis}]"
        yield from _mapping(target, dimension, kernel.lanes if dimension == 0 else 1)


def _dimension(kernel: VectorKernel, found: list[Read], axis: int) -> int | None:
    """The index space dimension that an axis of every load follows step by step."""
    variables = kernel.step.variables
    for position, variable in enumerate(variables):
        if all(load.indices[axis] == Poly.symbol(variable) for load in found):
            return len(variables) - 1 - position
    return None


def _parameters(kernel: VectorKernel) -> Iterator[str]:
    if kernel.scalars:
        count = len(kernel.scalars)
        yield f"out_defs->kernel.paramsNr = {count};"
        yield f"memcpy(&out_defs->kernel.scalarParams[0], in_defs->nodeParams.nodeParams, {count} * 4);"
