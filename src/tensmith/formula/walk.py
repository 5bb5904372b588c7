"""Walking over expressions: what is inside, which tensors are read, which variables matter."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tensmith.formula.expr import Add, Call, Expr, Formula, Guard, Mul, Pow, Read, Reduce, Size

_NONE: frozenset[str] = frozenset()


def parts(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly inside."""
    match expr:
        case Add(args) | Mul(args) | Call(_, args):
            return args
        case Pow(inner, _) | Guard(_, inner) | Reduce(_, _, _, inner):
            return (inner,)
    return ()


def rebuilt(expr: Expr, function: Callable[[Expr], Expr]) -> Expr:
    """The expression with `function` applied to those directly inside."""
    match expr:
        case Add(args):
            return Add(tuple(map(function, args)))
        case Mul(args):
            return Mul(tuple(map(function, args)))
        case Call(name, args):
            return Call(name, tuple(map(function, args)))
        case Pow(base, exponent):
            return Pow(function(base), exponent)
        case Guard(conditions, body):
            return Guard(conditions, function(body))
        case Reduce(kind, var, extent, body):
            return Reduce(kind, var, extent, function(body))
    return expr


def reads(expr: Expr) -> Iterator[Read]:
    """Every read inside, from the left."""
    if isinstance(expr, Read):
        yield expr
    for part in parts(expr):
        yield from reads(part)


def ranks(expr: Expr) -> dict[str, int]:
    """The tensors that are read, each with its number of dimensions."""
    return {read.tensor: len(read.indices) for read in reads(expr)}


def functions(expr: Expr) -> frozenset[str]:
    """The names of the opaque functions inside."""
    own = frozenset({expr.function}) if isinstance(expr, Call) else _NONE
    return own.union(*map(functions, parts(expr)))


def size_names(formula: Formula) -> frozenset[str]:
    """The symbolic sizes that a tensor depends on."""
    inside = free_variables(formula.body) - set(formula.indices)
    return inside.union(*(dim.symbols() for dim in formula.shape))


def free_variables(expr: Expr) -> frozenset[str]:
    """The index variables and sizes that the value depends on; not those that reductions bind."""
    found = _NONE.union(*map(free_variables, parts(expr)))
    match expr:
        case Read(_, polys) | Guard(polys, _):
            return found.union(*(poly.symbols() for poly in polys))
        case Size(poly):
            return poly.symbols()
        case Reduce(_, var, extent, _):
            return (found - {var}) | extent.symbols()
    return found
