"""PyTorch: on the device of the tensors that come in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tensmith.ir import Node, Program
from tensmith.lifting.emit import emitter, rules
from tensmith.lifting.emit.array_rules import einsum, reduction
from tensmith.lifting.emit.expression import (
    ARITHMETIC,
    COMPARISON,
    PRODUCT,
    ExpressionText,
    Rule,
    call,
    infix,
    nested,
)
from tensmith.lifting.emit.factor import factors
from tensmith.lifting.emit.python_frame import PythonEmitter
from tensmith.lifting.emit.python_text import extents
from tensmith.lifting.emit.python_writer import PythonWriter
from tensmith.lifting.emit.signed import signed
from tensmith.lifting.lifted import Input, Lifted
from tensmith.lifting.loops import Array
from tensmith.lifting.refusal import Refusal

_HELPERS = {
    "_flat": '''
        def _flat(name, value, dtype, device):
            """The elements of a flat array; see _array."""
            tensor = _array(name, value, dtype, device)
            return tensor if tensor.ndim == 1 else tensor.reshape(-1)
    ''',
    "_array": '''
        def _array(name, value, dtype, device, rank=None):
            """The value as a tensor of the source's element type, not copied where it is one."""
            here = isinstance(value, torch.Tensor) and value.device == device
            exact = dtype if dtype.is_floating_point else None
            tensor = value if here else torch.as_tensor(value, dtype=exact, device=device)
            if tensor.dtype != dtype:
                if tensor.is_floating_point() and not here:  # PyTorch rounds the numbers of lists
                    tensor = torch.as_tensor(value, dtype=torch.float64, device=device)
                given, tensor = tensor, tensor.to(dtype)
                if not dtype.is_floating_point and not torch.equal(given, tensor.to(given.dtype)):
                    raise ValueError(f"{name} holds values that {dtype} does not")
            if rank is not None and tensor.numel() == 0 and tensor.ndim < rank:
                tensor = tensor.reshape(tuple(tensor.shape) + (0,) * (rank - tensor.ndim))
            if rank is not None and tensor.ndim != rank:
                raise ValueError(f"{name} must have {rank} axes, not {tensor.ndim}")
            return tensor
    ''',
    "_device": '''
        def _device(*values):
            """Where the first tensor is; None for lists and arrays."""
            return next((value.device for value in values if isinstance(value, torch.Tensor)), None)
    ''',
    "_integer": rules.integer_helper,
    "_single": rules.single_helper,
    "_select": rules.select_helper,
    "_front": '''
        def _front(tensor, size):
            """The first elements; a tensor that has no more is itself its front."""
            return tensor if tensor.shape[0] == size else tensor[:size]
    ''',
    "_box": '''
        def _box(tensor, offset, shape, steps):
            """A view: element (i, j, ...) is tensor[offset + i * steps[0] + j * steps[1] + ...]."""
            if 0 in shape:
                return tensor.new_empty(shape)
            last = offset + sum((size - 1) * step for size, step in zip(shape, steps))
            if min(offset, *steps) < 0:
                grids = torch.meshgrid(*(torch.arange(size) for size in shape), indexing="ij")
                return tensor[offset + sum(grid * step for grid, step in zip(grids, steps))]
            if last >= tensor.shape[0]:
                raise ValueError(f"an array of {last + 1} elements is needed, not {tensor.shape[0]}")
            stride = tensor.stride(0)
            start = tensor.storage_offset() + offset * stride
            return tensor.as_strided(shape, tuple(step * stride for step in steps), start)
    ''',
    "_placed": '''
        def _placed(tensor, value):
            """A copy of the tensor whose front is the value; the value alone where it is all of it."""
            if tensor is None or tensor.shape == value.shape:
                return value
            if value.ndim == 1:
                return torch.cat((value, tensor[value.shape[0] :]))
            result = tensor.clone()
            result[tuple(slice(0, size) for size in value.shape)] = value
            return result
    ''',
    "_product": '''
        def _product(a, b):
            """a @ b of integers, through float64 where every sum is exact in it."""
            if a.numel() and b.numel() and _bound(a) * _bound(b) * a.shape[-1] < 2**53:
                return (a.double() @ b.double()).long().to(a.dtype)
            return a @ b


        def _bound(a):
            """At least the magnitude of every element."""
            return max(abs(int(a.min())), abs(int(a.max())))
    ''',
    "_extreme": '''
        def _extreme(reduce, tensor, dims, least):
            """A maximum or minimum over axes that may be empty: then `least`."""
            dims = tuple(range(tensor.ndim)) if dims is None else dims
            if any(tensor.shape[dim] == 0 for dim in dims):
                shape = [s for d, s in enumerate(tensor.shape) if d not in dims]
                return tensor.new_tensor(least).repeat(shape)
            return reduce(tensor, dims)
    ''',
    "_before": '''
        def _before(totals, dim, nothing):
            """The totals before each position; `nothing` where there are no elements."""
            size = max(totals.shape[dim] - 1, 0)
            result = torch.full_like(totals, nothing)
            result.narrow(dim, totals.shape[dim] - size, size).copy_(totals.narrow(dim, 0, size))
            return result
    ''',
}


def _total(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
    cast = w.producer(node.inputs[0])
    if cast is not None and w.type(cast.inputs[0]).dtype == "u32" and _cut_to_32_bits(w, node):
        arguments = [rules.axes_of(w, node, "dim"), "dtype=torch.int32"]  # wraps as unsigned integers do
        code = f"{w.value(cast.inputs[0]).atom}.view(torch.int32)"
        return ExpressionText(f"{code}.sum({', '.join(filter(None, arguments))}).to(torch.int64)")
    return reduction("sum", "dim")(w, node, operands)


def _cut_to_32_bits(w: PythonWriter, node: Node) -> bool:
    """Whether all that is read of a result is its low 32 bits."""
    readers = [other for other in w.program.nodes if node.output in other.inputs]
    masks = [w.constant(name) for other in readers for name in other.inputs if name != node.output]
    low = all(mask is not None and mask.ndim == 0 and int(mask) == 2**32 - 1 for mask in masks)
    both = low and all(other.op == "bitwise_and" for other in readers)
    return both and bool(readers) and node.output not in w.program.outputs


def _pad(w: PythonWriter, node: Node, operand: ExpressionText, ends: rules.Widths) -> str:
    widths = ", ".join(f"{before}, {behind}" for before, behind in reversed(ends))
    return f"torch.nn.functional.pad({operand.code}, ({widths}), value={rules.fill(w, node)})"


def _expand(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
    shape = extents(w.shape(node.output), w.names)
    if operands[0].literal:
        dtype = w.target.dtype(w.type(node.output).dtype)
        return ExpressionText(f"torch.full({shape}, {operands[0].code}, dtype={dtype}, device=device)")
    return ExpressionText(f"{operands[0].atom}.expand{shape}")


def _matmul(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
    """BLAS knows floats alone; vectors gain nothing from it."""
    if w.type(node.output).dtype[0] == "f" or min(len(w.shape(name)) for name in node.inputs) < 2:
        return infix("@", PRODUCT)(w, node, operands)
    return ExpressionText(f"{w.helper('_product')}({operands[0].code}, {operands[1].code})")


def _divided(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
    rule = _division_of_floats if w.type(node.output).floating else _INTEGER_DIVISION
    return rule(w, node, operands)


def _division(mode: str) -> Rule:
    def rule(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
        return ExpressionText(f'torch.div({operands[0].code}, {operands[1].code}, rounding_mode="{mode}")')

    return rule


def _single(w: PythonWriter, node: Node, a: ExpressionText, b: ExpressionText) -> ExpressionText:
    """Divisors are tensors, as GPUs multiply by the reciprocals of numbers; floats turn to bytes by way of
    16 bits, which is vectorised."""
    dtype = w.target.dtype(w.type(node.output).dtype)
    divisor = w.target.typed(b, "f32").code if b.literal else f"{b.atom}.to(torch.float32)"
    way = ".to(torch.int16)" if dtype in ("torch.int8", "torch.uint8") else ""
    if a.code == "1":
        return ExpressionText(f"{divisor}.reciprocal_(){way}.to({dtype})")
    if a.literal:
        return ExpressionText(f"({a.within(PRODUCT)} / {divisor}){way}.to({dtype})")
    floats = f"{a.atom}.to(torch.float32)"
    whole = w.shape(node.inputs[0]) == w.shape(node.output)  # the quotients have the place of the dividends
    quotient = f"{floats}.div_({divisor})" if whole else f"({floats} / {divisor})"
    return ExpressionText(f"{quotient}{way}.to({dtype})")


def _comparison(operator: str) -> Rule:
    """With a number in the place of a tensor, the loops would not be vectorised."""
    plain = infix(operator, COMPARISON)

    def rule(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
        which = [o.literal for o in operands]
        if which not in ([True, False], [False, True]):
            return plain(w, node, operands)
        number, tensor = which.index(True), node.inputs[which.index(False)]
        if not w.shape(tensor) or w.type(tensor).dtype not in ("u8", "i8", "i16", "i32", "f32", "f64"):
            return plain(w, node, operands)
        if operator == "==" and operands[number].code == "0":
            return ExpressionText(f"torch.logical_not({operands[1 - number].code})")
        operands = list(operands)
        operands[1 - number] = w.assigned(tensor)
        operands[number] = ExpressionText(
            f"torch.full_like({operands[1 - number].code}, {operands[number].code})"
        )
        return plain(w, node, operands)

    return rule


# Ops that compute a tensor and a Python number in the tensor's element type.
_WITH_NUMBERS = frozenset({"add", "sub", "mul", "div"})
# Ops whose results autograd does not keep, so that the next op may overwrite them.
_LET_GO = frozenset({"add", "sub", "mul", "neg", "cast"})


def _own(w: PythonWriter, name: str, node: Node) -> bool:
    """Whether an operand is a temporary of the result's shape and type that nothing else reads."""
    made = w.producer(name)
    if made is None or made.op not in _LET_GO or w.value(name).literal:
        return False
    here = node.inputs.count(name)  # t * t of integers, which have no gradient, may overwrite t
    if w.uses[name] != here or (here > 1 and w.type(name).floating):
        return False
    if made.op == "cast" and w.type(made.inputs[0]).dtype == w.type(name).dtype:
        return False
    return w.shape(name) == w.shape(node.output) != () and w.type(name).dtype == w.type(node.output).dtype


def _in_place(op: str, plain: Rule, commutes: bool = False) -> Rule:
    """a.add_(b), where a is a temporary."""

    def rule(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
        if len(operands) == 2:
            a, b = operands
            if _own(w, node.inputs[0], node):
                return ExpressionText(f"{a.atom}.{op}_({b.code})")
            if commutes and _own(w, node.inputs[1], node):
                return ExpressionText(f"{b.atom}.{op}_({a.code})")
        return plain(w, node, operands)

    return rule


def _add(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
    """a + b * c in one pass."""
    if len(operands) == 2 and w.shape(node.output) and w.type(node.output).dtype != "bool":
        for at in (1, 0):
            product, rest = w.producer(node.inputs[at]), node.inputs[1 - at]
            if product is None or product.op != "mul" or len(product.inputs) != 2:
                continue
            alone = w.uses[node.inputs[at]] == 1 and not operands[at].code.isidentifier()
            full = w.shape(rest) == w.shape(node.output) == w.shape(node.inputs[at])
            b, c = (w.value(name) for name in product.inputs)
            if alone and full and not (operands[1 - at].literal or b.literal or c.literal):
                a = operands[1 - at]
                if _own(w, rest, node):
                    return ExpressionText(f"{a.atom}.addcmul_({b.code}, {c.code})")
                return ExpressionText(f"torch.addcmul({a.code}, {b.code}, {c.code})")
    return _in_place("add", ARITHMETIC["add"], commutes=True)(w, node, operands)


def _division_of_floats(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
    a, b = operands
    if a.code in ("1", "1.0") and _own(w, node.inputs[1], node):
        return ExpressionText(f"{b.atom}.reciprocal_()")
    return _in_place("div", infix("/", PRODUCT))(w, node, operands)


def _function(name: str) -> Rule:
    plain = call(f"torch.{name}")

    def rule(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
        if _own(w, node.inputs[0], node):
            return ExpressionText(f"{operands[0].atom}.{name}_()")
        return plain(w, node, operands)

    return rule


def _where(w: PythonWriter, node: Node, operands: list[ExpressionText]) -> ExpressionText:
    """A choice; its condition is a tensor."""
    return rules.where("torch.where")(w, node, [w.typed(operands[0], "bool"), *operands[1:]])


_INTEGER_DIVISION = rules.divide(
    lambda w, node, a, b: _division("trunc")(w, node, [a, b]), _division("floor"), _single
)


_RUNNING = {
    f"cum_{kind}": rules.running(kind, totals, f"{{helped}}({totals}, {{axis}}, {{nothing}})", "_before")
    for kind, totals in (
        ("sum", "torch.cumsum({code}, {axis}, dtype={dtype})"),
        ("prod", "torch.cumprod({code}, {axis}, dtype={dtype})"),
        ("max", "torch.cummax({code}, {axis}).values"),
        ("min", "torch.cummin({code}, {axis}).values"),
    )
}


@emitter
class Torch(PythonEmitter):
    """See the module."""

    name = "torch"
    fixed = frozenset({"device"})
    title = "PyTorch"
    imports = ("import ctypes", "import torch")
    module = "torch"
    truth = "bool"
    narrow = ("u8", "i8", "i16")
    helper_texts = _HELPERS
    spellings: ClassVar[Mapping[str, str]] = {
        "cast": "{0.atom}.to({1})", "positions": "torch.arange({}, device=device)",
        "any_zero": "torch.count_nonzero({0}) < {0}.numel()",
        # A sum of squares is NaN where one of them is, and only then; it is faster than a pass of isnan.
        "any_nan": "torch.isnan(torch.dot({0}.reshape(-1), {0}.reshape(-1)))",
        "is_nan": "{0} != {0}",
        "transposed": "{0.atom}.permute{1}", "flipped": "torch.flip({0}, ({1},))",
        "copied": "{}.clone()", "nothing": "{}.new_zeros({})",
        "typed": "torch.tensor({0}, dtype={1}, device=device)", "coerced": "{}, device",
    }  # fmt: skip
    table: ClassVar[dict[str, Rule]] = {
        **ARITHMETIC, **{name: _function(name) for name in rules.functions("torch")},
        "add": _add, "sub": _in_place("sub", ARITHMETIC["sub"]),
        "mul": _in_place("mul", ARITHMETIC["mul"], commutes=True),
        "less": _comparison("<"), "less_or_equal": _comparison("<="), "greater": _comparison(">"),
        "greater_or_equal": _comparison(">="), "equal": _comparison("=="), "div": _divided,
        "mod": rules.remainder(rules.typed(rules.mod("torch.remainder", "torch.fmod"))),
        "pow": call("torch.pow"),
        "bit_shift": rules.typed(rules.shift("torch.bitwise_left_shift", "torch.bitwise_right_shift")),
        "min": rules.typed(nested("torch.minimum")), "max": rules.typed(nested("torch.maximum")),
        "where": rules.chosen(rules.by_bits(_where)), "cast": rules.cast,
        "matmul": _matmul,
        "einsum": einsum("torch.einsum"), "expand": _expand,
        "transpose": rules.transpose, "unsqueeze": rules.index_of, "pad": rules.pad(_pad), "slice": rules.cut,
        "gather": rules.gather("{atom}[{before}{at}]"),
        "gather_elements": rules.gather("torch.take_along_dim({code}, {at}, dim={axis})"),
        "squeeze": rules.first_along,
        "size": rules.size, **_RUNNING,
        "reduce_sum": _total,
        "reduce_max": rules.extreme("amax", "_extreme", "dim"),
        "reduce_min": rules.extreme("amin", "_extreme", "dim"),
        "reduce_prod": reduction("prod", "dim"),
    }  # fmt: skip

    def prepared(self, program: Program) -> Program:
        """PyTorch stores unsigned integers, but computes little in them; sizes fit in 63 bits."""
        sizes = {node.output for node in program.nodes if node.op == "size"}
        for name in program.facts:
            node = program.producers.get(name)
            if program.type(name).dtype == "u64" and (node is None or node.inputs[0] not in sizes):
                raise Refusal("PyTorch has no 64-bit unsigned arithmetic; use a 32-bit or a signed type")
        return super().prepared(factors(signed(program, {"u16": "i32", "u32": "i64", "u64": "i64"})))

    def stays(self, writer: PythonWriter, given: Input) -> bool:
        """Where it meets tensors of its type in sums, differences and products, or divides them."""
        readers = [node for node in writer.program.nodes if given.name in node.inputs]
        dtype = writer.type(given.name).dtype
        return dtype != "bool" and bool(readers) and all(
            node.op in _WITH_NUMBERS and len(node.inputs) == 2 and writer.type(node.output).dtype == dtype
            and any(writer.shape(name) for name in node.inputs)
            and (node.op != "div" or (dtype[0] == "f" and node.inputs[0] != given.name))
            for node in readers
        )  # fmt: skip

    def front(self, writer: PythonWriter, array: str, end: str) -> str:
        """Slicing takes as long as adding some thousand numbers."""
        return f"{writer.helper('_front')}({array}, {end})"

    def preamble(self, writer: PythonWriter, lifted: Lifted, signature: list[str]) -> list[str]:
        """Everything is made where the first tensor is."""
        arrays = [
            f"{name}{field.removeprefix(parameter.name)}"
            for name, parameter in zip(signature, lifted.function.parameters)
            for field, type_ in parameter.fields
            if isinstance(type_, Array)
        ]
        return [f"device = {writer.helper('_device')}({', '.join(arrays)})"]

    def moved(self, writer: PythonWriter, name: str) -> str:
        """A view is of what came in: PyTorch refuses to assign from memory that it writes to."""
        return (writer.assigned(name) if writer.is_view(name) else writer.value(name)).code

    def fresh(self, writer: PythonWriter, name: str) -> str:
        """Views are copied."""
        node = writer.producer(name)
        if node is not None and node.op == "expand":
            view = bool(writer.shape(node.inputs[0])) or not writer.value(node.inputs[0]).literal
        else:
            view = bool(writer.shape(name)) and writer.is_view(name)
        return f"{writer.value(name).atom}.clone()" if view else super().fresh(writer, name)
