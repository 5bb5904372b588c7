"""Programs go back into GGUF files with every number they have; another decoder is refused by name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from command_line import read_json, refused, tensmith
from gguf_models import VOCABULARY, gpt2_model, rotary_model, stories, written
from tensmith.backend.onnx import to_onnx
from tensmith.data.gguf import open_gguf
from tensmith.deploy.as_gguf import as_gguf
from tensmith.errors import ModelError
from tensmith.frontend.gguf import read_gguf
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program, make_node
from tensmith.ir.interpreter import interpret
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import Step
from tensmith.rewrite.trail import simplify

TOKENS = {"tokens": np.random.default_rng(3).integers(0, VOCABULARY, (2, 9))}


def put(path: Path, model: tuple[dict, dict], kind: str = "F32") -> Path:
    path.write_bytes(written(model, kind))
    return path


def logits(program: Program) -> np.ndarray:
    return interpret(program, TOKENS)["logits"]


@pytest.mark.parametrize("kind", ("F32", "Q8_0", "Q4_0"))
@pytest.mark.parametrize("codes", (True, False))
@pytest.mark.parametrize(
    "model", (rotary_model(), rotary_model("qwen2", tied=True), gpt2_model()), ids=("llama", "qwen2", "gpt2")
)
def test_what_did_not_change_is_written_as_it_was(
    model: tuple[dict, dict], kind: str, codes: bool, tmp_path: Path
) -> None:
    file = put(tmp_path / "m.gguf", model, kind)
    program = read_onnx(to_onnx(read_gguf(file, codes)).SerializeToString())
    content, _ = as_gguf(program, file)
    before, after = open_gguf(file), open_gguf(content)
    assert list(before.tensors) == list(after.tensors)
    for name, tensor in before.tensors.items():
        assert after.tensors[name].kind == tensor.kind
        np.testing.assert_array_equal(after.tensors[name].data, tensor.data)
    assert {key: before.entries[key] for key in before.entries} == {
        key: after.entries[key] for key in before.entries
    }


STEPS = {
    "rounded": Step("weight_only", params={"stored": "floats", "default_bits": 8}, kind="lossy"),
    "codes": Step("weight_only", params={"stored": "codes", "default_bits": 8}, kind="lossy"),
    "int4": Step("block_int4", kind="lossy"),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("tied", (False, True))
def test_new_weights_are_written_and_no_number_changes(step: str, tied: bool, tmp_path: Path) -> None:
    file = put(tmp_path / "m.gguf", rotary_model(tied=tied))
    start = simplify(read_gguf(file, codes=False)).program
    program = apply_lossy(start, STEPS[step], calibration=None)
    content, kinds = as_gguf(program, file)
    np.testing.assert_allclose(logits(read_gguf(content)), logits(program), atol=1e-5)
    assert abs(logits(program) - logits(start)).max() > 1e-3
    assert set(kinds.values()) == {"F32"}  # their scales are no halves


def test_the_smallest_exact_type_is_taken(tmp_path: Path) -> None:
    file = put(tmp_path / "m.gguf", rotary_model())
    start = simplify(read_gguf(file, codes=False)).program
    coded = {name: read_gguf(written(rotary_model(), name), codes=False) for name in ("Q8_0", "Q4_0")}

    def turned(name: str, kind: str) -> np.ndarray:
        return coded[kind].constants[name].T

    up, down, gate, q = (
        f"blk.0.{name}.weight.turned" for name in ("ffn_up", "ffn_down", "ffn_gate", "attn_q")
    )
    short = start.constants[q].view(np.uint32) & 0xFFFF0000
    program = start.with_constants(
        {
            up: turned("blk.0.ffn_up.weight", "Q8_0"),
            down: turned("blk.0.ffn_down.weight", "Q4_0"),
            gate: start.constants[gate].astype(np.float16).astype(np.float32),
            q: short.view(np.float32) * np.float32(2**-30),
        }
    )
    content, kinds = as_gguf(program, file)
    found = [kinds[f"blk.0.{name}.weight"] for name in ("ffn_up", "ffn_down", "ffn_gate", "attn_q")]
    assert found == ["Q8_0", "Q4_0", "F16", "BF16"]
    np.testing.assert_allclose(logits(read_gguf(content)), logits(program), atol=1e-5)


def _another(program: Program) -> dict[str, Program]:
    """Programs that are not the file's decoder with other weights."""
    constants = dict(program.constants)
    epsilon = next(n for n, a in constants.items() if a.size == 1 and 0 < a < 1e-4)
    bent = make_node("tanh", ("sums",), ("logits",))
    renamed = [replace(n, outputs=("sums",)) if n.output == "logits" else n for n in program.nodes]
    return {
        "in place of the constant": program.with_constants({epsilon: constants[epsilon] * 2}),
        "otherwise than 'logits'": replace(program, nodes=(*renamed, bent)),
    }


