"""Calls: Python's own functions, those of math and numpy, and methods of lists and arrays."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import reduce

from tensmith.formula.expr import Num
from tensmith.formula.types import I64, INT
from tensmith.lifting import assumptions
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.python import arithmetic, names
from tensmith.lifting.source.python.comprehensions import (
    all_or_any,
    array_kind,
    element_value,
    extreme,
    shallow_copy,
    shape_of,
    total,
)
from tensmith.lifting.source.python.expressions import raised
from tensmith.lifting.source.python.inline import inline
from tensmith.lifting.source.python.kinds import DTYPES, PY_BOOL, NumberKind, promote, read_dtype
from tensmith.lifting.source.python.module import dotted, place
from tensmith.lifting.source.python.scope import PythonScope, ScalarValue, Value, array, lowers, number

_INFINITE = re.compile(r"\s*[+-]?(inf|infinity)\s*", re.IGNORECASE)
_IN_OUT = {"print", "input", "open", "exec", "eval", "__import__"}


@lowers(ast.Call)
def _call(scope: PythonScope, node: ast.Call) -> Value:
    where = place(node)
    _check_name(scope, node.func)
    if isinstance(node.func, ast.Attribute) and not _of_library(scope, node.func):
        return _method(scope, node, node.func)
    called = scope.callee(node.func)
    if called is not None and called.startswith("def "):
        return inline(scope, node, called[4:])
    what = ast.unparse(node.func)
    if called is None:
        raise Refusal(f"{what} is not known here; define it in the same file, or write its loop", where)
    if called in _CALLS:
        names.check_arguments(scope, node, called)
        return _CALLS[called](scope, node, called)
    if called.startswith("numpy."):
        try:
            kind = read_dtype(scope.module.meant(node.func), where)
        except Refusal:
            kind = None
        if kind is not None and len(node.args) == 1 and not node.keywords:
            return arithmetic.to_kind(number(scope, node.args[0]), kind, where)
    if called in _IN_OUT:
        raise Refusal(f"{what} reads or writes outside the function; leave it to the caller", where)
    raise Refusal(f"{what} is not known here; define it in the same file, or write its loop", where)


def _check_name(scope: PythonScope, function: ast.expr) -> None:
    """A name that is called means what Python, math or numpy means by it, or the one function of the file."""
    root = dotted(function)[-1]
    if not isinstance(root, ast.Name):
        return
    if scope.is_local(root.id) and root is function:
        raise Refusal(f"{root.id} is a variable of the function and is called; rename one", place(root))
    if root.id in scope.module.opaque and not scope.is_local(root.id):
        raise Refusal(
            f"{root.id} is bound more than once in the file, or may be changed there; give it one meaning",
            place(root),
        )
    if root is function and scope.module.starred and scope.module.callee(function) is None:
        raise Refusal(
            f"a star import may give {root.id} another meaning; import the names that are used", place(root)
        )


def _of_library(scope: PythonScope, function: ast.Attribute) -> bool:
    root = dotted(function)[-1]
    if not isinstance(root, ast.Name) or scope.is_local(root.id):
        return False
    return scope.module.library(root.id) is not None


def _arguments(scope: PythonScope, node: ast.Call, least: int, most: int | None = None) -> list[ScalarValue]:
    most = least if most is None else most
    count = str(least) if least == most else f"{least} to {most}"
    if node.keywords or not least <= len(node.args) <= most:
        raise Refusal(
            f"{ast.unparse(node.func)} is lifted with {count} plain arguments; call it so",
            place(node),
        )
    return [number(scope, argument) for argument in node.args]


# Numbers to a number.

Rule = Callable[[PythonScope, ast.Call, str], Value]


def _float_operator(scope: PythonScope, node: ast.Call, called: str) -> Value:
    (argument,) = _arguments(scope, node, 1)
    if called.startswith("math."):
        if called not in names.TOTAL:
            scope.note(assumptions.DEFINED())
        plain = arithmetic.to_float(argument, place(node))
        return arithmetic.apply_float(names.FLOAT_OPERATORS[called], plain, place(node))
    return arithmetic.apply_float(names.FLOAT_OPERATORS[called], argument, place(node), strong=True)


def _rounding(scope: PythonScope, node: ast.Call, called: str) -> Value:
    if called == "round" and len(node.args) == 2:
        raise Refusal(
            "round to decimals gives the float nearest to a decimal number, which no tensor operation does; "
            "round to whole numbers, or round the results",
            place(node),
        )
    (argument,) = _arguments(scope, node, 1)
    return arithmetic.to_integer(argument, names.ROUNDINGS[called], place(node))


def _float(scope: PythonScope, node: ast.Call, called: str) -> Value:
    match node.args:
        case [ast.Constant(value=str(text)) as literal] if _INFINITE.fullmatch(text):
            scope.visit(literal)
            return arithmetic.constant(float(text), place(node))
    return arithmetic.to_float(_arguments(scope, node, 1)[0], place(node))


def _bool(scope: PythonScope, node: ast.Call, called: str) -> Value:
    where = place(node)
    return ScalarValue(arithmetic.truth(_arguments(scope, node, 1)[0], where), PY_BOOL)


def _absolute(scope: PythonScope, node: ast.Call, called: str) -> Value:
    return arithmetic.absolute(_arguments(scope, node, 1)[0], place(node))


def _square(scope: PythonScope, node: ast.Call, called: str) -> Value:
    (argument,) = _arguments(scope, node, 1)
    return arithmetic.binary("mul", argument, argument, place(node))


def _extreme(scope: PythonScope, node: ast.Call, called: str) -> Value:
    where = place(node)
    largest = called in names.LARGEST
    if called in ("min", "max") and len(node.args) == 1:
        if node.keywords:
            raise Refusal(f"{called} with named arguments cannot be lifted; write the loop", where)
        return extreme(scope, node, node.args[0], largest)
    numbers = _arguments(scope, node, 2, 16)
    if called in names.NUMBERS_FIRST:
        return reduce(lambda left, right: arithmetic.beyond(left, right, largest, where), numbers)
    pick = arithmetic.python_extreme if called in ("min", "max") else arithmetic.numpy_extreme
    operator = "maximum" if largest else "minimum"
    return reduce(lambda left, right: pick(operator, left, right, where), numbers)


def _clip(scope: PythonScope, node: ast.Call, called: str) -> Value:
    where = place(node)
    numbers = _arguments(scope, node, 3)
    kind = reduce(promote, (each.kind for each in numbers))
    if kind.scalar.kind == "int" and not arithmetic.fit(kind, *numbers):  # a bound beyond a type is none
        numbers = [arithmetic.to_integer(each, "trunc", where) for each in numbers]
    value, low, high = numbers
    raised = arithmetic.numpy_extreme("maximum", value, low, where)
    return arithmetic.to_kind(arithmetic.numpy_extreme("minimum", raised, high, where), kind, where)


def _where(scope: PythonScope, node: ast.Call, called: str) -> Value:
    where = place(node)
    condition, then, otherwise = _arguments(scope, node, 3)
    kind = promote(then.kind, otherwise.kind)
    return arithmetic.select(arithmetic.truth(condition, where), then, otherwise, kind, where)


def _power(scope: PythonScope, node: ast.Call, called: str) -> Value:
    where = place(node)
    base, exponent = _arguments(scope, node, 2)
    if called == "math.pow":
        base = arithmetic.to_float(base, where)
        scope.note(assumptions.DEFINED())
    if called == "numpy.power":
        return arithmetic.power(base, exponent, where, numpy=True)
    return raised(scope, base, exponent, where)


def _hypot(scope: PythonScope, node: ast.Call, called: str) -> Value:
    where = place(node)
    scope.note(assumptions.HYPOTENUSE())
    first, second = (arithmetic.binary("mul", side, side, where) for side in _arguments(scope, node, 2))
    return arithmetic.apply_float("sqrt", arithmetic.binary("add", first, second, where), where)


def _logarithm(scope: PythonScope, node: ast.Call, called: str) -> Value:
    """log2(x), log10(x) as log(x) / log(base)."""
    where = place(node)
    (argument,) = _arguments(scope, node, 1)
    if called.startswith("math."):
        scope.note(assumptions.DEFINED())
        argument = arithmetic.to_float(argument, where)
    top = arithmetic.apply_float("log", argument, where, strong=not called.startswith("math."))
    bottom = arithmetic.apply_float(
        "log", arithmetic.constant(float(called.rpartition("log")[2]), where), where
    )
    return arithmetic.divide(top, bottom, where)


def _length(scope: PythonScope, node: ast.Call, called: str) -> Value:
    if len(node.args) != 1 or node.keywords:
        raise Refusal("len takes one list; write len(a)", place(node))
    return scope.length(array(scope, node.args[0]), 0, place(node))


def _total(scope: PythonScope, node: ast.Call, called: str) -> Value:
    words = {word.arg: word.value for word in node.keywords}
    first = node.args[1] if len(node.args) > 1 else words.pop("start", None)
    if not node.args or words or (first is not None and called != "sum"):
        raise Refusal(
            f"{called} is lifted over one list, without other arguments; write the loop", place(node)
        )
    _no_generator(node, called)
    found = total(scope, node, node.args[0], number(scope, first) if first is not None else None)
    if called != "math.fsum":
        return found
    scope.note(assumptions.DEFINED())
    return arithmetic.to_float(found, place(node))


def _no_generator(node: ast.Call, called: str) -> None:
    """numpy takes a generator for one object, which is true."""
    if called.startswith("numpy.") and isinstance(node.args[0], ast.GeneratorExp):
        raise Refusal(
            f"{ast.unparse(node.func)} does not run over a generator; use sum, all or any of Python",
            place(node),
        )


def _truth(scope: PythonScope, node: ast.Call, called: str) -> Value:
    if len(node.args) != 1 or node.keywords:
        raise Refusal(f"{called} is lifted over one list alone; write the loop", place(node))
    _no_generator(node, called)
    found = all_or_any(scope, node, node.args[0], called.endswith("all"))
    return ScalarValue(found.expr, DTYPES["bool"]) if called.startswith("numpy.") else found


# Arrays.


def _filled(scope: PythonScope, node: ast.Call, called: str) -> Value:
    """zeros, ones, empty, full and their _like forms; the inferred kind holds the dtype."""
    where = place(node)
    kind = array_kind(scope, node)
    name = scope.take_hint("array")
    words = {word.arg: word.value for word in node.keywords}
    types = [words.pop("dtype", None), *node.args[2 if called == "numpy.full" else 1 :]][:3]
    given_types = [part for part in types if part is not None]
    for part in given_types:
        scope.module.check_type(part)
    scope.visit_all(*given_types[:1])
    shape = node.args[0] if node.args else words.pop("shape", None)
    most = 3 if called == "numpy.full" else 1 if called in names.FILLS_LIKE else 2
    least = 2 if called == "numpy.full" else 0
    if shape is None or words or len(given_types) > 1 or not least <= len(node.args) <= most:
        raise Refusal(
            f"{ast.unparse(node.func)} is lifted with a shape and a dtype; leave the rest out", where
        )
    if called in names.FILLS_LIKE:
        whole = array(scope, shape)
        extents = [scope.length(whole, axis, where).expr for axis in range(whole.kind.rank)]
    else:
        extents = shape_of(scope, shape)
    given: ScalarValue | None = None
    if called == "numpy.full":
        given = number(scope, node.args[1])
        held = NumberKind(I64 if given.expr.type == INT else given.expr.type, False)
        if not given_types and not (isinstance(given.expr, Num) and kind.element == held):
            raise Refusal("the type of a filled array follows its value; give it a dtype", where)
    elif (content := names.FILLS.get(called, names.FILLS_LIKE.get(called))) is not None:
        given = arithmetic.constant(content, where)
    fill = element_value(given, kind, node) if given is not None else None
    return scope.allocate(name, kind, extents, fill, where)


def _copied(scope: PythonScope, node: ast.Call, called: str) -> Value:
    where, kind = place(node), array_kind(scope, node)
    name = scope.take_hint("copy")
    if len(node.args) != 1 or node.keywords:
        raise Refusal(f"{ast.unparse(node.func)} is lifted with one array; leave the rest out", place(node))
    source = array(scope, node.args[0])
    if called.startswith("numpy.") and not kind.numpy:
        raise Refusal(
            "a list becomes a NumPy array; make the array by np.empty and store its elements", where
        )
    if called == "numpy.asarray" and source.kind.numpy:
        return source
    return shallow_copy(
        scope, source, name, kind, node, called == "list" or (called == "copy.copy" and not source.kind.numpy)
    )


_CALLS: dict[str, Rule] = {
    **dict.fromkeys(names.FLOAT_OPERATORS, _float_operator),
    **dict.fromkeys(names.ROUNDINGS, _rounding),
    **dict.fromkeys(names.ABSOLUTE, _absolute),
    **dict.fromkeys(names.SQUARES, _square),
    **dict.fromkeys((*names.SMALLEST, *names.LARGEST), _extreme),
    **dict.fromkeys(names.POWERS, _power),
    **dict.fromkeys(names.TOTALS, _total),
    **dict.fromkeys(names.TRUTHS, _truth),
    **dict.fromkeys(names.CHOICES, _where),
    **dict.fromkeys(names.LOGARITHMS, _logarithm),
    **dict.fromkeys(names.HYPOTENUSES, _hypot),
    **dict.fromkeys((*names.FILLS, *names.FILLS_LIKE, "numpy.full"), _filled),
    **dict.fromkeys(names.COPIES, _copied),
    "numpy.clip": _clip,
    "float": _float,
    "bool": _bool,
    "len": _length,
}


def _method(scope: PythonScope, node: ast.Call, function: ast.Attribute) -> Value:
    where = place(node)
    scope.visit(function)
    if function.attr == "copy" and not node.args and not node.keywords:
        name = scope.take_hint("copy")
        source = array(scope, function.value)
        return shallow_copy(scope, source, name, array_kind(scope, node), node, not source.kind.numpy)
    if function.attr == "sum" and not node.args and not node.keywords:
        return total(scope, node, function.value, None)
    if function.attr == "append":
        raise Refusal("append gives no value; let it stand alone on its line", where)
    raise Refusal(f"the method .{function.attr}() cannot be lifted; write what it does as a loop", where)
