"""JAX: pure functions of arrays, for jax.jit where integer parameters are static."""

from __future__ import annotations

from typing import ClassVar

from tensmith.ir import Node
from tensmith.lifting.emit import emitter
from tensmith.lifting.emit.expression import ARITHMETIC, PRODUCT, Rule, Text, call, infix, nested
from tensmith.lifting.emit.python_frame import PythonEmitter, view_places
from tensmith.lifting.emit.python_text import extents
from tensmith.lifting.emit.python_writer import Writer
from tensmith.lifting.emit.rules import (
    axes_of,
    axis_of_sum,
    divide,
    fill,
    functions,
    index_of,
    integer_helper,
    pad_widths,
    padded_extreme,
    remainder,
    size,
    transpose,
    typed_reduction,
    where,
)
from tensmith.lifting.lifted import View

_HELPERS = {
    "_flat": '''
        def _flat(name, value, dtype):
            """The elements of a flat array; see _array."""
            return _array(name, value, dtype).reshape(-1)
    ''',
    "_holds": '''
        def _holds(condition):
            """Whether a condition holds, or may hold: inside jax.jit it is not known."""
            return _traced(condition) or bool(condition)
    ''',
    "_array": '''
        def _array(name, value, dtype, rank=None):
            """The value as an array of the source's element type."""
            given = value if isinstance(value, jax.Array) else np.asarray(value)
            array = jnp.asarray(given, dtype)
            exact = array.dtype == given.dtype or np.dtype(dtype).kind == "f" or _traced(array)
            if not exact and not np.array_equal(given, array):
                raise ValueError(f"{name} holds values that {np.dtype(dtype)} does not")
            if rank is not None and array.size == 0 and array.ndim < rank:
                array = array.reshape(array.shape + (0,) * (rank - array.ndim))
            if rank is not None and array.ndim != rank:
                raise ValueError(f"{name} must have {rank} axes, not {array.ndim}")
            return array
    ''',
    "_traced": '''
        def _traced(array):
            """Whether the elements are not known yet: inside jax.jit, guards on them are skipped."""
            return isinstance(array, jax.core.Tracer)
    ''',
    "_integer": integer_helper,
    "_wide": '''
        def _wide(function):
            """Runs a function with 64-bit types, which JAX leaves out unless it is asked."""

            @functools.wraps(function)
            def run(*arguments):
                with jax.enable_x64(True):
                    return function(*arguments)

            return run
    ''',
    "_places": '''
        def _places(offset, shape, steps):
            """offset + i * steps[0] + j * steps[1] + ... for every (i, j, ...) of the shape."""
            grids = np.indices(shape, sparse=True)
            return sum((grid * step for grid, step in zip(grids, steps)), start=np.asarray(offset))
    ''',
    "_placed": '''
        def _placed(array, value):
            """The array with the value as its front; the value alone where it is all of it."""
            if array is None or array.shape == value.shape:
                return value
            return array.at[tuple(slice(0, size) for size in value.shape)].set(value)
    ''',
    "_quotient": '''
        def _quotient(a, b):
            """Integer division towards zero."""
            dtype = getattr(a, "dtype", None) or b.dtype
            return jax.lax.div(*jnp.broadcast_arrays(jnp.asarray(a, dtype), jnp.asarray(b, dtype)))
    ''',
}


def _cast(w: Writer, node: Node, operands: list[Text]) -> Text:
    dtype = w.type(node.output).dtype
    if operands[0].literal:
        return w.target.typed(operands[0], dtype)
    return Text(f"{operands[0].atom}.astype({w.target.dtype(dtype)})")


def _reduction(method: str) -> Rule:
    def rule(w: Writer, node: Node, operands: list[Text]) -> Text:
        code, arguments = operands[0].atom, [axes_of(w, node, "axis")]
        pad = padded_extreme(w, node)
        if pad is not None and pad_widths(w, pad) is None:
            arguments.append(f"initial={fill(w, pad)}")
        if method in ("sum", "prod") and w.type(node.output).dtype[0] in "iu":
            code, dtype = typed_reduction(w, node, operands[0])
            arguments.append(f"dtype={dtype}")
        return Text(f"{code}.{method}({', '.join(filter(None, arguments))})")

    return rule


def _pad(w: Writer, node: Node, operands: list[Text]) -> Text:
    ends = pad_widths(w, node)
    if ends is None:
        return operands[0]
    widths = ", ".join(f"(0, {end})" for end in ends)
    widths = widths if len(ends) == 1 else f"[{widths}]"
    return Text(f"jnp.pad({operands[0].code}, {widths}, constant_values={fill(w, node)})")


