"""Weights of few bits without data: streamed, equal to what the methods make, and what answers like them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from benchmarks.compress.gpt2_graph import Gpt2Sizes, write_gpt2
from onnx import TensorProto, helper, numpy_helper

import tensmith
from command_line import refused
from command_line import tensmith as command
from gguf_models import rotary_model, written
from tensmith.data import mapped
from tensmith.engine.resident import peak_bytes
from tensmith.errors import ModelError, OutputError, UsageError
from tensmith.frontend.model import read_weights_open
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program, interpret
from tensmith.rewrite.calibration import WithoutData
from tensmith.rewrite.lossy.weights import weighted_layers
from tensmith.rewrite.method import LOSSY
from tensmith.rewrite.rule import EVERYWHERE

SMALL = Gpt2Sizes(layers=2, width=64, heads=4, vocabulary=301, context=32)
TOKENS = {"input_ids": np.array([[3, 1, 4, 1, 5]])}
# 437 MB in float32, 34 MB of which are the table of tokens.
LARGE = Gpt2Sizes(layers=8, width=1024, heads=16, vocabulary=8192, context=64)
# Python with the libraries that reading, rounding and writing take, and what rounding needs for itself.
LIBRARIES = 160 << 20


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small decoder, for reading only."""
    path = tmp_path_factory.mktemp("gpt2") / "gpt2.onnx"
    write_gpt2(path, SMALL)
    return path


def in_memory(program: Program) -> Program:
    """What a search would make of it: both methods, each everywhere at once."""
    program = LOSSY["block_int4"].apply(program, EVERYWHERE, {}, WithoutData())
    params = {"stored": "codes", "default_bits": 8}
    return (
        LOSSY["weight_only"].apply(program, EVERYWHERE, params, WithoutData())
        if weighted_layers(program)
        else program
    )


def test_a_model_is_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    if peak_bytes() is None:
        pytest.skip("this system does not tell a process its peak memory")
    write_gpt2(tmp_path / "large.onnx", LARGE)
    script = (
        "from tensmith.engine.resident import peak_bytes\nfrom tensmith.quantization import quantize\n"
        "quantize('large.onnx', 'out/small.onnx')\nprint(peak_bytes())"
    )
    words = [sys.executable, "-c", script]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    table, weights = 4 * LARGE.vocabulary * LARGE.width, 4 * LARGE.parameters
    limit = LIBRARIES + 2 * table
    assert int(ended.stdout) < limit < weights * 0.6
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["small.onnx", "small.onnx.data"]
    assert (tmp_path / "out/small.onnx").stat().st_size < 1 << 20
    assert (tmp_path / "out/small.onnx.data").stat().st_size < 0.2 * weights


def test_it_makes_what_the_methods_make_at_once(gpt2: Path, tmp_path: Path) -> None:
    found = tensmith.quantize(gpt2, tmp_path / "small.onnx")
    streamed, whole = read_onnx(tmp_path / "small.onnx"), in_memory(read_onnx(gpt2))
    assert streamed.constants.keys() == whole.constants.keys()
    for name, array in whole.constants.items():
        assert streamed.type(name) == whole.type(name) and np.array_equal(array, streamed.constants[name])
    assert [(tensor.bits, tensor.block) for tensor in found.tensors] == [(4, 32)] * 8 + [(8, 0)] * 2
    assert found.original_bytes > 4 * SMALL.parameters and found.file_bytes < 0.25 * found.original_bytes


def test_the_table_stays_one_for_lookups_and_the_head(gpt2: Path, tmp_path: Path) -> None:
    tensmith.quantize(gpt2, tmp_path / "small.onnx")
    program = read_onnx(tmp_path / "small.onnx")
    (codes,) = [name for name, array in program.constants.items() if array.shape == (301, 64)]
    assert program.type(codes).dtype == "i8"
    assert {node.op for node in program.consumers[codes]} == {"gather", "dequantize_linear"}


@pytest.mark.parametrize("bits", [4, 8])
def test_it_answers_like_its_numbers_as_floats(bits: int, gpt2: Path, tmp_path: Path) -> None:
    path = tmp_path / "small.onnx"
    error = tensmith.quantize(gpt2, path, bits=bits).error
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    (found,) = onnxruntime.InferenceSession(path, options).run(None, TOKENS)
    exact, original = (interpret(read_onnx(each), TOKENS)["logits"] for each in (path, gpt2))
    assert abs(found - exact).max() < 1e-5 * np.ptp(exact)
    lost = np.linalg.norm(exact - original) / np.linalg.norm(original)
    assert error / 3 < lost < 5 * error


