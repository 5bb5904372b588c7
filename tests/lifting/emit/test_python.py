"""Emitted Python against the meaning of the terms, target by target."""

from __future__ import annotations

import dataclasses
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
import samples

from lifting.summaries import KERNELS, evaluate
from lifting.tensorize.test_tensorize import SIZES, arguments
from tensmith.formula.arith import FUNCTIONS
from tensmith.formula.functions import ELEMENTARY, JOINS
from tensmith.formula.types import MachineType
from tensmith.ir.types import DTYPES
from tensmith.lifting.emit import EMITTERS
from tensmith.lifting.pipeline import lift_file
from tensmith.lifting.tensorize import tensorize

ROOT = Path(__file__).resolve().parents[3]
LIBRARIES = {"numpy": "numpy", "torch": "torch", "tensorflow": "tensorflow", "jax": "jax", "mlx": "mlx.core"}


def load(target: str, name: str) -> Any:
    """The emitted function of a kernel."""
    library = LIBRARIES[target]
    pytest.importorskip(library, reason=f"{library} is an extra and not installed")
    (text,) = EMITTERS[target].emit(tensorize(KERNELS[name])).files.values()
    space: dict[str, Any] = {}
    exec(compile(text, f"{target}/{name}.py", "exec"), space)
    return space[name]


def array(value: Any) -> np.ndarray:
    return np.asarray(value)


@pytest.mark.parametrize("target", LIBRARIES)
@pytest.mark.parametrize("name", KERNELS)
def test_emitted_functions_compute_what_the_terms_say(target, name):
    function, claim = load(target, name), KERNELS[name]
    for n, m, k in SIZES:
        if name == "greatest" and n == 0:
            continue
        given = arguments(claim, n, m, k)
        kept = {key: np.array(value) for key, value in given.items()}
        found = function(*given.values())
        expected = evaluate(claim, given)
        results = found if isinstance(found, tuple) else (found,)
        for (key, value), result in zip(expected.items(), results, strict=True):
            assert array(result).dtype == (value.dtype if key != "return" else np.int32)
            np.testing.assert_allclose(array(result).reshape(value.shape), value, rtol=2e-5, err_msg=key)
        for key, value in kept.items():
            np.testing.assert_array_equal(given[key], value, err_msg=f"{key} was changed")


@pytest.mark.parametrize("target", LIBRARIES)
@pytest.mark.parametrize("op", ELEMENTARY)
def test_functions_of_doubles_are_doubles(target, op):
    library = LIBRARIES[target]
    pytest.importorskip(library, reason=f"{library} is an extra and not installed")
    (text,) = EMITTERS[target].emit(samples.function_of(op, samples.F64)).files.values()
    space: dict[str, Any] = {}
    exec(compile(text, op, "exec"), space)
    x = np.concatenate((np.linspace(0.01, 40, 999), np.array([0.0, 1e-9, 709.5, 800, np.inf, np.nan])))
    x = x if op == "log" else np.concatenate((x, -x[:-5], [-0.0, -746, -800, -np.inf]))
    x = np.abs(x) if op == "sqrt" else x
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[op](x)
    error = (512 if op in ("sinh", "cosh", "atanh") else 8) * np.finfo(x.dtype).eps  # XLA's own
    found = array(space["function"](x, None, x.size))
    np.testing.assert_allclose(found, expected, rtol=error, atol=error if op == "cos" else 1e-307)


@pytest.mark.parametrize("target", LIBRARIES)
def test_numbers_in_lists_are_not_rounded(target):
    library = LIBRARIES[target]
    pytest.importorskip(library, reason=f"{library} is an extra and not installed")
    (text,) = EMITTERS[target].emit(samples.function_of("sqrt", samples.F64)).files.values()
    space: dict[str, Any] = {}
    exec(compile(text, "sqrt", "exec"), space)
    given = [0.1, 1e300, 3.0]
    np.testing.assert_allclose(array(space["function"](given, None, 3)), np.sqrt(given), rtol=2e-15)
    found = array(load(target, "vadd")([16777217.0, 2.0], [0, 0], None, 2))
    np.testing.assert_array_equal(found, [16777217, 2])


def of_source(target: str, folder: Path, text: str, suffix: str = "c") -> Any:
    """The emitted function `f` of a source."""
    library = LIBRARIES[target]
    pytest.importorskip(library, reason=f"{library} is an extra and not installed")
    pytest.importorskip("clang.cindex", reason="libclang is not installed")
    path = folder / f"f.{suffix}"
    path.write_text(text)
    (result,) = lift_file(path, targets=(target,), run=False)
    assert result.proved, result.reason
    space: dict[str, Any] = {}
    exec(compile(result.emitted[target]["f.py"], "f.py", "exec"), space)
    return space["f"]


