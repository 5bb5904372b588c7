"""Tests that share something run in one process; see conftest."""

from __future__ import annotations

import pytest


def test_a_test_keeps_its_group(request: pytest.FixtureRequest) -> None:
    grouped = getattr(request.config.option, "loadgroup", False)
    kept = request.node.nodeid.endswith(f"@{__name__}")
    assert kept == grouped, "pytest-xdist lost its groups: take a pytest that pyproject.toml names"
