"""Rows about where elements are: constants, borders, slices, shapes, empty axes, broadcasting."""

from __future__ import annotations

import numpy as np
from claims_table import (
    FAR,
    C,
    H,
    M,
    N,
    V,
    W,
    X,
    Y,
    Z,
    cut,
    ints,
    joined,
    number,
    over,
    pair,
    reshaped,
    row,
    turned,
)

from tensmith.formula.poly import Poly
from tensmith.rewrite.term import Const, ops

TWO = {"x": (N, 2)}
LINE = {"x": (N,)}
PLANE = {"x": (N, C)}
BOTH = {"x": (N, C), "y": (N, C)}
OTHERS = {"x": (N,), "y": (M,)}
SIGNAL = {"x": (N, C, H)}

# Constants that are not one number

pair(
    "x + [1, 2] = x",
    TWO,
    lambda: (ops.add(X, row(1, 2)), X),
    lambda: (ops.add(ops.add(X, row(1, 2)), row(3, 4)), ops.add(X, row(4, 6))),
)
pair(
    "x + [1, 2] = x, integers",
    TWO,
    lambda: (ops.add(X, Const(np.array([1, 2]))), X),
    lambda: (ops.sub(ops.add(X, Const(np.array([1, 2]))), row(1, 2)), X),
)
pair(
    "x * [1, 0] = x * 0",
    TWO,
    lambda: (ops.mul(X, Const(np.array([1, 0]))), ops.mul(X, number(0))),
    lambda: (ops.mul(X, row(2, 0)), ops.add(ops.mul(X, row(1, 0)), ops.mul(X, row(1, 0)))),
)
pair(
    "x + [[0, 1]] = x",
    TWO,
    lambda: (ops.add(X, Const(np.array([[0, 1]]))), X),
    lambda: (ops.add(X, Const(np.array([[0, 0]]))), X),
)
pair(
    "x * [1, 2] = x * [2, 1]",
    TWO,
    lambda: (ops.mul(X, row(1, 2)), ops.mul(X, row(2, 1))),
    lambda: (ops.mul(X, row(2, 2)), ops.add(X, X)),
)
pair(
    "a column is a row",
    {"x": (2, 2)},
    lambda: (ops.add(X, Const(np.array([[1.0], [2.0]]))), ops.add(X, row(1, 2))),
    lambda: (ops.add(X, Const(np.array([[1.0], [2.0]]))), turned(ops.add(turned(X, 1, 0), row(1, 2)), 1, 0)),
)
pair(
    "one element of a constant is off",
    {"x": (3,)},
    lambda: (ops.add(X, row(1, 2, 3)), ops.add(X, row(1, 2, 3.5))),
    lambda: (ops.add(X, row(1, 2, 3)), ops.add(row(1, 2, 3), X)),
)
pair(
    "the sum of a constant",
    {"x": (3,)},
    lambda: (over("reduce_sum", ops.mul(X, row(1, 2, 3)), 0), over("reduce_sum", ops.mul(X, number(2)), 0)),
    lambda: (over("reduce_sum", ops.add(X, row(1, 2, 3)), 0), ops.add(over("reduce_sum", X, 0), number(6))),
)

# Borders

