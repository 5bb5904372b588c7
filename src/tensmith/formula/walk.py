"""Walking over expressions: what is inside, which tensors are read, which variables matter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tensmith.formula.expr import Call, Choose, Expr, Formula, Let, Pow, Read, Reduce, Size
from tensmith.formula.poly import Poly

_NONE: frozenset[str] = frozenset()


def parts(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly inside."""
    match expr:
        case Call(_, args):
            return args
        case Reduce(_, _, _, inner, start=start) if start is not None:
            return inner, start
        case Pow(inner, _) | Reduce(_, _, _, inner):
            return (inner,)
        case Choose(_, then, otherwise):
            return then, otherwise
        case Let(_, position, body):
            return position, body
        case Read(when=when) if when is not None:
            return (when,)
    return ()


def polys(expr: Expr) -> tuple[Poly, ...]:
    """The polynomials directly inside."""
    match expr:
        case Size(poly) | Reduce(_, _, poly):
            return (poly,)
        case Read(_, found) | Choose(found):
            return found
    return ()


def walk(root: Expr, closed: Callable[[Expr], bool] = lambda expr: False) -> Iterator[Expr]:
    """The expression and all inside it, each object once; what is inside a closed one is not met."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        expr = stack.pop()
        if id(expr) not in seen:
            seen.add(id(expr))
            yield expr
            if not closed(expr):
                stack.extend(reversed(parts(expr)))


def loads(root: Expr) -> Iterator[Read]:
    """The reads with subscripts inside, each object once."""
    return (expr for expr in walk(root) if isinstance(expr, Read) and expr.indices)


def chain(reduction: Reduce) -> tuple[tuple[Reduce, ...], Expr]:
    """Directly nested reductions of one kind, outermost first, and the body of the last."""
    found = [reduction]
    while isinstance(found[-1].body, Reduce) and found[-1].body.kind == reduction.kind:
        found.append(found[-1].body)
    return tuple(found), found[-1].body


def outer_reductions(root: Expr) -> list[Reduce]:
    """Reductions that stand in no other, each object once."""
    return [expr for expr in walk(root, is_reduction) if isinstance(expr, Reduce)]


def is_reduction(expr: Expr) -> bool:
    """Whether it is one."""
    return isinstance(expr, Reduce)


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
    """The names of the functions inside."""
    own = frozenset({expr.function}) if isinstance(expr, Call) else _NONE
    return own.union(*map(functions, parts(expr)))


def size_names(formula: Formula) -> frozenset[str]:
    """The symbolic sizes that a tensor depends on."""
    inside = free_variables(formula.body) - set(formula.indices)
    return inside | _symbols(formula.shape)


def free_variables(expr: Expr) -> frozenset[str]:
    """The index variables and sizes that the value depends on; not those that are bound inside."""
    known: frozenset[str] | None = expr.__dict__.get("_free")
    if known is None:
        known = expr.__dict__["_free"] = _free(expr)
    return known


def _free(expr: Expr) -> frozenset[str]:
    found = _NONE.union(*map(free_variables, parts(expr)))
    match expr:
        case Reduce(_, var, extent, body, start=start):
            outside = _NONE if start is None else free_variables(start)
            return (free_variables(body) - {var}) | extent.symbols() | outside
        case Let(symbol, position, body):
            return free_variables(position) | (free_variables(body) - {symbol})
    return found | _symbols(polys(expr))


def _symbols(polys: Iterable[Poly]) -> frozenset[str]:
    return _NONE.union(*(poly.symbols() for poly in polys))
