"""Sums in place: a residual that nobody reads afterwards lends its memory to what it is added to.

Memory that was just read is in the caches; other memory would have to come there first, to be overwritten.
"""

from __future__ import annotations

from dataclasses import replace

from tensmith.backend.native.layout import Action, Layout
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.buffer import NO_HALO, Halo


def add_in_place(layout: Layout) -> None:
    """Makes residuals the parents of their sums where kernels allow it and both lie alike."""
    touched = layout.touched()
    for phase, actions in enumerate(layout.phases):
        pair = _pair(layout, [layout.actions[index] for index in actions])
        if pair is None:
            continue
        residual, sums = pair
        if touched[residual][1] == phase == touched[sums][0] and _alike(layout, residual, sums):
            layout.parent[sums] = residual, 0
            halos = (layout.halo.get(root, NO_HALO) for root in pair)
            layout.halo[residual] = Halo.union(*halos)
            touched[residual] = touched[residual][0], touched[sums][1]


def _pair(layout: Layout, actions: list[Action]) -> tuple[str, str] | None:
    """The roots of a residual and its sums, if that is what all these kernels add, each in its own place."""
    roots = set()
    for action in actions:
        work, reads = action.work, action.reads
        if not (isinstance(work, Kernel) and work.adds_in_place and len(reads) == 2):
            return None
        (x, _), (residual, first), (sums, begin) = map(layout.root, (*reads, action.writes))
        if first != begin or x == residual or _corner(layout, reads[1]) != _corner(layout, action.writes):
            return None
        roots.add((residual, sums))
    return roots.pop() if len(roots) == 1 else None


def _corner(layout: Layout, value: str) -> tuple[int, int]:
    """Rows and columns from the corner of the root to that of the windows that a value lies in."""
    top = left = 0
    while (inner := layout.window(value)) is not None:
        value, window = layout.windows[inner]
        top, left = top + window.top, left + window.left
    return top, left


def _alike(layout: Layout, one: str, other: str) -> bool:
    """Whether two roots are of one size, in the same blocks, and in the arena, where halos can grow."""
    outside = {one, other} & (layout.tight | layout.tensors)
    same = layout.images[one].batch == layout.images[other].batch
    buffers = (replace(layout.buffer(root), halo=NO_HALO) for root in (one, other))
    return same and not outside and next(buffers) == next(buffers)
