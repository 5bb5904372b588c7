"""What a lift assumes of its inputs: every sentence that is stated with a result, and what it excuses.

A front end, or whoever else assumes something, states it by calling one of the `Assumption`s below. Whoever
holds programs against sources asks for what is excused, never for words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property


class Excuse(Enum):
    """Where a program need not do what its source does."""

    DIVISION = auto()  # of a float by zero
    COMPLEX = auto()  # a result that is no real number
    DOMAIN = auto()  # a function outside of where it is defined
    OVERFLOW = auto()  # a number that its type does not hold
    NOT_FINITE = auto()  # NaN and infinities among the inputs
    ASSERTION = auto()  # an assertion of the source does not hold
    ALIASING = auto()  # one array under two names
    SHAPE = auto()  # rows of unequal lengths, other types of elements, absent arguments
    ROUNDING = auto()  # another rounding, another order of additions


@dataclass(frozen=True)
class Assumption:
    """A sentence, with {} where a name or place stands and {words} for more, and what it excuses."""

    template: str
    excuses: frozenset[Excuse]

    def __call__(self, *parts: object) -> str:
        return self.template.replace("{words}", "{}").format(*parts)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What matches the sentences that are this one."""
        words = re.escape(self.template).replace(r"\{\}", r"\S+").replace(r"\{words\}", "(?s:.+)")
        return re.compile(words)

    def matches(self, sentence: str) -> bool:
        """Whether a sentence is this one."""
        return self.pattern.fullmatch(sentence) is not None


_ALL: list[Assumption] = []


def _stated(template: str, *excuses: Excuse) -> Assumption:
    _ALL.append(Assumption(template, frozenset(excuses)))
    return _ALL[-1]


def excused(sentences: Iterable[str]) -> frozenset[Excuse]:
    """All that sentences excuse. Raises ValueError for one that is none of these."""
    found: set[Excuse] = set()
    for sentence in sentences:
        assumption = next((each for each in _ALL if each.matches(sentence)), None)
        if assumption is None:
            raise ValueError(f"nobody knows what this assumes: {sentence}")
        found |= assumption.excuses
    return frozenset(found)


# Of every function.
REALS = _stated("floats as reals: rounding and the order of additions may differ", Excuse.ROUNDING)
TRUNCATED = _stated("floats that become integers fit in their type", Excuse.OVERFLOW, Excuse.DOMAIN)
FLOAT_DIVISORS = _stated("no float is divided by 0, which raises in Python", Excuse.DIVISION)
INTEGERS = _stated("integers fit in 64 bits", Excuse.OVERFLOW)
REGROUPED = _stated(
    "sums and products of sizes and integer arguments fit in 64 bits in any order", Excuse.OVERFLOW
)
SIGNED = _stated("signed arithmetic of the source does not overflow", Excuse.OVERFLOW)
LOGARITHMS = _stated(
    "no log2 or log10 is a whole number: they are quotients of logarithms, which round below it",
    Excuse.ROUNDING,
)
MASKED = _stated(
    "elements that a sum leaves out, and their factors, are finite: they are multiplied by 0",
    Excuse.NOT_FINITE,
)
COMPARED = _stated("what a maximum or minimum compares is no NaN", Excuse.NOT_FINITE)

# Of C and C++.
POINTERS = _stated("pointers are not null", Excuse.SHAPE)
POINTEE = _stated("{} points to {}", Excuse.SHAPE)
REFERENCE = _stated("{}, a reference, is an array of one element", Excuse.SHAPE)
ROWS = _stated("the rows of {} have equal lengths", Excuse.SHAPE)
OUTSIDE = _stated("{} does not lie in memory that is written", Excuse.ALIASING)
ROWS_APART = _stated("the rows of {} do not overlap", Excuse.ALIASING)
CLAMPED = _stated("the bounds of clamp at line {} are in order", Excuse.DOMAIN)
FUSED = _stated("fma rounds once in the source", Excuse.ROUNDING)
SHIFTED = _stated(
    "shift counts are not negative, and less than the bits of what is shifted (C leaves others undefined)",
    Excuse.DOMAIN,
)
C_ASSERTION = _stated("at line {}, {words} (an assertion of the source)", Excuse.ASSERTION)

# Of Python.
LISTS = _stated("the rows of {} have equal length", Excuse.SHAPE)
PARTS = _stated("the rows of {} have {} elements", Excuse.SHAPE)
DEFAULTS = _stated("default values of parameters are not kept: pass every argument", Excuse.SHAPE)
ELEMENTS = _stated("{} is an array of {}", Excuse.SHAPE)
OTHER_NAME = _stated("{} is no other argument under a second name", Excuse.ALIASING)
ONE_LIST = _stated("no two rows of {} are one list", Excuse.ALIASING)
ASSERTION = _stated("the assertion at {} holds", Excuse.ASSERTION)
NARROWED = _stated(
    "Python's integers fit in the NumPy types that they meet (NumPy raises elsewhere)", Excuse.OVERFLOW
)
SIGNED_32 = _stated("32-bit integers of NumPy do not overflow", Excuse.OVERFLOW)
DIVISORS = _stated("divisors are not zero (Python raises there)", Excuse.DIVISION)
POWERS = _stated(
    "no negative number has a fractional exponent, and no zero a negative one (Python raises)",
    *(Excuse.COMPLEX, Excuse.DIVISION),
)
POWER_BASE = _stated("no base of a fractional exponent is -inf", Excuse.NOT_FINITE)
POWER_SIZE = _stated("powers of floats do not overflow (Python raises)", Excuse.OVERFLOW)
SHIFTS = _stated("shift counts are from 0 to 63 (Python raises below)", Excuse.DOMAIN)
QUOTIENTS = _stated("the floats that // and % take are finite", Excuse.NOT_FINITE)
ROUNDED = _stated(
    "no quotient of floats in // and % rounds to a whole number, as 1.0 / 0.1 does", Excuse.ROUNDING
)
RANGE = _stated("what {} runs over at {} is not empty", Excuse.DOMAIN)
DEFINED = _stated(
    "functions of math get arguments for which they are defined (Python raises elsewhere)",
    *(Excuse.DOMAIN, Excuse.OVERFLOW, Excuse.DIVISION),
)
HYPOTENUSE = _stated(
    "what hypot takes is finite, and its square neither overflows nor vanishes",
    *(Excuse.NOT_FINITE, Excuse.OVERFLOW, Excuse.ROUNDING),
)
