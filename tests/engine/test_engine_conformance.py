"""Every engine answers like the ONNX standard's own reference, and refuses like every other."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.reference
import pytest
from tiny_models import MODELS, conv_relu, cross_attention, matmul, open_image, product, scaled

from opencl_device import NO_OPENCL
from own_cache import own_cache
from tensmith.engine import ENGINES, SessionWorker
from tensmith.engine.base import PackageEngine
from tensmith.engine.sized import SizedSession
from tensmith.errors import EngineError, UsageError
from tensmith.evaluate.accuracy import as_model


def not_here(name: str) -> str:
    """Why an engine cannot be tested here; "" where it can. Of a package, Python says whether it is there."""
    engine = ENGINES[name]
    if isinstance(engine, PackageEngine) and importlib.util.find_spec(engine.module):
        return ""
    return NO_OPENCL if name == "opencl" else engine.missing() or ""


def grouped(name: str) -> Any:
    """An engine's tests run in one process, so that what it compiles is compiled once."""
    reason = not_here(name)
    skipped = pytest.mark.skipif(bool(reason), reason=reason)
    return pytest.param(name, marks=(pytest.mark.xdist_group(f"engine {name}"), skipped))


pytestmark = pytest.mark.parametrize("engine", [grouped(name) for name in ENGINES])


@pytest.fixture(autouse=True, scope="module")
def private_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What engines compile goes to a folder of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        own_cache(tmp_path_factory.mktemp("cache"), patch)
        yield


@pytest.fixture
def matmul_path(tmp_path: Path) -> Path:
    path = tmp_path / "matmul.onnx"
    onnx.save(matmul()[0], path)
    return path


@pytest.mark.parametrize("name", MODELS)
def test_answers_are_the_reference_s(engine: str, name: str, tmp_path: Path) -> None:
    model, inputs = MODELS[name]()
    path = tmp_path / f"{name}.onnx"
    onnx.save(model, path)
    expected = onnx.reference.ReferenceEvaluator(model).run(None, inputs)
    session = ENGINES[engine].prepare(path, 1)
    answers = session.run(inputs)
    assert [spec.name for spec in session.outputs] == list(answers)
    for answer, truth in zip(answers.values(), expected):
        # A sum of K products in float32 is off by at most about K * eps * sum of |products|.
        bound = 27 * np.finfo(np.float32).eps * 27 * 16
        np.testing.assert_allclose(answer, truth, rtol=0, atol=bound)
    session.close()


def test_any_batch_runs_where_the_batch_is_symbolic(engine: str, matmul_path: Path) -> None:
    session = ENGINES[engine].prepare(matmul_path, 1)
    x = np.random.default_rng(1).standard_normal((7, 16)).astype(np.float32)
    whole = session.run({"x": x})["logits"]
    single = [session.run({"x": x[i : i + 1]})["logits"][0] for i in range(7)]
    np.testing.assert_allclose(whole, single, rtol=0, atol=1e-5)


def test_an_open_first_axis_is_no_axis_of_samples(engine: str, tmp_path: Path) -> None:
    model, inputs = cross_attention()
    onnx.save(model, tmp_path / "cross.onnx")
    (expected,) = onnx.reference.ReferenceEvaluator(model).run(None, inputs)
    answers = as_model(ENGINES[engine].prepare(tmp_path / "cross.onnx", 1))(inputs)
    np.testing.assert_allclose(answers["y"], expected, rtol=0, atol=1e-5)


def test_scalars_are_each_sample_s(engine: str, tmp_path: Path) -> None:
    model, inputs = scaled()
    onnx.save(model, tmp_path / "scaled.onnx")
    session = ENGINES[engine].prepare(tmp_path / "scaled.onnx", 1)
    x = np.arange(80, dtype=np.float32).reshape(5, 16)
    for rows in (x[:2], x):
        np.testing.assert_array_equal(as_model(session)({**inputs, "x": rows})["y"], 2 * rows[:, ::-1])
    session.bind(inputs)()
    with SessionWorker(engine, tmp_path / "scaled.onnx") as worker:
        np.testing.assert_array_equal(worker.run(inputs)["y"], 2 * inputs["x"])


