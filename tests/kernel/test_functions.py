"""exp, log and their relatives over C vectors, against double precision."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from math import erf

import numpy as np
import pytest
from kernel_runs import Array, copy, curve

from tensmith.hardware import detect_cpu
from tensmith.kernel import Isa, host_isa, isa_named
from tensmith.kernel.epilogue import Activation
from tensmith.kernel.toolchain import compile_library

EPS = float(np.finfo(np.float32).eps)
X = np.concatenate([np.linspace(-110, 100, 4001), np.linspace(-4, 4, 4000), [0.0, -0.0, 88.7, -87.3]])


def evaluate(call: str, x: Array, isa: Isa) -> Array:
    """The C expression of a vector x, over an array."""
    text = f"""{isa.prelude}
__attribute__((visibility("default"))) void run(const float *in, float *out, long n)
{{ for (long i = 0; i < n; i += {isa.lanes}) {{ vf x = load(in + i); store(out + i, {call}); }} }}
"""
    data = copy(np.resize(x.astype(np.float32), isa.round_up(len(x))))
    out = copy(np.zeros_like(data))
    run = ctypes.CDLL(str(compile_library(text, isa))).run
    run(ctypes.c_void_p(data.ctypes.data), ctypes.c_void_p(out.ctypes.data), ctypes.c_long(len(data)))
    return out[: len(x)]


@pytest.mark.parametrize("isa", [host_isa(), isa_named("generic")], ids=lambda isa: isa.name)
def test_exp_is_right_to_two_units(isa: Isa) -> None:
    x = X.astype(np.float32)
    with np.errstate(over="ignore"):
        expected = np.exp(x.astype(np.float64))
    found = evaluate("vexp(x)", x, isa).astype(np.float64)
    normal = (x > -87) & (x < 88.7)
    assert (abs(found / expected - 1)[normal] <= 2.5 * EPS).all()
    assert (found[x >= 89] == np.inf).all() and (abs(found - expected)[x <= -87] <= 1e-37).all()


@pytest.mark.parametrize("isa", [host_isa(), isa_named("generic")], ids=lambda isa: isa.name)
@pytest.mark.parametrize(("call", "meaning", "least", "bound"),
                         [("vlog(x)", np.log, 0, 2e-7), ("vlog1p(x)", np.log1p, -1, 5e-7)])  # fmt: skip
def test_logarithms_are_right_to_their_bounds(
    call: str, meaning: Callable[[Array], Array], least: int, bound: float, isa: Isa
) -> None:
    every = np.arange(1, 0x7F800000, 9973, dtype=np.uint32).view(np.float32)
    x = np.concatenate([every, -every[every < 1] if least else every, [1, np.float32(1) - EPS / 2, 1 + EPS]])
    expected = meaning(x.astype(np.float64))
    found = evaluate(call, x, isa).astype(np.float64)
    assert (abs(found - expected) <= bound * abs(expected) + 2e-45).all()
    ends = evaluate(call, np.array([least, np.inf, least - 1e-3, -np.inf, np.nan]), isa)
    assert ends[0] == -np.inf and ends[1] == np.inf and np.isnan(ends[2:]).all()


@pytest.mark.parametrize(
    "isa", [host_isa(), isa_named("avx2"), isa_named("generic")], ids=lambda isa: isa.name
)
def test_all_lanes_are_summed_and_compared(isa: Isa) -> None:
    if not isa.needs <= detect_cpu().features:
        pytest.skip("this CPU has no such instructions")
    for place in range(isa.lanes):
        x = np.arange(isa.lanes, dtype=np.float32) - 3
        x[place] = 99
        assert (evaluate("splat(sum_of(x))", x, isa) == x.sum()).all()
        assert (evaluate("splat(most_of(x))", x, isa) == 99).all()
        x[place] = np.nan
        assert np.isnan(evaluate("splat(most_of(x))", x, isa)).all()


@pytest.mark.parametrize(
    "isa", [host_isa(), isa_named("avx2"), isa_named("generic")], ids=lambda isa: isa.name
)
@pytest.mark.parametrize("step", [1, 2, 3])
def test_elements_apart_are_read_and_written_alone(step: int, isa: Isa) -> None:
    if not isa.needs <= detect_cpu().features:
        pytest.skip("this CPU has no such instructions")
    words = ("part(", "") if step == 1 else ("step(", f"{step}, ")
    lines = "".join(
        f"vf y{n} = load_{words[0]}in, {words[1]}{n}); store(out + {n * isa.lanes}, y{n}); "
        f"store_{words[0]}back + {n * step * isa.lanes}, y{n}, {words[1]}{n});\n"
        for n in range(1, isa.lanes + 1)
    )
    text = f"""{isa.prelude}
