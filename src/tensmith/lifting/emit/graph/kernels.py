"""Ops in the element types that ONNX Runtime has kernels for (its table of CPU kernels, and older ones).

Narrow integers are computed in 32 or 64 bits and cast back, which is exact: sums, differences and products
wrap to the same bits, and everything else is small enough. What has no exact detour is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from string import ascii_lowercase

from tensmith.formula.expr import NOWHERE
from tensmith.formula.poly import product
from tensmith.formula.types import MachineType
from tensmith.ir import Node, Program
from tensmith.ir.onnx_schema import ELEMENT_CODES
from tensmith.ir.tensors import neutral
from tensmith.ir.types import DTYPES
from tensmith.lifting.emit.graph.build import Graph
from tensmith.lifting.emit.graph.contraction import arranged, contract
from tensmith.lifting.refusal import Refusal

_WIDE = frozenset({"f32", "f64", "i32", "i64"})
_NATIVE: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(
        ("add", "sub", "mul", "div", "neg", "reduce_sum", "reduce_prod", "reduce_mean", "cum_sum", "cum_prod",
         "less", "less_or_equal", "greater", "greater_or_equal", "pow", "mod", "range"),
        _WIDE,
    ),
    **dict.fromkeys(("max", "min"), _WIDE | {"u32", "u64"}),
    **dict.fromkeys(("reduce_max", "reduce_min"), _WIDE | {"u8", "i8"}),
    "matmul": _WIDE | {"u32", "u64"},
    "equal": _WIDE | {"bool"},
    "abs": _WIDE | {"i8", "i16", "u8", "u16", "u32", "u64"},
    "sign": _WIDE | {"i8", "i16", "u8", "u16", "u32", "u64"},
    "where": _WIDE | {"u8"},
    "pad": _WIDE | {"i8", "u8", "u32", "u64", "bool"},
    "bit_shift": frozenset({"u8", "u32", "u64"}),
    **dict.fromkeys(
        ("exp", "log", "sqrt", "sin", "cos", "tanh", "floor", "ceil", "round", "reciprocal", "sigmoid",
         "isnan"),
        frozenset({"f32", "f64"}),
    ),
    **dict.fromkeys(
        ("tan", "erf", "conv", "average_pool", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh",
         "atanh"),
        frozenset({"f32"}),
    ),
    "max_pool": frozenset({"f32", "f64", "i8", "u8"}),
}  # fmt: skip
# Ops on 64-bit unsigned integers that give the same bits on signed ones.
_SAME_BITS = frozenset({
    "add", "sub", "mul", "neg", "reduce_sum", "reduce_prod", "cum_sum", "cum_prod", "where", "equal",
})  # fmt: skip

Rule = Callable[[Graph, Program, Node, str], None]


def legalize(graph: Graph, program: Program) -> None:
    """Adds every node of a program, in types that can be run."""
    for node in program.nodes:
        dtype = _data_type(program, node)
        rule = _RULES.get(node.op)
        if rule is not None and rule[0](program, node, dtype):
            rule[1](graph, program, node, dtype)
        elif dtype in _NATIVE.get(node.op, {dtype}):
            graph.nodes.append(node)
        else:
            _widened(graph, program, node, dtype)


def _data_type(program: Program, node: Node) -> str:
    """The element type an op computes in."""
    place = 1 if node.op == "where" else 0
    return program.type(node.inputs[place]).dtype


def _widened(graph: Graph, program: Program, node: Node, dtype: str) -> None:
    """The node between casts to a type that holds every value, or the same bits."""
    same_bits = dtype == "u64" and node.op in _SAME_BITS
    wide = "i64" if same_bits else _wider(node, dtype, _NATIVE[node.op])
    inputs = [
        graph.cast(name, wide) if name and program.type(name).dtype == dtype else name for name in node.inputs
    ]
    result = graph.op(node.op, inputs, node.attrs)
    found = program.type(node.output).dtype
    _cast_to(graph, result, node.output, found) if found == dtype else _rename(graph, result, node.output)


def _wider(node: Node, dtype: str, native: Set[str]) -> str:
    """An integer type with kernels that holds every value of another."""
    wide = next((t for t in ("i32", "i64") if t in native and MachineType(t).holds(MachineType(dtype))), None)
    if wide is None:
        raise Refusal(
            f"ONNX Runtime has no kernel for '{node.op}' on {dtype}; use a wider integer, or float", NOWHERE
        )
    return wide


def one_more(graph: Graph, value: str, dtype: str, ends: Sequence[int]) -> str:
    """A value with a zero more at the end of each axis where `ends` is 1."""
    kind = dtype if dtype in _NATIVE["pad"] else "i32"
    wide = value if kind == dtype else graph.cast(value, kind)
    padded = graph.op("pad", [wide, graph.const([0] * len(ends) + list(ends))])
    return padded if kind == dtype else graph.cast(padded, dtype)


def _cast_to(graph: Graph, value: str, name: str, dtype: str) -> None:
    graph.named("cast", [value], name, {"to": ELEMENT_CODES[dtype]})


def _rename(graph: Graph, value: str, name: str) -> None:
    graph.named("identity", [value], name)


# Ops whose integer meaning needs other ops


def _shift(graph: Graph, program: Program, node: Node, dtype: str) -> None:
    """Shifts of signed integers through unsigned ones: x >> b is not(not(x) >> b) where x is negative."""
    wide = "i64" if dtype.endswith("64") else "i32"
    unsigned = f"u{wide[1:]}"
    value, count = (graph.cast(name, wide) for name in node.inputs)
    count = graph.cast(count, unsigned)

    def shifted(operand: str) -> str:
        bits = graph.cast(operand, unsigned)
        return graph.cast(graph.op("bit_shift", [bits, count], node.attrs), wide)

    result = shifted(value)
    if node.attrs["direction"] == "RIGHT" and dtype[0] == "i":
        negative = graph.op("less", [value, graph.const(0, f"int{wide[1:]}")])
        flipped = graph.op("bitwise_not", [shifted(graph.op("bitwise_not", [value]))])
        result = graph.op("where", [negative, flipped, result])
    _cast_to(graph, result, node.output, dtype)


def _remainder(graph: Graph, program: Program, node: Node, dtype: str) -> None:
    """The truncated remainder of 64-bit integers, which kernels compute in floats: a - (a / b) b."""
    a, b = node.inputs
    whole = graph.op("mul", [graph.op("div", [a, b]), b])
    graph.named("sub", [a, whole], node.output)


def _floored(graph: Graph, program: Program, node: Node, dtype: str) -> None:
    """The floored remainder of floats: the truncated one, plus b where their signs differ."""
    a, b = node.inputs
    zero = graph.const(0, f"float{dtype[1:]}")
    rest = graph.op("mod", [a, b], {"fmod": 1})
    signs = graph.op("xor", [graph.op("less", [rest, zero]), graph.op("less", [b, zero])])
    apart = graph.op("and", [signs, graph.op("not", [graph.op("equal", [rest, zero])])])
    graph.named("where", [apart, graph.op("add", [rest, b]), rest], node.output)


def _floors(node: Node, dtype: str) -> bool:
    return dtype[0] == "f" and not node.attrs["fmod"]


def _gather(graph: Graph, program: Program, node: Node, dtype: str) -> None:
    """Elements of a table that may hold none: its first stands for those that are not asked for."""
    table, axis = node.inputs[0], node.attrs["axis"]
    ends = [int(each == axis) for each in range(len(program.type(table).dims))]
    graph.nodes.append(replace(node, inputs=(one_more(graph, table, dtype, ends), *node.inputs[1:])))


def _may_ask_nothing(program: Program, node: Node) -> bool:
    """Whether places are chosen, and 0 where none is."""
    choice = program.producers.get(node.inputs[1])
    while choice is not None and (choice.op == "cast" or choice.traits.moves):
        choice = program.producers.get(choice.inputs[0])
    sides = choice.inputs[1:] if choice is not None and choice.op == "where" else ()
    return any(not program.constants[side].any() for side in sides if side in program.constants)


def _where_bool(graph: Graph, program: Program, node: Node, dtype: str) -> None:
    """(c and a) or (not c and b)."""
    c, a, b = node.inputs
    no = graph.op("and", [graph.op("not", [c]), b])
    graph.named("or", [graph.op("and", [c, a]), no], node.output)


def _tangent(graph: Graph, program: Program, node: Node, dtype: str) -> None:
    """sin / cos, where there is no kernel of doubles."""
    graph.named("div", [graph.op("sin", node.inputs), graph.op("cos", node.inputs)], node.output)


def _einsum(graph: Graph, program: Program, node: Node, dtype: str) -> None:
    """Matrix products: the kernel of Einsum ends the process on empty arrays."""
    terms, result = node.attrs["equation"].split("->")
    _contraction(graph, program, node, terms.split(","), result)


def _product(graph: Graph, program: Program, node: Node, dtype: str) -> None:
    """Vectors as rows and columns, stacks of matrices as `contraction` says: kernels fail on empty ones."""
    left, right = (len(program.type(name).dims) for name in node.inputs)
    stack = ascii_lowercase[: max(left, right, 2) - 2]
    terms = [
        "S" if rank == 1 else stack[len(stack) + 2 - rank :] + pair
        for rank, pair in ((left, "RS"), (right, "SC"))
    ]
    _contraction(graph, program, node, terms, f"{stack}{'R' * (left > 1)}{'C' * (right > 1)}")


def _contraction(graph: Graph, program: Program, node: Node, terms: Sequence[str], result: str) -> None:
    types = [program.type(name) for name in node.inputs]
    dtype = types[0].dtype
    wide = dtype if dtype in _WIDE else "i64" if dtype in ("u32", "u64") else "i32"
    values = [name if dtype == wide else graph.cast(name, wide) for name in node.inputs]
    extents = {letter: extent for t, type_ in zip(terms, types) for letter, extent in zip(t, type_.dims)}
    value, letters = contract(graph, list(zip(values, terms)), extents, result)
    value = arranged(graph, value, letters, result)
    if len(terms) > 2:  # an empty sum of two factors is no 0 any more after a third that is NaN
        count = product([extent for letter, extent in extents.items() if letter not in result])
        nothing = graph.op("equal", [graph.size(count), graph.const(0)])
        value = graph.op("where", [nothing, graph.const(0, DTYPES[wide]), value])
    _rename(graph, value if dtype == wide else graph.cast(value, dtype), node.output)


def _running(graph: Graph, program: Program, node: Node, dtype: str) -> None:
    """A running maximum or minimum, which ONNX has not: of a square, whose rows end at their own elements."""
    kind = node.op.removeprefix("cum_")
    wide = dtype if dtype in _WIDE else _wider(node, dtype, _WIDE)
    axis, shape = int(program.constants[node.inputs[1]]), program.type(node.inputs[0]).dims
    places = graph.range(shape[axis])
    first, second = (graph.op("unsqueeze", [places, graph.const([k])]) for k in (1, 0))
    sides = [first, second] if node.attrs["reverse"] else [second, first]
    inside = graph.op("less" if node.attrs["exclusive"] else "less_or_equal", sides)
    behind = len(shape) - axis - 1
    if behind:
        inside = graph.op("unsqueeze", [inside, graph.const(list(range(2, 2 + behind)))])
    value = node.inputs[0] if dtype == wide else graph.cast(node.inputs[0], wide)
    rows = graph.op("unsqueeze", [value, graph.const([axis])])
    square = graph.op("where", [inside, rows, graph.const(neutral(kind, DTYPES[dtype]), DTYPES[wide])])
    found = graph.op(f"reduce_{kind}", [square, graph.const([axis + 1])], {"keepdims": 0})
    _rename(graph, found if dtype == wide else graph.cast(found, dtype), node.output)


_RULES: Mapping[str, tuple[Callable[[Program, Node, str], bool], Rule]] = {
    "bit_shift": (lambda program, node, dtype: dtype not in _NATIVE["bit_shift"], _shift),
    "mod": (
        lambda program, node, dtype: bool(node.attrs["fmod"]) if dtype == "i64" else _floors(node, dtype),
        lambda *args: _floored(*args) if args[3][0] == "f" else _remainder(*args),
    ),
    **dict.fromkeys(
        ("gather", "gather_elements"), (lambda program, node, _: _may_ask_nothing(program, node), _gather)
    ),
    "where": (lambda program, node, dtype: dtype == "bool", _where_bool),
    "matmul": (
        lambda program, node, dtype: any(len(program.type(name).dims) != 2 for name in node.inputs),
        _product,
    ),
    "einsum": (lambda program, node, dtype: True, _einsum),
    **dict.fromkeys(("cum_max", "cum_min"), (lambda program, node, dtype: True, _running)),
    "tan": (lambda program, node, dtype: dtype == "f64", _tangent),
}