def test_how_far_weights_moved_is_what_the_file_says(gpt2: Path, tmp_path: Path) -> None:
    found = tensmith.quantize(gpt2, tmp_path / "small.onnx", block=16)
    before, after = read_onnx(gpt2), read_onnx(tmp_path / "small.onnx")
    for tensor in found.tensors:
        if tensor.weight == "wpe.weight":
            continue  # positions are looked up as codes: no node opens the whole table
        name = f"{tensor.site}.weights" if tensor.block else f"{tensor.weight}.dequantized"
        alone = Program("one", {}, (name,), (after.producers[name],), after.constants)
        weights = before.constants[tensor.weight]
        error = np.linalg.norm(interpret(alone, {})[name] - weights) / np.linalg.norm(weights)
        assert tensor.error == pytest.approx(error, rel=1e-5)


def test_recurrent_weights_are_told_too(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    w, r = (random.standard_normal((2, 32, size)).astype(np.float32) for size in (12, 8))
    info, shape = helper.make_tensor_value_info, ("length", 1, 12)
    graph = helper.make_graph(
        [helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=8, direction="bidirectional")],
        "lstm",
        [info("x", TensorProto.FLOAT, shape)],
        [info("y", TensorProto.FLOAT, ("length", 2, 1, 8))],
        [numpy_helper.from_array(array, name) for name, array in (("w", w), ("r", r))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    found = tensmith.quantize(tmp_path / "m.onnx", tmp_path / "small.onnx", bits=8)
    after = read_onnx(tmp_path / "small.onnx")
    assert [tensor.weight for tensor in found.tensors] == ["w", "r"]
    for tensor, weights in zip(found.tensors, (w, r)):
        opened = after.producers[f"{tensor.weight}.dequantized"]
        alone = Program("one", {}, (opened.output,), (opened,), after.constants)
        moved = interpret(alone, {})[opened.output].reshape(weights.shape) - weights
        assert tensor.shape == weights.shape and tensor.bits == 8
        assert tensor.error == pytest.approx(np.linalg.norm(moved) / np.linalg.norm(weights), rel=1e-5)


def test_weights_that_exporters_turn_are_rounded_along_what_they_multiply(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((48, 64), np.float32)
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "t"], ["y"]),
    ]
    types = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size])
        for name, size in (("x", 64), ("y", 48))
    ]
    graph = helper.make_graph(nodes, "linear", types[:1], types[1:], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "m.onnx")
    (tensor,) = tensmith.quantize(tmp_path / "m.onnx", tmp_path / "q.onnx").tensors
    assert tensor.shape == (48, 64) and tensor.error < 0.1
    program = read_onnx(tmp_path / "q.onnx")
    assert [node.op for node in program.nodes] == ["dequantize_linear", "matmul"]
    x = np.eye(64, dtype=np.float32)[5:6]
    assert np.linalg.norm(interpret(program, {"x": x})["y"] - weights[:, 5]) < 0.2 * np.linalg.norm(
        weights[:, 5]
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_halves_get_eight_bits_and_doubles_stay(dtype: type, tmp_path: Path) -> None:
    weights = (300 * np.random.default_rng(0).standard_normal((64, 48))).astype(dtype)
    ends = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(weights.dtype), [1, size])
        for name, size in (("x", 64), ("y", 48))
    ]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "linear", ends[:1], ends[1:], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "m.onnx")
    if dtype is np.float64:  # ONNX dequantizes to no such
        with pytest.raises(ModelError, match="no layers left"):
            tensmith.quantize(tmp_path / "m.onnx", tmp_path / "q.onnx")
        return
    (tensor,) = tensmith.quantize(tmp_path / "m.onnx", tmp_path / "q.onnx").tensors
    assert tensor.bits == 8 and 1e-3 < tensor.error < 1e-2


