"""Channel groups: what must go together goes together, and what nobody reads may go."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lossy_samples import (
    SAMPLES,
    Net,
    attention,
    chain,
    equal_biases,
    fire,
    flattened,
    grouped,
    mobile,
    option_a,
    parts_first,
    residual,
    run,
    shared_keys,
    transformer,
)
from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir import Program, TensorType
from tensmith.rewrite.lossy.dependency import ChannelGroup, find_group, groups, without_channels
from tensmith.rewrite.lossy.weights import find_layer, with_rows


def sizes(program: Program) -> list[int]:
    return [group.size for group in groups(program)]


def test_groups_are_where_channels_start() -> None:
    assert sizes(chain()) == [8, 12, 10]
    assert sizes(residual()) == [8, 6, 6]
    assert sizes(mobile()) == [6, 12, 4]
    assert sizes(fire()) == [4, 6, 6, 5]
    assert sizes(flattened()) == [6, 9]


def test_a_stream_that_widens_by_zeros_is_two_groups() -> None:
    stream, inner, added = groups(option_a())
    assert (stream.size, inner.size, added.size) == (4, 8, 4)
    assert [use.site for use in stream.producers] == ["v0", added.producers[0].site]


def test_groups_of_a_convolution_lose_the_same_channels() -> None:
    assert sizes(grouped()) == [6, 4, 6]  # 12 inputs and 8 filters in 2 groups


def test_inputs_and_outputs_of_the_program_are_protected() -> None:
    assert sizes(transformer()) == [16]  # the stream is an output, and is added to an input


def test_a_head_of_attention_goes_with_its_queries_keys_and_values() -> None:
    (heads,) = groups(attention())
    assert (heads.size, heads.width) == (4, 2)
    assert [len(use.channels) for use in (*heads.producers, *heads.consumers)] == [24, 8]
    assert sizes(parts_first()) == [3]
    (pairs,) = groups(shared_keys())
    assert (pairs.size, len(pairs.producers)) == (3, 3)


def test_an_unknown_op_protects_its_channels() -> None:
    net = Net()
    x = net.conv("x", 8)
    net.op("flatten", net.op("top_k", x, net.constant([2], np.int64), outputs=2))
    assert groups(net.program(net.head(net.conv(x, 4))))[0].size == 4


def test_a_stack_of_matrices_protects_its_channels() -> None:
    """It is no layer: nothing tells how much its rows matter, or fits them anew."""
    net = Net(image=(4, 6))
    h = net.op("matmul", net.op("relu", net.op("matmul", "x", net.weights(6, 8))), net.weights(1, 8, 10))
    program = net.program(net.op("matmul", net.op("relu", h), net.weights(10, 5)))
    assert sizes(program) == []
    wide = net.op("relu", net.op("matmul", "x", net.weights(6, 7)))
    both = net.program(net.op("add", program.outputs[0], net.op("matmul", wide, net.weights(7, 5))))
    assert sizes(both) == [7]


def test_layers_of_equal_biases_are_pruned_apart() -> None:
    program = equal_biases()
    assert sum(array.shape == (8,) for array in program.constants.values()) == 1
    assert [[use.site for use in group.producers] for group in groups(program)] == [["v0"], ["v2"], ["v4"]]
    assert_removable(program, 0)


def test_a_missing_group_is_refused() -> None:
    with pytest.raises(ProgramError, match="group of removable channels"):
        find_group(chain(), "v4")


def blinded(program: Program, group: ChannelGroup, removed: Array) -> Program:
    """The program whose consumers do not look at the removed channels."""
    changed = {}
    for use in group.consumers:
        layer = find_layer(program, use.site)
        rows = layer.rows(program.constants[layer.weight])
        gone = np.isin(use.channels, removed).reshape(layer.groups, -1)
        mask = np.repeat(gone, rows.shape[2] // gone.shape[1], axis=1)
        changed[layer] = np.where(mask[:, None, :], 0, rows)
    return with_rows(program, changed)


def weights(program: Program) -> int:
    return sum(a.size for a in program.constants.values() if a.dtype.kind == "f")


def assert_removable(program: Program, seed: int) -> None:
    random = np.random.default_rng(seed)
    for group in (group for group in groups(program) if group.size > 1):
        removed = np.sort(random.choice(group.size, int(random.integers(1, group.size)), replace=False))
        before = blinded(program, group, removed)
        try:
            after = without_channels(before, group, removed)
        except ProgramError as error:  # the only ones that some tensor has: refused, as it must be
            assert "would leave nothing" in str(error)
            continue
        assert weights(after) < weights(before)  # what says where channels lie now may take more
        np.testing.assert_allclose(run(after, 3), run(before, 3), rtol=1e-4, atol=1e-5)


def turned(*target: int, first: tuple[int, ...]) -> Program:
    """Rows of six, their channels before other axes, under a target that takes sizes from other places."""
    net = Net(image=(*first, 4, 5))
    x = net.op("matmul", "x", net.weights(5, 6))
    perm = (0, *range(1, len(first) + 1), len(first) + 2, len(first) + 1)
    x = net.op("reshape", net.op("transpose", x, perm=perm), net.constant(target, np.int64))
    x = net.op("reshape", net.op("softmax", x, axis=-1), net.constant([0, -1], np.int64))
    return net.program(net.op("matmul", x, net.weights(int(np.prod(first, initial=24)), 5)))


@pytest.mark.parametrize(("target", "first"), [((0, 3, 0, -1), ()), ((0, -1, 0), (2,))])
def test_a_size_that_is_copied_from_another_axis_is_said_anew(
    target: tuple[int, ...], first: tuple[int, ...]
) -> None:
    for seed in range(4):
        assert_removable(turned(*target, first=first), seed)


@pytest.mark.parametrize("filters", [(8, 3, 3, 3), (3, 8, 3, 3)])
def test_filters_that_are_computed_protect_their_channels(filters: tuple[int, ...]) -> None:
    net = Net(image=(filters[1], 6, 6))
    net.input = TensorType("f32", (1, filters[1], 6, 6))
    seen = net.op("flatten", net.op("global_average_pool", "x"))
    made = net.op("matmul", seen, net.weights(filters[1], int(np.prod(filters))))
    image = net.op("conv", "x", net.op("reshape", made, net.constant(filters, np.int64)), pads=(1,) * 4)
    pooled = net.op("flatten", net.op("global_average_pool", image))
    assert groups(net.program(net.op("matmul", pooled, net.weights(filters[0], 5)))) == []


def test_an_instance_norm_protects_what_it_averages_over() -> None:
    net = Net(image=(4, 8))
    parts = net.constant(np.ones(4)), net.constant(np.zeros(4))
    x = net.op("instance_normalization", net.op("matmul", "x", net.weights(8, 6)), *parts)
    assert groups(net.program(net.op("matmul", x, net.weights(6, 5)))) == []


def test_two_heads_are_told_from_queries_keys_and_values() -> None:
    assert sizes(attention(heads=2)) == [2]
    assert_removable(attention(heads=2), 0)
    assert sizes(attention(heads=1)) == []  # all that scores need, or all that one head gives


@pytest.mark.parametrize("name", SAMPLES)
def test_channels_that_nobody_reads_may_go(name: str) -> None:
    for seed in range(3):
        assert_removable(SAMPLES[name](), seed)


STEPS = ("conv", "norm", "depthwise", "residual", "fire", "grouped", "pool", "cut", "widen", "scale")


def grown(steps: list[str], seed: int) -> Program:
    net = Net(seed)
    x = net.conv("x", 8)
    for step in steps:
        c = net.channels(x)
        if step == "conv":
            x = net.op("relu", net.conv(x, 4 + (c + 3) % 6))
        elif step == "norm":
            x = net.norm(x)
        elif step == "depthwise":
            x = net.conv(x, c, group=c)
        elif step == "residual":
            x = net.op("add", x, net.conv(net.op("sigmoid", net.conv(x, 5, 1)), c, bias=False))
        elif step == "fire":
            x = net.op("concat", x, net.op("relu", net.conv(x, 4)), axis=1)
        elif step == "grouped":
            x = net.conv(net.conv(x, 6, 1), 9, group=3)
        elif step == "pool":
            x = net.op("average_pool", x, kernel_shape=(3, 3), pads=(1, 1, 1, 1))
        elif step == "cut":
            x = net.op("slice", x, *(net.constant(v, np.int64) for v in ([1], [c], [1])))
        elif step == "widen":
            x = net.op("pad", x, net.constant([0, 1, 0, 0, 0, 2, 0, 0], np.int64))
        else:
            x = net.op("mul", x, net.constant(net.random.normal(size=(c, 1, 1))))
    return net.program(net.head(x))


@settings(max_examples=40)
@given(steps=st.lists(st.sampled_from(STEPS), max_size=6), seed=st.integers(0, 99))
@example(steps=["cut", "widen", "widen"], seed=11)
def test_channels_that_nobody_reads_may_go_from_any_network(steps: list[str], seed: int) -> None:
    assert_removable(grown(steps, seed), seed)
