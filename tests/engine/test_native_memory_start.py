"""What a process needs to know which library is a model's is no part of what the model takes."""

from __future__ import annotations

import pytest

from tensmith.engine import ENGINES
from tensmith.engine.compiled import code_revision


@pytest.mark.parametrize("name", ["native", "mixed"])
def test_the_revision_of_code_is_known_before_a_model_is_loaded(name: str) -> None:
    if ENGINES[name].missing():
        pytest.skip("no C compiler is installed")
    code_revision.cache_clear()
    ENGINES[name].start()
    assert code_revision.cache_info().currsize == 1
