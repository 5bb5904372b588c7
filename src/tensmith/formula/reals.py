"""What real functions are known to do, as rewriting of formulas: equal wherever both sides are defined.

    exp(a + b) = exp(a) exp(b), exp(q a) = exp(a)**q        exp(log(a)) = a, log(exp(a)) = a
    log(a b) = log(a) + log(b), log(a**q) = q log(a)         sqrt(a) = a**(1/2), (a b)**p = a**p b**p
    (a**2)**(1/2) = |a|                                     tanh(a) = 1 - 2 / (exp(a)**2 + 1)
    max(k; a(k) + b) = max(k; a(k)) + b                     max(k; -a(k)) = -min(k; a(k))
    f(-a) = -f(a) of odd f, f(a) of even f

A prime field knows none of them: a rule that needs one holds over the reals alone. Logarithms and roots of
products are taken apart, which is equal where the parts have them; claims are run on negative numbers too.
"""

from __future__ import annotations

from fractions import Fraction

from tensmith.formula.bounds import OUTPUT, Ranges
from tensmith.formula.expr import Add, Call, Expr, Formula, Guard, Mul, Num, Pow, Reduce
from tensmith.formula.normal import normalize
from tensmith.formula.poly import Poly
from tensmith.formula.walk import free_variables

ODD = frozenset({"erf", "sin", "sinh", "asin", "asinh", "atan", "atanh", "tan", "sign"})
EVEN = frozenset({"abs", "cos", "cosh"})
_ONE, _HALF = Num(Fraction(1)), Fraction(1, 2)


def with_facts(expr: Expr) -> Expr:
    """`expr` in the form that the facts above lead to."""
    match expr:
        case Add(args):
            return _sum([with_facts(arg) for arg in args])
        case Mul(args):
            return _product([with_facts(arg) for arg in args])
        case Pow(base, exponent):
            return _power(with_facts(base), exponent)
        case Guard(conditions, body):
            return Guard(conditions, with_facts(body))
        case Reduce(kind, var, extent, body):
            return _reduction(kind, var, extent, with_facts(body))
        case Call(function, args):
            return _call(function, [with_facts(arg) for arg in args])
    return expr


def same_fraction(left: Formula, right: Formula, ranges: Ranges) -> bool:
    """Whether two formulas are equal as quotients, facts of real functions known: a/b = c/d if ad = cb."""
    if left.rank != right.rank or any(ranges.simplify(a - b) != 0 for a, b in zip(left.shape, right.shape)):
        return False
    names = [f"{OUTPUT}{axis}" for axis in range(left.rank)]
    at = tuple(Poly.of(0) if size == 1 else Poly.symbol(name) for name, size in zip(names, left.shape))
    inner = ranges.having(zip(names, left.shape))
    (a, b), (c, d) = (_fraction(with_facts(side[at])) for side in (left, right))
    return normalize(Mul((a, d)), inner) == normalize(Mul((c, b)), inner)


def _fraction(expr: Expr) -> tuple[Expr, Expr]:
    match expr:
        case Add(args):
            top, bottom = _fraction(args[0])
            for arg in args[1:]:
                a, b = _fraction(arg)
                top, bottom = Add((Mul((top, b)), Mul((a, bottom)))), Mul((bottom, b))
            return top, bottom
        case Mul(args):
            parts = [_fraction(arg) for arg in args]
            return Mul(tuple(a for a, _ in parts)), Mul(tuple(b for _, b in parts))
        case Pow(base, exponent) if exponent.denominator == 1:
            top, bottom = _fraction(base)
            a, b = (Pow(part, abs(exponent)) for part in (top, bottom))
            return (a, b) if exponent >= 0 else (b, a)
    return expr, _ONE


def _sum(args: list[Expr]) -> Expr:
    flat = [part for arg in args for part in (arg.args if isinstance(arg, Add) else (arg,))]
    kept = [arg for arg in flat if arg != Num(Fraction(0))]
    return kept[0] if len(kept) == 1 else Add(tuple(kept))


