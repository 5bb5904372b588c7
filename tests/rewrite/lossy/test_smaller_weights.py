"""Pruned, factored and clustered programs: really smaller, still running, of the same types, replayable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossy_samples import (
    SAMPLES,
    Interpreted,
    Net,
    chain,
    flattened,
    grouped,
    mobile,
    residual,
    run,
    transformer,
)
from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir import Program
from tensmith.rewrite.calibration import Moment
from tensmith.rewrite.lossy import bias_correction
from tensmith.rewrite.lossy.compensation import (
    compensated_rounding,
    damped,
    damped_cholesky,
)
from tensmith.rewrite.lossy.dependency import groups
from tensmith.rewrite.lossy.magnitude_pruning import Quota, smallest_to_zero, surgeon
from tensmith.rewrite.lossy.weight_clustering import k_means, nearest
from tensmith.rewrite.lossy.weights import find_layer, weighted_layers, with_rows
from tensmith.rewrite.method import LOSSY, Prospect, Standing, apply_lossy
from tensmith.rewrite.rule import EVERYWHERE, Step

DATA = Interpreted()


def output_error(change: Array, second: Array) -> float:
    """E |change x|^2 over rows: trace(change H change^T), for change [rows, d] and second [d, d]."""
    return float(np.einsum("rd,rd->", change @ second, change))


def apply(method: str, program: Program, site: str, **params: Any) -> Program:
    """The treated program; checks what holds for every method, and that the step replays from JSON."""
    step = Step(method, site, params, "lossy")
    treated = apply_lossy(program, step, DATA)
    assert [treated.type(name) for name in treated.outputs] == [
        program.type(name) for name in program.outputs
    ]
    assert np.isfinite(run(treated, 2)).all()
    again = apply_lossy(program, Step.from_json(json.loads(json.dumps(step.to_json()))), DATA)
    assert again.digest == treated.digest
    return treated


def weight_bytes(program: Program) -> int:
    return sum(array.nbytes for array in program.constants.values())


def weights(program: Program) -> dict[str, Array]:
    return {layer.weight: program.constants[layer.weight] for layer in weighted_layers(program)}


def error(program: Program, treated: Program) -> float:
    """Mean squared change of the output on the calibration inputs."""
    return float(np.mean((run(program, seed=2) - run(treated, seed=2)) ** 2))


# Magnitude pruning


@pytest.mark.parametrize("criterion", ["l1", "obs"])
@pytest.mark.parametrize("name", SAMPLES)
def test_half_of_each_layer_is_zero(name: str, criterion: str) -> None:
    treated = apply("magnitude_pruning", SAMPLES[name](), EVERYWHERE, sparsity=0.5, criterion=criterion)
    for array in weights(treated).values():
        assert abs(np.mean(array == 0) - 0.5) <= 0.5 / array.size + 1e-9


@pytest.mark.parametrize("criterion", ["l1", "obs"])
def test_global_scope_meets_the_share_over_all(criterion: str) -> None:
    treated = apply(
        "magnitude_pruning", chain(), EVERYWHERE, sparsity=0.7, scope="global", criterion=criterion
    )
    every = np.concatenate([array.ravel() for array in weights(treated).values()])
    assert np.mean(every == 0) == pytest.approx(0.7, abs=0.01)
    assert len({round(float(np.mean(array == 0)), 2) for array in weights(treated).values()}) > 1


@pytest.mark.parametrize("sparsity", [0.95, 0.9999])
@pytest.mark.parametrize("criterion", ["l1", "obs"])
def test_no_layer_goes_as_a_whole(criterion: str, sparsity: float) -> None:
    """However small its weights are beside others'."""
    program = chain()
    first = next(iter(weights(program)))
    small = program.with_constants({first: 1e-3 * program.constants[first]})
    params = {"sparsity": sparsity, "scope": "global", "criterion": criterion}
    treated = apply("magnitude_pruning", small, EVERYWHERE, **params)
    assert all(array.any() for array in weights(treated).values())


