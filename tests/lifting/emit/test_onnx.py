"""Emitted ONNX models pass the checker in full and mean what the program means, in ONNX Runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import compiled
import numpy as np
import onnx
import onnxruntime
import pytest
import reference
import samples
from compiled import arguments
from samples import F32, F64, I8, I16, I32, I64, U8, Draft, flat, longer

from tensmith.formula.types import MachineType
from tensmith.lifting.emit import EMITTERS
from tensmith.lifting.lifted import Lifted, Output
from tensmith.lifting.loops import Array
from tensmith.lifting.pipeline import lift_file
from tensmith.lifting.refusal import Refusal

U16, U32, U64 = map(MachineType, ("u16", "u32", "u64"))
LINES = [{"n": n} for n in (0, 1, 2, 33, -3)]
GRIDS = [{"m": m, "n": n, "k": k} for m, n, k in ((0, 3, 2), (1, 1, 1), (3, 0, 5), (4, 5, 0), (7, 6, 5))]


def session(lifted: Lifted) -> onnxruntime.InferenceSession:
    """The model, checked and loaded."""
    content = EMITTERS["onnx"].emit(lifted).files[f"{lifted.function.name}.onnx"]
    model = onnx.load_from_string(content)
    onnx.checker.check_model(model, full_check=True)
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


def call(lifted: Lifted, loaded: onnxruntime.InferenceSession, arguments: dict[str, Any]) -> dict[str, Any]:
    """The outputs by name."""
    fields = lifted.function.fields
    assert [entry.name for entry in loaded.get_inputs()] == [name for name, _ in fields]
    given = {}
    for name, type_ in fields:
        element = type_ if isinstance(type_, MachineType) else type_.element
        given[name] = np.asarray(arguments[name], compiled.dtype_of(element))
    names = [entry.name for entry in loaded.get_outputs()]
    values = loaded.run(None, given)
    return {name.removeprefix("out_").replace("result", "return"): v for name, v in zip(names, values)}


def check(lifted: Lifted, cases: list[dict[str, int]], tolerance: float = 0.0, room: int = 64) -> None:
    loaded = session(lifted)
    rng = np.random.default_rng(3)
    for sizes in cases:
        given = arguments(rng, lifted, sizes, room)
        expected = reference.run(lifted, given)
        found = call(lifted, loaded, given)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert found[name].dtype == np.asarray(value).dtype
            np.testing.assert_allclose(found[name], value, tolerance, tolerance, err_msg=f"{name} {sizes}")


@pytest.mark.parametrize("type_", [I8, I16, I32, I64, U8, U16, U32, U64, F32, F64], ids=str)
@pytest.mark.parametrize("op", ["add", "mul", "max"])
def test_every_element_type_has_arithmetic(op: str, type_: MachineType) -> None:
    check(samples.narrow(op, type_), LINES, 1e-6 if type_.kind == "float" else 0)


@pytest.mark.parametrize("type_", [I8, U8, I16, U16, I32])
def test_narrow_integers_wrap(type_: MachineType) -> None:
    lifted = samples.narrow("mul", type_)
    info = np.iinfo(compiled.dtype_of(type_))
    a = np.array([info.min, info.max, 100, info.max], compiled.dtype_of(type_))
    given = {"a": a, "b": a[::-1].copy(), "c": a, "n": 4}
    np.testing.assert_array_equal(
        call(lifted, session(lifted), given)["c"], reference.run(lifted, given)["c"]
    )


@pytest.mark.parametrize(
    "lifted, tolerance",
    [
        (samples.dot(), 1e-5),
        (samples.dot(I32), 0),
        (samples.blend(), 0),
        (samples.in_place(), 1e-6),
        (samples.running(), 0),
        (samples.running(I16), 0),
        *((samples.running(type_, op, 1), 0) for op in ("cum_max", "cum_min") for type_ in (I8, F32)),
        *((samples.running(op=op, reverse=1), 0) for op in ("cum_prod", "cum_max", "cum_min")),
        (samples.picked(), 0),
        (samples.fill(), 0),
        (samples.joined(), 0),
    ],
    ids=lambda value: value.function.name if isinstance(value, Lifted) else "",
)
def test_vectors(lifted: Lifted, tolerance: float) -> None:
    cases = [case for case in LINES if case["n"] <= 32] if lifted.function.name == "joined" else LINES
    check(lifted, cases, tolerance)


@pytest.mark.parametrize(
    "lifted, tolerance",
    [
        (samples.stencil(), 1e-6),
        (samples.variance(), 1e-12),
        (samples.maximum(), 0),
        (samples.backwards(), 0),
    ],
    ids=lambda value: value.function.name if isinstance(value, Lifted) else "",
)
def test_vectors_that_may_not_be_empty(lifted: Lifted, tolerance: float) -> None:
    check(lifted, [{"n": n} for n in (2, 3, 40)], tolerance)


@pytest.mark.parametrize(
    "lifted",
    [samples.gemv(), samples.gemv(True), samples.softmax(), samples.columns(), samples.outer()]
    + [samples.gemm(t, a, b) for t in (F32, I32) for a in (False, True) for b in (False, True)],
    ids=lambda value: value.function.name,
)
def test_matrices(lifted: Lifted) -> None:
    check(lifted, GRIDS, 1e-5)


@pytest.mark.parametrize("type_", [F32, F64, U8, I32, U32, U64], ids=str)
@pytest.mark.parametrize("equation", ["mn,nk->km", "mnk,mk->nm", "mnk,n,km->mn", "m,n->", "mn,k,n->mk"])
def test_contractions_of_any_extents(equation: str, type_: MachineType) -> None:
    check(samples.contraction(equation, type_), GRIDS, 1e-5 if type_.kind == "float" else 0, room=256)


@pytest.mark.parametrize("equation", ["mnk,mkm->mnm", "mnk,kn->mnn", "n,nk->k", "mnk,k->mn", "k,mkn->mn"])
def test_products_of_any_extents(equation: str) -> None:
    check(samples.contraction(equation, op="matmul"), GRIDS, 1e-5, room=512)


@pytest.mark.parametrize("type_", [I16, I32, I64, U8, U16], ids=str)
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts(direction: str, type_: MachineType) -> None:
    d = Draft("shift", [("a", Array(type_)), ("c", Array(type_)), ("n", I32)], {"n": samples.N})
    a = d.view("a", flat("a", samples.N), type_)
    three = d.const(3, compiled.dtype_of(type_))
    d.requires += [longer("a", samples.N), longer("c", samples.N)]
    y = d.op("bit_shift", a, three, direction=direction)
    check(d.done(Output(y, type_, flat("c", samples.N), whole=True)), LINES)


@pytest.mark.parametrize("fmod", [0, 1])
@pytest.mark.parametrize("type_", [I8, I32, I64, F32, F64], ids=str)
def test_remainders(fmod: int, type_: MachineType) -> None:
    d = Draft("rest", [("a", Array(type_)), ("c", Array(type_)), ("n", I32)], {"n": samples.N})
    a = d.view("a", flat("a", samples.N), type_)
    d.requires += [longer("a", samples.N), longer("c", samples.N)]
    y = d.op("mod", a, d.const(-7, compiled.dtype_of(type_)), fmod=fmod)
    check(d.done(Output(y, type_, flat("c", samples.N), whole=True)), LINES, 1e-6)


@pytest.mark.parametrize("kind", ["signed char", "short", "unsigned short", "unsigned", "double"])
def test_what_a_branch_guards_is_read_in_every_type(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("clang.cindex", reason="libclang is not installed")
    path = tmp_path / "f.c"
    path.write_text(
        f"void f(int n, int s, const {kind} *x, {kind} *y) "
        "{ for (int i = 0; i < n; i++) { if (s > 0) y[i] = x[i]; else y[i] = 7; } }"
    )
    (result,) = lift_file(path, targets=(), run=False)
    assert result.work.lifted is not None, result.reason
    loaded = session(result.work.lifted)
    for s, x, wanted in ((1, [3, 4], [3, 4]), (0, [], [7, 7])):
        found = call(result.work.lifted, loaded, {"n": 2, "s": s, "x": x, "y": [0, 0]})
        np.testing.assert_array_equal(found["y"], wanted)


def test_requirements_are_stated_in_the_model() -> None:
    content = EMITTERS["onnx"].emit(samples.stencil()).files["stencil.onnx"]
    model = onnx.load_from_string(content)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert json.loads(metadata["tensmith.requires"]) == ["n >= 2", "len(a) >= s + 2", "len(b) >= s + 1"]
    assert "n >= 2" in model.doc_string
    assert "does not overflow" in metadata["tensmith.assumes"]


def test_what_has_no_kernel_is_refused() -> None:
    d = Draft("erf", [("a", Array(F64)), ("c", Array(F64)), ("n", I32)], {"n": samples.N})
    y = d.op("erf", d.view("a", flat("a", samples.N), F64))
    with pytest.raises(Refusal, match="no kernel for 'erf' on f64"):
        EMITTERS["onnx"].emit(d.done(Output(y, F64, flat("c", samples.N))))


def test_a_size_is_over_parameters_even_where_another_size_has_their_name() -> None:
    n, rest = samples.N, samples.Poly.symbol("rest")
    d = Draft("both", [("a", Array(I64)), ("b", Array(I64)), ("n", I32)], {"n": n, "rest": 5 - n})
    first = d.op("identity", d.positions("at", n))
    second = d.op("identity", d.positions("left", rest))
    d.requires += [longer("a", n), longer("b", rest)]
    lifted = d.done(Output(first, I64, flat("a", n)), Output(second, I64, flat("b", rest)))
    check(lifted, [{"n": n} for n in (-3, 0, 2, 9)])
