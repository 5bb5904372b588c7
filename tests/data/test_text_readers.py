"""GLUE tables, reviews, and texts for language models."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensmith.data import Subset, open_dataset
from tensmith.data.dataset import DatasetPart
from tensmith.data.readers import text as text_reader
from tensmith.data.storage import spilled
from tensmith.errors import DataError, UsageError


def texts(part: DatasetPart) -> list[str]:
    return [bytes(part.inputs([i])[0].tolist()).decode() for i in range(len(part))]


# GLUE


def test_sst2_lines_are_samples(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text('sentence\tlabel\na "good one \t1\nbad\t0\n')
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\nfine\t1")  # no newline at the end
    (tmp_path / "test.tsv").write_text("index\tsentence\n0\thidden\n")  # no labels: left out
    dataset = open_dataset(f"sst2:{tmp_path}")
    assert (dataset.name, dataset.classes, sorted(dataset.parts)) == ("sst2", 2, ["train", "validation"])
    assert texts(dataset.part("train")) == ['a "good one', "bad"]
    assert dataset.part("train").labels([0, 1]).tolist() == [1, 0]
    assert texts(dataset.part("validation")) == ["fine"]


def test_a_part_may_have_more_words_in_its_name(tmp_path: Path) -> None:
    """MNLI has two files to develop with: the first one counts."""
    for name in ("train", "dev_matched", "dev_mismatched"):
        row = f"{name}\tb\tneutral\n"
        (tmp_path / f"{name}.tsv").write_text("sentence1\tsentence2\tgold_label\n" + row)
    dataset = open_dataset(f"glue:{tmp_path}")
    assert sorted(dataset.parts) == ["train", "validation"]
    assert texts(dataset.part("validation")) == ["dev_matched\tb"]


def test_mrpc_as_it_is_published(tmp_path: Path) -> None:
    """A byte order mark before the header, and a table of numbers beside."""
    for name in ("train", "dev"):
        table = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tone\tother\n"
        (tmp_path / f"{name}.tsv").write_text(table)
    (tmp_path / "dev_ids.tsv").write_text("7\t8\n")
    dataset = open_dataset(f"glue:{tmp_path}")
    assert sorted(dataset.parts) == ["train", "validation"]
    assert texts(dataset.part("validation")) == ["one\tother"]
    assert dataset.part("train").labels([0]).tolist() == [1]


def test_word_labels_take_the_order_of_glue_models(tmp_path: Path) -> None:
    table = "index\tsentence1\tsentence2\tgold_label\n0\ta\tb\tcontradiction\n1\tc\td\tentailment\n"
    (tmp_path / "dev.tsv").write_text(table)
    dataset = open_dataset(f"glue:{tmp_path / 'dev.tsv'}")
    assert dataset.class_names == ("entailment", "neutral", "contradiction")[: dataset.classes]
    assert texts(dataset.part("validation")) == ["a\tb", "c\td"]
    assert dataset.part("validation").labels([0, 1]).tolist() == [2, 0]


def test_a_question_is_read_with_its_sentence(tmp_path: Path) -> None:
    """QNLI: the sentence alone would be a column of SST-2."""
    row = "0\twho?\tshe did\tentailment\n"
    (tmp_path / "train.tsv").write_text("index\tquestion\tsentence\tlabel\n" + row)
    assert texts(open_dataset(f"glue:{tmp_path}").part("train")) == ["who?\tshe did"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no known text column"),
        (b"a\tb\nc\td\n", "no known text column"),
        (b"sentence\tlabel\nonly one column\n", "line 2 has 1 columns"),
        (b"sentence\tlabel\nx\t5000\n", "label 5000 is out of range"),
        (b"sentence\tlabel\nx\tmaybe\n", "unknown labels"),
        (b"sentence\tlabel\n\xff\xfe\t1\n", "line 2 is not UTF-8 at byte 0"),
        (b"sentence\tlabel\n", "no .tsv file with a label column"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "train.tsv").write_bytes(content)
    with pytest.raises(DataError, match=message):
        open_dataset(f"sst2:{tmp_path}")


def test_few_rows_that_are_cut_off_are_left_out_and_counted(tmp_path: Path) -> None:
    """QQP has some, with a line break in a question."""
    rows = [f"{n}\tq{n}\ta\t{n % 2}\n" for n in range(1998)]
    rows[3:3] = ["x\ty\n", "\n"]
    path = tmp_path / "train.tsv"
    path.write_text("id\tquestion1\tquestion2\tis_duplicate\n" + "".join(rows))
    dataset = open_dataset(f"glue:{tmp_path}")
    part = dataset.part("train")
    assert texts(part)[:5] == ["q0\ta", "q1\ta", "q2\ta", "q3\ta", "q4\ta"] and len(part) == 1998
    assert part.labels(np.arange(1998)).tolist() == [0, 1] * 999
    assert [*dataset.remarks()] == [
        "part 'train' of the data has rows of too few columns, which are left out: 2, the first in line 5"
    ]
    path.write_text(path.read_text() + "z")
    with pytest.raises(DataError, match=r"line 5 has 2 columns, its header 4; repair it"):
        open_dataset(f"glue:{tmp_path}")


# aclImdb

REVIEWS = {
    "train/pos/0_9.txt": "great",
    "train/neg/0_1.txt": "awful",
    "test/pos/1_10.txt": "wow",
    "train/unsup/0_0.txt": "?",
}


def test_reviews_are_labelled_by_folder(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "aclImdb.tar.xz", "w:xz") as archive:
        for name, content in REVIEWS.items():
            path = tmp_path / "folder" / "aclImdb" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            info = tarfile.TarInfo("aclImdb/" + name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content.encode()))
    for path in (tmp_path / "aclImdb.tar.xz", tmp_path / "folder", tmp_path / "folder" / "aclImdb"):
        dataset = open_dataset(f"aclimdb:{path}")
        assert texts(dataset.part("train")) == ["awful", "great"]
        assert dataset.part("train").labels([0, 1]).tolist() == [0, 1]
        assert texts(dataset.part("test")) == ["wow"]
    with pytest.raises(DataError, match="no reviews"):
        open_dataset(f"aclimdb:{tmp_path / 'folder' / 'aclImdb' / 'train' / 'pos'}")


# language models


def test_stories_are_separate_and_labels_are_the_next_token(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("\nOne day.\n<|endoftext|>\n \n<|endoftext|>\nThe end<|endoftext|>")
    dataset = open_dataset(f"text:{tmp_path / 't.txt'}")
    assert (dataset.task, dataset.classes) == ("language-model", 256)
    part = dataset.part("all")
    assert texts(part) == ["One day", "The en"]
    assert bytes(part.labels([0])[0].tolist()) == b"ne day."


def test_stories_are_cut_to_max_length(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("abcdefghijkl<|endoftext|>xy")
    part = open_dataset(f"text:{tmp_path / 't.txt'}?max_length=8").part("all")
    assert texts(part) == ["abcdefgh", "x"]
    assert bytes(part.labels([0])[0].tolist()) == b"bcdefghi"


def test_stories_of_one_token_are_left_out(tmp_path: Path) -> None:
    class Words:
        vocabulary = 4

        def encode(self, text: str) -> list[int]:
            return [len(word) % 4 for word in text.split()]

    (tmp_path / "t.txt").write_text("a few words<|endoftext|>Ok<|endoftext|>two words")
    part = open_dataset(f"text:{tmp_path / 't.txt'}", tokenizer=Words()).part("all")
    assert [part.inputs([number]).tolist() for number in range(len(part))] == [[[1, 3]], [[3]]]


def test_batches_join_equal_lengths_only(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("<|endoftext|>".join(["aaaa", "bbbb", "cc", "dddd"]))
    view = Subset(open_dataset(f"text:{tmp_path / 't.txt'}").part("all"), np.arange(4))
    assert [batch.inputs.shape for batch in view.batches(4)] == [(2, 3), (1, 1), (1, 3)]
    assert [batch.labels.shape for batch in view.batches(1)] == [(1, 3), (1, 3), (1, 1), (1, 3)]
    with pytest.raises(DataError, match="different lengths"):
        view.part.inputs([0, 2])


@given(content=st.text(min_size=2, max_size=200), length=st.integers(8, 40))
def test_windows_of_plain_text_follow_each_other(content: str, length: int) -> None:
    windows = text_reader._Windows(spilled(iter([content.encode()]), "f"), length)
    pieces = [windows.read(i) for i in range(len(windows))]
    assert all(len(piece) >= 2 for piece in pieces)
    first = pieces[0] + "".join(piece[1:] for piece in pieces[1:])  # neighbours share a character
    if content.isascii():
        assert content.startswith(first) and len(content) - len(first) < length
    else:
        assert all(piece in content for piece in pieces)


@given(
    pieces=st.lists(st.sampled_from(["<|endoftext|>", "<|endof", "text|>", "a", "<<"]), max_size=12),
    size=st.integers(1, 20),
)
def test_separators_are_found_across_pieces(pieces: list[str], size: int) -> None:
    data = "".join(pieces).encode()
    file = spilled(iter([data]), "f")
    in_pieces = type("Small", (), {"pieces": lambda self: file.pieces(size)})()
    expected = [
        len(b"<|endoftext|>".join(data.split(b"<|endoftext|>")[:i]))
        for i in range(1, data.count(b"<|endoftext|>") + 1)
    ]
    assert list(text_reader._positions(in_pieces, b"<|endoftext|>")) == expected


def test_a_folder_has_parts(tmp_path: Path) -> None:
    for name in ("wiki.train.txt", "wiki.valid.txt", "wiki.test.txt"):
        (tmp_path / name).write_text(name * 3)
    dataset = open_dataset(f"text:{tmp_path}?tokenizer=char")
    assert sorted(dataset.parts) == ["test", "train", "validation"]
    assert dataset.classes == len(set("wiki.train.txtwiki.valid.txtwiki.test.txt"))


@pytest.mark.parametrize("content", ["abcdefgh" * 3 + "abZ", "a story\n<|endoftext|>\n another é"])
def test_characters_are_numbered_by_the_whole_text(tmp_path: Path, content: str) -> None:
    """Also by what no sequence holds: what is left after the last window, what stands between stories."""
    (tmp_path / "t.txt").write_text(content)
    assert open_dataset(f"text:{tmp_path}?tokenizer=char&max_length=8").classes == len(set(content))
    (tmp_path / "t.txt").write_bytes(b"a text in another encoding: \xe9")
    with pytest.raises(DataError, match="is not UTF-8"):
        open_dataset(f"text:{tmp_path}?tokenizer=char")


@pytest.mark.parametrize("content", [b"", b" <|endoftext|> \n"])
def test_empty_texts_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.txt").write_bytes(content)
    with pytest.raises(DataError, match="holds no text"):
        open_dataset(f"text:{tmp_path / 't.txt'}")


def test_wrong_encodings_and_options_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_bytes("naïve".encode("latin-1"))
    with pytest.raises(DataError, match="not UTF-8"):
        open_dataset(f"text:{tmp_path / 't.txt'}").part("all").inputs([0])
    with pytest.raises(UsageError, match="at least 8"):
        open_dataset(f"text:{tmp_path / 't.txt'}?max_length=0")
    with pytest.raises(DataError, match="is no text"):
        open_dataset(f"text:{tmp_path / 'missing'}")
