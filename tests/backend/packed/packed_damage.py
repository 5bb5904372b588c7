"""What may become of a packed file: damage by chance, damage under a check sum that fits, forged sections."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace

from tensmith.backend.packed import container

HEAD = len(container.MAGIC) + 1 + 16
SECTIONS = ("skeleton", "parameters", "plain", "symbols")


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


def under_a_seal(packed: bytes, rng: random.Random) -> bytes:
    """Damaged behind a check sum that was made anew."""
    return resealed(packed[:HEAD] + mutated(packed[HEAD:], rng))


def forged(packed: bytes, section: str, rng: random.Random, model_bytes: int) -> bytes:
    """Damaged inside a decompressed section, compressed and hashed anew, so that the decoders see it."""
    box = container.read(packed, model_bytes)
    return container.write(replace(box, **{section: mutated(getattr(box, section), rng)}))


def damaged(packed: bytes, rng: random.Random, model_bytes: int) -> bytes:
    """Damaged in one of these ways, most often where the decoders see it."""
    way = rng.choice((*SECTIONS, "parameters", "symbols", "seal", "chance"))
    if way == "chance":
        return mutated(packed, rng)
    return under_a_seal(packed, rng) if way == "seal" else forged(packed, way, rng, model_bytes)
