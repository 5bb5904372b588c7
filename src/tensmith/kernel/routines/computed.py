"""Any tensor by its index formula: the op is the program.

    y[i, j, ...] = formula        one loop an axis; a reduction is a loop where all that it reads is known

A reduction that does not depend on the innermost axes is computed outside of their loops, and axes that some
reduction does not depend on are made the innermost ones: softmax along any axis reads its input three times.
What stands in a guard is evaluated only where the guard holds, so nothing is read outside a tensor.
Sums of floats are kept in double precision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tensmith.errors import EngineError
from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import Add, Call, Expr, Formula, Guard, Mul, Num, Pow, Read, Reduce, Size
from tensmith.formula.poly import Poly
from tensmith.formula.walk import free_variables, parts, reads
from tensmith.kernel.buffer import C_TYPES, Buffer
from tensmith.kernel.epilogue import literal
from tensmith.kernel.routine import ROUTINE_SIGNATURE, Routine
from tensmith.kernel.routines.strided import Operand
from tensmith.kernel.view import View

_LIBRARY = frozenset({
    "exp", "log", "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "asinh", "acosh", "atanh", "erf", "floor", "ceil", "trunc", "pow", "fmod",
})  # fmt: skip
# C of functions of numbers; {0} and {1} are used more than once, so arguments are named first.
_FORMS: Mapping[str, str] = {
    "maximum": "({0} >= {1} || {0} != {0} ? {0} : {1})",
    "minimum": "({0} <= {1} || {0} != {0} ? {0} : {1})",
    "equal": "({0} == {1})", "less": "({0} < {1})", "less_equal": "({0} <= {1})",
    "where": "({0} ? {1} : {2})",
}  # fmt: skip
_FLOATS: Mapping[str, str] = {
    "abs": "fabsf({0})", "round": "rintf({0})", "isnan": "({0} != {0})",
    "sign": "({0} != {0} ? {0} : ({0} > 0) - ({0} < 0))",
    "mod": "({{ float m_ = fmodf({0}, {1}); m_ != 0 && (m_ < 0) != ({1} < 0) ? m_ + {1} : m_; }})",
    "isinf": "({0} - {0} != 0 && {0} == {0})",
    "isposinf": "({0} == INFINITY)", "isneginf": "({0} == -INFINITY)",
}  # fmt: skip
_WHOLE: Mapping[str, str] = {
    "abs": "({0} < 0 ? -{0} : {0})", "sign": "(({0} > 0) - ({0} < 0))", "round": "{0}", "trunc": "{0}",
    "mod": "(({0} % {1} + {1}) % {1})", "fmod": "({0} % {1})",
    "bitwise_and": "({0} & {1})", "bitwise_or": "({0} | {1})", "bitwise_xor": "({0} ^ {1})",
    "bitwise_not": "(~{0})",
}  # fmt: skip
# How a reduction begins, and what one more value v makes of it.
_REDUCTIONS: Mapping[str, tuple[str, str, str]] = {
    "sum": ("0", "0", "{0} += {1};"),
    "prod": ("1", "1", "{0} *= {1};"),
    "max": ("-INFINITY", "INT64_MIN", "if (!({1} <= {0} || {0} != {0})) {0} = {1};"),
    "min": ("INFINITY", "INT64_MAX", "if (!({1} >= {0} || {0} != {0})) {0} = {1};"),
}


@dataclass(frozen=True)
class Computed(Routine):
    """y by `formula`, whose tensors are the operands by name; `dtype` is y's. EngineError if it has no C."""

    formula: Formula
    operands: tuple[tuple[str, Operand], ...]
    dtype: str

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """One nest of loops."""
        floats = self.dtype == "f32" or any(operand.dtype == "f32" for _, operand in self.operands)
        writer = _Writer(dict(self.operands), floats, f"{name}_floor")
        nest = writer.nest(self.formula, C_TYPES[self.dtype], self.dtype == "bool")
        shape = "x".join(map(str, self.formula.shape)) or "one"
        return f"""\
static inline int {name}_floor(int a, int b) {{ return a / b - (a % b < 0); }}
/* {shape}, each element by its formula. */
static void {name}({ROUTINE_SIGNATURE})
{{
    (void)in; (void)constants; (void)scratch;
{nest}}}
"""