@pytest.mark.parametrize("target", LIBRARIES)
def test_products_keep_the_type_of_the_source(target, tmp_path):
    text = "int f(int n, const int *a) { int p = 1; for (int i = 0; i < n; i++) p *= a[i]; return p; }"
    found = array(of_source(target, tmp_path, text)(3, np.array([2, -3, 5], "i4")))
    assert found.dtype == np.int32 and int(found) == -30


@pytest.mark.parametrize("target", LIBRARIES)
def test_positions_have_64_bits(target, tmp_path):
    text = "void f(int n, float *a) { for (long i = 0; i < n; i++) a[i] = i * i; }"
    found = array(of_source(target, tmp_path, text)(50_000, np.zeros(50_000, "f4")))
    assert found[-1] == np.float32(49_999**2) and found[2] == 4


def _ints(*numbers: int) -> Any:
    return np.array(numbers, "i4")


# A divisor in a branch, and divisors that another value decides are used: (source, arguments that divide,
# what comes of them, arguments that divide by 0, what is said).
DIVISORS = [
    (
        "void f(int n, int d, const int *k, const int *x, int *y) "
        "{ for (int i = 0; i < n; i++) y[i] = k[i] > 0 ? x[i] / d : 0; }",
        (3, _ints(1, 0), _ints(7, 9)), [2, 0], (0, _ints(1, 0), _ints(7, 9)), "f requires d != 0",
    ),
    (
        "void f(int n, const int *k, const int *x, const int *d, int *y) { for (int i = 0; i < n; i++) "
        "if (k[i] == 3) y[i] = 0; else y[i] = x[i] / d[i]; }",
        (_ints(3, 1), _ints(7, 9), _ints(0, 2)), [0, 4], (_ints(3, 1), _ints(7, 9), _ints(2, 0)),
        "f requires no element of d that is read is 0",
    ),
    (
        "void f(int n, int c, const int *x, const int *d, int *y) { for (int i = 0; i < n; i++) "
        "y[i] = 9 / d[0] + (c > 0 ? (i > 0 ? x[i] / d[i] : 0) : 0); }",
        (1, _ints(7, 9), _ints(3, 2)), [3, 7], (1, _ints(7, 9), _ints(3, 0)),
        "f requires no element of d that is read is 0",
    ),
]  # fmt: skip


@pytest.mark.parametrize("target", LIBRARIES)
@pytest.mark.parametrize(
    ("text", "good", "wanted", "bad", "says"), DIVISORS, ids=["branch", "other value", "positions"]
)
def test_divisors_that_a_branch_divides_by_are_checked(target, text, good, wanted, bad, says, tmp_path):
    function = of_source(target, tmp_path, text)
    np.testing.assert_array_equal(array(function(2, *good, None)), wanted)
    with pytest.raises(ValueError, match=says):
        function(2, *bad, None)


@pytest.mark.parametrize("target", LIBRARIES)
def test_infinity_is_divided(target, tmp_path):
    text = (
        "#include <math.h>\nvoid f(int n, const float *x, float *y) "
        "{ for (int i = 0; i < n; i++) y[i] = INFINITY / (x[i] + 1); }"
    )
    found = array(of_source(target, tmp_path, text)(2, np.array([1, -3], "f4"), None))
    np.testing.assert_array_equal(found, [np.inf, -np.inf])


@pytest.mark.parametrize("target", LIBRARIES)
@pytest.mark.parametrize("single", [True, False])
def test_remainders_of_floats_are_exact(target, single, tmp_path):
    real, f = ("float", "f") if single else ("double", "")
    text = (
        f"#include <math.h>\nvoid f(int n, const {real} *x, {real} *third, {real} *tenth) {{ "
        f"for (int i = 0; i < n; i++) {{ "
        f"third[i] = fmod{f}(x[i], 3.0{f}); tenth[i] = fmod{f}(x[i], -0.1{f}); }} }}"
    )
    rng, dtype = np.random.default_rng(0), np.float32 if single else np.float64
    x = (rng.standard_normal(500) * 10.0 ** rng.integers(-3, 9, 500)).astype(dtype)
    x[:3] = 1000000064, -1000000064, np.inf
    found = of_source(target, tmp_path, text)(500, x, None, None)
    for part, by in zip(found, (3, -0.1), strict=True):
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(array(part), np.fmod(x, dtype(by)))


@pytest.mark.parametrize("target", LIBRARIES)
def test_constants_may_be_any_unsigned_number(target, tmp_path):
    text = (
        "void f(int n, const unsigned *x, unsigned *y) { for (int i = 0; i < n; i++) "
        "y[i] = x[i] > 3000000000u ? 4294967295u : x[i] * 2654435761u; }"
    )
    found = array(of_source(target, tmp_path, text)(2, np.array([7, 3000000001], "u4"), None))
    np.testing.assert_array_equal(found, [7 * 2654435761 % 2**32, 4294967295])


