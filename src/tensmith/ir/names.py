"""Names that nothing else has."""

from __future__ import annotations


def take(base: str, taken: set[str], first: int = 2) -> str:
    """`base`, or else the first of base_2, base_3... that is not taken; it is taken afterwards."""
    name, count = base, first
    while name in taken:
        name, count = f"{base}_{count}", count + 1
    taken.add(name)
    return name