def test_pruning_twice_keeps_the_zeros() -> None:
    once = apply("magnitude_pruning", chain(), EVERYWHERE, sparsity=0.3)
    twice = apply("magnitude_pruning", once, EVERYWHERE, sparsity=0.5, criterion="obs")
    for name, array in weights(twice).items():
        assert np.all(array[once.constants[name] == 0] == 0)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_the_surgeon_leaves_a_smaller_error_than_the_smallest(share: float) -> None:
    """Inputs like neighbouring pixels: each correlates by 0.9 with the next."""
    place = np.arange(96)
    second = 0.9 ** np.abs(place[:, None] - place[None])
    w = np.random.default_rng(0).normal(size=(50, 96))
    cut, moved = smallest_to_zero(w, share), surgeon(w, second, Quota(share))
    assert np.sum(moved == 0) == np.sum(cut == 0)
    assert output_error(w - moved, damped(second)) < 0.7 * output_error(w - cut, damped(second))


# Compensation


@pytest.mark.parametrize("d", [1, 5, 129, 300])
def test_damped_cholesky_factors_the_inverse(d: int) -> None:
    mixing = np.random.default_rng(d).normal(size=(d, d))
    second = mixing @ mixing.T
    factor = damped_cholesky(second)
    np.testing.assert_array_equal(factor, np.triu(factor))
    np.testing.assert_allclose(factor.T @ factor @ damped(second), np.eye(d), atol=1e-8)


def test_compensated_rounding_is_optimal_brain_surgeon() -> None:
    """The blocked form equals the definition: spread a column's error by the inverse of what is left."""
    random = np.random.default_rng(0)
    d = 140  # more than one block
    mixing = random.normal(size=(d, d))
    mixing = mixing[np.argsort(-np.sum(mixing**2, axis=1))]  # columns of w come in this order
    second, w = mixing @ mixing.T, random.normal(size=(3, d))
    expected, rest = w.copy(), damped(second)
    for j in range(d):
        inverse = np.linalg.inv(rest[j:, j:])
        rounded = np.round(expected[:, j])
        expected[:, j:] -= np.outer((expected[:, j] - rounded) / inverse[0, 0], inverse[0])
        expected[:, j] = rounded
    found = compensated_rounding(w, second, lambda column, _: np.round(column))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_moments_of_inputs_that_hardly_vary_have_a_factor() -> None:
    """About the mean nothing but rounding is left of them, and that may be negative."""
    inputs = 1.0 + 1e-7 * np.random.default_rng(0).standard_normal((200, 16))
    second = (inputs.T @ inputs / len(inputs)).astype(np.float32).astype(np.float64)
    mean = inputs.mean(axis=0)
    about = second - np.outer(mean, mean)
    assert np.linalg.eigvalsh(damped(about)).min() < 0
    for noise in (about, -1e3 * np.eye(4), np.zeros((4, 4))):
        assert np.isfinite(damped_cholesky(noise)).all()


def test_moments_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ProgramError, match="not finite"):
        damped_cholesky(np.full((2, 2), np.nan))


# Channel pruning


@pytest.mark.parametrize("reconstruct", [False, True])
@pytest.mark.parametrize("criterion", ["obs", "activation", "l1"])
@pytest.mark.parametrize("name", SAMPLES)
def test_every_group_shrinks(name: str, criterion: str, reconstruct: bool) -> None:
    program = SAMPLES[name]()
    for group in groups(program):
        treated = apply(
            "channel_pruning", program, group.id, ratio=0.3, criterion=criterion, reconstruct=reconstruct
        )
        left = next(own for own in groups(treated) if own.id == group.id)
        assert left.size == group.size - int(0.3 * group.size + 0.5)
        assert weight_bytes(treated) < weight_bytes(program)


def test_groups_shrink_one_after_the_other() -> None:
    program = residual()
    for group in groups(program):
        program = apply("channel_pruning", program, group.id, keep=4)
    assert [group.size for group in groups(program)] == [4, 4, 4]


