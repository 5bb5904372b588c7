"""Decoders without caches get them: the same tokens come out, and what looks ahead is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from command_line import refused, tensmith
from tensmith import load
from tensmith.deploy.caching import CachedDecoder, apart, cached_decoder
from tensmith.deploy.generation import TokenDecoder
from tensmith.deploy.slots import SlotDecoders
from tensmith.errors import ModelError
from tensmith.frontend.onnx import read_onnx

VOCABULARY, WIDTH, HEADS, MOST = 31, 16, 2, 64
HEAD = WIDTH // HEADS


def decoder(
    path: Path,
    *,
    mask: str = "compared",
    merged: bool = False,
    causal: bool = True,
    ahead: int = 0,
    scaled: bool = False,
    word: float = 0.0,
    most: int = MOST,
) -> Path:
    """Two layers of attention over learned positions, as exporters write them.

    mask: -inf in a triangle, or chosen by comparing positions. merged: products on [batch * length, width].
    ahead: what is so far ahead is seen. scaled: queries grow with the length beyond 32. word: added to the
    last logit. most: tokens that there are positions for.
    """
    random = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    arrays: dict[str, np.ndarray] = {}

    def constant(name: str, value: object) -> str:
        arrays[name] = np.asarray(value)
        return name

    def weight(name: str, *shape: int) -> str:
        return constant(name, (random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32))

    def add(op: str, *inputs: str, **attrs: object) -> str:
        name = f"{op}_{len(nodes)}"
        nodes.append(helper.make_node(op, inputs, [name], **attrs))
        return name

    def product(x: str, w: str, out: int) -> str:
        if not merged:
            return add("MatMul", x, w)
        flat = add("Reshape", x, constant("flat", np.array([-1, WIDTH])))
        made = add("Gemm", flat, w, constant("bias", np.zeros(WIDTH, np.float32)))
        return add("Reshape", made, add("Concat", batch, length, constant("width", np.array([out])), axis=0))

    one, zero = constant("one", np.array([1])), constant("zero", np.array([0]))
    batch = add("Shape", "ids", start=0, end=1)
    length = add("Shape", "ids", start=1, end=2)
    count = add("Squeeze", length, zero)
    places = add("Range", constant("start", np.array(0)), count, constant("step", np.array(1)))
    x = add("Gather", weight("words", VOCABULARY, WIDTH), "ids")
    x = add("Add", x, add("Gather", weight("positions", most, WIDTH), places))
    square = add("Concat", length, length, axis=0)
    if mask == "triangle":
        full = add("Expand", constant("never", np.array(-np.inf, np.float32)), square)
        hidden = add("Trilu", full, constant("above", np.array(1)), upper=1)
    else:
        rows, columns = add("Unsqueeze", places, one), add("Unsqueeze", places, zero)
        seen = add("LessOrEqual", columns, rows) if causal else add("GreaterOrEqual", columns, rows)
        if ahead:
            far = add("Add", rows, constant("far", np.array(ahead)))
            seen = add("Or", seen, add("GreaterOrEqual", columns, far))
        no = constant("no", np.array(-3e38, np.float32))
        hidden = add("Where", seen, constant("yes", np.array(0, np.float32)), no)
    split = constant("split", np.array([0, 0, HEADS, HEAD]))
    joined = constant("joined", np.array([0, 0, WIDTH]))
    for layer in range(2):
        normal = add("LayerNormalization", x, constant(f"scale{layer}", np.ones(WIDTH, np.float32)), axis=-1)
        parts = [product(normal, weight(f"{part}{layer}", WIDTH, WIDTH), WIDTH) for part in "qkv"]
        q, k, v = (add("Transpose", add("Reshape", part, split), perm=[0, 2, 1, 3]) for part in parts)
        if scaled:
            share = add("Div", add("Cast", count, to=TensorProto.FLOAT), constant("32", np.float32(32)))
            q = add("Mul", q, add("Max", share, constant("1", np.float32(1))))
        scores = add("MatMul", q, add("Transpose", k, perm=[0, 1, 3, 2]))
        shares = add("Softmax", add("Add", scores, hidden), axis=-1)
        found = add("Reshape", add("Transpose", add("MatMul", shares, v), perm=[0, 2, 1, 3]), joined)
        x = add("Add", x, product(found, weight(f"o{layer}", WIDTH, WIDTH), WIDTH))
    last = np.where(np.arange(VOCABULARY) == VOCABULARY - 1, word, 0).astype(np.float32)
    logits = add("MatMul", x, weight("head", WIDTH, VOCABULARY))
    nodes.append(helper.make_node("Add", [logits, constant("last", last)], ["logits"]))
    graph = helper.make_graph(
        nodes, "decoder",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "length"])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "length", VOCABULARY])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


def made(path: Path, target: Path) -> CachedDecoder:
    model = load(path)
    return cached_decoder(model.program, TokenDecoder(model.session), target, "onnxruntime", 1)


@pytest.mark.parametrize("merged", [False, True], ids=["apart", "merged"])
@pytest.mark.parametrize("mask", ["triangle", "compared"])
def test_rows_are_computed_once(mask: str, merged: bool, tmp_path: Path) -> None:
    found = made(decoder(tmp_path / "d.onnx", mask=mask, merged=merged), tmp_path / "c.onnx")
    assert found.compared.apart < 1e-5
    assert 32 < found.compared.tokens <= MOST, "as many as there are positions for"
    assert len(found.caches) == 4, "keys and values of two layers, as large as they are computed"
    program = read_onnx(tmp_path / "c.onnx")
    caches = [type_ for name, type_ in program.inputs.items() if name.startswith("past")]
    assert {tuple(map(str, type_.dims)) for type_ in caches} == {("batch", str(HEADS), "before", str(HEAD))}


def test_batches_and_parts_of_a_prompt(tmp_path: Path) -> None:
    source = decoder(tmp_path / "d.onnx", mask="triangle")
    made(source, tmp_path / "c.onnx")
    ids = np.random.default_rng(1).integers(0, VOCABULARY, (3, 12))
    whole = onnxruntime.InferenceSession(source).run(None, {"ids": ids})[0]
    session = onnxruntime.InferenceSession(tmp_path / "c.onnx")
    names = [output.name for output in session.get_outputs()]
    state = {
        spec.name: np.zeros((3, HEADS, 0, HEAD), np.float32)
        for spec in session.get_inputs()
        if spec.name != "ids"
    }
    rows = []
    for start, stop in ((0, 5), (5, 6), (6, 12)):
        found = dict(zip(names, session.run(None, {"ids": ids[:, start:stop], **state})))
        rows.append(found["logits"])
        state = {name: found[name.replace("past_key_values", "present")] for name in state}
    np.testing.assert_allclose(np.concatenate(rows, axis=1), whole, rtol=1e-4, atol=1e-4)


def test_what_looks_ahead_is_refused(tmp_path: Path) -> None:
    source = decoder(tmp_path / "d.onnx", causal=False)
    with pytest.raises(ModelError, match="look at later ones"):
        made(source, tmp_path / "c.onnx")
    assert len(load(source).generate([1, 2], 9)) == 9, "then the whole text is computed"


@pytest.mark.parametrize(
    "wrong",
    [
        {"causal": False, "word": -1e9},
        {"causal": False, "word": -np.inf},
        {"ahead": 20},
        {"scaled": True},
    ],
    ids=["beside one huge logit", "beside a word ruled out", "20 ahead", "beyond 32 tokens"],
)
def test_what_hides_from_a_short_comparison(wrong: dict[str, Any], tmp_path: Path) -> None:
    source = decoder(tmp_path / "d.onnx", **wrong)
    with pytest.raises(ModelError, match="of their range apart"):
        made(source, tmp_path / "c.onnx")


def test_a_word_that_is_ruled_out_is_no_difference(tmp_path: Path) -> None:
    found = made(decoder(tmp_path / "d.onnx", word=-np.inf), tmp_path / "c.onnx")
    assert found.compared.apart < 1e-5


def test_rows_of_logits() -> None:
    row = np.array([3.0, 1.0, -1e9, -np.inf])
    assert apart(row, row) == 0.0
    assert apart(row + np.array([0, 0, 1e3, 0]), row) == 0.0, "too far below the best to be said"
    assert apart(row + np.array([0, 1, 0, 0]), row) == 0.5
    for broken in (np.nan, np.inf, -np.inf):
        assert apart(np.array([3.0, broken, -1e9, -np.inf]), row) == np.inf
        assert apart(row, np.array([3.0, broken, -1e9, -np.inf])) == np.inf


def test_longer_texts_are_compared_again(tmp_path: Path) -> None:
    found = made(decoder(tmp_path / "d.onnx"), tmp_path / "c.onnx")
    text = np.random.default_rng(0).integers(0, VOCABULARY, 40).tolist()
    whole = found.original.rows(text)[-1]
    found.compared = replace(found.compared, tokens=16)
    np.testing.assert_array_equal(found.fed(text, 0, found.nothing())[0], whole)
    assert found.compared.tokens == 40
    found.original = TokenDecoder(load(decoder(tmp_path / "other.onnx", word=5.0)).session)
    found.compared = replace(found.compared, tokens=16)
    other = found.original.rows(text)[-1]
    np.testing.assert_array_equal(found.fed(text, 0, found.nothing())[0], other)
    assert found.compared.apart > 0.1
    np.testing.assert_array_equal(found.fed(text[:9], 8, {})[0], found.original.rows(text[:9])[-1])


def test_generating_uses_them_and_says_the_same(tmp_path: Path) -> None:
    source = decoder(tmp_path / "d.onnx")
    model = load(source)
    known = [3, 1]
    for _ in range(12):  # one token at a time is too few for caches
        known += model.generate(known, 1)
    assert model._cached_decoder is not None
    assert model.generate([3, 1], 12) == known[2:]


@pytest.mark.parametrize(("mask", "merged"), [("triangle", False), ("compared", True)])
def test_compiled_for_one_token_at_a_time_it_says_the_same(mask: str, merged: bool, tmp_path: Path) -> None:
    source = decoder(tmp_path / "d.onnx", mask=mask, merged=merged)
    plain, model = load(source), load(source, engine="native")
    wanted = plain.generate([3, 1], 30)
    assert model.generate([3, 1], 30) == wanted
    assert model.generate([3, 1], 30, temperature=1.0) == plain.generate([3, 1], 30, temperature=1.0)
    slots = model.decoder
    assert isinstance(slots, SlotDecoders) and list(slots.made) == [MOST]
    assert slots.made[MOST].compared.apart < 1e-5 and slots.made[MOST].compared.tokens == MOST


def test_a_compiled_step_is_compared_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = decoder(tmp_path / "ahead.onnx", causal=False)
    assert load(ahead, engine="native").generate([3, 1], 9) == load(ahead).generate([3, 1], 9)
    model = load(decoder(tmp_path / "d.onnx"), engine="native")
    slots = model.decoder
    assert isinstance(slots, SlotDecoders)
    wanted = [3, 1, *model.generate([3, 1], 40)]
    other = load(decoder(tmp_path / "other.onnx", word=5.0))
    step = slots.made[MOST]
    step.original, step.compared = TokenDecoder(other.session), replace(step.compared, tokens=16)
    assert model.generate(wanted[:9], 9) == wanted[9:18], "not again before 32 tokens"
    step.compared = replace(step.compared, tokens=8)
    assert model.generate(wanted[:20], 9) == other.generate(wanted[:20], 9), "the original has the last word"
    assert step.compared.apart > 0.1
    assert model.generate([3, 1], 9) == other.generate([3, 1], 9), "from then on"
    early, drawn = replace(step.compared, apart=0.0, tokens=6), {"temperature": 1.0, "seed": 3}
    step.original, step.compared = TokenDecoder(load(tmp_path / "d.onnx").session), early
    wanted, step.compared = model.generate([3, 1], 30, **drawn), early
    monkeypatch.setattr("tensmith.deploy.caching.apart", lambda *_: 1.0)
    assert model.generate([3, 1], 30, **drawn) == wanted, "what draws the tokens goes on where it was"
    assert step.compared.apart == 1.0


def test_a_step_of_as_many_tokens_as_the_model_takes(tmp_path: Path) -> None:
    source = decoder(tmp_path / "d.onnx", most=70)
    said = load(source, engine="native").generate([3, 1], 68)
    assert said == load(source).generate([3, 1], 68)


def test_the_command_writes_a_file_that_generates(tmp_path: Path) -> None:
    decoder(tmp_path / "d.onnx")
    document = json.loads(tensmith("cache", "d.onnx", "--json", folder=tmp_path).stdout)
    assert (
        document["caches"] == 4
        and document["tested_tokens"] > 32
        and document["evidence"] == "tested"
        and document["apart"] < 1e-5
    )
    words = ("generate", "--tokens", "1,2", "--max-new-tokens", "9", "--json")
    said = [
        json.loads(tensmith(*words, name, folder=tmp_path).stdout) for name in ("d.onnx", "d.cached.onnx")
    ]
    assert said[0]["tokens"] == said[1]["tokens"]
    refused(tensmith("cache", "d.cached.onnx", folder=tmp_path), 1, "has caches already")


def test_a_node_that_mixes_rows_is_named(tmp_path: Path) -> None:
    model = onnx.load(decoder(tmp_path / "d.onnx"))
    last = model.graph.node[-1]
    model.graph.node.insert(
        len(model.graph.node) - 1, helper.make_node("CumSum", [last.input[0], "one"], ["sums"])
    )
    last.input[0] = "sums"
    onnx.save(model, tmp_path / "mixed.onnx")
    refused(tensmith("cache", "mixed.onnx", folder=tmp_path), 1, "(cum_sum)", "rows of tokens")
    assert not (tmp_path / "mixed.cached.onnx").exists()


@pytest.mark.data
def test_a_real_one(data_dir: Path, tmp_path: Path) -> None:
    found = made(data_dir / "models" / "stories260k.onnx", tmp_path / "c.onnx")
    assert len(found.caches) == 10 and found.compared.apart < 1e-4 and found.compared.tokens > 256
