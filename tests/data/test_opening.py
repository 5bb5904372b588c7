"""Naming a dataset: kinds, options, documentation."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tensmith.data import READERS, open_dataset
from tensmith.data.opening import absolute
from tensmith.errors import DataError, UsageError

KINDS = {
    "aclimdb",
    "cifar10",
    "fashion_mnist",
    "glue",
    "imagefolder",
    "librispeech",
    "mnist",
    "npz",
    "python",
}
KINDS |= {"sst2", "text", "wav"}


def test_every_kind_documents_itself() -> None:
    assert set(READERS) >= KINDS
    for kind, reader in READERS.items():
        assert reader.example.startswith(f"{kind}:")
        first = reader.doc.partition("\n")[0]
        assert first.endswith(".") and len(reader.doc) > len(first)


@pytest.mark.parametrize("spec", ["cifar10", "cifar10:"])
def test_a_kind_without_a_path_is_shown_with_one(spec: str) -> None:
    with pytest.raises(UsageError, match=f"'{spec}' lacks a path; name the data as cifar10:DIR"):
        open_dataset(spec)


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["x.npz"], "npz"),
        (["d/test_batch.bin", "d/data_batch_1.bin"], "cifar10"),
        (["d/t10k-images-idx3-ubyte.gz"], "mnist"),
        (["d/annotations/instances_val.json", "d/val/a.jpg"], "coco"),
        (["d/dev.tsv"], "glue"),
        (["d/cat/a.jpg", "d/dog/b.jpg"], "imagefolder"),
    ],
)
def test_a_path_without_a_kind_is_guessed(names: list[str], kind: str, tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()
    path = tmp_path / names[0].partition("/")[0]
    with pytest.raises(UsageError, match=f"did you mean {kind}:{path}"):
        open_dataset(str(path))


@pytest.mark.parametrize("spec", ["", "/a/folder"])
def test_a_name_without_kind_or_path_lists_the_kinds(spec: str) -> None:
    with pytest.raises(UsageError, match=r"KIND:PATH.*cifar10"):
        open_dataset(spec)


def test_unknown_kinds_and_options_list_the_known(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown dataset 'imagnet'; did you mean 'imagefolder'"):
        open_dataset("imagnet:x")
    with pytest.raises(UsageError, match="no option 'sise'; it takes size"):
        open_dataset(f"imagefolder:{tmp_path}?sise=3")
    with pytest.raises(UsageError, match="no option 'a'; it takes none"):
        open_dataset(f"cifar10:{tmp_path}", a=1)
    with pytest.raises(UsageError, match="whole number, not 'big'"):
        open_dataset(f"imagefolder:{tmp_path}?size=big")


def test_options_are_taken_as_they_are_written(tmp_path: Path) -> None:
    """A path in them may hold what addresses of the web write otherwise."""
    (tmp_path / "t.txt").write_text("some text")
    for name in ("c++", "a%20b", "d=e"):
        with pytest.raises(DataError, match=re.escape(f"{name}/tok.bin")):
            open_dataset(f"text:{tmp_path / 't.txt'}?tokenizer={tmp_path}/{name}/tok.bin&max_length=8")


def test_a_dataset_is_named_as_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("t.txt", "tok.json", "char"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder in ("", "~/"):
        found = absolute(f"text:{folder}t.txt?tokenizer={folder}tok.json&max_length=9")
        assert found == f"text:{tmp_path}/t.txt?tokenizer={tmp_path}/tok.json&max_length=9"
    assert absolute("text:t.txt?tokenizer=char") == f"text:{tmp_path}/t.txt?tokenizer=char"
    assert absolute("text:t.txt") == f"text:{tmp_path}/t.txt"
    assert absolute("text:none.txt") == "text:none.txt"


@pytest.mark.parametrize("kind", sorted(KINDS - {"python"}))
def test_a_tilde_of_nobody_is_a_name(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="~nobody-of-here"):
        open_dataset(f"{kind}:~nobody-of-here/x")
    if kind == "text":
        (tmp_path / "~notes.txt").write_text("some text")
        with pytest.raises(DataError, match=r"~notes\.json"):
            open_dataset("text:~notes.txt?tokenizer=~notes.json")
        assert absolute("text:~notes.txt") == f"text:{tmp_path}/~notes.txt"


def test_a_path_with_a_question_mark_is_a_path(tmp_path: Path) -> None:
    np.savez(tmp_path / "what?.npz", x=np.zeros((2, 2)))
    spec = f"npz:{tmp_path / 'what?.npz'}"
    assert open_dataset(spec).source == spec
