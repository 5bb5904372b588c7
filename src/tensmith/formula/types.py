"""Machine types of scalars, by TensIR's names: one class for loops, expressions and values of programs."""

from __future__ import annotations

from typing import Literal

_KINDS: dict[str, Literal["int", "float"]] = {"i": "int", "u": "int", "f": "float", "b": "float"}


class MachineType(str):
    """The name of a machine type, and what it says: "i32", "u8", "bf16", "bool"; "int" is Python's unbounded
    integer, whose `bits` are None; "" is no type."""

    __slots__ = ("bits", "kind", "signed")
    __match_args__ = ("kind", "bits", "signed")
    kind: Literal["int", "float", "bool", ""]
    bits: int | None
    signed: bool

    def __new__(cls, name: str) -> MachineType:
        """The type of a name."""
        made = super().__new__(cls, name)
        digits = name.lstrip("abfiu")
        made.bits = 8 if name == "bool" else int(digits) if digits.isdigit() else None
        made.kind = _KINDS.get(name[:1], "") if name != "bool" else "bool"
        made.signed = made.kind in ("int", "float") and name[:1] != "u"
        return made

    @property
    def limits(self) -> tuple[int, int] | None:
        """The least and the greatest integer of the type; None where there are none."""
        if self.kind != "int" or self.bits is None:
            return None
        least = -(1 << self.bits - 1) if self.signed else 0
        return least, least + (1 << self.bits) - 1

    def wrapped(self, value: int) -> int:
        """An integer modulo 2^bits, as one of the type."""
        if self.limits is None:
            return value
        least, greatest = self.limits
        return (value - least) % (greatest - least + 1) + least

    def holds(self, other: MachineType) -> bool:
        """Whether every value of the other type is one of this."""
        if other.kind == "bool":
            return True
        if self.kind != other.kind:
            return False
        if self.kind == "float":
            return (self.bits or 0) >= (other.bits or 0)
        if self.limits is None or other.limits is None:
            return self.bits is None
        return self.limits[0] <= other.limits[0] and other.limits[1] <= self.limits[1]


I32, I64, F32, F64 = map(MachineType, ("i32", "i64", "f32", "f64"))
INT, BOOL, UNTYPED = map(MachineType, ("int", "bool", ""))
