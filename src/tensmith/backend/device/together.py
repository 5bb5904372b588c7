"""One group of threads an element, its long reduction shared among them: means, norms, rows times vectors."""

from __future__ import annotations

from collections.abc import Mapping

from tensmith.backend.device.fusion import Group
from tensmith.backend.device.kernel import DeviceKernel, KernelText, block, count

_THREADS = 64
# Reductions from this length on are worth a group.
SHORTEST = 64


def together(group: Group, stored: Mapping[str, str]) -> DeviceKernel:
    """The kernel of a group with a fold: each thread folds every 64th part, then pairs are folded."""
    assert group.fold is not None
    frame = KernelText(group, stored)
    length = count(group.fold.axes)
    own = [*frame.indices(group.fold.axes, "k"), *frame.folded("own")]
    lines = [
        f"LOCAL {frame.fold_type} part[{_THREADS}];",
        *frame.indices(group.axes, "GROUP"),
        f"{frame.fold_type} own = {frame.fold_start};",
        *block(f"for (int k = THREAD; k < {length}; k += {_THREADS})", own),
        "part[THREAD] = own;",
        "BARRIER;",
        *block(
            f"for (int n = {_THREADS // 2}; n > 0; n /= 2)",
            [
                f"if (THREAD < n) {frame.joined('part[THREAD]', 'part[THREAD + n]')}",
                "BARRIER;",
            ],
        ),
        *block("if (THREAD == 0)", [f"const {frame.fold_type} folded = part[0];", *frame.members()]),
    ]
    return frame.kernel("together", lines, count(group.axes), _THREADS)
