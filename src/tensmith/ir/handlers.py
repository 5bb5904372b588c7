"""What a room does with each op: functions by op or by family of ops.

    flows = Handlers[Rule]()

    @flows("conv", Reduction)
    def frozen(labels, node): ...

    flows.find(node)      # the function of the node's op, else of the nearest family that it belongs to

This is the one way to treat ops differently; a new op, or a family, is one more registration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from tensmith.ir.op import Node, Op

Handler = TypeVar("Handler")


class Handlers(Generic[Handler]):
    """Functions by op name or by class of ops. Call it to register, `find` to ask."""

    def __init__(self) -> None:
        self._ops: dict[str, Handler] = {}
        self._families: dict[type[Op], Handler] = {}

    def __call__(self, *keys: str | type[Op]) -> Callable[[Handler], Handler]:
        """Registers a function for some ops and families."""

        def register(handler: Handler) -> Handler:
            for key in keys:
                if isinstance(key, str):
                    self._ops[key] = handler
                else:
                    self._families[key] = handler
            return handler

        return register

    def find(self, node: Node) -> Handler | None:
        """The function of a node's op; None if there is none, and for nodes that TensIR does not know."""
        if node.opaque is not None:
            return None
        if node.op in self._ops:
            return self._ops[node.op]
        families = (self._families[base] for base in type(node.definition).__mro__ if base in self._families)
        return next(families, None)

    def has(self, node: Node) -> bool:
        """Whether there is a function for a node."""
        return self.find(node) is not None