pair(
    "a pad before is a pad behind",
    LINE,
    lambda: (ops.pad(X, ints(1, 0)), ops.pad(X, ints(0, 1))),
    lambda: (ops.pad(ops.pad(X, ints(1, 0)), ints(0, 1)), ops.pad(X, ints(1, 1))),
)
pair(
    "a pad is cut at the wrong end",
    LINE,
    lambda: (cut(ops.pad(X, ints(1, 0)), 0, N), X),
    lambda: (cut(ops.pad(X, ints(1, 0)), 1, FAR), X),
)
pair(
    "a pad off by one",
    LINE,
    lambda: (ops.pad(X, ints(2, 1)), ops.pad(X, ints(1, 2))),
    lambda: (ops.pad(X, ints(2, 1)), ops.pad(ops.pad(X, ints(1, 1)), ints(1, 0))),
)
pair(
    "a negative pad cuts the other end",
    LINE,
    lambda: (ops.pad(X, ints(-1, 0)), cut(X, 0, -1)),
    lambda: (ops.pad(X, ints(-1, 0)), cut(X, 1, FAR)),
    lower={"N": 1},
)
pair(
    "a pad of zero pads",
    LINE,
    lambda: (ops.pad(X, ints(0, 0)), ops.pad(X, ints(0, 1))),
    lambda: (ops.pad(X, ints(0, 0)), X),
)
pair(
    "another number in the pad",
    LINE,
    lambda: (ops.pad(X, ints(1, 1), row(1.0)), ops.pad(X, ints(1, 1))),
    lambda: (
        ops.pad(ops.sub(X, number(1)), ints(1, 1)),
        ops.sub(ops.pad(X, ints(1, 1), Const(np.float32(1))), number(1)),
    ),
)
pair(
    "edges are zeros",
    LINE,
    lambda: (ops.pad(X, ints(1, 1), attrs={"mode": "edge"}), ops.pad(X, ints(1, 1))),
    lambda: (ops.mul(ops.pad(X, ints(1, 1)), number(2)), ops.pad(ops.add(X, X), ints(1, 1))),
)
pair(
    "edges are reflections",
    {"x": (5,)},
    lambda: (
        ops.pad(X, ints(1, 1), attrs={"mode": "edge"}),
        ops.pad(X, ints(1, 1), attrs={"mode": "reflect"}),
    ),
)
pair(
    "exp of a padded zero is zero",
    LINE,
    lambda: (ops.exp(ops.pad(X, ints(1, 0))), ops.pad(ops.exp(X), ints(1, 0))),
    lambda: (ops.exp(ops.pad(X, ints(0, 0))), ops.exp(X)),
)

# Slices

pair(
    "a slice one further",
    {"x": (N + 3,)},
    lambda: (cut(X, 0, 2), cut(X, 1, 3)),
    lambda: (cut(cut(X, 1, FAR), 1, 3), cut(X, 2, 4)),
)
pair(
    "a slice over the end",
    LINE,
    lambda: (cut(X, 0, N + 3), ops.pad(X, ints(0, 3))),
    lambda: (cut(X, 0, N + 3), X),
)
pair(
    "from the end is from the start",
    {"x": (N + 3,)},
    lambda: (cut(X, -2, FAR), cut(X, 0, 2)),
    lambda: (cut(X, -2, FAR), cut(X, N + 1, N + 3)),
)
pair(
    "backwards is forwards",
    LINE,
    lambda: (cut(X, -1, -FAR, step=-1), X),
    lambda: (cut(cut(X, -1, -FAR, step=-1), -1, -FAR, step=-1), X),
)
pair(
    "a step from another start",
    {"x": (8,)},
    lambda: (cut(X, 0, FAR, step=2), cut(X, 1, FAR, step=2)),
    lambda: (cut(cut(X, 0, FAR, step=2), 0, FAR, step=2), cut(X, 0, FAR, step=4)),
)
pair(
    "steps multiply to another step",
    {"x": (12,)},
    lambda: (cut(cut(X, 0, FAR, step=2), 0, FAR, step=3), cut(X, 0, FAR, step=5)),
    lambda: (cut(cut(X, 0, FAR, step=2), 0, FAR, step=3), cut(X, 0, FAR, step=6)),
)
pair(
    "a slice of another axis",
    {"x": (N + 2, N + 2)},
    lambda: (cut(X, 0, 2, axis=0), cut(X, 0, 2, axis=1)),
    lambda: (cut(turned(X, 1, 0), 0, 2, axis=0), turned(cut(X, 0, 2, axis=1), 1, 0)),
)

# Order

