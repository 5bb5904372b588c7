"""Networks in patches: the same answers to the bit in less memory, the cheapest that fit, or an error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from emulated import Device, needs_emulator
from test_native_quantized import Net, run

from command_line import refused, tensmith
from tensmith.backend.native.emit.source import distinct
from tensmith.backend.native.footprint import footprint
from tensmith.backend.native.patches import choices, fit, in_patches
from tensmith.backend.native.plan import make_plan
from tensmith.backend.native.prepare.codes import in_codes
from tensmith.backend.onnx import write_onnx
from tensmith.errors import EngineError
from tensmith.ir import Program, interpret
from tensmith.kernel import host_isa, isa_named
from tensmith.kernel.image import Image, Section
from tensmith.rewrite.exact.patches import shares
from tensmith.rewrite.trail import replay_exact, simplify

M4 = isa_named("cortex-m")


def head_and_tail(codes: bool) -> Program:
    """A head that is large in the middle, with a shortcut and a pool, and a small tail."""
    net = Net((1, 3, 32, 20))
    x = net.pair(net.add("relu", net.conv(net.pair("x", 2**-4, 113), 8, 3)), 2**-4, 0)
    y = net.pair(net.conv(x, 8, 8, group=8), 2**-3, 131)
    y = net.pair(net.add("relu", net.add("add", x, y)), 2**-3, 3)
    window = {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}
    y = net.pair(net.add("max_pool", y, **window), 2**-3, 3)
    y = net.pair(net.conv(y, 4, 8, strides=(2, 2)), 2**-2, 120)
    y = net.pair(net.conv(y, 4, 4, strides=(2, 2)), 2**-1, 120)
    program = net.program(net.add("flatten", y, axis=1))
    return simplify(in_codes(program) if codes else program).program


def sample(program: Program) -> np.ndarray:
    type_, random = program.inputs["x"], np.random.default_rng(2)
    if type_.dtype == "u8":
        return random.integers(0, 256, type_.static).astype(np.uint8)
    return (random.integers(-96, 96, type_.static) / 16).astype(np.float32)


def answer(program: Program, x: np.ndarray) -> np.ndarray:
    return interpret(program, {"x": x})[program.outputs[0]]


@pytest.mark.parametrize("codes", [False, True])
@pytest.mark.parametrize("pieces", [(4, 1), (2, 2), (3, 1)], ids=str)
def test_native_patches_are_right_to_the_bit(codes: bool, pieces: tuple[int, int], tmp_path: Path) -> None:
    program = head_and_tail(codes)
    found = choices(program, make_plan(program, host_isa()), 1 << 30)
    patching = max(found, key=lambda c: ((c.rows, c.columns) == pieces, c.layers))
    assert (patching.rows, patching.columns) == pieces
    x = sample(program)
    patched = in_patches(program, patching)
    assert replay_exact(program, patched.trail).digest == patched.program.digest
    plan = make_plan(patched.program, host_isa())
    assert plan.layout.windows, "patches are written where they belong"
    assert np.array_equal(run(plan, x, tmp_path / "net"), answer(program, x))


@needs_emulator
def test_a_device_with_less_memory_gives_the_same_answer_by_more_multiply_adds() -> None:
    program = head_and_tail(codes=True)
    whole = fit(program, M4, 1 << 20, None)
    assert whole.patching is None and whole.told == []
    found = fit(program, M4, whole.takes.ram - whole.takes.arena // 2, None)
    assert found.patching is not None and found.takes.arena < found.arena_before == whole.takes.arena
    assert found.patching.multiply_adds > found.patching.before
    assert f"-> {found.takes.arena:,} bytes" in found.told[0]
    assert found.image is not None
    x = sample(program)
    device = Device(found.plan, found.image, ram=-(-found.takes.ram // 4096) * 4096)
    (got,) = device.run(x=x).values()
    assert np.array_equal(got, answer(program, x))


def test_choices_rise_in_multiply_adds_and_shrink_the_arena() -> None:
    program = head_and_tail(codes=True)
    plan = make_plan(program, M4)
    found = choices(program, plan, 1 << 30)
    assert [c.multiply_adds for c in found] == sorted(c.multiply_adds for c in found)
    assert {c.layers for c in found} == {1, 2, 3, 4}
    assert len(choices(program, plan, 4000)) < len(found)
    some = next(c for c in found if (c.rows, c.columns) == (4, 1) and c.layers == 3)
    assert make_plan(in_patches(program, some).program, M4).arena_bytes < plan.arena_bytes / 2


def test_each_choice_is_one_and_says_how_many_patches_there_are() -> None:
    program = head_and_tail(codes=True)
    found = choices(program, make_plan(program, M4), 1 << 30)
    assert len({(c.value, c.rows, c.columns) for c in found}) == len(found)
    for choice in found:
        sizes = (program.type(choice.value).static or ())[2:]
        assert [len(shares(*axis)) for axis in zip(sizes, (choice.rows, choice.columns))] == [
            choice.rows,
            choice.columns,
        ]


def test_what_fits_in_no_patches_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    program = head_and_tail(codes=True)
    with pytest.raises(EngineError, match=r"more than 3,000; most.*; patches .* do not change that; make"):
        fit(program, M4, 3000, None)
    some = choices(program, make_plan(program, M4), 1 << 30)[-1:]
    monkeypatch.setattr("tensmith.backend.native.patches.choices", lambda *given: some)
    with pytest.raises(EngineError, match=r"more than 3,000; most.*; in patches it takes [\d,]+; make"):
        fit(program, M4, 3000, None)


def test_patches_with_less_code_are_taken_where_the_flash_asks_for_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def made(text: str, *given: object) -> Image:
        code = 1000 * text.count("\nstatic void ")
        return Image((Section(0, whole.weights.nbytes + code, b""),), (Section(0, arena(text), b""),), {}, 0)

    def arena(text: str) -> int:
        return int(text.rpartition("model_arena[")[2].partition("]")[0])

    program = head_and_tail(codes=True)
    whole = make_plan(program, M4)
    monkeypatch.setattr("tensmith.backend.native.patches.make_image", made)
    ram = footprint(whole, None).given + 5000  # 6 x 1 patches fit, and so do 1 x 6, which share more code
    free = fit(program, M4, ram, None)
    tight = fit(program, M4, ram, free.takes.flash - 1)
    assert distinct(tight.plan) < distinct(free.plan)
    assert tight.patching is not None and free.patching is not None
    assert tight.patching.multiply_adds >= free.patching.multiply_adds
    assert tight.takes.ram <= ram
    with pytest.raises(EngineError, match="of flash"):
        fit(program, M4, ram, fit(program, M4, 1 << 20, None).takes.flash - 1)


def test_what_cannot_be_cut_is_refused_as_ever() -> None:
    tail = Net((1, 3, 5, 5))
    flat = simplify(tail.program(tail.add("softmax", "x", axis=1))).program
    with pytest.raises(EngineError, match="do not change that"):
        fit(flat, M4, 100, None)


def test_codes_are_the_model_behind_its_quantization() -> None:
    net = Net((1, 3, 9, 11))
    y = net.pair(net.conv(net.pair("x", 2**-4, 113), 20, 3), 2**-3, 77)
    program = net.program(y)
    codes = in_codes(program)
    assert codes.inputs["x"].dtype == codes.type(codes.outputs[0]).dtype == "u8"
    x = sample(codes)
    number = (x.astype(np.float32) - 113) * np.float32(2**-4)
    assert np.array_equal((answer(codes, x).astype(np.float32) - 77) * 2**-3, answer(program, number))
    plain = Net((1, 3, 9, 11))
    with pytest.raises(EngineError, match="no input or output is quantized"):
        in_codes(plain.program(plain.conv("x", 4, 3)))


def test_outputs_whose_codes_are_given_already_stay_numbers() -> None:
    """Two outputs of the same codes, codes that are an output, an input that is, and codes on two grids."""
    net = Net((1, 3, 9, 11))
    y = net.pair(net.conv(net.pair("x", 2**-4, 113), 20, 3), 2**-3, 77)
    maker = net.nodes[-1]
    program = net.program(y, net.add("dequantize_linear", *maker.inputs))
    assert in_codes(program).outputs == (maker.inputs[0], program.outputs[1])
    for outputs in ((y, maker.inputs[0]), ("x", y)):
        codes = in_codes(net.program(*outputs))
        assert len(set(codes.outputs)) == 2 and codes.type(outputs[0]).dtype == "f32"
    other = net.add("dequantize_linear", maker.inputs[0], net.constant(np.float32(0.5)), maker.inputs[2])
    assert in_codes(net.program(other)).outputs == (other,)


def test_the_command_tells_patches_and_codes(tmp_path: Path) -> None:
    pytest.importorskip("ziglang", reason="no ziglang: pip install ziglang")
    program = head_and_tail(codes=False)
    write_onnx(replace(program, name="net"), tmp_path / "net.onnx")
    words = ("compile", "net.onnx", "--target", "microcontroller-cortex-m4")
    takes = json.loads(tensmith(*words, "--codes", "--output", "a", "--json", folder=tmp_path).stdout)
    assert takes["patches"] is None
    header = (tmp_path / "a" / "model.h").read_text()
    assert "input 0: x, uint8 [1, 3, 32, 20]: 0.0625 * (code - 113) */" in header
    assert "int model_run(const uint8_t *input_0" in header
    ram = str(takes["ram"] - takes["arena"] // 2)
    told = tensmith(*words, "--codes", "--ram", ram, "--output", "b", folder=tmp_path).stdout
    assert "by proved rules: the first" in told and f"arena {takes['arena']:,} ->" in told
    refused(tensmith("compile", "net.onnx", "--codes", folder=tmp_path), 2, "are for microcontrollers")
