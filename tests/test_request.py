"""What a stranger's data is taken for: pixels or numbers, and whether the model fits it at all."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from command_line import images, tiny_model
from gguf_models import rotary_model, written
from tensmith import compress
from tensmith.config import make_config
from tensmith.errors import DataError, ModelError, UsageError
from tensmith.evaluate.task import Task
from tensmith.request import judged_by, read_request
from token_models import language_model, stories

FLOATS = images().transpose(0, 3, 1, 2).astype(np.float32)


def task_of(folder: Path, x: np.ndarray, y: np.ndarray | None = None, measure: str = "auto") -> Task:
    onnx.save(tiny_model(), folder / "m.onnx")
    np.savez(folder / "d.npz", x=x, **({} if y is None else {"y": y}))
    config = make_config(model=str(folder / "m.onnx"), data=f"npz:{folder / 'd.npz'}", measure=measure)
    return judged_by(read_request(config, config.data), config, lambda _: None)


@pytest.mark.parametrize("x", [FLOATS / 255, FLOATS / 127.5 - 1], ids=["from 0 to 1", "below 0"])
def test_images_that_are_no_pixels_go_in_as_they_are(x: np.ndarray, tmp_path: Path) -> None:
    for measure in ("accuracy", "fidelity"):
        labels = np.arange(len(x)) % 4 if measure == "accuracy" else None
        preprocess = task_of(tmp_path, x, labels, measure).preprocess
        assert preprocess is not None and (preprocess(x[:2]) == x[:2]).all()


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_class_numbers_that_are_floats_are_labels(shape: tuple[int, ...], tmp_path: Path) -> None:
    numbers = np.arange(len(FLOATS)) % 4
    labels = numbers.astype(np.float64).reshape(shape)
    assert task_of(tmp_path, FLOATS / 255, labels).measure == "accuracy"
    assert task_of(tmp_path, FLOATS / 255, labels, "fidelity").measure == "fidelity"
    config = make_config(model=str(tmp_path / "m.onnx"))
    data = {"train": (FLOATS / 255, labels), "test": (FLOATS / 255, None)}
    dataset = read_request(config, data).dataset
    found = dataset.part("train").labels(np.arange(len(numbers)))
    assert dataset.classes == 4 and found is not None and found.tolist() == numbers.tolist()
    own = read_request(config, data, evaluation=lambda model, view: 1.0).dataset
    assert own.task == "regression"  # a user's function sees what the user gave


def test_no_folder_to_write_to_is_said_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="output= is NoneType; give the path of a folder"):
        compress(str(tmp_path / "m.onnx"), "npz:d.npz", output=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [4.0, -1.0, 0.5, np.nan, np.inf])
def test_floats_that_are_no_class_numbers_are_said_to_be_unused(wrong: float, tmp_path: Path) -> None:
    labels = (np.arange(len(FLOATS)) % 4).astype(np.float64)
    labels[-1] = wrong
    onnx.save(tiny_model(), tmp_path / "m.onnx")
    said: list[str] = []
    config = make_config(model=str(tmp_path / "m.onnx"))
    assert judged_by(read_request(config, (FLOATS / 255, labels)), config, said.append).measure == "fidelity"
    assert "the labels are not used, as no class numbers of this model" in said[0]


def test_pixels_of_sixteen_bits_are_not_taken_for_bytes(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"pixels of up to \d{5}, and preprocessing takes 0 to 255"):
        task_of(tmp_path, FLOATS.astype(np.uint16) * 257, np.arange(len(FLOATS)) % 4)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_pixels_with_channels_last_are_images_of_any_type(dtype: type, tmp_path: Path) -> None:
    x = FLOATS.transpose(0, 2, 3, 1).astype(dtype)
    onnx.save(tiny_model(), tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", x=x, y=np.arange(len(x)) % 4)
    data = f"npz:{tmp_path / 'd.npz'}"
    config = make_config(model=str(tmp_path / "m.onnx"), data=data, preprocess="raw-bgr")
    request = read_request(config, data)
    images = request.dataset.part("all").inputs([0, 1])
    assert isinstance(images, np.ndarray) and (images == FLOATS[:2]).all()
    preprocess = judged_by(request, config, lambda _: None).preprocess
    assert preprocess is not None and (preprocess(images) == FLOATS[:2, ::-1]).all()


def test_nothing_finite_comes_of_data_that_is_not(tmp_path: Path) -> None:
    x = FLOATS.copy()
    x[::2, 0, 2, 2] = np.nan
    with pytest.raises(DataError, match=r"--preprocess\. part 'all' .* NaN or infinity in 120 of"):
        task_of(tmp_path, x, np.arange(len(x)) % 4)


@pytest.mark.parametrize("least", [-np.inf, np.inf, np.nan])
def test_only_a_mask_may_hold_minus_infinity(least: float, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(stories())
    data = f"text:{tmp_path / 't.txt'}?tokenizer=byte"
    config = make_config(model=str(tmp_path / "m.onnx"), data=data)
    for op, refused in (("Add", not np.isneginf(least)), ("MatMul", True)):
        language_model(tmp_path / "m.onnx")
        model = onnx.load(tmp_path / "m.onnx")
        model.graph.node[1].output[0] = "sums"
        model.graph.node.append(helper.make_node(op, ["sums", "mask"], ["logits"]))
        mask = np.triu(np.full((256, 256), least, np.float32), 1)[0 if op == "Add" else slice(None)]
        model.graph.initializer.append(numpy_helper.from_array(mask, "mask"))
        onnx.save(model, tmp_path / "m.onnx")
        with pytest.raises(ModelError, match="'mask' holds NaN or inf") if refused else nullcontext():
            assert "mask" in read_request(config, data).program.constants


def test_characters_numbered_by_another_text_are_refused(tmp_path: Path) -> None:
    language_model(tmp_path / "m.onnx")
    (tmp_path / "t.txt").write_text("abcd" * 300)

    def measure(tokenizer: str) -> str:
        data = f"text:{tmp_path / 't.txt'}?tokenizer={tokenizer}&max_length=8"
        config = make_config(model=str(tmp_path / "m.onnx"), data=data)
        return judged_by(read_request(config, data), config, lambda _: None).measure

    assert measure("byte") == "loss"
    with pytest.raises(DataError, match=r"has 4 characters, its tokens, and the model tells 256 tokens"):
        measure("char")


def test_bytes_are_taken_of_themselves_only_for_a_model_of_bytes(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(written(rotary_model()))
    (tmp_path / "t.txt").write_text("abcd" * 300)

    def measured(tokenizer: str) -> tuple[str, int | None]:
        data = f"text:{tmp_path / 't.txt'}?max_length=8{tokenizer}"
        request = read_request(config := make_config(model=str(tmp_path / "m.gguf"), data=data), data)
        return judged_by(request, config, lambda _: None).measure, request.dataset.classes

    with pytest.raises(DataError, match=r"no tokenizer beside it, and the model tells 300 tokens apart"):
        measured("")
    assert measured(f"&tokenizer={tmp_path / 'm.gguf'}") == ("loss", 300)
    assert measured("&tokenizer=byte") == ("loss", 256)


def test_a_part_without_labels_is_refused_before_it_is_judged_by(tmp_path: Path) -> None:
    onnx.save(tiny_model(), tmp_path / "m.onnx")
    data = tmp_path / "d.npz"
    np.savez(data, x_train=FLOATS, y_train=np.arange(len(FLOATS)) % 4, x_test=FLOATS)
    for measure, outcome in (
        ("auto", pytest.raises(DataError, match=r"part 'test' of .* has no labels .*--measure agreement")),
        ("agreement", nullcontext()),
    ):
        config = make_config(model=str(tmp_path / "m.onnx"), data=f"npz:{data}", measure=measure)
        with outcome:
            judged_by(read_request(config, config.data), config, lambda _: None)


def test_classes_too_many_are_named(tmp_path: Path) -> None:
    onnx.save(tiny_model(), tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", x=FLOATS, y=np.arange(len(FLOATS)) % 6)
    config = make_config(model=str(tmp_path / "m.onnx"), data=f"npz:{tmp_path / 'd.npz'}")
    request = read_request(config, config.data)
    named = replace(request, dataset=replace(request.dataset, class_names=tuple("abcdef")))
    with pytest.raises(DataError, match=r"labels up to 5 \(a, b, c, d, e, \.\.\.\), and the model tells 4"):
        judged_by(named, config, lambda _: None)


def test_labels_that_the_model_guesses_are_said(tmp_path: Path) -> None:
    """Labels drawn by lot: the model does better than one answer by luck at most."""
    onnx.save(tiny_model(), tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", x=images(), y=np.random.default_rng(5).integers(0, 4, len(images())))
    front = compress(
        tmp_path / "m.onnx", f"npz:{tmp_path / 'd.npz'}", output=tmp_path / "out", engines=("onnxruntime",),
        max_drop=50, time_budget=1,
    )  # fmt: skip
    assert front.points
    report = (tmp_path / "out" / "report.json").read_text()
    assert "always the same answer would find" in report


def test_training_that_a_file_asks_for_is_left_out_by_0() -> None:
    found = [make_config(model="m", recover=words).recover for words in ("0", " 0s", "2m")]
    assert found == [0, 0, 120]
    for words in ("-1", "0x", ""):
        with pytest.raises(UsageError, match=r"recover: .* is not a time"):
            make_config(model="m", recover=words)