pair(
    "a transpose is nothing",
    {"x": (N, N)},
    lambda: (turned(X, 1, 0), X),
    lambda: (turned(turned(X, 1, 0), 1, 0), X),
)
pair(
    "transposes go the other way",
    {"x": (N, N, N)},
    lambda: (turned(turned(X, 1, 2, 0), 1, 2, 0), X),
    lambda: (turned(turned(X, 1, 2, 0), 2, 0, 1), X),
)
pair(
    "a reshape is a transpose",
    PLANE,
    lambda: (reshaped(X, C, N), turned(X, 1, 0)),
    lambda: (reshaped(reshaped(X, C, N), N, C), X),
    lower={"N": 1, "C": 1},
)
pair(
    "a reshape of a transpose",
    {"x": (N, C, H)},
    lambda: (reshaped(turned(X, 0, 2, 1), N, C * H), reshaped(X, N, C * H)),
    lambda: (reshaped(turned(X, 1, 0, 2), C, N * H), reshaped(turned(X, 1, 0, 2), C, N * H)),
    lower={"N": 1, "C": 1, "H": 1},
)
pair(
    "parts the other way round",
    OTHERS,
    lambda: (joined(0, X, Y), joined(0, Y, X)),
    lambda: (cut(joined(0, X, Y), N, N + M), Y),
)
pair(
    "parts of equal sizes the other way round",
    {"x": (N,), "y": (N,)},
    lambda: (joined(0, X, Y), joined(0, Y, X)),
    lambda: (ops.neg(joined(0, X, Y)), joined(0, ops.neg(X), ops.neg(Y))),
)
pair(
    "parts along another axis",
    {"x": (N, N), "y": (N, N)},
    lambda: (joined(0, X, Y), joined(1, X, Y)),
    lambda: (turned(joined(0, X, Y), 1, 0), joined(1, turned(X, 1, 0), turned(Y, 1, 0))),
)
pair(
    "a tile repeats each element",
    LINE,
    lambda: (
        ops.tile(X, ints(2)),
        reshaped(joined(1, ops.unsqueeze(X, ints(1)), ops.unsqueeze(X, ints(1))), N * 2),
    ),
    lambda: (ops.tile(X, ints(2)), joined(0, X, X)),
    lower={"N": 1},
)
pair(
    "other rows are gathered",
    {"x": (N + 3, C)},
    lambda: (ops.gather(X, ints(0, 2)), ops.gather(X, ints(2, 0))),
    lambda: (ops.gather(X, ints(2)), cut(X, 2, 3, axis=0)),
)
pair(
    "the last row is the first",
    {"x": (N + 1, C)},
    lambda: (ops.gather(X, ints(-1)), ops.gather(X, ints(0))),
    lambda: (ops.gather(X, ints(0)), cut(X, 0, 1, axis=0)),
)
pair(
    "depth to space in the other order",
    {"x": (N, 8, C, H)},
    lambda: (
        ops.depth_to_space(X, attrs={"blocksize": 2, "mode": "DCR"}),
        ops.depth_to_space(X, attrs={"blocksize": 2, "mode": "CRD"}),
    ),
    lambda: (
        ops.neg(ops.depth_to_space(X, attrs={"blocksize": 2, "mode": "DCR"})),
        ops.depth_to_space(ops.neg(X), attrs={"blocksize": 2, "mode": "DCR"}),
    ),
)
pair(
    "the other triangle",
    {"x": (N, N)},
    lambda: (ops.trilu(X, attrs={"upper": 1}), ops.trilu(X, attrs={"upper": 0})),
)
pair(
    "a cumulative sum from the other end",
    {"x": (4,)},
    lambda: (ops.cum_sum(X, Const(np.int64(0))), ops.cum_sum(X, Const(np.int64(0)), attrs={"reverse": 1})),
)
pair(
    "flattened at another axis",
    SIGNAL,
    lambda: (ops.flatten(X, attrs={"axis": 1}), ops.flatten(X, attrs={"axis": 2})),
    lambda: (ops.flatten(X, attrs={"axis": 1}), reshaped(X, N, C * H)),
    lower={"N": 1, "C": 1, "H": 1},
)

# Axes without elements

pair(
    "a sum is a mean times n",
    LINE,
    lambda: (over("reduce_sum", X, 0), ops.mul(over("reduce_mean", X, 0), number(N))),
    lambda: (ops.mul(over("reduce_mean", X, 0), number(N)), over("reduce_sum", X, 0)),
)
pair(
    "a product of zeros is zero",
    LINE,
    lambda: (over("reduce_prod", ops.mul(X, number(0)), 0), number(0)),
    lambda: (over("reduce_sum", ops.mul(X, number(0)), 0), Const(np.float32(0))),
)
pair(
    "a sum of ones is one",
    PLANE,
    lambda: (
        over("reduce_sum", ops.mul(ops.add(ops.mul(X, number(0)), number(1)), X), 1),
        over("reduce_mean", X, 1),
    ),
    lambda: (
        over("reduce_sum", ops.add(ops.mul(X, number(0)), number(1)), 1),
        ops.add(ops.mul(over("reduce_sum", X, 1), number(0)), number(C)),
    ),
)

# Broadcasting, and sizes that may differ

