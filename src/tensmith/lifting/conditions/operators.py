"""What the operators and casts of the loop language mean: nodes of integers and real numbers.

Operators act on mathematical values; only a cast wraps. A value of a signed or floating type is taken to fit
it (overflow is undefined in the source; floats are reals), an unsigned one where a cast, a load or a variable
says so. Division, wrapping and the functions of analysis are free functions with axioms in `verify.theory`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from tensmith.formula.expr import Call, Choose, Expr, Reduce, Size
from tensmith.formula.functions import BITWISE, DIVISIONS, EXTREMES
from tensmith.formula.types import MachineType
from tensmith.lifting.conditions.nodes import Arena, Number, ProofTerm, Sort, monomials, walk
from tensmith.lifting.summary import first

_LARGEST_POWER = 8


def sort_of(type_: MachineType) -> Sort:
    """The SMT sort of a machine type."""
    return {"int": "Int", "float": "Real", "bool": "Bool"}[type_.kind]  # type: ignore[return-value]


def constant(arena: Arena, value: Fraction | int | float | bool, type_: MachineType) -> ProofTerm:
    """A literal; floats at their exact binary value."""
    if type_.kind == "bool":
        return arena.boolean(bool(value))
    if isinstance(value, float) and math.isinf(value):
        return infinity(arena, value > 0)
    return arena.number(Fraction(value), sort_of(type_))


def infinity(arena: Arena, positive: bool) -> ProofTerm:
    """Above or below all numbers: a real of which nothing else is known."""
    return arena.scale(arena.symbol("infinity", "Real"), 1 if positive else -1)


def apply(arena: Arena, operator: str, nodes: Sequence[ProofTerm], type_: MachineType) -> ProofTerm:
    """An operator of the loop language on values."""
    if operator in _PLAIN:
        return _PLAIN[operator](arena, *nodes)
    match operator, nodes:
        case _, (a, b) if operator in DIVISIONS:
            return _division(arena, operator, a, b)
        case _ if operator in BITWISE or operator in ("left_shift", "right_shift"):
            return _bits(arena, operator, nodes)
        case "pow", (a, b):
            exponent = b.constant
            if exponent is not None and exponent.denominator == 1 and 0 <= exponent <= _LARGEST_POWER:
                return arena.power(a, int(exponent))
    return arena.app(f"f.{operator}", sort_of(type_), nodes)


_PLAIN: Mapping[str, Callable[..., ProofTerm]] = {
    "inf": lambda arena: infinity(arena, True),
    "add": Arena.add,
    "sub": Arena.sub,
    "mul": Arena.mul,
    "neg": lambda arena, a: arena.scale(a, -1),
    "abs": lambda arena, a: arena.ite(arena.ge(a, arena.number(0, a.sort)), a, arena.scale(a, -1)),
    "minimum": lambda arena, a, b: arena.ite(arena.ge(b, a), a, b),
    "maximum": lambda arena, a, b: arena.ite(arena.ge(a, b), a, b),
    "less": lambda arena, a, b: arena.gt(b, a),
    "less_equal": lambda arena, a, b: arena.ge(b, a),
    "equal": Arena.eq,
    "not_equal": lambda arena, a, b: arena.negate(arena.eq(a, b)),
    "and": lambda arena, *parts: arena.all(parts),
    "or": lambda arena, *parts: arena.any(parts),
    "not": Arena.negate,
    "where": Arena.ite,
}


def _division(arena: Arena, operator: str, a: ProofTerm, b: ProofTerm) -> ProofTerm:
    down = operator in ("floor_div", "mod")
    if a.sort == "Real":
        quotient = arena.mul(a, inverse(arena, b))
        if operator == "div":
            return quotient
        whole = (
            arena.app("f.floor", "Real", (quotient,))
            if down
            else arena.real(arena.app("trunc", "Int", (quotient,)))
        )
    else:
        whole = quotient_of(arena, "fdiv" if down else "tdiv", a, b)
    return whole if operator in ("div", "floor_div") else arena.sub(a, arena.mul(b, whole))


def quotient_of(arena: Arena, function: str, a: ProofTerm, b: ProofTerm) -> ProofTerm:
    """tdiv or fdiv of integers, computed where both are constant."""
    top, bottom = a.constant, b.constant
    if bottom == 1:
        return a
    if top is not None and bottom:
        floor = top // bottom
        exact = (
            floor if function == "fdiv" or floor * bottom == top or (top < 0) == (bottom < 0) else floor + 1
        )
        return arena.number(exact, "Int")
    exactly = divided(arena, a, b)
    if exactly is not None:
        zero = arena.eq(b, arena.number(0, "Int"))
        return arena.ite(zero, arena.app(function, "Int", (a, b)), exactly)
    if b.op == "ite":  # a divisor that is replaced where it is 0
        condition, c, d = b.args
        return arena.ite(condition, quotient_of(arena, function, a, c), quotient_of(arena, function, a, d))
    found = arena.app(function, "Int", (a, b))
    start = dict(monomials(a)).get((), 0)
    if bottom and bottom > 0 and start // bottom and found.args[0] == "fdiv":
        whole = int(start // bottom)  # (a + b) // b is a // b + 1, as in polynomials
        return arena.shift(arena.app("fdiv", "Int", (arena.shift(a, -whole * int(bottom)), b)), whole)
    return found


def divided(arena: Arena, a: ProofTerm, b: ProofTerm) -> ProofTerm | None:
    """q where a = b * q term by term, of an atom or constant b: a / b where that is not 0."""
    parts: dict[tuple[ProofTerm, ...], Number] = {}
    for atoms, coefficient in monomials(a):
        if bottom := b.constant:
            if coefficient % bottom:
                return None
            parts[atoms] = coefficient // bottom
        elif b in atoms:
            place = atoms.index(b)
            parts[(*atoms[:place], *atoms[place + 1 :])] = coefficient
        else:
            return None
    return arena.poly(parts, "Int") if parts else None


def inverse(arena: Arena, b: ProofTerm) -> ProofTerm:
    """1 / b, taken into products."""
    parts = monomials(b)
    if len(parts) != 1:
        return arena.app("inv", "Real", (b,))
    ((atoms, coefficient),) = parts
    result = arena.number(Fraction(1) / coefficient, "Real")
    for atom in atoms:
        undone = atom.args[1] if atom.op == "app" and atom.args[0] == "inv" else None
        result = arena.mul(result, undone or arena.app("inv", "Real", (atom,)))
    return result


def _bits(arena: Arena, operator: str, nodes: Sequence[ProofTerm]) -> ProofTerm:
    """Shifts by constants, masks 2^k - 1 and -2^k and complements are arithmetic in two's complement."""
    if operator == "bitwise_not":
        return arena.shift(arena.scale(nodes[0], -1), -1)
    a, b = nodes
    if operator not in ("left_shift", "right_shift") and (x := _bit(arena, a)) and (y := _bit(arena, b)):
        holds = {
            "bitwise_and": arena.all((x, y)),
            "bitwise_or": arena.any((x, y)),
            "bitwise_xor": arena.negate(arena.eq(x, y)),
        }
        return arena.ite(holds[operator], arena.number(1, "Int"), arena.number(0, "Int"))
    if operator in ("bitwise_or", "bitwise_xor"):
        return arena.app(f"f.{operator}", "Int", (a, b))
    amount = b.constant
    if operator == "bitwise_and" and amount is None:
        a, b, amount = b, a, a.constant
    if amount is not None and amount >= 0:
        power = arena.number(2 ** int(amount) if operator != "bitwise_and" else int(amount) + 1, "Int")
        if operator == "left_shift":
            return arena.mul(a, power)
        if operator == "right_shift":
            return quotient_of(arena, "fdiv", a, power)
        if int(amount) & (int(amount) + 1) == 0:
            return arena.sub(a, arena.mul(power, quotient_of(arena, "fdiv", a, power)))
    least = 0 if amount is None else -int(amount)
    if operator == "bitwise_and" and least > 0 and least & (least - 1) == 0:
        power = arena.number(least, "Int")
        return arena.mul(power, quotient_of(arena, "fdiv", a, power))
    return arena.app(f"f.{operator}", "Int", tuple(nodes))


