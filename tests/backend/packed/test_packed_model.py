"""A packed model unpacks to the very file it was made from, smaller than a general compressor leaves it."""

from __future__ import annotations

import base64
import math
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from packed_memory import peak_of
from packed_samples import model_of, tensor, varied_model

from tensmith.backend.packed import describe, pack, pack_file, scaled, unpack, unpack_file, wire
from tensmith.errors import ModelError, OutputError

VERSION_3 = (
    "k1RTTQO42Q0NRkLMzk13vT08IMpvWJ88ArhQo0OnqGakLW+ONmfFsYT+A6p2g2rPaOaSOei+FgIAfn4EVlQAICAA7AXsBQgOEgR0"
    "ZXN0OpALEgFnKtAECAgICAgDCAMQA0IBd0rABCopCAgQAUIBc0ogKowGCAgIGBABQgFmSoAGQgIQHOAAKgAiAwAAAKSbd9uyVboS"
    "HFQ8/6uy9lzzOZ27pgadrX+9iMJkiGAAAAAAgDwAAIA8AQIDBAUGBwjcjRAGhkxG3fC7H1x8XqAN6CW6UsuqPBJ+3bxft5/IoLwE"
    "YNFBB1wHxyLDHGwvJwex/Mk0Aad7HoFXBx1HDx4Hjta/ALTwNaT/P51Wv2tfCB5Gdugr2RcoF16Xd5orEqiqb13YMCqle8kZT28z"
    "v4m4yxxMv7QlF9DmHGE5H6GOpBU+lVKOluyM6tmGaOOA9gDhfYbA9UHQF/C9U0BPWeRk16mm+Z5oLSyNJ4YoXeX3pgUv7uc3sQ+m"
    "m3NLrI9FdKIEAeeIGQMdRPyCDSdOfd75WDylEUM6XEA0xqJ//0Q+imZ6Yg95fMgmUShZeyGiLAboXToo1qXHwLC/ujznAdqyH+Eb"
    "bE6hEDE1CKUw//a7A/fLNcv6lRJwrsxYzJYgzyE+cOFLgqDnjw/pT5FD0x10Meiv4z7kKk+AUqQJHfpCFINRK3d4IkD9v/ZXVlkh"
    "rjkejzTWVg0vanp4u585ug3X7/3E1fq5OSBPAEufN9YJoU2MVYCu6g=="
)


def codecs_of(packed: bytes) -> dict[str, str]:
    return {row.name: row.codec for row in describe(packed)}


def test_every_byte_comes_back_and_every_codec_finds_its_tensor() -> None:
    model = varied_model()
    packed = pack(model)
    assert unpack(packed) == model
    assert len(packed) < len(zstandard.compress(model, 19))
    codecs = codecs_of(packed)
    expected = {
        "q": "integers",
        "smooth": "integers",
        "sparse": "integers",
        "c": "integers",
        "deep": "derived",
        "int4": "integers",
        "fake_quantized": "grid",
        "clustered": "palette",
        "dense": "planes",
        "pruned": "sparse",
        "half": "planes",
        "double": "planes",
        "bias": "planes",
        "nibbles": "nibbles",
        "constant": "palette",
        "b_scale": "derived",
        "copy": "derived",
    }
    assert {name: codecs[name] for name in expected} == expected


def test_a_file_of_version_3_stays_readable() -> None:
    draws = np.array([pow(16807, k, (1 << 31) - 1) >> 9 for k in range(1, 577)]).reshape(8, 8, 3, 3)
    walk = np.cumsum(draws % 5 - 2, axis=3) * (1 + np.arange(8)[:, None, None, None] // 3)
    steps = (draws[:, :, 0] % 4 + draws[:, :, 1] % 5 - 3).reshape(8, 24)
    scales = (np.arange(1, 9) / 64).astype(np.float32)
    expected = {
        "w": walk.clip(-7, 7).astype(np.int8),
        "s": scales,
        "f": (steps * scales[:, None]).astype(np.float32),
    }
    model = model_of(*(tensor(name, array) for name, array in expected.items()))
    assert unpack(base64.b64decode(VERSION_3)) == model


def test_packing_is_deterministic() -> None:
    assert pack(varied_model()) == pack(varied_model())


def test_rows_describe_every_tensor() -> None:
    rows = {row.name: row for row in describe(pack(varied_model()))}
    assert rows["q"].dtype == "int8" and rows["q"].shape == (24, 12, 3, 3)
    assert 4 < rows["q"].bits < 6
    assert rows["sparse"].bits < 1.3
    assert rows["constant"].bits < 0.2
    assert rows["b_scale"].bits == 0


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "float64", "int8", "uint8", "int16", "uint16", "int32"]
)
@pytest.mark.parametrize("elements", [1, 7, 600, 5000])
def test_random_bits_of_every_type_survive(dtype: str, elements: int) -> None:
    size = np.dtype(dtype).itemsize
    noise = np.random.default_rng(elements).integers(0, 256, elements * size, np.uint8).view(dtype)
    model = model_of(tensor("noise", noise), tensor("again", noise[::-1]))
    packed = pack(model)
    assert unpack(packed) == model
    assert len(packed) < len(model) + 300


