"""Reading a method's parameters: plain JSON values, checked, with nothing left over."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

from tensmith.errors import ProgramError, nearest

# How weights come onto their grids; the priced ones are for an entropy coder.
_PRICED = ("coded", "dependent")
ROUNDINGS = ("nearest", "compensated", *_PRICED)


class Parameters:
    """Takes parameters by name; `done` refuses the ones nobody took."""

    def __init__(self, method: str, params: Mapping[str, Any]) -> None:
        self._method, self._left, self._asked = method, dict(params), set[str]()

    def _take(self, name: str, default: Any = None) -> Any:
        self._asked.add(name)
        return self._left.pop(name, default)

    def number(self, name: str, default: float | None = None, *, low: float, high: float) -> float | None:
        """A number in low <= x < high; `default` where it is not given."""
        value = self._take(name, default)
        if value is None:
            return None
        if not _is_real(value) or not low <= value < high:
            raise self.wrong(f"{name} is {value!r}; give a number from {low} to below {high}")
        return float(value)

    def count(self, name: str, default: int | None = None, *, low: int = 1) -> int | None:
        """A whole number of at least `low`; `default` where it is not given."""
        value = self._take(name, default)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise self.wrong(f"{name} is {value!r}; give a whole number of at least {low}")
        return value

    def choice(self, name: str, *options: str) -> str:
        """One of some words; the first where it is not given."""
        value = self._take(name, options[0])
        if value not in options:
            raise self.wrong(f"{name} is {value!r}; choose one of {', '.join(options)}")
        return str(value)

    def text(self, name: str) -> str:
        """A word that must be given."""
        value = self._take(name)
        if not isinstance(value, str) or not value:
            raise self.wrong(f"{name} is {value!r}; give a word")
        return value

    def flag(self, name: str) -> bool:
        """true or false; true where it is not given."""
        value = self._take(name, True)
        if not isinstance(value, bool):
            raise self.wrong(f"{name} is {value!r}; give true or false")
        return value

    def layers(self, name: str) -> frozenset[str]:
        """A list of layers, by their sites."""
        value = self._take(name, ())
        if not isinstance(value, (list, tuple)) or not all(isinstance(site, str) for site in value):
            raise self.wrong(f"{name} is {value!r}; give a list of layers")
        return frozenset(value)

    def grids(self) -> frozenset[str]:
        """Checks what weights on grids take (bits, default_bits, scales, rounding, plain, price, worth); the
        layers to skip."""
        bits = self._take("bits", {})
        if not isinstance(bits, Mapping) or not all(isinstance(site, str) for site in bits):
            raise self.wrong(f"bits is {bits!r}; give whole numbers by layer")
        self.count("default_bits")
        self.choice("scales", "max", "mse")
        rounding = self.choice("rounding", *ROUNDINGS)
        if self.layers("plain") and rounding == "nearest":
            raise self.wrong("plain goes with the other roundings than 'nearest'")
        price, worth = self.number("price", low=0, high=math.inf), self._take("worth", {})
        if not isinstance(worth, Mapping) or not all(_is_real(each) and each > 0 for each in worth.values()):
            raise self.wrong(f"worth is {worth!r}; give positive numbers by layer")
        if (rounding in _PRICED) != (price is not None) or bool(worth) != (price is not None):
            raise self.wrong("price and worth go with rounding 'coded' or 'dependent', and they with these")
        return self.layers("skip")

    def done(self) -> None:
        """ProgramError if a parameter is left that the method does not have."""
        if self._left:
            near = nearest(min(self._left), sorted(self._asked))
            raise self.wrong(f"there is no parameter {', '.join(sorted(self._left))}{near}")

    def wrong(self, what: str) -> ProgramError:
        """The error of a parameter that makes no sense."""
        return ProgramError(f"lossy method '{self._method}': {what}")


def _is_real(value: Any) -> bool:
    """Whether it is a number that floats hold: whole ones may have hundreds of digits."""
    real = isinstance(value, (int, float)) and not isinstance(value, bool)
    return real and abs(value) <= sys.float_info.max
