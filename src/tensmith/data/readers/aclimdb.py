"""The Large Movie Review Dataset (Maas et al. 2011): aclImdb/{train,test}/{neg,pos}/*.txt."""

from __future__ import annotations

import re

import numpy as np

from tensmith.data.dataset import Dataset, DatasetPart
from tensmith.data.opening import reader
from tensmith.data.tokenizers import Tokenizer, find_tokenizer, text_part
from tensmith.data.tree import FileTree, open_tree
from tensmith.errors import DataError
from tensmith.files import at_home

CLASS_NAMES = ("neg", "pos")
_REVIEW = re.compile(r"(?:.*/)?(?P<part>train|test)/(?P<label>neg|pos)/[^/]*\.txt")


@reader("aclimdb", example="DIR_OR_TAR")
def open_aclimdb(path: str, /, *, tokenizer: str | Tokenizer = "auto", max_length: int = 512) -> Dataset:
    """Movie reviews, negative (0) or positive (1), in the folder or tar file of the original distribution.

    A sample is the tokens of its review, cut to `max_length`. `?tokenizer=` is byte, char or a llama2.c
    tokenizer file; in Python any object that encodes. A tokenizer.json (extra tensmith[text]) gives
    encoders input_ids, attention_mask and token_type_ids of `max_length` tokens. Unlabelled reviews (unsup/)
    are left out.
    """
    tree = open_tree(at_home(path))
    found: dict[str, list[tuple[str, int]]] = {}
    for name in tree.names:
        if match := _REVIEW.fullmatch(name):
            found.setdefault(match["part"], []).append((name, CLASS_NAMES.index(match["label"])))
    if not found:
        raise DataError(
            f"no reviews in {tree.root}; expected train/neg/*.txt, train/pos/*.txt and the same in test/"
        )
    texts = (tree.text(name) for reviews in found.values() for name, _ in reviews)
    beside = tree.root if tree.root.is_dir() else tree.root.parent
    chosen = find_tokenizer(tokenizer, beside, texts)
    parts = {part: _part(tree, reviews, chosen, max_length) for part, reviews in found.items()}
    return Dataset("aclimdb", "classification", 2, parts, "text", CLASS_NAMES)


def _part(
    tree: FileTree, reviews: list[tuple[str, int]], tokenizer: Tokenizer, max_length: int
) -> DatasetPart:
    labels = np.array([label for _, label in reviews], np.int64)
    return text_part(lambda index: [tree.text(reviews[index][0])], tokenizer, max_length, labels)
