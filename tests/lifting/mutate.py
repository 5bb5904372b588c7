"""Wrong twins of summaries and of programs: one small change at one place, or the same one everywhere.

A change is made at a random place of the claim: an operator, a constant, a subscript, an extent, a start, an
array, the kind of a fold, a mask, a closed form, a requirement. "Everywhere" makes all equal terms change
alike, so that facts and results stay consistent with each other and only the function speaks against them.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from tensmith.formula.expr import Call, Choose, Num, Read, Reduce, Size
from tensmith.formula.poly import Poly
from tensmith.formula.types import MachineType
from tensmith.ir import Program
from tensmith.lifting.lifted import ArrayView, Lifted
from tensmith.lifting.loops import Array, Struct
from tensmith.lifting.summary import Requirement, Summary, Term, Written

Path = tuple[Any, ...]

_SWAPS = {
    "add": "sub", "sub": "add", "mul": "add", "neg": "abs", "abs": "neg", "minimum": "maximum",
    "maximum": "minimum", "less": "less_equal", "less_equal": "less", "equal": "not_equal",
    "not_equal": "equal", "and": "or", "or": "and", "div": "floor_div", "floor_div": "div", "fmod": "mod",
    "mod": "fmod", "right_shift": "left_shift", "exp": "sqrt", "sqrt": "exp",
}  # fmt: skip
_KINDS = {"sum": "prod", "prod": "sum", "max": "min", "min": "max"}


def at(node: Any, path: Path) -> Any:
    """What stands at a place."""
    for step in path:
        node = node[step] if isinstance(node, tuple | Mapping) else getattr(node, step)
    return node


def put(node: Any, path: Path, new: Any) -> Any:
    """The same tree with something else at a place."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(node, tuple):
        return (*node[:step], put(node[step], rest, new), *node[step + 1 :])
    if isinstance(node, Mapping):
        return {**node, step: put(node[step], rest, new)}
    return dataclasses.replace(node, **{step: put(getattr(node, step), rest, new)})