def test_sizes_that_nobody_gave_are_not_asked_for(engine: str, tmp_path: Path) -> None:
    model, inputs = open_image()
    onnx.save(model, tmp_path / "open.onnx")
    (expected,) = onnx.reference.ReferenceEvaluator(model).run(None, inputs)
    found = ENGINES[engine].prepare(tmp_path / "open.onnx", 1).run(inputs)["y"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_an_earlier_answer_is_not_overwritten(engine: str, matmul_path: Path) -> None:
    session = ENGINES[engine].prepare(matmul_path, 1)
    first = session.run({"x": np.ones((7, 16), np.float32)})["logits"]
    kept = first.copy()
    session.run({"x": np.zeros((7, 16), np.float32)})
    np.testing.assert_array_equal(first, kept)


def test_binding_leaves_run_as_it_was(engine: str, matmul_path: Path) -> None:
    session = ENGINES[engine].prepare(matmul_path, 1, sizes={"batch": 1})
    ones = np.ones((1, 16), np.float32)
    before = session.run({"x": ones})["logits"]
    bound = np.zeros((1, 16), np.float32)
    step = session.bind({"x": bound})
    step()
    np.testing.assert_array_equal(session.run({"x": ones})["logits"], before)
    np.testing.assert_array_equal(bound, 0)


def test_what_runs_meanwhile_leaves_a_bound_call_as_it_was(engine: str, matmul_path: Path) -> None:
    session = ENGINES[engine].prepare(matmul_path, 1, sizes={"batch": 1})
    inputs = [{"x": np.full((1, 16), value, np.float32)} for value in (1, 2)]
    expected = [session.run(each)["logits"] for each in inputs]
    steps = [session.bind(each) for each in inputs]
    for step in steps:
        step()
        np.testing.assert_array_equal(session.run(inputs[1])["logits"], expected[1])
        np.testing.assert_array_equal(session.run(inputs[0])["logits"], expected[0])


def test_a_bound_call_keeps_its_inputs(engine: str, tmp_path: Path) -> None:
    model, inputs = product()
    onnx.save(model, tmp_path / "m.onnx")
    session = ENGINES[engine].prepare(tmp_path / "m.onnx", 1)
    expected = session.run(inputs)
    given = {name: array.copy() for name, array in inputs.items()}
    if isinstance(session, SizedSession):
        step, answers = session.load({}).bind(given)
    else:
        step, answers = session.bind(given), {}
    sizes = [array.shape for array in given.values()]
    del given
    churned = [np.full(shape, np.nan, np.float32) for shape in sizes * 20]
    found = step() or answers
    if not found:
        pytest.skip("its bound call keeps its answers to itself")
    assert len(churned) == 40
    np.testing.assert_array_equal(next(iter(found.values())), expected["y"])


def test_threads_do_not_disturb_each_other(engine: str, matmul_path: Path) -> None:
    session = ENGINES[engine].prepare(matmul_path, 2)
    inputs = [np.random.default_rng(seed).standard_normal((1, 16), np.float32) for seed in range(4)]
    expected = [session.run({"x": x})["logits"] for x in inputs]

    def wrong(index: int) -> int:
        answers = (session.run({"x": inputs[index]})["logits"] for _ in range(100))
        return sum(not np.array_equal(answer, expected[index]) for answer in answers)

    with ThreadPoolExecutor(len(inputs)) as pool:
        assert list(pool.map(wrong, range(len(inputs)))) == [0, 0, 0, 0]


def test_the_signature_keeps_symbols(engine: str, matmul_path: Path) -> None:
    session = ENGINES[engine].prepare(matmul_path, 1, sizes={"batch": 1})
    assert session.inputs[0].shape == ("batch", 16)
    assert session.inputs[0].dtype == "float32"
    assert session.operators == {"MatMul", "Softmax"}


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "takes the inputs x, but was given none"),
        ({"y": np.zeros((1, 3, 8, 8), np.float32)}, "takes the inputs x, but was given y"),
        ({"x": np.zeros((1, 3, 8, 8))}, "float64, but the model takes float32"),
        ({"x": np.zeros((1, 3, 9, 8), np.float32)}, "shape .1, 3, 9, 8., but the model takes .1, 3, 8, 8."),
    ],
)
def test_wrong_inputs_are_named(
    engine: str, inputs: dict[str, np.ndarray], message: str, tmp_path: Path
) -> None:
    onnx.save(conv_relu()[0], tmp_path / "m.onnx")
    session = ENGINES[engine].prepare(tmp_path / "m.onnx", 1)
    with pytest.raises(EngineError, match=message):
        session.run(inputs)


