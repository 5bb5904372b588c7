"""Every node test of the ONNX standard whose operators tensmith claims passes; the page says which."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from benchmarks.trust.onnx_conformance import NodeTestResult, operators_page, run_all

from tensmith.ir.op import OPS

# Those that load the node tests run in one process: computing them takes seconds.
pytestmark = pytest.mark.xdist_group("node_cases")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "operators.md"


@pytest.fixture(scope="module")
def outcomes() -> list[NodeTestResult]:
    """The outcome of every node test."""
    return run_all()


# Refused by name: ONNX's own converter changes what it means.
REFUSED = {"test_scan_sum": "Scan of opset 8"}
# What the standard has for 0 is a rounding off it, by more than its own tolerance.
ROUNDED = {"test_dft_inverse_opset19": "1.9073486"}


def test_every_claimed_node_test_passes(outcomes: list[NodeTestResult]) -> None:
    failures = {outcome.case: outcome.failure for outcome in outcomes if outcome.failure}
    assert all(words in failures.pop(case) for case, words in (REFUSED | ROUNDED).items())
    assert failures == {}
    assert sum(outcome.claimed for outcome in outcomes) > 1000


def test_the_operators_page_is_fresh(outcomes: list[NodeTestResult]) -> None:
    page = PAGE.read_text()
    if f"(onnx {onnx.__version__}," not in page:
        pytest.skip("docs/operators.md was made with another onnx package")
    assert page == operators_page(outcomes), "run `make docs`"


def test_every_standard_op_is_checked_by_a_node_test(outcomes: list[NodeTestResult]) -> None:
    checked = {op for outcome in outcomes if outcome.claimed for op in outcome.ops}
    standard = {name for name, op in OPS.items() if op.onnx and op.domain == ""}
    assert standard - checked <= {"global_lp_pool"}  # ONNX has no node test of GlobalLpPool
