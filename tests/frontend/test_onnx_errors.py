"""What is wrong with a model is said in one sentence: what, where, and what to do. Nothing else escapes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from benchmarks.trust import fuzz_importer
from onnx import TensorProto, helper, numpy_helper, parser

from tensmith.errors import ModelError
from tensmith.frontend.checked import check_model
from tensmith.frontend.model_copy import copied_hashes
from tensmith.frontend.model_files import file_identity, model_files
from tensmith.frontend.onnx import read_onnx

FLOAT = TensorProto.FLOAT


def model() -> onnx.ModelProto:
    """y = relu(x + w)."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["a"], name="first"), helper.make_node("Relu", ["a"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("y", FLOAT, ["n", 3])],
        [numpy_helper.from_array(np.ones(3, np.float32), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no\.onnx does not exist; check the path"):
        read_onnx(tmp_path / "no.onnx")


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is a folder, not a file; give the path"):
        read_onnx(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; export or copy it again"),
        (b"PK\x03\x04 a zip file, not a model", "is a zip archive, not an ONNX file; unpack the archive"),
        (b"PK\x03\x04" + bytes(26) + b"x_train.npy", r"is a NumPy archive \(.npz\).*--data npz:.*m.onnx"),
        (b"PK\x03\x04" + bytes(26) + b"net/data.pkl", "is a PyTorch file.*torch.onnx.export"),
        (b"\x80\x02\x8a\x0al", "is a pickle, as PyTorch wrote.*nothing of it is run"),
        (b"\x93NUMPY\x01\0", "is a NumPy array"),
        (b"\x93TSM\x03", "is a packed model.*tensmith unpack .*m.onnx"),
        (b"\x1c\0\0\0TFL3", "is a TFLite file.*tf2onnx.convert --tflite .*m.onnx"),
        (b"\x89HDF\r\n\x1a\n\0", "is an HDF5 file, as Keras"),
        (b'\x40\0\0\0\0\0\0\0{"w":{"dtype"', "is a safetensors file"),
        (b'{"ir_version": 8}', "is JSON text"),
        (b"ir_version: 8\ngraph {", "is an ONNX model as text.*textproto"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a pointer of Git LFS.*git lfs pull"),
        (b"hello world\n", "is a text file, not an ONNX file; export or copy the model again"),
        (b"<!DOCTYPE html><p>Sign in", "is a web page"),
        (model().SerializeToString()[:-20], "is truncated or not an ONNX file"),
        (b"\x08\x08", "holds no graph or no opset"),
    ],
)
def test_files_that_are_no_models(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=message) as caught:
        read_onnx(path)
    assert str(path) in str(caught.value)


def _opset(version: int) -> Callable[[onnx.ModelProto], None]:
    return lambda m: setattr(m.opset_import[0], "version", version)


def _weight(**fields: object) -> Callable[[onnx.ModelProto], None]:
    def change(m: onnx.ModelProto) -> None:
        for name, value in fields.items():
            if isinstance(value, list):
                getattr(m.graph.initializer[0], name)[:] = value
            else:
                setattr(m.graph.initializer[0], name, value)

    return change


def _node(position: int = 0, **fields: object) -> Callable[[onnx.ModelProto], None]:
    def change(m: onnx.ModelProto) -> None:
        for name, value in fields.items():
            if isinstance(value, list):
                getattr(m.graph.node[position], name)[:] = value
            else:
                setattr(m.graph.node[position], name, value)

    return change


def _attribute(**values: object) -> Callable[[onnx.ModelProto], None]:
    return lambda m: m.graph.node[0].attribute.extend(helper.make_attribute(k, v) for k, v in values.items())


def _sequence_input(m: onnx.ModelProto) -> None:
    m.graph.input[0].type.sequence_type.elem_type.tensor_type.elem_type = FLOAT


def _recursive_function(m: onnx.ModelProto) -> None:
    call = helper.make_node("F", ["a"], ["b"], domain="d")
    m.functions.append(helper.make_function("d", "F", ["a"], ["b"], [call], [helper.make_opsetid("d", 1)]))
    m.graph.node.append(helper.make_node("F", ["x"], ["q"], domain="d"))
    m.opset_import.append(helper.make_opsetid("d", 1))


def _function_bomb(m: onnx.ModelProto) -> None:
    """Thirty functions, each calling the next twice."""
    opsets = [helper.make_opsetid("d", 1), helper.make_opsetid("", 18)]
    for level in range(30):
        nodes = [
            helper.make_node(f"F{level + 1}", ["a"], ["t"], domain="d"),
            helper.make_node(f"F{level + 1}", ["t"], ["b"], domain="d"),
        ]
        m.functions.append(helper.make_function("d", f"F{level}", ["a"], ["b"], nodes, opsets))
    last = [helper.make_node("Neg", ["a"], ["b"])]
    m.functions.append(helper.make_function("d", "F30", ["a"], ["b"], last, opsets))
    m.graph.node.append(helper.make_node("F0", ["x"], ["q"], domain="d"))
    m.opset_import.append(helper.make_opsetid("d", 1))


def _functions(own: dict[str, int], *imports: dict[str, int]) -> Callable[[onnx.ModelProto], None]:
    """A chain of calls, of functions with those imports."""

    def change(m: onnx.ModelProto) -> None:
        m.opset_import.extend(helper.make_opsetid(*each) for each in {"d": 1, **own}.items())
        for number, each in enumerate(imports):
            node = helper.make_node("Binarizer", ["a"], ["b"], domain="ai.onnx.ml")
            opsets = [helper.make_opsetid(*entry) for entry in {"": 18, **each}.items()]
            m.functions.append(helper.make_function("d", f"F{number}", ["a"], ["b"], [node], opsets))
            m.graph.node.append(helper.make_node(f"F{number}", ["x"], [f"q{number}"], domain="d"))

    return change


def _sparse(*shapes: list[int]) -> Callable[[onnx.ModelProto], None]:
    """Sparse initializers of one element each."""

    def change(m: onnx.ModelProto) -> None:
        at = helper.make_tensor("i", TensorProto.INT64, [1], [0])
        for number, shape in enumerate(shapes):
            values = helper.make_tensor(f"s{number}", FLOAT, [1], [1.0])
            m.graph.sparse_initializer.append(helper.make_sparse_tensor(values, at, shape))

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_opset(99), r"is at opset 99, newer than the \d+ this onnx package knows; update the package"),
        (_opset(1), r"is at opset 1 and cannot be converted to 13: .*; export it again"),
        (_weight(dims=[10**6, 10**6]), r"initializer 'w' says \[1000000, 1000000\] f32, .* but holds 12"),
        (_weight(dims=[-3]), r"initializer 'w' has shape \[-3\]"),
        (_weight(dims=[0, 2**62], raw_data=b""), r"initializer 'w' has shape \[0, 4611686018427387904\]"),
        (_weight(data_type=99), "initializer 'w' has element type 99"),
        (lambda m: m.graph.initializer.append(m.graph.initializer[0]), "defines the value 'w' twice"),
        (_weight(name=""), "an initializer or input without a name"),
        (_node(input=["x", "nowhere"]), "node 'first' reads 'nowhere', which nothing defines"),
        (_node(input=["y", "w"]), "node 'first' depends on its own output"),
        (_node(output=["x"]), "nothing defines|defines the value 'x' twice"),
        (_node(input=["x"]), r"node 'first' \(Add\) is wrong: input 'B' is missing"),
        (_node(input=["x", "w", "w"]), "takes at most 2 inputs, not 3"),
        (_node(output=["a", "b"]), "does not have 2 outputs"),
        (_attribute(axis=1), "attribute 'axis' is not one of Add at opset 18"),
        (_weight(dims=[3], data_type=TensorProto.INT32), "must have one element type, not f32 and i32"),
        (_weight(dims=[1], raw_data=b"abcd", data_type=TensorProto.STRING), "holds 0 strings"),
        (
            lambda m: m.graph.output[0].ClearField("type") or _node(1, op_type="Strange")(m),
            "not a tensor of a kn",
        ),
        (lambda m: setattr(m.graph.output[0], "name", "z"), "no node computes the output 'z'"),
        (lambda m: m.graph.output.append(m.graph.output[0]), "lists the output 'y' twice"),
        (_sequence_input, "input 'x' is not a tensor of a known type; export the model with tensor inputs"),
        (_recursive_function, "function 'F' calls itself or nests too deeply"),
        (_function_bomb, "inlining its functions gives over 1000000 nodes"),
        (
            _functions({"ai.onnx.ml": 4}, {"ai.onnx.ml": 3}),
            r"function 'F0' cannot be inlined: it imports 'ai.onnx.ml' 3, and the model 4; export it without",
        ),
        (
            _functions({}, {"ai.onnx.ml": 3}, {"ai.onnx.ml": 4}),
            r"function 'F1' imports 'ai.onnx.ml' 4, and another one 3; export it without",
        ),
        (_sparse([10**6, 10**6]), "'s0' is sparse with shape .* for 1 values; refused"),
        (_sparse(*[[10**6]] * 5), r"'s4' is sparse with shape \[1000000\] for 1 values; refused"),
    ],
)
def test_models_that_are_wrong(change: Callable[[onnx.ModelProto], None], message: str) -> None:
    proto = model()
    change(proto)
    with pytest.raises(ModelError, match=message) as caught:
        read_onnx(proto)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "../outside.bin"}, "outside the model's folder; refused"),
        ({"location": "/etc/passwd"}, "outside the model's folder; refused"),
        ({"location": "link.bin"}, "outside the model's folder; refused"),
        ({"location": ""}, "refused"),
        ({"location": "gone.bin"}, "which is missing; put the file beside the model"),
        ({"location": "w.bin", "offset": "8"}, "needs 12 bytes, but .* which has 12"),
        ({"location": "w.bin", "offset": "-4"}, "needs 12 bytes"),
        ({"location": "w.bin", "length": "8"}, "needs 12 bytes"),
        ({"location": "w.bin", "offset": "many"}, "damaged external-data entry"),
    ],
)
def test_external_data_that_is_wrong(entries: dict[str, str], message: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "outside.bin").write_bytes(bytes(12))
    (folder / "w.bin").write_bytes(bytes(12))
    (folder / "link.bin").symlink_to(tmp_path / "outside.bin")
    proto = model()
    weight = proto.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        weight.external_data.add(key=key, value=value)
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match=message):
        read_onnx(folder / "m.onnx")
    with pytest.raises(ModelError, match="give the path of the model instead of its bytes"):
        read_onnx(proto)


