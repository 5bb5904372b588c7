"""The functions of Python, math and numpy that are known, and their named arguments."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tensmith.formula.functions import ELEMENTARY, NUMPY_NAMES
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.python.module import place

if TYPE_CHECKING:
    from tensmith.lifting.source.python.scope import PythonScope

# math.f or numpy.f of one argument -> operator on floats.
FLOAT_OPERATORS = {
    **{f"math.{name}": name for name in ELEMENTARY},
    **{f"numpy.{NUMPY_NAMES.get(name, name)}": name for name in ELEMENTARY if name != "erf"},
    "math.fabs": "abs", "numpy.fabs": "abs", "numpy.floor": "floor", "numpy.ceil": "ceil",
    "numpy.round": "round", "numpy.rint": "round", "numpy.around": "round",
}  # fmt: skip
# Functions of floats whose value is an integer.
ROUNDINGS = {
    "math.floor": "floor",
    "math.ceil": "ceil",
    "math.trunc": "trunc",
    "round": "round",
    "int": "trunc",
}
LOGARITHMS = ("math.log2", "math.log10", "numpy.log2", "numpy.log10")
HYPOTENUSES = ("math.hypot", "numpy.hypot")
SQUARES = ("numpy.square",)
ABSOLUTE = ("abs", "numpy.abs", "numpy.absolute")
SMALLEST = ("min", "numpy.minimum", "numpy.fmin")
LARGEST = ("max", "numpy.maximum", "numpy.fmax")
NUMBERS_FIRST = ("numpy.fmin", "numpy.fmax")  # of a number and NaN the number
POWERS = ("pow", "math.pow", "numpy.power")
TOTALS = ("sum", "numpy.sum", "math.fsum")
TRUTHS = ("all", "any", "numpy.all", "numpy.any")
CHOICES = ("numpy.where",)
FLOAT_CONSTANTS = {"pi", "e", "inf", "tau"}

# Functions that make arrays.
FILLS: dict[str, int | None] = {"numpy.zeros": 0, "numpy.ones": 1, "numpy.empty": None}
FILLS_LIKE: dict[str, int | None] = {
    "numpy.zeros_like": 0,
    "numpy.ones_like": 1,
    "numpy.empty_like": None,
}
COPIES = ("list", "numpy.copy", "numpy.array", "numpy.asarray", "copy.copy", "copy.deepcopy")

# Functions of math that have a value, or raise nothing, for every float.
TOTAL = ("math.fabs", "math.tanh", "math.erf", "math.atan", "math.asinh")
# Named arguments that are read; every other one is refused by name.
KEYWORDS: dict[str, tuple[str, ...]] = {
    "sum": ("start",),
    "enumerate": ("start",),
    **dict.fromkeys((*FILLS, "numpy.full"), ("shape", "dtype")),
    **dict.fromkeys(FILLS_LIKE, ("dtype",)),
}


def check_arguments(scope: PythonScope, node: ast.Call, called: str) -> None:
    """Refuses a call with a named argument that nothing reads, or with unpacked ones."""
    for word in node.keywords:
        if word.arg not in KEYWORDS.get(called, ()):
            what = f"the argument {word.arg}=" if word.arg else "an unpacked argument"
            raise Refusal(
                f"{what} of {called} cannot be lifted; leave it out, or write the loop", place(word)
            )
        scope.visit(word)
