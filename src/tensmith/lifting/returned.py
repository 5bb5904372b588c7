"""The names of values that are returned: "return" of one alone; "return.1", "return.2" of several.

They are no names of any source language, so none of a source's.
"""

from __future__ import annotations

_ALONE = "return"


def returned_name(place: int = 0) -> str:
    """What the value at a place among several is called, from 1 on; 0: one value alone."""
    return f"{_ALONE}.{place}" if place else _ALONE


def returned_place(name: str) -> int | None:
    """Which of several values that are returned a name is, from 1 on; 0: one alone; None: it is no such
    name."""
    head, _, place = name.partition(".")
    if head != _ALONE:
        return None
    return int(place) if place else 0
