"""One program run over several prime fields in step, with random functions of all residues together.

A function that is not arithmetic is a random function of the *number* it is given, that is of its residues
modulo all the primes: two different numbers are then taken for one only if all their residues agree, which
has about the product of the probabilities, not their sum. Fields run in threads that meet at every such call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier, BrokenBarrierError, Semaphore
from typing import Any

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array, PrimeField, scramble
from tensmith.formula.functions import EXTREMES, MIRRORED, POSITIVE
from tensmith.ir import Program
from tensmith.ir.interpreter import interpret

# Threads that compute at one time: the others wait, so that their temporaries do not add up.
_RUNNING = 2


class Meeting:
    """Where the threads of one run exchange arrays."""

    def __init__(self, parties: int) -> None:
        self._barrier = Barrier(parties)
        self._running = Semaphore(_RUNNING)
        self._slots: list[Any] = [None] * parties

    def exchange(self, place: int, payload: Array) -> list[Array]:
        """Everybody's arrays, in the order of places. ProgramError if their shapes differ."""
        self._slots[place] = payload
        self._running.release()
        try:
            self._barrier.wait()
            found = list(self._slots)
            self._barrier.wait()
        finally:
            self._running.acquire()
        if any(array.shape != payload.shape for array in found):
            raise ProgramError("a shape depends on the values of real numbers")
        return found

    def run(self, place: int, program: Program, inputs: Mapping[str, Array], field: PrimeField) -> Any:
        """One thread's part: the outputs; whoever fails lets the others go."""
        with self._running:
            try:
                return interpret(program, inputs, field)
            except BaseException:
                self._barrier.abort()
                raise


@dataclass(frozen=True)
class JointField(PrimeField):
    """A prime field whose random functions also read the residues of the other fields of a meeting."""

    place: int = 0
    meeting: Meeting | None = None

    def max(self, a: Array, axis: int | tuple[int, ...] | None, keepdims: bool = False) -> Array:
        """A random function of the set of elements."""
        over = tuple(range(a.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
        over = tuple(x % a.ndim for x in over)
        kept = tuple(x for x in range(a.ndim) if x not in over)
        rows = np.sort(a.transpose(*kept, *over).reshape(*(a.shape[x] for x in kept), -1), axis=-1)
        marks = self._hash("max", rows)
        marks[..., 1:][rows[..., 1:] == rows[..., :-1]] = 0
        result = self._shared("max", marks.sum(axis=-1, dtype=np.uint64))
        return np.expand_dims(result, over) if keepdims else result

    def call(self, function: str, *args: Array) -> Array:
        """A random function; maximum and minimum are symmetric, and the identity of equal numbers."""
        if function in EXTREMES:
            a, b = np.broadcast_arrays(*args)
            first, second = np.minimum(a, b), np.maximum(a, b)
            value = self._shared(function, self._hash(function, first, second))
            same = first == second
            return np.where(self._all(same), first, value) if self._any(same) else value
        return self._shared(function, self._hash(function, *args))

    def compare(self, relation: str, a: Array, b: Array) -> Array:
        """Random booleans, the same in every field; equality where all residues are equal."""
        if relation == "equal":
            return self._all(np.asarray(a == b))
        if relation in MIRRORED:
            relation, a, b = MIRRORED[relation], b, a
        return np.asarray(
            self._combined(f"{relation}/truth", self._hash(relation, a, b)) >> np.uint64(63) == 1
        )

    def _shared(self, function: str, own: Array) -> Array:
        """A residue that depends on everybody's hashes, by a key of this field's own."""
        mixed = self._combined(f"{function}/{self.p}", own)
        if function in POSITIVE:
            return np.asarray(mixed % np.uint64(self.p - 1)).astype(np.int64) + 1
        return np.asarray(mixed % np.uint64(self.p)).astype(np.int64)

    def _combined(self, key: str, own: Array) -> Array:
        """sum(j; odd multiplier_j * hash_j), finalised as splitmix64 does: all hashes into one."""
        assert self.meeting is not None
        state: Array = np.zeros(own.shape, dtype=np.uint64)
        for place, array in enumerate(self.meeting.exchange(self.place, own)):
            digest = hashlib.sha256(f"{self.seed}/{key}/{place}".encode()).digest()
            state += array * np.uint64(int.from_bytes(digest[:8], "little") | 1)
        return scramble(state)

    def _all(self, own: Array) -> Array:
        assert self.meeting is not None
        return np.asarray(np.logical_and.reduce(self.meeting.exchange(self.place, own)))

    def _any(self, own: Array) -> bool:
        """Whether anything is true in any field; the same answer in every thread."""
        assert self.meeting is not None
        flags = self.meeting.exchange(self.place, np.asarray(bool(own.any())))
        return any(map(bool, flags))


def interpret_jointly(
    program: Program, inputs: Sequence[Mapping[str, Array]], primes: Sequence[int], seed: int
) -> list[dict[str, Array]]:
    """The outputs modulo each prime; `inputs` are one mapping a prime. ProgramError as interpret has it."""
    meeting = Meeting(len(primes))
    len(program.facts)  # inferred once, before the threads read them
    with ThreadPoolExecutor(len(primes)) as pool:
        runs = [
            pool.submit(meeting.run, place, program, inputs[place], JointField(p, seed, place, meeting))
            for place, p in enumerate(primes)
        ]
        errors = [error for run in runs if (error := run.exception()) is not None]
    for error in errors:
        if not isinstance(error, BrokenBarrierError):
            raise error
    return [run.result() for run in runs]
