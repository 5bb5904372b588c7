"""Damaged files of every format: a sample or a DataError, never another exception."""

from __future__ import annotations

import io
import random
import tarfile
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tensmith.data import open_dataset
from tensmith.errors import DataError

MUTANTS = 60


def jpeg() -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)).save(file, "JPEG")
    return file.getvalue()


def tar() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        info = tarfile.TarInfo("val/cat/1.jpg")
        info.size = len(jpeg())
        archive.addfile(info, io.BytesIO(jpeg()))
    return file.getvalue()


def npz(save) -> bytes:
    file = io.BytesIO()
    save(file, x=np.ones((3, 40)), y=np.array([0, 1, 0]))
    return file.getvalue()


def wav() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(bytes(64))
    return file.getvalue()


CASES = {
    "stored": ("npz", "d.npz", npz(np.savez)),
    "compressed": ("npz", "d.npz", npz(np.savez_compressed)),
    "jpeg": ("imagefolder", "cat/1.jpg", jpeg()),
    "tar": ("imagefolder", "a.tar", tar()),
    "wav": ("wav", "0_ann_0.wav", wav()),
    "tsv": ("sst2", "train.tsv", b"sentence\tlabel\nfine film\t1\nbad\t0\n"),
    "text": ("text", "t.txt", "One dây<|endoftext|>two☃".encode()),
    "binary": ("cifar10", "test_batch.bin", bytes([1]) * 3073),
}


def mutated(content: bytes, randomness: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(randomness.randint(1, 6)):
        data[randomness.randrange(len(data))] = randomness.choice(
            (0, 127, 128, 255, randomness.randrange(256))
        )
    return bytes(data[: randomness.randrange(len(data))] if randomness.random() < 0.2 else data)


@pytest.mark.parametrize("case", CASES)
def test_mutants_are_read_or_refused(tmp_path: Path, case: str) -> None:
    kind, name, content = CASES[case]
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    randomness = random.Random(case)
    for _ in range(MUTANTS):
        path.write_bytes(mutated(content, randomness))
        try:
            dataset = open_dataset(f"{kind}:{path if kind in ('npz', 'text') else tmp_path}")
            for part in dataset.parts.values():
                for index in range(len(part)):
                    assert len(part.inputs([index])) == 1
        except DataError as error:
            assert str(tmp_path) in str(error) or "sequence" in str(error)
