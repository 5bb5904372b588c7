"""A model is copied whole: with the weights beside it, from however many files, and never over its own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tensmith
from command_line import tensmith as command
from tensmith.backend.onnx import write_onnx
from tensmith.errors import ModelError, OutputError
from tensmith.files import sha256_file
from tensmith.frontend import model_copy
from tensmith.frontend.model_copy import copied_bytes, copied_hashes, copy_model
from tensmith.frontend.model_files import model_files
from tensmith.frontend.onnx import read_onnx

ARRAYS = {
    name: np.random.default_rng(n).standard_normal((8, 8)).astype(np.float32) for n, name in enumerate("vw")
}


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """Two products, whose weights lie in two files; a third tensor shares the bytes of the second."""
    names = [*ARRAYS, "same"]
    nodes = [
        helper.make_node("MatMul", [x, name], [y])
        for x, name, y in zip(("x", "a", "b"), names, ("a", "b", "y"))
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8]) for name in ("x", "y")]
    tensors = [numpy_helper.from_array(ARRAYS.get(name, ARRAYS["w"]), name) for name in names]
    for tensor, file in zip(tensors, ("v.bin", "w.bin", "w.bin")):
        (tmp_path / file).write_bytes(b"before" + tensor.raw_data)
        onnx.external_data_helper.set_external_data(tensor, file, offset=6, length=256)
        tensor.ClearField("raw_data")
    graph = helper.make_graph(nodes, "two", ends[:1], ends[1:], tensors)
    path = tmp_path / "two.onnx"
    path.write_bytes(helper.make_model(graph, ir_version=10).SerializeToString())
    return path


def test_weights_of_a_branch_come_along(tmp_path: Path) -> None:
    """Of an operator that stays as it is, TensIR takes in what lies in other files."""
    branches = []
    for word, value in (("then", 2.0), ("else", 3.0)):
        weight = numpy_helper.from_array(np.full((4, 4), value, np.float32), f"{word}_w")
        node = helper.make_node("MatMul", ["x", weight.name], [f"{word}_y"])
        end = helper.make_tensor_value_info(f"{word}_y", TensorProto.FLOAT, [1, 4])
        branches.append(helper.make_graph([node], word, [], [end], [weight]))
    node = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    ends = {
        "x": helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4]),
        "c": helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        "y": helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4]),
    }
    graph = helper.make_graph([node], "g", [ends["x"], ends["c"]], [ends["y"]])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)])
    for branch in (node.attribute[0].g, node.attribute[1].g):
        for tensor in branch.initializer:
            assert tensor.raw_data
    (tmp_path / "from").mkdir()
    data = tmp_path / "from" / "model.onnx.data"
    with data.open("wb") as file:
        for attribute in model.graph.node[0].attribute:
            for tensor in attribute.g.initializer:
                start = file.tell()
                file.write(tensor.raw_data)
                onnx.external_data_helper.set_external_data(tensor, data.name, offset=start, length=64)
                tensor.ClearField("raw_data")
    source = tmp_path / "from" / "model.onnx"
    source.write_bytes(model.SerializeToString())
    written = tmp_path / "to.onnx"
    write_onnx(read_onnx(source), written)
    data.unlink()
    x = np.ones((1, 4), np.float32)
    session = onnxruntime.InferenceSession(written, providers=["CPUExecutionProvider"])
    for condition, value in ((True, 8.0), (False, 12.0)):
        (y,) = session.run(None, {"x": x, "c": np.array(condition)})
        assert (y == value).all()


def test_tensors_of_functions_and_sparse_ones_come_along(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "to").mkdir()
    ones = np.ones(2, np.float32)
    value, values = numpy_helper.from_array(ARRAYS["v"], "v"), numpy_helper.from_array(ones, "s")
    for tensor in (value, values):
        (tmp_path / "from" / f"{tensor.name}.bin").write_bytes(tensor.raw_data)
        onnx.external_data_helper.set_external_data(tensor, f"{tensor.name}.bin")
        tensor.ClearField("raw_data")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([0, 1]), "i"), [4])
    inner = helper.make_node("Constant", [], ["v"], value=value)
    function = helper.make_function("local", "f", [], ["v"], [inner], [helper.make_opsetid("", 17)])
    nodes = [
        helper.make_node("f", [], ["v"], domain="local"),
        helper.make_node("Constant", [], ["s"], sparse_value=sparse),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "vs"]
    graph = helper.make_graph(nodes, "g", [], ends)
    source, copy = tmp_path / "from" / "m.onnx", tmp_path / "to" / "m.onnx"
    source.write_bytes(helper.make_model(graph, functions=[function]).SerializeToString())
    assert [file.name for file in model_files(source)] == ["m.onnx", "s.bin", "v.bin"]
    copy_model(source, copy)
    assert [file.name for file in model_files(copy)] == ["m.onnx", "m.onnx.data"]
    assert (tmp_path / "to" / "m.onnx.data").read_bytes() == ones.tobytes() + ARRAYS["v"].tobytes()


def test_what_a_copy_would_be_is_known_before_it_is_made(
    beside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small tensors lie one behind the other, large ones on pages of their own."""
    (tmp_path / "away").mkdir()
    target = tmp_path / "away" / "copy.onnx"
    for large, size in ((1 << 20, 512), (256, 4096 + 256)):
        monkeypatch.setattr(model_copy, "_LARGE", large)
        copy_model(beside, target)
        files = list(target.parent.iterdir())
        assert target.with_name("copy.onnx.data").stat().st_size == size
        assert copied_hashes(beside, "copy.onnx") == {file.name: sha256_file(file) for file in files}
        names_apart = len("model.onnx") - len("copy.onnx")
        told = copied_bytes(beside) - sum(file.stat().st_size for file in files)
        assert told == len(ARRAYS | {"same": 0}) * names_apart
        assert copied_hashes(target, "copy.onnx") == copied_hashes(beside, "copy.onnx")


