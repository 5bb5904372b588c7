"""Damaged, truncated and hostile packed files are refused with one sentence, and never give a wrong model."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from packed_samples import varied_model

from tensmith.backend.packed import container, pack, unpack
from tensmith.backend.packed.rans import Decoder, encode
from tensmith.errors import ModelError, TensmithError

MODEL = varied_model()
PACKED = pack(MODEL)
HEAD = len(container.MAGIC) + 1 + 16


def resealed(packed: bytes) -> bytes:
    """With a check sum that fits, as a forger would write it."""
    return packed[: HEAD - 16] + hashlib.sha256(packed[HEAD:]).digest()[:16] + packed[HEAD:]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """One to four bytes changed, a piece cut out, a piece doubled, or the end lost."""
    out = bytearray(data)
    kind = rng.randrange(4)
    at, length = rng.randrange(len(out)), rng.randrange(1, 64)
    if kind == 0:
        for _ in range(rng.randrange(1, 5)):
            out[rng.randrange(len(out))] = rng.randrange(256)
    elif kind == 1:
        del out[at : at + length]
    elif kind == 2:
        out[at:at] = out[at : at + length]
    else:
        del out[at:]
    return bytes(out)


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
    damaged = [mutated(PACKED, rng) for _ in range(300)]
    assert all(refused_or_exact(item) for item in damaged if item != PACKED)


def test_damage_under_a_forged_check_sum_is_refused() -> None:
    rng = random.Random(2)
    for _ in range(150):
        refused_or_exact(resealed(PACKED[:HEAD] + mutated(PACKED[HEAD:], rng)))


@pytest.mark.parametrize("section", ["skeleton", "parameters", "plain", "symbols"])
def test_forged_sections_are_refused(section: str) -> None:
    """Mutants inside a decompressed section, recompressed and hashed anew, so that the decoders see them."""
    rng = random.Random(section)
    box = container.read(PACKED, len(MODEL))
    for _ in range(40):
        forged = replace(box, **{section: mutated(getattr(box, section), rng)})
        refused_or_exact(container.write(forged))


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
        (lambda data: data[:4] + b"\x02" + data[5:], "format version 2; .*upgrade tensmith"),
    ],
)
def test_the_reason_is_said(damage: Callable[[bytes], bytes], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        unpack(damage(PACKED))


def test_a_claimed_size_must_be_justified(monkeypatch: pytest.MonkeyPatch) -> None:
    box = replace(container.read(PACKED, len(MODEL)), model_size=1 << 40)
    with monkeypatch.context() as unchecked:
        unchecked.setattr(container, "_allowed", lambda size: 1 << 60)
        forged = container.write(box)
    with pytest.raises(ModelError, match="allowed"):
        unpack(forged)
    with pytest.raises(ModelError, match="no honest file does"):
        unpack(forged, max_bytes=1 << 50)


def test_the_caller_may_set_the_limit() -> None:
    with pytest.raises(ModelError, match="allowed"):
        unpack(PACKED, max_bytes=len(MODEL) - 1)


def test_a_wrong_model_hash_is_refused() -> None:
    box = replace(container.read(PACKED, len(MODEL)), model_sha256=bytes(32))
    with pytest.raises(ModelError, match="does not unpack to the model it was made from"):
        unpack(container.write(box))


def test_too_few_lanes_are_refused() -> None:
    """One lane for millions of symbols would take minutes to read."""

    certain = np.array([[1 << 15]], np.int64)
    with pytest.raises(ModelError, match="too few lanes"):
        Decoder(encode([], 1), 1).read(np.zeros(1 << 20, np.uint8), certain)
