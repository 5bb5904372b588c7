"""The rules of XLA's algebraic simplifier that TensorRight formalized (Arora et al., POPL 2025), proved here.

Those that are exact rules of tensmith are named; the others are lemmas of the same prover, for operations of
XLA that are ops of TensIR, or, where these have no such op (padding between elements, slices from starts that
are computed, iota, convolutions of stretched images), for index formulas. Formulas speak of the axis at hand,
of any size, and of one more; sizes, widths and steps are symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import Expr, Formula, Scalar, as_expr, compute, guard, inside, tensor, total
from tensmith.formula.poly import Dim, Poly
from tensmith.ir.ops.sizes import select
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import lemma
from tensmith.rewrite.rule import FormulaObligation, Rule
from tensmith.rewrite.term import Term, Use, Var, ops


@dataclass(frozen=True)
class FormulaClaim:
    """Two index formulas that are equal, and one that is not."""

    name: str
    left: Formula
    right: Formula
    wrong: Formula
    lower: Mapping[str, int]

    def obligations(self) -> Iterable[FormulaObligation]:
        """left = right."""
        yield FormulaObligation(self.name, self.left, self.right, Ranges(lower=self.lower))

    def twins(self) -> Iterable[FormulaObligation]:
        """left = wrong."""
        yield FormulaObligation(self.name, self.left, self.wrong, Ranges(lower=self.lower))


@dataclass(frozen=True)
class Entry:
    """A rule of XLA: the rule of tensmith that it is, or claims, or why it is neither."""

    name: str
    statement: str
    rule: str = ""
    claims: tuple[Rule | FormulaClaim, ...] = field(default=())
    generality: str = ""
    reason: str = ""


ENTRIES: dict[str, Entry] = {}
_ALL = "tensors of any rank and size"


def _rule(name: str, statement: str, rule: str) -> None:
    ENTRIES[name] = Entry(name, statement, rule=rule)


def _lemma(
    name: str, statement: str, left: Term, right: Any, wrong: Any, generality: str = _ALL, **details: Any
) -> None:
    ENTRIES[name] = Entry(
        name, statement, claims=(lemma(name, left, right, wrong, **details),), generality=generality
    )


def _claim(
    name: str,
    statement: str,
    left: Formula,
    right: Formula,
    wrong: Formula,
    *,
    lower: Mapping[str, int] | None = None,
    generality: str = "the axis at hand and one more, of any size",
) -> None:
    ENTRIES[name] = Entry(
        name, statement, claims=(FormulaClaim(name, left, right, wrong, lower or {}),), generality=generality
    )


def _open(name: str, statement: str, reason: str) -> None:
    ENTRIES[name] = Entry(name, statement, reason=reason)


X, Y, Z, P, C, D = (Var(name) for name in "xyzpcd")
N, M, K, S, E, L, H, BETWEEN, T, A = (
    Poly.symbol(name) for name in ("N", "M", "K", "s", "e", "l", "h", "i", "t", "a")
)
_x, _y, _z, _u = (tensor(name, size, M) for name, size in (("x", N), ("y", K), ("z", E), ("u", K)))
_v = tensor("v", N, M)
_fill = tensor("a")[()]
_POSITIVE = dict.fromkeys("NMKE", 1)


# XLA's operations as formulas along the first of two axes


def _filled(*shape: Dim) -> Formula:
    return compute(shape, lambda *_: _fill)


def _pad(x: Formula, low: Dim, between: Dim, high: Dim, fill: Scalar | None = None) -> Formula:
    """`between` elements of padding between each two of x: element v lies at low + v * (between + 1)."""
    step, value = Poly.of(between) + 1, _fill if fill is None else fill
    size = Poly.of(low) + high + (x.shape[0] - 1) * step + 1

    def element(i: Poly, j: Poly) -> Expr:
        def here(v: Poly) -> Expr:
            off = i - low - v * step
            return guard((off, -off), x[v, j] - as_expr(value))

        return as_expr(value) + total(x.shape[0], here)

    return compute((size, x.shape[1]), element)


def _border(x: Formula, low: Dim, high: Dim) -> Formula:
    """Padding around x alone."""
    size = Poly.of(low) + x.shape[0] + high
    return compute((size, x.shape[1]), lambda i, j: select(inside(i - low, x.shape[0]), x[i - low, j], _fill))


def _slice(x: Formula, start: Dim, size: Dim, step: Dim = 1) -> Formula:
    return compute((size, x.shape[1]), lambda i, j: x[Poly.of(start) + i * step, j])


def _update(x: Formula, u: Formula, start: Dim) -> Formula:
    def element(i: Poly, j: Poly) -> Expr:
        return select(inside(i - start, u.shape[0]), u[i - start, j], x[i, j])

    return compute(x.shape, element)


def _concat(*parts: Formula) -> Formula:
    def element(i: Poly, j: Poly) -> Expr:
        value, start = as_expr(0), Poly.of(0)
        for part in parts:
            value = value + guard(inside(i - start, part.shape[0]), part[i - start, j])
            start = start + part.shape[0]
        return value

    return compute((sum((p.shape[0] for p in parts), Poly.of(0)), parts[0].shape[1]), element)


def _reverse(x: Formula) -> Formula:
    return compute(x.shape, lambda i, j: x[x.shape[0] - 1 - i, j])


def _each(f: Callable[..., Scalar], *parts: Formula) -> Formula:
    return compute(parts[0].shape, lambda *at: f(*(part[at] for part in parts)))


def _wide(x: Formula, size: Dim = K) -> Formula:
    """x repeated along a new axis behind its own."""
    return compute((*x.shape, size), lambda *at: x[at[:-1]])


def _iota(size: Dim) -> Formula:
    return compute((size,), lambda i: i)


def _sum(x: Formula) -> Formula:
    """Over the first axis."""
    return compute(x.shape[1:], lambda *at: total(x.shape[0], lambda k: x[(k, *at)]))


def _turned(x: Formula) -> Formula:
    return compute(x.shape[::-1], lambda i, j: x[j, i])


# add, sub, mul, divmod, not

_rule("add/rule01", "(x + c) + d = x + (c + d)", "add_constants")
_rule("add/rule02", "x + 0 = x", "no_operation")
_rule("add/rule03", "0 + x = x", "no_operation")
_lemma("add/rule04", "c + x = x + c", C + X, X + C, X - C)
_rule("sub/rule00", "x - 0 = x", "no_operation")
_rule("sub/rule01", "x - c = x + (-c)", "subtract_constant")
_rule("sub/rule02", "x - x = 0", "difference_with_itself")
_rule("mul/rule01", "x * 1 = x", "no_operation")
_rule("mul/rule02", "1 * x = x", "no_operation")
_rule("mul/rule03", "x * 0 = 0", "product_with_zero")
_rule("mul/rule04", "0 * x = 0", "product_with_zero")
_rule("mul/rule05", "(x * c) * (y * d) = (x * y) * (c * d)", "factors_of_both")
_rule("mul/rule06", "(x * c) * d = x * (c * d)", "multiply_constants")
_lemma(
    "mul/rule07",
    "(x * c) * bcast(y) = bcast(y * c) * x",
    (X * C) * Y,
    (Y * C) * X,
    (Y + C) * X,
    given=[Instance("column", {"x": "M N", "y": "M 1", "c": ""})],
)
_rule("mul/rule08", "x * z + y * z = (x + y) * z", "factor_out")
_rule("mul/rule09", "|x| * |x| = x * x", "square_of_abs")
_rule("mul/rule10", "exp(x) * exp(y) = exp(x + y)", "exp_times_exp")
_rule("divmod/rule01", "x / 1 = x", "no_operation")
_rule("divmod/rule02", "x / c = x * (1 / c)", "divide_by_constant")
_rule("divmod/rule03", "(x / y) / (z / w) = (x * w) / (y * z)", "quotients_divided")
_rule("divmod/rule04", "x / (y / z) = (x * z) / y", "divide_by_quotient")


def _integers(f: Callable[..., Poly]) -> Formula:
    """A function of two integers that are not negative, for one element."""
    return compute((), lambda: f(S, K))


_WHOLE = {"K": 1}
_claim(
    "divmod/rule05",
    "(x rem y) rem y = x rem y",
    _integers(lambda x, y: (x % y) % y),
    _integers(lambda x, y: x % y),
    _integers(lambda x, y: x // y),
    lower=_WHOLE,
    generality="integers that are not negative",
)
_claim(
    "divmod/rule06",
    "iota rem c = iota, c >= size",
    compute((N,), lambda i: i % (N + K)),
    _iota(N),
    compute((N,), lambda i: i % N + 1),
    lower=_WHOLE,
    generality="any size, any c that is not below it",
)
_claim(
    "divmod/rule07",
    "(iota + c) rem c = iota rem c",
    compute((N,), lambda i: (i + K) % K),
    compute((N,), lambda i: i % K),
    compute((N,), lambda i: i % (K + 1)),
    lower=_WHOLE,
    generality="any size, any positive c",
)
_claim(
    "divmod/rule08",
    "(x + n) rem n = x rem n",
    _integers(lambda x, n: (x + n) % n),
    _integers(lambda x, n: x % n),
    _integers(lambda x, n: (x + 1) % n),
    lower=_WHOLE,
    generality="integers that are not negative; the negative half is its mirror image",
)
_rule("not/rule02", "-(-x) = x", "neg_of_neg")
_rule("not/rule01", "not not x = x", "not_of_not")

# broadcast

_xs, _ys = tensor("x", N, M), tensor("y", N, M)
for _number, _sign, _f in (("01", "+", lambda a, b: a + b), ("02", "*", lambda a, b: a * b)):
    _claim(
        f"broadcast/rule{_number}",
        f"bcast(x) {_sign} bcast(y) = bcast(x {_sign} y)",
        _each(_f, _wide(_xs), _wide(_ys)),
        _wide(_each(_f, _xs, _ys)),
        _wide(_each(lambda a, b: a - b, _xs, _ys)),
        generality="two axes and a new one, of any size; as a rule: expanded_alike, of any function",
    )
_claim(
    "broadcast/rule03", "transpose(fill(a)) = fill(a)", _turned(_filled(N, M)), _filled(M, N), _filled(N, M)
)
_claim("broadcast/rule04", "reverse(fill(a)) = fill(a)", _reverse(_filled(N, M)), _filled(N, M), _x)
_claim(
    "broadcast/rule05",
    "slice(fill(a), s:e:p) = fill(a)",
    _slice(_filled(N, M), S, K, T),
    _filled(K, M),
    _filled(N, M),
)
_claim(
    "broadcast/rule06",
    "dyslice(fill(a), s, n) = fill(a)",
    _slice(_filled(N, M), S, K),
    _filled(K, M),
    _filled(N, M),
)
_claim(
    "broadcast/rule07",
    "bcast(iota along i) = iota along i",
    _wide(_iota(N)),
    compute((N, K), lambda i, j: i),
    compute((N, K), lambda i, j: j),
)
_claim(
    "broadcast/rule08",
    "bcast(bcast(x)) = bcast(x)",
    _wide(_wide(_xs, K), E),
    compute((N, M, K, E), lambda i, j, *_: _xs[i, j]),
    compute((N, M, K, E), lambda i, j, *_: _ys[i, j]),
)

# clamp, max, compare, logical, select: elements of any tensors


def _clamp(low: Term, x: Term, high: Term) -> Use:
    return ops.min(ops.max(x, low), high)


_lemma(
    "clamp/rule01",
    "clamp(l, clamp(l, x, h), h) = clamp(l, x, h)",
    _clamp(C, _clamp(C, X, D), D),
    _clamp(C, X, D),
    X,
)
_lemma(
    "clamp/rule02",
    "max(l, min(x, h)) = clamp(l, x, h), l <= h",
    ops.max(C, ops.min(X, C + ops.abs(D))),
    _clamp(C, X, C + ops.abs(D)),
    X,
    generality="any tensors, h = l + |d|",
)
_lemma("clamp/rule03", "min(h, max(x, l)) = clamp(l, x, h)", ops.min(D, ops.max(X, C)), _clamp(C, X, D), X)
for _number, _sign, _relation, _holds in (
    ("01", ">", ops.greater, 0),
    ("02", "<", ops.less, 0),
    ("04", ">=", ops.greater_or_equal, 1),
    ("05", "<=", ops.less_or_equal, 1),
    ("06", "==", ops.equal, 1),
):
    _lemma(
        f"compare/rule{_number}",
        f"(x {_sign} x) = {str(bool(_holds)).lower()}",
        ops.cast(_relation(X, X), attrs={"to": 1}),
        X - X + _holds,
        X - X + (1 - _holds),
        generality="any tensors of numbers",
    )
_lemma(
    "compare/rule03",
    "(x != x) = false",
    ops.cast(Use("not", (ops.equal(X, X),)), attrs={"to": 1}),
    X - X,
    X - X + 1,
    generality="any tensors of numbers",
)
_lemma(
    "max/rule01",
    "max(x, -inf) = x",
    ops.max(X, X - ops.abs(C)),
    X,
    -X,
    generality="any bound that is not above x: the reals have no infinity",
)
_lemma(
    "max/rule02",
    "min(x, inf) = x",
    ops.min(X, X + ops.abs(C)),
    X,
    -X,
    generality="any bound that is not below x: the reals have no infinity",
)


def _or(a: Term, b: Term) -> Use:
    return Use("or", (a, b))


def _and(a: Term, b: Term) -> Use:
    return Use("and", (a, b))


_true, _false = Var("true"), Var("false")
_KNOWN = [
    Instance(
        "truths",
        {"": "M N"},
        dtypes={"p": "bool", "true": "bool", "false": "bool"},
        elements={"true": lambda *_: as_expr(1), "false": lambda *_: as_expr(0)},
    )
]
for _name, _text, _left, _right, _wrong in (
    ("01", "x or true = true", _or(P, _true), _or(_true, _true), P),
    ("02", "true or x = true", _or(_true, P), _or(_true, _true), P),
    ("03", "x or false = x", _or(P, _false), P, _or(P, _true)),
    ("04", "false or x = x", _or(_false, P), P, _or(P, _true)),
    ("05", "x and true = x", _and(P, _true), P, _and(P, _false)),
    ("06", "true and x = x", _and(_true, P), P, _and(P, _false)),
    ("07", "x and false = false", _and(P, _false), _and(_false, _false), P),
    ("08", "false and x = false", _and(_false, P), _and(_false, _false), P),
):
    _lemma(
        f"logical/rule{_name}", _text, _left, _right, _wrong, generality="any Boolean tensors", given=_KNOWN
    )
_lemma(
    "logical/rule09",
    "(x < a) and (b > x) = (x < min(a, b))",
    _and(ops.less(X, C), ops.greater(D, X)),
    ops.less(X, ops.min(C, D)),
    ops.less(X, ops.max(C, D)),
)
_rule("logical/rule10", "(max(x, y) > y) = (x > y)", "compare_with_extreme")
_lemma(
    "logical/rule11",
    "(max(x, y) > x) = (y > x)",
    ops.greater(ops.max(X, Y), X),
    ops.greater(Y, X),
    ops.greater(X, Y),
)
_rule("select/rule01", "select(p, x, x) = x", "where_of_equals")
_rule("select/rule02", "select(true, x, y) = x", "no_operation")
_rule("select/rule03", "select(false, x, y) = y", "no_operation")
_rule("select/rule04", "select(not p, x, y) = select(p, y, x)", "where_of_not")

# concat

_claim(
    "concat/rule01",
    "cat([x, y]) = cat(x, y)",
    _concat(_x, _y),
    compute((N + K, M), lambda i, j: select((N - 1 - i,), _x[i, j], _y[i - N, j])),
    _concat(_y, _x),
    lower=_POSITIVE,
)
_claim(
    "concat/rule02",
    "cat(x, cat(y, z)) = cat(cat(x, y), z)",
    _concat(_x, _concat(_y, _z)),
    _concat(_concat(_x, _y), _z),
    _concat(_concat(_x, _z), _y),
)
_rule("concat/rule03", "cat([x, y, z]) = cat(x, cat(y, z))", "concat_of_concat")
_rule("concat/rule04", "cat(slice(x, s:m), slice(x, m:e)) = slice(x, s:e)", "concat_of_slices")
_claim(
    "concat/rule05",
    "cat(fill(a), y) = pad(y, a, low)",
    _concat(_filled(N, M), _y),
    _border(_y, N, 0),
    _border(_y, 0, N),
)
_claim(
    "concat/rule06",
    "cat(x, fill(a)) = pad(x, a, high)",
    _concat(_y, _filled(N, M)),
    _border(_y, 0, N),
    _border(_y, N, 0),
)
_rule("concat/rule07", "cat(x, cat(y, z)) = cat([x, y, z])", "concat_of_concat")

# conv: images [N, channels] of one spatial axis, filters [K, channels, out]

_image, _filters = tensor("x", N, M), tensor("w", K, M, Poly.symbol("F"))


def _conv(x: Formula, w: Formula, low: Dim, dilation: Dim, high: Dim, spread: Dim) -> Formula:
    """The image stretched by `dilation`, padded by low and high, filters by `spread`: element v lies at
    low + v * dilation, and tap r of position o reads at o + r * spread."""
    size = Poly.of(low) + high + (x.shape[0] - 1) * dilation + 1 - (w.shape[0] - 1) * spread

    def element(o: Poly, f: Poly) -> Expr:
        def product(r: Poly, v: Poly, c: Poly) -> Expr:
            off = o + r * spread - low - v * dilation
            return guard((off, -off), x[v, c] * w[r, c, f])

        return total((w.shape[0], x.shape[0], x.shape[1]), product)

    return compute((size, w.shape[2]), element)


def _stuffed(w: Formula, between: Dim) -> Formula:
    """Filters with zeros between their taps."""
    step = Poly.of(between) + 1
    size = (w.shape[0] - 1) * step + 1

    def element(p: Poly, c: Poly, f: Poly) -> Expr:
        return total(w.shape[0], lambda r: guard((p - r * step, r * step - p), w[r, c, f]))

    return compute((size, *w.shape[1:]), element)


_lp, _hp, _R = Poly.symbol("lp"), Poly.symbol("hp"), Poly.symbol("r")
_claim(
    "conv/rule00",
    "conv(pad(x, 0; l', i', h'), w; low l, dilation 1) = conv(x, w; low l + l', dilation i' + 1)",
    _conv(_pad(_image, _lp, BETWEEN, _hp, 0), _filters, L, 1, H, _R),
    _conv(_image, _filters, L + _lp, BETWEEN + 1, H + _hp, _R),
    _conv(_image, _filters, L + _lp, BETWEEN + 2, H + _hp, _R),
    lower={**_POSITIVE, "r": 1},
    generality="one spatial axis, channels and filters; all widths and dilations any",
)
_claim(
    "conv/rule01",
    "conv(x, pad(w, 0; 0, i', 0); kernel dilation 1) = conv(x, w; kernel dilation 1 + i')",
    _conv(_image, _stuffed(_filters, BETWEEN), L, 1, H, 1),
    _conv(_image, _filters, L, 1, H, BETWEEN + 1),
    _conv(_image, _filters, L, 1, H, BETWEEN + 2),
    lower=_POSITIVE,
    generality="one spatial axis, channels and filters; all widths and dilations any",
)
_open(
    "conv/rule02",
    "conv(x, w) = conv(reverse(w), reverse(x)), image and kernel exchanged",
    "the normal form does not reverse the order of a sum; its authors skipped it too",
)
_claim(
    "conv/rule03",
    "conv(x, w) = dot(x, w), where the kernel covers the axis or has size 1",
    _conv(_image, tensor("w", N, M, Poly.symbol("F")), 0, 1, 0, 1),
    compute(
        (1, Poly.symbol("F")),
        lambda o, f: total((N, M), lambda v, c: _image[v, c] * tensor("w", N, M, Poly.symbol("F"))[v, c, f]),
    ),
    compute((1, Poly.symbol("F")), lambda o, f: total((N, M), lambda v, c: _image[v, c])),
    lower=_POSITIVE,
    generality="a covered axis; size 1 is the rule pointwise_as_matmul",
)

# dot

_a, _b = tensor("a2", N, M), tensor("b2", M, K)


def _dot(a: Formula, b: Formula) -> Formula:
    return compute((a.shape[0], b.shape[1]), lambda i, j: total(a.shape[1], lambda k: a[i, k] * b[k, j]))


_c, _d = tensor("c2", N, E), tensor("d2", E, K)
_claim(
    "dot/rule01",
    "dot(cat(x, y), cat(c, d)) = sum(cat(dot(x, c), dot(y, d)))",
    _dot(_turned(_concat(_turned(_a), _turned(_c))), _concat(_b, _d)),
    _each(lambda p, q: p + q, _dot(_a, _b), _dot(_c, _d)),
    _dot(_a, _b),
)
_claim(
    "dot/rule02",
    "dot(x, y) = dot(y, x)",
    _dot(_a, _b),
    _turned(_dot(_turned(_b), _turned(_a))),
    _turned(_dot(_turned(_b), _turned(_b))),
    generality="one contracted axis, one free axis of each",
)
_rule("dot/rule03", "dot(x, dot(y, z)) = dot(dot(x, y), z)", "associate_left")
_claim(
    "dot/rule04",
    "dot(x, y) = bcast(x) * bcast(y), nothing contracted",
    compute((N, K), lambda i, j: total(1, lambda k: tensor("p", N, 1)[i, k] * tensor("q", 1, K)[k, j])),
    compute((N, K), lambda i, j: tensor("p", N, 1)[i, 0] * tensor("q", 1, K)[0, j]),
    compute((N, K), lambda i, j: tensor("p", N, 1)[i, 0]),
)
_claim(
    "dot/rule05",
    "dot(x, y) = 0, an axis of size 0",
    compute((N, K), lambda i, j: total(0, lambda k: _a[i, k] * _b[k, j])),
    compute((N, K), lambda *_: 0),
    compute((N, K), lambda *_: 1),
    generality="the contracted axis; a free axis of size 0 leaves no elements",
)
_claim(
    "dot/rule06",
    "dot(x, y) = sum over contracted axes of x * bcast(y)",
    compute((N,), lambda i: total(M, lambda k: _a[i, k] * tensor("q", N, M)[i, k])),
    _sum(_turned(_each(lambda p, q: p * q, _a, tensor("q", N, M)))),
    _sum(_turned(_a)),
)

# dynamic slices: starts are symbols, as they are inside and not clamped

_claim(
    "dyslice/rule01",
    "dyslice(x, s, n) = slice(x, s:s+n)",
    _slice(_x, S, K),
    _slice(_x, S, (S + K) - S, 1),
    _slice(_x, S + 1, K),
)
_claim("dyslice/rule02", "dyslice(x, s, n) = x, s = 0, n = size", _slice(_x, 0, N), _x, _reverse(_x))
_claim(
    "dyslice/rule03",
    "dyslice(bcast(x)) = bcast(dyslice(x))",
    compute((K, M, E), lambda i, j, k: _wide(_x)[S + i, j, k]),
    _wide(_slice(_x, S, K), E),
    _wide(_slice(_x, S + 1, K), E),
)
_claim(
    "dyslice/rule04",
    "transpose(dyslice(x)) = dyslice(transpose(x))",
    _turned(_slice(_x, S, K)),
    compute((M, K), lambda i, j: _turned(_x)[i, S + j]),
    compute((M, K), lambda i, j: _turned(_x)[i, S + j + 1]),
)
_claim(
    "dyslice/rule05",
    "dyslice(dyslice(x, s, m), t, n) = dyslice(x, s + t, n)",
    _slice(_slice(_x, S, E), T, K),
    _slice(_x, S + T, K),
    _slice(_x, S, K),
)
_claim(
    "dyslice/rule06",
    "dyslice(iota, s, 1) = s",
    compute((1,), lambda i: _iota(N)[S + i]),
    compute((1,), lambda _: S),
    compute((1,), lambda _: S + 1),
)

_ROOM = Poly.symbol("room")  # what an updated tensor has behind the update
_big = tensor("x", S + K + _ROOM, M)
_claim(
    "dyupslice/rule01",
    "x + update(fill(0), u, s) = update(x, u + dyslice(x, s), s)",
    _each(lambda p, q: p + q, _big, _update(compute(_big.shape, lambda *_: 0), _u, S)),
    _update(_big, _each(lambda p, q: p + q, _u, _slice(_big, S, K)), S),
    _update(_big, _u, S),
)
_claim(
    "dyupslice/rule02",
    "update(fill(a), u, s) = pad(u, a; low s, high)",
    _update(_filled(*_big.shape), _u, S),
    _border(_u, S, _ROOM),
    _border(_u, _ROOM, S),
)
_claim("dyupslice/rule03", "update(x, u, 0) = u, of one size", _update(_x, _v, 0), _v, _x)
_deep = tensor("x", S + T + K + _ROOM + E, M)
_claim(
    "dyupslice/rule04",
    "update(x, update(dyslice(x, s, n), u, t), s) = update(x, u, s + t)",
    _update(_deep, _update(_slice(_deep, S, T + K + _ROOM), _u, T), S),
    _update(_deep, _u, S + T),
    _update(_deep, _u, S),
)
_claim(
    "generalize/foldConvInputPadGeneral",
    "conv(pad(x, 0; l', i', h'), w; low l, dilation d) = conv(x, w; low l + d l', dilation d + d i')",
    _conv(_pad(_image, _lp, BETWEEN, _hp, 0), _filters, L, A, H, _R),
    _conv(_image, _filters, L + A * _lp, A + A * BETWEEN, H + A * _hp, _R),
    _conv(_image, _filters, L + _lp, A + A * BETWEEN, H + A * _hp, _R),
    lower={**_POSITIVE, "a": 1, "r": 1},
    generality="one spatial axis, channels and filters; all widths and dilations any",
)
_claim(
    "iota/rule01", "iota = fill(0), size 1", _iota(1), compute((1,), lambda _: 0), compute((1,), lambda _: 1)
)

# pad

_claim("pad/rule01", "pad(x, a; 0, 0, 0) = x", _pad(_x, 0, 0, 0), _x, _filled(N, M), lower=_POSITIVE)
_one = tensor("x", 1, M)
_claim(
    "pad/rule02",
    "pad(x, a; l, i, h) = pad(x, a; l, 0, h) on an axis of size 1",
    _pad(_one, L, BETWEEN, H),
    _pad(_one, L, 0, H),
    _pad(_one, H, 0, L),
)
_claim(
    "pad/rule03",
    "pad(bcast(x to p and q)) = bcast(pad(bcast(x to p)) to q)",
    _pad(compute((N, M), lambda i, j: tensor("x", 1)[0]), L, BETWEEN, H),
    compute(
        (L + H + (N - 1) * (BETWEEN + 1) + 1, M),
        lambda i, j: _pad(compute((N, 1), lambda *_: tensor("x", 1)[0]), L, BETWEEN, H)[i, 0],
    ),
    _pad(compute((N, M), lambda i, j: tensor("x", 1)[0]), H, BETWEEN, L),
)
_claim(
    "pad/rule04",
    "pad(x, a; l, 0, h) = slice(pad(x, a; max(l, 0), 0, max(h, 0)))",
    compute((K, M), lambda i, j: tensor("x", L + K + H, M)[i + L, j]),
    _slice(_pad(tensor("x", L + K + H, M), 0, 0, 0), L, K),
    _slice(_pad(tensor("x", L + K + H, M), 0, 0, 0), 0, K),
    generality="both widths negative, -l and -h; the other axis any",
)

# reduce

_s, _t2 = tensor("x", N, M), tensor("y", K, E)
_claim(
    "reduce/rule01",
    "sum(x) * sum(y) = sum(bcast(x) * bcast(y))",
    compute((M, E), lambda i, j: _sum(_s)[i] * _sum(_t2)[j]),
    compute((M, E), lambda i, j: total((N, K), lambda a, b: _s[a, i] * _t2[b, j])),
    compute((M, E), lambda i, j: total((N, K), lambda a, b: _s[a, i])),
)
_claim(
    "reduce/rule02",
    "sum(cat(sum(x), sum(y))) = sum(cat(x, y))",
    _each(lambda p, q: p + q, _sum(_x), _sum(_y)),
    _sum(_concat(_x, _y)),
    _sum(_x),
)
_rule("reduce/rule03", "c * sum(x) = sum(c * x)", "scale_behind_reduction")
_rule("reduce/rule04", "sum(transpose(x)) = transpose(sum(x))", "reduction_of_transpose")
_rule("reduce/rule05", "sum over b of sum over a of x = sum over a, b of x", "reduction_of_reduction")
_claim(
    "reduce/rule06",
    "sum over b of dot(x, y; batch b, contract a) = dot(x, y; contract a, b)",
    compute((), lambda: total(N, lambda b: total(M, lambda k: _xs[b, k] * _ys[b, k]))),
    compute((), lambda: total((M, N), lambda k, b: _xs[b, k] * _ys[b, k])),
    compute((), lambda: total((M, N), lambda k, b: _xs[b, k])),
)
_rule("reduce/rule07", "sum over a of x = x without axis a, of size 1", "reduction_of_one")
_claim(
    "reduce/rule08",
    "sum over a of transpose(x) = x without axis a, of size 1",
    _sum(_turned(tensor("x", M, 1))),
    compute((M,), lambda i: tensor("x", M, 1)[i, 0]),
    compute((M,), lambda i: tensor("x", M, 1)[0, 0]),
)
_rule("relabel/rule01", "transpose(transpose(x)) = transpose(x)", "merge_transposes")
_rule("relabel/rule02", "transpose(x) = x, identity permutation", "no_operation")
_claim(
    "reverse/rule01",
    "reverse(x) = x, reversed axes of size 1",
    _reverse(tensor("x", 1, M)),
    tensor("x", 1, M),
    compute((1, M), lambda i, j: tensor("x", 1, M)[0, M - 1 - j]),
)
_rule("reverse/rule02", "reverse(reverse(x)) = x", "reverse_of_reverse")
_both = compute((N, M), lambda i, j: _xs[N - 1 - i, M - 1 - j])
_claim(
    "reverse/rule03",
    "reverse(reverse(x, P), Q) = reverse(x, P symmetric difference Q)",
    _turned(_reverse(_turned(_reverse(_xs)))),
    _both,
    _reverse(_xs),
    generality="P and Q of one axis each; equal ones are rule02",
)
_claim(
    "reverse/rule04",
    "reverse(x + c) = reverse(x) + c",
    _reverse(_each(lambda p: p + _fill, _xs)),
    _each(lambda p: p + _fill, _reverse(_xs)),
    _reverse(_xs),
)

# slice

_claim("slice/rule01", "slice(x, s:e:p) = x, s = 0, e = size, p = 1", _slice(_x, 0, N), _x, _reverse(_x))
_claim(
    "slice/rule02",
    "slice(fill(a), s:e:p) = fill(a)",
    _slice(_filled(N, M), S, K, T),
    _filled(K, M),
    _filled(N, M),
)
_claim(
    "slice/rule03",
    "slice(bcast(x)) = bcast(slice(x))",
    compute((K, M, E), lambda i, j, k: _wide(_x, N)[S + i * T, j, k]),
    _wide(_slice(_x, S, K, T), E),
    _wide(_slice(_x, S + 1, K, T), E),
)
_open(
    "slice/rule04",
    "slice(pad(x, a; l, i, h), s:e:p) = x, s = l, p = i + 1",
    "the normal form does not divide o * (i + 1) = v * (i + 1) by i + 1; with i = 0 it is slice/rule06",
)
_claim(
    "slice/rule05",
    "slice(pad(x, a), s:e:p) = fill(a), before or behind x",
    _slice(_pad(_x, L + (K + 1) * T, BETWEEN, H), 0, K, T),
    _filled(K, M),
    _slice(_x, 0, K, T),
    lower={"t": 1},
    generality="in front of x; behind it alike",
)
_claim(
    "slice/rule06",
    "slice(pad(x, a; l, 0, h), s:e) = slice(x, s-l:e-l)",
    _slice(_pad(tensor("x", S + K + E, M), L, 0, H), L + S, K),
    _slice(tensor("x", S + K + E, M), S, K),
    _slice(tensor("x", S + K + E, M), L + S, K),
)
_rule("slice/rule07", "slice(slice(x, s:e), t:f) = slice(x, s+t:s+f)", "merge_slices")
_claim(
    "slice/rule08",
    "slice(cat(x, y), s:e) = y",
    _slice(_concat(_x, _y), N, K),
    _y,
    _slice(_concat(_x, _y), 0, K),
)
_claim(
    "slice/rule09",
    "slice(bcast(x)) = bcast(x), only new axes are sliced",
    compute((N, M, E), lambda i, j, k: _wide(_x, K)[i, j, S + k * T]),
    _wide(_x, E),
    _wide(_v, E),
)
_first = tensor("x", S + K * T + 1, M)
_claim(
    "slice/rule10",
    "slice(cat(x, y), s:e:p) = slice(x, s:e:p)",
    _slice(_concat(_first, _y), S, K, T),
    _slice(_first, S, K, T),
    _slice(_first, S, K, 1),
    lower={"t": 1},
)
_claim(
    "slice/rule11",
    "slice(cat(x, y), s:e:p) = slice(y, s-m:e-m:p)",
    _slice(_concat(_x, tensor("y", S + K * T + 1, M)), N + S, K, T),
    _slice(tensor("y", S + K * T + 1, M), S, K, T),
    _slice(tensor("y", S + K * T + 1, M), S, K, 1),
    lower={"t": 1},
)
_tail = tensor("z", S + K * T + 1, M)
_claim(
    "slice/rule12",
    "slice(cat([x, y, z]), s:e:p) = slice(cat(y, z), s-m:e-m:p)",
    _slice(_concat(_x, _y, _tail), N + S, K, T),
    _slice(_concat(_y, _tail), S, K, T),
    _slice(_concat(_y, _tail), S, K, 1),
    lower={"t": 1},
)
_long = tensor("x", S + K * T + 1 + E, M)
_claim(
    "slice/rule13",
    "slice(reverse(x), s:e:p) = reverse(slice(x, n-s-k*p-1 : n-s : p))",
    _slice(_reverse(_long), S, K + 1, T),
    _reverse(_slice(_long, E, K + 1, T)),
    _slice(_long, E, K + 1, T),
)