@pytest.mark.parametrize("data_type", [TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN, TensorProto.UINT4])
def test_small_types_survive(data_type: int) -> None:
    values = np.random.default_rng(0).normal(2, 1, (40, 41)).clip(0, 15)
    stored = values.astype(ml_dtypes.bfloat16).astype(np.float32)
    model = model_of(helper.make_tensor("t", data_type, [40, 41], stored.ravel().tolist()))
    assert unpack(pack(model)) == model


@pytest.mark.parametrize("awkward", [np.nan, np.inf, -np.inf, -0.0, 1e-45, 3.4e38])
def test_awkward_floats_survive(awkward: float) -> None:
    rng = np.random.default_rng(0)
    values = (rng.integers(-3, 4, (30, 20)) * np.float32(0.1)).astype(np.float32)
    values[::7] = awkward
    model = model_of(tensor("w", values), tensor("s", np.float32(awkward)), tensor("v", values[:, 3] / 2))
    assert unpack(pack(model)) == model


def test_no_nan_is_derived() -> None:
    """Which bits a product has that is none depends on the machine."""
    values = np.array([3, np.inf, -np.inf, 5, 0.5], np.float32)
    with np.errstate(invalid="ignore"):
        arrays = {"v": values, "zero": np.float32(0), "product": values * np.float32(0)}
    finite = {"u": values[[0, 3, 4, 0]], "two": np.float32(2), "double": values[[0, 3, 4, 0]] * np.float32(2)}
    codecs = codecs_of(pack(model_of(*(tensor(*each) for each in (arrays | finite).items()))))
    assert codecs["product"] != "derived" and codecs["double"] == "derived"


def test_a_fake_quantized_tensor_keeps_its_negative_zeros() -> None:
    rng = np.random.default_rng(0)
    scale = rng.uniform(0.01, 0.02, (1, 40)).astype(np.float32)
    values = (
        np.round(rng.normal(size=(60, 40)) * 2).astype(np.float32) * scale
    )  # per column, -0 among the zeros
    assert (np.signbit(values) & (values == 0)).any()
    packed = pack(model_of(tensor("w", values)))
    assert codecs_of(packed) == {"w": "grid"}
    assert unpack(packed) == model_of(tensor("w", values))


def test_a_grid_is_found_where_no_two_values_are_one_step_apart() -> None:
    random = np.random.default_rng(0)
    steps = np.rint(random.normal(size=(384, 9)) * 40).clip(-127, 127).astype(np.float32)
    packed = pack(model_of(tensor("w", steps * random.uniform(0.01, 1, (384, 1)).astype(np.float32))))
    assert codecs_of(packed) == {"w": "grid"}


def test_halves_stored_as_floats_cost_no_more_than_halves() -> None:
    halves = np.random.default_rng(0).normal(size=(100, 100)).astype(np.float16)
    wide = describe(pack(model_of(tensor("w", halves.astype(np.float32)))))[0]
    assert wide.bits < 16


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(2, 8), st.floats(0, 1), st.integers(1, 40), st.integers(1, 40))
def test_quantized_weights_survive(seed: int, bits: int, sparsity: float, rows: int, columns: int) -> None:
    rng = np.random.default_rng(seed)
    limit = 2 ** (bits - 1) - 1
    values = np.clip(rng.laplace(0, limit / 4 + 0.5, (rows, columns, 3)).round(), -limit, limit)
    values[rng.random(values.shape) < sparsity] = 0
    model = model_of(tensor("q", values.astype(np.int8)))
    assert unpack(pack(model)) == model


def test_pruning_leaves_a_hole_around_zero_and_pays_only_for_what_is_left() -> None:
    """Within 3 % of the entropy of the kept values and of the mask."""
    rng = np.random.default_rng(0)
    values = rng.normal(0, 30, (64, 512)).round().clip(-127, 127)
    values[np.abs(values) < 25] = 0
    counts = np.unique(values, return_counts=True)[1] / values.size
    entropy = -(counts * np.log2(counts)).sum()
    assert describe(pack(model_of(tensor("q", values.astype(np.int8)))))[0].bits < 1.03 * entropy


