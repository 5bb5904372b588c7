"""Functions of elements, before what moves elements or behind it: where fewer elements are computed.

Measure: elements that are computed or moved, then operations on values that vary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensmith.formula.poly import Poly
from tensmith.rewrite.exact.shortcut import FAR, slice_operands
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import law
from tensmith.rewrite.match import Match
from tensmith.rewrite.term import AnyElementwise, Term, Use, Var, ops

X, Y, Z = Var("x"), Var("y"), Var("z")
S, AXES = Var("s"), Var("axes")
_CUT = slice_operands("cut")
_CUBE = [Instance("cube", {"": "N C H"}, lower=dict.fromkeys("NCH", 1))]
N, C, H = map(Poly.symbol, "NCH")


def f(*args: Term) -> AnyElementwise:
    """Any function of one element each."""
    return AnyElementwise("f", args)


def _types(m: Match) -> str | None:
    """None if x and y have one type, and so nothing is broadcast."""
    return None if m.type(X) == m.type(Y) and m.type(X).shape is not None else "the operands differ in shape"


_FLAT = [Instance("flat", {"": "N C H"}, values={"s": np.array([N, C * H])}, lower=dict.fromkeys("NCH", 1))]
_GROWN = [Instance("grown", {"": "N 1 H"}, values={"s": np.array([N, C, H])}, lower=dict.fromkeys("NCH", 1))]


def _alike(
    name: str, move: Callable[[Term], Use], when: Callable[[Match], str | None] = _types, **details: Any
) -> None:
    """f(move(x), move(y)) = move(f(x, y))."""
    law(name, f(move(X), move(Y)), move(f(X, Y)), move(f(Y, X)), when=when, order=16, **details)


_alike(
    "reshaped_alike",
    lambda x: ops.reshape(x, S, attrs="view"),
    given=_FLAT,
    sample={"view": {"allowzero": 0}},
)
_alike(
    "unsqueezed_alike",
    lambda x: ops.unsqueeze(x, AXES),
    given=[Instance("cube", {"": "N C H"}, values={"axes": np.array([1])})],
)
_alike(
    "squeezed_alike",
    lambda x: ops.squeeze(x, AXES),
    given=[Instance("column", {"": "N 1 H"}, values={"axes": np.array([1])})],
)
_alike("expanded_alike", lambda x: ops.expand(x, S), given=_GROWN)
_alike(
    "flattened_alike",
    lambda x: ops.flatten(x, attrs="view"),
    given=_CUBE,
    sample={"view": {"axis": 1}},
)
law(
    "expanded_before_function",
    f(ops.expand(X, S)),
    ops.expand(f(X), S),
    ops.expand(f(-X), S),
    given=_GROWN,
    order=17,
    says="f(expand(x)) = expand(f(x)): few elements are computed.",
)
# Every second column.
_BOUNDS = dict(zip((var.name for var in _CUT), (np.array([n]) for n in (0, FAR, 1, 2))))
_ALTERNATE = [Instance("rows", {"": "N C"}, values=_BOUNDS, example=True)]
law(
    "function_before_slice",
    ops.slice(f(X), *_CUT),
    f(ops.slice(X, *_CUT)),
    f(ops.slice(-X, *_CUT)),
    order=17,
    given=_ALTERNATE,
    when=lambda m: (
        None
        if all(
            var.name not in m.values
            or not m.values[var.name]
            or m.values[var.name] in m.program.static_values
            for var in _CUT
        )
        else "the bounds are computed"
    ),
    says="f(x)[cut] = f(x[cut]): few elements are computed.",
)
law(
    "function_of_slices",
    f(ops.slice(X, *_CUT), ops.slice(Y, *_CUT)),
    ops.slice(f(X, Y), *_CUT),
    ops.slice(f(Y, X), *_CUT),
    given=_ALTERNATE,
    when=_types,
    phase="form",
)
_PARTS = [
    Instance("parts", {"x": "N C H", "y": "N D H"}, sample={"join": {"axis": 1}}),
    Instance("rows", {"x": "N C H", "y": "M C H"}, sample={"join": {"axis": 0}}),
]
law(
    "function_of_parts",
    ops.concat(f(X), f(Y), attrs="join"),
    f(ops.concat(X, Y, attrs="join")),
    f(ops.concat(Y, X, attrs="join")),
    given=_PARTS,
    order=18,
    phase="form",
)
law(
    "where_of_function",
    ops.where(Var("p"), f(X), f(Y)),
    f(ops.where(Var("p"), X, Y)),
    f(ops.where(Var("p"), Y, X)),
    given=[Instance("matrix", {"": "M N"}, dtypes={"p": "bool"})],
    when=_types,
    phase="fold",
    order=9,
    says="where(p, f(x), f(y)) = f(where(p, x, y)): f is computed once.",
)
law(
    "where_of_function_with",
    ops.where(Var("p"), f(X, Z), f(Y, Z)),
    f(ops.where(Var("p"), X, Y), Z),
    f(ops.where(Var("p"), Y, X), Z),
    given=[Instance("matrix", {"": "M N"}, dtypes={"p": "bool"})],
    when=_types,
    phase="fold",
    order=9,
)
