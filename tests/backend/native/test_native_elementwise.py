"""Every elementwise op compiles by its declared meaning: over vectors where all is float, else by number."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest
from native_programs import Array, Net, compile_folder

from tensmith.backend.native.emit.loader import Model
from tensmith.ir import OPS, interpret
from tensmith.ir.op import Op
from tensmith.ir.ops.elementwise import Elementwise

# Where a function is not defined on all of x.
WITHIN = {
    "acosh": (1, 4), "log": (0.1, 4), "sqrt": (0, 4), "acos": (-1, 1), "asin": (-1, 1), "atanh": (-0.9, 0.9),
}  # fmt: skip


def of_one_number(op: Op) -> bool:
    """Whether an op is a function of one real number."""
    if not isinstance(op, Elementwise) or not hasattr(op, "meaning") or op.result is not None:
        return False
    parameters = inspect.signature(op.meaning).parameters.values()
    return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD] == ["m", "x"]


# The bits of a number are those of a whole one.
FUNCTIONS = sorted(name for name, op in OPS.items() if of_one_number(op) and name != "bitwise_not")


def run(net: Net, outputs: list[str], folder: Path) -> tuple[dict[str, Array], dict[str, Array], str]:
    """What the compiled program gives, what the interpreter does, and the C."""
    program = net.program(*outputs)
    x = np.random.default_rng(2).uniform(-4, 4, net.shape).astype(np.float32)
    path = compile_folder(program, folder)
    text = "".join(file.read_text() for file in path.glob("*.c"))
    return Model(path)(x=x), interpret(program, {"x": x}), text


def test_every_function_of_one_number_is_computed_over_vectors(tmp_path: Path) -> None:
    assert {"celu", "gelu", "softplus", "mish", "round", "sinh", "shrink"} <= set(FUNCTIONS)
    net = Net(3, 37)
    outputs = []
    for name in FUNCTIONS:
        bounds = [net.constant(values=np.float32(bound)) for bound in WITHIN.get(name, (-4, 4))]
        outputs.append(net.add(name, net.add("clip", "x", *bounds)))
    found, expected, text = run(net, outputs, tmp_path)
    for name, output in zip(FUNCTIONS, outputs):
        scale = max(1, abs(expected[output]).max())
        np.testing.assert_allclose(found[output], expected[output], rtol=0, atol=2e-6 * scale, err_msg=name)
    assert "each element by its formula" not in text


def test_functions_of_several_numbers(tmp_path: Path) -> None:
    net = Net(3, 37)
    row, other = net.constant(37), net.constant(3, 1)
    square = net.constant(values=np.float32(2))
    outputs = [
        net.add("prelu", "x", row),
        net.add("mean", "x", row, other),
        net.add("max", "x", row, other),
        net.add("sum", "x", "x", row),
        net.add("pow", net.add("abs", "x"), net.add("pow", row, square)),
        net.add("swiglu", "x", row, alpha=1.5),
    ]
    found, expected, text = run(net, outputs, tmp_path)
    for output in outputs:
        np.testing.assert_allclose(found[output], expected[output], rtol=1e-5, atol=1e-5)
    assert "each element by its formula" not in text


def test_functions_of_images(tmp_path: Path) -> None:
    net = Net(1, 5, 6, 7)
    image = net.conv("x", 5, 18)
    slopes = net.constant(18, 1, 1)
    outputs = [
        net.conv(net.add(name, image), 18, 3) for name in ("elu", "softsign", "selu", "thresholded_relu")
    ]
    outputs.append(net.conv(net.add("prelu", image, slopes), 18, 3))
    found, expected, text = run(net, outputs, tmp_path)
    for output in outputs:
        np.testing.assert_allclose(found[output], expected[output], rtol=0, atol=1e-4)
    assert "void strided_" not in text
    assert "each element by its formula" not in text


@pytest.mark.parametrize("dtype", [1, 6, 7, 9])  # float32, int32, int64, bool
def test_activations_among_numbers(dtype: int, tmp_path: Path) -> None:
    net = Net(4, 21)
    whole = net.add("cast", net.add("hard_swish", net.add("gelu", "x")), to=dtype)
    found, expected, _ = run(net, [whole], tmp_path)
    differing = found[whole] != expected[whole] if dtype != 1 else abs(found[whole] - expected[whole]) > 1e-5
    assert not differing.any()


def test_integers_wrap_and_divide_as_declared(tmp_path: Path) -> None:
    net = Net(4, 21)
    a = net.add("cast", net.add("mul", "x", net.constant(values=np.float32(9))), to=6)
    b = net.constant(values=np.array([-7], np.int32))
    masks = [net.add(op, a, b) for op in ("less", "greater_or_equal", "equal")]
    outputs = [
        net.add("mod", a, b),
        net.add("div", a, b),
        net.add("bitwise_xor", a, b),
        net.add("where", net.add("or", net.add("and", *masks[:2]), net.add("not", masks[2])), a, b),
        net.add("xor", masks[0], masks[1]),
        net.add("max", net.add("abs", a), net.add("neg", a)),
    ]
    found, expected, _ = run(net, outputs, tmp_path)
    for output in outputs:
        np.testing.assert_array_equal(found[output], expected[output])


@pytest.mark.parametrize("divisor", [41, 4])
def test_quotients_that_are_whole_stay_whole(divisor: int, tmp_path: Path) -> None:
    """x (1 / 41) is less than 1 at 41."""
    net = Net(3, 37)
    whole = net.add("floor", net.add("div", "x", net.constant(values=np.float32(divisor))))
    x = divisor * np.arange(111, dtype=np.float32).reshape(net.shape)
    found = Model(compile_folder(net.program(whole), tmp_path))(x=x)
    np.testing.assert_array_equal(found[whole], x / divisor)


@pytest.mark.parametrize("where", ["vectors", "numbers", "images", "kernels"])
def test_products_are_rounded_before_anything_is_added(where: str, tmp_path: Path) -> None:
    """x * x - round(x * x) is 0, which it is not where compilers round the difference alone."""
    x = np.full((1, 3, 4, 5), 1.1, np.float32) if where in ("images", "kernels") else None
    x = np.random.default_rng(0).standard_normal((3, 37), np.float32) if x is None else x
    net = Net(*x.shape)
    value = net.conv("x", 3, 3, 1) if where == "kernels" else "x"
    net.constants |= {"c0": np.eye(3, dtype=np.float32).reshape(3, 3, 1, 1), "c1": np.zeros(3, np.float32)}
    square = net.constant(values=x * x if x.ndim == 2 else np.float32(x.flat[0] ** 2))
    found = net.add("sub", net.add("mul", value, value), square)
    if where == "numbers":
        zero = net.constant(values=np.float32(0))
        found = net.add("where", net.add("greater", "x", zero), found, net.add("neg", found))
    if where == "images":
        found = net.add("max_pool", found, kernel_shape=(1, 2))
    program = net.program(found)
    assert not Model(compile_folder(program, tmp_path))(x=x)[found].any()