pair(
    "sizes that meet are equal",
    OTHERS,
    lambda: (ops.add(X, Y), ops.add(Y, X)),
    lambda: (ops.add(X, X), ops.mul(X, number(2))),
)
pair(
    "a sum of products is a matrix product",
    {"x": (N, C), "y": (M, 1)},
    lambda: (over("reduce_sum", ops.mul(X, ops.reshape(Y, ints(1, -1))), 1, keep=1), ops.matmul(X, Y)),
    None,
)
pair("a dot product of other sizes", OTHERS, lambda: (over("reduce_sum", ops.mul(X, Y), 0), ops.matmul(X, Y)))
pair(
    "a dot product",
    {"x": (N,), "y": (N,)},
    lambda: (
        over("reduce_sum", ops.mul(X, Y), 0),
        ops.mul(over("reduce_sum", X, 0), over("reduce_sum", Y, 0)),
    ),
    lambda: (over("reduce_sum", ops.mul(X, Y), 0), ops.matmul(X, Y)),
)
pair(
    "a column and a row are a row",
    {"x": (N,), "y": (N,)},
    lambda: (ops.add(ops.unsqueeze(X, ints(1)), Y), ops.add(X, Y)),
    lambda: (ops.add(ops.unsqueeze(X, ints(1)), Y), ops.add(Y, ops.unsqueeze(X, ints(1)))),
)
pair(
    "an expanded column is a column",
    {"x": (N, 1)},
    lambda: (ops.expand(X, ints(1, 4)), X),
    lambda: (ops.add(ops.expand(X, ints(1, 4)), row(0, 0, 0, 0)), ops.add(X, row(0, 0, 0, 0))),
)
pair(
    "the sum of a broadcast",
    {"x": (N, 1), "y": (N, C)},
    lambda: (over("reduce_sum", ops.add(X, Y), 1, keep=1), ops.add(X, over("reduce_sum", Y, 1, keep=1))),
    lambda: (
        over("reduce_sum", ops.add(X, Y), 1, keep=1),
        ops.add(ops.mul(X, number(C)), over("reduce_sum", Y, 1, keep=1)),
    ),
)
pair(
    "the rank is promoted behind",
    {"x": (N, N), "y": (N,)},
    lambda: (ops.add(X, Y), ops.add(X, ops.unsqueeze(Y, ints(1)))),
    lambda: (ops.add(X, Y), ops.add(X, ops.unsqueeze(Y, ints(0)))),
)
pair(
    "a size named like an index",
    {"x": (Poly.symbol("o0"),)},
    lambda: (
        ops.cum_sum(ops.add(ops.mul(X, number(0)), number(1)), Const(np.int64(0))),
        ops.add(ops.mul(X, number(0)), number(Poly.symbol("o0") + 1)),
    ),
)

# Products

pair(
    "factors the other way round",
    {"x": (N, N), "y": (N, N)},
    lambda: (ops.matmul(X, Y), ops.matmul(Y, X)),
    lambda: (ops.matmul(X, Y), turned(ops.matmul(turned(Y, 1, 0), turned(X, 1, 0)), 1, 0)),
)
pair(
    "products in another grouping",
    {"x": (N, N), "y": (N, N), "z": (N, N)},
    lambda: (ops.matmul(ops.matmul(X, Y), Z), ops.matmul(ops.matmul(X, Z), Y)),
    lambda: (ops.matmul(ops.matmul(X, Y), Z), ops.matmul(X, ops.matmul(Y, Z))),
)
pair(
    "einsum with a transposed factor",
    {"x": (N, N), "y": (N, N)},
    lambda: (ops.einsum(X, Y, attrs={"equation": "ij,kj->ik"}), ops.matmul(X, Y)),
    lambda: (ops.einsum(X, Y, attrs={"equation": "ij,jk->ik"}), ops.matmul(X, Y)),
)
pair(
    "gemm without its alpha",
    {"x": (N, C), "w": (C, M)},
    lambda: (ops.gemm(X, W, attrs={"alpha": 2.0}), ops.matmul(X, W)),
    lambda: (ops.gemm(X, W, attrs={"alpha": 2.0}), ops.matmul(ops.add(X, X), W)),
)
pair(
    "gemm without its beta",
    {"x": (N, C), "w": (C, M), "v": (M,)},
    lambda: (ops.gemm(X, W, V, attrs={"beta": 0.5}), ops.add(ops.matmul(X, W), V)),
    lambda: (ops.gemm(X, W, V, attrs={"beta": 0.5}), ops.add(ops.matmul(X, W), ops.mul(V, number(0.5)))),
)
pair(
    "gemm with weights the other way round",
    {"x": (N, C), "w": (C, C)},
    lambda: (ops.gemm(X, W, attrs={"transB": 1}), ops.matmul(X, W)),
    lambda: (ops.gemm(X, W, attrs={"transB": 1}), ops.matmul(X, turned(W, 1, 0))),
)
