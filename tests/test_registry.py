"""Tables that are filled when they are first read: whole, whoever reads them meanwhile."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from tensmith.registry import Registry

TABLE: Registry[int] = Registry("number", "numbers_of_test")
ENTERED, GO_ON = Event(), Event()


@pytest.fixture
def numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry[int]:
    """A table whose second module stops in its middle until it may go on, and reads the table itself."""
    package = tmp_path / "numbers_of_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("from test_registry import TABLE\nTABLE.add('one', 1)\n")
    (package / "b.py").write_text(
        "from test_registry import ENTERED, GO_ON, TABLE\n"
        "assert 'two' not in TABLE\nENTERED.set()\nGO_ON.wait(60)\nTABLE.add('two', 2)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "test_registry", sys.modules[__name__])
    return TABLE


def test_a_thread_that_reads_while_another_fills_waits_for_all(numbers: Registry[int]) -> None:
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(lambda: list(numbers))
        assert ENTERED.wait(60)
        second = pool.submit(lambda: numbers["two"])
        with pytest.raises(TimeoutError):
            second.result(0.2)
        GO_ON.set()
        assert (first.result(60), second.result(60)) == (["one", "two"], 2)
