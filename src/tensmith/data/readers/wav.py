"""PCM sound files: RIFF WAVE in a folder or a tar file, labelled by name or by folder."""

from __future__ import annotations

import io
import re
import wave
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import PurePosixPath

import numpy as np

from tensmith.data.dataset import ALL, TEST, TRAIN, VALIDATION, Array, Dataset
from tensmith.data.opening import reader
from tensmith.data.tree import FileTree, by_folder, classified, demand_classes, open_tree
from tensmith.errors import DataError
from tensmith.files import at_home

FSDD_TEST = range(5)
# Of Speech Commands: the part that the sounds belong to which a file beside their folders lists.
_LISTS = {"testing_list.txt": TEST, "validation_list.txt": VALIDATION}
_FSDD = re.compile(r"(?P<label>[^_]+)_(?P<speaker>[^_]+)_(?P<index>\d+)\.wav", re.IGNORECASE)


@reader("wav", example="DIR_OR_TAR")
def open_wav(path: str, /, *, length: int = 0) -> Dataset:
    """Sound files of one sample rate, mono float32 in -1..1 (channels are averaged).

    Named {label}_{speaker}_{index}.wav, all in one folder, as in the Free Spoken Digit Dataset, where index
    0 to 4 is the test part; otherwise one subfolder a class, optionally below train/, val/ or test/, and
    sounds outside of such folders are left out, as are folders whose names begin with an underscore; others
    beside them without sounds are refused. As in Speech Commands, testing_list.txt and validation_list.txt
    beside the folders may say which sounds are of other parts than train. `?length=8000` cuts or pads with
    silence to so many samples.
    """
    tree = open_tree(at_home(path), ".wav")
    sounds = [name for name in tree.having(".wav") if not _set_aside(name)]
    if not sounds:
        raise DataError(f"no .wav files in {tree.root}; expected LABEL_SPEAKER_INDEX.wav or CLASS/FILE.wav")
    described = _described(tree, sounds)
    if not described:
        raise DataError(
            f"no .wav file in {tree.root} is labelled; expected LABEL_SPEAKER_INDEX.wav or CLASS/FILE.wav"
        )
    if listed := _listed(tree):
        described = {
            name: (listed.get(name, TRAIN) if part == ALL else part, label)
            for name, (part, label) in described.items()
        }
    first = next(filter(described.__contains__, sounds))
    rate = _rate(tree.read(first), f"{tree.root}/{first}")
    class_names = sorted({label for _, label in described.values()})
    return classified(
        "wav", "audio", tree, sounds, described, class_names, partial(decode_wav, length=length, rate=rate),
        ragged=length == 0, remedy="add ?length=SAMPLES", files=".wav file",
    )  # fmt: skip


def _set_aside(name: str) -> bool:
    """Whether it lies in a folder of what is no class, as Speech Commands' _background_noise_."""
    return any(folder.startswith("_") for folder in PurePosixPath(name).parts[:-1])


def _listed(tree: FileTree) -> dict[str, str]:
    """The part of each sound that a list names."""
    return {
        (path.parent / line.strip()).as_posix(): _LISTS[path.name]
        for path in map(PurePosixPath, tree.names)
        if path.name in _LISTS
        for line in tree.text(str(path)).splitlines()
    }


def _described(tree: FileTree, sounds: Sequence[str]) -> dict[str, tuple[str, str]]:
    """(part, label) of those that have a label: in one folder by name, else by folder where that tells."""
    named = _by_name(sounds)
    if named and len({PurePosixPath(name).parent for name in sounds}) == 1:
        return named
    folders = [folder for folder in tree.folders if not _set_aside(f"{folder}/file")]
    demand_classes(tree.root, sounds, folders, ".wav file")
    return by_folder(tree.root, sounds) or named


def _by_name(sounds: Sequence[str]) -> dict[str, tuple[str, str]]:
    """(part, label) of each when all are named as in FSDD, else nothing."""
    matches = {name: match for name in sounds if (match := _FSDD.fullmatch(PurePosixPath(name).name))}
    if len(matches) < len(sounds):
        return {}
    return {
        name: (TEST if int(match["index"]) in FSDD_TEST else TRAIN, match["label"])
        for name, match in matches.items()
    }


def _rate(data: bytes, where: str) -> int:
    with _opened(data, where) as file:
        return file.getframerate()


@contextmanager
def _opened(data: bytes, where: str) -> Iterator[wave.Wave_read]:
    try:
        with wave.open(io.BytesIO(data)) as file:
            yield file
    except (wave.Error, EOFError, ValueError, RuntimeError) as error:
        raise DataError(f"{where} is not a PCM .wav file ({error}); convert it with sox or ffmpeg") from error


def decode_wav(data: bytes, where: str, length: int = 0, rate: int = 0) -> Array:
    """A PCM WAVE file of 8, 16, 24 or 32 bits as float32 [frames] in -1..1, channels averaged.

    `length` > 0: cut or padded with silence to so many frames. `rate` > 0: the frames a second it must have.
    """
    with _opened(data, where) as file:
        width, channels, frames = file.getsampwidth(), file.getnchannels(), file.getnframes()
        own, raw = file.getframerate(), file.readframes(frames)
    if rate and own != rate:
        raise DataError(
            f"{where} has {own} samples a second, the first sound {rate}; bring all to one with sox or ffmpeg"
        )
    if len(raw) != frames * width * channels or not frames:
        raise DataError(f"{where} should hold {frames} frames, but ends early; get it again")
    mono: Array = _pcm(raw, width, where).reshape(-1, channels).mean(axis=1, dtype=np.float32)
    return np.pad(mono[:length], (0, max(0, length - len(mono)))) if length else mono


def _pcm(raw: bytes, width: int, where: str) -> Array:
    """Little-endian samples as float32: 8 bits are unsigned around 128, wider ones signed."""
    if width == 1:
        return (np.frombuffer(raw, np.uint8).astype(np.float32) - 128) / 128
    if width == 3:  # widened to 32 bits by a zero byte below
        wide = np.zeros((len(raw) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
        return (wide.view("<i4")[:, 0] / 2**31).astype(np.float32)
    if width in (2, 4):
        return (np.frombuffer(raw, f"<i{width}") / 2.0 ** (8 * width - 1)).astype(np.float32)
    raise DataError(f"{where} has {8 * width}-bit samples; convert it to 16 bits")
