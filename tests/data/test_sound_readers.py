"""Sound: WAVE files of every width, and LibriSpeech's layout."""

from __future__ import annotations

import io
import tarfile
import wave
from pathlib import Path

import numpy as np
import pytest

from tensmith.data import Subset, open_dataset
from tensmith.errors import DataError

SIGNAL = np.array([0.0, 0.5, -0.5, 0.25, -1.0])


def wav(width: int = 2, channels: int = 1, signal: np.ndarray = SIGNAL, rate: int = 8000) -> bytes:
    scale = 2 ** (8 * width - 1)
    samples = np.repeat((signal * scale).astype("<i8"), channels)
    data = (
        (samples + 128).astype(np.uint8).tobytes()
        if width == 1
        else samples.view(np.uint8).reshape(-1, 8)[:, :width].tobytes()
    )
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((channels, width, rate, 0, "NONE", ""))
        sound.writeframes(data)
    return file.getvalue()


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
def test_every_sample_width_decodes_to_the_same_sound(tmp_path: Path, width: int, channels: int) -> None:
    (tmp_path / "3_ann_7.wav").write_bytes(wav(width, channels))
    sound = open_dataset(f"wav:{tmp_path}").part("train").inputs([0])
    assert sound.dtype == np.float32
    assert np.array_equal(sound, [SIGNAL])  # the values are exact in every width


def test_fsdd_names_give_label_and_part(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "sounds.tar.xz", "w:xz") as archive:
        for name in ("0_ann_0.wav", "0_ann_5.wav", "one_bob_4.wav", "one_bob_12.wav"):
            info = tarfile.TarInfo(f"recordings/{name}")
            info.size = len(wav())
            archive.addfile(info, io.BytesIO(wav()))
    dataset = open_dataset(f"wav:{tmp_path}")
    assert dataset.class_names == ("0", "one")
    assert {name: part.labels([0, 1]).tolist() for name, part in dataset.parts.items()} == {
        "test": [0, 1],
        "train": [0, 1],
    }


