"""GLUE's tab-separated files (Wang et al. 2018): a header line, no quoting, one sample a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tensmith.data.dataset import Array, Dataset, DatasetPart, part_name
from tensmith.data.opening import reader
from tensmith.data.parts import checked_labels
from tensmith.data.storage import RandomFile, open_random
from tensmith.data.tokenizers import Tokenizer, find_tokenizer, text_part
from tensmith.data.tree import decoded
from tensmith.errors import DataError
from tensmith.files import at_home

LINE_LIMIT = 1 << 20
_ROWS_A_BROKEN_ONE = 1000
# The first that a header holds: a pair before the sentence that it ends in.
TEXT_COLUMNS = (
    ("sentence1", "sentence2"),
    ("question", "sentence"),
    ("question1", "question2"),
    ("#1 String", "#2 String"),
    ("premise", "hypothesis"),
    ("sentence",),
)
LABEL_COLUMNS = ("label", "gold_label", "is_duplicate", "Quality")
WORD_LABELS = (("entailment", "not_entailment"), ("entailment", "neutral", "contradiction"))


@reader("sst2", "glue", example="DIR_OR_TSV")
def open_glue(path: str, /, *, tokenizer: str | Tokenizer = "auto", max_length: int = 512) -> Dataset:
    """GLUE tasks such as SST-2: train.tsv, dev.tsv and, where it has labels, test.tsv.

    Of several files of one part, as MNLI's dev_matched.tsv and dev_mismatched.tsv, the first one is read;
    those without a column of text are left out. So are rows of too few columns, as QQP has some, where they
    are at most one in a thousand. A sample is the tokens of its sentence (of two sentences: joined by a tab,
    as in the file), cut to `max_length`. `?tokenizer=` is byte, char or a llama2.c tokenizer
    file; in Python any object that encodes. A tokenizer.json (extra tensmith[text]) gives encoders input_ids,
    attention_mask and token_type_ids of `max_length` tokens, two sentences as a pair.
    """
    root = at_home(path)
    files = {root.stem: root} if root.is_file() else {file.stem: file for file in sorted(root.glob("*.tsv"))}
    tables = {name: _Table(file) for name, file in files.items()}
    labelled: dict[str, _Table] = {}
    for name, table in tables.items():
        if table.label_words:
            labelled.setdefault(_part_of(name), table)
    if tables and not any(table.has_text for table in tables.values()):
        raise DataError(
            f"{next(iter(tables.values())).name} has no known text column in its first line; expected GLUE's "
            "header"
        )
    if not labelled:
        raise DataError(f"no .tsv file with a label column at {root}; expected GLUE's train.tsv and dev.tsv")
    words = sorted({word for table in labelled.values() for word in table.label_words})
    names = _label_order(words, root)
    rows = ((table, i) for table in labelled.values() for i in range(len(table.label_words)))
    texts = ("\t".join(table.sentences(i)) for table, i in rows)
    chosen = find_tokenizer(tokenizer, root if root.is_dir() else root.parent, texts)
    parts = {name: _part(table, names, chosen, max_length) for name, table in labelled.items()}
    return Dataset("", "classification", len(names), parts, "text", tuple(names))


def _part_of(name: str) -> str:
    """By the word that the name of a file is, or begins with, as in dev_matched."""
    return part_name(name) or part_name(name.partition("_")[0]) or name


class _Table:
    """One file: where its lines begin, and the label word of each row (none when there is no label column).

    `remark` tells of rows that are left out.
    """

    def __init__(self, path: Path) -> None:
        self._file: RandomFile = open_random(path)
        self._offsets = _line_offsets(self._file)
        header = self._line(0).removeprefix("\ufeff").split("\t") if len(self._offsets) > 1 else []
        self._width = len(header)
        self._columns = next(
            ([header.index(c) for c in cs] for cs in TEXT_COLUMNS if set(cs) <= set(header)), []
        )
        label = next((header.index(name) for name in LABEL_COLUMNS if name in header), None)
        words: dict[int, str] = {}
        short: list[int] = []
        for number in range(1, len(self._offsets) - 1 if self.has_text and label is not None else 1):
            cells = self._cells(number)
            if len(cells) < self._width:
                short.append(number)
            else:
                words[number] = cells[label or 0].strip()
        if short and len(words) + len(short) < _ROWS_A_BROKEN_ONE * len(short):
            raise self._uneven(short[0])
        self.label_words, self._rows = list(words.values()), list(words)
        told = "rows of too few columns, which are left out"
        self.remark = f"{told}: {len(short)}, the first in line {short[0] + 1}" if short else ""

    @property
    def name(self) -> str:
        return self._file.name

    @property
    def has_text(self) -> bool:
        return bool(self._columns)

    def sentences(self, index: int) -> list[str]:
        row = self._cells(self._rows[index])
        return [row[column].strip() for column in self._columns]

    def _cells(self, number: int) -> list[str]:
        cells = self._line(number).split("\t")
        if len(cells) > self._width:
            raise self._uneven(number)
        return cells

    def _uneven(self, number: int) -> DataError:
        columns = 1 + self._line(number).count("\t")
        return DataError(
            f"{self.name} line {number + 1} has {columns} columns, its header {self._width}; repair it"
        )

    def _line(self, number: int) -> str:
        start, stop = int(self._offsets[number]), int(self._offsets[number + 1])
        if stop - start > LINE_LIMIT:
            raise DataError(
                f"{self.name} line {number + 1} is longer than {LINE_LIMIT} bytes; it is not a GLUE file"
            )
        return decoded(self._file.read_at(start, stop - start), f"{self.name} line {number + 1}").rstrip(
            "\r\n"
        )


def _line_offsets(file: RandomFile) -> Array:
    """Where each line starts, and where the last one ends: int64 [lines + 1]."""
    ends, base = [np.zeros(1, np.int64)], 0
    for piece in file.pieces():
        ends.append(np.flatnonzero(np.frombuffer(piece, np.uint8) == ord("\n")) + base + 1)
        base += len(piece)
    offsets = np.concatenate(ends)
    return offsets if offsets[-1] == file.size else np.append(offsets, file.size)


def _label_order(words: Sequence[str], root: Path) -> list[str]:
    """Class names in index order: numbers count for themselves, words take the order GLUE models use."""
    if all(word.isdecimal() for word in words):
        numbers = [int(word) for word in words]
        if max(numbers) >= 1000:
            raise DataError(
                f"{root}: label {max(numbers)} is out of range; GLUE tasks have a handful of classes"
            )
        return [str(number) for number in range(max(numbers) + 1)]
    known = next((order for order in WORD_LABELS if set(words) <= set(order)), None)
    if known is None:
        raise DataError(
            f"{root}: unknown labels {words[:5]}; expected 0, 1, ... or {', '.join(WORD_LABELS[1])}"
        )
    return list(known)


def _part(table: _Table, names: Sequence[str], tokenizer: Tokenizer, max_length: int) -> DatasetPart:
    numbers = {name: number for number, name in enumerate(names)}
    labels = np.array([numbers[str(int(w)) if w.isdecimal() else w] for w in table.label_words], np.int64)
    checked = checked_labels(labels, len(names), table.name)
    return text_part(table.sentences, tokenizer, max_length, checked, table.remark)
