"""Hash-consed SMT terms whose arithmetic is kept as polynomials over atoms: equal sums are the same node.

Integers are mathematical, floats are real numbers. Nothing is folded that an SMT solver would not agree to
in the theory of integers, reals and free functions, given that the atoms in `Arena.natural` and the
polynomials in `Arena.known` are >= 0; who asks a solver asserts both.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import gcd
from typing import Any, Literal, TypeAlias

Sort: TypeAlias = Literal["Int", "Real", "Bool"]
# Products with more monomials than this stay products.
_WIDEST = 64


class ProofTerm:
    """One term. `op` says what `args` hold:

    symbol (name,) · app (function, *nodes) · poly (((atoms, coefficient), ...),) · product (a, b)
    ite (condition, a, b) · ge0, gt0, eq0 (poly) · same (a, b) of booleans · and, or (*nodes) · not (node)
    true, false (). Made by an `Arena` only; identity is equality.
    """

    __slots__ = ("args", "number", "op", "parts", "sort", "written")

    def __init__(self, op: str, sort: Sort, args: tuple[Any, ...], number: int) -> None:
        self.op, self.sort, self.args, self.number = op, sort, args, number
        # The nodes directly inside, each once, and the text of the node once it was asked for.
        inside = [atom for atoms, _ in args[0] for atom in atoms] if op == "poly" else args
        self.parts = tuple(dict.fromkeys(part for part in inside[::-1] if isinstance(part, ProofTerm)))[::-1]
        self.written: str | None = None

    @property
    def constant(self) -> int | Fraction | None:
        """The value of a constant number."""
        if self.op != "poly" or len(self.args[0]) > 1:
            return None
        if not self.args[0]:
            return 0
        atoms, coefficient = self.args[0][0]
        return None if atoms else coefficient

    def __repr__(self) -> str:
        from tensmith.lifting.conditions.text import text  # for debugging only

        return text(self)


# Coefficients are int wherever they are whole: a Fraction costs ten times as much.
Number: TypeAlias = int | Fraction
Monomials: TypeAlias = dict[tuple[ProofTerm, ...], Number]


def _least(value: Number) -> Number:
    return value if type(value) is int or value.denominator != 1 else value.numerator


class Arena:
    """Makes nodes. `natural` holds atoms and `known` polynomials that are >= 0 wherever they occur."""

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], ProofTerm] = {}
        self.natural: set[ProofTerm] = set()
        self.known: list[ProofTerm] = []
        self._falling: list[
            frozenset[tuple[ProofTerm, ...]]
        ] = []  # of each known, the monomials it subtracts
        self.settled = 0  # how many of the known hold of every call
        self._decided: dict[ProofTerm, bool] = {}
        self._complements: dict[ProofTerm, ProofTerm] = {}
        self.true, self.false = self._make("true", "Bool", ()), self._make("false", "Bool", ())

    def _make(self, op: str, sort: Sort, args: tuple[Any, ...]) -> ProofTerm:
        key = (op, sort, *args)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = ProofTerm(op, sort, args, len(self._made))
        return found

    # Atoms

    def symbol(self, name: str, sort: Sort, natural: bool = False) -> ProofTerm:
        """A constant of the theory."""
        node = self._make("symbol", sort, (name,))
        if natural:
            self.natural.add(node)
        return node

    def app(self, function: str, sort: Sort, args: Sequence[ProofTerm]) -> ProofTerm:
        """A free function applied; without arguments, a symbol. Of what is never negative, truncated
        quotients are floored ones."""
        if function == "tdiv" and self._always(self.shift(args[1], -1)) and self._always(args[0]):
            function = "fdiv"
        return self._make("app", sort, (function, *args)) if args else self.symbol(function, sort)

    # Arithmetic

    def number(self, value: Number, sort: Sort) -> ProofTerm:
        """A constant."""
        return self._make("poly", sort, ((((), _least(value)),) if value else (),))

    def add(self, *nodes: ProofTerm) -> ProofTerm:
        """The sum of one or more nodes of one sort."""
        total = dict(monomials(nodes[0]))
        for node in nodes[1:]:
            _accumulate(total, node, 1)
        return self._sum(total, nodes[0].sort)

    def scale(self, node: ProofTerm, factor: Number) -> ProofTerm:
        """factor * node."""
        return self._sum({atoms: c * factor for atoms, c in monomials(node)}, node.sort)

    def sub(self, a: ProofTerm, b: ProofTerm) -> ProofTerm:
        """a - b."""
        total = dict(monomials(a))
        _accumulate(total, b, -1)
        return self._sum(total, a.sort)

    def shift(self, node: ProofTerm, by: int) -> ProofTerm:
        """node + by."""
        total = dict(monomials(node))
        total[()] = total.get((), 0) + by
        return self._sum(total, node.sort)

    def mul(self, a: ProofTerm, b: ProofTerm) -> ProofTerm:
        """a * b, multiplied out unless that is long."""
        left, right = monomials(a), monomials(b)
        if len(left) > 1 and len(right) > 1 and len(left) * len(right) > _WIDEST:
            first, second = sorted((a, b), key=_number)
            return self._make("product", a.sort, (first, second))
        total: Monomials = {}
        for atoms, coefficient in left:
            for others, factor in right:
                merged = atoms + others
                if atoms and others:
                    if (masked := self._masked(merged)) is not None:
                        _accumulate(total, masked, coefficient * factor)
                        continue
                    merged = tuple(sorted(merged, key=_number))
                total[merged] = total.get(merged, 0) + coefficient * factor
        return self._sum(total, a.sort)

    def _masked(self, atoms: tuple[ProofTerm, ...]) -> ProofTerm | None:
        """A product of which one factor is 0 unless something holds, as what is so itself; None if none is,
        or it is made of positions, of which strides are to be found again."""
        for place, atom in enumerate(atoms):
            if atom.op == "ite" and not monomials(atom.args[2]) and any(p.op == "app" for p in walk((atom,))):
                rest = functools.reduce(self.mul, atoms[:place] + atoms[place + 1 :])
                return self.ite(atom.args[0], self.mul(rest, atom.args[1]), atom.args[2])
        return None

    def power(self, node: ProofTerm, exponent: int) -> ProofTerm:
        """node ** exponent, exponent >= 0."""
        return functools.reduce(self.mul, [node] * exponent) if exponent else self.number(1, node.sort)

    def poly(self, monomials: Mapping[tuple[ProofTerm, ...], Number], sort: Sort) -> ProofTerm:
        """A polynomial from its monomials."""
        return self._sum(dict(monomials), sort)

    def _sum(self, total: Monomials, sort: Sort) -> ProofTerm:
        kept = [(atoms, c if type(c) is int else _least(c)) for atoms, c in total.items() if c]
        if len(kept) > 1:
            kept.sort(key=lambda item: [node.number for node in item[0]])
        elif kept and len(kept[0][0]) == 1 and kept[0][1] == 1:
            return kept[0][0][0]
        return self._make("poly", sort, (tuple(kept),))

    def real(self, node: ProofTerm) -> ProofTerm:
        """An integer as a real number."""
        if node.sort == "Real":
            return node
        total: Monomials = {}
        for atoms, coefficient in monomials(node):
            moved = tuple(sorted((self.app("to_real", "Real", (a,)) for a in atoms), key=_number))
            total[moved] = total.get(moved, 0) + coefficient
        return self._sum(total, "Real")

    # Truth

    def boolean(self, value: bool) -> ProofTerm:
        """true or false."""
        return self.true if value else self.false

    def ge(self, a: ProofTerm, b: ProofTerm) -> ProofTerm:
        """a >= b."""
        return self._at_least_0(self.sub(a, b))

    def _at_least_0(self, node: ProofTerm) -> ProofTerm:
        difference = self._primitive(node)
        if difference.constant is not None:
            return self.boolean(difference.constant >= 0)
        if self.never_negative(difference):
            return self.true
        if difference.sort == "Int" and self.never_negative(self._complement(difference)):
            return self.false
        return self._make("ge0", "Bool", (difference,))

    def _complement(self, node: ProofTerm) -> ProofTerm:
        """-1 - node: of integers, the one is >= 0 where the other is not."""
        found = self._complements.get(node)
        if found is None:
            found = self.shift(self.scale(node, -1), -1)
            self._complements[node], self._complements[found] = found, node
        return found

    def claim(self, a: ProofTerm, b: ProofTerm) -> ProofTerm:
        """a >= b, left for a solver to prove unless both are constant."""
        difference = self.sub(a, b)
        value = difference.constant
        return self._make("ge0", "Bool", (difference,)) if value is None else self.boolean(value >= 0)

    def below(self, indices: Iterable[ProofTerm], extents: Iterable[ProofTerm]) -> list[ProofTerm]:
        """That each index is less than its extent, left for a solver to prove."""
        return [self.claim(self.shift(extent, -1), index) for index, extent in zip(indices, extents)]

    def gt(self, a: ProofTerm, b: ProofTerm) -> ProofTerm:
        """a > b; for integers a >= b + 1."""
        if a.sort == "Int":
            return self.ge(a, self.shift(b, 1))
        return self.negate(self.ge(b, a))

    def eq(self, a: ProofTerm, b: ProofTerm) -> ProofTerm:
        """a = b, of any one sort."""
        if a is b:
            return self.true
        if a.sort == "Bool":
            if a.op in ("true", "false") or b.op in ("true", "false"):
                constant, other = (a, b) if a.op in ("true", "false") else (b, a)
                return other if constant is self.true else self.negate(other)
            first, second = sorted((a, b), key=_number)
            return self._make("same", "Bool", (first, second))
        difference = self.sub(a, b)
        if difference.constant is not None:
            return self.boolean(difference.constant == 0)
        if difference.sort == "Int" and (
            self.never_negative(self.shift(difference, -1))
            or self.never_negative(self._complement(difference))
        ):
            return self.false
        lead = monomials(difference)[-1][1]
        return self._make("eq0", "Bool", (self._primitive(self.scale(difference, 1 if lead > 0 else -1)),))

    def assume(self, *nodes: ProofTerm) -> None:
        """Adds polynomials that are >= 0 from now on."""
        self.known += nodes
        self._falling += [frozenset(atoms for atoms, c in monomials(node) if c < 0) for node in nodes]
        self._decided.clear()

    def forget(self, known: int) -> None:
        """Drops all but the oldest `known` assumptions."""
        del self.known[known:], self._falling[known:]
        self._decided.clear()

    def never_negative(self, node: ProofTerm) -> bool:
        """Whether node is a sum of natural products and of at most two known polynomials."""
        if node not in self._decided:
            self._decided[node] = self._never_negative(node, 2)
        return self._decided[node]

    def _never_negative(self, node: ProofTerm, depth: int) -> bool:
        return self._covered(dict(monomials(node)), depth if node.sort == "Int" else 0, len(self.known))

    def _always(self, node: ProofTerm) -> bool:
        """Whether node is never negative in any call, whatever is known where it is made."""
        return self._covered(dict(monomials(node)), 2, self.settled)

    def _covered(self, total: Monomials, depth: int, among: int) -> bool:
        """Whether a sum is one of natural products and of at most `depth` of the first known polynomials."""
        falling = [atoms for atoms, c in total.items() if c < 0]
        if not falling and self.natural.issuperset(itertools.chain(*total)):
            return True
        if depth == 0 or (falling == [()] and depth < 2):
            return False
        for fact, below in itertools.islice(zip(self.known, self._falling), among):
            if not below.isdisjoint(falling):
                rest = dict(total)
                _accumulate(rest, fact, -1)
                if self._covered({atoms: c for atoms, c in rest.items() if c}, depth - 1, among):
                    return True
        return False

    def _primitive(self, node: ProofTerm) -> ProofTerm:
        """node divided by the greatest common divisor of its coefficients."""
        factors = [c for _, c in monomials(node)]
        if not factors:
            return node
        common = gcd(*(c.numerator for c in factors))
        below = max(c.denominator for c in factors)
        return node if common == below == 1 else self.scale(node, Fraction(below, common))

    def negate(self, node: ProofTerm) -> ProofTerm:
        """not node."""
        match node.op:
            case "true":
                return self.false
            case "false":
                return self.true
            case "not":
                return node.args[0]  # type: ignore[no-any-return]
            case "ge0" if node.args[0].sort == "Int":
                return self._at_least_0(self._complement(node.args[0]))
        return self._make("not", "Bool", (node,))

    def all(self, nodes: Iterable[ProofTerm]) -> ProofTerm:
        """The conjunction."""
        return self._junction("and", nodes, self.true, self.false)

    def any(self, nodes: Iterable[ProofTerm]) -> ProofTerm:
        """The disjunction."""
        return self._junction("or", nodes, self.false, self.true)

    def _junction(
        self, op: str, nodes: Iterable[ProofTerm], neutral: ProofTerm, absorbing: ProofTerm
    ) -> ProofTerm:
        flat: dict[ProofTerm, None] = {}
        for node in nodes:
            flat.update(dict.fromkeys(node.args if node.op == op else (node,)))
        flat.pop(neutral, None)
        if absorbing in flat or any(self.negate(node) in flat for node in flat):
            return absorbing
        kept = sorted(flat, key=_number)
        if not kept:
            return neutral
        return kept[0] if len(kept) == 1 else self._make(op, "Bool", tuple(kept))

    def implies(self, hypotheses: Iterable[ProofTerm], goal: ProofTerm) -> ProofTerm:
        """hypotheses => goal, as a disjunction."""
        return self.any([*map(self.negate, hypotheses), goal])

    def ite(self, condition: ProofTerm, a: ProofTerm, b: ProofTerm) -> ProofTerm:
        """a where the condition holds, else b; what both share is taken out of a sum. Of what is else 0,
        conditions are one, and a number stands before it."""
        if condition is self.true or a is b:
            return a
        if condition is self.false:
            return b
        if a.sort == "Bool":
            return self.any([self.all([condition, a]), self.all([self.negate(condition), b])])
        if condition.op == "not":
            condition, a, b = condition.args[0], b, a
        if a.op == "ite" and a.args[2] is b and not monomials(b):
            return self.ite(self.all([condition, a.args[0]]), a.args[1], b)
        left, right = dict(monomials(a)), dict(monomials(b))
        if not right and len(left) == 1:
            ((atoms, factor),) = left.items()
            if atoms and factor != 1:
                return self.scale(self.ite(condition, self._sum({atoms: 1}, a.sort), b), factor)
        shared = {atoms: c for atoms, c in left.items() if atoms and right.get(atoms) == c}
        if shared:
            common = self._sum(shared, a.sort)
            return self.add(common, self.ite(condition, self.sub(a, common), self.sub(b, common)))
        return self._make("ite", a.sort, (condition, a, b))

    def positive_part(self, node: ProofTerm) -> ProofTerm:
        """max(0, node) of an integer."""
        zero = self.number(0, "Int")
        return self.ite(self.ge(node, zero), node, zero)

    # Rewriting

    def substitute(
        self,
        node: ProofTerm,
        values: Mapping[ProofTerm, ProofTerm],
        seen: dict[ProofTerm, ProofTerm] | None = None,
        made: Callable[[ProofTerm, ProofTerm], None] = lambda before, after: None,
    ) -> ProofTerm:
        """The node with atoms replaced, made anew through this arena; `made` is told of each part."""
        memo = {} if seen is None else seen
        if node in memo:
            return memo[node]
        if node in values:
            return values[node]

        def go(part: ProofTerm) -> ProofTerm:
            return self.substitute(part, values, memo, made)

        memo[node] = result = self.rebuild(node, go)
        made(node, result)
        return result

    def rebuild(self, node: ProofTerm, go: Callable[[ProofTerm], ProofTerm]) -> ProofTerm:
        """The node with its direct parts replaced."""
        match node.op:
            case "app":
                return self.app(node.args[0], node.sort, tuple(map(go, node.args[1:])))
            case "poly":
                total: Monomials = {}
                for atoms, coefficient in node.args[0]:
                    product = self.number(1, node.sort)
                    for atom in atoms:
                        product = self.mul(product, go(atom))
                    _accumulate(total, product, coefficient)
                return self._sum(total, node.sort)
            case "product":
                return self.mul(go(node.args[0]), go(node.args[1]))
            case "ite":
                return self.ite(*map(go, node.args))
            case "ge0":
                inner = go(node.args[0])
                return self.ge(inner, self.number(0, inner.sort))
            case "eq0":
                inner = go(node.args[0])
                return self.eq(inner, self.number(0, inner.sort))
            case "same":
                return self.eq(*map(go, node.args))
            case "and":
                return self.all(map(go, node.args))
            case "or":
                return self.any(map(go, node.args))
            case "not":
                return self.negate(go(node.args[0]))
        return node


_number = operator.attrgetter("number")


def monomials(node: ProofTerm) -> tuple[tuple[tuple[ProofTerm, ...], Number], ...]:
    """A number as a sum of (atoms, coefficient)."""
    return node.args[0] if node.op == "poly" else (((node,), 1),)


def _accumulate(total: Monomials, node: ProofTerm, factor: Number) -> None:
    """Adds factor * node to a sum."""
    for atoms, coefficient in monomials(node):
        total[atoms] = total.get(atoms, 0) + coefficient * factor


def walk(roots: Iterable[ProofTerm]) -> Iterator[ProofTerm]:
    """Every node inside, each once, parts before wholes."""
    begun: set[ProofTerm] = set()
    done: set[ProofTerm] = set()
    stack = [*roots][::-1]
    while stack:
        node = stack[-1]
        if node.parts and node not in begun:
            begun.add(node)
            stack += node.parts
            continue
        stack.pop()
        if node not in done:
            done.add(node)
            yield node
