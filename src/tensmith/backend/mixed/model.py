"""The ONNX side of a mixed model: its program with an operator in the place of each region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import onnx

from tensmith.backend.mixed.regions import Region
from tensmith.ir import Node, Program
from tensmith.ir.part import without_dead

DOMAIN = "tensmith"
# The attribute by which a library knows its model.
_MODEL = "model"


def region_name(index: int) -> str:
    """The operator of a region."""
    return f"Region{index}"


def with_regions(program: Program, regions: Sequence[Region], digest: str) -> Program:
    """The program in which one node does what the nodes of each region did, with the types that it makes."""
    hints = {name: program.type(name) for region in regions for name in region.outputs}
    gone = {node for region in regions for node in region.nodes}
    calls = [_call(index, region, digest) for index, region in enumerate(regions)]
    whole = program.edit(remove=gone, add=calls)
    return without_dead(replace(whole, hints={**program.hints, **hints}))


def _call(index: int, region: Region, digest: str) -> Node:
    operator = region_name(index)
    proto = onnx.helper.make_node(operator, region.inputs, region.outputs, operator, domain=DOMAIN)
    proto.attribute.append(onnx.helper.make_attribute(_MODEL, digest))
    opaque = proto.SerializeToString(deterministic=True)
    return Node(f"{DOMAIN}.{operator}", region.inputs, region.outputs, {}, operator, opaque)
