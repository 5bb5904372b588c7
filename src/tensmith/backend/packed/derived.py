"""Payloads that follow from others: copies, and vectors that are a scalar times another vector.

A quantized bias's scales are the input's scale times the weights' scales, channel by channel: half of all
scales in a QDQ model need not be stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensmith.backend.packed.elements import ELEMENT_TYPES, FLOAT, PackedSpec, Payload
from tensmith.backend.packed.streams import Cursor, number
from tensmith.errors import ModelError

_MIN_COPY = 16
_MIN_VECTOR, _MAX_VECTOR = 4, 1 << 16
# Each vector is compared with all others of its length: only the first so many are.
_MOST_COMPARED = 2000
_COPY = -1


@dataclass(frozen=True)
class Derivation:
    """Payload `target` equals payload `source`, times the float32 payload `factor` unless that is -1."""

    target: int
    source: int
    factor: int = _COPY


def find(specs: Sequence[PackedSpec], payloads: Sequence[Payload]) -> list[Derivation]:
    """In the order of targets; no source or factor is itself a target.

    What is not finite is no factor and no factor's vector: the bits of a NaN product differ by machine.
    """
    found = _copies(payloads)
    taken = {item.target for item in found}
    sources = {item.source for item in found}
    float32 = ELEMENT_TYPES[FLOAT]
    floats = [index for index, spec in enumerate(specs) if spec.type is float32 and index not in taken]
    scalars = [index for index in floats if specs[index].elements == 1 and _is_finite(payloads[index])]
    order = sorted(scalars, key=lambda index: float(_values(payloads[index])[0]))
    by_length: dict[int, list[int]] = {}
    for index in floats:
        by_length.setdefault(specs[index].elements, []).append(index)
    for length, members in by_length.items():
        if _MIN_VECTOR <= length <= _MAX_VECTOR:
            finite = [index for index in members[:_MOST_COMPARED] if _is_finite(payloads[index])]
            found += _products(finite, order, payloads, sources)
    return sorted(found, key=lambda item: item.target)


def _copies(payloads: Sequence[Payload]) -> list[Derivation]:
    first: dict[Payload, int] = {}
    found = []
    for index, payload in enumerate(payloads):
        if len(payload) >= _MIN_COPY and first.setdefault(payload, index) != index:
            found.append(Derivation(index, first[payload]))
    return found


def _products(
    members: list[int], scalars: list[int], payloads: Sequence[Payload], sources: set[int]
) -> list[Derivation]:
    """Products among vectors of one length; `scalars` ascend by value; `sources` may not become targets."""
    vectors = {index: _values(payloads[index]) for index in members}
    factors = np.array([_values(payloads[index])[0] for index in scalars], np.float64)
    targets: set[int] = set()
    found = []
    for target in members:
        if target in sources:
            continue
        with np.errstate(all="ignore"):
            ratios = np.array(
                [float(vectors[target][0]) / np.float64(vectors[index][0]) for index in members]
            )
        near = np.searchsorted(factors, ratios * (1 - 1e-6))
        for source, ratio, position in zip(members, ratios, near):
            usable = source != target and source not in targets and position < len(scalars)
            if not usable or not factors[position] <= ratio * (1 + 1e-6):
                continue
            derivation = Derivation(target, source, scalars[position])
            if _apply(derivation, payloads) == payloads[target]:
                found.append(derivation)
                targets.add(target)
                sources |= {source, scalars[position]}
                break
    return found


def write(derivations: Sequence[Derivation]) -> bytes:
    """Their count, then each: target relative to the last one, source relative to its target, factor."""
    out, last = [number(len(derivations))], 0
    for item in derivations:
        out += [number(item.target - last), number(item.source - item.target), number(item.factor)]
        last = item.target
    return b"".join(out)


def read(cursor: Cursor, specs: Sequence[PackedSpec]) -> list[Derivation]:
    """Inverse of `write`; ModelError for derivations that do not fit `specs` or depend on one another."""
    count, last = len(specs), 0
    found = []
    for _ in range(cursor.number(0, count)):
        target = last + cursor.number(0, count)
        source = target + cursor.number(-count, count)
        found.append(Derivation(target, source, cursor.number(_COPY, count - 1)))
        last = target
    targets = {item.target for item in found}
    for item in found:
        fits = 0 <= item.target < count and 0 <= item.source < count and len(targets) == len(found)
        if not fits or targets & {item.source, item.factor} or not _consistent(item, specs):
            raise ModelError(
                "the packed model derives a tensor from one that does not fit; the file is damaged"
            )
    return found


def _consistent(item: Derivation, specs: Sequence[PackedSpec]) -> bool:
    target, source = specs[item.target], specs[item.source]
    if item.factor == _COPY:
        return target.byte_length == source.byte_length
    factor = specs[item.factor]
    types = {target.type, source.type, factor.type}
    return types == {ELEMENT_TYPES[FLOAT]} and factor.elements == 1 and target.elements == source.elements


def apply(derivations: Sequence[Derivation], payloads: list[bytes]) -> None:
    """Fills in the targets' payloads from the others'."""
    for item in derivations:
        payloads[item.target] = bytes(_apply(item, payloads))


def _apply(item: Derivation, payloads: Sequence[Payload]) -> Payload:
    if item.factor == _COPY:
        return payloads[item.source]
    with np.errstate(all="ignore"):
        return (_values(payloads[item.source]) * _values(payloads[item.factor])).astype("<f4").tobytes()


def _is_finite(payload: Payload) -> bool:
    return bool(np.isfinite(_values(payload)).all())


def _values(payload: Payload) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.frombuffer(payload, "<f4")
