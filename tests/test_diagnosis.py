"""`tensmith diagnose`: where the time goes, and what graphs show that keeps them slow."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from command_line import refused, tensmith
from saved_models import saved_model
from tensmith import diagnosis
from tensmith.cli.diagnose import _compared, diagnose
from tensmith.diagnosis import Fixed, TimedStep, _of_program, _of_steps, largest_difference, write_fixed
from tensmith.engine.base import available
from tensmith.engine.engines.onnxruntime import _events
from tensmith.engine.profile import StepTime, mean_steps, profile
from tensmith.errors import OutputError
from tensmith.ir import Program, TensorType, make_node
from tensmith.rewrite.trail import simplify

WEIGHTS = np.random.default_rng(0).integers(-99, 99, (8, 8, 3, 3)).astype(np.int8)


def saved(path: Path, nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray], rows: int = 8) -> Path:
    """A model of x [1, 8, rows, rows] whose last node's output is y."""
    return saved_model(path, nodes, [1, 8, rows, rows], constants)


def coded(x: str, y: str, scale: str = "s", zero: str = "z") -> list[onnx.NodeProto]:
    """x onto a grid and back."""
    return [
        helper.make_node("QuantizeLinear", [x, scale, zero], [f"{y}_codes"]),
        helper.make_node("DequantizeLinear", [f"{y}_codes", scale, zero], [y]),
    ]


def test_operators_that_become_several_are_not_said_to_go() -> None:
    three = {name: TensorType("f32", (2, 2)) for name in "abc"}
    node = make_node("einsum", tuple("abc"), ("y",), {"equation": "ab,bc,ac->a"})
    program = Program("sums", three, ("y",), (node,), {})
    assert len(simplify(program).program.nodes) > 1
    assert not list(_of_program(program))


@pytest.mark.parametrize(("kind", "advice"), [("Transpose", "--fix"), ("ReorderOutput", "tensmith bench")])
def test_an_engines_own_layouts_are_not_to_be_mended_in_the_model(kind: str, advice: str) -> None:
    step = TimedStep(StepTime("t", kind, ("y",), 1e-3), 0.5, None)
    (found,) = _of_steps({"onnxruntime": [step]})
    assert found.share == 0.5 and found.advice.endswith(advice)


def test_operators_that_are_computed_by_formula_stand_out() -> None:
    step = TimedStep(StepTime("t", "computed (dtype f32)", ("y",), 1e-3), 0.97, None)
    (found,) = _of_steps({"native": [step]})
    assert found.what.startswith("97% of the time is spent on operators without a kernel of their own")


@pytest.fixture
def island(tmp_path: Path) -> Path:
    """A quantized convolution, a float function, and a layer with 8-bit weights alone."""
    nodes = [
        *coded("x", "a"),
        helper.make_node("DequantizeLinear", ["w", "s"], ["w1"]),
        helper.make_node("Conv", ["a", "w1"], ["b"], pads=[1, 1, 1, 1]),
        *coded("b", "c"),
        helper.make_node("Erf", ["c"], ["d"]),
        *coded("d", "e"),
        helper.make_node("Sin", ["e"], ["f"]),
        helper.make_node("Conv", ["f", "w1"], ["y"], pads=[1, 1, 1, 1]),
    ]
    constants = {"w": WEIGHTS, "s": np.float32(0.05).reshape(()), "z": np.uint8(128).reshape(())}
    return saved(tmp_path / "island.onnx", nodes, constants)


def test_every_engine_tells_its_steps_and_the_fix_answers_alike(tiny: Path, tmp_path: Path) -> None:
    done = tensmith(
        "diagnose", tiny / "tiny.onnx", "--seconds", "0.2", "--fix", "f.onnx", "--json", folder=tmp_path
    )
    document = json.loads(done.stdout)
    assert document["steps"].keys() == set(available()) and not document["untold"]
    for steps in document["steps"].values():
        assert sum(step["share"] for step in steps) == pytest.approx(1)
        assert any(step["peak_ms"] for step in steps)
    assert (
        document["fixed"]["apart"] < 1e-5 and document["fixed"]["speedup"].keys() == document["steps"].keys()
    )
    x = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)
    one, two = (
        onnxruntime.InferenceSession(p).run(None, {"x": x})[0]
        for p in (tiny / "tiny.onnx", tmp_path / "f.onnx")
    )
    np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


def test_islands_and_layers_with_coded_weights_alone_are_named(island: Path, tmp_path: Path) -> None:
    arguments = ("diagnose", island, "--engines", "onnxruntime", "--seconds", "0.2")
    findings = json.loads(tensmith(*arguments, "--json", folder=tmp_path).stdout)["findings"]
    where = {finding["what"].partition(" ")[2]: finding["where"] for finding in findings}
    assert next(names for what, names in where.items() if "compute in floats, so numbers" in what) == ["d"]
    assert next(names for what, names in where.items() if "8-bit weights and compute" in what) == ["y"]
    text = tensmith(*arguments, folder=tmp_path).stdout
    assert "What keeps it slow" in text and "tensmith compress" in text


def test_a_model_without_fault_is_said_to_be_so(tmp_path: Path) -> None:
    weights = {"w": WEIGHTS.astype(np.float32)}
    clean = saved(
        tmp_path / "c.onnx", [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], weights
    )
    arguments = ("diagnose", clean, "--engines", "onnxruntime", "--seconds", "0.2", "--json")
    findings = json.loads(tensmith(*arguments, folder=tmp_path).stdout)["findings"]
    assert not [finding for finding in findings if not finding["engine"]]


