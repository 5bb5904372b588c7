"""Every op that TensIR declares is compiled, or refused with an error that names the node."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from benchmarks.native.coverage import OperatorUse, coverage_page, uses

from tensmith.ir.op import OPS

pytestmark = pytest.mark.xdist_group("node_cases")  # see test_node_conformance
PAGE = Path(__file__).resolve().parents[2] / "docs" / "native_operators.md"


@pytest.fixture(scope="module")
def found() -> list[OperatorUse]:
    """A few uses of every op."""
    return list(uses())


def test_every_use_is_compiled_or_refused_by_name(found: list[OperatorUse]) -> None:
    refused = {use.op: use.refused for use in found}
    assert len(refused) > 130
    for use in found:
        reason = use.refused
        assert reason is None or any(name in reason for node in use.program.nodes for name in node.outputs)
    assert sum(reason is None for reason in refused.values()) > 120


def test_the_page_is_fresh(found: list[OperatorUse]) -> None:
    page = PAGE.read_text()
    if f"(onnx {onnx.__version__})" not in page:
        pytest.skip("docs/native_operators.md was made with another onnx package")
    assert page == coverage_page(found), "run `make docs`"


def test_every_op_has_a_row() -> None:
    rows = PAGE.read_text()
    assert all(f"| `{name}` |" in rows for name in OPS)