def places(node: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every node of a claim that may be changed, with its place."""
    if isinstance(
        node,
        Poly | Num | Size | Read | Call | Reduce | Choose | Written | Requirement,
    ):
        yield path, node
    if isinstance(node, Poly):
        return
    if isinstance(node, tuple):
        for number, item in enumerate(node):
            yield from places(item, (*path, number))
    elif isinstance(node, Mapping):
        for key, item in node.items():
            yield from places(item, (*path, key))
    elif dataclasses.is_dataclass(node) and not isinstance(node, type):
        for field in dataclasses.fields(node):
            if field.name not in ("function", "type", "sizes", "locals"):
                yield from places(getattr(node, field.name), (*path, field.name))


def everywhere(node: Any, old: Any, new: Any) -> Any:
    """The tree with every part that equals `old` replaced."""
    if type(node) is type(old) and node == old:
        return new
    if isinstance(node, Poly):
        return node
    if isinstance(node, tuple):
        return tuple(everywhere(item, old, new) for item in node)
    if isinstance(node, Mapping):
        return {key: everywhere(item, old, new) for key, item in node.items()}
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        kept = ("function", "type", "sizes", "locals")
        changed = {
            field.name: everywhere(getattr(node, field.name), old, new)
            for field in dataclasses.fields(node)
            if field.name not in kept
        }
        return dataclasses.replace(node, **changed)
    return node


def changes(node: Any, summary: Summary, chance: random.Random) -> list[Any]:
    """What may stand in a node's place."""
    match node:
        case Poly():
            symbols = [Poly.symbol(size.symbol) for size in summary.sizes]
            more = [node + chance.choice(symbols)] if symbols else []
            return [node + 1, node - 1, -node, node * 2, *more]
        case Num(value, type_):
            return [Num(value + 1, type_), Num(value - 1, type_), Num(-value, type_)]
        case Size(poly, type_):
            return [Size(poly + 1, type_), Size(poly - 1, type_), Size(poly * 2, type_)]
        case Read(_, (), type_):
            return [Num(Fraction(1), type_)]
        case Read(array, indices, type_):
            found: list[Any] = [Num(Fraction(0), type_)]
            found += [Read(other, indices, type_) for other in _alike(summary, array)]
            found += [Read(array, indices[::-1], type_)] if len(indices) > 1 else []
            return found
        case Call("cast", (value,), type_):
            narrow = (
                MachineType(f"{type_[0]}{16 if type_.bits == 8 else 8}") if type_.kind == "int" else type_
            )
            return [value, Call("cast", (value,), narrow)]
        case Call("where", (condition, a, b), type_):
            return [a, b, Call("where", (condition, b, a), type_)]
        case Call(operator, arguments, type_):
            found = [Call(_SWAPS[operator], arguments, type_)] if operator in _SWAPS else []
            found += [Call(operator, arguments[::-1], type_)] if len(arguments) > 1 else []
            return found + [a for a in arguments if a.type == type_]
        case Reduce(kind, var, extent, body, type_, start=start):
            return [
                Reduce(_KINDS[kind], var, extent, body, type_, start=start),
                Reduce(kind, var, extent + 1, body, type_, start=start),
                Reduce(kind, var, extent - 1, body, type_, start=start),
                start, body_at_zero(node),
            ]  # fmt: skip
        case Choose(_, then, otherwise, _):
            return [otherwise, then]
        case Written(indices, extents, places_, value, where):
            found = [Written(indices, extents, places_, value)] if where else []
            found.append(Written(indices, tuple(e - 1 for e in extents), places_, value, where))
            return found
    return []


def body_at_zero(fold: Reduce) -> Term:
    """The first element alone."""
    return Reduce(fold.kind, fold.var, Poly.of(1), fold.body, fold.type, start=fold.start)


def _alike(summary: Summary, array: str) -> list[str]:
    arrays: dict[str, Array] = {}
    for parameter in summary.function.parameters:
        kind = parameter.type
        fields = kind.fields if isinstance(kind, Struct) else ((None, kind),)
        for name, type_ in fields:
            if isinstance(type_, Array):
                arrays[parameter.name if name is None else f"{parameter.name}.{name}"] = type_
    mine = arrays.get(array)
    return [
        n
        for n, t in arrays.items()
        if mine and n != array and (t.rank, t.element) == (mine.rank, mine.element)
    ]


def mutant(summary: Summary, chance: random.Random) -> tuple[str, Summary] | None:
    """A changed summary, and what was changed; None where the place drawn has no other content."""
    if chance.random() < 0.05 and summary.requires:
        gone = chance.randrange(len(summary.requires))
        rest = (*summary.requires[:gone], *summary.requires[gone + 1 :])
        return f"without {summary.requires[gone].text}", dataclasses.replace(summary, requires=rest)
    found = list(places(summary))
    path, node = chance.choice(found)
    new = [item for item in changes(node, summary, chance) if item != node]
    if path[0] == "requires" and isinstance(node, Poly):  # stated over parameters, not over sizes
        sizes = {size.symbol for size in summary.sizes} - node.symbols()
        new = [item for item in new if not item.symbols() & sizes]
    if not new:
        return None
    chosen = chance.choice(new)
    if chance.random() < 0.5 and not isinstance(node, Poly):
        changed = everywhere(summary, node, chosen)
        return f"everywhere {node} -> {chosen}", changed
    return f"{'.'.join(map(str, path))}: {node} -> {chosen}", put(summary, path, chosen)


# Programs

_OPS = {
    "add": "sub", "sub": "add", "mul": "add", "div": "mul", "max": "min", "min": "max",
    "less": "less_or_equal", "less_or_equal": "less", "greater_or_equal": "greater", "equal": "less",
    "exp": "sqrt", "sqrt": "exp", "reduce_sum": "reduce_max", "reduce_max": "reduce_min", "neg": "abs",
    "abs": "neg", "and": "or", "or": "and",
}  # fmt: skip


def program_mutant(lifted: Lifted, chance: random.Random) -> tuple[str, Lifted] | None:
    """A lifted function with one op, constant, view or output changed."""
    makers: list[Callable[[Lifted, random.Random], tuple[str, Lifted] | None]] = [
        _other_op, _other_operands, _other_constant, _other_view, _other_view, _other_op,
    ]  # fmt: skip
    return chance.choice(makers)(lifted, chance)


def _with(lifted: Lifted, **changes: Any) -> Lifted:
    old = lifted.program
    parts = {"nodes": old.nodes, "constants": old.constants, **changes}
    program = Program(old.name, old.inputs, old.outputs, parts["nodes"], parts["constants"])
    return dataclasses.replace(lifted, program=program)


def _other_op(lifted: Lifted, chance: random.Random) -> tuple[str, Lifted] | None:
    nodes = lifted.program.nodes
    able = [number for number, node in enumerate(nodes) if node.op in _OPS]
    if not able:
        return None
    number = chance.choice(able)
    changed = dataclasses.replace(nodes[number], op=_OPS[nodes[number].op])
    text = f"{nodes[number].op} -> {changed.op} of {changed.output}"
    return text, _with(lifted, nodes=(*nodes[:number], changed, *nodes[number + 1 :]))


def _other_operands(lifted: Lifted, chance: random.Random) -> tuple[str, Lifted] | None:
    nodes = lifted.program.nodes
    able = [number for number, node in enumerate(nodes) if len(node.inputs) == 2]
    if not able:
        return None
    number = chance.choice(able)
    node = nodes[number]
    if chance.random() < 0.5:
        inputs = node.inputs[::-1]
    else:
        known = [*lifted.program.inputs, *(n.output for n in nodes[:number])]
        inputs = (node.inputs[0], chance.choice(known))
    changed = dataclasses.replace(node, inputs=inputs)
    text = f"{node.op}{node.inputs} -> {inputs}"
    return text, _with(lifted, nodes=(*nodes[:number], changed, *nodes[number + 1 :]))


def _other_constant(lifted: Lifted, chance: random.Random) -> tuple[str, Lifted] | None:
    constants = lifted.program.constants
    if not constants:
        return None
    name = chance.choice(sorted(constants))
    array = np.array(constants[name])
    if array.size == 0:
        return None
    flat = array.reshape(-1)
    place = chance.randrange(flat.size)
    if array.dtype == np.bool_:
        flat[place] = not flat[place]
    else:
        change = np.add if chance.random() < 0.5 else np.subtract
        change(flat, 1, out=flat, where=np.arange(flat.size) == place)  # arrays wrap around
    return f"constant {name}", _with(lifted, constants={**constants, name: flat.reshape(array.shape)})


def _other_view(lifted: Lifted, chance: random.Random) -> tuple[str, Lifted] | None:
    parts: list[tuple[str, int, ArrayView]] = []
    for field in ("inputs", "outputs"):
        parts += [
            (field, n, item.view) for n, item in enumerate(getattr(lifted, field)) if item.view is not None
        ]
    if not parts:
        return None
    field, number, view = chance.choice(parts)
    axis = chance.randrange(len(view.offset))
    if chance.random() < 0.5 or not view.steps[axis]:
        offset = put(view.offset, (axis,), view.offset[axis] + chance.choice((1, -1)))
        changed = dataclasses.replace(view, offset=offset)
    else:
        column = chance.randrange(len(view.steps[axis]))
        step = chance.choice((view.steps[axis][column] + 1, -view.steps[axis][column]))
        changed = dataclasses.replace(view, steps=put(view.steps, (axis, column), step))
    items = getattr(lifted, field)
    item = dataclasses.replace(items[number], view=changed)
    new = (*items[:number], item, *items[number + 1 :])
    return f"{field} {number}: {view} -> {changed}", dataclasses.replace(lifted, **{field: new})
