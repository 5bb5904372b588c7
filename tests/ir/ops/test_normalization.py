"""Normalizations, as ONNX has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance import check, random

from tensmith.errors import ProgramError
from tensmith.ir.op import OPS, Typed
from tensmith.ir.types import TensorType

X = random(2, 4, 3, 5)
SCALE, BIAS, MEAN, VAR = (random(4, seed=1), random(4, seed=2), random(4, seed=3), random(4, seed=4, low=0.1))


def test_batch_normalization() -> None:
    check("batch_normalization", [X, SCALE, BIAS, MEAN, VAR])
    check("batch_normalization", [X, SCALE, BIAS, MEAN, VAR], {"epsilon": 0.1})


def test_batch_normalization_in_training_is_refused() -> None:
    op = OPS["batch_normalization"]
    call = Typed({**op.attributes, "training_mode": 1}, (TensorType("f32", (1, 2)),), (None,))
    assert op.accepts(call) == "training_mode is set"


def test_batch_normalization_of_more_outputs_is_training_in_old_opsets() -> None:
    op = OPS["batch_normalization"]
    call = Typed(op.attributes, (TensorType("f32", (1, 2)),), (None,), 5)
    assert op.accepts(call) == "training mode, which has more than one output"


@pytest.mark.parametrize("axis", [-1, 2, 1])
def test_layer_normalization(axis: int) -> None:
    shape = X.shape[axis:]
    check("layer_normalization", [X, random(*shape), random(*shape, seed=1)], {"axis": axis}, n_outputs=3)
    check("layer_normalization", [X, random(*shape)], {"axis": axis})
    check("rms_normalization", [X, random(*shape)], {"axis": axis})


def test_statistics_of_16_bit_floats_are_taken_in_32_bits() -> None:
    x = (X * 300).astype(np.float16)
    check("layer_normalization", [x, random(5).astype(np.float16)], formula=False, field=False)


def test_instance_and_group_normalization() -> None:
    check("instance_normalization", [X, SCALE, BIAS])
    for groups in (1, 2, 4):
        check("group_normalization", [X, SCALE, BIAS], {"num_groups": groups})


def test_groups_must_divide_the_channels() -> None:
    op = OPS["group_normalization"]
    with pytest.raises(ProgramError, match="num_groups=3 does not divide"):
        op.infer(Typed({**op.attributes, "num_groups": 3}, (TensorType.of(X),), (None,)))


@pytest.mark.parametrize("attrs", [{}, {"axes": (1, 2)}])
def test_mean_variance_normalization(attrs: dict[str, Any]) -> None:
    check("mean_variance_normalization", [X], attrs)


@pytest.mark.parametrize("p", [1, 2])
def test_lp_normalization_of_zeros_is_zero(p: int) -> None:
    x = X.copy()
    x[0, :, 0, 0] = 0
    (y,) = check("lp_normalization", [X], {"p": p, "axis": 1})
    assert np.isfinite(y).all()
    norm = np.abs(x).sum(1, keepdims=True) if p == 1 else np.sqrt((x * x).sum(1, keepdims=True))
    wanted = np.divide(x, norm, out=np.zeros_like(x), where=norm != 0)
    check("lp_normalization", [x], {"p": p, "axis": 1}, expected=[wanted])


def test_local_response_normalization() -> None:
    check("lrn", [X], {"size": 3, "alpha": 0.5, "beta": 0.75, "bias": 2.0}, rtol=1e-4)
    check("lrn", [X], {"size": 5, "alpha": 0.5, "beta": 0.5}, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "x", "parameter"),
    [
        ("layer_normalization", (1, 8), (3, 8)),
        ("layer_normalization", (3, 8), (2,)),
        ("layer_normalization", (8,), (1, 8)),
        ("rms_normalization", (1, 8), (3, 8)),
        ("batch_normalization", (1, 8, 2, 2), (2,)),
        ("batch_normalization", (1, 8, 2, 2), (1, 8)),
        ("instance_normalization", (1, 8, 2, 2), (2,)),
        ("group_normalization", (1, 8, 2, 2), (2,)),
    ],
)
def test_parameters_fit_their_input(name: str, x: tuple[int, ...], parameter: tuple[int, ...]) -> None:
    op = OPS[name]
    count = {"batch_normalization": 4, "rms_normalization": 1}.get(name, 2)
    types = (TensorType("f32", x), *(TensorType("f32", parameter),) * count)
    with pytest.raises(ProgramError, match=r"scale, bias or statistic f32.* does not fit x f32"):
        op.infer(Typed({**op.attributes, "num_groups": 2}, types, (None,) * len(types)))
