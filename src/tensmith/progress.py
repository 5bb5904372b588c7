"""How work that takes long says what it is at: a function of a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str], None]


def silent(sentence: str) -> None:
    """For whoever does not ask."""