def test_the_spread_of_channels_is_used() -> None:
    """Rows and columns of different spread cost less than their joint zero-order entropy."""
    rng = np.random.default_rng(0)
    spread = np.geomspace(1, 30, 64)[:, None] * np.geomspace(0.3, 1, 64)
    values = rng.normal(0, spread, (64, 64)).round().clip(-127, 127).astype(np.int8)
    counts = np.unique(values, return_counts=True)[1] / values.size
    entropy = -(counts * np.log2(counts)).sum()
    assert describe(pack(model_of(tensor("q", values))))[0].bits < entropy - 0.2


def test_real_models_survive(data_dir: Path) -> None:
    model = (data_dir / "models" / "resnet20_cifar10.onnx").read_bytes()
    packed = pack(model)
    assert unpack(packed) == model
    assert len(packed) < len(zstandard.compress(model, 19))


def test_files_are_packed_and_unpacked(tmp_path: Path) -> None:
    source, packed, back = tmp_path / "model.onnx", tmp_path / "model.packed", tmp_path / "back.onnx"
    source.write_bytes(varied_model())
    pack_file(source, packed)
    unpack_file(packed, back)
    assert back.read_bytes() == source.read_bytes()
    onnx.load(back)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"absent.onnx does not exist"):
        pack_file(tmp_path / "absent.onnx", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("data", [b"", b"hello", b"\x00" * 40, b"PK\x03\x04" + b"\x55" * 60])
def test_what_is_no_model_is_refused(data: bytes) -> None:
    with pytest.raises(ModelError, match=r"not an ONNX model|not a valid ONNX protobuf"):
        pack(data)


def test_a_cut_model_is_refused() -> None:
    model = varied_model()
    with pytest.raises(ModelError, match=r"not a valid ONNX protobuf"):
        pack(model[: len(model) // 2])


def in_field(tag: int, content: bytes) -> bytes:
    """A protobuf field of bytes."""
    size, length = len(content), bytearray()
    while size >= 0x80:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([tag, *length, size]) + content


@pytest.mark.parametrize("apart", [False, True])
def test_a_tensor_of_thousands_of_dimensions_is_refused_at_once(apart: bool) -> None:
    """The product of all of them was asked for with each of its payloads."""
    dims = b"\x08\x01" * 4000 if apart else in_field(0x0A, b"\x01" * 4000)
    tensor_bytes = b"\x10\x01" + dims + b"\x4a\x00" * 4000
    with pytest.raises(ModelError, match="more than 64 dimensions"):
        pack(in_field(0x3A, in_field(0x2A, tensor_bytes)))


def test_the_dimensions_of_a_tensor_are_multiplied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not for each of its payloads, of which a hostile file has millions."""
    products: list[int] = []
    prod = math.prod
    monkeypatch.setattr(math, "prod", lambda numbers: products.append(len(numbers)) or prod(numbers))
    dims = in_field(0x0A, b"\xff\xff\xff\x7f" * 64)
    walked = in_field(0x3A, in_field(0x2A, b"\x10\x01" + dims + b"\x4a\x00" * 4000))
    assert wire.spans_of_model(walked) == []
    assert products == [64]


def test_of_very_many_tensors_the_last_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "_MOST_TENSORS", 3)
    model = varied_model()
    packed = pack(model)
    assert unpack(packed) == model
    assert len(describe(packed)) == 3


def test_a_model_that_packs_to_nothing_is_left_to_zstd() -> None:
    with pytest.raises(OutputError, match=r"ship it as .onnx"):
        pack(model_of(tensor("z", np.zeros(5 << 20, np.float32))))


def test_importing_is_light() -> None:
    code = "import sys, tensmith.backend.packed; print('onnx' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_a_large_tensors_sample_holds_all_taps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stride that divides the taps would only see one: weights in the middle of kernels are larger."""
    weights = np.random.default_rng(0).laplace(0, 1.2, (512, 512, 3, 3))
    weights[:, :, 1, 1] *= 8
    values, shape = np.clip(np.rint(weights), -127, 127).astype(np.int64).ravel(), weights.shape
    assert values.size // scaled._SAMPLE == 9
    sampled = scaled.encode(values, shape).bits
    monkeypatch.setattr(scaled, "_SAMPLE", values.size)
    assert sampled < 1.002 * scaled.encode(values, shape).bits


def test_halves_are_put_together_in_16_bits() -> None:
    """All planes of any float were of 64 bits, and so was what is made of them."""
    values = np.random.default_rng(0).normal(size=1 << 18).astype(np.float16)
    packed = pack(model_of(tensor("w", values)))
    assert codecs_of(packed) == {"w": "planes"}
    assert peak_of(lambda: unpack(packed, compiled=False)) < 8 * values.nbytes + (4 << 20)
