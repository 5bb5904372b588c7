"""Which positions of which axes must go together: labels on axes, and classes of labels that are one channel.

Every position along an axis that may shrink carries a label (an integer). Where an op makes two positions
the same channel (a residual add, a batch norm's scale, the input of the next convolution), their labels are
joined; where something needs an axis as it is (an input or output of the program, an op without a rule), its
labels are frozen. A class of joined labels is one channel: it is removed everywhere or nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tensmith.formula.arith import Array
from tensmith.ir import Node, Program
from tensmith.ir.handlers import Handlers

# Labels of the positions of one axis, int64 [size]; None where the axis keeps its size.
Labels: TypeAlias = "Array | None"
# A value (or constant) and one of its axes.
Place: TypeAlias = tuple[str, int]
# Sets the labels of a node's outputs from those of its inputs.
Rule: TypeAlias = "Callable[[AxisLabels, Node], None]"

# Of an axis that is split, how many parts are tried beside the likeliest one.
_MOST_PASSED = 2

# How labels pass through ops. An op without a rule freezes what it reads.
flows = Handlers[Rule]()


@dataclass(frozen=True)
class End:
    """Where channels start (rows of a layer's weights) or end (what a layer contracts): labels [size]."""

    site: str
    labels: Array


class AxisLabels:
    """The labels of every value and constant of a program, after running the rules over it.

    passed: of outputs of reshapes that split an axis, how many of its parts channels do not lie along, of the
    likeliest ones.
    """

    def __init__(self, program: Program, passed: Mapping[str, int] | None = None) -> None:
        self.program, self._passed = program, passed or {}
        self._split: dict[str, Array] = {}
        self.producers: list[End] = []
        self.consumers: list[End] = []
        self._labels: dict[str, list[Labels]] = {}
        self._fixed: set[Place] = set()
        self._parent: list[int] = []
        self._frozen: list[Array] = []
        for node in program.nodes:
            rule = None if self._unknown(node) else flows.find(node)
            if rule is None:
                self.stop(node)
            else:
                rule(self, node)
                self._settle(node)
        for name in program.outputs:
            self.freeze(name)
        self._classes = np.array([self._root(label) for label in range(len(self._parent))], np.int64)

    @classmethod
    def best(cls, program: Program) -> AxisLabels:
        """With channels along another part of an axis that is split, where none of the first may go: where
        one is queries, one keys and one values."""
        labels, passed = cls(program), dict[str, int]()
        for _ in range(_MOST_PASSED):
            if not (stuck := labels._stuck()):
                break
            passed |= {name: passed.get(name, 0) + 1 for name in stuck}
            labels = cls(program, passed)
        return labels

    def _settle(self, node: Node) -> None:
        """What a node read of constants without labelling it stays as it is."""
        for name in node.inputs:
            if name in self.program.constants:
                axes = range(self.rank(name))
                self._fixed.update((name, axis) for axis in axes if self.of((name, axis)) is None)

    def _unknown(self, node: Node) -> bool:
        facts = self.program.facts
        names = [name for name in (*node.inputs, *node.outputs) if name]
        return node.opaque is not None or any(
            (type_ := facts[name].type) is None or type_.shape is None for name in names
        )

    # Reading

    def rank(self, value: str) -> int:
        """Number of axes."""
        return len(self.program.type(value).dims)

    def size(self, place: Place) -> int | None:
        """The size of an axis, None if symbolic."""
        size = self.program.type(place[0]).dims[place[1]]
        return size if isinstance(size, int) else None

    def of(self, place: Place) -> Labels:
        """The labels of an axis."""
        labels = self._labels.get(place[0])
        return None if labels is None else labels[place[1]]

    @property
    def count(self) -> int:
        """How many labels there are."""
        return len(self._parent)

    def roots(self, labels: Array) -> Array:
        """The class of each label."""
        return np.asarray(self._classes[labels])

    def _stuck(self) -> set[str]:
        """The outputs of reshapes that split an axis into channels none of which may go."""
        frozen = self.frozen_roots()
        return {name for name, own in self._split.items() if np.isin(self.roots(own), frozen).all()}

    def frozen_roots(self) -> Array:
        """Classes with a frozen label."""
        return np.unique(self.roots(np.concatenate(self._frozen))) if self._frozen else np.zeros(0, np.int64)

    # Writing

    def fresh(self, count: int | None) -> Labels:
        """New labels for an axis; None for a size that is symbolic or cannot shrink."""
        return None if count is None or count < 2 else self.new(count)

    def new(self, count: int, frozen: bool = False) -> Array:
        """New labels, joined with none."""
        start = len(self._parent)
        self._parent.extend(range(start, start + count))
        found = np.arange(start, start + count)
        self._frozen += [found] if frozen else []
        return found

    def set(self, value: str, labels: Sequence[Labels]) -> None:
        """The labels of a node's output. The one channel of an axis of size 1 stays, so that no axis is left
        empty."""
        if not value:
            return
        own = self._labels[value] = [*labels]
        for axis, label in enumerate(labels):
            if label is not None and self.size((value, axis)) == 1:
                self._frozen.append(label)
                own[axis] = None

    def same(self, places: Iterable[Place], labels: Labels = None) -> Labels:
        """Declares axes to be one axis (axes of size 1 broadcast) and gives its labels, None if it is fixed.

        Constants without labels take those of the others. If an axis is fixed, all are frozen.
        """
        places = [place for place in places if place[0] and self.size(place) != 1]
        given = [found for place in places if (found := self.of(place)) is not None]
        given += [] if labels is None else [labels]
        free = [p for p in places if self.of(p) is None and p[0] in self.program.constants]
        fixed = any(self.of(p) is None and p not in free for p in places) or any(
            p in self._fixed for p in free
        )
        if fixed or not given or len({len(found) for found in given}) > 1:
            self._frozen += given
            self._fixed.update(free)
            return None
        for other in given[1:]:
            self.join(given[0], other)
        for name, axis in free:
            self._labels.setdefault(name, [None] * self.rank(name))[axis] = given[0]
        return given[0]

    def join(self, a: Array, b: Array) -> None:
        """Declares the positions of two axes to be the same, one by one."""
        for left, right in zip(a.tolist(), b.tolist()):
            roots = sorted((self._root(left), self._root(right)))
            self._parent[roots[1]] = roots[0]

    def split(self, value: str, labels: Array) -> tuple[int, Array]:
        """(the axis along which channels lie where one axis becomes those of `labels`, their labels).

        The largest but the last one first, as heads are; all positions of a head are one channel.
        """
        *outer, last = range(labels.ndim)
        likely = [*sorted(outer, key=lambda axis: (-labels.shape[axis], -axis)), last]
        axis = likely[min(self._passed.get(value, 0), last)]
        first, *others = np.moveaxis(labels, axis, -1).reshape(-1, labels.shape[axis])
        self.join(np.tile(first, len(others)), np.ravel(others))
        if outer:
            self._split[value] = first
        return axis, first

    def freeze(self, value: str, axes: Iterable[int] | None = None) -> None:
        """Keeps axes of a value (all by default) as they are."""
        if not value or self.program.facts[value].type is None or self.program.type(value).shape is None:
            return
        for axis in range(self.rank(value)) if axes is None else axes:
            labels = self.of((value, axis))
            if labels is not None:
                self._frozen.append(labels)
            elif value in self.program.constants:
                self._fixed.add((value, axis))

    def stop(self, node: Node) -> None:
        """The op needs all it reads as it is, and what it gives keeps its size."""
        for name in node.inputs:
            self.freeze(name)

    def _root(self, label: int) -> int:
        parent = self._parent
        while parent[label] != label:
            parent[label] = label = parent[parent[label]]
        return label