def test_what_native_has_no_kernel_for_is_said(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["n"]),
        helper.make_node("Size", ["n"], ["m"]),
        helper.make_node("Cast", ["m"], ["k"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "k"], ["y"]),
    ]
    model = saved(tmp_path / "n.onnx", nodes, {})
    arguments = ("diagnose", model, "--engines", "onnxruntime,native", "--seconds", "0.2", "--json")
    document = json.loads(tensmith(*arguments, folder=tmp_path).stdout)
    assert "native" in document["untold"]
    assert any("native engine does not take" in finding["what"] for finding in document["findings"])


def test_largest_difference_sees_what_differs(island: Path, tmp_path: Path) -> None:
    other = onnx.load(island)
    other.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.float32(0.06).reshape(()), "s"))
    onnx.save(other, tmp_path / "other.onnx")
    assert largest_difference(island, island) == 0
    assert largest_difference(island, tmp_path / "other.onnx") > 0.01
    other.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.float32(np.nan).reshape(()), "s"))
    onnx.save(other, tmp_path / "none.onnx")
    assert largest_difference(island, tmp_path / "none.onnx") == np.inf


def test_means_are_over_inferences_whatever_each_executed() -> None:
    one, two = (StepTime(name, "k", (), 1.0) for name in "ab")
    assert mean_steps([[one, two], [one]]) == [one, StepTime("b", "k", (), 0.5)]


def test_an_inference_that_outlasts_its_share_of_time_is_told(tiny: Path) -> None:
    x = {"x": np.zeros((1, 3, 8, 8), np.float32)}
    for engine in ("onnxruntime", "openvino"):
        if engine in available():
            assert sum(step.seconds for step in profile(engine, tiny / "tiny.onnx", 1, x, 0.0)) > 0, engine


def test_what_a_loop_runs_is_counted_once(tmp_path: Path) -> None:
    shape = [64, 64]
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["state", "w"], ["next"], name="inside"),
            helper.make_node("Identity", ["go"], ["goes"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, shape),
        ],
        [
            helper.make_tensor_value_info("goes", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, shape),
        ],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body, name="loop")], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.float32(0.01) * np.ones(shape, np.float32), "w"),
         numpy_helper.from_array(np.array(20), "n")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "loop.onnx")
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "p")
    session = onnxruntime.InferenceSession(tmp_path / "loop.onnx", options)
    session.run(None, {"x": np.ones(shape, np.float32)})
    written = Path(session.end_profiling())
    (steps,) = _events(written, {})
    spent = {name: sum(s.seconds for s in steps if s.name == name) for name in ("loop", "inside")}
    (whole,) = (e["dur"] / 1e6 for e in json.loads(written.read_text()) if e["name"] == "loop_kernel_time")
    assert 0 < spent["inside"] < whole and sum(s.seconds for s in steps) == pytest.approx(whole)
    assert spent["loop"] < whole - spent["inside"] / 2


def test_settings_of_one_engine_are_told_apart(tiny: Path, tmp_path: Path) -> None:
    both = ["onnxruntime", "onnxruntime:optimization=none"]
    arguments = ("diagnose", tiny / "tiny.onnx", "--engines", ",".join(both), "--seconds", "0.2")
    steps = json.loads(tensmith(*arguments, "--json", folder=tmp_path).stdout)["steps"]
    assert list(steps) == both
    kinds = [{step["kind"] for step in steps[name]} for name in both]
    assert "Relu" in kinds[1] - kinds[0]  # as written, and fused
    text = tensmith(*arguments, folder=tmp_path).stdout
    assert text.count(" steps: ") == 2 and text.count("Relu") > 0


def test_weights_beside_the_fix_are_not_written_over(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "f.onnx.data").touch()
    with pytest.raises(OutputError, match=r"f\.onnx\.data is there already; name another file"):
        diagnose(tiny / "tiny.onnx", fix=tmp_path / "f.onnx")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--seconds", "0"), 2, "positive"),
        (("--fix", "tiny.onnx"), 1, "is there already"),
        (("--engines", "no"), 2, "unknown engine"),
        (("--engines", ""), 2, "names no engine"),
    ],
)
def test_what_is_wrong_is_one_sentence(tiny: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    refused(tensmith("diagnose", "tiny.onnx", *arguments, folder=tiny), code, said)


def test_answers_that_no_difference_tells_apart_are_the_same_numbers() -> None:
    """And not the same bits: -0 and 0 are no way apart."""
    (said,) = _compared(Fixed(Path("simpler.onnx"), 2, 0.0, {}))
    assert said.endswith("answers to random inputs are the same numbers.")


def test_an_interrupt_says_what_was_written(
    island: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **more: object) -> object:
        raise KeyboardInterrupt

    found = diagnosis.diagnose(island, ["onnxruntime"], seconds=0.1)
    monkeypatch.setattr(diagnosis, "bench", interrupted)
    file = tmp_path / "simpler.onnx"
    with pytest.raises(KeyboardInterrupt, match=r"simpler\.onnx was written"):
        write_fixed(found, file)
    assert file.is_file()


def test_a_place_where_no_file_can_be_is_refused_before_all_measuring(tmp_path: Path) -> None:
    """The model is not there either, which is found out later."""
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="is no folder that can be written"):
        diagnose(tmp_path / "none.onnx", fix=tmp_path / "file" / "simpler.onnx")


def test_native_steps_have_names_that_can_be_printed(tmp_path: Path) -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])]
    model = saved(tmp_path / "c.onnx", nodes, {"w": WEIGHTS.astype(np.float32)})
    steps = profile("native", model, 1, {"x": np.zeros((1, 8, 8, 8), np.float32)}, 0.0)
    assert steps and all(step.name.isprintable() for step in steps)