def _product(args: list[Expr]) -> Expr:
    """Powers of equal bases become one."""
    flat = [part for arg in args for part in (arg.args if isinstance(arg, Mul) else (arg,))]
    number = Fraction(1)
    powers: dict[str, tuple[Expr, Fraction]] = {}
    for part in flat:
        if isinstance(part, Num):
            number *= part.value
            continue
        base, exponent = (part.base, part.exponent) if isinstance(part, Pow) else (part, Fraction(1))
        key = normalize(base, Ranges()).text
        powers[key] = base, powers.get(key, (base, Fraction(0)))[1] + exponent
    factors = [base if e == 1 else Pow(base, e) for base, e in powers.values() if e]
    if number == 0 or not factors:
        return Num(number)
    factors = factors if number == 1 else [Num(number), *factors]
    return factors[0] if len(factors) == 1 else Mul(tuple(factors))


def _power(base: Expr, exponent: Fraction) -> Expr:
    if isinstance(base, Pow):
        if base.exponent == 2 and exponent == _HALF:
            return _call("abs", [base.base])
        even = base.exponent.denominator == 1 and base.exponent.numerator % 2 == 0
        if exponent.denominator == 1 or not even:  # else it would be a power of |base|
            return _power(base.base, base.exponent * exponent)
    if isinstance(base, Mul):
        return _product([_power(part, exponent) for part in base.args])
    if isinstance(base, Num) and exponent.denominator == 1 and base.value:
        return Num(base.value**exponent.numerator)
    return base if exponent == 1 else Pow(base, exponent)


def _reduction(kind: str, var: str, extent: Poly, body: Expr) -> Expr:
    if kind == "min":
        return _negative(_reduction("max", var, extent, _negative(body)))
    if kind == "sum" and isinstance(body, Mul):
        still = [part for part in body.args if var not in free_variables(part)]
        moving = [part for part in body.args if var in free_variables(part)]
        return _product([*still, Reduce(kind, var, extent, _product(moving))])
    if kind != "max":
        return Reduce(kind, var, extent, body)
    if var not in free_variables(body):
        return body
    parts = body.args if isinstance(body, Add | Mul | Call) else ()
    still = [part for part in parts if var not in free_variables(part)]
    moving = [part for part in parts if var in free_variables(part)]
    if isinstance(body, Add) and still:
        return _sum([*still, _reduction(kind, var, extent, _sum(moving))])
    if _is_maximum(body) and still and len(moving) == 1:
        return Call("maximum", (_reduction(kind, var, extent, moving[0]), *still))
    if isinstance(body, Mul) and still and all(isinstance(s, Num) and s.value > 0 for s in still):
        return _product([*still, _reduction(kind, var, extent, _product(moving))])
    return Reduce(kind, var, extent, body)


def _is_maximum(expr: Expr) -> bool:
    return isinstance(expr, Call) and expr.function == "maximum"


def _negative(expr: Expr) -> Expr:
    if isinstance(expr, Add):
        return _sum([_negative(arg) for arg in expr.args])
    return _product([Num(Fraction(-1)), expr])


def _is_negative(expr: Expr) -> bool:
    first = expr.args[0] if isinstance(expr, Mul) else expr
    return isinstance(first, Num) and first.value < 0


def _call(function: str, args: list[Expr]) -> Expr:
    if len(args) == 1:
        (arg,) = args
        if function in ODD and _is_negative(arg):
            return _negative(_call(function, [_negative(arg)]))
        if function in EVEN and _is_negative(arg):
            return _call(function, [_negative(arg)])
        if function == "exp":
            return _exponential(arg)
        if function == "log":
            return _logarithm(arg)
        if function == "sqrt":
            return _power(arg, _HALF)
        if function == "tanh":
            square = Pow(_exponential(arg), Fraction(2))
            return Add((_ONE, Mul((Num(Fraction(-2)), Pow(Add((square, _ONE)), Fraction(-1))))))
    return Call(function, tuple(args))


def _exponential(arg: Expr) -> Expr:
    match arg:
        case Num(value) if value == 0:
            return _ONE
        case Add(args):
            return _product([_exponential(part) for part in args])
        case Mul((Num(value), *rest)):
            return _power(_exponential(_product(list(rest))), value)
        case Call("log", (inner,)):
            return inner
    return Call("exp", (arg,))


def _logarithm(arg: Expr) -> Expr:
    match arg:
        case Num(value) if value == 1:
            return Num(Fraction(0))
        case Mul(args):
            return _sum([_logarithm(part) for part in args])
        case Pow(base, exponent):
            return _product([Num(exponent), _logarithm(base)])
        case Call("exp", (inner,)):
            return inner
    return Call("log", (arg,))
