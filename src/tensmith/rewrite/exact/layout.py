"""Views, slices, pads and concatenations: fewer of them, and of smaller tensors.

Measure: elements that are computed or moved, then operations on values that vary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensmith.formula.poly import Dim, Poly, simplify_dim
from tensmith.ir.ops.shared import normal_axis
from tensmith.rewrite.case import Case
from tensmith.rewrite.exact.shortcut import cuts, slice_operands
from tensmith.rewrite.law import Instance, family, law
from tensmith.rewrite.match import Match
from tensmith.rewrite.term import AnyElementwise, Bindings, Later, Term, Use, Var, ops

X, Y, Z = Var("x"), Var("y"), Var("z")
S, AXES, PADS, MORE = Var("s"), Var("axes"), Var("pads"), Var("more")
_CUT = slice_operands("cut")
_FAR = 2**63 - 1
_CUBE = [Instance("cube", {"": "N C H"}, lower=dict.fromkeys("NCH", 1))]
N, C, H = map(Poly.symbol, "NCH")


def f(*args: Term) -> AnyElementwise:
    """Any function of one element each."""
    return AnyElementwise("f", args)


def _types(m: Match) -> str | None:
    """None if x and y have one type, and so nothing is broadcast."""
    return None if m.type(X) == m.type(Y) and m.type(X).shape is not None else "the operands differ in shape"


# Any elementwise function behind what moves elements

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
    when=lambda m: (
        _types(m)
        or (
            None
            if m.attrs["view"]["axis"] == m.program.producers[m.nodes[2].output].attrs["axis"]
            else "at other axes"
        )
    ),
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
_BOUNDS = dict(zip((var.name for var in _CUT), (np.array([n]) for n in (0, _FAR, 1, 2))))
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

# Concatenations


def _axis(m: Bindings, *captures: str) -> list[int]:
    return [normal_axis(m.attrs[name]["axis"], len(m.shape(X))) for name in captures]


_THREE = [
    Instance("parts", {"x": "N C", "y": "N D", "z": "N E"}, sample={"in": {"axis": 1}, "out": {"axis": 1}})
]


def _joined(x: Term, y: Term, name: str) -> Use:
    return ops.concat(x, y, attrs=name)


family(
    "concat_of_concat",
    [
        (
            _joined(_joined(X, Y, "in"), Z, "out"),
            ops.concat(X, Y, Z, attrs="out"),
            ops.concat(X, Z, Y, attrs="out"),
        ),
        (
            _joined(X, _joined(Y, Z, "in"), "out"),
            ops.concat(X, Y, Z, attrs="out"),
            ops.concat(X, Z, Y, attrs="out"),
        ),
    ],
    given=_THREE,
    when=lambda m: None if len(set(_axis(m, "in", "out"))) == 1 else "along other axes",
    order=12,
)
_TWO = [
    Instance(
        "squares",
        {"x": "N C H", "y": "N D H"},
        sample={"x": {"perm": (2, 1, 0)}, "y": {"perm": (2, 1, 0)}, "join": {"axis": 1}},
    )
]
law(
    "concat_of_transposed",
    ops.concat(ops.transpose(X, attrs="x"), ops.transpose(Y, attrs="y"), attrs="join"),
    Later(lambda m: _turned(m, False), "transpose(concat(x, y))"),
    Later(lambda m: _turned(m, True), "transpose(concat(y, x))"),
    given=_TWO,
    order=16,
    when=lambda m: None if m.attrs["x"]["perm"] == m.attrs["y"]["perm"] else "turned otherwise",
)


def _turned(m: Bindings, swapped: bool) -> Term:
    rank = len(m.shape(X))
    perm = m.attrs["x"]["perm"] or tuple(reversed(range(rank)))
    axis = perm[normal_axis(m.attrs["join"]["axis"], rank)]
    parts = (Y, X) if swapped else (X, Y)
    return ops.transpose(ops.concat(*parts, attrs={"axis": axis}), attrs={"perm": perm})


def _bounds(m: Bindings, operands: Sequence[Var], axis: int) -> tuple[Any, Any] | None:
    """The first and the last but one position that a slice takes along an axis, in steps of 1."""
    rank = len(m.shape(X))
    if isinstance(m, Case):
        start, end = (np.asarray(m.value(var)).reshape(-1)[0] for var in operands[:2])
        return start, end
    found = cuts(m, operands, rank)
    if found is None or set(found) != {axis} or found[axis][2] != 1 or found[axis][0] < 0:
        return None
    return found[axis][0], found[axis][1]


def _left(m: Match) -> str | None:
    found, size = _bounds(m, _CUT, _axis(m, "join")[0]), m.shape(X)[_axis(m, "join")[0]]
    within = found is not None and isinstance(size, int) and 0 <= found[1] <= size
    return None if within else "the slice is not of the first part alone"


def _right(m: Match) -> str | None:
    axis = _axis(m, "join")[0]
    found, size, whole = _bounds(m, _CUT, axis), m.shape(X)[axis], m.shape(Y)[axis]
    behind = found is not None and isinstance(size, int) and isinstance(whole, int) and found[0] >= size
    return (
        None
        if behind and found is not None and found[1] >= 0
        else "the slice is not of the second part alone"
    )


def _part(which: Var, off: int = 0) -> Later:
    def make(m: Bindings) -> Term:
        axis = _axis(m, "join")[0]
        found = _bounds(m, _CUT, axis)
        assert found is not None
        before = m.shape(X)[axis] if which is Y else 0
        last = found[1] if isinstance(m, Case) else min(found[1], m.shape(X)[axis] + m.shape(Y)[axis])
        sizes = [[simplify_dim(Poly.of(bound) - before + off)] for bound in (found[0], last)]
        starts, ends = (np.array(s, dtype=object if isinstance(s[0], Poly) else np.int64) for s in sizes)
        return ops.slice(which, starts, ends, np.array([axis]), np.array([1]))

    return Later(make, f"{which.name}[cut]")


_A, _B = Poly.symbol("a"), Poly.symbol("b")


def _cut(start: Dim, end: Dim) -> dict[str, np.ndarray]:
    kind = [object if isinstance(v, Poly) else np.int64 for v in (start, end)]
    return {
        "cut_starts": np.array([start], dtype=kind[0]),
        "cut_ends": np.array([end], dtype=kind[1]),
        "cut_axes": np.array([1]),
        "cut_steps": np.array([1]),
    }


_JOINED = {"join": {"axis": 1}}
for _name, _kept, _when, _shapes, _start, _says in (
    ("slice_of_first_part", X, _left, {"x": "N a+b+2", "y": "N D"}, _A, "x, where it ends before y"),
    ("slice_of_second_part", Y, _right, {"x": "N C", "y": "N a+b+2"}, C + _A, "y, where it begins behind x"),
):
    law(
        _name,
        ops.slice(ops.concat(X, Y, attrs="join"), *_CUT),
        _part(_kept),
        _part(_kept, 1),
        order=13,
        when=_when,
        given=[
            Instance(
                "matrix",
                _shapes,
                values=_cut(_start, _start + _B + 1),
                sample=_JOINED,
                example=True,
                lower={"C": 1},
            )
        ],
        says=f"A slice of x and y side by side is one of {_says}.",
    )

# Slices that touch

_FIRST, _SECOND = slice_operands("first"), slice_operands("second")


def _touching(m: Match) -> tuple[int, int, int] | None:
    axis = _axis(m, "join")[0]
    one, two = _bounds(m, _FIRST, axis), _bounds(m, _SECOND, axis)
    size = m.shape(X)[axis]
    if one is None or two is None or one[1] != two[0] or not isinstance(size, int):
        return None
    (start, middle), (_, end) = one, two
    inside = 0 <= start <= middle <= min(end, size)
    return (axis, int(start), min(int(end), size)) if inside else None


def _whole(off: int) -> Later:
    def make(m: Bindings) -> Term:
        if not isinstance(m, Match):
            starts, ends = np.array([_A]), np.array([_A + _B + C - off])
            return ops.slice(X, starts, ends, np.array([1]), np.array([1]))
        found = _touching(m)
        assert found is not None
        axis, start, end = found
        return ops.slice(X, np.array([start]), np.array([end]), np.array([axis]), np.array([1]))

    return Later(make, "x[a:c]")


def _named(prefix: str, start: Poly, end: Poly) -> dict[str, np.ndarray]:
    return {key.replace("cut", prefix): value for key, value in _cut(start, end).items()}


law(
    "concat_of_slices",
    ops.concat(ops.slice(X, *_FIRST), ops.slice(X, *_SECOND), attrs="join"),
    _whole(0),
    _whole(1),
    given=[
        Instance(
            "matrix",
            {"x": "N a+b+C+H"},
            example=True,
            sample=_JOINED,
            values={**_named("first", _A, _A + _B), **_named("second", _A + _B, _A + _B + C)},
            lower=dict.fromkeys("abCH", 1),
        )
    ],
    when=lambda m: None if _touching(m) is not None else "the slices do not touch",
    order=12,
    says="concat(x[a:b], x[b:c]) = x[a:c].",
)

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
    Later(lambda m: _wider(m, 0), "expand(x)"),
    Later(lambda m: ops.neg(_wider(m, 0)), "-expand(x)"),
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


def _wider(m: Bindings, _: int) -> Term:
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
                for k, v in (("starts", _FAR), ("ends", -_FAR), ("axes", 1), ("steps", -1))
            },
        )
    ],
    when=lambda m: _reverses(m),
    says="What is reversed twice is as it was.",
)


def _reverses(m: Match) -> str | None:
    rank = m.type(X).rank
    found = [] if rank is None else [cuts(m, operands, rank) for operands in (_FIRST, _SECOND)]
    far = _FAR >> 32
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
