"""The roofline bends where it should."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensmith.hardware import OpCost, load_target, op_seconds
from tensmith.hardware.cost import DISPATCH_CYCLES

PI = load_target("raspberry-pi-5")
DISPATCH = DISPATCH_CYCLES / 2.4e9
AMOUNT = st.floats(0, 1e12)


def test_a_compute_bound_op_runs_at_the_peak() -> None:
    op = OpCost(macs=1e9, elementwise_ops=0, bytes_read=1e3, bytes_written=1e3)
    assert op_seconds(PI, op, threads=4) == pytest.approx(2e9 / 153.6e9 + DISPATCH)
    assert op_seconds(PI, op, threads=1) == pytest.approx(2e9 / (153.6e9 / 4) + DISPATCH)


def test_a_gpu_is_used_whole() -> None:
    t4, op = load_target("nvidia-t4"), OpCost(macs=1e9, elementwise_ops=0, bytes_read=1e3, bytes_written=1e3)
    assert op_seconds(t4, op) == op_seconds(t4, op, threads=40)
    assert op_seconds(t4, op) == pytest.approx(2e9 / 8.1e12 + DISPATCH_CYCLES / 1.59e9)


def test_a_memory_bound_op_runs_at_the_bandwidth() -> None:
    op = OpCost(macs=0, elementwise_ops=1e3, bytes_read=1e9, bytes_written=0.71e9)
    assert op_seconds(PI, op) == pytest.approx(0.1 + DISPATCH)


def test_narrow_numbers_are_faster_where_the_device_has_them() -> None:
    fp32, fp16, int8 = (
        op_seconds(PI, OpCost(1e9, 0, 0, 0, dtype)) - DISPATCH for dtype in ("fp32", "fp16", "int8")
    )
    assert (fp32 / fp16, fp32 / int8) == pytest.approx((2, 4))


@given(AMOUNT, AMOUNT, AMOUNT, AMOUNT, st.sampled_from([1, 2, 4, 8]))
def test_more_work_never_takes_less_time(
    macs: float, elementwise: float, read: float, written: float, threads: int
) -> None:
    less = op_seconds(PI, OpCost(macs, elementwise, read, written), threads)
    more = op_seconds(PI, OpCost(2 * macs, 2 * elementwise, 2 * read, 2 * written), threads)
    assert DISPATCH <= less <= more