def test_a_model_it_cannot_load_is_one_sentence(engine: str, tmp_path: Path) -> None:
    model, _ = matmul()
    model.graph.node[1].op_type = "NoSuchOperator"
    path = tmp_path / "odd.onnx"
    onnx.save(model, path)
    with pytest.raises(EngineError, match=f"^{engine} cannot load .*odd.onnx: .*NoSuchOperator") as caught:
        ENGINES[engine].prepare(path, 1, sizes={"batch": 1})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist"),
        (b"", "empty"),
        (b"garbage!", "a text file, not an ONNX"),
        ("half", "not a complete"),
    ],
)
def test_a_damaged_file_is_one_sentence(
    engine: str, content: bytes | str | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "damaged.onnx"
    if content is not None:
        whole = matmul()[0].SerializeToString()
        path.write_bytes(whole[: len(whole) // 2] if isinstance(content, str) else content)
    with pytest.raises(EngineError, match=message) as caught:
        ENGINES[engine].prepare(path, 1)
    assert "damaged.onnx" in str(caught.value)


def test_unknown_settings_are_refused(engine: str, matmul_path: Path) -> None:
    with pytest.raises(EngineError, match="no setting 'colour'"):
        ENGINES[engine].prepare(matmul_path, 1, colour="red")


def test_settings_of_onnxruntime(engine: str, tmp_path: Path, matmul_path: Path) -> None:
    if engine != "onnxruntime":
        pytest.skip("settings of another engine")
    model, inputs = conv_relu()
    path = tmp_path / "outside.onnx"
    onnx.save(model, path, save_as_external_data=True, location="outside.data", size_threshold=0)
    packed = ENGINES[engine].prepare(path, 1).run(inputs)
    mapped = ENGINES[engine].prepare(path, 1, weights="mapped", optimization="basic").run(inputs)
    for name, array in packed.items():
        np.testing.assert_allclose(mapped[name], array, rtol=0, atol=1e-5)
    with pytest.raises(EngineError, match="weights is one of packed, mapped"):
        ENGINES[engine].prepare(matmul_path, 1, weights="lost")


def test_a_worker_answers_like_the_engine(engine: str, matmul_path: Path) -> None:
    x = np.random.default_rng(2).standard_normal((7, 16)).astype(np.float32)
    expected = ENGINES[engine].prepare(matmul_path, 1).run({"x": x})
    with SessionWorker(engine, matmul_path) as worker:
        answers = worker.run({"x": x})
        assert worker.inputs[0].shape == ("batch", 16)
        worker.feed({"x": x})
        assert worker.time(5).nanoseconds.shape == (5,)
        assert (worker.time(5).nanoseconds > 0).all()
        assert worker.peak(2).resident >= worker.resident_before > 0
    for name, array in expected.items():
        np.testing.assert_array_equal(answers[name], array)


def test_an_installed_engine_has_a_version(engine: str) -> None:
    assert ENGINES[engine].version()[0].isdigit()


def test_an_unknown_engine_lists_the_known(engine: str) -> None:
    with pytest.raises(UsageError, match=engine):
        ENGINES["nosuch"]
