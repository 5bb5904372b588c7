"""Why a function cannot be lifted: where, what stands in the way, and what to change."""

from __future__ import annotations

from tensmith.errors import TensmithError
from tensmith.formula.expr import NOWHERE, SourcePosition


class Refusal(TensmithError):
    """One function cannot be lifted; the others of its file may be."""

    def __init__(self, reason: str, position: SourcePosition = NOWHERE, function: str = "") -> None:
        super().__init__(reason)
        self.reason, self.position, self.function = reason, position, function
