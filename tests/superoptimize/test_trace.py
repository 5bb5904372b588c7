"""A traced function is a program that gives what NumPy gives, in NumPy's types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from superoptimize.numpy_functions import FUNCTIONS
from tensmith.egraph.programs import ArrayHashes, signature
from tensmith.rewrite.trail import replay_exact
from tensmith.superoptimize.admit import admit
from tensmith.superoptimize.compiled import agree, load
from tensmith.superoptimize.forms import forms
from tensmith.superoptimize.pipeline import trace
from tensmith.superoptimize.text import fused_text, looped_text, numpy_text, written
from tensmith.superoptimize.trace import NotTraceable


def traced(name: str) -> Any:
    function, arguments = FUNCTIONS[name]
    admitted = admit(function)
    return trace(admitted, dict(zip(admitted.parameters, arguments)), {})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_program_is_the_function(name: str) -> None:
    function, arguments = FUNCTIONS[name]
    found = traced(name)
    assert written(found.program)
    gap = agree(function, load(numpy_text(found.program, found.wanted)), [arguments])
    assert isinstance(gap, float), gap


@pytest.mark.parametrize("name", ["choices", "products", "outside", "whole", "single", "running", "helped"])
def test_kernels_are_the_function(name: str) -> None:
    function, arguments = FUNCTIONS[name]
    found = traced(name)
    for write in (fused_text, looped_text):
        gap = agree(function, load(write(found.program, found.wanted)), [arguments])
        assert isinstance(gap, float), gap


def solves(a, b):
    return np.linalg.inv(a) @ b


def test_an_inverse_that_only_multiplies_is_not_computed() -> None:
    a, b = np.eye(4) + np.arange(16.0).reshape(4, 4) ** 0.5, np.ones((4, 2))
    found = trace(admit(solves), {"a": a, "b": b}, {})
    for write in (numpy_text, fused_text):
        text = write(found.program, found.wanted)
        assert "np.linalg.solve(a0, a1)" in text.source and "inv" not in text.source
        assert isinstance(agree(solves, load(text), [(a, b)]), float)


def test_a_result_has_the_tolerance_of_its_own_type() -> None:
    """What is rounding to 32 bits is none to 64."""
    x = np.ones(3)
    gap = agree(lambda x: (x.astype("f4"), x), lambda x: (x.astype("f4"), x + 1e-5), [(x,)])
    assert isinstance(gap, str) and "differs" in gap
    gap = agree(lambda x: (x, x.astype("f4")), lambda x: (x, (x + 1e-5).astype("f4")), [(x,)])
    assert isinstance(gap, float), gap


def test_forms_are_equal_and_the_first_is_the_cheapest() -> None:
    function, arguments = FUNCTIONS["diagonals"]
    start = traced("diagonals")
    found = forms(start.program, 2.0)
    assert [form.cost for form in found[:-1]] == sorted(form.cost for form in found[:-1])
    assert found[0].cost < found[-1].cost and found[-1].traced.program is start.program
    hashes = ArrayHashes()
    rules = {step.rule for form in found for step in form.traced.trail}
    assert {"diagonal_before", "diagonal_of_product"} & rules
    for form in found:
        replayed = replay_exact(start.program, form.traced.trail)
        assert signature(replayed, hashes) == signature(form.traced.program, hashes)
        gap = agree(function, load(numpy_text(form.traced.program, start.wanted)), [arguments])
        assert isinstance(gap, float), gap


def byte_scaled(x, k):
    return np.exp(x) * k


def test_a_number_without_sign_is_passed_to_kernels() -> None:
    arguments = (np.ones(3), np.array(3, np.uint8))
    found = trace(admit(byte_scaled), dict(zip("xk", arguments)), {})
    gap = agree(byte_scaled, load(fused_text(found.program, found.wanted)), [arguments])
    assert isinstance(gap, float), gap


def same(x, y):
    return x == y


def test_whole_numbers_are_not_compared_as_floats() -> None:
    unsigned = np.array([2**53], np.uint64)
    assert not same(unsigned + np.uint64(1), np.array([2**53]))
    with pytest.raises(NotTraceable, match="with and without sign"):
        trace(admit(same), {"x": unsigned, "y": np.array([2**53])}, {})


def digits(x):
    return np.floor(np.log2(x)) + np.floor(np.log10(10**x)) + np.floor(np.exp2(x))


def far(x, y):
    return np.hypot(x, y) + np.hypot(x, 3)


def test_what_is_whole_or_large_is_not_rounded_by_a_formula() -> None:
    x = np.float64([1, 2, 3, 8, 64])
    large = (np.float32([1e30, 1e-30]), 2e-30)
    for function, arguments in ((digits, (x,)), (far, large)):
        found = trace(admit(function), dict(zip("xy", arguments)), {})
        for write in (numpy_text, fused_text):
            result = load(write(found.program, found.wanted))(*arguments)
            expected = function(*arguments)
            assert result.dtype == expected.dtype
            np.testing.assert_array_equal(result, expected)


def from_half(x, s):
    return np.where(x >= s / 2, x, 0)


def from_root(x, s):
    return np.where(x >= (2 * +s / 4) ** 2 + 0.21, x, 0)


def from_size(x, s):
    return np.where(x >= np.abs(s) * 0.5, x, 0)


def from_product(x, s):
    return np.where(x >= np.multiply(s, 0.5), x, 0)


def from_choice(x, s):
    return np.where(x >= (s > 1) * 0.7, x, 0)


@pytest.mark.parametrize("function", [from_half, from_root, from_size, from_product, from_choice])
def test_types_of_pythons_numbers_give_way_and_those_of_numpys_do_not(function: Any) -> None:
    """0.7 in 32 bits is below the one in 64 bits, and not below itself."""
    arguments = (np.float32([0.7, 0.5]), 1.4)
    found = trace(admit(function), dict(zip("xs", arguments)), {})
    assert agree(function, load(numpy_text(found.program, found.wanted)), [arguments]) == 0.0


def counts(x, s):
    return x * ((s > 1) + (s > 2))


def wrapped(x, s):
    return x * np.asarray(s)


@pytest.mark.parametrize(
    ("function", "reason"), [(counts, "truth values"), (wrapped, "of a Python number; pass an np.float64")]
)
def test_pythons_numbers_that_would_be_numpys_are_refused(function: Any, reason: str) -> None:
    with pytest.raises(NotTraceable, match=reason):
        trace(admit(function), {"x": np.ones(2), "s": 1.4}, {})


def picked(x):
    return x[[0, 2]]


def picked_and_changed(x):
    y = x[:, [2, 0]]
    y += 1
    return y


def cut(x):
    return x[0:2]


def test_rows_that_a_list_picks_are_copies() -> None:
    x = np.arange(12.0).reshape(3, 4)
    for function in (picked, picked_and_changed):
        found = trace(admit(function), {"x": x}, {})
        assert agree(function, load(numpy_text(found.program, found.wanted)), [(x,)]) == 0.0
    with pytest.raises(NotTraceable, match="a view of an array"):
        trace(admit(cut), {"x": x}, {})


def decides(x):
    return x if x.sum() > 0 else -x


def writes(x):
    x += 1
    return x * 2


def view(x):
    return x.T


def by_arrays(x):
    return x[np.arange(3), None]


def raises(x):
    return x @ x[:2]


def unknown(x):
    return np.fft.fft(x)


def picks(x):
    return x[x > 0]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (decides, "depends on a value"),
        (writes, "changes an argument"),
        (view, "a view"),
        (raises, "raises ValueError"),
        (picks, "computed positions"),
        (by_arrays, "by an array and more"),
    ],
)
def test_what_is_no_program_is_refused(function: Any, reason: str) -> None:
    with pytest.raises(NotTraceable, match=reason):
        trace(admit(function), {"x": np.ones(3)}, {})


def turned(x):
    return np.einsum("ij->ji", x)


def of_both(x):
    return np.einsum("ii->i", x)


def diagonal(x):
    return np.diagonal(x)


def diag(x):
    return np.diag(x)


@pytest.mark.parametrize("function", [turned, of_both, diagonal, diag])
def test_views_of_linear_algebra_are_refused(function: Any) -> None:
    with pytest.raises(NotTraceable, match="a view"):
        trace(admit(function), {"x": np.ones((3, 3))}, {})


def test_a_matrix_that_is_made_of_its_diagonal_is_no_view() -> None:
    assert trace(admit(diag), {"x": np.ones(3)}, {}).program.nodes


def own_diagonals(x):
    return np.einsum("bii->bi", x).copy()


def own_turned(x):
    return np.einsum("bij->jib", x).copy()


def own_diagonal(x):
    return np.diagonal(x[0]).copy()


@pytest.mark.parametrize("function", [own_diagonals, own_turned, own_diagonal])
def test_results_are_nobody_elses(function: Any) -> None:
    x = np.arange(18.0).reshape(2, 3, 3)
    found = trace(admit(function), {"x": x}, {})
    for form in forms(found.program, 0.1):  # without the copy
        result = load(numpy_text(form.traced.program, found.wanted))(x)
        assert not np.may_share_memory(result, x)
        np.testing.assert_array_equal(result, function(x))


def test_what_shares_memory_where_the_function_does_not_is_no_equal() -> None:
    x = np.ones((2, 2))
    for found in (lambda x: (x.T, x + 0), lambda x: 2 * (x + 0,)):
        gap = agree(lambda x: (x.copy(), x.copy()), found, [(x,)])
        assert isinstance(gap, str) and "shares memory" in gap
        assert agree(found, found, [(x,)]) == 0.0
