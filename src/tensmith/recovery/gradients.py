"""Gradients of how far a network is from the original, in the form that is fastest here."""

from __future__ import annotations

import math
import time
from typing import Any

import torch

from tensmith.data.dataset import sample_count
from tensmith.errors import ProgramError
from tensmith.hardware import BF16_DOT, detect_cpu
from tensmith.recovery.distill import Tells, distillation, spreads
from tensmith.recovery.feed import Feed, Samples, parts_of
from tensmith.recovery.known import KnownAnswers
from tensmith.recovery.network import TorchNetwork

# What tells how long gradients take: so many, but for those that begin after this share of the course.
_TIMED_STEPS, _TIMING = 2, 0.05
# Products of bfloat16 are taken where they are so many times faster and the loss differs by no larger share.
_WORTH, _AS_GOOD = 1.15, 0.1


class Gradients:
    """Of a network that learns from another, batch by batch of a feed.

    tells: what the first output tells apart. threads: the most to use. at_once: how many samples of a batch
    go through it at a time. bfloat16: whether products are taken so.
    """

    def __init__(
        self, network: TorchNetwork, original: KnownAnswers, feed: Feed, tells: Tells, threads: int
    ) -> None:
        self._network, self._original, self._feed, self._tells = network, original, feed, tells
        self._threads = threads
        self.at_once, self.bfloat16 = feed.batch, False
        self._timed: tuple[float, float, int] | None = None

    def of(self, number: int) -> float:
        """Adds the gradients of the loss on the batch of that number, and gives it."""
        total, parts = 0.0, self._parts_of(number)
        device, bfloat16 = self._network.device, self.bfloat16
        known = self._original.of(number, parts)
        spread = spreads(known, self._tells)
        for part, wanted in zip(parts, known):
            with torch.autocast(device, torch.bfloat16, enabled=bfloat16):
                answers = self._network(part)
            answers = [_wide(each) for each in answers]
            loss = distillation(answers, wanted, spread, self._tells, sample_count(part)) / len(parts)
            loss.backward()
            total += float(loss.detach())
        return total

    def _parts_of(self, number: int) -> list[Samples]:
        """A batch in as many samples at a time as can be."""
        return list(parts_of(self._feed.at(number), self._network.program, self.at_once))

    def seconds(self, seconds: float = math.inf) -> tuple[float, float]:
        """What gradients take, in the form and on the threads that are fastest here, and what the original's
        answers take; nothing is learned. It is found once, in a small share of so many seconds if it can be.

        Several threads wait for one another after each op, which costs more than they give where ops are
        small, or others work too.
        """
        if self._timed is None:
            self._timed = self._fastest(time.monotonic() + _TIMING * seconds)
        learning, teaching, threads = self._timed
        torch.set_num_threads(threads)
        return learning, teaching

    def _fastest(self, until: float) -> tuple[float, float, int]:
        """Seconds of gradients, seconds of answers, threads: in bfloat16 if that is worth it."""
        self.bfloat16 = False
        best = self._times(until)
        if not _multiplies_bfloat16(self._network.device) or time.monotonic() > until:
            return best
        loss = self.of(0)
        self.bfloat16 = True
        narrow = self._times(until)
        near = abs(self.of(0) - loss) <= _AS_GOOD * loss
        self.bfloat16 = near and best[0] > _WORTH * narrow[0]
        return narrow if self.bfloat16 else best

    def _times(self, until: float) -> tuple[float, float, int]:
        """The same as things are, of as many threads as are tried by then."""
        self._fit()
        parts, found = self._parts_of(0), list[tuple[float, float, int]]()
        for threads in sorted({1, self._threads}, reverse=True):
            torch.set_num_threads(threads)
            for _ in range(_TIMED_STEPS):
                if not found or time.monotonic() < until:
                    began = time.monotonic()
                    self._original.asked(parts)
                    answered = time.monotonic()
                    self.of(0)
                    found.append((time.monotonic() - answered, answered - began, threads))
        return min(found)

    def _fit(self) -> None:
        """Takes as many samples at once as fit the device's memory from now on."""
        while True:
            try:
                self.of(0)
                return
            except torch.OutOfMemoryError as error:
                if self.at_once == 1:
                    raise ProgramError("not even one sample fits the device's memory") from error
                self.at_once //= 2


def _wide(value: Any) -> Any:
    return value.float() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _multiplies_bfloat16(device: str) -> bool:
    """Whether products of bfloat16 are instructions there; elsewhere they may take many times as long."""
    if device != "cpu":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return not BF16_DOT.isdisjoint(detect_cpu().features)
