"""Codes of a trellis: the cheapest way, within the grid, smaller at an equal error, trained one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from lossy_samples import Interpreted, chain
from tensmith.backend.packed.integers import encode_integers
from tensmith.formula.arith import Array
from tensmith.kernel.toolchain import has_compiler
from tensmith.rewrite.lossy.coded import coded
from tensmith.rewrite.lossy.dependent import _cheapest, _compiled, _Lengths, _way, _way_in_python, dependent
from tensmith.rewrite.lossy.weights import weighted_layers
from tensmith.rewrite.method import apply_lossy, independent
from tensmith.rewrite.rule import EVERYWHERE, Step
from tensmith.trellis import quantizers


def layer(groups: int = 1, rows: int = 64) -> tuple[Array, Array]:
    """Rows, and moments of inputs like neighbouring pixels."""
    place = np.arange(288)
    second = np.asarray(0.9 ** np.abs(place[:, None] - place[None]))
    return np.random.default_rng(3).normal(size=(groups, rows, 288)), np.stack([second] * groups)


def error(numbers: Array, scales: Array, rows: Array, second: Array) -> float:
    change = numbers * scales[..., None] - rows
    return sum(float(np.einsum("rd,rd->", e @ h, e)) for e, h in zip(change, second))


def bits(numbers: Array) -> float:
    groups, rows, d = numbers.shape
    encoded = encode_integers(numbers.astype(np.int64).reshape(-1), (groups * rows, d // 9, 3, 3))
    assert encoded is not None
    return encoded.bits


@pytest.mark.parametrize("price", [0.03, 0.1])
def test_at_an_equal_error_they_take_fewer_bits(price: float) -> None:
    rows, second = layer()
    plain, finer = coded(rows, second, price, 9, 127), dependent(rows, second, price, 9, 127)
    costs = [
        bits(numbers) + error(numbers, scales, rows, second) / price for numbers, scales in (plain, finer)
    ]
    assert costs[1] < costs[0] - 0.03 * bits(plain[0])


@pytest.mark.parametrize("compensating", [True, False])
def test_each_column_is_of_one_trellis_through_all_groups(compensating: bool) -> None:
    rows, second = layer(groups=2, rows=16)
    numbers, _ = dependent(rows, second, 0.1, 9, 127, compensating=compensating)
    found = quantizers(numbers.reshape(32, 288).astype(np.int64))
    assert found is not None and found.any()


def test_the_way_taken_is_the_cheapest_of_all() -> None:
    generator = np.random.default_rng(1)
    values, price = np.abs(generator.normal(size=5)) * 3, np.full(5, 0.3)
    lengths = _Lengths(*(np.full((4, 5), bits) for bits in (0.7, 2.0, 1.1)))
    sizes, costs = _cheapest(values, lengths, price, 127, np.zeros(5, np.bool_))
    for state in (0, 1):
        taken, _ = _way(costs, state)
        found = sum(float(costs[way, place]) for place, way in enumerate(taken))
        least = np.inf
        for ways in itertools.product(range(4), repeat=5):
            # Two ways lead on from each state: those of its quantizer.
            at, fits = state, True
            for way in ways:
                fits = fits and way // 2 == at // 2
                uneven = way % 2
                at = ((uneven ^ at) & 1) * 2 + at // 2
            if fits:
                least = min(least, sum(float(costs[way, place]) for place, way in enumerate(ways)))
        assert found == pytest.approx(least)
        numbers = sizes[taken, np.arange(5)].astype(np.int64)
        if state == 0:
            assert quantizers(numbers[:, None]) is not None


@pytest.mark.skipif(not has_compiler(), reason="there is no C compiler")
def test_the_way_is_the_same_in_c() -> None:
    assert _compiled() is not None
    generator = np.random.default_rng(4)
    for rows in (1, 2, 5, 64, 333):
        # Many ways cost the same, and some cannot be taken: what a row of zeros may not be.
        costs = generator.integers(0, 4, (4, rows)) / 4.0
        costs[np.ix_([1, 3], generator.random(rows) < 0.2)] = np.inf
        for state in range(4):
            (taken, last), (plain, at_last) = _way(costs, state), _way_in_python(costs, state)
            assert last == at_last and (taken == plain).all()


def test_numbers_are_the_cheapest_of_their_way() -> None:
    values, price = np.abs(np.random.default_rng(2).normal(size=40)) * 6, np.full(40, 0.3)
    lengths = _Lengths(*(np.full((4, 40), bits) for bits in (0.7, 2.0, 1.1)))
    sizes, costs = _cheapest(values, lengths, price, 15, np.zeros(40, np.bool_))
    for way, numbers in enumerate(([0, 4, 8, 12], [2, 6, 10, 14], [0, 3, 7, 11, 15], [1, 5, 9, 13])):
        for place, value in enumerate(values):
            told = {
                number: (value - number) ** 2
                + 0.3 * (0.7 if number == 0 else 2.0 + 1.1 * ((number - 1) // 2))
                for number in numbers
            }
            assert costs[way, place] == pytest.approx(min(told.values()))
            assert told[int(sizes[way, place])] == pytest.approx(min(told.values()))


def test_zeros_stay_and_the_grid_is_kept() -> None:
    rows, second = layer()
    rows = np.where(np.random.default_rng(5).random(rows.shape) < 0.6, 0.0, rows)
    numbers, _ = dependent(rows, second, 0.1, 9, 31)
    assert not numbers[rows == 0].any() and numbers.any()
    assert np.abs(numbers).max() <= 31


@pytest.mark.parametrize(("rows", "top"), [(8, 127), (64, 7)])
def test_few_rows_and_narrow_grids_have_codes_without_a_trellis(rows: int, top: int) -> None:
    given, second = layer(rows=rows)
    for one, other in zip(dependent(given, second, 0.1, 9, top), coded(given, second, 0.1, 9, top)):
        np.testing.assert_array_equal(one, other)


def test_where_rows_reach_the_end_of_the_grid_it_is_not_made_finer() -> None:
    rows, second = layer()
    for one, other in zip(dependent(rows, second, 1e-9, 9, 127), coded(rows, second, 1e-9, 9, 127)):
        np.testing.assert_array_equal(one, other)


def test_training_starts_from_codes_that_stand_for_themselves() -> None:
    program = chain()
    worth = {each.site: 1e-3 for each in weighted_layers(program)}
    params = {"calibration": "minmax", "rounding": "dependent", "price": 1.0, "worth": worth}
    step = Step("int8", EVERYWHERE, params, "lossy")
    (other,) = independent([step])
    assert other.params == {**params, "rounding": "coded"}
    assert independent([other]) == (other,)
    made = [apply_lossy(program, each, Interpreted()) for each in (step, other)]
    assert {n: a.shape for n, a in made[0].constants.items()} == {
        n: a.shape for n, a in made[1].constants.items()
    }
