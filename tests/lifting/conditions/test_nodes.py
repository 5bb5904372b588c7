"""Nodes mean what their text says, equal sums are one node, and subscripts divide into digits."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axiom_model import MODEL, parse, value
from lifting.conditions.by_hand import vadd
from tensmith.formula.expr import Call, Size
from tensmith.formula.poly import Poly
from tensmith.formula.types import F64, I32, I64, MachineType
from tensmith.lifting.conditions.folds import Folds
from tensmith.lifting.conditions.memory import divided
from tensmith.lifting.conditions.nodes import Arena, ProofTerm
from tensmith.lifting.conditions.operators import apply, cast, fits, wrap
from tensmith.lifting.conditions.state import WrittenElement, reach
from tensmith.lifting.conditions.text import constant, name, text
from tensmith.lifting.conditions.world import ProofWorld
from tensmith.verify.theory import Prefix

U8, U32 = MachineType("u8"), MachineType("u32")
I8 = MachineType("i8")
SYMBOLS = ("a", "b", "n")


@st.composite
def expressions(draw: st.DrawFn, depth: int = 4) -> tuple[str, ...]:
    """A tree of operators over SYMBOLS and small numbers, as nested tuples."""
    if depth == 0 or draw(st.booleans()):
        return ("leaf", draw(st.sampled_from((*SYMBOLS, "-2", "0", "1", "3"))))
    operator = draw(
        st.sampled_from(("add", "sub", "mul", "neg", "abs", "minimum", "maximum", "where", "div", "mod"))
    )
    count = {"neg": 1, "abs": 1, "where": 4}.get(operator, 2)
    return (operator, *(draw(expressions(depth=depth - 1)) for _ in range(count)))  # type: ignore[return-value]


def built(arena: Arena, tree: tuple[str, ...]) -> ProofTerm:
    operator, *rest = tree
    if operator == "leaf":
        leaf = rest[0]
        return arena.symbol(leaf, "Int") if leaf in SYMBOLS else arena.number(int(leaf), "Int")
    parts = [built(arena, part) for part in rest]  # type: ignore[arg-type]
    if operator == "where":
        return arena.ite(arena.gt(parts[1], parts[0]), parts[2], parts[3])
    return apply(arena, operator, parts, I32)


def computed(tree: tuple[str, ...], scope: dict[str, int]) -> int:
    operator, *rest = tree
    if operator == "leaf":
        return scope[rest[0]] if rest[0] in SYMBOLS else int(rest[0])
    parts = [computed(part, scope) for part in rest]  # type: ignore[arg-type]
    match operator:
        case "add":
            return parts[0] + parts[1]
        case "sub":
            return parts[0] - parts[1]
        case "mul":
            return parts[0] * parts[1]
        case "neg":
            return -parts[0]
        case "abs":
            return abs(parts[0])
        case "where":
            return parts[2] if parts[0] < parts[1] else parts[3]
        case "div":
            return int(MODEL["tdiv"](parts[0], parts[1]))
        case "mod":
            return int(parts[0] - parts[1] * MODEL["fdiv"](parts[0], parts[1]))
    return min(parts) if operator == "minimum" else max(parts)


@given(expressions(), st.fixed_dictionaries({s: st.integers(-5, 5) for s in SYMBOLS}))
def test_a_node_has_the_value_of_its_expression(tree: tuple[str, ...], scope: dict[str, int]) -> None:
    node = built(Arena(), tree)
    assert value(parse(text(node)), scope, MODEL) == computed(tree, scope)


@given(expressions(), expressions(), expressions())
def test_rings_have_one_form(a: tuple[str, ...], b: tuple[str, ...], c: tuple[str, ...]) -> None:
    arena = Arena()
    x, y, z = (built(arena, tree) for tree in (a, b, c))
    assert arena.add(x, y, z) is arena.add(z, arena.add(y, x))
    assert arena.sub(arena.add(x, y), y) is x
    assert arena.mul(x, y) is arena.mul(y, x)


def test_products_of_long_sums_stay_products() -> None:
    arena = Arena()
    sums = [arena.add(*(arena.symbol(f"{p}{i}", "Int") for i in range(12))) for p in "pq"]
    assert arena.mul(*sums).op == "product"


def test_what_is_known_decides_comparisons() -> None:
    arena = Arena()
    i, n, width = (arena.symbol(s, "Int", natural=True) for s in ("i", "n", "width"))
    assert arena.ge(i, arena.number(0, "Int")) is arena.true
    assert arena.gt(n, i).op == "ge0"
    arena.assume(arena.shift(arena.sub(n, i), -1), arena.sub(width, n))
    assert arena.gt(n, i) is arena.true
    assert arena.gt(width, i) is arena.true
    assert arena.ge(i, n) is arena.false
    assert arena.eq(i, n) is arena.false
    arena.forget(0)
    assert arena.gt(n, i).op == "ge0"


def test_what_both_sides_share_is_taken_out_of_a_choice() -> None:
    arena = Arena()
    s, x, c = arena.symbol("s", "Real"), arena.symbol("x", "Real"), arena.symbol("c", "Bool")
    assert arena.ite(c, arena.add(s, x), s) is arena.add(s, arena.ite(c, x, arena.number(0, "Real")))


@given(st.integers(-600, 600), st.sampled_from([U8, I8, U32]))
def test_a_cast_wraps(number: int, target: MachineType) -> None:
    arena = Arena()
    wrapped = wrap(arena, arena.number(number, "Int"), target)
    assert wrapped.constant == MODEL[f"wrap.{target}"](number)


def test_wraps_inside_a_wrap_are_undone() -> None:
    arena = Arena()
    a, b = arena.symbol("a", "Int"), arena.symbol("b", "Int")
    inner = wrap(arena, arena.add(a, b), U32)
    assert wrap(arena, arena.mul(inner, b), U32) is wrap(arena, arena.mul(arena.add(a, b), b), U32)
    assert wrap(arena, inner, U8) is wrap(arena, arena.add(a, b), U8)
    narrow = wrap(arena, a, U8)
    assert wrap(arena, arena.add(narrow, b), U32).args[1] is arena.add(narrow, b)


def test_widening_keeps_what_fits() -> None:
    arena = Arena()
    a = arena.app("in.a", "Int", (arena.symbol("i", "Int"),))
    assert cast(arena, a, U8, I32, True) is a
    assert cast(arena, a, I32, I64, True) is a
    assert cast(arena, a, I32, U8, True).op == "app"
    assert cast(arena, a, U32, U32, False).op == "app"
    one = Size(Poly.of(1), U32)
    assert not fits(Call("add", (one, one), U32))


def test_names_and_numbers_are_those_of_the_language() -> None:
    assert name("in.a") == "in.a" and name("größe") == "|größe|" and name("@x") == "|@x|"
    assert constant(Fraction(-3, 4), "Real") == "(- (/ 3.0 4.0))"
    assert constant(-3, "Int") == "(- 3)"


def test_reals_divide_by_free_inverses() -> None:
    arena = Arena()
    x, y = arena.symbol("x", "Real"), arena.symbol("y", "Real")
    quotient = apply(arena, "div", (x, arena.mul(y, y)), F64)
    assert text(quotient) == "(* x (inv y) (inv y))"
    half = apply(arena, "div", (x, arena.number(2, "Real")), F64)
    assert text(half) == "(* (/ 1.0 2.0) x)"


# Folds


def fold(folds: Folds, row: ProofTerm, extent: ProofTerm) -> ProofTerm:
    """sum A[row, k] * x[k] over k < extent"""
    position = folds.placeholder()
    reads = [folds.arena.app("in.A", "Real", (row, position)), folds.arena.app("in.x", "Real", (position,))]
    zero = folds.arena.number(0, "Real")
    return folds.close("sum", position, folds.arena.mul(*reads), zero, extent)


def test_sums_that_differ_in_a_parameter_are_one_function() -> None:
    folds = Folds(Arena())
    i, n = folds.arena.symbol("i", "Int"), folds.arena.symbol("n", "Int", natural=True)
    a, b = fold(folds, i, n), fold(folds, folds.arena.shift(i, 1), n)
    assert a is not b and a.args[0] == b.args[0]
    ((_, prefix),) = folds.functions.items()
    assert prefix.body == "(* (in.A p0 k) (in.x k))" and prefix.parameters == ("Int",)
    assert fold(folds, i, folds.arena.number(0, "Int")).constant == 0


BOUND = st.integers(-3, 6)


@given(st.booleans(), st.booleans(), BOUND, BOUND, BOUND, BOUND)
def test_a_masked_sum_is_that_of_its_range(
    linear: bool, reverse: bool, low: int, other: int, high: int, extent: int
) -> None:
    folds = Folds(Arena(), linear=linear)
    arena = folds.arena
    first, second, last, count = (arena.symbol(f"b{k}", "Int") for k in range(4))
    k = folds.placeholder()
    inside = arena.all([arena.ge(k, first), arena.ge(k, second), arena.gt(last, k)])
    body, zero = arena.mul(k, arena.add(k, first)), arena.number(0, "Int")
    if reverse:
        inside, body = arena.ge(k, first), arena.ite(arena.gt(first, k), zero, body)
    masked = folds.close("sum", k, arena.ite(inside, body, zero), zero, count)
    scope = {"b0": low, "b1": other, "b2": high, "b3": extent}
    assert not any("ite" in prefix.body for prefix in folds.functions.values())

    def sum_of(prefix: Prefix) -> Callable[..., int]:
        def total(*given: int) -> int:
            names = {f"p{i}": p for i, p in enumerate(given[:-1])}
            return sum(value(parse(prefix.body), {**names, "k": at}, MODEL) for at in range(given[-1]))

        return total

    sums = {prefix.name: sum_of(prefix) for prefix in folds.functions.values()}
    wanted = [at * (at + low) for at in range(extent) if at >= low and (reverse or other <= at < high)]
    assert value(parse(text(masked)), scope, {**MODEL, **sums}) == sum(wanted)


def test_the_order_of_a_product_does_not_matter() -> None:
    folds = Folds(Arena())
    i, j, n = (folds.arena.symbol(s, "Int") for s in "ijn")
    folds.arena.app("in.x", "Real", (j,))  # made first, so that it sorts before
    a = fold(folds, i, n)
    folds.arena.app("in.A", "Real", (j, folds.arena.symbol("position.1", "Int")))
    assert fold(folds, j, n).args[0] == a.args[0]


def test_steps_link_what_is_near() -> None:
    folds = Folds(Arena())
    i, n = folds.arena.symbol("i", "Int"), folds.arena.symbol("n", "Int", natural=True)
    near = [fold(folds, i, n), fold(folds, i, folds.arena.shift(n, 2))]
    assert {text(point) for _, point in folds.steps(near)} == {"(+ (- 1) n)", "n", "(+ 1 n)"}


# Subscripts


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_digits_of_a_flat_subscript(offset: int) -> None:
    arena = Arena()
    i, j, width = (arena.symbol(s, "Int", natural=True) for s in ("i", "j", "width"))
    arena.assume(arena.shift(arena.sub(width, j), -1))
    one = arena.number(1, "Int")
    flat = arena.add(arena.mul(arena.shift(i, offset), width), j)
    assert divided(arena, flat, (width, one)) == (arena.shift(i, offset), j)
    backwards = arena.sub(arena.shift(arena.mul(arena.shift(i, 1), width), -1), j)
    assert divided(arena, backwards, (width, one)) == (i, arena.sub(arena.shift(width, -1), j))


def test_digits_over_padded_rows() -> None:
    arena = Arena()
    i, j, width = (arena.symbol(s, "Int", natural=True) for s in ("i", "j", "width"))
    stride = arena.shift(width, 2)
    flat = arena.add(arena.mul(i, stride), j, arena.number(1, "Int"))
    assert divided(arena, flat, (stride, arena.number(1, "Int"))) == (i, arena.shift(j, 1))


def test_a_row_and_a_column_are_one_place_only_where_rows_are_as_wide() -> None:
    world = ProofWorld(vadd())
    arena = world.arena
    row, column, place, m, n = (arena.symbol(each, "Int", natural=True) for each in "rckmn")
    above = arena.app("fdiv", "Int", (place, m))
    where = (above, arena.sub(place, arena.mul(m, above)))
    apart = arena.all(map(arena.eq, (row, column), where))
    together = arena.eq(arena.add(column, arena.mul(m, row)), place)
    for width, hit in ((None, apart), (n, apart), (m, together)):
        layer = WrittenElement(where, world.zero, arena.true, width)
        assert reach(world, layer, (row, column))[0] is hit
