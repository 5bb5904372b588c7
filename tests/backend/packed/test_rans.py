"""Symbols of few lanes, gone through one after the other, and of many, a step of all lanes at a time."""

from __future__ import annotations

import numpy as np
import pytest
from packed_memory import peak_of

from tensmith.backend.packed import rans
from tensmith.backend.packed.frequency import normalise
from tensmith.errors import ModelError


@pytest.mark.parametrize("lanes", [1, 4, 16, 32])
def test_both_ways_give_the_same_bytes_and_symbols(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    frequencies = normalise(random.integers(1, 2000, (5, 64)))
    contexts = random.integers(0, 5, 3001).astype(np.uint16)
    symbols = random.integers(0, 64, contexts.size)
    batches = [
        rans.batch_of(symbols[some], contexts[some], frequencies) for some in (slice(2001), slice(3001))
    ]
    streams = []
    for few in (0, lanes):
        monkeypatch.setattr(rans, "_FEW_LANES", few)
        streams.append(rans.encode(batches, lanes))
        decoder = rans.Decoder(streams[0], lanes)
        for batch in (slice(2001), slice(3001)):
            found = decoder.read(contexts[batch], frequencies)
            assert found.dtype == np.int16 and np.array_equal(found, symbols[batch])
        decoder.finish()
        short = rans.Decoder(streams[0][:-2], lanes)
        with pytest.raises(ModelError, match="end early"):
            for batch in (slice(2001), slice(3001)):
                short.read(contexts[batch], frequencies)
    assert streams[0] == streams[1]


def test_few_symbols_cost_the_same_however_many_words_follow() -> None:
    """All words that were left used to be turned into Python's integers, for each batch anew."""
    decoder = rans.Decoder(rans.encode([], 1) + bytes(2 << 20), 1)
    even, context = normalise(np.ones((1, 2), np.int64)), np.zeros(1, np.uint8)
    assert peak_of(lambda: decoder.read(context, even)) < 1 << 16


def test_words_are_not_copied() -> None:
    stream = rans.encode([], 64) + bytes(2 << 20)
    assert peak_of(lambda: rans.Decoder(stream, 64)) < 1 << 16


@pytest.mark.parametrize("lanes", [16, 60])
def test_reading_takes_little_more_than_the_symbols(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The 64-bit numbers of all symbols at once took 32 bytes of each."""
    monkeypatch.setattr(rans, "_SYMBOLS_PER_LANE", 1 << 20)
    even, contexts = normalise(np.ones((1, 2), np.int64)), np.zeros(1 << 19, np.uint8)
    symbols = np.random.default_rng(0).integers(0, 2, contexts.size)
    decoder = rans.Decoder(rans.encode([rans.batch_of(symbols, contexts, even)], lanes), lanes)
    found: list[rans.Shorts] = []
    assert peak_of(lambda: found.append(decoder.read(contexts, even))) < 16 * contexts.size
    assert np.array_equal(found[0], symbols)
    decoder.finish()
