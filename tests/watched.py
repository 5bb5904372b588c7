"""Data that tells who looks at it: what is held out is touched in `finalize` alone."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from tensmith import compression
from tensmith.data import Splits, Subset
from tensmith.data.dataset import Array, DatasetPart, Indices, Inputs
from tensmith.deploy.finalize import Finalized
from tensmith.request import Request


class Watch:
    """Watches the runs of this process from the fingerprint of their data to `finalize`.

    touched: samples that are held out and were read. seen: how often others were.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.touched: set[int] = set()
        self.seen = 0
        self._held_out: Subset | None = None
        read_request, fingerprint, finalize = (
            compression.read_request, Request.fingerprint, compression.finalize,
        )  # fmt: skip

        def reading(*given: Any) -> Request:
            request, parts = read_request(*given), {}

            def watched(view: Subset) -> Subset:
                part = parts.setdefault(id(view.part), WatchedPart(view.part, self))
                return Subset(part, view.indices)

            views = {field.name: watched(getattr(request.splits, field.name)) for field in fields(Splits)}
            return replace(request, splits=Splits(**views))

        def hashing(request: Request, *given: Any) -> str:
            found = fingerprint(request, *given)
            self._held_out = request.splits.held_out
            return found

        def finalizing(*given: Any) -> Finalized:
            self._held_out = None
            return finalize(*given)

        patch.setattr(compression, "read_request", reading)
        patch.setattr(Request, "fingerprint", hashing)
        patch.setattr(compression, "finalize", finalizing)

    def read(self, part: DatasetPart, indices: Indices) -> None:
        """Hears which samples of a part are read."""
        if self._held_out is not None:
            held_out = self._held_out.indices if self._held_out.part is part else []
            touched = np.intersect1d(indices, held_out)
            self.touched |= {*touched.tolist()}
            self.seen += len(indices) - len(touched)


class WatchedPart(DatasetPart):
    """Another part; `watch` hears what is read of it."""

    def __init__(self, part: DatasetPart, watch: Watch) -> None:
        self._part, self._watch, self.ragged = part, watch, part.ragged

    def __len__(self) -> int:
        return len(self._part)

    def inputs(self, indices: Indices) -> Inputs:
        self._watch.read(self, indices)
        return self._part.inputs(indices)

    def labels(self, indices: Indices) -> Array | None:
        return self._part.labels(indices)