def test_another_decoder_is_refused_by_name(tmp_path: Path) -> None:
    file = put(tmp_path / "m.gguf", rotary_model())
    program = simplify(read_gguf(file, codes=False)).program
    for said, other in _another(program).items():
        with pytest.raises(ModelError, match=said):
            as_gguf(other, file)
    with pytest.raises(ModelError, match=r"is not .*q\.gguf with other weights"):
        as_gguf(program, put(tmp_path / "q.gguf", gpt2_model()))
    factors = Step("low_rank", "blk.0.ffn_up", {"rank": 4, "criterion": "weights"}, "lossy")
    with pytest.raises(ModelError, match=r"'blk\.0\.ffn_up"):
        as_gguf(apply_lossy(program, factors, calibration=None), file)


# Commands


def test_commands_take_gguf_files(tmp_path: Path) -> None:
    put(tmp_path / "m.gguf", rotary_model(), "Q8_0")
    said = tensmith(
        "generate", "m.gguf", "--prompt", "ab", "--max-new-tokens", "9", "--json", folder=tmp_path
    )
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["prompt_tokens"] == [1, 264]
    shown = tensmith("inspect", "m.gguf", folder=tmp_path).stdout
    assert "general.architecture: llama" in shown
    assert "blk.0.attn_q.weight" in shown and "8.50 bits  Q8_0" in shown
    for words in (
        ("bench", "m.gguf", "--engines", "onnxruntime", "--seconds", "0.1"),
        ("explain", "m.gguf"),
        ("cache", "m.gguf", "cached.onnx"),
        ("convert", "m.gguf", "m.onnx"),
        ("convert", "m.gguf", "again.gguf"),
        ("convert", "m.onnx", "third.gguf", "--like", "m.gguf"),
        ("diff", "m.gguf", "m.onnx"),
    ):
        outcome = tensmith(*words, folder=tmp_path)
        assert outcome.returncode == 0, (words, outcome.stderr)
    whole, third = (open_gguf(tmp_path / name).tensors for name in ("m.gguf", "third.gguf"))
    assert {n: t.data.tobytes() for n, t in whole.items()} == {n: t.data.tobytes() for n, t in third.items()}


def test_what_cannot_be_converted_is_said(tmp_path: Path) -> None:
    put(tmp_path / "m.gguf", rotary_model())
    assert tensmith("convert", "m.gguf", "m.onnx", folder=tmp_path).returncode == 0
    for code, words, said in (
        (2, ("convert", "m.onnx", "n.gguf"), "--like FILE.gguf"),
        (2, ("convert", "m.gguf", "m.bin"), "ends in .gguf or .onnx"),
        (1, ("convert", "m.gguf", "m.onnx"), "--force"),
        (1, ("pack", "m.gguf"), "tensmith convert"),
    ):
        refused(tensmith(*words, folder=tmp_path), code, said)


@pytest.mark.data
def test_a_gguf_file_is_compressed_and_written_back(data_dir: Path, tmp_path: Path) -> None:
    put(tmp_path / "s.gguf", stories(data_dir))
    text = "Once upon a time there was a girl. She was happy. " * 40
    (tmp_path / "s.txt").write_text("<|endoftext|>".join([text] * 12))
    outcome = tensmith(
        "compress", "s.gguf", "--data", "text:s.txt?tokenizer=s.gguf&max_length=32", "--measure", "loss",
        "--engines", "onnxruntime", "--time-budget", "1s", "--output", "out", folder=tmp_path,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr
    front = read_json(tmp_path / "out" / "front.json")
    assert front["points"]
    assert "s.gguf" in (tmp_path / "out" / "config.yaml").read_text()
    assert tensmith("explain", "out", folder=tmp_path).returncode == 0
    (tmp_path / "out" / "work" / "model.onnx").unlink()
    verified = tensmith("verify", "out/best", "--original", "s.gguf", folder=tmp_path)
    assert verified.returncode == 0, verified.stdout
    assert "s.gguf, as ONNX" in " ".join(verified.stdout.split())
    put(tmp_path / "other.gguf", rotary_model())
    other = tensmith("verify", "out/best", "--original", "other.gguf", folder=tmp_path)
    refused(other, 1, "other.gguf is not the original")
