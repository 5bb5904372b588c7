"""One thread an element, which also folds by itself: elementwise groups, small windows."""

from __future__ import annotations

from collections.abc import Mapping

from tensmith.backend.device.fusion import Group
from tensmith.backend.device.kernel import DeviceKernel, KernelText, block, count

_THREADS = 64


def each(group: Group, stored: Mapping[str, str]) -> DeviceKernel:
    """The kernel of a group of any kind."""
    frame = KernelText(group, stored)
    size = count(group.axes)
    lines = [f"const int i = GROUP * {_THREADS} + THREAD;"]
    if size % _THREADS:
        lines.append(f"if (i >= {size}) return;")
    lines += frame.indices(group.axes, "i")
    if group.fold is not None:
        lines.append(f"{frame.fold_type} folded = {frame.fold_start};")
        loop = frame.folded("folded")
        for name, extent in reversed(group.fold.axes):
            k = frame.text.names[name]
            loop = block(f"for (int {k} = 0; {k} < {extent}; {k}++)", loop)
        lines += loop
    return frame.kernel("each", [*lines, *frame.members()], -(-size // _THREADS), _THREADS)
