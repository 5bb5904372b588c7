"""Where the definitions are registered, and what several of them say."""

from __future__ import annotations

from functools import partial

from tensmith.frontend.onnx_body import Bodies, OperatorBody

FLOATS = ("f16", "f32", "f64")
MOST_FLOATS = ("f16", "f32")
MICROSOFT = "com.microsoft"

BODIES = Bodies()
operator = partial(BODIES.operator, domain=MICROSOFT)


def plus(b: OperatorBody, x: str, other: str) -> str:
    """x + other, where there is one."""
    return b.add("Add", x, other) if other else x
