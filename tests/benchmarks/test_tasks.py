"""Networks of real tasks: what they read, how they learn, and that their files are read whole."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the package torch is not installed")

from benchmarks.tasks.networks import LogMel  # noqa: E402
from benchmarks.tasks.tasks import SAMPLES, TASKS, mirrored_and_shifted, trimmed  # noqa: E402

from benchmarks import training  # noqa: E402
from tensmith.data import open_dataset  # noqa: E402


def test_a_spot_in_an_image_is_mirrored_and_moved_by_up_to_four_pixels() -> None:
    torch.manual_seed(0)
    images = torch.zeros(200, 3, 32, 32)
    images[:, :, 10, 20] = 1
    (altered,) = mirrored_and_shifted([images])
    assert altered.shape == images.shape
    assert (altered.sum((2, 3)) == 1).all()  # nothing is lost, or there twice, this far from the edges
    places = {(row, column) for _, channel, row, column in altered.nonzero().tolist() if channel == 0}
    there = {column for _, column in places}
    assert {row for row, _ in places} == set(range(6, 15))
    assert there == set(range(16, 25)) | set(range(7, 16))
    assert len({tuple(each.nonzero()[0].tolist()) for each in altered}) > 50  # each image for itself


def test_tokens_are_cut_behind_the_longest_text() -> None:
    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0]])
    assert [each.shape for each in trimmed([mask, mask])] == [(2, 3)] * 2


def test_log_mel_is_the_fourier_transform_of_windows() -> None:
    features, sound = LogMel(), torch.randn(2, 1000, generator=torch.Generator().manual_seed(0))
    window = torch.hann_window(256)
    power = torch.stft(sound, 256, 128, window=window, center=False, return_complex=True).abs() ** 2
    expected = torch.log(power.transpose(1, 2) @ features.triangles + 1e-5)
    torch.testing.assert_close(features(sound), expected, rtol=1e-3, atol=1e-3)


def test_a_band_hears_its_own_pitch_most() -> None:
    seconds = torch.arange(2000) / 8000
    loudest = [
        int(LogMel()(torch.sin(2 * torch.pi * hertz * seconds)[None])[0, 3].argmax())
        for hertz in (250, 700, 1500, 3000)
    ]
    assert loudest == sorted(set(loudest))


def test_the_rate_rises_then_falls_to_nothing() -> None:
    schedule = training.Schedule(seconds=1, epochs=1, rate=0.1, warm=0.25)
    rates = [schedule.rate_at(share) for share in np.linspace(0, 1, 101)]
    assert rates[0] == 0
    assert max(rates) == rates[25] == 0.1
    assert rates[25:] == sorted(rates[25:], reverse=True)
    assert rates[-1] == pytest.approx(0)


def test_ctrl_c_keeps_what_was_learnt() -> None:
    network, seen = torch.nn.Linear(1, 1), []

    def loss(rows: torch.Tensor) -> torch.Tensor:
        if len(seen) == 3:
            raise KeyboardInterrupt
        seen.append(rows)
        return (network(torch.ones(1, 1)) - 5).square().sum()

    before = network(torch.ones(1, 1)).item()
    epochs = training.train(network, 16, loss, training.Schedule(60, 9, batch=4, rate=0.1), seed=0)
    assert epochs == 3 / 4
    assert not network.training
    assert before < network(torch.ones(1, 1)).item()


def test_training_ends_after_its_epochs_and_each_shows_every_sample_once() -> None:
    network, seen = torch.nn.Linear(1, 1), []

    def loss(rows: torch.Tensor) -> torch.Tensor:
        seen.extend(rows.tolist())
        return network(torch.ones(1, 1)).sum()

    assert training.train(network, 10, loss, training.Schedule(60, 2, batch=4), seed=0) == 2
    assert sorted(seen[:10]) == sorted(seen[10:]) == list(range(10))
    assert seen[:10] != seen[10:]


def test_the_text_is_cut_in_two_and_nothing_is_lost(tmp_path: Path) -> None:
    text, whole = tmp_path / "all.txt", "".join(chr(97 + n % 26) for n in range(5000))
    text.write_text(whole)
    dataset = open_dataset(TASKS["characters"].spec(text, tmp_path / "made"))
    assert dataset.classes == 26
    assert len(dataset.part("train")) == 4500 // 128
    cut = [(tmp_path / "made" / "text" / f"{part}.txt").read_text() for part in ("train", "test")]
    assert "".join(cut) == whole


def test_the_tokenizer_is_learnt_from_training_sentences(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")
    lines = [f"{sentence}\t{n % 2}" for n, sentence in enumerate(("A good film", "a bad film") * 4)]
    (tmp_path / "train.tsv").write_text("\n".join(["sentence\tlabel", *lines]) + "\n")
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\na film xyz\t1\n")
    task = TASKS["sentiment"]
    dataset = open_dataset(task.spec(tmp_path, tmp_path / "made"))
    (tokens, mask), labels = task.samples(dataset.part("train"), [0, 1])
    assert labels.tolist() == [0, 1]
    assert mask.sum(1).tolist() == [3, 3]  # words that occur often are whole
    assert (tokens[0] == tokens[1]).sum() == 64 - 1  # "good" is not "bad"
    (unknown, _), _ = task.samples(dataset.part("validation"), [0])
    assert 1 in unknown  # no letter of "xyz" was seen


def _sounds(folder: Path) -> Path:
    random = np.random.default_rng(0)
    folder.mkdir()
    for index in range(8):
        with wave.open(str(folder / f"{index % 2}_ann_{index}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(random.integers(-9000, 9000, 900, np.int16).tobytes())
    return folder


def test_the_recogniser_of_digits_is_read_as_recurrent_layers(tmp_path: Path) -> None:
    """A GRU is an operator in the file, not a loop, and its answers are the network's, for any batch."""
    pytest.importorskip("onnxscript", reason="the package onnxscript is not installed")
    from benchmarks.tasks.train import made

    from tensmith.deploy.model import Model
    from tensmith.rewrite.trail import simplify

    task, file = TASKS["digits"], tmp_path / "made" / "digits.onnx"
    network = made("digits", _sounds(tmp_path / "sounds"), file, minutes=1e-6)
    program = simplify(Model(file).program).program
    assert [node.op for node in program.nodes].count("gru") == 2
    dataset = open_dataset(task.spec(tmp_path / "sounds", tmp_path / "made"))
    (sound,), _ = task.samples(dataset.part("train"), [0, 1, 2])
    assert sound.shape == (3, SAMPLES)
    with torch.no_grad():
        expected = network(sound).numpy()
    np.testing.assert_allclose(Model(file)(sound.numpy()), expected, rtol=1e-4, atol=1e-4)
