"""MLX: lazily evaluated arrays; double precision, which only its CPU has, runs there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tensmith.formula.functions import JOINS, NUMPY_NAMES
from tensmith.ir import Node
from tensmith.lifting.emit import emitter, rules
from tensmith.lifting.emit.array_rules import alike, flat_helper, quotient, ranked
from tensmith.lifting.emit.expression import ARITHMETIC, PRODUCT, SUM, ExpressionText, Rule, call, infix
from tensmith.lifting.emit.python_frame import PythonEmitter, view_places
from tensmith.lifting.emit.python_writer import PythonWriter
from tensmith.lifting.lifted import ArrayView
from tensmith.lifting.ranges import floored

_HELPERS = {
    "_flat": flat_helper,
    "_array": '''
        def _array(name, value, dtype, rank=None):
            """The value as an array of the source's element type."""
            given = value if isinstance(value, mx.array) else np.asarray(value)
            array = given if isinstance(given, mx.array) else mx.array(given, dtype)
            array = array.astype(dtype)
            exact = mx.issubdtype(dtype, mx.floating) or given is array
            if not exact and not np.array_equal(np.asarray(given), np.asarray(array)):
                raise ValueError(f"{name} holds values that {dtype} does not")'''
    + ranked,
    "_integer": rules.integer_helper,
    "_on_cpu": '''
        def _on_cpu(function):
            """Runs a function where double precision is."""

            @functools.wraps(function)
            def run(*arguments, **named):
                with mx.stream(mx.cpu):
                    return function(*arguments, **named)

            return run
    ''',
    "_places": '''
        def _places(offset, shape, steps):
            """offset + i * steps[0] + j * steps[1] + ... for every (i, j, ...) of the shape."""
            grids = np.indices(shape, sparse=True)
            return mx.array(sum((grid * step for grid, step in zip(grids, steps)), start=np.asarray(offset)))
    ''',
    "_placed": '''
        def _placed(array, value):
            """The array with the value as its front; the value alone where it is all of it."""
            if array is None or array.shape == value.shape:
                return value
            result = mx.array(array)
            result[tuple(slice(0, size) for size in value.shape)] = value
            return result
    ''',
    "_quotient": '''
        def _quotient(a, b):
            """Integer division towards zero; versions of MLX differ in how // rounds."""
            quotient = a // b
            rest = a - quotient * b
            return quotient + ((rest != 0) & ((rest < 0) != (a < 0))).astype(quotient.dtype)
    ''',
    "_fmod": '''
        def _fmod(a, b):
            """C's remainder of floats, of the sign of the first."""
            rest = mx.remainder(abs(a), abs(b))
            return mx.where(a < 0, -rest, rest)
    ''',
    "_floor": '''
        def _floor(a, b):
            """Integer division downwards; versions of MLX differ in how // rounds."""
            quotient = a // b
            rest = a - quotient * b
            return quotient - ((rest != 0) & ((rest < 0) != (b < 0))).astype(quotient.dtype)
    ''',
    "_reduced": '''
        def _reduced(reduce, array, axes, nothing):
            """A reduction, `nothing` over no elements: MLX takes minutes for those of a turned array."""
            axes = tuple(range(array.ndim)) if axes is None else axes
            if array.size == 0:
                shape = [size for axis, size in enumerate(array.shape) if axis not in axes]
                return mx.full(shape, mx.array(nothing, array.dtype))
            return reduce(array, axes)
    ''',
    "_exp_single": '''
        def _exp_single(x):
            """e**x in single precision, where mx.exp gives infinity from 88 on, a little too soon."""
            root = mx.exp(x / 2)
            return root * root
    ''',
    "_exp": '''
        def _exp(x):
            """e**x of doubles, which mx.exp gives in single precision: math.e**x times (e / math.e)**x."""
            x = mx.clip(x, -800, 800)  # 0 and infinity lie between
            power = mx.power(math.e, x)
            return power + power * (x * 5.3182393e-17)
    ''',
    "_sin": '''
        def _sin(x):
            """The sine of doubles, which mx.sin gives in single precision, from the tangent of x / 2."""
            t = mx.tan(x / 2)
            return 2 * t / (1 + t * t)
    ''',
    "_cos": '''
        def _cos(x):
            """The cosine of doubles, which mx.cos gives in single precision, from the tangent of x / 2."""
            t = mx.tan(x / 2)
            return (1 - t) * (1 + t) / (1 + t * t)
    ''',
    "_erf": '''
        def _erf(x):
            """The error function of doubles, which mx.erf gives in single precision: Python's."""
            return mx.array(np.vectorize(math.erf, otypes=[np.float64])(np.array(x)), mx.float64)
    ''',
    "_product": '''
        def _product(a, b):
            """a @ b of integers, as MLX multiplies matrices of floats alone."""
            if b.ndim == 1:
                return _reduced(mx.sum, a * b, (a.ndim - 1,), 0)
            if a.ndim == 1:
                return _reduced(mx.sum, a[:, None] * b, (0,), 0)
            total = mx.zeros(a.shape[:-1] + b.shape[-1:], a.dtype)
            for k in range(a.shape[-1]):
                total = total + a[..., k : k + 1] * b[..., k : k + 1, :]
            return total
    ''',
    "_contract": '''
        def _contract(equation, *arrays):
            """An Einstein sum of integers: the product over all letters, summed."""
            terms, result = equation.split("->")
            letters = result + "".join(sorted(set(terms) - set(result) - {","}))
            product = 1
            for term, array in zip(terms.split(","), arrays):
                order = sorted(range(array.ndim), key=lambda axis: letters.index(term[axis]))
                index = tuple(slice(None) if letter in term else None for letter in letters)
                product = product * array.transpose(order)[index]
            summed = tuple(range(len(result), len(letters)))
            return _reduced(mx.sum, product, summed, 0) if summed else product
    ''',
}


def _total(method: str, nothing: int) -> Rule:
    def rule(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
        axes = rules.some_axes(w, node)
        code = f"{w.helper('_reduced')}(mx.{method}, {operands[0].code}, {axes}, {nothing})"
        dtype = w.type(node.output).dtype
        return ExpressionText(code if dtype[0] == "f" else f"{code}.astype({w.target.dtype(dtype)})")

    return rule


def _matmul(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
    if w.type(node.output).dtype[0] == "f":
        return infix("@", PRODUCT)(w, node, operands)
    product = f"{w.helper('_product')}({operands[0].code}, {operands[1].code})"
    return ExpressionText(f"{product}.astype({w.target.dtype(w.type(node.output).dtype)})")


def _einsum(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
    codes, dtype = ", ".join(o.code for o in operands), w.type(node.output).dtype
    if dtype[0] == "f":
        return ExpressionText(f'mx.einsum("{node.attrs["equation"]}", {codes})')
    contract = f'{w.helper("_contract")}("{node.attrs["equation"]}", {codes})'
    return ExpressionText(f"{contract}.astype({w.target.dtype(dtype)})")


def _mod(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
    a, b = operands
    if not node.attrs["fmod"]:
        return infix("%", PRODUCT)(w, node, operands)
    if w.type(node.output).dtype[0] == "f":
        return call(w.helper("_fmod"))(w, node, operands)
    a, b = (w.assigned(name) if not o.literal else o for name, o in zip(node.inputs, operands))
    return ExpressionText(
        f"{a.within(PRODUCT)} - {b.atom} * {w.helper('_quotient')}({a.code}, {b.code})", SUM
    )


def _floor(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
    """Integer division downwards."""
    dividend = floored(w.program, node) or node.inputs[0]
    plain = all(w.ranges[name].low >= 0 for name in (dividend, node.inputs[1]))
    return (infix("//", PRODUCT) if plain else call(w.helper("_floor")))(w, node, operands)


def _precise(function: str, single: str = "") -> Rule:
    """A function that MLX has in single precision alone; single: a helper for that."""

    def rule(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
        helper = f"_{function}" if w.type(node.output).dtype == "f64" else single
        return call(w.helper(helper) if helper else f"mx.{function}")(w, node, operands)

    return rule


def _running(kind: str) -> Rule:
    said = f"mx.cum{kind}({{code}}, axis={{axis}}"
    return rules.running(kind, f"{said})", f"{said}, inclusive=False)")


@emitter
class Mlx(PythonEmitter):
    """See the module."""

    name = "mlx"
    title = "MLX"
    imports = ("import functools", "import math", "import mlx.core as mx", "import numpy as np")
    module = "mx"
    gathers = True
    helper_texts = _HELPERS
    spellings: ClassVar[Mapping[str, str]] = {
        "any_zero": "not mx.all({} != 0)", "copied": "mx.array({})", "typed": "mx.array({0}, {1})",
        "filling": "mx.array({0}, {1})", "positions": "mx.arange({}, dtype=mx.int64)",
    }  # fmt: skip
    table: ClassVar[dict[str, Rule]] = {
        **ARITHMETIC, **rules.functions("mx", NUMPY_NAMES), **alike("mx"),
        "exp": _precise("exp", "_exp_single"), "sin": _precise("sin"), "cos": _precise("cos"),
        "erf": _precise("erf"),
        "div": rules.divide(quotient, _floor),
        "mod": rules.remainder(_mod), "matmul": _matmul, "einsum": _einsum,
        **{f"cum_{kind}": _running(kind) for kind in JOINS},
        "reduce_sum": _total("sum", 0), "reduce_prod": _total("prod", 1),
        "reduce_max": rules.extreme("max", "_reduced", "axis"),
        "reduce_min": rules.extreme("min", "_reduced", "axis"),
    }  # fmt: skip

    def scattered(self, writer: PythonWriter, array: str, view: ArrayView, value: str) -> str:
        """Elements of the copy are replaced."""
        places = view_places(writer, view)
        empty = f"if {value if value.isidentifier() else f'({value})'}.size: " if "_places(" in places else ""
        return f"{empty}{array}[{places}] = {value}"

    def decorators(self, writer: PythonWriter) -> list[str]:
        """Double precision runs on the CPU."""
        values = [*writer.program.inputs, *(node.output for node in writer.program.nodes)]
        double = any(writer.type(name).dtype == "f64" for name in values)
        return [f"@{writer.helper('_on_cpu')}"] if double else []
