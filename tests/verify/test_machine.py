"""What a certificate says of the machine is so when it is written, not when the process began."""

from __future__ import annotations

from pathlib import Path

import pytest

from own_cache import own_cache
from tensmith.kernel import ConvolutionProblem, candidates, host_isa
from tensmith.kernel.timings import Timings
from tensmith.kernel.toolchain import has_compiler
from tensmith.verify.machine import other_toolchain, this_machine


@pytest.mark.skipif(not has_compiler(), reason="no C compiler is installed")
def test_what_is_timed_meanwhile_is_another_toolchain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_cache(tmp_path, monkeypatch)
    before = this_machine()
    assert other_toolchain(before) == ""
    problem = ConvolutionProblem(3, 8, 8, 4, (3, 3), pads=(1, 1, 1, 1))
    Timings().add(candidates(problem, host_isa())[-1], 0, 1e-9)
    assert other_toolchain(before) == "it was made with other timings of kernels"
    assert other_toolchain(this_machine()) == ""
