"""Names that nothing else has, and names of sizes."""

from __future__ import annotations

import re


def size_symbol(name: str) -> str:
    """The variable of a size that a file calls `name`: that name as an identifier."""
    base = re.sub(r"[^\w.]", "_", name, flags=re.ASCII)
    return base if base[0].isalpha() or base[0] == "_" else f"d{base}"


def take(base: str, taken: set[str], first: int = 2) -> str:
    """`base`, or else the first of base_2, base_3... that is not taken; it is taken afterwards."""
    name, count = base, first
    while name in taken:
        name, count = f"{base}_{count}", count + 1
    taken.add(name)
    return name
