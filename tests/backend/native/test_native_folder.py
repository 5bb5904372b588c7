"""The folder runs alone, and is refused when it was altered or does not fit the machine."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from native_programs import Net, compile_folder
from onnx import TensorProto, helper, numpy_helper

from tensmith.backend.native.emit import loader
from tensmith.backend.native.emit.folder import write_folder
from tensmith.backend.native.emit.loader import Model, ModelError
from tensmith.backend.native.plan import make_plan
from tensmith.engine import ENGINES
from tensmith.errors import EngineError, OutputError
from tensmith.kernel import host_isa


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    net = Net(1, 3, 6, 6)
    return compile_folder(net.program(net.add("relu", net.conv("x", 3, 4))), tmp_path)


def rewrite(folder: Path, **changes: object) -> None:
    """Changes entries of the manifest as one would who knows that it holds a digest of its own."""
    path = folder / loader.MANIFEST
    manifest = json.loads(path.read_text()) | changes
    path.write_text(json.dumps(manifest | {"digest": loader.digest_of(manifest)}))


def test_it_runs_without_tensmith(folder: Path) -> None:
    code = (
        "import sys, numpy as np; from model import Model; m = Model();"
        "print(sorted(n for n in sys.modules if n.startswith(('tensmith', 'onnx'))),"
        " m(x=np.zeros((1, 3, 6, 6), np.float32))['v1'].shape)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[] (1, 4, 6, 6)", done.stderr


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler is installed")
def test_its_c_builds_as_its_first_line_says(folder: Path) -> None:
    command = (folder / "model.c").read_text().partition(": ")[2].partition(" */")[0].split()
    assert command[0] == "cc"
    subprocess.run(command, cwd=folder, check=True)
    x = np.random.default_rng(1).standard_normal((1, 3, 6, 6)).astype(np.float32)
    x.tofile(folder / "x.bin")
    subprocess.run(["./model", "weights.bin", "x.bin", "y.bin"], cwd=folder, check=True)
    y = np.fromfile(folder / "y.bin", np.float32).reshape(1, 4, 6, 6)
    np.testing.assert_array_equal(y, Model(folder)(x=x)["v1"])


def test_every_file_is_named_with_its_hash(folder: Path) -> None:
    files = set(json.loads((folder / loader.MANIFEST).read_text())["files"])
    assert files == {"libmodel.so", "weights.bin", "model.c", "model.h", "main.c", "model.py"}
    assert files | {loader.MANIFEST} == {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["libmodel.so", "weights.bin", "model.c", "model.py"])
def test_an_altered_file_is_refused(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(ModelError, match=f"{name} was altered"):
        Model(folder)
    with pytest.raises(EngineError, match="was altered"):
        ENGINES["native"].prepare(folder, 1)


@pytest.mark.parametrize("size", ["arena_bytes", "weights_bytes", "threads"])
def test_an_altered_manifest_is_refused(folder: Path, size: str) -> None:
    path = folder / loader.MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | {size: 1 << 60}))
    with pytest.raises(ModelError, match=r"model.json was altered"):
        Model(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"needs": ["avx512f", "no_such_feature"]}, "needs a CPU with.* no_such_feature"),
        ({"architecture": "mips"}, "compiled for mips"),
        ({"schema": 99}, "no manifest of schema 1"),
        ({"files": {}}, "does not name"),
        ({"files": {"../libmodel.so": "0", "libmodel.so": "0", "weights.bin": "0"}}, "outside its folder"),
    ],
)
def test_what_does_not_fit_is_refused(folder: Path, changes: dict[str, object], message: str) -> None:
    rewrite(folder, **changes)
    with pytest.raises(ModelError, match=message):
        Model(folder)


def test_tile_registers_that_the_system_does_not_lend_are_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewrite(folder, needs=["amx_int8"])
    monkeypatch.setattr(loader, "cpu_flags", lambda: {"amx_int8"})
    monkeypatch.setattr(loader, "ASK_FOR_TILES", (158, 0x1023, 999))
    with pytest.raises(ModelError, match="amx_int8, which the system does not let this process use"):
        Model(folder)


def test_a_missing_file_and_a_broken_manifest_are_one_sentence(folder: Path) -> None:
    (folder / "weights.bin").unlink()
    with pytest.raises(ModelError, match=r"cannot read .*weights.bin"):
        Model(folder)
    (folder / loader.MANIFEST).write_text("{")
    with pytest.raises(ModelError, match=r"cannot read .*model.json"):
        Model(folder)


def test_wrong_inputs_are_named(folder: Path) -> None:
    model = Model(folder)
    with pytest.raises(ModelError, match="takes the inputs x, but was given none"):
        model()
    with pytest.raises(ModelError, match=r"input 'x' has shape \[2, 2\], not \[1, 3, 6, 6\]"):
        model(x=np.zeros((2, 2), np.float32))
    for given in ("word", [[1.0], [2.0, 3.0]]):
        with pytest.raises(ModelError, match="input 'x' is no array of float32: "):
            model(x=given)
    with pytest.raises(ModelError, match="the model gives v1, not other"):
        model.bind({"x": np.zeros((1, 3, 6, 6), np.float32)}, {"other": np.zeros(1, np.float32)})


def test_an_existing_folder_is_not_overwritten(folder: Path) -> None:
    net = Net(1, 3, 6, 6)
    with pytest.raises(OutputError, match="exists already"):
        write_folder(make_plan(net.program(net.conv("x", 3, 4)), host_isa()), folder)


def test_the_engine_loads_a_folder(folder: Path) -> None:
    x = np.ones((1, 3, 6, 6), np.float32)
    session = ENGINES["native"].prepare(folder, 1)
    np.testing.assert_array_equal(session.run({"x": x})["v1"], Model(folder)(x=x)["v1"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"files": None}, "does not say its files"),
        ({"needs": "avx512"}, "does not say its needs"),
        ({"needs": [["avx512"]]}, "names no CPU features by needs"),
        ({"inputs": [1]}, "does not say what the model takes and gives"),
        ({"outputs": [{"name": "y", "shape": [1], "dtype": "magic"}]}, "takes and gives"),
        ({"weights_bytes": None}, "does not say its weights_bytes"),
        ({"threads": 100_000}, "more than 256 threads"),
    ],
)
def test_a_manifest_that_says_too_little_or_too_much_is_refused(
    folder: Path, changes: dict[str, object], message: str
) -> None:
    rewrite(folder, **changes)
    with pytest.raises(ModelError, match=message):
        Model(folder)


@pytest.mark.parametrize(
    "name", ["y*\\\n/ #error escaped\n/*", "y */ #error escaped /*", "y\n#error escaped"]
)
def test_a_name_cannot_leave_its_comment(name: str, tmp_path: Path) -> None:
    net = Net(1, 3, 6, 6)
    made = net.program(net.add("relu", net.conv("x", 3, 4)))
    last = replace(made.nodes[-1], outputs=(name,))
    program = replace(made, nodes=(*made.nodes[:-1], last), outputs=(name,), _known={})
    folder = compile_folder(program, tmp_path)
    assert "escaped" in (folder / "model.c").read_text()
    assert Model(folder)(x=np.zeros((1, 3, 6, 6), np.float32))[name].shape == (1, 4, 6, 6)


@pytest.mark.parametrize("engine", ["native", "mixed"])
def test_an_input_may_have_any_name(engine: str, tmp_path: Path) -> None:
    weights = numpy_helper.from_array(np.eye(4, 3, dtype=np.float32), "w")
    node = helper.make_node("MatMul", ["self", "w"], ["lambda"])
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("self", [2, 4]), ("lambda", [2, 3]))
    ]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "net.onnx")
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    found = ENGINES[engine].prepare(tmp_path / "net.onnx", 1).run({"self": x})
    np.testing.assert_array_equal(found["lambda"], x[:, :3])


def test_a_model_that_took_the_place_of_another_answers_for_itself(tmp_path: Path) -> None:
    x = np.linspace(-2, 2, 8, dtype=np.float32).reshape(1, 8)
    for op, wanted in (("relu", np.maximum(x, 0)), ("neg", -x), ("relu", np.maximum(x, 0))):
        net = Net(1, 8)
        program = net.program(net.add(op, "x"))
        shutil.rmtree(tmp_path / "compiled", ignore_errors=True)
        (found,) = Model(compile_folder(program, tmp_path))(x=x).values()
        np.testing.assert_array_equal(found, wanted)