def test_external_data_whose_place_is_not_clear(tmp_path: Path) -> None:
    """Of two locations some readers take the first, others the last: what is checked would not be read."""
    (tmp_path / "w.bin").write_bytes(bytes(12))
    for key, text in (("location", b"/etc/passwd"), ("comment", b"\xff\xfe is no text")):
        proto = model()
        weight = proto.graph.initializer[0]
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value="w.bin")
        weight.external_data.add(key=key, value="?" * len(text))
        (tmp_path / "m.onnx").write_bytes(proto.SerializeToString().replace(b"?" * len(text), text))
        for read in (read_onnx, check_model, file_identity, partial(copied_hashes, name="m")):
            with pytest.raises(ModelError, match="'w' has external-data entries that are no text, or two of"):
                read(tmp_path / "m.onnx")


def test_weights_in_a_cache_of_links(tmp_path: Path) -> None:
    """Hugging Face keeps a model as links into a folder of blobs: nothing outside of that may be named."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "1"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / "weights").write_bytes(np.ones(3, np.float32).tobytes())
    (tmp_path / "outside.bin").write_bytes(bytes(12))
    (snapshot / "m.data").symlink_to("../../blobs/weights")
    (snapshot / "link.bin").symlink_to("../../outside.bin")
    (snapshot / "m.onnx").symlink_to("../../blobs/model")

    def naming(location: str) -> Path:
        proto = model()
        weight = proto.graph.initializer[0]
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value=location)
        (blobs / "model").write_bytes(proto.SerializeToString())
        return snapshot / "m.onnx"

    np.testing.assert_array_equal(read_onnx(naming("m.data")).constants["w"], [1, 1, 1])
    assert [file.name for file in model_files(snapshot / "m.onnx")] == ["m.onnx", "m.data"]
    for location in ("link.bin", "../../blobs/weights", str(blobs / "weights"), "../../outside.bin"):
        for read in (read_onnx, model_files):
            with pytest.raises(ModelError, match="refused"):
                read(naming(location))


def test_what_no_schema_forbids() -> None:
    """Of operators in other domains: more outputs than there are, an attribute of another kind."""
    for changes, outputs, message in (
        ({"block_size": "16"}, ["a"], r"node 'a' \(MatMulNBits\): its attributes do not fit its inputs"),
        ({}, ["a", "z"], "has 2 outputs, and matmul_n_bits gives 1"),
    ):
        proto = model()
        given = {"K": 3, "N": 2, "bits": 4, "block_size": 16, **changes}
        node = helper.make_node("MatMulNBits", ["x", "b", "s"], outputs, domain="com.microsoft", **given)
        proto.graph.node[0].CopyFrom(node)
        for name, array in (("b", np.zeros((2, 1, 8), np.uint8)), ("s", np.ones(2, np.float32))):
            proto.graph.initializer.append(numpy_helper.from_array(array, name))
        with pytest.raises(ModelError, match=message):
            read_onnx(proto)


def test_scales_without_end() -> None:
    proto = model()
    proto.graph.node[0].CopyFrom(
        helper.make_node(
            "Resize", ["x", "", "s"], ["a"], coordinate_transformation_mode="align_corners", mode="linear"
        )
    )
    proto.graph.initializer.append(numpy_helper.from_array(np.array([1, np.inf], np.float32), "s"))
    with pytest.raises(ModelError, match=r"node 'a' \(Resize\): its attributes do not fit its inputs"):
        read_onnx(proto)


OLD = """
    <ir_version: 8, opset_import: ["" : {opset}]>
    g (float[1, 1, 4, 4] x, float[4] s) => (float[1, 1, h, w] y) <float[4] t = {{1.0, 1.0, 2.0, 0.5}}> {{
        y = {node}
    }}