__attribute__((visibility("default"))) void run(const float *in, float *out, float *back) {{ {lines} }}
"""
    sizes = (step * isa.lanes, (isa.lanes + 1) * isa.lanes, (isa.lanes + 1) * step * isa.lanes)
    data, out, back = (copy(np.full(size, -1, np.float32)) for size in sizes)
    data[:] = np.arange(1, len(data) + 1)
    ctypes.CDLL(str(compile_library(text, isa))).run(
        *(ctypes.c_void_p(a.ctypes.data) for a in (data, out, back))
    )
    for count in range(1, isa.lanes + 1):
        wanted = np.zeros(isa.lanes, np.float32)
        wanted[:count] = data[: step * count : step]
        assert (out[count * isa.lanes :][: isa.lanes] == wanted).all()
        written = np.full(step * isa.lanes, -1, np.float32)
        written[: step * count : step] = data[: step * count : step]
        assert (back[count * step * isa.lanes :][: step * isa.lanes] == written).all()


@pytest.mark.parametrize("isa", [host_isa(), isa_named("generic")], ids=lambda isa: isa.name)
def test_nothing_is_read_behind_the_last_element(isa: Isa) -> None:
    """Elements that end where memory does: whoever reads further dies."""
    reads = "".join(
        f"keep(load_step(end - {step * (count - 1) + 1}, {step}, {count}));\n"
        f"keep(load_part(end - {count}, {count}));\n"
        for step in (1, 2, 3)
        for count in range(1, isa.lanes + 1)
    )
    text = f"""{isa.prelude}
static volatile float kept;
static void keep(vf x) {{ kept = sum_of(x); }}
__attribute__((visibility("default"))) void run(const float *end) {{ {reads} }}
"""
    memory = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    forbidden = ctypes.c_void_p(begin + mmap.PAGESIZE), ctypes.c_size_t(mmap.PAGESIZE)
    assert ctypes.CDLL(None).mprotect(*forbidden, 0) == 0
    ctypes.CDLL(str(compile_library(text, isa))).run(forbidden[0])
    assert ctypes.CDLL(None).mprotect(*forbidden, mmap.PROT_READ | mmap.PROT_WRITE) == 0


@pytest.mark.parametrize("isa", [host_isa(), isa_named("generic")], ids=lambda isa: isa.name)
def test_erf_is_right_to_its_bound(isa: Isa) -> None:
    x = np.concatenate([X, [np.inf, -np.inf]]).astype(np.float32)
    found = evaluate("verf(x)", x, isa)
    assert (abs(found - np.vectorize(erf)(x.astype(np.float64))) <= 2e-7 + 2 * EPS).all()
    ends = evaluate("verf(x)", np.array([4, 1e10, np.inf, -4, -1e10, -np.inf, 0, np.nan]), isa)
    np.testing.assert_array_equal(ends, [1, 1, 1, -1, -1, -1, 0, np.nan])


@pytest.mark.parametrize("isa", [host_isa(), isa_named("generic")], ids=lambda isa: isa.name)
def test_tanh_is_right_to_its_bound_near_zero_too(isa: Isa) -> None:
    small = np.geomspace(1e-37, 1, 4001)
    x = np.concatenate([X, small, -small, [0.6249999, 0.625, 0.6250001]]).astype(np.float32)
    expected = np.tanh(x.astype(np.float64))
    found = evaluate("vtanh(x)", x, isa)
    assert (abs(found - expected) <= 4e-7 * abs(expected)).all()
    ends = evaluate("vtanh(x)", np.array([np.inf, -np.inf, np.nan, -0.0]), isa)
    assert ends[0] == 1 and ends[1] == -1 and np.isnan(ends[2]) and np.signbit(ends[3])


@pytest.mark.parametrize(
    ("activation", "meaning", "slack"),
    [
        (curve("sigmoid"), lambda x: 1 / (1 + np.exp(-x)), 4 * EPS),
        (curve("tanh"), np.tanh, 4 * EPS),
        (curve("swish"), lambda x: x / (1 + np.exp(-x)), 4 * EPS),
        (curve("gelu"), lambda x: 0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2))), 4e-7),
        (curve("hard_sigmoid", alpha=0.2, beta=0.5), lambda x: np.clip(0.2 * x + 0.5, 0, 1), 2 * EPS),
    ],
    ids=lambda value: value.name if isinstance(value, Activation) else "",
)
def test_activations(activation: Activation, meaning: Callable[[Array], Array], slack: float) -> None:
    x = X.astype(np.float32)
    with np.errstate(over="ignore"):
        expected = meaning(x.astype(np.float64))
    found = evaluate(activation.apply("x"), x, host_isa())
    assert (abs(found - expected) <= slack * np.maximum(1, abs(x))).all()


@pytest.mark.parametrize("name", ["relu", "sigmoid", "tanh", "swish", "gelu", "hard_swish"])
def test_nan_stays_nan(name: str) -> None:
    assert np.isnan(evaluate(curve(name).apply("x"), np.full(16, np.nan), host_isa())).all()


def test_relu_and_clip_keep_infinities() -> None:
    x = np.array([np.inf, -np.inf] * 8)
    assert evaluate(curve("relu").apply("x"), x, host_isa()).tolist() == [np.inf, 0] * 8
    assert evaluate(curve("clip", -np.inf, 6.0).apply("x"), x, host_isa()).tolist() == [6, -np.inf] * 8