@pytest.mark.parametrize("make", [chain, residual, mobile, grouped, flattened, transformer])
def test_refitted_consumers_stay_closer(make: Any) -> None:
    program = make()
    plain, fitted = 0.0, 0.0
    for group in groups(program):
        params: dict[str, Any] = {"ratio": 0.3, "criterion": "activation"}
        plain += error(program, apply("channel_pruning", program, group.id, **params, reconstruct=False))
        fitted += error(program, apply("channel_pruning", program, group.id, **params, reconstruct=True))
    assert fitted < plain


def test_dead_channels_go_for_free() -> None:
    program = residual()
    layer = find_layer(program, groups(program)[1].id)
    rows = layer.rows(program.constants[layer.weight])
    rows[:, [1, 4]] = 0
    bias = program.constants[layer.bias].copy()
    bias[[1, 4]] = [0, -1]  # one is never written, one never passes the rectifier
    program = with_rows(program, {layer: rows}).with_constants({layer.bias: bias})
    treated = apply("channel_pruning", program, layer.site, ratio=0.0, reconstruct=False)
    assert groups(treated)[1].size == groups(program)[1].size - 2
    np.testing.assert_allclose(run(treated, 3), run(program, 3), rtol=1e-4, atol=1e-5)


def test_what_is_kept_is_a_multiple() -> None:
    treated = apply("channel_pruning", chain(), groups(chain())[1].id, ratio=0.5, multiple=4)
    assert groups(treated)[1].size == 8


def test_tied_weights_stay_tied() -> None:
    net = Net()
    x = net.op("relu", net.conv("x", 6))
    w, b = net.weights(6, 6, 3, 3), net.constant(np.zeros(6))
    for _ in range(2):
        x = net.op("relu", net.op("conv", x, w, b, pads=(1, 1, 1, 1)))
    program = net.program(net.head(x))
    (group,) = groups(program)
    treated = apply("channel_pruning", program, group.id, keep=4)
    assert treated.constants[w].shape == (4, 4, 3, 3)
    clustered = apply("weight_clustering", program, EVERYWHERE, bits=2, criterion="obs")
    assert [layer.weight for layer in weighted_layers(clustered)].count(w) == 2
    with pytest.raises(ProgramError, match="read elsewhere"):
        apply("low_rank", program, weighted_layers(program)[1].site, rank=1)


# Layers of which nobody gathers moments


class OfNarrowLayers(Interpreted):
    """It refuses moments as a calibrator does."""

    def moment(self, program: Program, site: str) -> Moment:
        if bias_correction.too_wide(find_layer(program, site)):
            raise ProgramError(f"the moments of '{site}' are too large")
        return super().moment(program, site)


@pytest.fixture
def half_too_wide(monkeypatch: pytest.MonkeyPatch) -> Program:
    """The first of two layers is the largest that has moments, the second is too wide for them."""
    net = Net(image=(12,))
    h = net.op("relu", net.op("gemm", "x", net.weights(16, 12), net.constant(np.ones(16)), transB=1))
    monkeypatch.setattr(bias_correction, "MOST_MOMENT_BYTES", 8 * 12**2)
    return net.program(net.op("gemm", h, net.weights(16, 13), net.constant(np.ones(13))))


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("magnitude_pruning", {"sparsity": 0.5, "scope": "global", "criterion": "obs"}),
        ("magnitude_pruning", {"sparsity": 0.5, "scope": "layer", "criterion": "obs"}),
        ("weight_clustering", {"bits": 3, "criterion": "obs"}),
        ("channel_pruning", {"ratio": 0.5, "criterion": "obs"}),
    ],
)
def test_layers_too_wide_for_moments_are_made_smaller(
    half_too_wide: Program, method: str, params: dict[str, Any]
) -> None:
    site = "v0" if method == "channel_pruning" else EVERYWHERE
    treated = apply_lossy(half_too_wide, Step(method, site, params, "lossy"), OfNarrowLayers())
    before, after = weights(half_too_wide), weights(treated)
    assert all(not np.array_equal(after[layer], array) for layer, array in before.items())
    assert np.isfinite(run(treated)).all()


