"""The fingerprint of a dataset: the same for the same data, another when labels or samples change."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tensmith.data import as_dataset, open_dataset, split
from tensmith.data.fingerprint import fingerprint

X = np.random.default_rng(0).standard_normal((60, 3)).astype(np.float32)
Y = np.arange(60) % 4


def of(x: np.ndarray, y: np.ndarray | None, classification: bool = True) -> str:
    return fingerprint(split(as_dataset((x, y)), 5, 5), classification)


def test_equal_data_has_one_fingerprint() -> None:
    assert of(X, Y) == of(X.copy(), Y.copy())


def test_every_label_counts_and_the_number_of_samples() -> None:
    for place in (0, 17, 59):
        labels = Y.copy()
        labels[place] = 3 - labels[place]
        assert of(X, labels) != of(X, Y)
    assert of(X[:-1], Y[:-1]) != of(X, Y)
    assert of(X, None, False) != of(X, Y)


def test_samples_count_where_they_are_looked_at() -> None:
    for place in (0, 59):
        samples = X.copy()
        samples[place, 1] += 1
        assert of(samples, Y) != of(X, Y)
    assert of((10 * X).astype(np.int32), Y) != of(np.trunc(10 * X), Y)


def test_both_parts_count() -> None:
    def two(test: np.ndarray) -> str:
        return fingerprint(split(as_dataset({"train": (X, Y), "test": (test, Y)}), 5, 5), True)

    assert two(X) == two(X.copy())
    assert two(X + 1) != two(X)


def test_which_samples_are_searched_on_and_held_out_counts() -> None:
    data = as_dataset({"train": (X, Y), "test": (X, Y)})
    found = {fingerprint(split(data, 5, 5, held_out), True) for held_out in (None, 30, 60)}
    assert len(found) == 3
    assert fingerprint(split(data, 5, 5, 60), True) == fingerprint(split(data, 5, 5, 60), True)


def test_sequences_of_different_lengths_have_one(tmp_path: Path) -> None:
    def of_text(text: str) -> str:
        path = tmp_path / "t.txt"
        path.write_text(text)
        return fingerprint(split(open_dataset(f"text:{path}"), 5, 5), False)

    stories = [f"{n} times{'!' * n}" for n in range(40)]
    first = of_text("<|endoftext|>".join(stories))
    assert first == of_text("<|endoftext|>".join(stories))
    assert first != of_text("<|endoftext|>".join([*stories[:-1], "another end"]))