def _expand(w: Writer, node: Node, operands: list[Text]) -> Text:
    shape = extents(w.shape(node.output), w.names)
    if operands[0].literal:
        return Text(f"jnp.full({shape}, {operands[0].code}, {w.target.dtype(w.type(node.output).dtype)})")
    return Text(f"jnp.broadcast_to({operands[0].code}, {shape})")


def _einsum(w: Writer, node: Node, operands: list[Text]) -> Text:
    return Text(f'jnp.einsum("{node.attrs["equation"]}", {", ".join(o.code for o in operands)})')


def _cum_sum(w: Writer, node: Node, operands: list[Text]) -> Text:
    axis, dtype = axis_of_sum(w, node), w.target.dtype(w.type(node.output).dtype)
    total = f"jnp.cumsum({operands[0].code}, axis={axis}, dtype={dtype})"
    if not node.attrs["exclusive"]:
        return Text(total)
    lead = ":, " * axis
    padded = ", ".join("(1, 0)" if a == axis else "(0, 0)" for a in range(len(w.shape(node.output))))
    padded = padded if "), (" not in padded else f"[{padded}]"
    return Text(f"jnp.pad({total}, {padded})[{lead}:-1]")


def _gather(w: Writer, node: Node, operands: list[Text]) -> Text:
    return Text(f"jnp.take({operands[0].code}, {operands[1].code}, axis={node.attrs['axis']})")


def _mod(w: Writer, node: Node, operands: list[Text]) -> Text:
    if node.attrs["fmod"]:
        return call("jnp.fmod")(w, node, operands)
    return infix("%", PRODUCT)(w, node, operands)


def _shift(w: Writer, node: Node, operands: list[Text]) -> Text:
    left = node.attrs["direction"] == "LEFT"
    return call("jnp.left_shift" if left else "jnp.right_shift")(w, node, operands)


@emitter
class Jax(PythonEmitter):
    """See the module."""

    name = "jax"
    title = "JAX"
    imports = ("import functools", "import jax", "import jax.numpy as jnp", "import numpy as np")
    module = "jnp"
    helper_texts = _HELPERS
    table: ClassVar[dict[str, Rule]] = {
        **ARITHMETIC, **functions("jnp"),
        "div": divide(lambda w, node, a, b: call(w.helper("_quotient"))(w, node, [a, b])),
        "mod": remainder(_mod), "pow": call("jnp.power"), "bit_shift": _shift,
        "min": nested("jnp.minimum"), "max": nested("jnp.maximum"), "where": where("jnp.where"),
        "cast": _cast, "einsum": _einsum, "expand": _expand, "transpose": transpose,
        "unsqueeze": index_of, "pad": _pad, "gather": _gather, "cum_sum": _cum_sum, "size": size,
        "reduce_sum": _reduction("sum"), "reduce_prod": _reduction("prod"),
        "reduce_max": _reduction("max"), "reduce_min": _reduction("min"),
    }  # fmt: skip

    def typed(self, number: Text, dtype: str) -> Text:
        """jnp.int32(n)."""
        return Text(f"{self.dtype(dtype)}({number.code})")

    def holds(self, writer: Writer, condition: Text) -> str:
        """Not known inside jax.jit, where everything is read: subscripts are clamped there."""
        return f"{writer.helper('_holds')}({condition.code})"

    def any_zero(self, value: str) -> str:
        """Not known inside jax.jit."""
        return f"not _traced({value}) and not jnp.all({value})"

    def any_nan(self, value: str) -> str:
        """Not known inside jax.jit."""
        return f"not _traced({value}) and jnp.isnan({value}).any()"

    def box(self, writer: Writer, array: str, view: View) -> str:
        """Elements are gathered."""
        return f"{array}[{view_places(writer, view)}]"

    def scattered(self, writer: Writer, array: str, view: View, value: str) -> str:
        """A new array with the elements replaced."""
        return f"{array} = {array}.at[{view_places(writer, view)}].set({value})"

    def copied(self, array: str) -> str:
        """Arrays do not change."""
        return array

    def decorators(self, writer: Writer) -> list[str]:
        """64-bit types are switched on where the source has them."""
        values = [g.name for g in writer.lifted.inputs if g.positions is None]
        values += [*writer.program.outputs]
        wide = any(writer.type(name).dtype in ("f64", "i64", "u64") for name in values)
        wide = wide or any(writer.type(node.output).dtype == "f64" for node in writer.program.nodes)
        return [f"@{writer.helper('_wide')}"] if wide else []
