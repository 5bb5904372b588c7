"""What every routine offers: its C text for given buffers. Routines are the cheap neighbours of kernels.

The C function of a routine, for one image:

    static void NAME(const float *const *in, const float *constants, float *out, void *scratch)
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields

from tensmith.ctext.dialect import PLAIN_C
from tensmith.ctext.names import Names
from tensmith.ctext.scalar import CUnit
from tensmith.kernel.buffer import Buffer

# What a routine's name is followed by at most.
_SAID = 4

_ARGUMENTS = "const float *const *in, const float *constants, float *out, void *scratch"


@dataclass(frozen=True)
class Routine(ABC):
    """One cheap step over images in memory."""

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch memory it uses, aligned to 64."""
        return 0

    def takes_planes(self, read: int, written: int) -> bool:
        """Whether it also works on floats as planes; the widths are those of what it reads and writes."""
        return False

    @property
    def takes_channels_last(self) -> bool:
        """Whether it also works on bytes whose channels, whole vectors of them, lie beside each other."""
        return False

    @abstractmethod
    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """C text that defines the static function `name` for these buffers."""

    @staticmethod
    def function(name: str, says: str, body: str, before: str = "") -> str:
        """The C function `name`, which does what it `says` by `body`, behind what it needs."""
        return f"""\
{before}/* {says} */
static void {name}({_ARGUMENTS})
{{
    (void)in; (void)constants; (void)scratch;
{body}}}
"""

    @staticmethod
    def unit(name: str) -> CUnit:
        """What such a function needs to print formulas; helpers begin with its name."""
        names = Names(("in", "constants", "out", "scratch"))
        no_symbols = dict[str, str]().__getitem__
        return CUnit(names, no_symbols, {}, {}, dialect=PLAIN_C, checked=False, prefix=f"{name}_")

    def __str__(self) -> str:
        """Its name and what it says of itself in numbers and words, as kernels are called."""
        name = re.sub("(?<!^)(?=[A-Z])", "_", type(self).__name__.removesuffix("Routine")).lower()
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        said = [f"{key} {value}" for key, value in values if type(value) in (int, str) and value != ""]
        return f"{name} ({', '.join(said[:_SAID])})" if said else name
