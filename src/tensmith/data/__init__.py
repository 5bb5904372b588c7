"""Datasets in their standard on-disk formats: opened by name, read lazily, split into disjoint samples."""

from tensmith.data.arrays import as_dataset, classified
from tensmith.data.dataset import Batch, Dataset, DatasetPart, Subset
from tensmith.data.images import ImageForm, ImageInput
from tensmith.data.opening import READERS, DatasetReader, open_dataset, reader
from tensmith.data.preprocess import (
    Preprocess,
    PreprocessChoice,
    candidates,
    choose,
    parse_preprocess,
    reversed_channels,
)
from tensmith.data.split import Splits, split
from tensmith.data.tokenizers import ByteTokenizer, CharTokenizer, LlamaTokenizer, Tokenizer, TokenizerFile

__all__ = [
    "READERS",
    "Batch",
    "ByteTokenizer",
    "CharTokenizer",
    "Dataset",
    "DatasetPart",
    "DatasetReader",
    "ImageForm",
    "ImageInput",
    "LlamaTokenizer",
    "Preprocess",
    "PreprocessChoice",
    "Splits",
    "Subset",
    "Tokenizer",
    "TokenizerFile",
    "as_dataset",
    "candidates",
    "choose",
    "classified",
    "open_dataset",
    "parse_preprocess",
    "reader",
    "reversed_channels",
    "split",
]