def _bit(arena: Arena, node: ProofTerm) -> ProofTerm | None:
    """Whether a number is 1, where it is 0 or 1 by its form."""
    values = {part.constant for part in (node.args[1:] if node.op == "ite" else (node,))}
    if not values <= {0, 1}:
        return None
    condition, a, b = node.args if node.op == "ite" else (arena.true, node, node)
    return arena.ite(condition, arena.boolean(a.constant == 1), arena.boolean(b.constant == 1))


def cast(arena: Arena, node: ProofTerm, source: MachineType, target: MachineType, fits: bool) -> ProofTerm:
    """A conversion. fits: the value is known to lie in its type `source`."""
    if target.kind == "bool":
        return node if node.sort == "Bool" else arena.negate(arena.eq(node, arena.number(0, node.sort)))
    if node.sort == "Bool":
        sort = sort_of(target)
        return arena.ite(node, arena.number(1, sort), arena.number(0, sort))
    if target.kind == "float":
        return arena.real(node)
    if node.sort == "Real":
        # Out of the type's range it is undefined in the source.
        value = node.constant
        return arena.number(int(value), "Int") if value is not None else arena.app("trunc", "Int", (node,))
    inner, outer = source.limits, target.limits
    if outer is None or (source.bits is None and target.signed and outer[1] >= 2**31 - 1 and position(node)):
        return node  # what fits no NumPy type raises in Python: `assumptions.NARROWED`
    if fits and inner is not None and outer[0] <= inner[0] and inner[1] <= outer[1]:
        return node
    rooms = arena.shift(node, -outer[0]), arena.shift(arena.scale(node, -1), outer[1])
    if all(map(arena.never_negative, rooms)):
        return node
    return wrap(arena, node, target)


