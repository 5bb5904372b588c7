"""Tables that rows are looked up in, as codes: embeddings, also those that an output head multiplies with.

One constant of codes with a scale a row serves both. A lookup takes rows of codes and their scales, and
dequantizes those alone, so that no engine opens the whole table for a few rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tensmith.errors import ProgramError
from tensmith.ir import Node, Program, make_node
from tensmith.ir.onnx_schema import ELEMENT_CODES
from tensmith.ir.part import without_dead
from tensmith.rewrite.lossy.grid import QuantizedWeights
from tensmith.rewrite.lossy.weights import LookupTable, WeightedLayer, is_table, layers_at, lookups
from tensmith.rewrite.rule import EVERYWHERE


def layers_but_tables(program: Program, site: str) -> list[WeightedLayer]:
    """`layers_at`, at EVERYWHERE without tables: a layer's inputs do not tell what errors in them do.

    ProgramError if nothing is left.
    """
    found = layers_at(program, site)
    if site == EVERYWHERE:
        found = [layer for layer in found if not is_table(program, layer)]
    if not found:
        raise ProgramError("the program has no weights but tables that rows are looked up in")
    return found


def table_in_codes(program: Program, table: LookupTable, grid: QuantizedWeights) -> Program:
    """The program with a table as codes and scales, in the place of its numbers."""
    codes, scales = (program.unused(f"{table.weight}.{part}") for part in ("codes", "scale"))
    element = program.constants[table.weight].dtype
    made = program.with_constants({codes: grid.codes, scales: grid.scales.astype(element)})
    coded = looked_up_as_codes(made, {table.weight: (codes, scales)})
    kept = {name: array for name, array in coded.constants.items() if name != table.weight}
    return replace(coded, constants=kept)


def codes_of_table(program: Program, site: str) -> tuple[str, str]:
    """The codes and scales that `table_in_codes` made of a table, by a value that is looked up in it."""
    found = _row_of_codes(program, program.producers[site])
    assert found is not None
    return found[:2]


def looked_up_as_codes(program: Program, coded: Mapping[str, tuple[str, str]]) -> Program:
    """The program with rows of each table gathered from (codes [n, d] in int8, scales [n]), by name.

    gather(table, i)   becomes   cast(gather(codes, i)) * unsqueeze(gather(scales, i), -1)

    in the type of the scales, cast to that of the table where it is another.
    """
    last = next(program.fresh("last_axis"))
    replaced: dict[Node, list[Node]] = {}
    for table, (codes, scales) in coded.items():
        element, own_element = (ELEMENT_CODES[program.type(name).dtype] for name in (table, scales))
        for node in lookups(program, table):
            made = ("rows", "wide", "own", "column", "product")
            names = [program.unused(f"{node.output}.{part}") for part in made]
            if element == own_element:
                names[-1] = node.output
            replaced[node] = _row(codes, scales, node.inputs[1], last, own_element, names)
            if element != own_element:
                replaced[node].append(make_node("cast", (names[-1],), (node.output,), {"to": element}))
    if not replaced:
        return program
    nodes = tuple(new for node in program.nodes for new in replaced.get(node, [node]))
    constants = {**program.constants, last: np.array([-1], np.int64)}
    return replace(program, nodes=nodes, constants=constants)


def _row(codes: str, scales: str, places: str, last: str, element: int, names: Sequence[str]) -> list[Node]:
    """Rows of codes and their product with the scales, in the element type of these."""
    rows, wide, own, column, product = names
    return [
        make_node("gather", (codes, places), (rows,), {"axis": 0}),
        make_node("cast", (rows,), (wide,), {"to": element}),
        make_node("gather", (scales, places), (own,), {"axis": 0}),
        make_node("unsqueeze", (own, last), (column,)),
        make_node("mul", (wide, column), (product,)),
    ]


def with_tables_opened(program: Program) -> Program:
    """The program with rows of numbers gathered in the place of codes and scales, as for `looked_up_as_codes`
    they were: the same numbers, of a table that can learn."""
    replaced: dict[Node, list[Node]] = {}
    for node in program.nodes:
        if (found := _row_of_codes(program, node)) is not None:
            codes, scales, places = found
            opened = program.unused(f"{node.output}.opened")
            replaced[node] = [
                make_node("dequantize_linear", (codes, scales), (opened,), {"axis": 0}),
                make_node("gather", (opened, places), (node.output,), {"axis": 0}),
            ]
    nodes = tuple(new for node in program.nodes for new in replaced.get(node, [node]))
    return without_dead(replace(program, nodes=nodes)) if replaced else program


def _row_of_codes(program: Program, node: Node) -> tuple[str, str, str] | None:
    """(codes, scales, places) of a product that is a `_row`."""
    chains = [_behind(program, name) for name in node.inputs]
    if list(map(len, chains)) != [2, 2]:
        return None
    (wide, rows), (column, own) = chains
    (codes, *places), (scales, *others) = rows.inputs, own.inputs
    arrays = program.constants.get(codes), program.constants.get(scales)
    if places != others or len(places) != 1 or arrays[0] is None or arrays[1] is None:
        return None
    if arrays[0].ndim != 2 or arrays[0].dtype.kind != "i" or arrays[1].shape != arrays[0].shape[:1]:
        return None
    element = ELEMENT_CODES[program.type(scales).dtype]
    wanted = _row(
        codes,
        scales,
        places[0],
        column.inputs[-1],
        element,
        [n.output for n in (rows, wide, own, column, node)],
    )
    found = (rows, wide, own, column, node)
    same = all(a.function == b.function and a.inputs == b.inputs for a, b in zip(found, wanted))
    return (codes, scales, places[0]) if same else None


def _behind(program: Program, name: str) -> list[Node]:
    """The node that makes a value, and that which makes its first input, as far as there are such."""
    found: list[Node] = []
    while len(found) < 2 and (node := program.producers.get(name)) is not None and node.inputs:
        found.append(node)
        name = node.inputs[0]
    return found
