"""What Python's scalar functions are in the loop language."""

from __future__ import annotations

# math.f or numpy.f of one argument -> operator on floats.
FLOAT_OPERATORS = {
    name: operator
    for operator, names in {
        "exp": ("math.exp", "numpy.exp"),
        "log": ("math.log", "numpy.log"),
        "sqrt": ("math.sqrt", "numpy.sqrt"),
        "sin": ("math.sin", "numpy.sin"),
        "cos": ("math.cos", "numpy.cos"),
        "tan": ("math.tan", "numpy.tan"),
        "tanh": ("math.tanh", "numpy.tanh"),
        "abs": ("math.fabs",),
        "floor": ("numpy.floor",),
        "ceil": ("numpy.ceil",),
        "round": ("numpy.round", "numpy.rint", "numpy.around"),
    }.items()
    for name in names
}
# Functions of floats whose value is an integer.
ROUNDINGS = {
    "math.floor": "floor",
    "math.ceil": "ceil",
    "math.trunc": "trunc",
    "round": "round",
    "int": "trunc",
}
SQUARES = ("numpy.square",)
ABSOLUTE = ("abs", "numpy.abs", "numpy.absolute", "numpy.fabs")
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
ITERATORS = ("range", "zip", "enumerate", "reversed")
