"""LibriSpeech's layout (Panayotov et al. 2015): SPEAKER/CHAPTER/ID.flac, transcripts in *.trans.txt."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import PurePosixPath

import numpy as np

from tensmith.data.dataset import ALL, Array, Dataset, DatasetPart, part_name
from tensmith.data.opening import reader
from tensmith.data.parts import ItemPart
from tensmith.data.tree import FileTree, open_tree
from tensmith.errors import DataError, needing
from tensmith.files import at_home

RATE = 16_000
FRAME_LIMIT = RATE * 60 * 10  # ten minutes; the longest utterance of the corpus is 35 seconds


@reader("librispeech", example="DIR_OR_TAR")
def open_librispeech(path: str, /) -> Dataset:
    """Read English speech: float32 [frames] at 16 kHz in -1..1, labelled with its transcript (text).

    Parts come from subset folders (train-clean-100, dev-clean, test-other, ...), when there are any. Needs
    the extra tensmith[audio].
    """
    tree = open_tree(at_home(path), ".flac")
    transcripts = _transcripts(tree)
    parts: dict[str, list[str]] = {}
    for name in tree.having(".flac"):
        if PurePosixPath(name).stem not in transcripts:
            raise DataError(
                f"{tree.root}/{name} has no line in a .trans.txt file; get its chapter folder again"
            )
        parts.setdefault(_part_of(name, tree), []).append(name)
    if not parts:
        raise DataError(
            f"no .flac files in {tree.root}; expected SPEAKER/CHAPTER/SPEAKER-CHAPTER-NUMBER.flac"
        )
    opened = {part: _part(tree, names, transcripts) for part, names in parts.items()}
    return Dataset("librispeech", "speech", None, opened, "audio")


def _transcripts(tree: FileTree) -> dict[str, str]:
    lines = [line for name in tree.having(".trans.txt") for line in tree.text(name).splitlines()]
    return {key: words for key, _, words in (line.partition(" ") for line in lines)}


def _part_of(name: str, tree: FileTree) -> str:
    folders = [*PurePosixPath(name).parts[:-1], tree.root.name]
    found = (part_name(folder.split("-")[0]) for folder in folders)
    return next((part for part in found if part), ALL)


def _part(tree: FileTree, names: Sequence[str], transcripts: dict[str, str]) -> DatasetPart:
    labels = np.array([transcripts[PurePosixPath(name).stem] for name in names])
    read = tree.reader(names, decode_flac)
    return ItemPart(len(names), read, labels, ragged=True, remedy="read one utterance at a time")


def decode_flac(data: bytes, where: str) -> Array:
    """A 16 kHz FLAC file as float32 [frames] in -1..1, channels averaged. MissingExtra without soundfile."""
    with needing("reading FLAC files", "audio"):
        import soundfile
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            if not 0 < file.frames <= FRAME_LIMIT:
                raise DataError(f"{where} has {file.frames} frames, allowed are 1 to {FRAME_LIMIT}; cut it")
            if file.samplerate != RATE:
                raise DataError(
                    f"{where} has {file.samplerate} samples a second; convert it to {RATE} with sox or ffmpeg"
                )
            sound: Array = file.read(dtype="float32", always_2d=True)
    except (soundfile.SoundFileError, RuntimeError) as error:
        raise DataError(f"{where} is not a readable FLAC file ({error}); get it again") from error
    mono: Array = sound.mean(axis=1)
    return mono
