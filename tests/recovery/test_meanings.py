"""PyTorch computes what programs say, op by op; what it has no gradients for is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the torch extra is not installed")

import torch

import nets
from lossy_samples import SAMPLES, inputs_of
from tensmith.errors import ProgramError
from tensmith.ir import Program, TensorType
from tensmith.recovery import meanings
from tensmith.recovery.learnable import learning_constants
from tensmith.recovery.meanings import _taken
from tensmith.recovery.network import TorchNetwork, _Ordered, require_agreement

PROGRAMS = (
    *SAMPLES.values(),
    nets.residual_block,
    nets.concatenations,
    nets.pools,
    nets.classifier,
    nets.squeeze_excite,
    nets.reshapes,
    nets.sequences,
)


def sample(program: Program) -> dict[str, Any]:
    """Random inputs, two samples where the program lets one choose."""
    (first, *_) = (type_.dims[0] for type_ in program.inputs.values())
    return inputs_of(program, first if isinstance(first, int) else 2)


@pytest.mark.parametrize("build", PROGRAMS)
def test_networks_answer_as_their_programs(build: Callable[[], Program]) -> None:
    program = build()
    network = TorchNetwork(program, learning_constants(program, False), "cpu")
    require_agreement(network, sample(program))
    sum(value.sum() for value in network(sample(program))).backward()
    learned = [tensor.grad for tensor, _ in network.parameters.values()]
    assert learned and all(gradient is not None for gradient in learned)


def images(op: str, *constants: Any, channels: int = 8, **attrs: Any) -> Program:
    """An op between two convolutions. constants: arrays, or shapes of weights; "" is none."""
    net = nets.Net(2, 3, 7, 6)
    named = [net.constant(*each) if isinstance(each, tuple) else each and net.constant(values=each[0])
             for each in constants]  # fmt: skip
    return net.program(net.conv(net.add(op, net.conv("x", 3, 8), *named, **attrs), channels, 5))


def tokens(op: str, *constants: Any, of: int = 1, **attrs: Any) -> Program:
    """An op of projections [2, 5, 24]."""
    net = nets.Net(2, 5, 24)
    named = [net.constant(values=each[0]) if each else "" for each in constants]
    parts = [net.add("matmul", "x", net.constant(24, 24)) for _ in range(of)]
    return net.program(net.add("matmul", net.add(op, *parts, *named, **attrs), net.constant(24, 7)))


def resized(mode: str, *scales: float, **attrs: Any) -> Program:
    return images("resize", "", [np.array([1, 1, *scales], np.float32)], mode=mode, **attrs)


SEEN = np.tril(np.ones((5, 5), bool))
ANGLES = np.random.default_rng(0).uniform(0, 6, (9, 4)).astype(np.float32)
AFFINE = ((8,), (8,))
MEANT = {
    "upsampled by a transposed convolution": images(
        "conv_transpose", (8, 3, 3, 2), (6,), channels=6, group=2, strides=(2, 3), pads=(1, 0, 0, 1),
        output_padding=(1, 0), dilations=(1, 2),
    ),
    "same transposed convolution": images(
        "conv_transpose", (8, 4, 4, 4), channels=4, strides=(2, 2), auto_pad="SAME_UPPER"
    ),
    "nearest": resized("nearest", 2, 1.5, nearest_mode="floor", coordinate_transformation_mode="asymmetric"),
    "linear": resized("linear", 2, 0.5),
    "cubic": resized("cubic", 1, 2.0, cubic_coeff_a=-0.5, exclude_outside=1),
    "instance": images("instance_normalization", *AFFINE),
    "group": images("group_normalization", *AFFINE, num_groups=4),
    "variance": images("mean_variance_normalization"),
    "lp": images("lp_normalization", axis=1, p=1),
    "responses": images("lrn", size=3),
    "l2": images("reduce_l2", [np.array([2])]),
    "log of sums": images("reduce_log_sum_exp", [np.array([1, 3])], channels=1),
    "product": images("reduce_prod", [np.array([3])]),
    "selu": images("selu"), "celu": images("celu"), "shrunk": images("shrink", lambd=0.3, bias=0.1),
    "prelu": images("prelu", (8, 1, 1)), "einsum": tokens("einsum", of=2, equation="b i d, b j d -> b j d"),
    "attention": tokens("attention", of=3, q_num_heads=4, kv_num_heads=4, is_causal=1),
    "attention in a window": tokens(
        "attention", of=3, q_num_heads=4, kv_num_heads=4, left_window_size=1, right_window_size=2
    ),
    "masked attention": tokens("attention", [SEEN], of=3, q_num_heads=3, kv_num_heads=3, scale=0.2),
    "biased attention": tokens(
        "attention", [np.where(SEEN, 0.3, -9).astype(np.float32)], of=3, q_num_heads=2, kv_num_heads=2,
        is_causal=1,
    ),
    "rotary": tokens(
        "rotary_embedding", [np.cos(ANGLES)], [np.sin(ANGLES)], [np.arange(10).reshape(2, 5) % 9],
        num_heads=3,
    ),
    "rotary of neighbours": tokens(
        "rotary_embedding", [np.cos(ANGLES)[:, :3]], [np.sin(ANGLES)[:, :3]],
        [np.arange(10).reshape(2, 5) % 9], num_heads=3, interleaved=1, rotary_embedding_dim=6,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MEANT)
def test_what_learns_before_an_op_learns_through_it(name: str) -> None:
    program = MEANT[name]
    network = TorchNetwork(program, learning_constants(program, False), "cpu")
    require_agreement(network, sample(program))
    sum((value * value).sum() for value in network(sample(program))).backward()
    gradients = [parameter.tensor.grad for parameter in network.parameters.values()]
    assert all(gradient is not None and bool(gradient.isfinite().all()) for gradient in gradients)
    assert sum(bool((gradient != 0).any()) for gradient in gradients) >= 2


def test_queries_that_see_no_key_are_refused() -> None:
    program = tokens("attention", [np.zeros((5, 5), bool)], of=3, q_num_heads=3, kv_num_heads=3)
    network = TorchNetwork(program, learning_constants(program, False), "cpu")
    with pytest.raises(ProgramError, match="see no key"):
        network(sample(program))


def test_whole_numbers_of_what_does_not_learn_are_known() -> None:
    net = nets.Net(2, 3, 6, 6)
    mask = net.add("cast", net.add("cast", net.add("relu", "x"), to=7), to=1)
    program = net.program(net.add("mul", net.conv("x", 3, 3), mask))
    network = TorchNetwork(program, learning_constants(program, False), "cpu")
    require_agreement(network, sample(program))


@pytest.mark.parametrize("op", ["conv", "gemm", "batch_normalization"])
def test_images_may_be_integers(op: str) -> None:
    """What they become is an array until a layer reads it."""
    net = nets.Net(2, 3, 6, 6)
    x = net.add("transpose", net.add("cast", "x", to=1), perm=(0, 1, 3, 2))
    if op == "conv":
        x = net.conv(x, 3, 4)
    elif op == "gemm":
        x = net.add("gemm", net.add("flatten", x), net.constant(108, 5), net.constant(5))
    else:
        scale, bias, mean = (net.constant(3) for _ in range(3))
        x = net.add(op, x, scale, bias, mean, net.constant(values=np.ones(3, np.float32)))
    program = replace(net.program(x), inputs={"x": TensorType("u8", (2, 3, 6, 6))})
    images = {"x": np.random.default_rng(0).integers(0, 256, (2, 3, 6, 6), np.uint8)}
    require_agreement(TorchNetwork(program, learning_constants(program, False), "cpu"), images)


def test_what_has_no_gradients_is_refused() -> None:
    net = nets.Net(1, 4, 6, 6)
    program = net.program(net.add("lp_pool", "x", kernel_shape=(2, 2)))
    with pytest.raises(ProgramError, match=r"lp_pool.*no gradients"):
        TorchNetwork(program, {}, "cpu")(sample(program))


def test_what_nothing_learns_in_needs_no_gradients() -> None:
    """Masks, as language models make them of the length of a text."""
    net = nets.Net(2, 4, 4)
    below = net.add("trilu", net.add("relu", "x"), upper=0)
    program = net.program(net.add("mul", below, net.constant(4, 4)))
    network = TorchNetwork(program, learning_constants(program, False), "cpu")
    require_agreement(network, sample(program))
    sum(value.sum() for value in network(sample(program))).backward()


def test_a_network_that_answers_otherwise_is_refused() -> None:
    program = nets.classifier()
    network = TorchNetwork(program, {}, "cpu")
    twice = {name: 2 * a if a.dtype == np.float32 else a for name, a in program.constants.items()}
    network.program = program.with_constants(twice)
    with pytest.raises(ProgramError, match="does not compute"):
        require_agreement(network, sample(program))


@pytest.mark.parametrize(
    ("cut", "view"),
    [
        ((slice(None), slice(1, 6, 2)), True),
        ((slice(3), slice(6, None)), True),
        ((slice(1, 2), slice(None, None, 7)), True),
        ((slice(None), slice(None, None, -1)), False),  # PyTorch does not step backwards
        ((slice(None), [0, 2, 5]), False),
        ((slice(0), slice(None)), False),
    ],
)
def test_what_is_cut_out_stays_where_it_lies(cut: tuple[Any, ...], view: bool) -> None:
    places = np.arange(4 * 7).reshape(4, 7)
    x = torch.arange(4 * 7).reshape(4, 7)
    found = _taken(x, places, places[cut])
    np.testing.assert_array_equal(found, places[cut])
    assert (found.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()) == view


def test_arrays_that_may_not_be_written_are_copied(recwarn: pytest.WarningsRecorder) -> None:
    """PyTorch warns of what it shares with them, which users would see."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    places = np.arange(3).reshape(1, 3)
    _taken(torch.arange(3).reshape(1, 3), places, np.broadcast_to(places, (2, 3)))
    meanings.tensor(np.broadcast_to(np.float32(1), (2, 3)), torch.zeros(1))
    torch.set_warn_always(before)
    assert not [str(each.message) for each in recwarn]


def test_gradients_of_images_lie_as_images_do() -> None:
    """Elementwise ops of two orders take many times as long."""
    x = torch.zeros(2, 3, 4, 4).contiguous(memory_format=torch.channels_last).requires_grad_(True)
    seen: list[bool] = []
    inner = x * 1.0
    inner.register_hook(lambda g: seen.append(g.is_contiguous(memory_format=torch.channels_last)))
    _Ordered.apply(inner).permute(0, 2, 3, 1).contiguous().sum((1, 2)).mul(torch.arange(3.0)).sum().backward()
    assert seen == [True] and x.grad[0, :, 0, 0].tolist() == [0.0, 1.0, 2.0]


def test_gradients_of_heads_lie_as_the_heads_do() -> None:
    """Scores of attention have four axes, too, and are no images."""
    x = torch.randn(2, 3, 4, 5, requires_grad=True)
    seen: list[bool] = []
    inner = x * 1.0
    inner.register_hook(lambda g: seen.append(g.is_contiguous()))
    _Ordered.apply(inner).permute(0, 2, 1, 3).mul(torch.arange(5.0)).sum().backward()
    assert seen == [True] and x.grad is not None and x.grad[0, 0, 0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
