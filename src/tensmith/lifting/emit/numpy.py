"""NumPy: views by slices and strides, matrix products through BLAS wherever they are exact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tensmith.formula.functions import NUMPY_NAMES
from tensmith.ir import Node
from tensmith.lifting.emit import emitter, rules
from tensmith.lifting.emit.array_rules import alike, einsum, flat_helper, mod, ranked, reductions
from tensmith.lifting.emit.expression import ARITHMETIC, PRODUCT, ExpressionText, Rule, call, infix
from tensmith.lifting.emit.python_frame import PythonEmitter
from tensmith.lifting.emit.python_writer import PythonWriter

_NAMES = {**NUMPY_NAMES, "round": "rint"}
_HELPERS = {
    "_flat": flat_helper,
    "_array": '''
        def _array(name, value, dtype, rank=None):
            """The value as an array of the source's element type, not copied where it is one."""
            array = np.asarray(value)
            if array.dtype == object:
                raise ValueError(f"{name} is no array of numbers")
            if array.dtype != dtype:
                given, array = array, array.astype(dtype)
                if np.dtype(dtype).kind != "f" and not np.array_equal(given, array):
                    raise ValueError(f"{name} holds values that {np.dtype(dtype)} does not")'''
    + ranked,
    "_integer": rules.integer_helper,
    "_select": rules.select_helper,
    "_box": '''
        def _box(array, offset, shape, steps):
            """A view: element (i, j, ...) is array[offset + i * steps[0] + j * steps[1] + ...]."""
            if 0 in shape:
                return np.empty(shape, array.dtype)
            reach = [(size - 1) * step for size, step in zip(shape, steps)]
            first, last = offset + sum(min(0, r) for r in reach), offset + sum(max(0, r) for r in reach)
            if first < 0 or last >= array.shape[0]:
                raise ValueError(f"an array of {last + 1} elements is needed, not {array.shape[0]}")
            strides = [step * array.strides[0] for step in steps]
            return np.lib.stride_tricks.as_strided(array[offset:], shape, strides)
    ''',
    "_placed": '''
        def _placed(array, value):
            """A copy of the array whose front is the value; the value alone where it is all of it."""
            if array is None or array.shape == value.shape:
                return value
            if value.ndim == 1:
                return np.concatenate((value, array[value.size :]))
            result = array.copy()
            result[tuple(slice(0, size) for size in value.shape)] = value
            return result
    ''',
    "_erf": '''
        def _erf(x):
            """The error function, which NumPy has not: Python's, element by element."""
            import math

            return np.vectorize(math.erf, otypes=[np.float64])(x).astype(np.asarray(x).dtype)
    ''',
    "_product": '''
        def _product(a, b):
            """a @ b of integers, through float64 where every sum is exact in it."""
            bound = _bound(a) * _bound(b) * max(a.shape[-1], 1)
            if bound >= 2**53:
                return a @ b
            return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64).astype(a.dtype)


        def _bound(a):
            """At least the magnitude of every element."""
            return max(abs(int(a.min(initial=0))), abs(int(a.max(initial=0))))
    ''',
    "_quotient": '''
        def _quotient(a, b):
            """Integer division towards zero."""
            return (a - np.fmod(a, b)) // b
    ''',
    "_before": '''
        def _before(join, x, axis, nothing):
            """The elements before each position, joined; `nothing` where there are none."""
            result = np.full_like(x, nothing)
            ahead = (slice(None),) * axis + (slice(1, None),)
            behind = (slice(None),) * axis + (slice(None, -1),)
            join.accumulate(x[behind], axis, x.dtype, result[ahead])
            return result
    ''',
}


def _matmul(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
    """BLAS knows floats alone; vectors of integers go through einsum, whose loops are vectorised."""
    dtype, ranks = w.type(node.output).dtype, [len(w.shape(name)) for name in node.inputs]
    a, b = operands
    if dtype[0] == "f":
        return infix("@", PRODUCT)(w, node, operands)
    if ranks == [1, 1]:
        return ExpressionText(f'np.einsum("i,i->", {a.code}, {b.code})')
    if ranks == [2, 1]:
        return ExpressionText(f'np.einsum("ij,j->i", {a.code}, {b.code})')
    if ranks == [1, 2]:
        return ExpressionText(f'np.einsum("i,ij->j", {a.code}, {b.code})')
    return ExpressionText(f"{w.helper('_product')}({a.code}, {b.code})")


def _quotient(w: PythonWriter, node: Node, a: ExpressionText, b: ExpressionText) -> ExpressionText:
    """float64 quotients of 32-bit integers lie on the right side of every whole number."""
    dtype = w.type(node.output).dtype
    if dtype in ("i64", "u64"):
        return ExpressionText(f"{w.helper('_quotient')}({a.code}, {b.code})")
    quotient = infix("/", PRODUCT)(w, node, [a, b])
    return ExpressionText(f"({quotient.code}).astype({w.target.dtype(dtype)})")


def _single(w: PythonWriter, node: Node, a: ExpressionText, b: ExpressionText) -> ExpressionText:
    dtype = w.target.dtype(w.type(node.output).dtype)
    parts = [t.atom if t.literal else f"{t.atom}.astype(np.float32)" for t in (a, b)]
    return ExpressionText(f"({parts[0]} / {parts[1]}).astype({dtype})")


def _function(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
    """A function of one number; of a temporary, in its place."""
    function = f"np.{_NAMES.get(node.op, node.op)}"
    name = node.inputs[0]
    made, whole = w.producer(name), w.shape(name) != ()
    if made is None or made.op not in ("add", "sub", "mul", "neg") or w.uses[name] != 1 or not whole:
        return call(function)(w, node, operands)
    local = w.assigned(name).code
    return ExpressionText(f"{function}({local}, out={local})")


_RUNNING = {
    f"cum_{kind}": rules.running(
        kind,
        f"np.{function}({{code}}, axis={{axis}}, dtype={{dtype}})",
        f"{{helped}}(np.{join}, {{code}}, {{axis}}, {{nothing}})",
        "_before",
    )
    for kind, function, join in (
        ("sum", "cumsum", "add"),
        ("prod", "cumprod", "multiply"),
        ("max", "maximum.accumulate", "maximum"),
        ("min", "minimum.accumulate", "minimum"),
    )
}


@emitter
class NumPy(PythonEmitter):
    """See the module."""

    name = "numpy"
    title = "NumPy"
    imports = ("import numpy as np",)
    module = "np"
    narrow = ("u8", "i8", "u16", "i16")
    helper_texts = _HELPERS
    spellings: ClassVar[Mapping[str, str]] = {"any_zero": "np.count_nonzero({0}) < np.size({0})"}
    table: ClassVar[dict[str, Rule]] = {
        **ARITHMETIC, **dict.fromkeys(rules.functions("np"), _function), **alike("np"), **reductions(),
        "erf": rules.helped("_erf"),
        "div": rules.divide(_quotient, single=_single), "mod": rules.remainder(mod),
        "where": rules.chosen(rules.by_bits(rules.where("np.where"))),
        "matmul": _matmul, "einsum": einsum("np.einsum", ", optimize=True"),
        **_RUNNING,
    }  # fmt: skip

    def fills(self, writer: PythonWriter, name: str, value: ExpressionText) -> bool:
        """Of any single number."""
        return not writer.type(name).dims

    def fresh(self, writer: PythonWriter, name: str) -> str:
        """Views are copied."""
        node = writer.producer(name)
        if node is not None and node.op == "expand" and not writer.shape(node.inputs[0]):
            return writer.value(name).code
        if writer.shape(name) and (writer.is_view(name) or (node is not None and node.op == "expand")):
            return f"{writer.value(name).atom}.copy()"
        return super().fresh(writer, name)

    def decorators(self, writer: PythonWriter) -> list[str]:
        """C's floats warn of nothing, nor do integers that wrap: NumPy warns of scalars."""
        nodes = writer.program.nodes
        floats = any(writer.type(name).floating for node in nodes for name in (*node.inputs, node.output))
        wraps = any(_wraps(writer, node.output) for node in nodes)
        return ['@np.errstate(all="ignore")'] if floats or wraps else []


def _wraps(writer: PythonWriter, name: str) -> bool:
    """Whether a value is one integer of a type that C lets wrap, or that is narrower than it had to be."""
    dtype = writer.type(name).dtype
    return not writer.shape(name) and dtype[0] in "iu" and dtype != "i64"
