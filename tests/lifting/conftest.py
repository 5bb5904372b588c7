"""Known gaps of lifting: what is wanted and not yet so. An entry leaves when its gap is closed."""

import pytest

GAPS: dict[str, str] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what is in the table; passing is no failure."""
    for item in items:
        for part, reason in GAPS.items():
            if part in item.nodeid and "tests/lifting/test_" in item.nodeid:
                item.add_marker(pytest.mark.xfail(reason=reason, strict=False))
