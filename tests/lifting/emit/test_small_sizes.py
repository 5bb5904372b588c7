"""Sizes as numbers of types that do not hold them: they wrap in every target, as in the source."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from harness_targets import TARGETS

from tensmith.lifting.pipeline import lift_file

SOURCE = """
#include <cstdint>
#include <vector>
uint8_t small(const std::vector<uint8_t> &v) { uint8_t s = v.size(); for (auto x : v) s += x; return s; }
int8_t with_sign(const std::vector<int8_t> &v) { int8_t s = v.size(); for (auto x : v) s += x; return s; }
uint16_t middle(const std::vector<uint8_t> &v) { uint16_t s = v.size(); for (auto x : v) s += x; return s; }
"""

pytestmark = pytest.mark.xdist_group("traced")


@pytest.mark.parametrize("target", TARGETS)
def test_a_size_wraps_in_a_type_that_does_not_hold_it(target: str, tmp_path: Path) -> None:
    pytest.importorskip("clang.cindex", reason="libclang is not installed")
    path, kind = tmp_path / "sizes.cpp", TARGETS[target]
    path.write_text(SOURCE)
    results = lift_file(path, targets=(target,), output=tmp_path, run=False)
    kind.prepare([result.name for result in results], tmp_path)
    small, with_sign, middle = (kind(result.work.lifted, tmp_path) for result in results)
    for count in (0, 3, 127, 128, 300):
        assert small({"v": np.ones(count, np.uint8)})[0] == 2 * count % 256
        assert with_sign({"v": np.ones(count, np.int8)})[0] == (2 * count + 128) % 256 - 128
    assert middle({"v": np.ones(70000, np.uint8)})[0] == 140000 % 65536