def test_numpy_says_nothing_of_scalars_that_wrap(tmp_path):
    text = "unsigned char f(unsigned char a, unsigned char b) { return a + b; }"
    function = of_source("numpy", tmp_path, text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert int(function(250, 10)) == 4


@pytest.mark.parametrize("target", LIBRARIES)
def test_what_is_written_whole_may_be_none(target):
    function = load(target, "vadd")
    a, b = np.arange(4, dtype="i4"), np.ones(4, "i4")
    np.testing.assert_array_equal(array(function(a, b, None, 4)), [1, 2, 3, 4])
    assert array(function(a, b, None, -3)).shape == (0,)


@pytest.mark.parametrize("target", LIBRARIES)
def test_what_lies_behind_the_written_box_stays(target):
    out = np.full(6, 9, "i4")
    found = load(target, "vadd")(np.arange(4, dtype="i4"), np.ones(4, "i4"), out, 4)
    np.testing.assert_array_equal(array(found), [1, 2, 3, 4, 9, 9])


@pytest.mark.parametrize("target", LIBRARIES)
def test_unmet_requirements_are_named(target):
    with pytest.raises(ValueError, match="vadd requires elements of b >= n"):
        load(target, "vadd")(np.zeros(4, "i4"), np.zeros(3, "i4"), None, 4)
    with pytest.raises(ValueError, match="greatest requires n >= 1"):
        load(target, "greatest")(np.zeros(4, "i4"), 0)
    with pytest.raises(ValueError, match="quotient requires no element of b is 0"):
        load(target, "quotient")(np.ones(3, "i4"), np.array([1, 0, 2], "i4"), None, 3)


@pytest.mark.parametrize("target", LIBRARIES)
def test_lists_whose_elements_are_read_for_nothing_are_measured(target, tmp_path):
    text = "def f(p: list[int], k: int):\n n = 0\n for i in range(k):\n  p[i]\n  n += 1\n return n\n"
    found = of_source(target, tmp_path, text, "py")
    assert int(found([5, 7], 2)) == 2
    with pytest.raises(ValueError, match=r"requires len\(p\) >= k"):
        found([5, 7], 3)


def test_what_must_hold_is_said_before_what_then_holds():
    (text,) = EMITTERS["numpy"].emit(tensorize(KERNELS["vadd"])).files.values()
    assert text.index(b"Requires elements of b >= n.") < text.index(b"equal to the source's loops")


@pytest.mark.parametrize("target", LIBRARIES)
def test_values_that_the_source_cannot_hold_are_refused(target):
    function = load(target, "vadd")
    with pytest.raises(ValueError, match=r"a holds values that .*int32 does not"):
        function(np.array([0.5]), np.zeros(1, "i4"), None, 1)
    with pytest.raises(ValueError, match="n must be an integer of 32 bits"):
        function(np.zeros(1, "i4"), np.zeros(1, "i4"), None, 2**40)
    np.testing.assert_array_equal(array(function([1, 2], [3, 4], None, 2)), [4, 6])


@pytest.mark.parametrize("target", LIBRARIES)
def test_bytes_wrap_at_the_store_alone(target):
    every = np.arange(256, dtype="u1")
    base, active = (x.reshape(-1).copy() for x in np.meshgrid(every, every))
    wide = base.astype("i4"), active.astype("i4")
    found = load(target, "screen")(base, active, None, base.size)
    np.testing.assert_array_equal(array(found), (wide[0] + wide[1] - wide[0] * wide[1] // 255).astype("u1"))


SCALED = "void f(int n, float a, double b, const float *x, float *y) "
SCALED += "{ for (int i = 0; i < n; i++) y[i] = a > 0 ? x[i] * (float)(a + b) : x[i]; }"


@pytest.mark.parametrize("target", LIBRARIES)
def test_a_number_is_no_array(target, tmp_path):
    function, x = of_source(target, tmp_path, SCALED), np.ones(2, "f4")
    for a in (3, 3.0, np.float32(3), np.array(3.0)):
        np.testing.assert_array_equal(array(function(2, a, a, x, None)), [6, 6])
    for many in ([1.0, 2.0], np.array([3.0, 4.0]), np.array([2.0])):
        with pytest.raises(ValueError, match="f requires that a is one number"):
            function(2, many, 3.0, x, None)
        with pytest.raises(ValueError, match="f requires that b is one number"):
            function(2, 3.0, many, x, None)


def test_numbers_are_traced(tmp_path):
    function = of_source("jax", tmp_path, SCALED)
    import jax

    compiled = jax.jit(function, static_argnums=0)
    np.testing.assert_array_equal(compiled(2, 3.0, 1.0, np.ones(2, "f4"), None), [4, 4])
    gradient = jax.grad(lambda a: function(2, a, 1.0, np.ones(2, "f4"), None).sum())
    assert gradient(3.0) == 2


def test_jax_functions_run_under_jit():
    function = load("jax", "gemv")
    import jax

    matrix, vector = np.arange(6, dtype="f4"), np.ones(3, "f4")
    compiled = jax.jit(function, static_argnums=(3, 4))
    np.testing.assert_array_equal(compiled(matrix, vector, None, 2, 3), [3.0, 12.0])


def test_the_version_of_jax_that_64_bits_need_is_said_and_asked_for():
    (text,) = EMITTERS["jax"].emit(samples.in_place(samples.F64)).files.values()
    (asked,) = re.findall(r'"jax>=([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert "jax.enable_x64(True)" in text.decode() and f"JAX ({asked} or newer)" in text.decode()


def test_tensorflow_functions_run_in_graphs():
    function = load("tensorflow", "gemv")
    import tensorflow as tf

    graph = tf.function(lambda matrix, vector: function(matrix, vector, None, 2, 3))
    found = graph(tf.range(6, dtype=tf.float32), tf.ones(3))
    np.testing.assert_array_equal(found.numpy(), [3.0, 12.0])


@pytest.mark.parametrize("op", ["reduce_sum", "reduce_prod"])
def test_mlx_reduces_turned_arrays_of_no_elements_at_once(op):
    pytest.importorskip("mlx.core", reason="mlx is an extra and not installed")
    (text,) = EMITTERS["mlx"].emit(samples.over_columns(op)).files.values()
    space: dict[str, Any] = {}
    exec(compile(text, op, "exec"), space)
    found = array(space["columns"](np.zeros(0, "f4"), None, 0, 3))
    np.testing.assert_array_equal(found, np.full(3, 0 if op == "reduce_sum" else 1))


def test_torch_results_stay_on_the_device_of_their_inputs():
    function = load("torch", "gemv")
    import torch

    meta = function(torch.ones(6, device="meta"), torch.ones(3, device="meta"), None, 2, 3)
    assert meta.device.type == "meta"


def test_results_share_no_memory_with_inputs():
    given = np.arange(3, dtype="i4")
    edges = np.zeros(3, "i4")
    found = load("numpy", "edges")(given, edges, 3)
    assert not np.shares_memory(found, given) and not np.shares_memory(found, edges)


@pytest.mark.parametrize("target", LIBRARIES)
def test_a_flat_matrix_stays_flat(target):
    found = load(target, "matmul")(np.ones(6, "f4"), np.ones(12, "f4"), None, 2, 4, 3)
    np.testing.assert_array_equal(array(found), np.full(8, 3.0))


@pytest.mark.parametrize("target", LIBRARIES)
@pytest.mark.parametrize("name", ["len", "max", "sum"])
def test_a_function_may_have_the_name_of_a_builtin(target, name):
    claim = KERNELS["dot"]
    renamed = dataclasses.replace(claim, function=dataclasses.replace(claim.function, name=name))
    library = LIBRARIES[target]
    pytest.importorskip(library, reason=f"{library} is an extra and not installed")
    (text,) = EMITTERS[target].emit(tensorize(renamed)).files.values()
    space: dict[str, Any] = {}
    exec(compile(text, name, "exec"), space)
    assert int(array(space[name](np.arange(3, dtype="i4"), np.arange(3, dtype="i4"), 3))) == 5


@pytest.mark.parametrize("target", LIBRARIES)
@pytest.mark.parametrize("kind", JOINS)
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_running_values(target, kind, exclusive, reverse):
    """Of every element type, and of nothing."""
    library = LIBRARIES[target]
    pytest.importorskip(library, reason=f"{library} is an extra and not installed")
    for type_ in map(MachineType, ("u8", "i8", "i16", "u32", "i32", "i64", "f32", "f64")):
        lifted = samples.running(type_, f"cum_{kind}", exclusive, reverse)
        (text,) = EMITTERS[target].emit(lifted).files.values()
        space: dict[str, Any] = {}
        exec(compile(text, f"{target}/{type_}", "exec"), space)
        for x in ([], [3], [3, 1, 4, 1, 5, 9, 2, 6]):
            a = np.array(x, DTYPES[type_])
            found = array(space["running"](a, None, a.size))
            assert found.dtype == a.dtype
            np.testing.assert_array_equal(found, reference.run(lifted, {"a": a, "b": a, "n": a.size})["b"])