"""
FUNCTION = '<domain: "local", opset_import: ["" : 10]> resized (a, b) => (c) { c = Resize (a, b) }'
ADDED = """<domain: "local", opset_import: ["" : 6]>
    added (a, b) => (c) { c = Add <broadcast = 1, axis = 1> (a, b) }
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OLD.format(opset="12", node="Hardmax (x)"), "has a Hardmax of opset 12, over a matrix, which"),
        (OLD.format(opset="10", node="Resize (x, t)"), "by scales that are no constants or both enlarge and"),
        (OLD.format(opset="10", node="Resize (x, s)"), "by scales that are no constants or both enlarge and"),
        (
            OLD.format(opset='18, "local" : 1', node="local.resized (x, s)") + FUNCTION,
            "function 'resized' has a Resize of opset 10, .* export it again at opset 11 or newer",
        ),
        (
            OLD.format(opset='18, "local" : 1', node="local.added (x, s)") + ADDED,
            "function 'added': node 'c' \\(Add of opset 6\\) has an operand along an axis that nothing",
        ),
    ],
)
def test_operators_that_became_others_are_refused(text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read_onnx(parser.parse_model(text))


def test_chains_of_products_stay_bounded() -> None:
    """Each Tile squares the symbolic shape: 2**40 terms if nothing stopped it."""
    nodes = []
    for level in range(40):
        nodes.append(helper.make_node("Shape", [f"x{level}"], [f"s{level}"]))
        nodes.append(helper.make_node("Tile", [f"x{level}", f"s{level}"], [f"x{level + 1}"]))
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x0", FLOAT, ["n", "m"])],
        [helper.make_tensor_value_info("x40", FLOAT, None)],
    )  # fmt: skip
    start = time.process_time()
    read_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))
    assert time.process_time() - start < 60


def test_seeds_of_the_mutants_import() -> None:
    assert [fuzz_importer.check(data) for data in fuzz_importer.seeds()] == ["imported"] * 3


def test_mutants_raise_nothing_but_tensmith_errors() -> None:
    totals, failures = fuzz_importer.run(400, first=random.Random(1).randrange(10**6))
    assert failures == {}
    assert min(totals["imported"], totals["refused"]) > 40
