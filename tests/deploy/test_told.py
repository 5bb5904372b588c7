"""What a run says of its samples."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tensmith.compression import _tell_of
from tensmith.data import as_dataset, split
from tensmith.search.objective import Objective

SAID = "the search saw 800 samples of the part that points are judged on; 3,200 others are held out"


@pytest.mark.parametrize(
    ("samples", "told"),
    [({"train": 900, "test": 4000}, [SAID]), ({"train": 900, "test": 40}, []), ({"train": 900}, [])],
)
def test_a_search_on_test_samples_is_said(samples: dict[str, int], told: list[str]) -> None:
    parts = {name: (np.zeros((count, 1)), np.zeros(count, int)) for name, count in samples.items()}
    splits = split(as_dataset(parts))
    run: Any = SimpleNamespace(splits=splits, objective=Objective())
    finalized: Any = SimpleNamespace(
        held_out=len(splits.held_out), original={}, points=[], lost=[], busy=False
    )
    said: list[str] = []
    _tell_of(finalized, run, SimpleNamespace(tell=said.append))  # type: ignore[arg-type]
    assert said == told