def test_tensors_that_begin_at_one_place_stay_what_they_are(tmp_path: Path) -> None:
    """The shorter one first, no lengths, and another tensor behind: the longer one must not run into it."""
    whole = np.arange(12, dtype=np.float32)
    (tmp_path / "w.bin").write_bytes(whole.tobytes())
    placed = (("short", 4, 0), ("long", 8, 0), ("last", 4, 32))
    tensors = [TensorProto(name=n, data_type=TensorProto.FLOAT, dims=[size]) for n, size, _ in placed]
    for tensor, (_, _, offset) in zip(tensors, placed):
        tensor.raw_data = b""
        onnx.external_data_helper.set_external_data(tensor, "w.bin", offset=offset)
        tensor.ClearField("raw_data")
    joined = helper.make_node("Concat", [name for name, _, _ in placed], ["y"], axis=0)
    end = helper.make_tensor_value_info("y", TensorProto.FLOAT, [16])
    graph = helper.make_graph([joined], "joined", [], [end], tensors)
    path = tmp_path / "joined.onnx"
    path.write_bytes(helper.make_model(graph, ir_version=10).SerializeToString())
    (tmp_path / "away").mkdir()
    copy_model(path, tmp_path / "away" / "copy.onnx")
    found = read_onnx(tmp_path / "away" / "copy.onnx").constants
    for name, size, offset in placed:
        np.testing.assert_array_equal(found[name], whole[offset // 4 : offset // 4 + size])


def test_the_copy_needs_nothing_of_the_original(beside: Path, tmp_path: Path) -> None:
    original = read_onnx(beside).constants
    (tmp_path / "away").mkdir()
    result = command("convert", beside, "away/copy.onnx", "--json", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    size = sum(file.stat().st_size for file in (tmp_path / "away").iterdir())
    assert json.loads(result.stdout) == {"path": "away/copy.onnx", "bytes": size}
    shown = command("convert", beside, "away/copy.onnx", "--force", folder=tmp_path).stdout
    assert shown == f"away/copy.onnx and away/copy.onnx.data: {size} bytes\n"
    for file in tmp_path.glob("*.*"):
        file.unlink()
    copy = tmp_path / "away/copy.onnx"
    assert [file.name for file in sorted(copy.parent.iterdir())] == ["copy.onnx", "copy.onnx.data"]
    assert {name: array.tobytes() for name, array in read_onnx(copy).constants.items()} == {
        name: array.tobytes() for name, array in original.items()
    }
    assert (tmp_path / "away/copy.onnx.data").stat().st_size == 512
    x = np.ones((1, 8), np.float32)
    w = ARRAYS["w"]
    np.testing.assert_allclose(tensmith.load(copy)(x), x @ ARRAYS["v"] @ w @ w, rtol=1e-4)


def test_a_model_with_its_weights_inside_is_copied_to_the_byte(beside: Path, tmp_path: Path) -> None:
    inside, copy = tmp_path / "inside.onnx", tmp_path / "copy.onnx"
    onnx.save(onnx.load(beside), inside)
    copy_model(inside, copy)
    assert copy.read_bytes() == inside.read_bytes() and not (tmp_path / "copy.onnx.data").exists()


@pytest.mark.parametrize("name", ["two.onnx", "w.bin", "v"])
def test_its_own_files_are_not_written_over(name: str, beside: Path) -> None:
    if name == "v":  # whose data file would be one of the model's
        (beside.parent / "v.bin").rename(beside.parent / "v.data")
        model = onnx.load(beside, load_external_data=False)
        model.graph.initializer[0].external_data[0].value = "v.data"
        beside.write_bytes(model.SerializeToString())
    with pytest.raises(OutputError, match="is a file of the model itself"):
        copy_model(beside, beside.parent / name)


def test_damage_is_named(beside: Path, tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"short")
    with pytest.raises(ModelError, match="tensor 'w' needs 256 bytes"):
        copy_model(beside, tmp_path / "away/copy.onnx")
    assert not (tmp_path / "away/copy.onnx.data").exists()
