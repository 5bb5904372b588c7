"""Types of a Python function's variables, found from annotations and from use.

A *cell* stands for every variable and expression. What has subscripts is an array; cells that are added,
compared or assigned to one another are related. A parameter without annotation is an integer unless a float
is demanded of it: by a division, a function of math, a float literal, through related cells. Counts (bounds
of ranges, subscripts) are pinned to integers and pass no demand on. Kinds of everything else then follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from tensmith.formula.expr import NOWHERE, SourcePosition
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.python.kinds import (
    DTYPES,
    PY_FLOAT,
    PY_INT,
    AnyKind,
    ArrayKind,
    NumberKind,
    join,
)

_DEEPEST = 6
_MOST_ROUNDS = 200


@dataclass(eq=False)
class Cell:
    """What is known of a variable or an expression. `element` is set for arrays; the rest is of numbers."""

    position: SourcePosition = NOWHERE
    element: Cell | None = None
    kind: NumberKind | None = None
    fixed: bool = False
    parameter: bool = False
    pinned: bool = False
    demanded: bool = False
    numpy: bool = False  # an array of NumPy, or an element of one
    taken: bool = False  # nobody says of what type the elements of this array of NumPy are
    listed: bool = False  # made by a display or comprehension, or annotated as a list
    leaf: NumberKind | None = None  # of an array of any rank: the kind of its numbers
    same: Cell | None = None  # merged into
    related: list[Cell] = field(default_factory=list)
    counts_from: list[Cell] = field(default_factory=list)  # integers too, where this is pinned

    def root(self) -> Cell:
        """The cell that this one was merged into."""
        cell = self
        while cell.same is not None:
            cell = cell.same
        return cell

    def elements(self) -> Iterator[Cell]:
        """The cell of its elements, that of theirs, and so on; Refusal of a list that holds itself."""
        inner, depth = self.root().element, 0
        while inner is not None:
            if depth > 2 * _DEEPEST:
                raise Refusal("a list holds itself; use lists of numbers", self.position)
            yield inner.root()
            inner, depth = inner.root().element, depth + 1


Rule = Callable[[list[NumberKind]], NumberKind]


class Cells:
    """The constraints of one function, and their solution."""

    def __init__(self) -> None:
        self.all: list[Cell] = []
        self.flows: list[tuple[Cell, Cell]] = []
        self.rules: list[tuple[Cell, list[Cell], Rule]] = []
        self.shapes: list[tuple[Cell, Cell]] = []

    def new(self, position: SourcePosition = NOWHERE, kind: NumberKind | None = None) -> Cell:
        cell = Cell(position, kind=kind, fixed=kind is not None)
        self.all.append(cell)
        return cell

    def array(self, position: SourcePosition, numpy: bool = False, element: Cell | None = None) -> Cell:
        cell = self.new(position)
        cell.element, cell.numpy = element or self.new(position), numpy
        return cell

    def element(self, cell: Cell) -> Cell:
        """The cell of its elements; the cell becomes an array."""
        root = cell.root()
        if root.element is None:
            if root.fixed:
                raise Refusal("a number is used as a list; annotate it as a list if it is one", cell.position)
            root.element = self.new(cell.position)
            root.element.parameter, root.element.numpy = root.parameter, root.numpy
        return root.element

    def relate(self, *cells: Cell) -> None:
        """Floats demanded of one are demanded of all."""
        for left, right in pairwise(cells):
            left.related.append(right)
            right.related.append(left)

    def flow(self, source: Cell, target: Cell) -> None:
        """The target may hold what the source holds; lists are shared."""
        self.flows.append((source, target))
        self.relate(source, target)
        target.counts_from.append(source)

    def rule(self, result: Cell, operands: list[Cell], rule: Rule) -> Cell:
        """The result's kind follows from the operands' kinds."""
        self.rules.append((result, operands, rule))
        return result

    def alike(self, model: Cell, other: Cell) -> None:
        """Both have as many subscripts; their numbers may differ in kind."""
        self.shapes.append((model, other))

    # Solution.

    def solve(self) -> None:
        """Finds arrays, then counts, then floats, then every kind."""
        self._share()
        self._fix_leaves()
        self._spread_pins()
        self._spread_demand()
        self._spread_numpy()
        for cell in self.all:
            root = cell.root()
            if root.parameter and root.element is None and root.kind is None:
                real = root.demanded and not root.pinned
                root.kind = PY_FLOAT if real else PY_INT
                if root.numpy:
                    root.kind, root.fixed, root.taken = DTYPES["float64" if real else "int64"], True, True
        self._spread_kinds()

    def _share(self) -> None:
        for _ in range(_MOST_ROUNDS):
            before = len(self.all)
            changed = False
            for source, target in self.flows:
                left, right = source.root(), target.root()
                if left is not right and (left.element is not None or right.element is not None):
                    self.merge(left, right)
                    changed = True
            for model, other in self.shapes:
                while (inner := model.root().element) is not None:
                    model, other = inner, self.element(other)
            if not changed and len(self.all) == before:
                return

    def merge(self, left: Cell, right: Cell, depth: int = 0) -> None:
        """Makes two cells one; both are arrays, or become arrays."""
        left, right = left.root(), right.root()
        if left is right:
            return
        for cell, other in ((left, right), (right, left)):
            if other.element is not None and cell.element is None and cell.fixed:
                raise Refusal(
                    "a list is used where a number is, or the other way round; use two names", other.position
                )
        if depth > _DEEPEST:
            raise Refusal("a list holds itself; use lists of numbers", left.position)
        right.same = left
        left.parameter |= right.parameter
        left.leaf = left.leaf or right.leaf
        left.numpy |= right.numpy
        left.listed |= right.listed
        left.pinned |= right.pinned
        left.demanded |= right.demanded
        left.related += right.related
        left.counts_from += right.counts_from
        if right.fixed:
            left.kind, left.fixed = right.kind, True
        if left.element is None:
            left.element = right.element
        elif right.element is not None:
            self.merge(left.element, right.element, depth + 1)
        for inner in left.elements():
            inner.parameter |= left.parameter

    def _fix_leaves(self) -> None:
        for cell in self.all:
            root = cell.root()
            kind = root.leaf
            while kind is not None and root.element is not None:
                root = root.element.root()
            if kind is not None:
                root.kind, root.fixed = kind, True

    def _spread_pins(self) -> None:
        work = [cell.root() for cell in self.all if cell.root().pinned]
        while work:
            for source in work.pop().counts_from:
                root = source.root()
                if not root.pinned and not root.fixed and root.element is None:
                    root.pinned = True
                    work.append(root)

    def _spread_demand(self) -> None:
        roots = [cell.root() for cell in self.all]
        work = [root for root in roots if root.demanded or (root.kind and root.kind.scalar.kind == "float")]
        while work:
            for other in work.pop().related:
                root = other.root()
                if not (root.demanded or root.pinned or root.fixed or root.element is not None):
                    root.demanded = True
                    work.append(root)

    def _spread_numpy(self) -> None:
        for cell in self.all:
            numpy = cell.root().numpy
            for inner in cell.elements():
                inner.numpy = numpy = inner.numpy or numpy

    def _spread_kinds(self) -> None:
        for _ in range(_MOST_ROUNDS):
            changed = False
            for source, target in self.flows:
                changed |= self._join(target, source.root().kind)
            for result, operands, rule in self.rules:
                kinds = [operand.root().kind for operand in operands]
                if all(kind is not None for kind in kinds):
                    changed |= self._join(result, rule([kind for kind in kinds if kind is not None]))
            if not changed:
                return

    def _join(self, cell: Cell, kind: NumberKind | None) -> bool:
        root = cell.root()
        if kind is None or root.fixed or root.element is not None:
            return False
        joined = kind if root.kind is None else join(root.kind, kind)
        changed, root.kind = joined != root.kind, joined
        return changed

    def found(self, cell: Cell) -> AnyKind:
        """The solution for one cell."""
        root = cell.root()
        rank, numpy = 0, root.numpy
        if numpy and root.listed:
            raise Refusal(
                "a list is used as a NumPy array, or the other way round; use two names, or another function",
                root.position if root.position.line else cell.position,
            )
        while root.element is not None:
            root, rank = root.element.root(), rank + 1
            if rank > _DEEPEST:
                raise Refusal("a list holds itself; use lists of numbers", cell.position)
        kind = join(root.kind, PY_INT) if root.kind and root.kind.small else root.kind or PY_INT
        return ArrayKind(kind, rank, numpy, root.taken) if rank else kind


@dataclass(frozen=True)
class Types:
    """The solution: kinds of parameters (as passed), of the function's variables, and of expressions."""

    parameters: Mapping[str, AnyKind]
    variables: Mapping[str, AnyKind]
    expressions: Mapping[int, AnyKind]  # by id of the node


@dataclass
class TypeScope:
    """The variables of a function, or of a comprehension inside one."""

    variables: dict[str, Cell] = field(default_factory=dict)
    parameters: dict[str, Cell] = field(default_factory=dict)
    outer: TypeScope | None = None
    result: Cell | None = None
    results: dict[str, Cell] = field(default_factory=dict)  # of a tuple's values, by the names of `jumps`

    def find(self, name: str) -> Cell | None:
        return self.variables.get(name) or (self.outer.find(name) if self.outer else None)
