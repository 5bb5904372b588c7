"""What becomes of syntax that no handler gives a meaning."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NoEffect:
    """It changes no value, for this reason; nothing inside is looked at."""

    why: str


@dataclass(frozen=True)
class RefusedSyntax:
    """It cannot be lifted: what stands in the way and what to write instead.

    Of a field of Python's syntax: refused unless it is empty.
    """

    why: str
