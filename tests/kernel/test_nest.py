"""A loop nest prints C and reads back as what it sums."""

from __future__ import annotations

from dataclasses import replace

from nest_formulas import image, laid, summed

from tensmith.formula.expr import Formula, compute, tensor, total
from tensmith.formula.normal import equal
from tensmith.formula.poly import Poly
from tensmith.kernel import ConvolutionProblem
from tensmith.kernel.nest import (
    LANE,
    TOGETHER,
    Axis,
    Based,
    Fetched,
    ForEach,
    MultiplyAdd,
    Operand,
    Prefetch,
    Ragged,
    Registers,
    SumOver,
    Verbatim,
    apart,
    printed,
)

N, C, ROWS, K, E, L = (Poly.symbol(name) for name in ("n", "c", "i", "k", TOGETHER, LANE))
ROW, VECTOR = apart("i", 2), apart("k", 3)


def product(whole: int, rest: int) -> SumOver:
    """a[i, k] += x[i, r] * w[r, k] for 4 * whole + rest values of r, two at a time."""
    x = Operand("x", (ROWS, N * 4 + C * 2 + E), (20, 1), "int", 2)
    w = Operand("w", (N * 4 + C * 2 + E, K * 8 + L), (24, 1))
    f = Registers("vf", "f", (VECTOR,), Fetched(w, "load({0} + {1})"))
    e = Registers("int", "e", (), Fetched(x))
    add = ForEach((VECTOR,), (MultiplyAdd((ROW, VECTOR), e, f, "{0} = dot({0}, {1}, {2})", 2),))
    steps = (Verbatim("hint();"), f, Prefetch((VECTOR,), w, 96), ForEach((ROW,), (e, add)))
    inner = SumOver(Axis("c", 2, "UNROLL_4", Ragged("n", whole, rest // 2)), steps, (w,))
    return SumOver(Axis("n", whole + (rest > 0)), (Based("t", x), inner), (x,))


PRINTED = """\
    for (int n = 0; n < 3; n++, x += 2) {
        const int *t = x + 0;
        UNROLL_4 for (int c = 0; c < (n < 2 ? 2 : 1); c++, w += 48) {
            hint();
            vf f[3];
            UNROLL for (int k = 0; k < 3; k++) f[k] = load(w + k * 8);
            UNROLL for (int k = 0; k < 3; k++) FETCH(w + k * 8 + 96);
            UNROLL for (int i = 0; i < 2; i++) {
                int e = t[i * 10 + c];
                UNROLL for (int k = 0; k < 3; k++) a[i][k] = dot(a[i][k], e, f[k]);
            }
        }
    }"""


def read(nest: SumOver, x: Formula) -> Formula:
    """The sums of two rows by 24 columns."""
    tensors = {"x": x, "w": tensor("w", 10, 24)}
    return compute((2, 24), lambda i, k: summed(nest, tensors, {"i": i, "k": 0, LANE: k}))


def expected(count: int) -> Formula:
    x, w = tensor("x", 2, 10), tensor("w", 10, 24)
    return compute((2, 24), lambda i, k: total(count, lambda r: x[i, r] * w[r, k]))


def test_a_nest_is_printed() -> None:
    assert printed(product(2, 2), 4) == PRINTED


def test_a_nest_reads_back_as_its_sums() -> None:
    x = tensor("x", 2, 10)
    assert equal(read(product(2, 2), x), expected(10))
    assert equal(read(product(2, 0), x), expected(8))
    assert not equal(read(product(2, 0), x), expected(10))


def test_a_peeled_round_stands_behind_the_loop() -> None:
    nest = replace(product(2, 2), peeled=({"n": 2, "c": 2}, {"n": 1, "c": 1}))
    text = printed(nest, 0)
    assert text.index("n < 2;") < text.index("c < 2;") < text.index("n < 1;") < text.index("c < 1;")
    assert "?" not in text


def test_joined_axes_are_one_loop() -> None:
    w = Operand("w", (N, C), (6, 2))
    value = MultiplyAdd((), Fetched(w), Fetched(replace(w, name="x")))
    nest = SumOver(Axis("m", 12, joins=(Axis("n", 4), Axis("c", 3))), (value,), (w,))
    assert printed(nest, 0).startswith("for (int m = 0; m < 12; m++, w += 2) {")
    x, y = tensor("x", 4, 3), tensor("w", 4, 3)
    found = compute((), lambda: summed(nest, {"x": x, "w": y}, {}))
    assert equal(found, compute((), lambda: total((4, 3), lambda n, c: x[n, c] * y[n, c])))


def test_what_lies_past_the_channels_and_beyond_the_halo_is_noticed() -> None:
    problem = ConvolutionProblem(9, 4, 4, 6, pads=(0, 1, 0, 0))
    x = laid(problem, 4)
    for channels, row, column, same in (
        (9, 0, 1, True),
        (12, 0, 1, False),
        (9, 4, 1, False),
        (9, 0, 5, False),
    ):
        nest = SumOver(
            Axis("c", channels),
            (MultiplyAdd((), Fetched(Operand("x", (C // 4, Poly.of(row), Poly.of(column), C % 4))),
                         Fetched(Operand("w", (C,)))),),
        )  # fmt: skip
        found = compute((), lambda nest=nest: summed(nest, {"x": x, "w": tensor("w", 12)}, {}))
        wanted = compute((), lambda: total(9, lambda c: image(problem)[c, 0, 0] * tensor("w", 12)[c]))
        assert equal(found, wanted) == same
