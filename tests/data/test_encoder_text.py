"""Texts as encoders take them, by a tokenizer.json that the test trains."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tensmith.data import TokenizerFile, open_dataset
from tensmith.errors import DataError, UsageError
from tensmith.preview import preview

tokenizers = pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")

SENTENCES = ("a good film", "a bad film", "good actors and a bad end", "it is as it is")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A BERT-like tokenizer.json over whole words, and SST-2's files."""
    from tokenizers import models, pre_tokenizers, processors

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *dict.fromkeys(" ".join(SENTENCES).split())]
    vocabulary = {word: number + 5 for number, word in enumerate(words)}  # padding is not 0
    encoder = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    encoder.pre_tokenizer = pre_tokenizers.Whitespace()
    encoder.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(word, vocabulary[word]) for word in ("[CLS]", "[SEP]")],
    )  # fmt: skip
    encoder.save(str(tmp_path / "tokenizer.json"))
    lines = [f"{sentence}\t{number % 2}" for number, sentence in enumerate(SENTENCES * 20)]
    (tmp_path / "train.tsv").write_text("\n".join(["sentence\tlabel", *lines]) + "\n")
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\na strange film\t1\n")
    return tmp_path


def test_a_sentence_is_tokens_a_mask_and_types(folder: Path) -> None:
    part = open_dataset(f"sst2:{folder}?max_length=8").part("validation")
    cls, sep, unknown, pad = 7, 8, 6, 5
    a, film = 9, 11
    found = part.inputs([0])
    assert {name: array.tolist() for name, array in found.items()} == {
        "input_ids": [[cls, a, unknown, film, sep, pad, pad, pad]],
        "attention_mask": [[1, 1, 1, 1, 1, 0, 0, 0]],
        "token_type_ids": [[0] * 8],
    }
    assert all(array.dtype == np.int64 for array in found.values())


def test_a_long_one_keeps_the_token_that_ends_it(folder: Path) -> None:
    part = open_dataset(f"sst2:{folder}?max_length=4").part("train")
    inputs = part.inputs([2, 3])
    assert inputs["input_ids"][:, -1].tolist() == [8, 8] and inputs["attention_mask"].all()


def test_a_length_that_holds_no_word_is_refused(folder: Path) -> None:
    """The package cuts nothing where its own three tokens of a pair do not fit."""
    assert open_dataset(f"sst2:{folder}?max_length=4").part("train").inputs([0])["input_ids"].shape == (1, 4)
    for tokenizer, length, least in (("auto", 3, 4), ("byte", 0, 1)):
        with pytest.raises(UsageError, match=f"max_length is at least {least}, not {length}"):
            open_dataset(f"sst2:{folder}?max_length={length}&tokenizer={tokenizer}")


def test_two_sentences_are_a_pair(folder: Path) -> None:
    (folder / "train.tsv").unlink()
    (folder / "dev.tsv").write_text("index\tsentence1\tsentence2\tlabel\n0\ta film\tgood\t1\n")
    found = open_dataset(f"glue:{folder}?max_length=8").part("validation").inputs([0])
    assert found["token_type_ids"].tolist() == [[0, 0, 0, 0, 1, 1, 0, 0]]


def test_reviews(folder: Path) -> None:
    for part in ("train", "test"):
        for label in ("neg", "pos"):
            (folder / "aclImdb" / part / label).mkdir(parents=True)
            (folder / "aclImdb" / part / label / "0_1.txt").write_text("a\tgood film")
    data = open_dataset(f"aclimdb:{folder / 'aclImdb'}?tokenizer={folder / 'tokenizer.json'}&max_length=6")
    found = data.part("test").inputs([0, 1])
    assert found["attention_mask"].sum() == 10 and not found["token_type_ids"].any()


def test_language_models_take_it_too(folder: Path) -> None:
    (folder / "t.txt").write_text("a good film<|endoftext|>it is")
    assert TokenizerFile(folder / "tokenizer.json").encode("it is") == [7, 16, 17, 8]
    assert open_dataset(f"text:{folder / 't.txt'}").part("all").inputs([1]).tolist() == [[7, 16, 17]]


@pytest.mark.parametrize("text", ["", "{}", '{"model": {"type": "BPE"}}', "\x00\xff"])
def test_what_is_none_is_refused(folder: Path, text: str) -> None:
    (folder / "tokenizer.json").write_text(text)
    with pytest.raises(DataError, match="is no tokenizer"):
        open_dataset(f"sst2:{folder}")


def encoder(path: Path, length: int | str, *inputs: str) -> None:
    """Logits of the sum of the tokens that the mask leaves."""
    weights = [
        numpy_helper.from_array(np.ones((1, 2), np.float32), "w"),
        numpy_helper.from_array(np.array([1]), "axis"),
    ]
    nodes = [
        helper.make_node("Mul", ["input_ids", "attention_mask"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "axis"], ["sum"]),
        helper.make_node("Cast", ["sum"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["f", "w"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "encoder",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["n", length]) for name in inputs],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 2])],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def test_a_model_takes_of_the_inputs_what_it_has(folder: Path) -> None:
    encoder(folder / "m.onnx", 8, "input_ids", "attention_mask")
    told = preview(folder / "m.onnx", f"sst2:{folder}?max_length=8", engines=("onnxruntime",))
    assert told["measure"] == "accuracy"
    with pytest.raises(DataError, match=r"has 512 tokens .* takes 8; add \?max_length=8"):
        preview(folder / "m.onnx", f"sst2:{folder}", engines=("onnxruntime",))
