"""Scalar expressions as C: subexpressions used twice become constants, choices become if statements.

Only what is chosen is evaluated: the branches of a choice by position may read outside the array, and in a
branch of a selection a division may have a divisor of zero, or data name an element that is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tensmith.ctext.dialect import C, Dialect
from tensmith.ctext.helpers import FLOOR, helper_name, helper_text
from tensmith.ctext.names import Divide, Names, enclosed, floor_text, is_atom, literal, poly_text
from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import Call, Choose, Expr, Let, Num, Read, Reduce, Size
from tensmith.formula.functions import DIVISIONS, REAL, ROUNDINGS
from tensmith.formula.poly import Poly
from tensmith.formula.walk import parts, walk

_INFIX = {
    "and": "&&", "or": "||", "xor": "!=", "equal": "==", "less": "<", "less_equal": "<=", "greater": ">",
    "greater_equal": ">=",
}  # fmt: skip
_BITS = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
# Operators in C: of operands, with the type of the result where it is wider.
_FORMS = {
    **{op: f"{{0}} {sign} {{1}}" for op, sign in _INFIX.items()},
    **{op: f"({{type}})({{0}} {sign} {{1}})" for op, sign in _BITS.items()},
    "where": "{0} ? {1} : {2}", "not": "!{0}", "isnan": "{0} != {0}", "bitwise_not": "({type})~{0}",
}  # fmt: skip
_PLAIN = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
# Functions of floats in <math.h>, which has other names for two of them.
_LIBRARY = REAL | ROUNDINGS | {"pow", "abs", "fmod"}
_LIBRARY_NAMES = {"round": "rint", "abs": "fabs"}
_WIDEST = 72


@dataclass
class CUnit:
    """What one C file needs: identifiers, the helpers used, the C names of symbols, buffers and parameters.

    Buffers in `single` are one variable each, the others pointers. If `checked`, what it is given was looked
    at before: there is no NaN among extremes, `zero` is set where an integer is divided by zero, `outside`
    where a position is not inside.
    `extents` and `least` are what is known of symbols, see `Ranges`; `prefix` begins the names of helpers.
    """

    names: Names
    symbols: Callable[[str], str]
    buffers: dict[str, str]
    scalars: Mapping[str, str]
    single: frozenset[str] = frozenset()
    helpers: dict[str, str] = field(default_factory=dict)
    divides: bool = False
    looks_up: bool = False
    uses_math: bool = False
    dialect: Dialect = C
    checked: bool = True
    extents: dict[str, Poly] = field(default_factory=dict)
    least: Mapping[str, int] = field(default_factory=dict)
    prefix: str = ""

    def element(self, buffer: str, index: str) -> str:
        """An element of a buffer."""
        name = self.buffers[buffer]
        return name if buffer in self.single else f"{name}[{index}]"

    def helper(self, op: str, dtype: str) -> str:
        """The name of a helper, which is then defined in the file."""
        name = f"{self.prefix}{helper_name(op, dtype)}"
        if name not in self.helpers:
            self.helpers[name] = helper_text(op, dtype, self.dialect, self.prefix, self.checked)
        return name

    def divide(self, ranges: Ranges) -> Divide:
        """How positions in these ranges are divided."""
        return floor_text(ranges, lambda: self.helper(FLOOR, ""))

    def type(self, dtype: str) -> str:
        """The type of numbers of an element type."""
        return self.dialect.types[dtype]


class CBlock:
    """A block of C: its lines, the C names of loop variables, and what has been computed in it so far."""

    def __init__(self, unit: CUnit, outer: CBlock | None = None, depth: int = 1) -> None:
        self.unit, self.outer, self.depth = unit, outer, depth
        self.lines: list[str] = []
        self.variables: dict[str, str] = {}
        self._known: dict[int, tuple[Expr, str]] = {}
        self.used: dict[int, int] = {}

    # Lookup

    def inner(self) -> CBlock:
        """A scope one level further in."""
        return CBlock(self.unit, self, self.depth + 1)

    def symbol(self, name: str) -> str:
        """The C expression of a loop variable, size or integer parameter."""
        scope: CBlock | None = self
        while scope is not None:
            if name in scope.variables:
                return scope.variables[name]
            scope = scope.outer
        return self.unit.symbols(name)

    def find(self, expr: Expr) -> str | None:
        """What holds an expression already."""
        scope: CBlock | None = self
        while scope is not None:
            if id(expr) in scope._known:
                return scope._known[id(expr)][1]
            scope = scope.outer
        return None

    @property
    def index(self) -> str:
        """The type of positions."""
        return self.unit.dialect.index

    def poly(self, poly: Poly) -> str:
        """A polynomial as C."""
        return poly_text(poly, self.symbol, self.unit.divide(Ranges(self.unit.extents, self.unit.least)))

    # Writing

    def line(self, text: str) -> None:
        """Adds a statement."""
        self.lines.append("    " * self.depth + text)

    def block(self, head: str, inner: CBlock) -> None:
        """Adds an inner scope under a head such as a for or an if."""
        self.line(f"{head} {{")
        self.lines += inner.lines
        self.line("}")

    @contextmanager
    def under(self, head: str) -> Iterator[CBlock]:
        """An inner scope, added under its head when it ends."""
        inner = self.inner()
        yield inner
        self.block(head, inner)

    def keep(self, expr: Expr, text: str, base: str = "t") -> str:
        """Names a value, unless it has a name already."""
        if not is_atom(text) or "(" in text:
            name = self.unit.names.fresh(base)
            self.line(f"const {self.unit.type(expr.type)} {name} = {text};")
            text = name
        self.hold(expr, text)
        return text

    def hold(self, expr: Expr, text: str) -> None:
        """Says what holds an expression, which lives as long as the scope: no other may get its id."""
        self._known[id(expr)] = expr, text

    # Values

    def value(self, root: Expr) -> str:
        """The C expression of a value; statements that it needs are added before."""
        self.used = uses(root)
        return self._value(root)

    def _value(self, expr: Expr) -> str:
        found = self.find(expr)
        if found is not None:
            return found
        text = self._text(expr)
        shared = self.used.get(id(expr), 0) > 1 and not _plain(expr)
        if shared or len(text) > _WIDEST:
            return self.keep(expr, text)
        return text

    def _text(self, expr: Expr) -> str:
        match expr:
            case Num(value, dtype):
                return literal(value, dtype, self.unit.dialect)
            case Read(name, ()):
                return self.unit.scalars[name]
            case Size(poly, dtype):
                text = self.poly(poly)
                plain = self.unit.type(dtype) == self.unit.dialect.index
                return text if plain else f"({self.unit.type(dtype)}){enclosed(text)}"
            case Let(symbol, position, body):
                self.variables[symbol] = self.keep(position, self._value(position), "at")
                return self._value(body)
            case Read(buffer, (index,), when=when):
                element = self.unit.element(buffer, self.poly(index))
                return element if when is None else f"{enclosed(self._value(when))} ? {element} : 0"
            case Choose(conditions, then, otherwise):
                test = " && ".join(f"{enclosed(self.poly(condition))} >= 0" for condition in conditions)
                return self._either(test, then, otherwise, expr.type)
            case Reduce():
                return self.fold(expr)
            case Call("where", (condition, then, otherwise)) if lazy(then) or lazy(otherwise):
                return self._either(self._value(condition), then, otherwise, expr.type)
            case Call():
                return self._call(expr)
        raise TypeError(f"not a typed expression of flat memory: {expr!r}")

    def fold(self, fold: Reduce) -> str:
        """A sum or extreme: the loops are those of `loops`."""
        from tensmith.ctext.loops import fold_loop

        return fold_loop(self, fold)

    def _either(self, test: str, then: Expr, otherwise: Expr, dtype: str) -> str:
        """One of two values, the other not evaluated."""
        sides = []
        for side in (then, otherwise):
            scope = self.inner()
            scope.used = self.used
            sides.append((scope, scope._value(side)))
        if not any(scope.lines for scope, _ in sides):
            return f"{enclosed(test)} ? {enclosed(sides[0][1])} : {enclosed(sides[1][1])}"
        name = self.unit.names.fresh("t")
        self.line(f"{self.unit.type(dtype)} {name};")
        for (scope, text), head in zip(sides, (f"if ({test})", "else")):
            scope.line(f"{name} = {text};")
            self.block(head, scope)
        return name

    def _call(self, expr: Call) -> str:
        op, dtype = expr.function, expr.type
        source = expr.args[-1].type
        args = [self._value(arg) for arg in expr.args]
        atoms = [enclosed(arg) for arg in args]
        unit, floating, ctype = self.unit, source[0] == "f", self.unit.type(dtype)
        if op == "cast":
            return f"{atoms[0]} != 0" if dtype == "bool" else f"({ctype}){atoms[0]}"
        if op in _FORMS:
            return _FORMS[op].format(*atoms, type=ctype)
        if op in ("left_shift", "right_shift"):
            return self._shift(op, dtype, atoms)
        if floating and op == "neg":
            return f"-{atoms[0]}"
        if floating and op in _PLAIN:
            return f"{atoms[0]} {_PLAIN[op]} {atoms[1]}"
        name = library_name(op, source, unit.dialect)
        if name:
            unit.uses_math = True
            return f"{name}({', '.join(args)})"
        if dtype in ("u32", "u64") and op in ("add", "sub", "mul"):
            return f"{atoms[0]} {_PLAIN[op]} {atoms[1]}"
        unit.uses_math = unit.uses_math or floating
        if op in ("div", "fmod") and _safe(expr.args[1]):
            return f"({ctype})({atoms[0]} {'/' if op == 'div' else '%'} {atoms[1]})"
        if op in DIVISIONS and not floating:
            unit.divides = True
            args += ["&zero"] if unit.checked else []
        if op == "inside":
            unit.looks_up = True
            args.append("&outside")
        return f"{unit.helper(op, source)}({', '.join(args)})"

    def _shift(self, op: str, dtype: str, atoms: list[str]) -> str:
        ctype = self.unit.type(dtype)
        if op == "right_shift":
            return f"({ctype})({atoms[0]} >> {atoms[1]})"
        wide = self.unit.dialect.unsigned.format(max(32, int(dtype[1:])))
        return f"({ctype})(({wide}){atoms[0]} << {atoms[1]})"


def library_name(op: str, dtype: str, dialect: Dialect) -> str:
    """What the mathematical library calls a function of floats, "" if it has none."""
    if dtype[0] != "f" or op not in _LIBRARY:
        return ""
    return _LIBRARY_NAMES.get(op, op) + ("f" if dtype == "f32" and dialect.suffixed else "")


def uses(root: Expr) -> dict[int, int]:
    """How often each expression is read by another inside `root`."""
    found: dict[int, int] = {}
    for expr in walk(root):
        for part in parts(expr):
            found[id(part)] = found.get(id(part), 0) + 1
    return found


def lazy(root: Expr) -> bool:
    """Whether an expression may only be evaluated where it is wanted: it would tell of a fault elsewhere."""
    return any(isinstance(expr, Call) and _may_tell(expr) for expr in walk(root))


def _may_tell(expr: Call) -> bool:
    """Whether it sets `zero` or `outside` for some operands."""
    divides = expr.function in DIVISIONS and expr.type[0] in "iu" and not _safe(expr.args[1])
    return divides or expr.function == "inside"


def _plain(expr: Expr) -> bool:
    """Whether it is written again where it is used again."""
    return isinstance(expr, Num | Size) or (isinstance(expr, Read) and not expr.indices)


def _safe(divisor: Expr) -> bool:
    return isinstance(divisor, Num) and divisor.value not in (0, -1)
