"""Views, pads, blocks and triangles: fewer of them.

Measure: elements that are computed or moved, then operations on values that vary.
"""

from __future__ import annotations

import numpy as np

from tensmith.formula.poly import Poly
from tensmith.rewrite.exact.shortcut import FAR, cuts, slice_operands
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import family, law
from tensmith.rewrite.match import Match
from tensmith.rewrite.term import Bindings, Later, Term, Use, Var, ops

X, Y = Var("x"), Var("y")
S, PADS, MORE = Var("s"), Var("pads"), Var("more")
_FIRST, _SECOND = slice_operands("first"), slice_operands("second")


# Pads, copies


def _padded_twice(m: Bindings, off: int) -> Term:
    first, second = m.value(PADS), m.value(MORE)
    assert first is not None and second is not None
    return ops.pad(X, first + second + off, attrs={"mode": "constant"})


_P = [Poly.symbol(f"p{i}") for i in range(8)]
law(
    "pad_of_pad",
    ops.pad(ops.pad(X, PADS, attrs="in"), MORE, attrs="out"),
    Later(lambda m: _padded_twice(m, 0), "pad(x, p + q)"),
    Later(lambda m: _padded_twice(m, 1), "pad(x, p + q + 1)"),
    order=12,
    given=[
        Instance(
            "matrix",
            {"x": "N C"},
            values={"pads": np.array(_P[:4]), "more": np.array(_P[4:])},
            example=True,
            sample={"in": {"mode": "constant"}, "out": {"mode": "constant"}},
            lower={f"p{i}": 0 for i in range(8)},
        )
    ],
    when=lambda m: _zeros(m),
    says="pad(pad(x, p), q) = pad(x, p + q), of zeros.",
)


def _zeros(m: Match) -> str | None:
    values = m.value(PADS), m.value(MORE)
    if any(v is None or v.dtype == object or np.any(v < 0) for v in values):
        return "the widths are not known, or cut"
    plain = m.attrs["in"]["mode"] == m.attrs["out"]["mode"] == "constant" and m.type(X).floating
    return None if plain else "the padding is not zero"


law(
    "expand_of_expand",
    ops.expand(ops.expand(X, S), MORE),
    Later(lambda m: _wider(m), "expand(x)"),
    Later(lambda m: ops.neg(_wider(m)), "-expand(x)"),
    order=12,
    given=[
        Instance(
            "column", {"x": "N 1"}, values={"s": np.array([1, 4]), "more": np.array([3, 1, 1])}, example=True
        )
    ],
    when=lambda m: None if _wider_shape(m) is not None else "the shapes are not known",
)


def _wider_shape(m: Bindings) -> np.ndarray | None:
    first, second = m.value(S), m.value(MORE)
    if first is None or second is None or first.dtype == object or second.dtype == object:
        return None
    return _meet(first, second)


def _meet(first: np.ndarray, second: np.ndarray) -> np.ndarray | None:
    rank = max(len(first), len(second))
    a, b = (np.concatenate((np.ones(rank - len(v), np.int64), v)) for v in (first, second))
    return np.where(a == 1, b, a) if np.all((a == b) | (a == 1) | (b == 1)) else None


def _wider(m: Bindings) -> Term:
    shape = _wider_shape(m)
    assert shape is not None
    return ops.expand(X, shape)


# Blocks, triangles, turns

_BLOCK = {"there": {"blocksize": 2, "mode": "DCR"}, "back": {"blocksize": 2, "mode": "DCR"}}


def _inverse(m: Match) -> str | None:
    a, b = m.attrs["there"], m.attrs["back"]
    same = a["blocksize"] == b["blocksize"] and all(v.get("mode", "DCR") == "DCR" for v in (a, b))
    return None if same else "other blocks"


for _there, _back, _shape in (
    ("space_to_depth", "depth_to_space", "N C 2*H 2*W"), ("depth_to_space", "space_to_depth", "N 4*C H W"),
):  # fmt: skip
    law(
        f"{_back}_of_{_there}",
        Use(_back, (Use(_there, (X,), "there"),), "back"),
        X,
        -X,
        order=10,
        when=_inverse,
        given=[Instance("blocks", {"x": _shape}, sample=_BLOCK, lower=dict.fromkeys("NCHW", 1))],
    )


def _halves(x: Term, name: str) -> Use:
    return ops.trilu(x, attrs=name)


_SQUARE = [Instance(f"upper={u}", {"": "N C"}, sample={"a": {"upper": u}, "b": {"upper": u}}) for u in (0, 1)]


def _same_half(m: Match) -> str | None:
    return None if m.attrs["a"]["upper"] == m.attrs["b"]["upper"] else "the other half"


law(
    "triangle_of_triangle",
    _halves(_halves(X, "a"), "b"),
    _halves(X, "a"),
    X,
    given=_SQUARE,
    when=_same_half,
    order=12,
)
family(
    "triangles_meet",
    [(s(_halves(X, "a"), _halves(Y, "b")), _halves(s(X, Y), "a"), s(X, Y)) for s in (ops.add, ops.sub)],
    given=_SQUARE,
    x="N C",
    y="N C",
    when=_same_half,
    order=16,
)
law(
    "reverse_of_reverse",
    ops.slice(ops.slice(X, *_FIRST), *_SECOND),
    X,
    -X,
    order=10,
    given=[
        Instance(
            "rows",
            {"x": "N C"},
            example=True,
            values={
                f"{p}_{k}": np.array([v])
                for p in ("first", "second")
                for k, v in (("starts", FAR), ("ends", -FAR), ("axes", 1), ("steps", -1))
            },
        )
    ],
    when=lambda m: _reverses(m),
    says="What is reversed twice is as it was.",
)


def _reverses(m: Match) -> str | None:
    rank = m.type(X).rank
    found = [] if rank is None else [cuts(m, operands, rank) for operands in (_FIRST, _SECOND)]
    far = FAR >> 32
    turned = (
        bool(found)
        and None not in found
        and set(found[0] or {}) == set(found[1] or {})
        and all(
            step == -1 and start >= far and end <= -far
            for cut in found
            for start, end, step in (cut or {}).values()
        )
    )
    return None if turned else "not reversed twice"


law(
    "transpose_of_expanded",
    ops.transpose(ops.expand(X, S), attrs="turn"),
    Later(lambda m: _turned_first(m, 1), "expand(transpose(x))"),
    Later(lambda m: _turned_first(m, -1), "-expand(transpose(x))"),
    order=16,
    sample={"turn": {"perm": (2, 0, 1)}},
    given=[Instance("grown", {"x": "N 1 H"}, values={"s": np.array([1, 4, 1])}, example=True)],
    when=lambda m: (
        None
        if m.value(S) is not None and m.value(S).dtype != object and len(m.value(S)) == m.type(X).rank
        else "the shapes are not known"
    ),
    says="transpose(expand(x)) = expand(transpose(x)): few elements are moved.",
)


def _turned_first(m: Bindings, sign: int) -> Term:
    value = m.value(S)
    assert value is not None
    perm = m.attrs["turn"]["perm"] or tuple(reversed(range(len(value))))
    moved = ops.expand(ops.transpose(X, attrs={"perm": perm}), value[list(perm)])
    return moved if sign > 0 else -moved
