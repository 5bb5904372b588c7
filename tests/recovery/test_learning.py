"""Constants learn in the form that compression gave them: codes, few values, zeros, scales of products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("torch", reason="the torch extra is not installed")
import torch

from lossy_samples import (
    TOKENS,
    WIDTH,
    WORDS,
    Interpreted,
    Net,
    OnTokens,
    chain,
    inputs_of,
    language_model,
    recovered,
)
from tensmith.formula.arith import Array
from tensmith.ir import Program, TensorType, make_node
from tensmith.recovery.learnable import learning_constants
from tensmith.recovery.learning import LearningBias, LearningCodebook, LearningFloats, LearningGrid
from tensmith.recovery.network import TorchNetwork, require_agreement
from tensmith.rewrite.archives import digest_of, read_trained, trained_path, write_arrays
from tensmith.rewrite.lossy.tables import with_tables_opened
from tensmith.rewrite.lossy.weights import stored_weights
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import Step


def lossy(rule: str, **params: object) -> Program:
    return apply_lossy(chain(), Step(rule, params=params, kind="lossy"), Interpreted())


def moved(program: Program, zeros: bool = False) -> tuple[TorchNetwork, Program]:
    """The network after every parameter was moved at random, and the program with what it wrote."""
    network = TorchNetwork(program, learning_constants(program, zeros), "cpu")
    require_agreement(network, inputs_of(network.program, 4))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor, unit in network.parameters.values():
            tensor += unit * torch.randn(tensor.shape, generator=generator)
    written = {name: array.astype(program.constants[name].dtype) for name, array in network.written().items()}
    return network, program.with_constants(written)


def of_kind(network: TorchNetwork, kind: type) -> Iterator[str]:
    return (name for name, each in network.learning.items() if isinstance(each, kind))


@pytest.mark.parametrize(
    ("rule", "params"),
    [
        ("int8", {"default_bits": 4}),
        ("int8", {"default_bits": 8, "scales": "mse"}),
        ("weight_only", {"default_bits": 3, "stored": "codes"}),
        ("weight_only", {"default_bits": 3, "stored": "floats"}),
        ("weight_clustering", {"bits": 3, "criterion": "weights"}),
        ("magnitude_pruning", {"sparsity": 0.5}),
    ],
)
def test_what_is_written_computes_what_was_learned(rule: str, params: dict[str, object]) -> None:
    network, after = moved(lossy(rule, **params))
    network.program = after
    require_agreement(network, inputs_of(network.program, 4))


@pytest.mark.parametrize("rule", ["int8", "weight_only"])
def test_codes_begin_at_the_numbers_that_were_rounded(rule: str) -> None:
    """Or as near to them as the same codes let them be."""
    program = lossy(rule, default_bits=4)
    plain = learning_constants(program, False)
    leaning = learning_constants(program, False, floats=chain())
    for name, grid in leaning.items():
        if isinstance(grid, LearningGrid):
            other = plain[name]
            assert isinstance(other, LearningGrid)
            assert torch.equal(grid.codes(), other.codes())
            apart = ((grid.numbers - other.numbers).abs() / grid._spread()).detach()
            assert float(apart.max()) <= 0.451
            assert bool((apart > 0.01).any()), name  # behind a rectifier that the grid swallows, too


def test_codes_stay_within_their_bits() -> None:
    network, after = moved(lossy("int8", default_bits=3))
    names = list(of_kind(network, LearningGrid))
    assert names
    for name in names:
        assert after.constants[name].dtype == np.int8
        assert abs(after.constants[name]).max() == 3


def test_a_bias_is_in_units_of_its_layers_scales() -> None:
    network, after = moved(lossy("int8", default_bits=8))
    biases = list(of_kind(network, LearningBias))
    assert biases
    for name in biases:
        each = network.learning[name]
        assert isinstance(each, LearningBias) and each.of is not None
        product = each.of.values * after.constants[each.of.weights.scale_name]
        np.testing.assert_array_equal(after.constants[each.scale_name], product)


def test_floats_that_are_codes_keep_few_values_a_row() -> None:
    network, after = moved(lossy("weight_only", default_bits=3, stored="floats"))
    names = list(of_kind(network, LearningGrid))
    assert names
    rows = after.constants[names[0]].reshape(8, -1)
    assert all(len(np.unique(row)) <= 7 for row in rows)


def test_rows_of_zeros_stay_zeros_while_little_moves() -> None:
    program = lossy("weight_only", default_bits=3, stored="floats")
    name = next(of_kind(moved(program)[0], LearningGrid))
    emptied = program.constants[name].copy()
    emptied[2] = 0
    network = TorchNetwork(program.with_constants({name: emptied}), {}, "cpu")
    learning = learning_constants(network.program, False)
    with torch.no_grad():
        for tensor, unit in learning[name].parameters.values():
            tensor -= 0.01 * unit
    row = learning[name].written()[name][2]
    assert not row.any() and not np.signbit(row).any()


def test_a_codebook_keeps_its_size() -> None:
    network, after = moved(lossy("weight_clustering", bits=3, criterion="weights"))
    names = list(of_kind(network, LearningCodebook))
    assert names and all(len(np.unique(after.constants[name])) <= 8 for name in names)


def test_zeros_stay_where_they_are_worth_something() -> None:
    pruned = lossy("magnitude_pruning", sparsity=0.5)
    for zeros in (True, False):
        network, after = moved(pruned, zeros)
        (name, *_) = of_kind(network, LearningFloats)
        empty = pruned.constants[name] == 0
        assert empty.sum() == empty.size / 2
        assert bool((after.constants[name][empty] == 0).all()) == zeros


@pytest.mark.parametrize("kind", [LearningFloats, LearningCodebook])
def test_no_zero_is_negative(kind: type[LearningFloats | LearningCodebook]) -> None:
    rows = np.array([[0, 1, 2], [1, 0, 2]], np.float32)
    learning = LearningFloats("w", rows, True) if kind is LearningFloats else LearningCodebook("w", rows)
    with torch.no_grad():
        learning.parameters["values"].tensor.sub_(0.5)
    written = learning.written()["w"]
    assert ((written == 0) == (rows == 0)).all() and not np.signbit(written).any()


def test_zeros_that_were_there_before_do_not_grow() -> None:
    before = chain()
    (name, *_) = (own.weight for own in stored_weights(before))
    rows = before.constants[name].copy()
    rows[0] = 0
    before = before.with_constants({name: rows})
    found = learning_constants(before, True, before)[name]
    assert isinstance(found, LearningFloats) and found.mask is not None and found.dense is None


def test_biases_learn_one_by_one_and_may_change_their_sign() -> None:
    node = make_node("add", ("x", "b"), ("y",))
    added = Program(
        "added", {"x": TensorType("f32", (1, 16))}, ("y",), (node,), {"b": np.zeros(16, np.float32)}
    )
    learning = learning_constants(added, False)["b"]
    with torch.no_grad():
        next(iter(learning.parameters.values())).tensor.copy_(torch.arange(16) - 8.0)
    assert learning.written()["b"].tolist() == [*range(-8, 8)]


def test_floats_of_no_grid_are_floats() -> None:
    network, _ = moved(chain())
    assert {type(each) for each in network.learning.values()} == {LearningFloats}


def test_codes_keep_their_type_and_its_range() -> None:
    scales = np.ones(2, np.float32)
    unsigned = LearningGrid(("c", "s"), np.array([[200, 5], [0, 255]], np.uint8), scales, {"axis": 0}, False)
    with torch.no_grad():
        unsigned.numbers[0, 1] = -5.0
    assert unsigned.written()["c"].tolist() == [[200, 0], [0, 255]]
    wide = np.array([[3000, 5], [0, -2000]], np.int16)
    written = LearningGrid(("c", "s"), wide, scales, {"axis": 0}, False).written()["c"]
    assert written.dtype == np.int16 and (written == wide).all()

    narrow = np.array([[15, 5], [0, 9]], ml_dtypes.uint4)
    assert LearningGrid(("c", "s"), narrow, scales, {"axis": 0}, False).low == 0


@dataclass
class Kept(Interpreted):
    """A calibration with trained weights in a folder."""

    folder: Path = field(default_factory=Path)

    def trained(self, weights: str) -> dict[str, Array]:
        return read_trained(self.folder, weights)


def deep() -> Program:
    """A product that a block of 4-bit codes fits into."""
    net = Net(image=(32,))
    return net.program(net.op("matmul", "x", net.weights(32, 6)))


@pytest.mark.parametrize(
    ("program", "rule", "params"),
    [
        (chain(), "weight_only", {"default_bits": 4, "stored": "codes"}),
        (deep(), "block_int4", {"block": 16}),
    ],
)
def test_codes_of_four_bits_are_kept_and_put_in_place(
    program: Program, rule: str, params: dict[str, object], tmp_path: Path
) -> None:
    before = apply_lossy(program, Step(rule, params=params, kind="lossy"), Interpreted())
    replay_as_written(before, tmp_path)


def test_scales_of_two_bytes_are_kept_and_put_in_place(tmp_path: Path) -> None:
    program = chain()
    inputs = {name: TensorType("f16", type_.shape) for name, type_ in program.inputs.items()}
    halves = {name: array.astype(np.float16) for name, array in program.constants.items()}
    step = Step("weight_only", params={"default_bits": 8, "stored": "codes"}, kind="lossy")
    narrow = apply_lossy(replace(program, inputs=inputs, constants=halves), step, Interpreted())
    scales = [name for name in narrow.constants if name.endswith(".scale")]
    assert scales and all(narrow.constants[name].dtype == np.float16 for name in scales)
    replay_as_written(narrow, tmp_path)


def replay_as_written(before: Program, folder: Path) -> None:
    """What a network writes goes through a file into the program that it was made of."""
    network, after = moved(before)
    arrays = network.written()
    write_arrays(trained_path(folder, digest_of(arrays)), arrays)
    step = recovered(arrays)
    found = apply_lossy(before, step, Kept(folder=folder))
    assert {name: array.dtype for name, array in found.constants.items()} == {
        name: array.dtype for name, array in before.constants.items()
    }
    for name in arrays:
        np.testing.assert_array_equal(found.constants[name], after.constants[name])


@pytest.mark.parametrize("ruled_out", [-np.inf, np.nan, -3e38])
def test_masks_do_not_learn(ruled_out: float) -> None:
    net = Net(image=(6,))
    mask = net.constant(np.where(np.arange(6) % 2, ruled_out, 0.0))
    program = net.program(net.op("add", net.op("matmul", "x", net.weights(6, 6)), mask))
    assert mask not in learning_constants(program, False) and len(learning_constants(program, False)) == 1


@pytest.mark.parametrize("rule", ["int8", "weight_only"])
def test_a_table_that_a_head_multiplies_with_learns(rule: str) -> None:
    params = {"default_bits": 4} | ({"stored": "codes"} if rule == "weight_only" else {})
    before = language_model()
    coded = apply_lossy(before, Step(rule, params=params, kind="lossy"), OnTokens())
    opened = with_tables_opened(coded)
    learning = learning_constants(opened, False, floats=before)
    (table,) = (each for each in learning.values() if each.value().shape == (WORDS, WIDTH))
    plain = learning_constants(opened, False)[table.name]
    assert isinstance(table, LearningGrid) and isinstance(plain, LearningGrid)
    assert not torch.equal(table.numbers, plain.numbers)
    network = TorchNetwork(opened, learning, "cpu")
    require_agreement(network, {"x": TOKENS})
    network({"x": TOKENS})[0].sum().backward()
    assert bool((table.numbers.grad != 0).any())
    with torch.no_grad():
        table.numbers.mul_(-1)
    network.program = coded.with_constants(
        {name: array.astype(coded.constants[name].dtype) for name, array in network.written().items()}
    )
    require_agreement(network, {"x": TOKENS})


def test_codes_that_are_looked_up_as_they_are_stay() -> None:
    """Rows of what they stand for would be scaled twice."""
    coded = apply_lossy(language_model(), Step("int8", params={"default_bits": 7}, kind="lossy"), OnTokens())
    network = TorchNetwork(coded, learning_constants(coded, False), "cpu")
    require_agreement(network, {"x": TOKENS})
    (grid,) = of_kind(network, LearningGrid)
    assert coded.constants[grid].shape == (WIDTH, WIDTH)


@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_none_of_which_is_negative_stay_so(sign: int) -> None:
    """A bank of filters that added up to less than nothing would have no logarithm."""
    bank = np.tile(np.array([0, 1, 2, 4], np.float32), (8, 2))
    scales = np.full((8, 1), 0.5, np.float32)
    codes = np.array(sign * bank, np.int8)
    for learning in (
        LearningFloats("bank", sign * bank, False),
        LearningCodebook("bank", sign * bank),
        LearningGrid(("bank", "scales"), codes, scales, {"axis": 0}, False),
    ):
        with torch.no_grad():
            next(iter(learning.parameters.values())).tensor.sub_(sign * 1.5)
        for found in (learning.value().detach().numpy(), learning.written()["bank"]):
            assert (found * sign).max() > 0
            assert (found >= 0).all() == (sign > 0)
