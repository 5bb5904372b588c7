"""Which elements one kernel computes: those of equal axes of which only the last is read elsewhere.

    sums = conv(x, w); biased = sums + b; total = biased + skip; y = max(total, 0)

is one group. Growing it backwards from what is stored, a value joins if everybody who reads it is inside and
reads it at their own position, outside reductions; one reduction a group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tensmith.backend.device.definitions import Axes
from tensmith.backend.device.reductions import DeviceReduction, Element
from tensmith.formula.expr import Expr, substitute
from tensmith.formula.poly import Poly
from tensmith.formula.walk import reads


@dataclass(frozen=True, eq=False)
class Group:
    """Elements over common axes, in order; the last one is stored, at most one has a fold."""

    axes: Axes
    members: tuple[Element, ...]

    @property
    def root(self) -> Element:
        """What is stored."""
        return self.members[-1]

    @property
    def folding(self) -> Element | None:
        """The member with a fold."""
        return next((member for member in self.members if member.fold is not None), None)

    @property
    def fold(self) -> DeviceReduction | None:
        """The one reduction."""
        return self.folding.fold if self.folding is not None else None

    def with_fold(self, body: Expr) -> Group:
        """The group with another expression to reduce."""
        return Group(
            self.axes, tuple(replace(m, fold=m.fold and replace(m.fold, body=body)) for m in self.members)
        )


def fuse(elements: tuple[Element, ...], outputs: tuple[str, ...]) -> list[Group]:
    """The groups in order of computing."""
    readers = _readers(elements)
    group_of: dict[str, int] = {}
    members: dict[int, list[Element]] = {}
    for number, element in reversed(list(enumerate(elements))):
        home = None if element.value in outputs else _home(element, readers, group_of)
        if home is None or not _fits(element, members[home], readers):
            home, members[number] = number, []
        group_of[element.value] = home
        members[home].insert(0, element)
    return [_group(members[number]) for number in sorted(members)]


def _readers(elements: tuple[Element, ...]) -> Mapping[str, list[Element]]:
    """Value -> the elements that read it."""
    found: dict[str, list[Element]] = {}
    for element in elements:
        for name in element.read:
            found.setdefault(name, []).append(element)
    return found


def _home(element: Element, readers: Mapping[str, list[Element]], group_of: Mapping[str, int]) -> int | None:
    """The one group of all readers."""
    homes = {group_of[reader.value] for reader in readers.get(element.value, ())}
    return homes.pop() if len(homes) == 1 else None


def _fits(element: Element, members: list[Element], readers: Mapping[str, list[Element]]) -> bool:
    sizes = [size for _, size in element.axes]
    if sizes != [size for _, size in members[-1].axes]:
        return False
    if element.fold is not None and any(member.fold is not None for member in members):
        return False
    return all(_reads_own_position(reader, element.value) for reader in readers[element.value])


def _reads_own_position(reader: Element, value: str) -> bool:
    inside = reader.fold is not None and any(read.tensor == value for read in reads(reader.fold.body))
    own = (reader.position,)
    return not inside and all(read.indices == own for read in reads(reader.body) if read.tensor == value)


def _group(members: list[Element]) -> Group:
    """The members over the axes of the last one."""
    axes = members[-1].axes
    return Group(axes, tuple(_renamed(member, axes) for member in members))


def _renamed(element: Element, axes: Axes) -> Element:
    values = {old: Poly.symbol(new) for (old, _), (new, _) in zip(element.axes, axes)}
    return _over(element, axes, values)


def _over(element: Element, axes: Axes, values: Mapping[str, Poly]) -> Element:
    fold = element.fold and replace(element.fold, body=substitute(element.fold.body, values))
    return replace(element, axes=axes, body=substitute(element.body, values), fold=fold)


def split_axis(group: Group, axis: str, names: tuple[str, str], size: int) -> Group:
    """The group with one axis as two, axis = names[0] * size + names[1]."""
    outer, inner = names
    axes = tuple(
        part
        for name, extent in group.axes
        for part in ([(outer, extent // size), (inner, size)] if name == axis else [(name, extent)])
    )
    values = {axis: Poly.symbol(outer) * size + Poly.symbol(inner)}
    return Group(axes, tuple(_over(member, axes, values) for member in group.members))