def test_a_layer_too_wide_for_moments_is_no_reason_to_factor_no_other(half_too_wide: Program) -> None:
    prospect = Prospect(half_too_wide, 8, frozenset(), {}, dict)
    (form,) = LOSSY["low_rank"].extensions(Standing((), "", None, False, ready=True), prospect)
    assert [step.site for step in form.steps] == ["v0"]


# Low rank


@pytest.mark.parametrize("criterion", ["data", "weights"])
@pytest.mark.parametrize("name", SAMPLES)
def test_factored_layers_are_smaller(name: str, criterion: str) -> None:
    program = SAMPLES[name]()
    for site in LOSSY["low_rank"].sites(program):
        layer = find_layer(program, site)
        if layer.rows(program.constants[layer.weight]).shape[1] < 4:
            continue
        treated = apply("low_rank", program, site, rank=1, criterion=criterion)
        assert weight_bytes(treated) < weight_bytes(program)
        assert layer.weight not in treated.constants


def wide(**attrs: Any) -> Program:
    """A convolution between two others, whose weights have rank 3 for each group, and 4 by channels."""
    net = Net(image=(3, 9, 9))
    group = attrs.get("group", 1)
    x = net.op("relu", net.conv("x", 8))
    y = net.conv(x, 12, **attrs)
    filters = net.random.normal(size=(group, 12 // group, 3)) @ net.random.normal(
        size=(group, 3, 4 * 9 // group)
    )
    mixing = net.random.normal(size=(group, 4 // group, 8 // group))
    full = np.einsum("gkct,gcd->gkdt", filters.reshape(group, 12 // group, 4 // group, 9), mixing)
    weight = net.nodes[-1].inputs[1]
    net.constants[weight] = full.reshape(net.constants[weight].shape).astype(np.float32)
    return net.program(net.head(net.op("relu", y)))


@pytest.mark.parametrize("criterion", ["data", "weights"])
@pytest.mark.parametrize(
    "attrs",
    [{}, {"strides": (2, 2)}, {"dilations": (2, 2)}, {"pads": (0, 1, 2, 1)}, {"group": 2, "strides": (2, 1)}],
)
def test_weights_of_low_rank_are_factored_exactly(attrs: Mapping[str, Any], criterion: str) -> None:
    program = wide(**attrs)
    site = weighted_layers(program)[1].site
    params = [{"rank": 3}] if "group" in attrs else [{"rank": 3}, {"rank": 3, "form": "tucker", "rank_in": 4}]
    for given_params in params:
        treated = apply("low_rank", program, site, criterion=criterion, **given_params)
        np.testing.assert_allclose(run(treated, 2), run(program, 2), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("channels", "filters", "ranks"), [(1, 32, {"rank": 16}), (40, 4, {"rank": 2, "rank_in": 38})]
)
def test_ranks_that_a_layer_does_not_have_are_refused(
    channels: int, filters: int, ranks: Mapping[str, int]
) -> None:
    net = Net(image=(channels, 4, 4))
    program = net.program(net.conv("x", filters))
    with pytest.raises(ProgramError, match="are more than"):
        apply("low_rank", program, program.outputs[0], form="tucker", criterion="weights", **ranks)


def test_energy_chooses_the_rank() -> None:
    program = wide()
    site = weighted_layers(program)[1].site
    treated = apply("low_rank", program, site, energy=0.999999, criterion="weights")
    assert find_layer(treated, site).shape[1] == 3


def test_data_make_the_output_closer() -> None:
    program = flattened()
    site = weighted_layers(program)[1].site
    by_data, by_weights = (
        error(program, apply("low_rank", program, site, rank=3, criterion=c)) for c in ("data", "weights")
    )
    assert by_data < by_weights


def test_factors_of_scaled_gemms_multiply_out() -> None:
    net = Net(image=(8,))
    w = net.constant(net.random.normal(size=(8, 2)) @ net.random.normal(size=(2, 10)))
    b = net.constant(net.random.normal(size=(1, 10)))
    program = net.program(net.op("gemm", "x", w, b, alpha=0.5, beta=2.0))
    treated = apply("low_rank", program, program.outputs[0], rank=2)
    np.testing.assert_allclose(run(treated), run(program), rtol=1e-4, atol=1e-4)


# Clustering


@pytest.mark.parametrize("criterion", ["weights", "obs"])
@pytest.mark.parametrize("init", ["linear", "quantile"])
@pytest.mark.parametrize("name", ["chain", "mobile", "transformer"])
def test_clustered_weights_have_few_values(name: str, init: str, criterion: str) -> None:
    program = SAMPLES[name]()
    treated = apply("weight_clustering", program, EVERYWHERE, bits=3, init=init, criterion=criterion)
    assert all(len(np.unique(array)) <= 8 for array in weights(treated).values())


def test_clustering_keeps_zeros() -> None:
    sparse = apply("magnitude_pruning", chain(), EVERYWHERE, sparsity=0.6)
    for criterion in ("weights", "obs"):
        treated = apply("weight_clustering", sparse, EVERYWHERE, bits=2, criterion=criterion)
        for name, array in weights(treated).items():
            assert len(np.unique(array)) <= 4
            assert np.all(array[sparse.constants[name] == 0] == 0)


@given(
    st.lists(st.floats(-10, 10).map(lambda x: round(x, 2)), min_size=3, max_size=60),
    st.integers(1, 4),
    st.sampled_from(["linear", "quantile"]),
)
def test_k_means_is_no_worse_than_its_start(values: list[float], bits: int, init: str) -> None:
    array = np.array(values)
    codebook = k_means(array, np.ones_like(array), 2**bits, init)
    assert len(codebook) <= 2**bits
    assert np.all(np.diff(codebook) > 0)
    one = np.where(array == 0, 0, array[array != 0].mean() if array.any() else 0)
    assert np.sum((nearest(array, codebook) - array) ** 2) <= np.sum((one - array) ** 2) + 1e-9


# Parameters that make no sense


@pytest.mark.parametrize(
    "method, params",
    [
        ("magnitude_pruning", {}),
        ("magnitude_pruning", {"sparsity": 0}),
        ("magnitude_pruning", {"sparsity": 1.0}),
        ("magnitude_pruning", {"sparsity": True}),
        ("magnitude_pruning", {"sparsity": 0.5, "scope": "row"}),
        ("magnitude_pruning", {"sparsity": 0.5, "speed": 1}),
        ("channel_pruning", {}),
        ("channel_pruning", {"keep": 2, "ratio": 0.5}),
        ("channel_pruning", {"keep": 0}),
        ("channel_pruning", {"keep": 8}),
        ("channel_pruning", {"ratio": -0.1}),
        ("channel_pruning", {"ratio": 0.5, "reconstruct": 1}),
        ("channel_pruning", {"ratio": 0.5, "multiple": 0}),
        ("low_rank", {}),
        ("low_rank", {"rank": 1000}),
        ("low_rank", {"rank": 8}),
        ("low_rank", {"rank": 2, "energy": 0.5}),
        ("low_rank", {"energy": float("nan")}),
        ("weight_clustering", {}),
        ("weight_clustering", {"bits": 9}),
        ("weight_clustering", {"bits": "4"}),
        ("weight_clustering", {"bits": 8}),
    ],
)
def test_nonsense_is_refused(method: str, params: dict[str, Any]) -> None:
    program = chain()
    site = groups(program)[0].id  # a layer's too
    with pytest.raises(ProgramError):
        LOSSY[method].apply(program, site, params, DATA)


@pytest.mark.parametrize("method", ["magnitude_pruning", "low_rank", "weight_clustering"])
def test_a_site_without_weights_is_refused(method: str) -> None:
    params = {"sparsity": 0.5, "rank": 1, "bits": 2}
    name = {"magnitude_pruning": "sparsity", "low_rank": "rank", "weight_clustering": "bits"}[method]
    with pytest.raises(ProgramError, match="constant weights"):
        LOSSY[method].apply(chain(), "v1", {name: params[name]}, DATA)
