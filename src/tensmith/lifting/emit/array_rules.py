"""Rules and helpers of the targets that speak NumPy's language: np, jnp and mx, by `target.module`."""

from __future__ import annotations

from tensmith.ir import Node
from tensmith.lifting.emit import rules
from tensmith.lifting.emit.expression import PRODUCT, ExpressionText, Rule, call, infix, nested
from tensmith.lifting.emit.python_text import extents
from tensmith.lifting.emit.python_writer import PythonWriter
from tensmith.lifting.emit.rules import axes_of, fill, padded_extreme, typed_reduction

flat_helper = '''
        def _flat(name, value, dtype):
            """The elements of a flat array; see _array."""
            return _array(name, value, dtype).reshape(-1)
    '''
# The end of a helper `_array`: of the rank that the source says.
ranked = """
            if rank is not None and array.size == 0 and array.ndim < rank:
                array = array.reshape(array.shape + (0,) * (rank - array.ndim))
            if rank is not None and array.ndim != rank:
                raise ValueError(f"{name} must have {rank} axes, not {array.ndim}")
            return array
    """
# Subscripts as NumPy arrays, which array languages that gather take.
places_helper = '''
        def _places(offset, shape, steps):
            """offset + i * steps[0] + j * steps[1] + ... for every (i, j, ...) of the shape."""
            grids = np.indices(shape, sparse=True)
            return sum((grid * step for grid, step in zip(grids, steps)), start=np.asarray(offset))
    '''


def reduction(method: str, word: str = "axis") -> Rule:
    """a.sum(axis=...), with the type of the result where integers would be widened; `word` says axis."""

    def rule(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
        code, arguments = operands[0].atom, [axes_of(w, node, word)]
        if (pad := padded_extreme(w, node)) is not None:
            arguments.append(f"initial={fill(w, pad)}")
        if method in ("sum", "prod") and w.type(node.output).dtype[0] in "iu":
            code, dtype = typed_reduction(w, node, operands[0])
            arguments.append(f"dtype={dtype}")
        return ExpressionText(f"{code}.{method}({', '.join(filter(None, arguments))})")

    return rule


def _pad(w: PythonWriter, node: Node, operand: ExpressionText, ends: rules.Widths) -> str:
    widths = ", ".join(f"({before}, {behind})" for before, behind in ends)
    widths = widths if len(ends) == 1 else f"[{widths}]"
    filling = w.target.spell("filling", fill(w, node), w.target.dtype(w.type(node.output).dtype))
    return f"{w.target.module}.pad({operand.code}, {widths}, constant_values={filling})"


def expand(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
    """An array of one number, or a view."""
    shape, module = extents(w.shape(node.output), w.names), w.target.module
    if w.target.fills(w, node.inputs[0], operands[0]):
        dtype = w.target.dtype(w.type(node.output).dtype)
        return ExpressionText(f"{module}.full({shape}, {operands[0].code}, {dtype})")
    return ExpressionText(f"{module}.broadcast_to({operands[0].code}, {shape})")


def einsum(function: str, more: str = "") -> Rule:
    """An Einstein sum; `more` is said of several operands."""

    def rule(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
        codes = ", ".join(operand.code for operand in operands)
        return ExpressionText(
            f'{function}("{node.attrs["equation"]}", {codes}{more if len(operands) > 1 else ""})'
        )

    return rule


def quotient(w: PythonWriter, node: Node, a: ExpressionText, b: ExpressionText) -> ExpressionText:
    """Integer division towards zero, by the target's helper."""
    return call(w.helper("_quotient"))(w, node, [a, b])


def mod(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
    """The remainder with the sign of the divisor, or C's."""
    rule = call(f"{w.target.module}.fmod") if node.attrs["fmod"] else infix("%", PRODUCT)
    return rule(w, node, operands)


def alike(module: str) -> dict[str, Rule]:
    """What these libraries say in the same words."""
    return {
        "pow": call(f"{module}.power"),
        "min": nested(f"{module}.minimum"), "max": nested(f"{module}.maximum"),
        "where": rules.where(f"{module}.where"),
        "bit_shift": rules.shift(f"{module}.left_shift", f"{module}.right_shift"),
        "cast": rules.cast, "expand": expand, "pad": rules.pad(_pad), "slice": rules.cut,
        "gather": rules.gather(f"{module}.take({{code}}, {{at}}, axis={{axis}})"),
        "gather_elements": rules.gather(f"{module}.take_along_axis({{code}}, {{at}}, axis={{axis}})"),
        "squeeze": rules.first_along,
        "transpose": rules.transpose, "unsqueeze": rules.index_of, "size": rules.size,
    }  # fmt: skip


def reductions() -> dict[str, Rule]:
    """Sums, products and extremes as methods of the array."""
    return {f"reduce_{method}": reduction(method) for method in ("sum", "prod", "max", "min")}
