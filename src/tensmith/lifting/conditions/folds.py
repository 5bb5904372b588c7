"""Folds as prefix functions: F(p.., t), one for each shape of body, whatever stands for the parameters.

A body is taken apart at the position k: the largest parts without k become parameters, in an order that does
not depend on what they are. So the sums of A[i,k]*x[k] at i and at i+1 are one function at two arguments.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tensmith.lifting.conditions.nodes import Arena, ProofTerm, Sort, monomials, walk
from tensmith.lifting.conditions.text import constant, name, text
from tensmith.verify.theory import Prefix

_HOLE = "\0"
# Occurrences of one prefix function at most this far apart are linked step by step.
_NEAR = 16
# Where sums are split: sums over at most this many are written out, of at most this many terms are split.
_WINDOW, _MOST_TERMS = 16, 64


@dataclass
class Body:
    """What a fold node stands for: its function, and the body at `position`."""

    prefix: Prefix
    body: ProofTerm
    position: ProofTerm


@dataclass
class Folds:
    """The prefix functions of one proof."""

    arena: Arena
    first: int = 0
    linear: bool = False  # whether sums are split into sums of single products, small ones written out
    functions: dict[tuple[str, Sort, str, tuple[Sort, ...]], Prefix] = field(default_factory=dict)
    bodies: dict[ProofTerm, Body] = field(default_factory=dict)
    _depth: int = 0

    def placeholder(self) -> ProofTerm:
        """A position for a body about to be made; nested ones differ."""
        self._depth += 1
        return self.arena.symbol(f"position.{self._depth}", "Int", natural=True)

    def close(
        self, kind: str, position: ProofTerm, body: ProofTerm, start: ProofTerm, extent: ProofTerm
    ) -> ProofTerm:
        """The fold of a body made at the newest placeholder, over 0 .. extent-1."""
        self._depth -= 1
        return self.fold(kind, position, body, start, extent)

    def fold(
        self, kind: str, position: ProofTerm, body: ProofTerm, start: ProofTerm, extent: ProofTerm
    ) -> ProofTerm:
        """The fold of a body over position = 0 .. extent-1."""
        if extent.constant is not None and extent.constant <= 0:
            return start
        if kind == "sum" and self.linear:
            if extent.constant is not None and extent.constant <= _WINDOW:
                body = self._term_by_term(body)
                places = (self.arena.number(k, "Int") for k in range(int(extent.constant)))
                return self.arena.add(start, *(self.substitute(body, {position: k}) for k in places))
            if 0 < len(monomials(body)) <= _MOST_TERMS:
                return self.arena.add(start, self._split(position, body, extent))
        if kind == "sum" and (mask := _mask(self.arena, position, body)) is not None:
            return self.arena.add(start, self._between(position, mask, extent))
        return self._closed(kind, position, body, start, extent)

    def _term_by_term(self, body: ProofTerm) -> ProofTerm:
        """A sum of which some parts are 0 unless something holds, with that asked of each of their terms."""
        arena, total = self.arena, self.arena.number(0, body.sort)
        for atoms, coefficient in monomials(body):
            found = arena.poly({atoms: coefficient}, body.sort)
            if len(atoms) == 1 and atoms[0].op == "ite" and not monomials(atoms[0].args[2]):
                condition, then, otherwise = atoms[0].args
                terms = (arena.poly({term: each * coefficient}, body.sort) for term, each in monomials(then))
                found = arena.add(otherwise, *(arena.ite(condition, term, otherwise) for term in terms))
            total = arena.add(total, found)
        return total

    def _between(self, position: ProofTerm, mask: _Mask, extent: ProofTerm) -> ProofTerm:
        """A sum over the positions of a mask alone, counted from its first: what triangles sum too."""
        arena = self.arena
        start = arena.number(0, "Int")
        for other in mask.starts:
            start = arena.ite(arena.ge(start, other), start, other)
        for end in mask.ends:
            extent = arena.ite(arena.ge(end, extent), extent, end)
        body = self.substitute(mask.body, {position: arena.add(position, start)})
        return self.fold("sum", position, body, arena.number(0, body.sort), arena.sub(extent, start))

    def _split(self, position: ProofTerm, body: ProofTerm, extent: ProofTerm) -> ProofTerm:
        """A sum of products as a sum of sums, what does not vary taken out of each."""
        arena, zero = self.arena, self.arena.number(0, body.sort)
        total = zero
        for atoms, coefficient in monomials(body):
            mask = _mask(arena, position, arena.poly({atoms: coefficient}, body.sort))
            if mask is not None:
                total = arena.add(total, self._between(position, mask, extent))
                continue
            varying = tuple(atom for atom in atoms if position in set(walk((atom,))))
            free = arena.poly({tuple(a for a in atoms if a not in varying): coefficient}, body.sort)
            if varying:
                fold = self._closed("sum", position, arena.poly({varying: 1}, body.sort), zero, extent)
            else:
                count = arena.positive_part(extent)
                fold = arena.real(count) if body.sort == "Real" else count
            total = arena.add(total, arena.mul(free, fold))
        return total

    def _closed(
        self, kind: str, position: ProofTerm, body: ProofTerm, start: ProofTerm, extent: ProofTerm
    ) -> ProofTerm:
        ordered = kind in ("max", "min")
        template, holes = _Abstraction(self.arena, position).of(body)
        parameters = (*holes, start) if ordered else holes
        sorts = tuple(node.sort for node in parameters)
        key = (kind, body.sort, template, sorts)
        prefix = self.functions.get(key)
        if prefix is None:
            prefix = Prefix(f"fold.{self.first + len(self.functions)}", kind, body.sort, sorts, template)
            self.functions[key] = prefix
        node = self.arena.app(prefix.name, body.sort, (*parameters, extent))
        self.bodies.setdefault(node, Body(prefix, body, position))
        if ordered:
            return node
        return self.arena.add(start, node) if kind == "sum" else self.arena.mul(start, node)

    def body_at(self, fold: ProofTerm, position: ProofTerm) -> ProofTerm:
        """The body of a fold at a position; folds inside it are known too."""
        found = self.bodies[fold]
        return self.substitute(found.body, {found.position: position})

    def substitute(
        self,
        node: ProofTerm,
        values: dict[ProofTerm, ProofTerm],
        seen: dict[ProofTerm, ProofTerm] | None = None,
    ) -> ProofTerm:
        """`Arena.substitute` that keeps the bodies of folds."""
        memo: dict[ProofTerm, ProofTerm] = {} if seen is None else seen

        def keep(before: ProofTerm, after: ProofTerm) -> None:
            if before in self.bodies and after not in self.bodies:
                old = self.bodies[before]
                self.bodies[after] = Body(old.prefix, self.substitute(old.body, values, memo), old.position)

        return self.arena.substitute(node, values, memo, keep)

    def renewed(
        self, node: ProofTerm, values: dict[ProofTerm, ProofTerm], seen: dict[ProofTerm, ProofTerm]
    ) -> ProofTerm:
        """A node with symbols replaced and every fold inside taken apart anew: what has become alike may make
        another function of it."""
        if node not in seen:
            found = self.bodies.get(node)
            if node in values:
                seen[node] = values[node]
            elif found is None:
                seen[node] = self.arena.rebuild(node, lambda part: self.renewed(part, values, seen))
            else:
                extent = self.renewed(node.args[-1], values, seen)
                start = self.arena.number(0 if found.prefix.kind == "sum" else 1, node.sort)
                if found.prefix.kind in ("max", "min"):
                    start = self.renewed(node.args[-2], values, seen)
                body = self.renewed(found.body, values, seen)
                seen[node] = self.fold(found.prefix.kind, found.position, body, start, extent)
        return seen[node]

    def written_out(self, node: ProofTerm) -> ProofTerm:
        """A node with its small sums written out."""
        before, self.linear = self.linear, True
        found = self.renewed(node, {}, {})
        self.linear = before
        return found

    def choose(self, condition: ProofTerm, a: ProofTerm, b: ProofTerm) -> ProofTerm:
        """a where the condition holds, else b; b alone where it is a whenever the condition, an equation of a
        symbol, holds."""
        if condition.op == "eq0":
            for atoms, coefficient in monomials(condition.args[0]):
                if len(atoms) == 1 and atoms[0].op == "symbol" and coefficient in (1, -1):
                    rest = self.arena.sub(condition.args[0], self.arena.scale(atoms[0], coefficient))
                    value = self.arena.scale(rest, -coefficient)
                    if self.renewed(b, {atoms[0]: value}, {}) is self.renewed(a, {atoms[0]: value}, {}):
                        return b
        return self.arena.ite(condition, a, b)

    def turned(self, fold: ProofTerm) -> Iterator[ProofTerm]:
        """The same function at other parameters with, it seems, the same body: a product of like factors has
        no order of its own. Found by swapping two of the symbols that the parameters are made of."""
        found = self.bodies[fold]
        symbols = [n for n in walk(fold.args[1:-1]) if n.op == "symbol" and n.sort == "Int"]
        for a, b in itertools.combinations(symbols, 2):
            swap = {a: b, b: a}
            template, holes = _Abstraction(self.arena, found.position).of(self.substitute(found.body, swap))
            if template != found.prefix.body:
                continue
            given = [self.arena.substitute(hole, swap) for hole in holes]
            rest = fold.args[1 + len(given) :]
            other = self.arena.app(found.prefix.name, fold.sort, (*given, *rest))
            if other is not fold:
                self.bodies.setdefault(other, Body(found.prefix, found.body, found.position))
                yield other

    def occurring(self, roots: Iterable[ProofTerm]) -> list[ProofTerm]:
        """The fold nodes inside."""
        return [node for node in walk(roots) if node in self.bodies]

    def steps(self, folds: Iterable[ProofTerm]) -> Iterator[tuple[ProofTerm, ProofTerm]]:
        """(fold, u): where the recurrence F(u+1) = join(F(u), body(u)) is needed. One step below each
        occurrence, and every step between two that lie a constant apart."""
        wanted: dict[tuple[ProofTerm, ...], dict[ProofTerm, None]] = {}  # in order: scripts are made again
        sources: dict[tuple[ProofTerm, ...], ProofTerm] = {}
        for fold in folds:
            *_, extent = fold.args
            key = (fold.args[0], *fold.args[1:-1])
            wanted.setdefault(key, {})[extent] = None
            sources.setdefault(key, fold)
        for key, extents in wanted.items():
            points = {self.arena.shift(extent, -1) for extent in extents}
            for extent in extents:
                if extent.constant is not None and extent.constant <= _NEAR:
                    points.update(self.arena.number(u, "Int") for u in range(int(extent.constant)))
            for low in extents:
                for high in extents:
                    gap = self.arena.sub(high, low).constant
                    if gap is not None and 0 < gap <= _NEAR:
                        points.update(self.arena.shift(low, step) for step in range(int(gap)))
            for point in sorted(points, key=lambda node: node.number):
                value = point.constant
                if value is None or value >= 0:
                    yield sources[key], point

    def restarts(self, folds: Iterable[ProofTerm]) -> Iterator[tuple[ProofTerm, ProofTerm]]:
        """Pairs of maxima (or minima) that differ in their start alone."""
        groups: dict[tuple[ProofTerm, ...], list[ProofTerm]] = {}
        for fold in dict.fromkeys(folds):
            if self.bodies[fold].prefix.kind in ("max", "min"):
                groups.setdefault((*fold.args[:-2], fold.args[-1]), []).append(fold)
        for group in groups.values():
            yield from itertools.permutations(group, 2)


@dataclass(frozen=True)
class _Mask:
    """The positions from all of `starts` on and below all of `ends`; `body` is what is there, 0 elsewhere."""

    starts: list[ProofTerm]
    ends: list[ProofTerm]
    body: ProofTerm


def _mask(arena: Arena, position: ProofTerm, body: ProofTerm) -> _Mask | None:
    """The mask of one product with a factor that is 0 outside of bounds of the position, if it has one."""
    if len(monomials(body)) != 1:
        return None
    ((atoms, coefficient),) = monomials(body)
    for place, atom in enumerate(atoms):
        if atom.op != "ite":
            continue
        condition, chosen, other = atom.args
        if chosen.constant == 0:
            condition, chosen, other = arena.negate(condition), other, chosen
        if other.constant != 0:
            continue
        sides: dict[int, list[ProofTerm]] = {1: [], -1: [], 0: []}
        for part in condition.args if condition.op == "and" else (condition,):
            side, bound = _bound(arena, position, part)
            sides[side].append(bound)
        if sides[1] or sides[-1]:
            factors = arena.poly({(*atoms[:place], *atoms[place + 1 :]): coefficient}, body.sort)
            kept = arena.ite(arena.all(sides[0]), chosen, other)
            return _Mask(sides[1], sides[-1], arena.mul(factors, kept))
    return None


def _bound(arena: Arena, position: ProofTerm, condition: ProofTerm) -> tuple[int, ProofTerm]:
    """(1, the first position) or (-1, the one behind the last) where the condition holds; else 0 and it."""
    if condition.op == "ge0" and condition.args[0].sort == "Int":
        terms = dict(monomials(condition.args[0]))
        side = terms.pop((position,), 0)
        rest = arena.poly(terms, "Int")
        if side in (1, -1) and position not in set(walk((rest,))):
            return int(side), arena.scale(rest, -1) if side == 1 else arena.shift(rest, 1)
    return 0, condition


class _Abstraction:
    """Writes a body as text over k and holes, collecting what fills the holes."""

    def __init__(self, arena: Arena, position: ProofTerm) -> None:
        self.arena, self.position = arena, position
        self.inside: set[ProofTerm] = set()

    def of(self, body: ProofTerm) -> tuple[str, tuple[ProofTerm, ...]]:
        """The template with p0, p1, ... and their nodes."""
        for node in walk((body,)):
            if node is self.position or any(part in self.inside for part in node.parts):
                self.inside.add(node)
        written, holes = self._write(body)
        pieces = written.split(_HOLE)
        numbered = "".join(piece + (f"p{i}" if i < len(holes) else "") for i, piece in enumerate(pieces))
        return numbered, holes

    def _write(self, node: ProofTerm, argument: bool = False) -> tuple[str, tuple[ProofTerm, ...]]:
        if node is self.position:
            return "k", ()
        if node not in self.inside:
            value = node.constant
            if not argument and value is not None:
                return constant(value, node.sort), ()
            return (node.op, ()) if node.op in ("true", "false") else (_HOLE, (node,))
        match node.op:
            case "poly":
                return self._polynomial(node)
            case "app":
                parts = [self._write(part, argument=True) for part in node.args[1:]]
                return _joined(name(node.args[0]), parts)
            case "ge0":
                return _joined(">=", [self._write(node.args[0]), (constant(0, node.args[0].sort), ())])
            case "eq0":
                sides = (node.args[0], self.arena.scale(node.args[0], -1))
                self.inside.update(sides)
                side = min(map(self._write, sides), key=lambda written: written[0])
                return _joined("=", [side, (constant(0, node.args[0].sort), ())])
            case "and" | "or" | "same" | "product":
                head = {"same": "=", "product": "*"}.get(node.op, node.op)
                return _joined(head, sorted(map(self._write, node.args), key=_order))
        return _joined(node.op, [self._write(part) for part in node.args])

    def _polynomial(self, node: ProofTerm) -> tuple[str, tuple[ProofTerm, ...]]:
        outside, written = {}, []
        for atoms, coefficient in monomials(node):
            if not any(atom in self.inside for atom in atoms):
                outside[atoms] = coefficient
                continue
            factors = [self._write(atom) for atom in atoms if atom in self.inside]
            factors.sort(key=_order)
            free = tuple(atom for atom in atoms if atom not in self.inside)
            if free:
                factors.append((_HOLE, (self.arena.poly({free: 1}, node.sort),)))
            if coefficient != 1:
                factors.insert(0, (constant(coefficient, node.sort), ()))
            written.append(factors[0] if len(factors) == 1 else _joined("*", factors))
        written.sort(key=_order)
        if outside:
            written.append(self._write(self.arena.poly(outside, node.sort)))
        return written[0] if len(written) == 1 else _joined("+", written)


def _order(written: tuple[str, tuple[ProofTerm, ...]]) -> tuple[str, list[str]]:
    """Parts that read alike are ordered by what fills their holes."""
    return written[0], [text(hole) for hole in written[1]]


def _joined(head: str, parts: list[tuple[str, tuple[ProofTerm, ...]]]) -> tuple[str, tuple[ProofTerm, ...]]:
    joined = f"({' '.join((head, *(part for part, _ in parts)))})"
    return joined, tuple(hole for _, holes in parts for hole in holes)
