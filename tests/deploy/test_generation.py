"""Decoders go on with a text: with caches and without, of open and of fixed length."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from command_line import refused, tensmith
from gguf_models import gpt2_model, rotary_model, written
from tensmith import load, quantize
from tensmith.data.tokenizers import ByteTokenizer, LlamaTokenizer, TokenizerFile
from tensmith.deploy.generation import Sampling
from tensmith.errors import DataError, ModelError, OutputError, UsageError

VOCABULARY, WIDTH = 23, 8
_RANDOM = np.random.default_rng(3)
TABLES = {
    "embedding": _RANDOM.standard_normal((VOCABULARY, WIDTH)).astype(np.float32),
    "head": _RANDOM.standard_normal((WIDTH, VOCABULARY)).astype(np.float32),
}
PROMPT = [3, 1, 4]


def decoder(
    path: Path,
    *,
    cached: bool = False,
    joined: bool = True,
    length: int | str = "length",
    causal: bool = True,
    ruled_out: float = 0.0,
) -> Path:
    """Logits of the sum of all embeddings and positions up to each token; [1, 1, P, WIDTH] is cached,
    old and new ones `joined` or new ones alone. The last token's logit has `ruled_out` added."""
    nodes = [
        helper.make_node("Gather", ["embedding", "input_ids"], ["words"]),
        helper.make_node("Cast", ["position_ids"], ["place"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["place", "last"], ["places"]),
        helper.make_node("Add", ["words", "places"], ["each"]),
        helper.make_node("Unsqueeze", ["each", "one"], ["new"]),
    ]
    if cached:
        nodes.append(helper.make_node("Concat", ["past_key_values.0.key", "new"], ["all"], axis=2))
        nodes.append(helper.make_node("Identity", ["all" if joined else "new"], ["present.0.key"]))
    seen = "all" if cached else "new"
    if causal:
        nodes.append(helper.make_node("CumSum", [seen, "two"], ["sums"]))
    else:
        nodes.append(helper.make_node("ReduceSum", [seen, "axes"], ["total"]))
        nodes.append(helper.make_node("Add", [seen, "total"], ["sums"]))
    nodes += [
        helper.make_node("Squeeze", ["sums", "one"], ["flat"]),
        helper.make_node("Shape", ["input_ids"], ["count"], start=1),
        helper.make_node("Neg", ["count"], ["first"]),
        helper.make_node("Slice", ["flat", "first", "end", "one"], ["tail"]),
        helper.make_node("MatMul", ["tail", "head"], ["scores"]),
        helper.make_node("Add", ["scores", "bias"], ["logits"]),
    ]
    numbers = {"last": [-1], "one": [1], "axes": [2], "end": [2**40]}
    tables = {**TABLES, **{name: np.array(value) for name, value in numbers.items()}, "two": np.array(2)}
    tables["bias"] = np.array([*(VOCABULARY - 1) * [0], ruled_out], np.float32)
    info = helper.make_tensor_value_info
    inputs = [info(name, TensorProto.INT64, [1, length]) for name in ("input_ids", "position_ids")]
    outputs = [info("logits", TensorProto.FLOAT, [1, length, VOCABULARY])]
    if cached:
        inputs.append(info("past_key_values.0.key", TensorProto.FLOAT, ["batch", 1, "past", WIDTH]))
        outputs.append(info("present.0.key", TensorProto.FLOAT, ["batch", 1, "total", WIDTH]))
    graph = helper.make_graph(
        nodes, "decoder", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in tables.items()]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def logits(tokens: list[int]) -> Any:
    words = TABLES["embedding"][tokens] + np.arange(len(tokens), dtype=np.float32)[:, None]
    return words.sum(0) @ TABLES["head"]


def likeliest(count: int) -> list[int]:
    tokens = list(PROMPT)
    for _ in range(count):
        tokens.append(int(logits(tokens).argmax()))
    return tokens[len(PROMPT) :]


@pytest.mark.parametrize(
    "how", [{}, {"cached": True}, {"cached": True, "length": 1}, {"length": 12}], ids=str
)
def test_the_likeliest_tokens(how: dict[str, Any], tmp_path: Path) -> None:
    assert load(decoder(tmp_path / "m.onnx", **how)).generate(PROMPT, 9) == likeliest(9)


def test_a_cache_of_new_tokens_alone_is_refused(tmp_path: Path) -> None:
    model = load(decoder(tmp_path / "m.onnx", cached=True, joined=False))
    with pytest.raises(ModelError, match="holds new tokens alone"):
        model.generate(PROMPT, 9)


def test_a_cache_is_fed_one_token_at_a_time(tmp_path: Path) -> None:
    model = load(decoder(tmp_path / "m.onnx", cached=True))
    fed, run = [], model.session.run
    model.session.run = lambda inputs: fed.append(inputs["input_ids"].shape[1]) or run(inputs)  # type: ignore[method-assign,func-returns-value]
    model.generate(PROMPT, 4)
    assert fed == [3, 1, 1, 1]


def test_what_is_drawn_follows_the_shares_and_repeats(tmp_path: Path) -> None:
    model = load(decoder(tmp_path / "m.onnx"))
    drawn = [model.generate(PROMPT, 6, temperature=9.0, seed=seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    scores, drawer = np.log([0.5, 0.3, 0.15, 0.05]), np.random.default_rng(0)
    seen = np.bincount([Sampling(1.0).token(scores, drawer) for _ in range(4000)], minlength=4) / 4000
    assert np.allclose(seen, [0.5, 0.3, 0.15, 0.05], atol=0.03)
    nucleus = {Sampling(1.0, top_p=0.7).token(scores, drawer) for _ in range(200)}
    assert nucleus == {0, 1}


def test_a_token_may_end_it(tmp_path: Path) -> None:
    wanted = likeliest(9)
    assert (
        load(decoder(tmp_path / "m.onnx")).generate(PROMPT, 9, stop=[wanted[4]])
        == wanted[: wanted.index(wanted[4])]
    )


@pytest.mark.parametrize("ruled_out", [0.0, -np.inf, np.finfo(np.float32).min])
def test_a_fixed_length_that_looks_ahead_is_refused(ruled_out: float, tmp_path: Path) -> None:
    assert len(load(decoder(tmp_path / "m.onnx", length=12, ruled_out=ruled_out)).generate(PROMPT, 2)) == 2
    model = load(decoder(tmp_path / "m.onnx", length=12, causal=False, ruled_out=ruled_out))
    with pytest.raises(ModelError, match="exactly 12 tokens and looks at those to come"):
        model.generate(PROMPT, 2)
    model.generate([*PROMPT, *PROMPT, *PROMPT, *PROMPT][:12], 1)  # nothing comes after it
    with pytest.raises(ModelError, match="exactly 12 tokens and looks at those to come"):
        model.generate(PROMPT, 2)
    with pytest.raises(UsageError, match="do not fit: the model takes 12"):
        model.generate(PROMPT, 11)
    with pytest.raises(ModelError, match="exactly 12 tokens beside its caches"):
        load(decoder(tmp_path / "m.onnx", cached=True, length=12)).generate(PROMPT)


@pytest.mark.parametrize("prompt", [[], [3, -1], [3, VOCABULARY], [10**30], [True], [1.5]])
def test_tokens_that_the_model_does_not_have(prompt: list[int], tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        load(decoder(tmp_path / "m.onnx")).stream(prompt)


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"top_p": 0.0},
        {"max_new_tokens": 0},
        {"seed": -1},
    ],
)
def test_what_cannot_be_asked(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        load(decoder(tmp_path / "m.onnx")).generate(PROMPT, **wrong)


def test_other_models_are_refused_by_what_they_take(tmp_path: Path) -> None:
    path = decoder(tmp_path / "m.onnx", cached=True)
    model = onnx.load(path)
    del model.graph.output[1]
    onnx.save(model, path)
    with pytest.raises(ModelError, match=r"past_key_values.0.key has no output present"):
        load(path).generate(PROMPT)
    digits = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"
    with pytest.raises(ModelError, match=r"no decoder of tokens: it takes .*float32"):
        load(digits).generate(PROMPT)


def test_the_command(tmp_path: Path) -> None:
    decoder(tmp_path / "m.onnx")
    run = tensmith(
        "generate", "m.onnx", "--tokens", "3,1,4", "--max-new-tokens", "5", "--json", folder=tmp_path
    )
    found = json.loads(run.stdout)
    assert found["tokens"] == likeliest(5) and found["text"] is None and found["tokens_per_second"] > 0
    words = ("generate", "m.onnx", "--tokens", "3,1,4", "--stop", str(likeliest(1)[0]))
    ended = json.loads(tensmith(*words, "--json", folder=tmp_path).stdout)
    assert ended["tokens"] == [] and ended["first_token_seconds"] is None
    assert "0 tokens: the text ends at once" in tensmith(*words, folder=tmp_path).stdout
    refused(tensmith("generate", "m.onnx", "--prompt", "a", folder=tmp_path), 2, "--tokenizer")
    refused(tensmith("generate", "m.onnx", "--tokens", "3,x", folder=tmp_path), 2, "1,2,3")


def test_what_was_said_is_shown_where_a_text_cannot_go_on(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(written(gpt2_model()))
    words = ("generate", "m.gguf", "--tokens", "3,1,4", "--stop", "none", "--max-new-tokens")
    refused(tensmith(*words, "64", folder=tmp_path), 2, "positions for 64")
    path = decoder(tmp_path / "m.onnx")
    model = onnx.load(path)
    head = next(each for each in model.graph.initializer if each.name == "embedding")
    table = numpy_helper.to_array(head).copy()
    table[likeliest(5)[2]] = np.nan
    head.CopyFrom(numpy_helper.from_array(table, "embedding"))
    onnx.save(model, path)
    run = tensmith(
        "generate", "m.onnx", "--tokens", "3,1,4", "--max-new-tokens", "7", "--json", folder=tmp_path
    )
    found = json.loads(run.stdout)
    assert run.returncode == 1 and "no numbers" in found["stopped"]
    assert 0 < len(found["tokens"]) < 7 and found["tokens"] == likeliest(7)[: len(found["tokens"])]


@pytest.mark.parametrize("model", [gpt2_model(), rotary_model()], ids=["gpt2", "llama"])
def test_no_text_is_longer_than_the_model_was_made_for(model: tuple[dict, dict], tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(written(model))
    for path in (tmp_path / "m.gguf", load(tmp_path / "m.gguf").save(tmp_path / "m.onnx")):
        with pytest.raises(UsageError, match=r"60 tokens and 6 more do not fit: .* positions for 64"):
            load(path).generate(60 * [1], 6)
        assert len(load(path).generate(60 * [1], 5)) == 5
    made = onnx.load(tmp_path / "m.onnx")
    for entry in made.metadata_props:
        entry.value = "many"
    onnx.save(made, tmp_path / "m.onnx")
    assert len(load(tmp_path / "m.onnx").generate(60 * [1], 1)) == 1


def test_nothing_is_written_over_the_model_itself(tmp_path: Path) -> None:
    content = written(gpt2_model())
    (tmp_path / "m.gguf").write_bytes(content)
    for write in (load(tmp_path / "m.gguf").save, partial(quantize, tmp_path / "m.gguf")):
        with pytest.raises(OutputError, match="a file of the model itself"):
            write(tmp_path / "m.gguf")
    assert (tmp_path / "m.gguf").read_bytes() == content


def test_the_tokenizer_says_what_ends_a_text(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="the text extra is not installed")
    decoder(tmp_path / "m.onnx")
    wanted = likeliest(9)
    names = {f"w{number}": number for number in range(VOCABULARY) if number != wanted[4]} | {
        "</s>": wanted[4]
    }
    encoder = tokenizers.Tokenizer(tokenizers.models.WordLevel(names, "w0"))
    encoder.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    encoder.save(str(tmp_path / "tokenizer.json"))
    prompt = " ".join(f"w{number}" for number in PROMPT)

    def said(*more: str) -> list[int]:
        words = (
            "--tokenizer",
            "tokenizer.json",
            "--prompt",
            prompt,
            "--max-new-tokens",
            "9",
            "--json",
            *more,
        )
        found: list[int] = json.loads(tensmith("generate", "m.onnx", *words, folder=tmp_path).stdout)[
            "tokens"
        ]
        return found

    assert said() == wanted[: wanted.index(wanted[4])]
    assert said("--stop", "none") == wanted


@pytest.mark.data
def test_a_story(data_dir: Path) -> None:
    words = LlamaTokenizer(data_dir / "lm" / "tok512.bin")
    model = load(data_dir / "models" / "stories260k.onnx")
    told = words.decode(
        [*words.start("Once upon a time"), *model.generate(words.start("Once upon a time"), 12)]
    )
    assert told.startswith("Once upon a time, there was a little girl")
    assert words.decode(words.start("naïve ☃")) == "naïve ☃"
    assert words.ends == {1, 2}


def test_tokenizers_give_text_back(tmp_path: Path) -> None:
    assert ByteTokenizer().decode([*ByteTokenizer().start("naïve"), 300]) == "naïve\ufffd"
    tokenizers = pytest.importorskip("tokenizers", reason="the text extra is not installed")
    encoder = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"[CLS]": 0, "[SEP]": 1, "a": 2, "b": 3}, "[SEP]")
    )
    encoder.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    encoder.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 0), ("[SEP]", 1)]
    )
    encoder.save(str(tmp_path / "tokenizer.json"))
    file = TokenizerFile(tmp_path / "tokenizer.json")
    assert file.encode("a b") == [0, 2, 3, 1] and file.start("a b") == [0, 2, 3]
    assert file.decode([2, 3]) == "a b" and file.start("") == [0]


HOSTILE = {
    "is no tokenizer.json": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]],
                             "continuing_subword_prefix": "####"},
    "cannot encode": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "[UNK]"},
}  # fmt: skip


@pytest.mark.parametrize("said", HOSTILE)
def test_what_a_strangers_tokenizer_raises_is_said(said: str, tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="the text extra is not installed")
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": "1.0", "model": HOSTILE[said]}))
    with pytest.raises(DataError, match=said):
        TokenizerFile(tmp_path / "tokenizer.json").encode("z")
