"""What is tested of engines is their real workers, each in an interpreter of its own."""

from __future__ import annotations

import pytest

from tensmith.children import Child
from tensmith.engine import module_worker, worker


@pytest.fixture(autouse=True)
def own_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "Child", Child)
    monkeypatch.setattr(module_worker, "Child", Child)
