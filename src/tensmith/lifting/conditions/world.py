"""What a proof talks about: arguments, sizes, lengths, and the terms of a summary over them, as nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tensmith.formula.expr import Call, Choose, Expr, Num, Read, Reduce, Size
from tensmith.formula.poly import FloorDiv, Monomial, Poly
from tensmith.formula.types import I32, I64, INT, MachineType
from tensmith.lifting import loops
from tensmith.lifting.conditions import operators
from tensmith.lifting.conditions.folds import Folds
from tensmith.lifting.conditions.nodes import Arena, ProofTerm, monomials, walk
from tensmith.lifting.conditions.operators import sort_of
from tensmith.lifting.summary import Requirement, SizeSymbol, Summary, Term, length_of

Scope: TypeAlias = Mapping[str, ProofTerm]


class Malformed(Exception):
    """A summary that says nothing that could be proved: a sentence."""


def is_data(index: ProofTerm) -> bool:
    """Whether a subscript is made of elements of arrays, or of what folds make of them."""
    made_of = ("in.", "fold.", "place.")
    return any(part.op == "app" and str(part.args[0]).startswith(made_of) for part in walk((index,)))


@dataclass
class ProofWorld:
    """Nodes of everything that exists before the function runs.

    facts: what holds of an atom wherever it occurs (ranges of types, definitions of sizes, requirements),
    asserted with every obligation that mentions it.
    """

    summary: Summary
    folds: Folds = field(default_factory=lambda: Folds(Arena()))
    every_range: bool = False  # whether ranges of i32 and i64 elements are facts too
    scalars: dict[str, tuple[ProofTerm, MachineType]] = field(default_factory=dict)
    arrays: dict[str, loops.Array] = field(default_factory=dict)
    scope: dict[str, ProofTerm] = field(default_factory=dict)
    stated: dict[str, ProofTerm] = field(default_factory=dict)
    sizes: dict[ProofTerm, ProofTerm] = field(
        default_factory=dict
    )  # size -> the polynomial it is the positive part of
    parts: set[ProofTerm] = field(default_factory=set)  # sizes that are 0 outside of a path
    facts: list[ProofTerm] = field(default_factory=list)
    reasons: dict[ProofTerm, Literal["type", "size"]] = field(default_factory=dict)
    requirements: dict[ProofTerm, str] = field(default_factory=dict)  # with how they are shown
    # The signed integers that terms compute, which do not overflow, by bits and values modulo 2^bits.
    _exact: dict[tuple[int, ProofTerm], ProofTerm] = field(default_factory=dict)
    _about: dict[ProofTerm, list[ProofTerm]] = field(default_factory=dict)
    ranges: dict[ProofTerm, ProofTerm] = field(
        default_factory=dict
    )  # counters and lengths -> their upper bounds
    counted: dict[ProofTerm, str] = field(default_factory=dict)  # counter -> its loop

    def __post_init__(self) -> None:
        self.arena = self.folds.arena
        for name, kind in self.summary.function.fields:
            if isinstance(kind, loops.Array):
                self.arrays[name] = kind
                continue
            node = self.arena.symbol(f"in.{name}", sort_of(kind), self._natural(kind))
            self.scalars[name] = (node, kind)
            if kind.limits is not None:
                low, high = (self.arena.number(limit, "Int") for limit in kind.limits)
                self.state(self.arena.claim(high, node), "type")
                self.state(self.arena.claim(node, low), "type")
            if kind.kind == "int":
                self.scope[name] = node
        parameters = dict(self.scope)
        for size in self.summary.sizes:
            node = self.arena.symbol(f"size.{size.symbol}", "Int", natural=True)
            poly = self.poly(size.poly, {**self.scope, **parameters})
            if size.where:  # a condition over what is known before it
                self.parts.add(node)
                taken = self.arena.all((self.where(size), self.arena.ge(poly, self.zero)))
                self.scope[size.symbol] = node
                self.state(self.arena.eq(node, self.arena.ite(taken, poly, self.zero)), "size")
                continue
            self.scope[size.symbol] = node
            self.sizes[node] = poly
            if self.arena.never_negative(poly):
                self.arena.assume(self.arena.sub(poly, node))
            else:
                poly = self.arena.positive_part(poly)
                self.arena.assume(self.arena.sub(node, self.sizes[node]))
            self.state(self.arena.eq(node, poly), "size")
        for node, kind in self.scalars.values():
            if (limits := kind.limits) is not None:
                self._bound(self.arena.shift(self.arena.scale(node, -1), limits[1]))
        # Requirements are stated over the parameters themselves; elsewhere a size's symbol is the size.
        self.stated = {**self.scope, **parameters}
        for requirement in self.summary.requires:
            self._require(requirement)
        self.arena.settled = len(self.arena.known)

    @property
    def zero(self) -> ProofTerm:
        """0 of integers."""
        return self.arena.number(0, "Int")

    def _natural(self, kind: MachineType) -> bool:
        return kind.kind == "int" and not kind.signed

    def facts_of(self, symbol: ProofTerm, types: bool) -> list[ProofTerm]:
        """The definition of a size, and of an argument its range: always where it is unsigned."""
        found = self._about.get(symbol, [])
        wanted = types or symbol in self.arena.natural
        return [fact for fact in found if wanted or self.reasons[fact] != "type"]

    def state(self, fact: ProofTerm, why: Literal["type", "size"]) -> None:
        """Adds a fact that holds of an atom wherever it occurs."""
        self.facts.append(fact)
        self.reasons[fact] = why
        for node in walk((fact,)):
            if node in self.sizes or node in self.parts or (why == "type" and node.op == "symbol"):
                self._about.setdefault(node, []).append(fact)

    def _require(self, requirement: Requirement) -> None:
        if requirement.poly is None or requirement.kind not in ("at_least", "equal", "length", "nonzero"):
            return
        arena, poly = self.arena, self.poly(requirement.poly, self.stated)
        if requirement.where:
            claim = self._claim(requirement, poly)
            self.requirements[arena.any([arena.negate(self.where(requirement)), claim])] = requirement.text
            return
        grid = self.summary.grids.get(requirement.array)
        if requirement.kind == "length":
            self._in_memory(requirement.poly)
        if requirement.kind == "length" and grid is not None and len(grid.strides) > 1:
            return  # the length of memory seen through strides is compared row by row, never as a product
        self.requirements[self._claim(requirement, poly)] = requirement.text
        match requirement.kind:
            case "at_least":
                self._bound(poly)
            case "equal":
                arena.assume(poly, arena.scale(poly, -1))
            case "length":
                length = self.length(requirement.array, requirement.axis)
                longest = [poly, *(size for size, raw in self.sizes.items() if raw is poly)]
                arena.assume(*(arena.sub(length, least) for least in longest))

    def _in_memory(self, least: Poly) -> None:
        """Assumes that what a length is at least is below 2^63, as lengths are, over parameters, and over
        sizes where these are parameters that are never negative."""
        pairs = [(self.stated.get(name), self.scope.get(name)) for name in least.symbols()]
        if all(
            given in self.arena.natural and size is not None and self.sizes.get(size, size) is given
            for given, size in pairs
        ):
            for scope in (self.stated, self.scope):
                room = self.arena.sub(self.arena.number(2**63 - 1, "Int"), self.poly(least, scope))
                self.arena.assume(room)

    def _bound(self, poly: ProofTerm) -> None:
        """Assumes that a polynomial is >= 0; what bounds a parameter from above bounds its size."""
        self.arena.assume(poly)
        for size, raw in self.sizes.items():
            room = self.arena.add(poly, raw).constant
            if room is not None and room >= 0:
                self.arena.assume(self.arena.sub(self.arena.number(room, "Int"), size))

    def _claim(self, requirement: Requirement, poly: ProofTerm) -> ProofTerm:
        """What a requirement says of a polynomial."""
        match requirement.kind:
            case "at_least":
                return self.arena.claim(poly, self.zero)
            case "equal":
                return self.arena.eq(poly, self.zero)
            case "nonzero":
                return self.arena.negate(self.arena.eq(poly, self.zero))
        return self.arena.claim(self.length(requirement.array, requirement.axis), poly)

    def where(self, stated: Requirement | SizeSymbol) -> ProofTerm:
        """Whether the branches are taken under which something is required, or a size is not 0."""
        found = [(self.term(condition, self.scope), holds) for condition, holds in stated.where]
        return self.arena.all(node if holds else self.arena.negate(node) for node, holds in found)

    # Atoms

    def length(self, array: str, axis: int) -> ProofTerm:
        """The length of a parameter array along an axis; memory has fewer than 2^63 bytes."""
        node = self.arena.symbol(f"len.{array}.{axis}", "Int", natural=True)
        self.ranges[node] = self.arena.claim(self.arena.number(2**63 - 1, "Int"), node)
        return node

    def subscripts(self, rank: int) -> tuple[ProofTerm, ...]:
        """Arbitrary subscripts of an element."""
        return tuple(self.arena.symbol(f"x{axis}", "Int", natural=True) for axis in range(rank))

    def read(self, array: str, indices: tuple[ProofTerm, ...]) -> ProofTerm:
        """An element at entry."""
        kind = self.arrays.get(array)
        if kind is None:
            raise Malformed(f"the summary reads '{array}', which is no array parameter")
        node = self.arena.app(f"in.{array}", sort_of(kind.element), indices)
        if self._natural(kind.element):
            self.arena.natural.add(node)
        return node

    def as_index(self, node: ProofTerm, type_: MachineType) -> ProofTerm:
        """A subscript that is data as programs compute with it, in 64 bits with a sign."""
        wide = type_.bits == 64 and not type_.signed and is_data(node)
        return operators.cast(self.arena, node, type_, I64, False) if wide else node

    def wrapped(
        self, array: str, indices: tuple[ProofTerm, ...], types: Sequence[MachineType]
    ) -> tuple[ProofTerm, ...]:
        """Subscripts as programs read them where they are data: as 64 bits, from the back where negative.

        What is required to be inside is neither too large for those nor negative.
        """
        arena, found = self.arena, list(indices)
        for axis, (index, type_) in enumerate(zip(indices, types)):
            if is_data(index):
                index = self.as_index(index, type_)
                back = arena.add(index, self.length(array, axis))
                found[axis] = arena.ite(arena.ge(index, self.zero), index, back)
        return tuple(found)

    def element_limits(self, node: ProofTerm) -> tuple[int, int] | None:
        """The range of the type of an element read, where proofs need it."""
        if node.op != "app" or not node.args[0].startswith("in."):
            return None
        kind = self.arrays.get(node.args[0][3:])
        if kind is None or kind.element.kind != "int":
            return None
        if self.every_range:
            return kind.element.limits or (-(2**63), 2**63 - 1)
        wide = kind.element.signed and (kind.element.bits or 64) >= 32
        return None if wide else kind.element.limits

    def entry(self, expression: Expr) -> ProofTerm:
        """An expression of the source over the arguments at entry (an extent in a type)."""
        match expression:
            case Num(value, type_):
                return operators.constant(self.arena, value, type_)
            case Read(name) if name in self.scalars:
                return self.scalars[name][0]
            case loops.Length(array, axis):
                return self.length(array, axis)
            case Call("cast", (value,), type_):
                fits = operators.fits(value)
                return operators.cast(self.arena, self.entry(value), value.type, type_, fits)
            case Call(operator, arguments, type_):
                return operators.apply(self.arena, operator, [self.entry(a) for a in arguments], type_)
        raise Malformed(f"an extent is not made of parameters at {expression.position}")

    # Polynomials and terms

    def written_by_sizes(
        self, node: ProofTerm, strides: tuple[ProofTerm, ...]
    ) -> tuple[ProofTerm, ProofTerm]:
        """A subscript with parameters replaced by the sizes that occur in strides, and the condition that
        makes it the same: the size is not cut off at 0."""
        arena = self.arena
        values, same = {}, []
        inside = {part for part in walk(strides) if part in self.sizes}
        for size, raw in self.sizes.items():
            for atoms, coefficient in monomials(raw):
                if size in inside and len(atoms) == 1 and coefficient == 1 and atoms[0] not in values:
                    values[atoms[0]] = arena.add(size, arena.sub(atoms[0], raw))
                    same.append(arena.eq(size, raw))
                    break
        if not any(part in values for part in walk((node,))):
            return node, arena.true
        return arena.substitute(node, values), arena.all(same)

    def poly(self, poly: Poly, scope: Scope) -> ProofTerm:
        """A polynomial with its symbols looked up in `scope`."""
        return self.arena.add(
            self.zero, *(self._monomial(monomial, factor, scope) for monomial, factor in poly.terms)
        )

    def _monomial(self, monomial: Monomial, factor: int, scope: Scope) -> ProofTerm:
        product = self.arena.number(factor, "Int")
        for atom, power in monomial:
            base = self._division(atom, scope) if isinstance(atom, FloorDiv) else self._symbol(atom, scope)
            product = self.arena.mul(product, self.arena.power(base, power))
        return product

    def _division(self, division: FloorDiv, scope: Scope) -> ProofTerm:
        top, bottom = self.poly(division.top, scope), self.poly(division.bottom, scope)
        return operators.quotient_of(self.arena, "fdiv", top, bottom)

    def _symbol(self, name: str, scope: Scope) -> ProofTerm:
        found = scope.get(name)
        if found is not None:
            return found
        length = length_of(name)
        if length is not None and length[0] in self.arrays:
            return self.length(*length)
        raise Malformed(f"nothing is named '{name}' there")

    def term(self, term: Term, scope: Scope) -> ProofTerm:
        """A term with the symbols of its polynomials looked up in `scope`."""
        match term:
            case Num(value, type_):
                return operators.constant(self.arena, value, type_)
            case Size(poly, type_):
                node = self.poly(poly, scope)
                return self.arena.real(node) if type_.kind == "float" else self._computed(node, type_)
            case Read(name, (), _):
                if name not in self.scalars:
                    raise Malformed(f"there is no scalar parameter '{name}'")
                return self.scalars[name][0]
            case Read(array, indices, _):
                return self.read(array, tuple(self.poly(index, scope) for index in indices))
            case Call("cast", (value,), type_):
                node = self.term(value, scope)
                return operators.cast(self.arena, node, value.type, type_, operators.fits(value))
            case Call("element", (Read(array), *subscripts)):
                at, types = (self.term(s, scope) for s in subscripts), [s.type for s in subscripts]
                return self.read(array, self.wrapped(array, tuple(at), types))
            case Call(operator, arguments, type_):
                nodes = [self.term(argument, scope) for argument in arguments]
                return self._computed(operators.apply(self.arena, operator, nodes, type_), type_)
            case Reduce():
                return self._computed(self._fold(term, scope), term.type)
            case Choose(conditions, then, otherwise, _):
                result = self.term(otherwise, scope)
                return self.arena.ite(self.at_least(conditions, scope), self.term(then, scope), result)
        raise Malformed(f"{term!r} is no term")

    def _computed(self, node: ProofTerm, type_: MachineType) -> ProofTerm:
        """What a term computes, kept where a program may compute it too."""
        if type_ in (I32, I64, INT):
            self._exact[self._modulo(node, type_)] = node
        return node

    def computed(self, node: ProofTerm, type_: MachineType) -> ProofTerm | None:
        """What a term computes that is the same modulo 2^bits, if one does."""
        return self._exact.get(self._modulo(node, type_))

    def _modulo(self, node: ProofTerm, type_: MachineType) -> tuple[int, ProofTerm]:
        bits = type_.bits or 64  # unbounded integers fit in 64
        return bits, operators.unwrapped(self.arena, node, bits)

    def _fold(self, term: Reduce, scope: Scope) -> ProofTerm:
        if term.kind not in ("sum", "prod", "max", "min"):
            raise Malformed(f"there is no fold of kind '{term.kind}'")
        if term.start is None:
            raise Malformed("a fold starts nowhere")
        start, extent = self.term(term.start, scope), self.poly(term.extent, scope)
        position = self.folds.placeholder()
        body = self.term(term.body, {**scope, term.var: position})
        if body.sort != start.sort or body.sort == "Bool":
            raise Malformed("a fold's body and start have different types")
        fold = self.folds.close(term.kind, position, body, start, extent)
        # Sums and products of an unsigned type are those of integers, wrapped at every step or at the end.
        return operators.wrap(self.arena, fold, term.type) if self._wraps(term) else fold

    def _wraps(self, term: Reduce) -> bool:
        return term.kind in ("sum", "prod") and self._natural(term.type) and term.type.bits is not None

    def at_least(self, polys: tuple[Poly, ...], scope: Scope) -> ProofTerm:
        """All polynomials are >= 0."""
        return self.arena.all(self.arena.ge(self.poly(poly, scope), self.zero) for poly in polys)
