"""What the original answers to batches that come again and again, asked once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from tensmith.recovery.feed import Samples
from tensmith.recovery.meanings import Tensor
from tensmith.recovery.network import TorchNetwork

_KEPT_BYTES = 256 << 20


class KnownAnswers:
    """Of one network, for all that learn from it; kept as far as they fit."""

    def __init__(self, network: TorchNetwork) -> None:
        self._network = network
        self._kept: dict[tuple[int, int, int], list[list[Tensor]]] = {}  # by number, parts, samples of one
        self._bytes = 0

    def asked(self, parts: Iterable[Samples]) -> list[list[Tensor]]:
        """The answers to some samples at a time."""
        with torch.no_grad():
            return [self._network(part) for part in parts]

    def of(self, number: int, parts: Sequence[Samples]) -> list[list[Tensor]]:
        """The answers to the batch of that number, which came in such parts."""
        key = (number, len(parts), len(next(iter(parts[0].values()))))
        if found := self._kept.get(key):
            return found
        found = self.asked(parts)
        size = sum(each.nbytes for answers in found for each in answers)
        if self._bytes + size <= _KEPT_BYTES:
            self._kept[key] = found
            self._bytes += size
        return found

    @property
    def known(self) -> int:
        """To how many batches it knows the answers."""
        return len(self._kept)

    def share(self, batches: int) -> float:
        """Of so many batches, how many it will know once all were seen; 0 before the first."""
        if not self._kept:
            return 0.0
        return min(1.0, _KEPT_BYTES // max(1.0, self._bytes / len(self._kept)) / batches)
