"""A tokenizer.json for sentences: byte pairs, learnt from the training part of a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from tensmith.data import open_dataset

_LONGEST = 1 << 16


def _texts(spec: str) -> Iterator[str]:
    part = open_dataset(spec, tokenizer="byte", max_length=_LONGEST).part("train")
    for row in range(len(part)):
        yield bytes(part.inputs([row])[0].astype("u1")).decode()  # type: ignore[index]


def learnt(spec: str, vocabulary: int, file: Path) -> None:
    """Writes it: lower case, split at spaces and punctuation, [PAD] to fill up and [UNK] for the unknown."""
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=["[PAD]", "[UNK]"], show_progress=False
    )
    tokenizer.train_from_iterator(_texts(spec), trainer)
    file.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(file))
