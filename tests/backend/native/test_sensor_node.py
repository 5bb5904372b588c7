"""C for microcontrollers: right to the bit on an emulated one, within its memory, refused beyond it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import test_native_quantized as quantized
from emulated import Device, needs_emulator
from test_native_quantized import Net

from command_line import refused, tensmith
from tensmith.backend.native.emit.freestanding import FUNCTION, print_freestanding
from tensmith.backend.native.footprint import footprint
from tensmith.backend.native.patches import fit
from tensmith.backend.native.plan import NativePlan, make_plan
from tensmith.errors import EngineError, MissingExtra
from tensmith.ir import Program, interpret
from tensmith.kernel import host_isa, isa_named
from tensmith.kernel.image import Image, make_image

M4 = "microcontroller-cortex-m4"
FORMS = (quantized.residual, quantized.clipped_between_pairs, quantized.signed_bytes, quantized.classified)


def image_of(plan: NativePlan) -> Image:
    return make_image(print_freestanding(plan), plan.isa, FUNCTION)


def uneven(net: Net) -> str:
    """No scale is a power of two, so that every rounding counts."""
    x = net.pair(net.conv(net.pair("x", 0.0613, 113), 20, 3), 0.0519, 77)
    y = net.pair(net.conv(x, 20, 20), 0.117, 131)
    return net.pair(net.add("relu", net.add("add", x, y)), 0.0973, 3)


def made(form: Callable[[Net], str]) -> tuple[Program, np.ndarray]:
    net = Net((2, 3, 9, 11))
    program = net.program(form(net))
    return program, (np.random.default_rng(1).integers(-96, 96, net.shape) / 16).astype(np.float32)


@needs_emulator
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_an_emulated_device_is_right_to_the_bit(form: Callable[[Net], str]) -> None:
    program, x = made(form)
    plan = make_plan(program, isa_named("cortex-m"))
    (answer,) = Device(plan, image_of(plan)).run(x=x).values()
    assert np.array_equal(answer, interpret(program, {"x": x})[program.outputs[0]])


@needs_emulator
def test_an_emulated_device_rounds_as_the_host_does(tmp_path: Path) -> None:
    program, x = made(uneven)
    plan = make_plan(program, isa_named("cortex-m"))
    image = image_of(plan)
    device = Device(plan, image)
    (answer,) = device.run(x=x).values()
    if "fma" in host_isa().needs or host_isa().name == "neon":
        assert np.array_equal(answer, quantized.run(make_plan(program, host_isa()), x, tmp_path / "host"))
    assert 0 < device.stack <= image.stack
    assert footprint(plan, image).ram <= 64 << 10


@needs_emulator
def test_what_lies_beyond_the_memory_is_an_error() -> None:
    from unicorn import UcError

    program, x = made(quantized.residual)
    plan = make_plan(program, isa_named("cortex-m"))
    image = image_of(plan)
    assert image.ram_bytes > 4096
    with pytest.raises(UcError):
        Device(plan, replace(image, ram=()), ram=4096).run(x=x)


def test_an_error_says_how_much_is_missing_and_what_takes_it() -> None:
    plan = make_plan(made(quantized.residual)[0], isa_named("cortex-m"))
    takes = footprint(plan, None)
    over = f"{takes.ram - 1000:,} more than 1,000; most, .* is alive at step"
    with pytest.raises(EngineError, match=over):
        takes.require(1000, None, plan)
    with pytest.raises(EngineError, match="more than 500; the largest weights"):
        takes.require(1 << 20, 500, plan)
    takes.require(takes.ram, takes.flash, plan)
    net = Net((1, 64))
    alone = make_plan(net.program(net.add("relu", "x")), isa_named("cortex-m"))
    with pytest.raises(EngineError, match="more than 100; nothing of it is kept between steps; make"):
        footprint(alone, None).require(100, None, alone)


def test_what_needs_a_library_is_refused_by_name() -> None:
    pytest.importorskip("ziglang", reason="no ziglang: pip install ziglang")
    net = Net((1, 3, 5, 5))
    plan = make_plan(net.program(net.add("sin", "x")), isa_named("cortex-m"))
    with pytest.raises(EngineError, match="sinf"):
        image_of(plan)


def test_what_needs_a_library_is_refused_without_a_compiler_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> Image:
        raise MissingExtra("compiling kernels without a C compiler on this machine", "native")

    monkeypatch.setattr("tensmith.backend.native.patches.make_image", none)
    isa = isa_named("cortex-m")
    assert fit(made(quantized.residual)[0], isa, 1 << 20, None).image is None
    test_what_needs_a_library_is_refused_by_a_sentence()


def test_what_needs_a_library_is_refused_by_a_sentence() -> None:
    net = Net((1, 3, 5, 5))
    with pytest.raises(EngineError, match="needs sinf, and the device has no C library"):
        fit(net.program(net.add("sin", "x")), isa_named("cortex-m"), 1 << 20, None)


@needs_emulator
def test_square_roots_and_absolute_values_are_instructions() -> None:
    """As layers have them: of an element, of a row's variance, and where a sign is taken away."""
    net = Net((2, 3, 4, 5))
    root = net.add("sqrt", net.add("abs", "x"))
    scale, shift = net.constant(np.ones(5, np.float32)), net.constant(np.zeros(5, np.float32))
    program = net.program(net.add("layer_normalization", root, scale, shift, axis=-1, epsilon=1e-5))
    x = np.random.default_rng(0).standard_normal(net.shape).astype(np.float32)
    plan = make_plan(program, isa_named("cortex-m"))
    (answer,) = Device(plan, image_of(plan)).run(x=x).values()
    assert np.allclose(answer, interpret(program, {"x": x})[program.outputs[0]], atol=1e-5)
    infinite = Net((2, 3))
    program = infinite.program(infinite.add("isinf", "x", detect_negative=1, detect_positive=1))
    plan = make_plan(program, isa_named("cortex-m"))
    (found,) = Device(plan, image_of(plan)).run(x=np.array([[1, -np.inf, np.nan]] * 2, np.float32)).values()
    assert found.tolist() == [[False, True, False]] * 2


def test_a_folder_for_a_microcontroller(tiny: Path, tmp_path: Path) -> None:
    pytest.importorskip("ziglang", reason="no ziglang: pip install ziglang")
    words = ("compile", str(tiny / "tiny.onnx"), "--target", M4, "--json")
    document = json.loads(tensmith(*words, "--ram", "64KiB", "--flash", "256KiB", folder=tmp_path).stdout)
    assert document["ram"] == document["arena"] + document["given"] + document["stack"] <= 64 << 10
    assert document["flash"] == document["weights"] + document["code"] <= 256 << 10
    folder = tmp_path / f"tiny-{M4}"
    assert {path.name for path in folder.iterdir()} == {"model.c", "model.h"}
    header = (folder / "model.h").read_text()
    assert f"#define TENSMITH_ARENA_BYTES {document['arena']}\n" in header
    assert "int model_run(const float *input_0, float *output_0);" in header


def test_budgets_are_kept_and_are_for_microcontrollers(tiny: Path, tmp_path: Path) -> None:
    words = ("compile", str(tiny / "tiny.onnx"))
    refused(tensmith(*words, "--target", M4, "--ram", "100", folder=tmp_path), 1, "bytes of RAM")
    assert not any(tmp_path.iterdir())
    refused(tensmith(*words, "--ram", "64KiB", folder=tmp_path), 2, "are for microcontrollers")
    refused(tensmith(*words, "--target", M4, "--threads", "2", folder=tmp_path), 2, "runs one thread")
