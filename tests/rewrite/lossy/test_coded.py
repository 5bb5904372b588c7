"""Codes chosen by output error and length: smaller at an equal error, within their grid, replayable."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lossy_samples import SAMPLES, Interpreted, chain, mobile, residual, run
from tensmith.backend.onnx import to_onnx
from tensmith.backend.packed import pack
from tensmith.backend.packed.integers import encode_integers
from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir import Program
from tensmith.rewrite.lossy.coded import CodeLengths, coded
from tensmith.rewrite.lossy.grid import _compensated, _scales, on_grid
from tensmith.rewrite.lossy.weights import weighted_layers
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import EVERYWHERE, Step

DATA = Interpreted()


def correlated(d: int) -> Array:
    """Moments of inputs like neighbouring pixels: each correlates by 0.9 with the next."""
    place = np.arange(d)
    return np.asarray(0.9 ** np.abs(place[:, None] - place[None]))


def coded_bits(codes: Array) -> float:
    """What the packed file's coder makes of codes [groups, rows, d], nine weights to a channel."""
    groups, rows, d = codes.shape
    encoded = encode_integers(codes.astype(np.int64).reshape(-1), (groups * rows, d // 9, 9))
    assert encoded is not None
    return encoded.bits


def output_error(change: Array, second: Array) -> float:
    return sum(float(np.einsum("rd,rd->", e @ h, e)) for e, h in zip(change, second))


def layer(groups: int = 1) -> tuple[Array, Array]:
    """Rows of unlike reach, and moments."""
    generator = np.random.default_rng(3)
    rows = generator.normal(size=(groups, 48, 90)) * np.exp2(generator.normal(size=(groups, 48, 1)))
    return rows, np.stack([correlated(90)] * groups)


def test_two_sided_geometric_codes_have_the_lengths_of_their_distribution() -> None:
    theta = 0.4
    generator = np.random.default_rng(0)
    codes = generator.geometric(1 - theta, (1, 64, 900)) - generator.geometric(1 - theta, (1, 64, 900))
    lengths = CodeLengths.of(codes, 9)
    assert lengths.further.mean() == pytest.approx(-np.log2(theta), rel=0.02)
    assert lengths.first.mean() == pytest.approx(-np.log2(theta), rel=0.02)


def test_more_zeros_make_the_first_step_longer() -> None:
    generator = np.random.default_rng(0)
    codes = generator.geometric(0.6, (1, 64, 900)) - generator.geometric(0.6, (1, 64, 900))
    pruned = codes * (generator.random(codes.shape) < 0.5)
    assert CodeLengths.of(pruned, 9).first.mean() > CodeLengths.of(pruned, 9).further.mean() + 0.5


@pytest.mark.parametrize("price", [0.0, 0.05, 1.0, 30.0])
def test_the_cheapest_code_is_the_cheapest_of_all(price: float) -> None:
    generator = np.random.default_rng(1)
    values, top = generator.normal(size=200) * 3, 6
    lengths = CodeLengths(np.full(200, 1.5), np.full(200, 0.8))
    grid = np.arange(-top, top + 1)[:, None]
    bits = np.where(grid == 0, 0.0, 1.5 + 0.8 * (np.abs(grid) - 1))
    costs = (values - grid) ** 2 + price * bits
    found = lengths.cheapest(values, price, top)
    own = (values - found) ** 2 + price * np.where(found == 0, 0.0, 1.5 + 0.8 * (np.abs(found) - 1))
    if price <= 1.0:  # a step more than one below the nearest never pays at prices that a step is made for
        np.testing.assert_allclose(own, costs.min(axis=0))
    assert (own <= values**2 + 1e-12).all(), "0 is always at hand"


def test_without_a_price_codes_are_the_nearest() -> None:
    rows, second = layer()
    codes, scales = coded(rows, second, 0.0, 9, 127, compensating=False)
    np.testing.assert_array_equal(codes, np.clip(np.rint(rows / scales[..., None]), -127, 127))
    assert (np.abs(codes).max(axis=2) == 127).all()


def test_codes_stay_on_the_grid_and_one_step_serves_rows_that_it_reaches() -> None:
    rows, second = layer()
    codes, scales = coded(rows, second, 2e-2, 9, 7)
    assert np.abs(codes).max() <= 7
    reach = np.abs(rows).max(axis=2) / 7
    step = scales.min()
    np.testing.assert_allclose(scales, np.maximum(step, reach), rtol=1e-6)


def test_a_higher_price_buys_fewer_bits_for_more_error() -> None:
    rows, second = layer()
    found = [coded(rows, second, price, 9, 127) for price in (1e-4, 1e-3, 1e-2, 1e-1)]
    bits = [coded_bits(codes) for codes, _ in found]
    errors = [output_error(codes * scales[..., None] - rows, second) for codes, scales in found]
    assert bits == sorted(bits, reverse=True)
    assert errors == sorted(errors)


def on_integer_bits(rows: Array, second: Array, bits: int) -> tuple[Array, Array]:
    """What compensated rounding to so many bits makes of a layer, through `on_grid`'s own parts."""
    top = 2 ** (bits - 1) - 1
    scales = _scales(rows, top, second)
    return np.stack([_compensated(r, s, h, top) for r, s, h in zip(rows, scales, second)]), scales


@pytest.mark.parametrize("bits", [3, 4])
@pytest.mark.parametrize("groups", [1, 2])
def test_at_an_equal_error_codes_are_shorter_than_those_of_compensated_rounding(
    groups: int, bits: int
) -> None:
    rows, second = layer(groups)
    plain, scales = on_integer_bits(rows, second, bits)
    allowed = output_error(plain * scales[..., None] - rows, second)
    low, high = 1e-8, 10.0
    for _ in range(20):
        price = np.sqrt(low * high)
        codes, own = coded(rows, second, price, 9, 127)
        within = output_error(codes * own[..., None] - rows, second) <= allowed
        low, high = (price, high) if within else (low, price)
    codes, own = coded(rows, second, low, 9, 127)
    assert output_error(codes * own[..., None] - rows, second) <= allowed
    assert coded_bits(codes) < 0.9 * coded_bits(plain)


# In the methods


def params(program: Program, price: float, **more: Any) -> dict[str, Any]:
    worth = {layer.site: 0.01 for layer in weighted_layers(program)}
    return {"rounding": "coded", "price": price, "worth": worth, **more}


def treated(program: Program, method: str, **given: Any) -> Program:
    step = Step(method, EVERYWHERE, given, "lossy")
    found = apply_lossy(program, step, DATA)
    again = apply_lossy(program, Step.from_json(json.loads(json.dumps(step.to_json()))), DATA)
    assert again.digest == found.digest, "a step replays"
    return found


def packed_bytes(program: Program) -> int:
    return len(pack(to_onnx(program).SerializeToString()))


@pytest.mark.parametrize("method", ["int8", "weight_only"])
@pytest.mark.parametrize("name", SAMPLES)
def test_every_network_runs_and_packs_smaller_at_a_higher_price(name: str, method: str) -> None:
    program = SAMPLES[name]()
    low, high = (treated(program, method, **params(program, price)) for price in (10.0, 1e5))
    assert np.isfinite(run(low, 2)).all() and np.isfinite(run(high, 2)).all()
    assert packed_bytes(high) < packed_bytes(low)


def test_a_layer_that_is_worth_more_is_rounded_more_finely() -> None:
    program = chain()
    first = weighted_layers(program)[0]
    given = params(program, 1000.0)
    finer = {**given, "worth": {**given["worth"], first.site: 1.0}}
    coarse, fine = (on_grid(program, first, 8, each, DATA) for each in (given, finer))
    assert fine.scales.min() < 0.2 * coarse.scales.min()
    del given["worth"][first.site]
    untold = on_grid(program, first, 8, given, DATA)
    np.testing.assert_array_equal(untold.codes, coarse.codes, "it counts as the most sensitive of the others")


def test_nothing_makes_up_for_errors_in_layers_that_are_rounded_plainly() -> None:
    program = chain()
    first = weighted_layers(program)[0]
    given = params(program, 10.0)
    codes = on_grid(program, first, 8, {**given, "plain": [first.site]}, DATA)
    rows = first.rows(program.constants[first.weight])
    assert abs(codes.values(rows) - rows).max() <= codes.scales.max()
    assert (codes.codes != on_grid(program, first, 8, given, DATA).codes).any()
    with pytest.raises(ProgramError, match="plain goes with"):
        treated(program, "weight_only", stored="floats", plain=[first.site])


@pytest.mark.parametrize("make", [chain, residual, mobile])
def test_biases_give_the_means_of_outputs_back(make: Any) -> None:
    program = make()
    shifted = treated(program, "weight_only", stored="floats", **params(program, 3000.0))
    first = next(layer for layer in weighted_layers(program) if layer.node.inputs[0] in program.inputs)
    outputs = [run(replace(each, outputs=(first.site,)), seed=2) for each in (program, shifted)]
    means = [output.mean(axis=(0, 2, 3), dtype=np.float64) for output in outputs]
    moved = on_grid(program, first, 8, params(program, 3000.0), DATA)
    assert np.abs(moved.shifts[first.site]).max() > 1e-4
    np.testing.assert_allclose(means[0], means[1], atol=0.3 * np.abs(moved.shifts[first.site]).max() + 1e-6)


def test_codes_that_fit_four_bits_are_stored_in_four() -> None:
    program = chain()
    kinds = {
        price: {str(array.dtype) for array in found.constants.values()}
        for price in (10.0, 1e5)
        for found in [treated(program, "weight_only", stored="codes", **params(program, price))]
    }
    assert "int4" in kinds[1e5]
    assert "int8" in kinds[10.0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"rounding": "coded"},
        {"rounding": "coded", "price": 1.0},
        {"rounding": "coded", "price": 1.0, "worth": {"y": 0.0}},
        {"rounding": "coded", "price": -1.0, "worth": {"y": 1.0}},
        {"rounding": "coded", "price": 10**400, "worth": {"y": 1.0}},
        {"rounding": "coded", "price": 1.0, "worth": {"y": 10**400}},
        {"rounding": "nearest", "price": 1.0, "worth": {"y": 1.0}},
        {"price": 1.0},
        {"worth": {"y": 1.0}},
    ],
)
def test_prices_without_sense_are_refused(wrong: dict[str, Any]) -> None:
    for method in ("int8", "weight_only", "dynamic_int8"):
        with pytest.raises(ProgramError, match=r"price|worth"):
            apply_lossy(SAMPLES["transformer"](), Step(method, EVERYWHERE, wrong, "lossy"), DATA)


def test_the_worth_of_no_layer_is_refused() -> None:
    given = {"rounding": "coded", "price": 1.0, "worth": {"nowhere": 1.0}}
    with pytest.raises(ProgramError, match="nowhere"):
        apply_lossy(chain(), Step("int8", EVERYWHERE, given, "lossy"), DATA)


@pytest.mark.parametrize("method", ["int8", "weight_only"])
def test_a_price_that_leaves_no_scales_is_refused(method: str) -> None:
    program = chain()
    with pytest.raises(ProgramError, match="give a lower one"):
        treated(program, method, **params(program, 1e300))
