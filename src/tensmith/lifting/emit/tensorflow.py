"""TensorFlow: eagerly, or inside tf.function where integer parameters are Python's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tensmith.ir import Node
from tensmith.lifting.emit import emitter, rules
from tensmith.lifting.emit.array_rules import einsum, places_helper
from tensmith.lifting.emit.expression import ARITHMETIC, BITS, ExpressionText, Rule, call, nested
from tensmith.lifting.emit.python_frame import PythonEmitter, view_places
from tensmith.lifting.emit.python_text import extents
from tensmith.lifting.emit.python_writer import PythonWriter
from tensmith.lifting.lifted import ArrayView

_HELPERS = {
    "_erf": '''
        def _erf(x):
            """The error function; tf.math.erf has no value at minus infinity."""
            return tf.math.erf(tf.clip_by_value(x, -6.0, 6.0))
    ''',
    "_flat": '''
        def _flat(name, value, dtype):
            """The elements of a flat array; see _array."""
            return tf.reshape(_array(name, value, dtype), [-1])
    ''',
    "_array": '''
        def _array(name, value, dtype, rank=None):
            """The value as a tensor of the source's element type."""
            given = value if tf.is_tensor(value) else np.asarray(value)
            tensor = tf.cast(given if tf.is_tensor(given) else given.astype(dtype.as_numpy_dtype), dtype)
            exact = given.dtype == dtype or dtype.is_floating or not tf.executing_eagerly()
            if not exact and not np.array_equal(np.asarray(given), tensor.numpy()):
                raise ValueError(f"{name} holds values that {dtype.name} does not")
            if rank is not None and 0 in tensor.shape and len(tensor.shape) < rank:
                tensor = tf.reshape(tensor, tuple(tensor.shape) + (0,) * (rank - len(tensor.shape)))
            if rank is not None and len(tensor.shape) != rank:
                raise ValueError(f"{name} must have {rank} axes, not {len(tensor.shape)}")
            return tensor
    ''',
    "_integer": rules.integer_helper,
    "_places": places_helper,
    "_grids": '''
        def _grids(*subscripts):
            """Subscripts of every element, in a last axis."""
            return np.stack(np.broadcast_arrays(*subscripts), axis=-1)
    ''',
    "_matmul": '''
        def _matmul(a, b):
            """a @ b; TensorFlow's fused layers end the process where there is nothing to multiply."""
            if 0 in a.shape or 0 in b.shape:
                return tf.reduce_sum(a[..., :, :, None] * b[..., None, :, :], axis=-2)
            return tf.linalg.matmul(a, b)
    ''',
    "_running": '''
        def _running(join, x, axis, before=None):
            """Elements up to each position, joined by `join`, for which TensorFlow has no function, twice as
            many in each step; or those before it, `before` where there are none."""
            if before is not None and x.shape[axis]:
                widths = [[int(a == axis), 0] for a in range(len(x.shape))]
                kept, _ = tf.split(x, [x.shape[axis] - 1, 1], axis)
                x = tf.pad(kept, widths, constant_values=before)
            reach = 1
            while reach < x.shape[axis]:
                first, later = tf.split(x, [reach, x.shape[axis] - reach], axis)
                earlier, _ = tf.split(x, [x.shape[axis] - reach, reach], axis)
                x = tf.concat([first, join(later, earlier)], axis)
                reach *= 2
            return x
    ''',
    "_replaced": '''
        def _replaced(tensor, places, value):
            """A tensor with the elements at places, subscripts in the last axis, replaced."""
            value = tf.broadcast_to(value, places.shape[:-1])
            return tf.tensor_scatter_nd_update(tensor, places[None], value[None])  # one element has no axes
    ''',
    "_placed": '''
        def _placed(tensor, value):
            """The tensor with the value as its front; the value alone where it is all of it."""
            if tensor is None or tensor.shape == value.shape:
                return value
            if len(value.shape) == 1:
                return tf.concat([value, tensor[value.shape[0] :]], 0)
            return _replaced(tensor, _grids(*np.indices(value.shape)), value)
    ''',
}


def _reduction(function: str, join: str = "") -> Rule:
    """join: of two numbers, for what a pad puts before the first; over nothing a maximum is the least."""

    def rule(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
        arguments = [operands[0].code, rules.axes_of(w, node, "axis")]
        text = f"tf.{function}({', '.join(filter(None, arguments))})"
        return rules.joined(w, node, text, f"tf.{join}", join == "maximum") if join else ExpressionText(text)

    return rule


def _pad(w: PythonWriter, node: Node, operand: ExpressionText, ends: rules.Widths) -> str:
    widths = ", ".join(f"[{before}, {behind}]" for before, behind in ends)
    return f"tf.pad({operand.code}, [{widths}], constant_values={rules.fill(w, node)})"


def _expand(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
    shape = extents(w.shape(node.output), w.names)
    return ExpressionText(f"tf.broadcast_to({w.typed(operands[0], w.type(node.output).dtype).code}, {shape})")


def _matmul(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
    """Vectors have functions of their own."""
    ranks = [len(w.shape(name)) for name in node.inputs]
    a, b = operands[0].code, operands[1].code
    if ranks == [1, 1]:
        return ExpressionText(f"tf.tensordot({a}, {b}, 1)")
    if ranks[1] == 1:
        return ExpressionText(f"tf.linalg.matvec({a}, {b})")
    if ranks[0] == 1:
        return ExpressionText(f"tf.linalg.matvec({b}, {a}, transpose_a=True)")
    return ExpressionText(f"{w.helper('_matmul')}({a}, {b})")


_RUNNING = {
    **{
        f"cum_{kind}": rules.running(
            kind,
            f"tf.{function}({{code}}, axis={{axis}})",
            f"tf.{function}({{code}}, axis={{axis}}, exclusive=True)",
        )
        for kind, function in (("sum", "cumsum"), ("prod", "math.cumprod"))
    },
    **{
        f"cum_{kind}": rules.running(
            kind,
            f"{{helped}}(tf.{kind}imum, {{code}}, {{axis}})",
            f"{{helped}}(tf.{kind}imum, {{code}}, {{axis}}, {{nothing}})",
            "_running",
        )
        for kind in ("max", "min")
    },
}


@emitter
class TensorFlow(PythonEmitter):
    """See the module."""

    name = "tensorflow"
    title = "TensorFlow"
    imports = ("import numpy as np", "import tensorflow as tf")
    module = "tf"
    truth = "bool"
    helper_texts = _HELPERS
    spellings: ClassVar[Mapping[str, str]] = {
        "cast": "tf.cast({0.code}, {1})",
        # Elements are not known inside tf.function.
        "any_zero": "tf.executing_eagerly() and not np.all({})",
        "any_true": "tf.executing_eagerly() and np.any({0})",
        "any_outside": "tf.executing_eagerly() and not np.all((0 <= {0}) & ({0} < {1}))",
        "any_nan": "tf.executing_eagerly() and np.isnan({}).any()",
        "is_nan": "tf.executing_eagerly() and np.isnan({})",
        "positions": "tf.range({}, dtype=tf.int64)", "copied": "{}",  # tensors do not change
        "reshaped": "tf.reshape({}, {})", "flattened": "tf.reshape({}, [-1])",
        "turned": "tf.transpose({0.code})", "transposed": "tf.transpose({0.code}, {1})",
        "flipped": "tf.reverse({0}, [{1}])",
        "typed": "tf.constant({0}, {1})",
    }  # fmt: skip
    table: ClassVar[dict[str, Rule]] = {
        **{name: rules.typed(rule) for name, rule in ARITHMETIC.items()},
        **rules.functions("tf", {"log": "math.log"}), "erf": rules.helped("_erf"),
        "div": rules.divide(
            lambda w, node, a, b: rules.typed(call("tf.truncatediv"))(w, node, [a, b]),
            rules.typed(call("tf.math.floordiv")),
        ),
        "mod": rules.remainder(rules.typed(rules.mod("tf.math.floormod", "tf.truncatemod"))),
        "pow": rules.typed(call("tf.pow")),
        "bit_shift": rules.typed(rules.shift("tf.bitwise.left_shift", "tf.bitwise.right_shift")),
        "bitwise_and": rules.typed(call("tf.bitwise.bitwise_and")),
        "bitwise_or": rules.typed(call("tf.bitwise.bitwise_or")),
        "bitwise_xor": rules.typed(call("tf.bitwise.bitwise_xor")), "bitwise_not": call("tf.bitwise.invert"),
        "and": call("tf.logical_and"), "or": call("tf.logical_or"), "xor": call("tf.math.logical_xor"),
        "not": call("tf.logical_not"), "equal": rules.typed(call("tf.equal")),
        "min": rules.typed(nested("tf.minimum")), "max": rules.typed(nested("tf.maximum")),
        "where": rules.typed(rules.where("tf.where")), "cast": rules.cast, "matmul": _matmul,
        "einsum": einsum("tf.einsum"),
        "expand": _expand, "transpose": rules.transpose, "unsqueeze": rules.index_of, "pad": rules.pad(_pad),
        "slice": rules.cut,
        "gather": rules.gather("tf.gather({code}, {at}, axis={axis})"), "size": rules.size,
        "gather_elements": rules.gather("tf.experimental.numpy.take_along_axis({code}, {at}, axis={axis})"),
        "squeeze": rules.first_along,
        **_RUNNING,
        "reduce_sum": _reduction("reduce_sum"), "reduce_prod": _reduction("reduce_prod"),
        "reduce_max": _reduction("reduce_max", "maximum"), "reduce_min": _reduction("reduce_min", "minimum"),
    }  # fmt: skip

    def holds(self, writer: PythonWriter, condition: ExpressionText) -> str:
        """Not known inside tf.function, where everything is read."""
        return f"not tf.executing_eagerly() or {condition.within(BITS)}"

    def box(self, writer: PythonWriter, array: str, view: ArrayView) -> str:
        """Elements are gathered."""
        places = view_places(writer, view, slices=False)
        if len(view.offset) == 1:
            return f"tf.gather({array}, {places})"
        return f"tf.gather_nd({array}, {writer.helper('_grids')}({places}))"

    def scattered(self, writer: PythonWriter, array: str, view: ArrayView, value: str) -> str:
        """A new tensor with the elements replaced."""
        grids = f"{writer.helper('_grids')}({view_places(writer, view, slices=False)})"
        return f"{array} = {writer.helper('_replaced')}({array}, {grids}, {value})"
