"""The source's parameters one by one: scalars and arrays, fields of structs under "parameter.field"."""

from __future__ import annotations

from tensmith.lifting.loops import Array


def axes_of(type_: Array) -> int:
    """How many lengths an array is passed with: one for flat memory, its rank for nested."""
    return 1 if type_.memory == "flat" else type_.rank


def length_symbol(array: str, axis: int) -> str:
    """The symbol of polynomials that stands for a length."""
    return f"len({array}, {axis})"
