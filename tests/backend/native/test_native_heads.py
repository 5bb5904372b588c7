"""Attention and normalizations in the forms that exporters of today write them, each one step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from native_programs import Net, answers

from tensmith.backend.native.choose.choosers import estimated
from tensmith.backend.native.choose.precision import InPrecision
from tensmith.backend.native.emit.folder import write_folder
from tensmith.backend.native.emit.loader import Model
from tensmith.backend.native.plan import make_plan
from tensmith.ir import Program, interpret
from tensmith.kernel.isa import host_isa
from tensmith.kernel.routines.attention import AttentionRoutine
from tensmith.kernel.routines.rows import RowNorm
from tensmith.kernel.routines.strided import Strided

ROWS, SIZE, KEYS = 7, 20, 11


def _number(net: Net, value: float) -> str:
    return net.constant(values=np.array(value, np.float32))


def _scores(net: Net) -> str:
    """Products of the rows of x with keys that are computed, too; the last row sees no key."""
    keys = net.add("tanh", net.add("matmul", net.constant(KEYS, ROWS), "x"))
    scaled = net.add("mul", net.add("transpose", keys, perm=(0, 2, 1)), _number(net, 0.3))
    mask = np.where(np.tri(ROWS, KEYS, dtype=bool), 0, -np.inf).astype(np.float32)
    mask[-1] = -np.inf
    return net.add("add", net.add("matmul", "x", scaled), net.constant(values=mask))


def sheltered() -> Program:
    """where(isnan(softmax), 0, softmax), as scaled_dot_product_attention is exported."""
    net = Net(2, ROWS, SIZE)
    shares = net.add("softmax", _scores(net), axis=-1)
    kept = net.add("where", net.add("isnan", shares), _number(net, 0), shares)
    values = net.add("exp", net.add("matmul", net.constant(KEYS, ROWS), "x"))
    return net.program(net.add("matmul", kept, values))


def turned() -> Program:
    """Values by the transposed softmax, as networks on images write it."""
    net = Net(2, SIZE, KEYS)
    product = net.add("matmul", net.add("transpose", "x", perm=(0, 2, 1)), net.add("sin", "x"))
    shares = net.add("softmax", net.add("mul", product, _number(net, 0.2)), axis=-1)
    values = net.add("cos", "x")
    return net.program(net.add("matmul", values, net.add("transpose", shares, perm=(0, 2, 1))))


def grouped(rows: int, kept: bool) -> Program:
    """Four heads that share two of keys and values; the mask hides ever fewer columns from all but the first.

    kept: keys lie as caches do, by columns.
    """
    net = Net(1, 4, rows, SIZE)
    sizes = [(1, 1, 4 * rows, SIZE), (1, 2, 2, KEYS, SIZE), (1, 4, KEYS, SIZE), (2,)]
    flat, repeats, heads, axis = (net.constant(values=np.array(shape)) for shape in sizes)

    def shared(turned: bool) -> str:
        made = net.add("matmul", net.constant(2, KEYS, 4 * rows), net.add("reshape", "x", flat))
        part = net.add("tanh", net.add("mul", made, _number(net, 0.2)))
        if turned:
            part = net.add("cos", net.add("transpose", part, perm=(0, 1, 3, 2)))
            part = net.add("transpose", part, perm=(0, 1, 3, 2))
        return net.add("reshape", net.add("expand", net.add("unsqueeze", part, axis), repeats), heads)

    keys = net.add("transpose", shared(kept), perm=(0, 1, 3, 2))
    seen = np.arange(KEYS) <= 3 * np.arange(rows)[:, None]
    mask = net.constant(values=np.where(seen, 0, -np.inf).astype(np.float32))
    scores = net.add("add", net.add("matmul", "x", keys), mask)
    return net.program(net.add("matmul", net.add("softmax", scores, axis=-1), shared(False)))


@pytest.mark.parametrize("kept", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("rows", [1, 2, 13])
def test_heads_that_share_keys_read_them_once(rows: int, kept: bool, tmp_path: Path) -> None:
    program = grouped(rows, kept)
    actions = make_plan(program, host_isa()).actions
    (attention,) = (a.work for a in actions if isinstance(a.work, AttentionRoutine) and a.work.v)
    assert attention.k.view.size == (1 if rows == 1 else 2) * 2 * SIZE * KEYS
    assert attention.q.view.shape[:-1] == ((1, 2, 2) if rows == 1 else (1, 2, 2, rows))
    parts = [part for action in actions if isinstance(action.work, Strided) for part in action.work.parts]
    assert parts and max(part.target.size for part in parts) < 4 * KEYS * SIZE, "nothing is repeated"
    found, expected = answers(program, tmp_path)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=3e-5, atol=3e-5)


def plain(rows: int, keys: int, inner: int, size: int) -> Program:
    """Queries, keys and values of any sizes, keys as they are stored: by rows."""
    net = Net(3, rows, inner)
    made = [net.add("tanh", net.add("matmul", net.constant(keys, rows), "x")) for _ in range(2)]
    values = net.add("matmul", made[1], net.constant(inner, size))
    scores = net.add("matmul", "x", net.add("transpose", made[0], perm=(0, 2, 1)))
    return net.program(net.add("matmul", net.add("softmax", scores, axis=-1), values))


@pytest.mark.skipif(not host_isa().has_bfloat, reason="this CPU does not multiply bfloat16")
@pytest.mark.parametrize(
    "program",
    [
        grouped(13, False), grouped(13, True), turned(),
        plain(8, 1, 1, 1), plain(9, 2, 3, 5), plain(33, 50, 17, 40), plain(64, 64, 32, 32),
        plain(17, 31, 66, 16),
    ],
)  # fmt: skip
def test_attention_multiplies_bfloat16_where_that_is_allowed(program: Program, tmp_path: Path) -> None:
    """Whatever the sizes, strides and masks; to the precision of what it multiplies."""
    chooser = InPrecision(estimated, "bf16")
    actions = make_plan(program, host_isa(), chooser).actions
    works = [a.work for a in actions if isinstance(a.work, AttentionRoutine) and a.work.v]
    assert [work.bfloat for work in works] == [True]
    write_folder(make_plan(program, host_isa(), chooser), tmp_path / "narrow")
    x = np.random.default_rng(1).standard_normal(program.inputs["x"].static).astype(np.float32)
    found, expected = Model(tmp_path / "narrow")(x=x), interpret(program, {"x": x})
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, atol=0.03 * abs(array).max())


def _normal(inverse: Callable[[Net, str], str]) -> Program:
    net = Net(2, ROWS, SIZE)
    mean = net.add("reduce_mean", net.add("pow", "x", _number(net, 2)), net.constant(values=np.array([-1])))
    root = net.add("sqrt", net.add("add", mean, _number(net, 1e-6)))
    return net.program(net.add("mul", net.constant(SIZE), net.add("mul", "x", inverse(net, root))))


def over_one() -> Program:
    """x * (1 / root), as rsqrt is exported."""
    return _normal(lambda net, root: net.add("div", _number(net, 1), root))


def reciprocal() -> Program:
    """x * reciprocal(root)."""
    return _normal(lambda net, root: net.add("reciprocal", root))


@pytest.mark.parametrize(
    ("build", "routine"),
    [(sheltered, AttentionRoutine), (turned, AttentionRoutine), (over_one, RowNorm), (reciprocal, RowNorm)],
)
def test_is_found_and_answers_as_the_interpreter(
    build: Callable[[], Program], routine: type, tmp_path: Path
) -> None:
    program = build()
    works = [action.work for action in make_plan(program, host_isa()).actions]
    assert sum(isinstance(work, routine) and getattr(work, "v", True) is not None for work in works) == 1
    assert not any(type(work).__name__ in ("RowSoftmax", "RowSums") for work in works)
    with np.errstate(invalid="ignore"):
        found, expected = answers(program, tmp_path)
    for name, array in expected.items():
        # Values stay near 1, and no sum is of more than some twenty terms.
        np.testing.assert_allclose(found[name], array, rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("keys", [16, 21])
@pytest.mark.parametrize("heads", [(1, 1), (2, 1), (1, 3), (2, 3)])
def test_each_head_sees_what_its_own_mask_shows(heads: tuple[int, int], keys: int, tmp_path: Path) -> None:
    random, net = np.random.default_rng(0), Net(2, 3, keys, 8)
    hidden = random.random((*heads, keys, keys)) < 0.3
    for place in np.ndindex(heads):
        hidden[place][:, random.integers(1, keys) :] = True
    hidden[..., 0] = False
    mask = np.where(hidden, -np.inf, random.standard_normal(hidden.shape)).astype(np.float32)
    scores = net.add("matmul", "x", net.add("transpose", "x", perm=(0, 1, 3, 2)))
    shares = net.add("softmax", net.add("add", scores, net.constant(values=mask)), axis=-1)
    program = net.program(net.add("matmul", shares, "x"))
    found, expected = answers(program, tmp_path)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, atol=3e-6)
