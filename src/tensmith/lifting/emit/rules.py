"""Rules that several Python targets share: division, axes of reductions, axes of size 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from tensmith.formula.functions import ELEMENTARY
from tensmith.formula.poly import Poly, product
from tensmith.ir import Node
from tensmith.ir.tensors import neutral
from tensmith.ir.types import DTYPES
from tensmith.lifting.emit.expression import BITS, PRODUCT, SIGN, SUM, ExpressionText, Rule, call, infix
from tensmith.lifting.emit.python_text import poly
from tensmith.lifting.emit.python_writer import PythonWriter
from tensmith.lifting.lifted import TO_THE_END, lookups, reads_arrays
from tensmith.lifting.ranges import floored, of_dtype

# Widths of a pad, before and behind each axis.
Widths: TypeAlias = Sequence[tuple[int, int]]

# Source that targets share: a parameter as a Python integer.
integer_helper = '''
        def _integer(name, value, bits, signed=True):
            """The value as a Python integer that fits the source's type."""
            number = int(value)
            low = -(1 << bits - 1) if signed else 0
            if number != value or not low <= number < low + (1 << bits):
                raise ValueError(f"{name} must be an integer of {bits} bits, not {value!r}")
            return number
    '''


# Source that targets share: a parameter as a float32 number that Python computes with.
single_helper = '''
        def _single(value):
            """The nearest number that float32 holds."""
            return ctypes.c_float(value).value
    '''


# float32 quotients of integers up to here lie on the right side of every whole number: the quotient is at
# least 1 / divisor away from the next one, its rounding error at most quotient / 2**24.
_SINGLE = 2**23

Division: TypeAlias = Callable[[PythonWriter, Node, ExpressionText, ExpressionText], ExpressionText]


def divide(truncate: Division, floor: Rule | None = None, single: Division | None = None) -> Rule:
    """a / b: floats as they are; integers by // where that truncates or floors as asked, else `truncate`.

    single: through float32, where that is exact, for targets that divide floats faster than integers. The
    divisor may be large: it is rounded to no less than a dividend below 2**23, so the quotient stays below 1.
    """

    def rule(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
        a, b = operands
        if w.type(node.output).dtype[0] not in "iu":
            return infix("/", PRODUCT)(w, node, operands)
        _nonzero(w, node)
        b = w.value(node.inputs[1])
        whole = floor or infix("//", PRODUCT)
        if (dividend := floored(w.program, node)) is not None:
            top = w.value(dividend)
            if top.literal and b.literal:  # sizes: the quotient is of the type that others take it for
                top = w.target.typed(top, w.type(dividend).dtype)
            return whole(w, node, [top, b])
        found = [w.ranges[name] for name in node.inputs]
        small = -found[0].low < _SINGLE and found[0].high < _SINGLE
        small = small and w.type(node.output).dtype not in ("i64", "u64")
        if single is not None and small and not (b.literal and (a.literal or floor is None)):
            return single(w, node, a, b)
        if found[0].low >= 0 and found[1].low >= 0:
            return whole(w, node, [a, b])
        return truncate(w, node, a, b)

    return rule


def remainder(rule: Rule) -> Rule:
    """a mod b; of integers with a guard that no divisor is 0."""

    def guarded(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
        if w.type(node.output).dtype[0] not in "iu":
            return rule(w, node, operands)
        _nonzero(w, node)
        return rule(w, node, [operands[0], w.value(node.inputs[1])])

    return guarded


def _nonzero(w: PythonWriter, node: Node) -> None:
    """A guard that a divisor is not 0, where it may be."""
    divisor = node.inputs[1]
    found = w.ranges[divisor]
    if found.low > 0 or found.high < 0 or w.constant(divisor) is not None:
        return
    if divisor in w.nonzero or _refused(w, divisor) or _replaced(w, divisor):
        return
    w.nonzero.add(divisor)
    required = [r.text for r in w.lifted.requires if r.kind == "nonzero"]
    number = w.value(divisor)
    zero = f"{number.code} == 0"
    if not number.literal:
        zero = w.target.spell("any_zero", w.assigned(divisor).code)
    # Nothing is divided where the quotients have no elements, though the divisor may have some.
    alone = [extent for extent in w.shape(node.output) if extent not in w.shape(divisor)]
    some = [f"{poly(extent, w.names).code} > 0 and " for extent in alone if extent.constant is None]
    w.refuse_if("".join(some) + zero, " and ".join(required) or "that no divisor is 0")


def _refused(w: PythonWriter, divisor: str) -> bool:
    """Whether a divisor is a parameter that was refused as 0 before."""
    given = w.inputs.get(divisor)
    if given is None or given.scalar is None:
        return False
    parameter = Poly.symbol(given.scalar)
    return any(r.kind == "nonzero" and not r.when and r.poly == parameter for r in w.lifted.requires)


def _replaced(w: PythonWriter, divisor: str) -> bool:
    """Whether a divisor is where(d == 0, 1, d), perhaps in another type."""
    node = w.producer(_source(w, divisor))
    if node is None or node.op != "where":
        return False
    condition, one = w.producer(_source(w, node.inputs[0])), w.constant(node.inputs[1])
    if condition is None or condition.op != "equal" or one is None or not (one == 1).all():
        return False
    zero = w.constant(condition.inputs[1])
    same = _source(w, condition.inputs[0]) == _source(w, node.inputs[2])
    return same and zero is not None and not zero.any()


def _source(w: PythonWriter, name: str) -> str:
    """The value that another is with axes of size 1, or in an integer type that holds it."""
    node = w.producer(name)
    while node is not None and node.op in ("cast", "unsqueeze", "identity"):
        types = [w.type(value).dtype for value in (node.inputs[0], node.output)]
        whole = types[0][0] in "iu" and types[1][0] in "iu"
        if types[0] != types[1] and not (whole and w.ranges[node.inputs[0]].inside(of_dtype(types[1]))):
            break
        name = node.inputs[0]
        node = w.producer(name)
    return name


def index_of(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
    """x[:, None]: axes of size 1."""
    missing = numbers(w, node.inputs[1])
    subscripts = ("None" if axis in missing else ":" for axis in range(max(missing) + 1))
    return ExpressionText(f"{operands[0].atom}[{', '.join(subscripts)}]")


def where(function: str) -> Rule:
    """A choice; of two plain numbers, the first gets the element type."""

    def rule(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
        condition, a, b = operands
        if a.literal and b.literal:
            a = w.target.typed(a, w.type(node.output).dtype)
        return ExpressionText(f"{function}({condition.code}, {a.code}, {b.code})")

    return rule


def chosen(otherwise: Rule) -> Rule:
    """A choice of one of two tensors for all positions, without a pass over both."""

    def rule(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
        if w.shape(node.inputs[0]) or any(w.shape(n) != w.shape(node.output) for n in node.inputs[1:]):
            return otherwise(w, node, operands)
        return w.chosen(node, operands[0].code, operands[1:])

    return rule


# A choice by bits; see by_bits.
select_helper = '''
        def _select(mask, a, b):
            """a where the bits of the mask are 1, b where they are 0: random branches would take longer."""
            return ((a ^ b) & mask) ^ b
    '''


def by_bits(otherwise: Rule) -> Rule:
    """A choice between integers without a branch an element."""

    def rule(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
        condition, a, b = operands
        dtype = w.type(node.output).dtype
        whole = w.shape(node.inputs[0]) == w.shape(node.output) != ()
        if dtype[0] not in "iu" or dtype.endswith("64") or not whole or (a.literal and b.literal):
            return otherwise(w, node, operands)
        type_ = w.target.dtype(dtype)
        one = w.target.spell("cast", condition, type_)
        if dtype in ("i8", "u8"):
            one = f"{condition.atom}.view({type_})"
        low, full = "0", "-1" if dtype[0] == "i" else str(2 ** int(dtype[1:]) - 1)
        if a.code == full:
            return ExpressionText(f"{b.within(SIGN)} | -{one}", BITS)
        if b.code == full:
            return ExpressionText(f"{a.within(SIGN)} | ({one} - 1)", BITS)
        if a.code == low:
            return ExpressionText(f"{b.within(SIGN)} & ({one} - 1)", BITS)
        if b.code == low:
            return ExpressionText(f"{a.within(SIGN)} & -{one}", BITS)
        return ExpressionText(f"{w.helper('_select')}(-{one}, {a.code}, {b.code})")

    return rule


def functions(module: str, others: Mapping[str, str] = MappingProxyType({})) -> dict[str, Rule]:
    """Functions of one number that libraries call alike; `others`: op -> another name."""
    alike = (*ELEMENTARY, "floor", "ceil", "round", "sign", "abs")
    return {name: call(f"{module}.{others.get(name, name)}") for name in alike}


def helped(name: str) -> Rule:
    """A function that a helper of the target is."""
    return lambda w, node, operands: call(w.helper(name))(w, node, operands)


def typed(rule: Rule) -> Rule:
    """A function that does not give plain numbers the type of what they meet."""

    def applied(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
        types = [w.type(name).dtype for name in node.inputs]
        return rule(w, node, [w.typed(o, t) for o, t in zip(operands, types)])

    return applied


def shift(left: str, right: str) -> Rule:
    """Bits to the left or right, by functions of these names."""

    def rule(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
        return call(left if node.attrs["direction"] == "LEFT" else right)(w, node, operands)

    return rule


def mod(floored: str, truncated: str) -> Rule:
    """The remainder with the sign of the divisor, or C's, by functions of these names."""

    def rule(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
        return call(truncated if node.attrs["fmod"] else floored)(w, node, operands)

    return rule


def size(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
    """A size is a plain integer."""
    extent = product(w.shape(node.inputs[0]))
    text = poly(Poly.of(extent), w.names)
    return ExpressionText(text.code, text.level, literal=True)


def cast(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
    """A value in another element type."""
    dtype = w.type(node.output).dtype
    if operands[0].literal:
        return w.target.typed(_wrapped(w, node.inputs[0], operands[0], dtype), dtype)
    return ExpressionText(w.target.spell("cast", operands[0], w.target.dtype(dtype)))


def _wrapped(w: PythonWriter, value: str, text: ExpressionText, dtype: str) -> ExpressionText:
    """A plain integer modulo 2^bits, as one of a small type, where it may be none.

    That sizes fit larger types is required; differences of them may be negative.
    """
    known = w.ranges.get(value)
    wraps = dtype in ("u8", "i8", "u16", "i16") or (dtype[0] == "u" and not _natural(w, value))
    if not wraps or known is None or known.inside(of_dtype(dtype)):
        return text
    low, high = of_dtype(dtype).low, of_dtype(dtype).high
    if low == 0:
        return ExpressionText(f"{text.within(PRODUCT)} % {high + 1}", PRODUCT)
    return ExpressionText(f"({text.within(SUM)} + {-low}) % {high - low + 1} - {-low}", SUM)


def _natural(w: PythonWriter, value: str) -> bool:
    """Whether a plain integer is a sum or product of sizes."""
    node, constant = w.producer(value), w.constant(value)
    if node is None or constant is not None:
        return constant is not None and bool((constant >= 0).all())
    return node.op == "size" or (node.op in ("add", "mul") and all(_natural(w, name) for name in node.inputs))


def numbers(w: PythonWriter, value: str) -> list[int]:
    """A constant that an op takes: axes, widths."""
    found = w.constant(value)
    assert found is not None
    return list(map(int, found.reshape(-1)))


def fill(w: PythonWriter, node: Node) -> str:
    """The number that a pad puts in, as text."""
    found = w.constant(node.inputs[2])
    assert found is not None
    return w.target.constant(found).code


def padded_extreme(w: PythonWriter, node: Node) -> Node | None:
    """The pad that puts an element before the first of those a maximum is of, as there may be none."""
    pad = w.producer(node.inputs[0])
    return pad if pad is not None and _for_extreme(w, pad) else None


def _for_extreme(w: PythonWriter, node: Node) -> bool:
    """Whether a node is a pad for a maximum to find."""
    readers = w.program.consumers.get(node.output, ())
    extreme = any(reader.op in ("reduce_max", "reduce_min") for reader in readers)
    return node.op == "pad" and extreme and any(before for before, _ in pad_widths(w, node))


def joined(w: PythonWriter, node: Node, code: str, join: str, largest: bool) -> ExpressionText:
    """A maximum (minimum), joined to what a pad puts before its elements where that is more than nothing."""
    pad, dtype = padded_extreme(w, node), w.type(node.output).dtype
    if pad is None or w.constant(pad.inputs[2]) == neutral("max" if largest else "min", DTYPES[dtype]):
        return ExpressionText(code)
    return ExpressionText(f"{join}({code}, {w.target.typed(ExpressionText(fill(w, pad)), dtype).code})")


def extreme(method: str, helper: str, word: str) -> Rule:
    """A maximum (minimum) as a method of the array; by a helper where a pad puts an element before the first,
    as there may be none. word: what the method calls axes."""

    def rule(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
        padding = padded_extreme(w, node)
        if padding is None:
            return ExpressionText(f"{operands[0].atom}.{method}({axes_of(w, node, word)})")
        kind, module = method[-3:], w.target.module
        array, axes, nothing = operands[0].code, some_axes(w, node), fill(w, padding)
        found = f"{w.helper(helper)}({module}.{method}, {array}, {axes}, {nothing})"
        return joined(w, node, found, f"{module}.{kind}imum", kind == "max")

    return rule


def pad(spell: Callable[[PythonWriter, Node, ExpressionText, Widths], str]) -> Rule:
    """Elements before the first and behind the last of each axis, as `spell` says it; what is put there for a
    maximum to find, reductions join."""

    def rule(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
        if _for_extreme(w, node):
            return operands[0]
        return ExpressionText(spell(w, node, operands[0], pad_widths(w, node)))

    return rule


def pad_widths(w: PythonWriter, node: Node) -> Widths:
    """Elements before and behind each axis."""
    pads = numbers(w, node.inputs[1])
    half = len(pads) // 2
    return list(zip(pads[:half], pads[half:]))


def cut(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
    """A slice between constants."""
    starts, ends, axes = (numbers(w, name) for name in node.inputs[1:])
    parts = [":"] * len(w.shape(node.output))
    for axis, start, end in zip(axes, starts, ends):
        parts[axis] = f"{start or ''}:{'' if end == TO_THE_END else end}"
    while parts and parts[-1] == ":":
        parts.pop()
    return ExpressionText(f"{operands[0].atom}[{', '.join(parts)}]") if parts else operands[0]


def gather(spelling: str) -> Rule:
    """Elements of `code` or `atom` by subscripts `at` along `axis`, which `before` names by as many axes."""

    def rule(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
        x, axis = operands[0], node.attrs["axis"]
        if (every := w.every.get(node.output)) is not None:
            behind = poly(every.step * every.size + every.start, w.names).code
            step = f":{every.step}" if every.step > 1 else ""
            return ExpressionText(f"{x.atom}[{':, ' * axis}{every.start or ''}:{behind}{step}]")
        at = operands[1].code
        if reads_arrays(w.program, w.lifted.inputs, node.inputs[1]):
            at = w.assigned(node.inputs[1]).code
            x = _there(w, node, x, at)
        before = ":, " * axis
        return ExpressionText(spelling.format(code=x.code, atom=x.atom, at=at, axis=axis, before=before))

    return rule


def first_along(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
    """Without an axis of size 1."""
    (axis,) = numbers(w, node.inputs[1])
    return ExpressionText(f"{operands[0].atom}[{':, ' * axis}0]")


def _there(w: PythonWriter, node: Node, x: ExpressionText, at: str) -> ExpressionText:
    """What is gathered from, after a guard that it holds every element that is.

    Where some are not asked for, the first stands for them: of an array of none, a zero.
    """
    axis, dtype = node.attrs["axis"], w.type(node.inputs[0]).dtype
    size = poly(w.shape(node.inputs[0])[axis], w.names).code
    outside = w.target.spell("any_outside", at, size)
    choice = w.producer(node.inputs[1])
    if choice is not None and len(w.shape(node.inputs[0])) == 1 and _asked_where(w, node, choice):
        chosen = "any_zero" if w.constant(choice.inputs[1]) is not None else "any_true"
        asked = w.target.spell(chosen, w.assigned(choice.inputs[0]).code)
        outside = f"({outside} if {size} > 0 else {asked})"
        zero = w.target.spell("nothing", x.atom, "(1,)", w.target.dtype(dtype))
        x = ExpressionText(f"({x.code} if {size} > 0 else {zero})")
    w.refuse_if(outside, " and ".join(each.text for each in lookups(w.lifted, node.inputs[0])))
    return x


def _asked_where(w: PythonWriter, node: Node, choice: Node) -> bool:
    """Whether an element is used only where its place is chosen, and not the constant beside it."""
    if choice.op != "where" or node.output in w.program.outputs:
        return False
    constant = 1 if w.constant(choice.inputs[1]) is not None else 2
    users = [user for user in w.program.nodes if node.output in user.inputs]
    return w.constant(choice.inputs[constant]) is not None and all(
        user.op == "where"
        and user.inputs[0] == choice.inputs[0]
        and node.output not in (user.inputs[0], user.inputs[constant])
        for user in users
    )


def running(kind: str, spelling: str, before: str, helper: str = "") -> Rule:
    """Sums (products, maxima, minima) up to each position, of `code` along `axis` in `dtype`; those before
    it as `before`, where `nothing` is the first. Either may call the helper `helped`."""

    def rule(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
        name, code = w.type(node.output).dtype, operands[0].code
        axis, reverse = numbers(w, node.inputs[1])[0], node.attrs["reverse"]
        said = before if node.attrs["exclusive"] else spelling
        found = said.format(
            code=w.target.spell("flipped", code, axis) if reverse else code,
            axis=axis,
            dtype=w.target.dtype(name),
            nothing=w.target.constant(np.asarray(neutral(kind, DTYPES[name]), DTYPES[name])).code,
            helped=w.helper(helper) if "{helped}" in said else "",
        )
        return ExpressionText(w.target.spell("flipped", found, axis) if reverse else found)

    return rule


def transpose(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
    """The axes in another order."""
    return ExpressionText(w.target.transposed(operands[0], tuple(node.attrs["perm"])))


def some_axes(w: PythonWriter, node: Node) -> tuple[int, ...] | None:
    """The axes a reduction goes over; None for all."""
    found = tuple(numbers(w, node.inputs[1]))
    return None if len(found) == len(w.shape(node.inputs[0])) else found


def axes_of(w: PythonWriter, node: Node, word: str) -> str:
    """axis=1, axis=(0, 1), or nothing for all axes."""
    axes = some_axes(w, node)
    if axes is None:
        return ""
    return f"{word}={axes[0] if len(axes) == 1 else axes}"


def typed_reduction(w: PythonWriter, node: Node, operand: ExpressionText) -> tuple[str, str]:
    """(what is reduced, element type) of an integer reduction; a widening cast before it is left out."""
    dtype = w.target.dtype(w.type(node.output).dtype)
    cast = w.producer(node.inputs[0])
    if cast is not None and cast.op == "cast" and w.type(cast.inputs[0]).dtype[0] in "iu":
        return w.value(cast.inputs[0]).atom, dtype
    return operand.atom, dtype
