"""CUDA without a GPU: that the kernels compile is tested, that they run is not."""

from __future__ import annotations

import importlib.util

import pytest

from nets import pools, residual_block, sequences, squeeze_excite
from tensmith.backend.device.plan import make_plan
from tensmith.engine import ENGINES
from tensmith.engine.base import available
from tensmith.engine.engines.cuda import compile_ptx
from tensmith.errors import EngineError, MissingExtra

try:
    HAS_NVRTC = bool(compile_ptx("", "compute_75"))
except MissingExtra:
    HAS_NVRTC = False
needs_nvrtc = pytest.mark.skipif(not HAS_NVRTC, reason="NVRTC is not installed: pip install 'tensmith[cuda]'")


@needs_nvrtc
@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("build", [residual_block, pools, sequences, squeeze_excite])
def test_every_kernel_becomes_ptx(build, halves: bool) -> None:  # type: ignore[no-untyped-def]
    plan = make_plan(build(), halves)
    ptx = compile_ptx(plan.source, "compute_75").decode()
    for launch in plan.launches:
        assert f".entry {launch.kernel}(" in ptx
    assert ("cvt.f32.f16" in ptx) == halves
    assert ".f64" not in ptx  # a double among floats would be computed at a fraction of the speed
    assert ".local" not in ptx  # sums stay in registers


@needs_nvrtc
def test_what_the_compiler_refuses_is_one_sentence() -> None:
    with pytest.raises(EngineError, match=r"cuda cannot compile its kernels: .*nonsense") as caught:
        compile_ptx("KERNEL(32) broken(GLOBAL f32 *y) { nonsense; }", "compute_75")
    assert "\n" not in str(caught.value)


def test_it_is_used_where_it_is_asked_for() -> None:
    assert "cuda" not in available()


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert ENGINES["cuda"].missing() == "cuda-bindings is not installed: pip install 'tensmith[cuda]'"
    with pytest.raises(EngineError, match="cuda-bindings is not installed"):
        ENGINES["cuda"].start()
