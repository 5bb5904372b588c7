"""The algebra of matrix products: associated by cost, distributed, transposed, and of known operands.

Measure: multiply-adds, then products, then other operations on values that vary.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensmith.formula.expr import Expr, Read, guard
from tensmith.formula.poly import Dim, Poly, product
from tensmith.ir.ops.shared import broadcast_shapes
from tensmith.rewrite.exact.products import GEMM, B, W, a_column, gemm, shift_law, sign_laws
from tensmith.rewrite.given import Instance, matmul_instances
from tensmith.rewrite.law import family, floating, law
from tensmith.rewrite.match import Match
from tensmith.rewrite.right_sides import along, everywhere, flat, join
from tensmith.rewrite.term import Bindings, Later, Term, Use, Var, later, ops

X, Y, Z, V, U = Var("x"), Var("y"), Var("z"), Var("v", static=True), Var("u", static=True)
C, D = Var("c", static=True), Var("d", static=True)
SWAP = {"perm": (1, 0)}


def turned(x: Term) -> Use:
    """A matrix transposed."""
    return ops.transpose(x, attrs=SWAP)


# By cost


def _cheaper(m: Match, left_first: bool) -> str | None:
    """Whether (x @ y) @ z takes more multiply-adds than x @ (y @ z), or less."""
    shapes = [m.type(var).static for var in (X, Y, Z)]
    if any(shape is None or len(shape) < 2 for shape in shapes):
        return "the sizes are not known"
    x, y, z = (shape for shape in shapes if shape is not None)
    rows, depth, inner, columns = x[-2], x[-1], y[-1], z[-1]
    inside, outside = broadcast_shapes(x[:-2], y[:-2]), broadcast_shapes(y[:-2], z[:-2])
    whole = _count(broadcast_shapes(x[:-2], y[:-2], z[:-2]))
    left = rows * inner * (_count(inside) * depth + whole * columns)
    right = depth * columns * (_count(outside) * inner + whole * rows)
    now, then = (left, right) if left_first else (right, left)
    return None if then < now else f"{now} multiply-adds would be {then}"


def _count(shape: tuple[Dim, ...]) -> int:
    return int(Poly.of(product(shape)).constant or 0)


_THREE = matmul_instances(y="*L C K", z="*L K J")
_COLUMN = [Instance("column", {"x": "9 C", "y": "C K+2", "z": "K+2 1"})]
_ROW = [Instance("row", {"x": "1 C", "y": "C K+2", "z": "K+2 9"})]
_SQUARES = matmul_instances((0, 1), y="*L C C", z="*L C C", x="*L C C")

law(
    "associate_right",
    (X @ Y) @ Z,
    X @ (Y @ Z),
    X @ (Z @ Y),
    given=[*_THREE, *_COLUMN],
    twin=_SQUARES,
    when=lambda m: _cheaper(m, True),
    says="(x @ y) @ z = x @ (y @ z), where that is cheaper.",
)
law(
    "associate_left",
    X @ (Y @ Z),
    (X @ Y) @ Z,
    (X @ Z) @ Y,
    given=[*_THREE, *_ROW],
    twin=_SQUARES,
    when=lambda m: _cheaper(m, False),
    says="x @ (y @ z) = (x @ y) @ z, where that is cheaper: low-rank factors stay apart.",
)

# Sums of products

_SAME = matmul_instances(y="*L C K", z="*L C K")
_ROWS = matmul_instances(y="*L N C", z="*L C K")
family(
    "common_left_factor",
    [(X @ Y + X @ Z, X @ (Y + Z), X @ (Y - Z)), (X @ Y - X @ Z, X @ (Y - Z), X @ (Y + Z))],
    given=_SAME,
    y="*L C K",
    z="*L C K",
    order=33,
)
family(
    "common_right_factor",
    [(X @ Z + Y @ Z, (X + Y) @ Z, (X - Y) @ Z), (X @ Z - Y @ Z, (X - Y) @ Z, (X + Y) @ Z)],
    given=_ROWS,
    x="*L N C",
    y="*L N C",
    order=33,
)
family(
    "distribute_product",
    [(X @ (Y + Z), X @ Y + X @ Z, X @ Y - X @ Z), (X @ (Y - Z), X @ Y - X @ Z, X @ Y + X @ Z)],
    given=_SAME,
    y="*L C K",
    z="*L C K",
    phase="form",
)
family(
    "distribute_sum",
    [((X + Y) @ Z, X @ Z + Y @ Z, X @ Z - Y @ Z), ((X - Y) @ Z, X @ Z - Y @ Z, X @ Z + Y @ Z)],
    given=_ROWS,
    x="*L N C",
    y="*L N C",
    phase="form",
)
law(
    "products_side_by_side",
    X @ W + Y @ V,
    join(-1, X, Y) @ join(0, W, V),
    join(-1, X, Y) @ join(0, V, W),
    twin=[Instance("matrices", {"x": "N C", "y": "N C", "w": "C K", "v": "C K"})],
    x="N C",
    y="N D",
    w="C K",
    v="D K",
    phase="form",
    says="x @ w + y @ v = concat(x, y) @ concat(w, v): heads that are added up are one product.",
)
law(
    "low_rank_update",
    X @ (W + U @ V),
    X @ W + (X @ U) @ V,
    X @ W + (X @ W) @ V,
    given=matmul_instances(w="C K", u="C R", v="R K"),
    twin=matmul_instances((0,), w="C C", u="C C", v="C C"),
    phase="form",
    says="x @ (w + u @ v) = x @ w + (x @ u) @ v: an update of low rank stays factored.",
)

# Transposition

_BOTH_SQUARE = [Instance("squares", {"x": "N N", "y": "N N"})]
for _name, _left, _right, _wrong, _x, _y in (
    ("product_of_transposed", turned(X) @ turned(Y), turned(Y @ X), turned(X @ Y), "C N", "K C"),
    ("transposed_of_transposed_left", turned(turned(X) @ Y), turned(Y) @ X, Y @ X, "C N", "C K"),
    ("transposed_of_transposed_right", turned(X @ turned(Y)), Y @ turned(X), Y @ X, "N C", "K C"),
):
    law(_name, _left, _right, _wrong, twin=_BOTH_SQUARE, x=_x, y=_y)
law(
    "transpose_of_product",
    turned(X @ Y),
    turned(Y) @ turned(X),
    turned(X) @ turned(Y),
    phase="form",
    twin=_BOTH_SQUARE,
    x="N C",
    y="C K",
)

# Signs and scales

_TWO = matmul_instances(y="*L C K")
law(
    "scales_meet",
    (X * C) @ (Y * D),
    (X * (C * D)) @ Y,
    (X * (C + D)) @ Y,
    given=_TWO,
    c="",
    d="",
    when=floating,
    says="(x * c) @ (y * d) = (x * (c * d)) @ y, c and d one number each.",
)
law("signs_meet", (-X) @ (-Y), X @ Y, -(X @ Y), given=_TWO, when=floating)
family(
    "scale_behind_product",
    [((X * C) @ Y, (X @ Y) * C, (X @ Y) / C), (X @ (Y * C), (X @ Y) * C, (X @ Y) / C)],
    given=_TWO,
    c="",
    when=floating,
    phase="form",
    says="(x * c) @ y = (x @ y) * c, c one number.",
)
family(
    "negative_product", [((-X) @ Y, -(X @ Y), X @ Y), (X @ (-Y), -(X @ Y), X @ Y)], given=_TWO, phase="form"
)
law("negative_into_weights", -(X @ W), X @ (-W), X @ W, given=matmul_instances(w="C K"), order=33)
law("negative_before_weights", (-X) @ W, X @ (-W), X @ W, given=matmul_instances(w="C K"), order=33)
family(
    "scalar_into_query",
    [
        (((X @ W) @ Y) * C, (X @ (W * C)) @ Y, (X @ (W / C)) @ Y),
        (((X @ W) @ Y) / C, (X @ (W / C)) @ Y, (X @ (W * C)) @ Y),
    ],
    given=matmul_instances((0, 1), w="C K", y="*L K J"),
    c="",
    order=33,
    when=floating,
    says="((x @ w) @ y) * c = (x @ (w * c)) @ y, c one number: the scores' scale goes into the "
    "queries' weights.",
)
law(
    "divide_weights",
    (X @ W) / C,
    X @ (W / ops.reshape(C, np.array([1, -1]))),
    X @ (W * C),
    given=[i for size in ("K", "1", "") for i in matmul_instances(w="C K", c=size)],
    when=lambda m: a_column(m) if floating(m) is None else "",
    order=33,
    says="(x @ w) / c = x @ (w / c), c one number, or one a column.",
)

# gemm


@later("w scaled by c")
def _side(m: Bindings, operation: Callable[[Term, Term], Use], column: bool) -> Term:
    """W scaled by c, along its columns or its rows, whichever way round it lies."""
    axis = 1 if column != bool(m.attrs["gemm"]["transB"]) else 0
    return operation(W, along(C, axis, W))


family(
    "constant_into_gemm",
    [
        (gemm(X, W, B) - C, gemm(X, W, B - flat(C)), gemm(X, W, B + flat(C))),
        (gemm(X, W, B) / C, gemm(X, _side(ops.div, True), B / flat(C)), gemm(X, W, B / flat(C))),
    ],
    given=GEMM,
    c="1 K",
    order=24,
    says="gemm(x, w, b) - c = gemm(x, w, b - c), gemm(x, w, b) / c = gemm(x, w / c, b / c).",
)
family(
    "scale_before_gemm",
    [
        (gemm(X * C, W, B), gemm(X, _side(ops.mul, False), B), gemm(X, _side(ops.div, False), B)),
        (gemm(X / C, W, B), gemm(X, _side(ops.div, False), B), gemm(X, _side(ops.mul, False), B)),
    ],
    given=GEMM,
    c="1 C",
    x="N C",
    order=24,
    says="gemm(x * c, w, b) = gemm(x, c * w, b), c one number a row of w.",
)
_SEEN = Later(lambda m: W @ flat(C) if m.attrs["gemm"]["transB"] else flat(C) @ W, "c @ w")
shift_law(
    "gemm", gemm, _SEEN, given=GEMM, c="1 C", x="N C", says="gemm(x + c, w, b) = gemm(x, w, c @ w + b)."
)
sign_laws("gemm", gemm, GEMM)


def _narrow(m: Match) -> str | None:
    """Two layers without anything between are one where that takes fewer multiply-adds."""
    if not (m.has(B) and m.has(D)):
        return "a bias is left out"
    depth, inner, columns = (Poly.of(d).constant for d in (*m.shape(W), m.shape(V)[-1]))
    if depth is None or inner is None or columns is None or m.type(B).rank != 1 or m.type(D).rank != 1:
        return "the sizes are not known"
    if (m.shape(B), m.shape(D)) != ((inner,), (columns,)):
        return "a bias is not one number a column"
    return None if depth * columns < inner * (depth + columns) else "one product would cost more"


_GEMMS = [
    Instance(
        "plain",
        {"x": "N C", "w": "C K", "v": "K J", "b": "K", "d": "J"},
        0,
        {name: {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0} for name in ("first", "second")},
    )
]
law(
    "gemm_of_gemm",
    ops.gemm(ops.gemm(X, W, B, attrs="first"), V, D, attrs="second"),
    ops.gemm(X, W @ V, B @ V + D),
    ops.gemm(X, W @ V, B @ V),
    given=_GEMMS,
    when=_narrow,
    says="(x @ w + b) @ v + d = x @ (w @ v) + (b @ v + d), where that is cheaper.",
)

# What is known of the weights


def _entry(m: Match, test: Callable[[np.ndarray], bool], text: str) -> str | None:
    value = m.value(W)
    known = value is not None and value.ndim == 2 and value.dtype.kind == "f"
    return None if known and test(np.asarray(value)) else text


def _diagonal(value: np.ndarray) -> bool:
    return value.shape[0] == value.shape[1] > 1 and not np.any(value[~np.eye(len(value), dtype=bool)])


def _known_as(element: Callable[..., Expr], shape: str) -> list[Instance]:
    return [
        Instance(f"rank {2 + n}", {"x": "*L N C", "w": shape}, n, elements={"w": element}, example=True)
        for n in range(3)
    ]


def _read(*at: Poly) -> Expr:
    return Read("d", at)


law(
    "diagonal_weights",
    X @ W,
    X * ops.reduce_sum(W, np.array([0]), attrs={"keepdims": 0}),
    X + ops.reduce_sum(W, np.array([0]), attrs={"keepdims": 0}),
    given=_known_as(lambda i, j: guard((i - j, j - i), _read(j)), "C C"),
    order=31,
    when=lambda m: _entry(m, _diagonal, "the weights are not diagonal"),
    says="x @ w = x * diagonal(w), w diagonal: the identity, for instance.",
)
law(
    "columns_alike",
    X @ W,
    Later(lambda m: ops.expand(X @ _column(m), _wide(m)), "expand(x @ w[:, 0])"),
    Later(lambda m: ops.expand(X @ (_column(m) * 2), _wide(m)), "expand(x @ w[:, 0]) * 2"),
    given=_known_as(lambda i, j: _read(i), "C K+2"),
    order=31,
    when=lambda m: (
        _entry(m, lambda w: w.shape[1] > 1 and bool(np.all(w == w[:, :1])), "columns differ")
        if m.type(X).rank and m.type(X).rank != 1
        else "a vector"
    ),
    says="x @ w = expand(x @ w[:, 0]), the columns of w alike.",
)


def _column(m: Bindings) -> Use:
    return ops.slice(W, np.array([0]), np.array([1]), np.array([1]))


def _wide(m: Bindings) -> np.ndarray:
    width = m.shape(W)[-1]
    return np.array([1, width], dtype=object if isinstance(width, Poly) else np.int64)


def _dead(value: np.ndarray) -> int:
    """How many of the last rows are zero."""
    alive = np.nonzero(np.any(value != 0, axis=1))[0]
    return len(value) - (int(alive[-1]) + 1 if len(alive) else 0)


def _alive(m: Bindings) -> Dim:
    value = m.value(W)
    if not isinstance(m, Match):
        return Poly.symbol("K")
    assert value is not None
    return len(value) - _dead(value)


@later("the first")
def _first(m: Bindings, x: Term, axis: int, off: int = 0) -> Term:
    end = _alive(m) - off
    ends = np.array([end], dtype=object if isinstance(end, Poly) else np.int64)
    return ops.slice(x, np.array([0]), ends, np.array([axis]))


law(
    "dead_rows",
    X @ W,
    _first(X, -1) @ _first(W, 0),
    _first(X, -1, 1) @ _first(W, 0, 1),
    phase="form",
    given=[
        Instance(
            "matrix",
            {"x": "N K+D", "w": "K+D J"},
            elements={"w": lambda i, j: guard((Poly.symbol("K") - 1 - i,), _read(i, j))},
            lower={"K": 2},
            example=True,
        )
    ],
    when=lambda m: _entry(m, lambda w: 0 < _dead(w) < len(w), "no last row of the weights is zero"),
    says="x @ w = x[:, :k] @ w[:k], where the rows behind k are zero.",
)


def _of_product(m: Bindings) -> tuple[Dim, ...]:
    return (*m.shape(X)[:-1], m.shape(W)[-1])


law(
    "zero_weights",
    X @ W,
    everywhere(0, _of_product),
    everywhere(1, _of_product),
    given=matmul_instances(w="C K"),
    values=[{"w": 0}],
    order=30,
    when=lambda m: (
        _entry(m, lambda w: not np.any(w), "the weights are not zero")
        or (None if m.program.type(m.nodes[0].output).static else "the shape is not known")
    ),
)

# Broadcasting and views

law(
    "product_with_expanded",
    X @ ops.expand(Y, D),
    X @ Y,
    (X @ Y) * 2,
    given=[Instance("batch", {"x": "B N C", "y": "1 C K"}, values={"d": np.array([Poly.symbol("B"), 1, 1])})],
    when=lambda m: _needless(m),
    says="x @ expand(y) = x @ y, where x gives the product its shape: queries that "
    "share keys need no copies.",
)


def _needless(m: Match) -> str | None:
    shapes = [m.type(var).shape for var in (X, Y)]
    out = m.program.type(m.nodes[0].output).shape
    if out is None or any(shape is None or len(shape) < 2 for shape in shapes):
        return "the shapes are not known"
    x, y = (shape for shape in shapes if shape is not None)
    inner = m.program.type(m.nodes[1].output).shape
    same = inner is not None and inner[-2:] == y[-2:] and len(y) <= len(x)
    fits = all(b in (1, a) for a, b in zip(x[:-2][::-1], y[:-2][::-1]))
    return None if same and fits and out[:-2] == x[:-2] else "the copies give the product its shape"


def _views(m: Match) -> str | None:
    shape, out = m.type(X).shape, m.program.type(m.nodes[0].output).shape
    middle = m.program.type(m.nodes[-1].output).shape
    if shape is None or out is None or middle is None or len(m.shape(W)) != 2 or len(shape) < 2:
        return "the shapes are not known"
    rows = out[:-1] == shape[:-1] and middle[-1] == shape[-1] and out[-1] == m.shape(W)[1]
    return None if rows else "the reshapes do more than to flatten rows"


_S, _T = Var("s"), Var("t")
_N, _M, _CC, _K = map(Poly.symbol, "NMCK")
_BATCH = [
    Instance(
        "rows",
        {"x": "N M C", "w": "C K", "b": "K"},
        example=True,
        lower=dict.fromkeys("NMCK", 1),
        values={"s": np.array([_N * _M, _CC]), "t": np.array([_N, _M, _K])},
        sample={"flat": {"allowzero": 0}, "back": {"allowzero": 0}},
    )
]
law(
    "product_of_rows",
    ops.reshape(ops.reshape(X, _S, attrs="flat") @ W, _T, attrs="back"),
    X @ W,
    (X @ W) * 2,
    given=_BATCH,
    when=_views,
    order=13,
    says="reshape(reshape(x, [n*m, c]) @ w, [n, m, k]) = x @ w.",
)