def wrap(arena: Arena, node: ProofTerm, target: MachineType) -> ProofTerm:
    """The value modulo 2^bits, in the range of `target`; wraps to at least as many bits inside are undone."""
    assert target.bits is not None
    value = node.constant
    if value is not None:
        return arena.number(target.wrapped(int(value)), "Int")
    bare = unwrapped(arena, node, target.bits)
    if bare is not node and (node.op != "app" or node.args[0] != f"wrap.{target}"):
        return wrap(arena, bare, target)
    return node if bare is not node else arena.app(f"wrap.{target}", "Int", (node,))


def unwrapped(arena: Arena, node: ProofTerm, bits: int) -> ProofTerm:
    """The integer without wraps to at least so many bits: the same modulo 2^bits."""
    inside = {
        atom: atom.args[1]
        for atoms, _ in monomials(node)
        for atom in atoms
        if atom.op == "app" and atom.args[0].startswith("wrap.") and int(atom.args[0][6:]) >= bits
    }
    if not inside:
        return node
    total = arena.number(0, "Int")
    for atoms, coefficient in monomials(node):
        product = arena.number(coefficient, "Int")
        for atom in atoms:
            product = arena.mul(product, inside.get(atom, atom))
        total = arena.add(total, product)
    return total


def fits(value: Expr) -> bool:
    """Whether a value is known to lie in its own type: all but unsigned sums, products and positions."""
    if value.type.kind != "int" or value.type.signed:
        return True
    match value:
        case Size():
            return False
        case Reduce(kind, _, _, body):
            return kind in ("sum", "prod") or (fits(body) and fits(first(value)))
        case Choose(_, then, otherwise, _):
            return fits(then) and fits(otherwise)
        case Call(operator, arguments):
            return operator == "cast" or (
                operator in _CLOSED and all(fits(argument) for argument in arguments)
            )
    return True


# Operators whose results on unsigned operands lie in the operands' type.
_CLOSED = EXTREMES | DIVISIONS | BITWISE - {"bitwise_not"} | {"right_shift", "where"}


def position(node: ProofTerm) -> bool:
    """Whether a value is made of sizes, counters and scalar parameters alone."""
    return all(part.op in ("poly", "symbol") for part in walk((node,)))
