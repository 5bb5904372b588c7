"""JAX: pure functions of arrays, for jax.jit where integer parameters are static."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tensmith.formula.arith import Array
from tensmith.formula.functions import JOINS, NUMPY_NAMES
from tensmith.ir.types import dtype_name
from tensmith.lifting.emit import array_rules, emitter, rules
from tensmith.lifting.emit.expression import ARITHMETIC, ExpressionText, Rule, call
from tensmith.lifting.emit.python_frame import PythonEmitter, view_places
from tensmith.lifting.emit.python_writer import PythonWriter
from tensmith.lifting.lifted import ArrayView

_HELPERS = {
    "_flat": array_rules.flat_helper,
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
                raise ValueError(f"{name} holds values that {np.dtype(dtype)} does not")'''
    + array_rules.ranked,
    "_traced": '''
        def _traced(array):
            """Whether the elements are not known yet: inside jax.jit, guards on them are skipped."""
            return isinstance(array, jax.core.Tracer)
    ''',
    "_integer": rules.integer_helper,
    "_wide": '''
        def _wide(function):
            """Runs a function with 64-bit types, which JAX (0.8 or newer) leaves out unless it is asked."""

            @functools.wraps(function)
            def run(*arguments, **named):
                with jax.enable_x64(True):
                    return function(*arguments, **named)

            return run
    ''',
    "_places": array_rules.places_helper,
    "_placed": '''
        def _placed(array, value):
            """The array with the value as its front; the value alone where it is all of it."""
            if array is None or array.shape == value.shape:
                return value
            return array.at[tuple(slice(0, size) for size in value.shape)].set(value)
    ''',
    "_before": '''
        def _before(totals, axis, nothing):
            """The totals before each position; `nothing` where there are no elements."""
            size = totals.shape[axis]
            first = jax.lax.slice_in_dim(totals, 0, min(size, 1), axis=axis)
            others = jax.lax.slice_in_dim(totals, 0, max(size - 1, 0), axis=axis)
            return jnp.concatenate([jnp.full_like(first, nothing), others], axis)
    ''',
    "_quotient": '''
        def _quotient(a, b):
            """Integer division towards zero."""
            dtype = getattr(a, "dtype", None) or b.dtype
            return jax.lax.div(*jnp.broadcast_arrays(jnp.asarray(a, dtype), jnp.asarray(b, dtype)))
    ''',
}


def _running(kind: str) -> Rule:
    totals = f"jax.lax.cum{kind}({{code}}, axis={{axis}})"
    return rules.running(kind, totals, f"{{helped}}({totals}, {{axis}}, {{nothing}})", "_before")


@emitter
class Jax(PythonEmitter):
    """See the module."""

    name = "jax"
    title = "JAX"
    imports = ("import functools", "import jax", "import jax.numpy as jnp", "import numpy as np")
    module = "jnp"
    gathers = True
    helper_texts = _HELPERS
    spellings: ClassVar[Mapping[str, str]] = {  # elements are not known inside jax.jit
        "any_zero": "not _traced({0}) and not jnp.all({0})",
        "any_true": "not _traced({0}) and jnp.any({0})",
        "any_outside": "not _traced({0}) and not jnp.all((0 <= {0}) & ({0} < {1}))",
        "any_nan": "not _traced({0}) and jnp.isnan({0}).any()",
        "is_nan": "not _traced({0}) and jnp.isnan({0})",
        "copied": "{}",
    }
    table: ClassVar[dict[str, Rule]] = {
        **ARITHMETIC, **rules.functions("jnp", NUMPY_NAMES), **array_rules.alike("jnp"),
        **array_rules.reductions(), "erf": call("jax.lax.erf"),
        "div": rules.divide(array_rules.quotient),
        "mod": rules.remainder(array_rules.mod), "einsum": array_rules.einsum("jnp.einsum"),
        **{f"cum_{kind}": _running(kind) for kind in JOINS},
    }  # fmt: skip

    def constant(self, array: Array) -> ExpressionText:
        """A number has its type where JAX, without 64-bit types, cannot give it that of what it meets."""
        number = super().constant(array)
        fits = array.dtype.kind not in "iu" or -(2**31) <= int(array) < 2**31
        return number if fits else self.typed(number, dtype_name(array.dtype))

    def holds(self, writer: PythonWriter, condition: ExpressionText) -> str:
        """Not known inside jax.jit, where everything is read: subscripts are clamped there."""
        return f"{writer.helper('_holds')}({condition.code})"

    def scattered(self, writer: PythonWriter, array: str, view: ArrayView, value: str) -> str:
        """A new array with the elements replaced."""
        return f"{array} = {array}.at[{view_places(writer, view)}].set({value})"

    def decorators(self, writer: PythonWriter) -> list[str]:
        """64-bit types are switched on where the source has them, or positions and places are computed in
        them; then positions have 64 bits, too."""
        program = writer.program
        values = [given.name for given in writer.lifted.inputs if given.positions is None]
        values += program.outputs
        values += [
            node.output
            for node in program.nodes
            if writer.uses[node.output] and not (node.traits.moves or node.op in ("size", "shape"))
        ]
        wide = any(writer.type(name).dtype in ("f64", "i64", "u64") for name in values)
        return [f"@{writer.helper('_wide')}"] if wide else []