@pytest.mark.parametrize("kind", ["F32", "Q8_0", "Q4_0"])
def test_a_gguf_file(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "_SMALLEST", 1)  # all of its tensors are put away
    (tmp_path / "lm.gguf").write_bytes(written(rotary_model(), kind))
    tensmith.quantize(tmp_path / "lm.gguf", tmp_path / "small.onnx")
    found, whole = read_onnx(tmp_path / "small.onnx"), in_memory(read_weights_open(tmp_path / "lm.gguf"))
    tokens = {"tokens": np.array([[5, 6, 7]])}
    answers = [interpret(each, tokens)["logits"] for each in (found, whole)]
    if kind != "Q8_0":  # a table of tokens that is no bytes becomes them
        assert np.linalg.norm(answers[0] - answers[1]) < 0.03 * np.linalg.norm(answers[1])
    else:
        assert np.array_equal(*answers)
    assert any(found.type(name).dtype == "i4" for name in found.constants)


def test_what_is_kept_stays(gpt2: Path, tmp_path: Path) -> None:
    found = tensmith.quantize(gpt2, tmp_path / "small.onnx", keep=["wte.weight", "h.1.mlp.*"])
    before, after = read_onnx(gpt2), read_onnx(tmp_path / "small.onnx")
    for name in ("wte.weight", "h.1.mlp.c_fc.weight", "h.1.mlp.c_proj.weight"):
        assert np.array_equal(before.constants[name], after.constants[name])
    assert len(found.tensors) == 7 and "logits" in found.kept


def test_the_command_says_what_is_known(gpt2: Path, tmp_path: Path) -> None:
    result = command("quantize", gpt2, "small.onnx", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "8 tensors in 4 bits, a scale for 32 weights" in result.stdout
    assert "nobody judged it: no data was given" in result.stdout
    refused(command("quantize", gpt2, "small.onnx", folder=tmp_path), 1, "small.onnx exists", "--force")
    told = json.loads(command("quantize", gpt2, "small.onnx", "--force", "--json", folder=tmp_path).stdout)
    assert told["kind"] == "lossy" and told["judged"] is False
    assert {tensor["evidence"] for tensor in told["tensors"]} == {"measured"}


def test_what_it_refuses(gpt2: Path, tmp_path: Path) -> None:
    out = tmp_path / "small.onnx"
    with pytest.raises(UsageError, match="4 or 8 bits here, not 3"):
        tensmith.quantize(gpt2, out, bits=3)
    with pytest.raises(UsageError, match="multiple of 16, not 20"):
        tensmith.quantize(gpt2, out, block=20)
    with pytest.raises(UsageError, match="no layer 'nosuch' to keep"):
        tensmith.quantize(gpt2, out, keep=["nosuch"])
    with pytest.raises(ModelError, match="no layers left"):
        tensmith.quantize(gpt2, out, keep=["*"])
    with pytest.raises(UsageError, match=r"'small\.gguf' must end in \.onnx"):
        tensmith.quantize(gpt2, tmp_path / "small.gguf")
    for name in (gpt2.name, gpt2.name.removesuffix(".data")):
        with pytest.raises(OutputError, match="a file of the model itself"):
            tensmith.quantize(gpt2, gpt2.with_name(name))
    assert not out.exists()


def test_weights_that_are_no_numbers_are_refused(gpt2: Path, tmp_path: Path) -> None:
    for file in gpt2.parent.iterdir():
        shutil.copy(file, tmp_path)
    weights = np.memmap(tmp_path / "gpt2.onnx.data", np.float32, "r+")
    weights[301 * 64 // 2] = np.nan
    weights.flush()
    with pytest.raises(ModelError, match=r"'wte\.weight' holds NaN or infinity"):
        tensmith.quantize(tmp_path / "gpt2.onnx", tmp_path / "small.onnx")
    assert not (tmp_path / "small.onnx").exists()


def test_paths_of_a_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell leaves `--output=~/x` as it is, and Python every ~: nothing makes a folder of that name."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    weights = np.random.default_rng(3).standard_normal((64, 64)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 64])],
        [numpy_helper.from_array(weights, "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    tensmith.quantize("~/m.onnx", "~/q.onnx")
    tensmith.load("~/q.onnx").save("~/again.onnx")
    assert command("pack", "~/q.onnx", "~/q.packed", folder=tmp_path).returncode == 0
    assert {"q.onnx", "again.onnx", "q.packed"} < {path.name for path in tmp_path.iterdir()}
    assert not (tmp_path / "~").exists()