@dataclass
class _Block:
    """Statements in one pair of braces, the variables that it binds, and what it has computed."""

    bound: frozenset[str] = frozenset()
    lines: list[str] = field(default_factory=list)
    known: dict[Expr, str] = field(default_factory=dict)
    # Whether what stands in it must not be computed outside of it.
    guarded: bool = False


class _Writer:
    """Writes one formula. Work is done in floats, or in 64-bit integers where nothing is a float."""

    def __init__(self, operands: Mapping[str, Operand], floats: bool, floor: str) -> None:
        self.operands, self.floats, self.floor = operands, floats, floor
        self.work = "float" if floats else "int64_t"
        self.names: dict[str, str] = {}
        self.extents: dict[str, Poly] = {}
        self.blocks: list[_Block] = [_Block()]
        self.count = 0

    def nest(self, formula: Formula, c_type: str, truth: bool) -> str:
        """C of all loops."""
        order = _order(formula)
        for axis in order:
            self._open(formula.indices[axis], formula.shape[axis], f"i{axis}")
        view = View.dense(tuple(int(size.constant or 0) for size in formula.shape))
        at = self._poly(_address(view, tuple(map(Poly.symbol, formula.indices))))
        value = self._value(formula.body)
        self._line(f"(({c_type} *)out)[{at}] = {f'({value}) != 0' if truth else value};")
        for axis in reversed(order):
            self._close(f"for (int i{axis} = 0; i{axis} < {formula.shape[axis]}; i{axis}++)")
        return "".join(f"    {line}\n" for line in self.blocks[0].lines)

    # Blocks

    def _line(self, text: str) -> None:
        self.blocks[-1].lines.append(text)

    def _open(self, variable: str, extent: Poly, name: str) -> None:
        self.names[variable], self.extents[variable] = name, extent
        self.blocks.append(_Block(frozenset({variable})))

    def _close(self, head: str) -> None:
        inner = self.blocks.pop()
        self.blocks[-1].lines += [f"{head} {{", *(f"    {line}" for line in inner.lines), "}"]

    def _fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    # Expressions

    def _value(self, expr: Expr) -> str:
        match expr:
            case Num(value):
                if not self.floats and value.denominator != 1:
                    raise EngineError(f"{value} is no whole number")
                return literal(float(value)) if self.floats else f"{value}"
            case Size(poly):
                return f"({self.work})({self._poly(poly)})"
            case Read(name, indices):
                operand = self.operands[name]
                at = self._poly(_address(operand.view, indices))
                return f"({self.work})({operand.pointer})[{at}]"
            case Add(args):
                return f"({' + '.join(map(self._value, args))})"
            case Mul(args):
                return f"({' * '.join(map(self._value, args))})"
            case Pow(base, exponent):
                return self._power(self._value(base), float(exponent))
            case Guard(conditions, body):
                return self._guard(self._needed(conditions), body)
            case Reduce():
                return self._reduction(expr)
            case Call(function, args):
                return self._call(function, [self._value(arg) for arg in args])
        raise EngineError(f"no C for {expr!r}")

    def _power(self, base: str, exponent: float) -> str:
        if not self.floats and (exponent < 0 or exponent % 1):
            raise EngineError(f"integers are not raised to the power {exponent}")
        if exponent in (0.5, -0.5):
            return f"sqrtf({base})" if exponent > 0 else f"(1 / sqrtf({base}))"
        if exponent % 1:
            return f"powf({base}, {literal(exponent)})"
        name = self._named(base)
        product = " * ".join([name] * int(abs(exponent))) or "1"
        return f"({product})" if exponent >= 0 else f"(1 / ({product}))"

    def _named(self, value: str) -> str:
        """A variable that holds a value."""
        name = self._fresh("t")
        self._line(f"{self.work} {name} = {value};")
        return name

    def _call(self, function: str, args: list[str]) -> str:
        if self.floats and function in _LIBRARY:
            return f"{function}f({', '.join(args)})"
        form = _FORMS.get(function) or (_FLOATS if self.floats else _WHOLE).get(function)
        if form is None:
            raise EngineError(f"the function '{function}' has no C for {self.work}")
        return form.format(
            *(self._named(arg) if form.count(f"{{{n}}}") > 1 else arg for n, arg in enumerate(args))
        )

    def _needed(self, conditions: tuple[Poly, ...]) -> list[Poly]:
        ranges = Ranges(self.extents)
        return [condition for condition in conditions if not ranges.never_negative(condition)]

    def _guard(self, conditions: list[Poly], body: Expr) -> str:
        """0, or the body where all conditions hold: nothing of it is computed elsewhere."""
        if not conditions:
            return self._value(body)
        holds = " && ".join(f"{self._poly(condition)} >= 0" for condition in conditions)
        name = self._fresh("g")
        self._line(f"{self.work} {name} = 0;")
        self.blocks.append(_Block(guarded=True))
        self._line(f"{name} = {self._value(body)};")
        self._close(f"if ({holds})")
        return name

    def _reduction(self, expr: Reduce) -> str:
        """The variable of a reduction, computed in the outermost block that knows all it depends on."""
        known = next((block.known[expr] for block in self.blocks if expr in block.known), None)
        if known is not None:
            return known
        free = free_variables(expr)
        at = max((n for n, block in enumerate(self.blocks) if block.bound & free or block.guarded), default=0)
        inner, self.blocks = self.blocks[at + 1 :], self.blocks[: at + 1]
        begin, whole, step = _REDUCTIONS[expr.kind]
        name = self._fresh("r")
        wide = "double" if self.floats and expr.kind in ("sum", "prod") else self.work
        self._line(f"{wide} {name} = {begin if self.floats else whole};")
        variable = self._fresh("k")
        self._open(expr.var, expr.extent, variable)
        value = self._value(expr.body)
        self._line(step.format(name, self._named(value) if step.count("{1}") > 1 else value))
        extent = self._poly(expr.extent)
        self._close(f"for (int {variable} = 0; {variable} < {extent}; {variable}++)")
        self.blocks[-1].known[expr] = f"({self.work}){name}"
        self.blocks += inner
        return f"({self.work}){name}"

    # Positions

    def _poly(self, poly: Poly) -> str:
        """An integer polynomial as C."""
        terms = []
        for monomial, coefficient in Ranges(self.extents).simplify(poly).terms:
            factors = [self._atom(atom) for atom, power in monomial for _ in range(power)]
            terms.append(
                " * ".join([*factors, *([str(coefficient)] if coefficient != 1 or not factors else [])])
            )
        return f"({' + '.join(terms)})" if terms else "0"

    def _atom(self, atom: object) -> str:
        if isinstance(atom, str):
            return self.names[atom]
        top, bottom = self._poly(atom.top), self._poly(atom.bottom)  # type: ignore[attr-defined]
        plain = Ranges(self.extents).never_negative(atom.top)  # type: ignore[attr-defined]
        return f"({top} / {bottom})" if plain else f"{self.floor}({top}, {bottom})"


def _address(view: View, indices: tuple[Poly, ...]) -> Poly:
    at = Poly.of(view.offset)
    for index, stride in zip(indices, view.strides):
        at = at + index * stride
    return at


def _order(formula: Formula) -> list[int]:
    """Axes from the outermost loop in: last those that the most reductions do not depend on."""
    free = [free_variables(part) for part in _reductions(formula.body) if any(reads(part))]
    missing = [sum(name not in names for names in free) for name in formula.indices]
    return sorted(range(formula.rank), key=missing.__getitem__)


def _reductions(expr: Expr) -> Iterator[Reduce]:
    """Every reduction inside."""
    if isinstance(expr, Reduce):
        yield expr
    for part in parts(expr):
        yield from _reductions(part)


def tensors_of(formula: Formula) -> frozenset[str]:
    """The names of the tensors that a formula reads."""
    return frozenset(read.tensor for read in reads(formula.body))
