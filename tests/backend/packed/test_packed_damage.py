"""Damaged, truncated and hostile packed files are refused with one sentence, and never give a wrong model."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import zstandard
from packed_damage import SECTIONS, forged, mutated, resealed, under_a_seal
from packed_memory import peak_of
from packed_samples import varied_model

from tensmith.backend.packed import container, pack, unpack
from tensmith.backend.packed.codec import CODECS, decode_tensor
from tensmith.backend.packed.elements import ELEMENT_TYPES, PackedSpec
from tensmith.backend.packed.rans import Decoder, encode
from tensmith.backend.packed.streams import StreamReader, number
from tensmith.errors import ModelError, TensmithError

MODEL = varied_model()


@functools.cache
def packed_model() -> bytes:
    """MODEL, packed once for the tests that run here, and for nobody who only collects them."""
    return pack(MODEL)


def refused_or_exact(packed: bytes) -> bool:
    """Whether it was refused; anything but our own error or the exact model fails the test."""
    try:
        assert unpack(packed) == MODEL
    except TensmithError as error:
        assert len(str(error)) > 30
        return True
    return False


def test_random_damage_is_always_noticed() -> None:
    rng = random.Random(1)
    whole = packed_model()
    damaged = [mutated(whole, rng) for _ in range(300)]
    assert all(refused_or_exact(item) for item in damaged if item != whole)


def test_damage_under_a_forged_check_sum_is_refused() -> None:
    rng = random.Random(2)
    for _ in range(150):
        refused_or_exact(under_a_seal(packed_model(), rng))


@pytest.mark.parametrize("section", SECTIONS)
def test_forged_sections_are_refused(section: str) -> None:
    rng = random.Random(section)
    for _ in range(40):
        refused_or_exact(forged(packed_model(), section, rng, len(MODEL)))


def test_a_spread_that_no_table_has_is_refused() -> None:
    assert refused_or_exact(forged(packed_model(), "parameters", random.Random(3134), len(MODEL)))


def test_mutated_models_pack_exactly_or_are_refused() -> None:
    rng = random.Random(3)
    for _ in range(12):
        mutant = mutated(MODEL, rng)
        try:
            assert unpack(pack(mutant)) == mutant
        except TensmithError as error:
            assert len(str(error)) > 30


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: b"", "not a packed tensmith model"),
        (lambda data: MODEL, "not a packed tensmith model"),
        (lambda data: data[:4], "damaged or cut short"),
        (lambda data: data[:-1], "damaged or cut short"),
        (lambda data: data + b"\0", "damaged or cut short"),
        (lambda data: resealed(data + b"\0"), "more bytes than"),
        (lambda data: data[:4] + b"\x02" + data[5:], "format version 2, .*the tensmith that wrote it"),
        (lambda data: data[:4] + b"\x04" + data[5:], "format version 4, .*upgrade"),
    ],
)
def test_the_reason_is_said(damage: Callable[[bytes], bytes], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        unpack(damage(packed_model()))


@pytest.mark.parametrize("size", [1 << 31, 1 << 40])
def test_a_claimed_size_must_be_justified(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    box = replace(container.read(packed_model(), len(MODEL)), model_size=size)
    with monkeypatch.context() as unchecked:
        unchecked.setattr(container, "_allowed", lambda size: 1 << 60)
        claiming = container.write(box)
    with pytest.raises(ModelError, match="allowed"):
        unpack(claiming)
    with pytest.raises(ModelError, match="no honest file does"):
        unpack(claiming, max_bytes=1 << 50)


@pytest.mark.parametrize(
    "sections",
    [
        {"skeleton": len(MODEL) + 1},
        {"parameters": 3 * len(MODEL) // 2, "plain": 3 * len(MODEL) // 2 + (1 << 16)},
    ],
)
def test_sections_share_what_a_model_of_the_claimed_size_may_take(
    sections: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    forged_box = replace(
        container.read(packed_model(), len(MODEL)), **{name: bytes(size) for name, size in sections.items()}
    )
    packed = container.write(forged_box)
    monkeypatch.setattr(container, "_decompress", lambda *stored: pytest.fail("nothing is decompressed"))
    with pytest.raises(ModelError, match="sections are larger than any"):
        unpack(packed)


def test_the_caller_may_set_the_limit() -> None:
    with pytest.raises(ModelError, match="allowed"):
        unpack(packed_model(), max_bytes=len(MODEL) - 1)


def test_a_wrong_model_hash_is_refused() -> None:
    box = replace(container.read(packed_model(), len(MODEL)), model_sha256=bytes(32))
    with pytest.raises(ModelError, match="does not unpack to the model it was made from"):
        unpack(container.write(box))


def test_what_is_claimed_is_not_allocated() -> None:
    method, stored = container._ZSTD, zstandard.compress(bytes(1000))
    assert container._decompress(method, stored, 1000) == bytes(1000)

    def claiming() -> None:
        with pytest.raises(ModelError, match="wrong size"):
            container._decompress(method, stored, 1 << 28)

    assert peak_of(claiming) < 4 << 20


def test_too_little_memory_is_not_called_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = packed_model()

    def full(*arguments: object, **options: object) -> None:
        raise MemoryError

    monkeypatch.setattr(container.zstandard, "ZstdDecompressor", full)
    monkeypatch.setattr(container.lzma, "LZMADecompressor", full)
    with pytest.raises(MemoryError):
        unpack(packed)


@pytest.mark.parametrize("tag", [item.tag for item in CODECS.values() if item.least_bits > 4])
def test_a_codec_of_wider_elements_is_refused(tag: int) -> None:
    parameters = number(tag) + number(1) * 8
    reader = StreamReader(parameters, bytes(64), Decoder(encode([], 1), 1))
    with pytest.raises(ModelError, match="packs none of them; the file is damaged"):
        decode_tensor(reader, PackedSpec(ELEMENT_TYPES[22], (8,)))


def test_too_few_lanes_are_refused() -> None:
    """One lane for millions of symbols would take minutes to read."""

    certain = np.array([[1 << 15]], np.int64)
    with pytest.raises(ModelError, match="too few lanes"):
        Decoder(encode([], 1), 1).read(np.zeros(1 << 20, np.uint8), certain)
