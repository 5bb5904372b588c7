"""Networks that may multiply in bfloat16: where it pays they do, and keep their bound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from native_programs import Net

from tensmith.backend.native.choose.choosers import estimated
from tensmith.backend.native.choose.precision import InPrecision, refusal
from tensmith.backend.native.emit.folder import write_folder
from tensmith.backend.native.emit.loader import Model
from tensmith.backend.native.emit.source import print_c
from tensmith.backend.native.plan import make_plan
from tensmith.ir import interpret
from tensmith.kernel import Kernel, host_isa, isa_named


@pytest.mark.skipif(not host_isa().has_bfloat, reason="this CPU does not multiply bfloat16")
def test_bfloat16_is_taken_where_it_pays_and_keeps_its_bound(tmp_path: Path) -> None:
    """A first layer of few channels, pointwise and depthwise ones, a residual and an activation behind."""
    net = Net(2, 64, 14, 15)
    wide = net.conv("x", 64, 128, 1)
    again = net.add("relu", net.add("add", net.conv(wide, 128, 64, 1), "x"))
    program = net.program(wide, again, net.conv(again, 64, 64, 3, group=64))
    plan = make_plan(program, host_isa(), InPrecision(estimated, "bf16"))
    kernels = [action.work for action in plan.kernels if isinstance(action.work, Kernel)]
    assert [kernel.problem.dtype for kernel in kernels] == ["bf16", "bf16", "f32"]
    assert kernels[2].name == "depthwise"
    write_folder(plan, tmp_path / "model")
    x = np.random.default_rng(1).standard_normal(net.shape).astype(np.float32)
    found, expected = Model(tmp_path / "model")(x=x), interpret(program, {"x": x})
    constants = {name: abs(array) for name, array in program.constants.items()}
    sizes = interpret(replace(program, constants=constants, _known={}), {"x": abs(x)})
    for name, values in expected.items():
        # Two layers, each within 2^-7 (1 + depth 2^-17) of its sizes; what is behind them adds none.
        assert np.all(abs(found[name] - values) <= 2 * 2.0**-6.9 * sizes[name])
    assert abs(found[wide] - expected[wide]).max() > 1e-4, "floats would be more exact"


def test_floats_are_what_is_taken_unless_asked() -> None:
    net = Net(1, 64, 14, 14)
    plan = make_plan(net.program(net.conv("x", 64, 64, 1)), isa_named("avx512", ["avx512_bf16"]))
    assert {action.work.problem.dtype for action in plan.kernels} == {"f32"}  # type: ignore[union-attr]


def test_code_needs_the_instructions_that_it_uses() -> None:
    every = ("avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")
    net = Net(1, 64, 14, 14)
    program, isa = net.program(net.conv("x", 64, 64, 1)), isa_named("avx512", every)
    for precision, used in (("f32", []), ("bf16", ["avx512_bf16", "amx_bf16"])):
        plan = make_plan(program, isa, InPrecision(estimated, precision))
        assert plan.isa == isa and plan.needed == isa_named("avx512", used)
        assert ("_tile_dpbf16ps(" in print_c(plan)) == bool(used)


def test_who_multiplies_what() -> None:
    assert refusal("f32", isa_named("generic")) is None
    assert refusal("bf16", isa_named("avx512", ["avx512_bf16"])) is None
    assert refusal("f16", isa_named("neon", ["fp16"])) is None
    assert "does not multiply bf16" in str(refusal("bf16", isa_named("avx2")))