def test_a_tar_file_beside_loose_sounds_is_not_read(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "old.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("3_ann_7.wav"))
    for name in ("0_ann_5.wav", "1_ann_5.wav"):
        (tmp_path / name).write_bytes(wav())
    assert open_dataset(f"wav:{tmp_path}").class_names == ("0", "1")


def test_other_names_are_labelled_by_folder(tmp_path: Path) -> None:
    for name in ("train/yes/a.wav", "train/no/b.wav", "test/no/c.wav"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(wav())
    dataset = open_dataset(f"wav:{tmp_path}")
    assert (dataset.class_names, dataset.classes) == (("no", "yes"), 2)
    assert dataset.part("train").labels([0, 1]).tolist() == [0, 1]


def test_folders_say_more_than_names(tmp_path: Path) -> None:
    """Speech Commands: a folder a word, in which files are named after speakers."""
    for name in ("yes/004ae714_nohash_0.wav", "no/004ae714_nohash_7.wav", "no/0a7c2a8d_nohash_0.wav"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(wav())
    dataset = open_dataset(f"wav:{tmp_path}")
    assert (dataset.class_names, list(dataset.parts)) == (("no", "yes"), ["all"])
    assert dataset.part("all").labels([0, 1, 2]).tolist() == [0, 0, 1]


def test_speech_commands_as_they_are_published(tmp_path: Path) -> None:
    """What is no word is left out, and lists name the parts."""
    names = ("yes/a.wav", "yes/b.wav", "no/a.wav", "no/c.wav", "_background_noise_/pink.wav")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(wav())
    (tmp_path / "testing_list.txt").write_text("yes/a.wav\n")
    (tmp_path / "validation_list.txt").write_text("no/c.wav\n")
    dataset = open_dataset(f"wav:{tmp_path}")
    assert dataset.class_names == ("no", "yes")
    found = {name: part.labels(np.arange(len(part))).tolist() for name, part in dataset.parts.items()}
    assert found == {"train": [0, 1], "test": [1], "validation": [0]}


def test_a_word_without_sounds_does_not_renumber_the_others(tmp_path: Path) -> None:
    for name in ("yes/a.wav", "no/a.wav", "_background_noise_/notes.md", "maybe/notes.md"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(wav())
    with pytest.raises(DataError, match=r"class 'maybe' has no \.wav file in .*/maybe; convert"):
        open_dataset(f"wav:{tmp_path}")


def test_sounds_without_a_label_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(wav())
    with pytest.raises(DataError, match=r"is labelled; expected LABEL_SPEAKER_INDEX\.wav or CLASS/FILE\.wav"):
        open_dataset(f"wav:{tmp_path}")


def test_lengths_differ_unless_one_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "0_ann_0.wav").write_bytes(wav())
    (tmp_path / "0_ann_1.wav").write_bytes(wav(signal=np.tile(SIGNAL, 2)))
    view = Subset(open_dataset(f"wav:{tmp_path}").part("test"), np.arange(2))
    assert [batch.inputs.shape for batch in view.batches(2)] == [(1, 5), (1, 10)]
    fixed = open_dataset(f"wav:{tmp_path}?length=8").part("test").inputs([0, 1])
    assert fixed.shape == (2, 8) and (fixed[0, 5:] == 0).all()


def test_sounds_of_another_rate_are_refused(tmp_path: Path) -> None:
    for index, rate in enumerate((8000, 8000, 16_000)):
        (tmp_path / f"0_ann_{index}.wav").write_bytes(wav(rate=rate))
    part = open_dataset(f"wav:{tmp_path}").part("test")
    assert part.inputs([0, 1]).shape == (2, 5)
    with pytest.raises(DataError, match=r"0_ann_2\.wav has 16000 samples a second, the first sound 8000"):
        part.inputs([2])


@pytest.mark.parametrize("content", [b"", b"RIFF", wav()[:-4], wav(signal=SIGNAL[:0])])
def test_damaged_sounds_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "0_ann_0.wav").write_bytes(content)
    with pytest.raises(DataError, match=r"0_ann_0\.wav"):
        open_dataset(f"wav:{tmp_path}").part("test").inputs([0])


def test_no_sounds_are_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no \.wav files"):
        open_dataset(f"wav:{tmp_path}")


def librispeech(root: Path, subset: str = "dev-clean", rate: int = 16_000) -> Path:
    soundfile = pytest.importorskip("soundfile")
    chapter = root / subset / "12" / "34"
    chapter.mkdir(parents=True)
    soundfile.write(chapter / "12-34-0000.flac", SIGNAL, rate)
    (chapter / "12-34.trans.txt").write_text("12-34-0000 HELLO WORLD\n")
    return chapter


def test_librispeech_pairs_flac_and_transcript(tmp_path: Path) -> None:
    librispeech(tmp_path)
    librispeech(tmp_path, "train-other-500")
    dataset = open_dataset(f"librispeech:{tmp_path}")
    assert (dataset.task, sorted(dataset.parts)) == ("speech", ["train", "validation"])
    part = dataset.part("validation")
    assert part.labels([0]).tolist() == ["HELLO WORLD"]
    assert np.allclose(part.inputs([0]), SIGNAL, atol=2**-15)


def test_librispeech_of_another_rate_is_refused(tmp_path: Path) -> None:
    librispeech(tmp_path, rate=8000)
    with pytest.raises(DataError, match="has 8000 samples a second; convert it to 16000"):
        open_dataset(f"librispeech:{tmp_path}").part("validation").inputs([0])


def test_librispeech_damage_is_refused(tmp_path: Path) -> None:
    chapter = librispeech(tmp_path)
    (chapter / "12-34-0000.flac").write_bytes(b"fLaC")
    with pytest.raises(DataError, match="not a readable FLAC"):
        open_dataset(f"librispeech:{tmp_path}").part("validation").inputs([0])
    (chapter / "12-34.trans.txt").unlink()
    with pytest.raises(DataError, match=r"no line in a \.trans\.txt"):
        open_dataset(f"librispeech:{tmp_path}")
    (chapter / "12-34-0000.flac").unlink()
    with pytest.raises(DataError, match=r"no \.flac files"):
        open_dataset(f"librispeech:{tmp_path}")
