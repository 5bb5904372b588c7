"""GGUF models as TensIR programs: decoders of the architectures llama, qwen2 and gpt2.

tokens int64 [batch, length] -> logits float32 [batch, length, vocabulary], without caches, as exporters write
decoders; `rewrite.tokens.caching` gives them caches. What the metadata mean is the GGUF specification's, the
names of tensors and what is computed of them llama.cpp's. Matrices are [outputs, inputs].

Weights in blocks of codes with one scale stay that: a DequantizeLinear with blocks before the product, and
for a table that rows are looked up in, rows of codes times their scales. All other types become float32.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tensmith.data.gguf import GgufFile, open_gguf
from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.frontend.gguf_architectures import ARCHITECTURES
from tensmith.frontend.gguf_decoder import LOGITS, GgufDecoder
from tensmith.ir import Program

_PARTS = "split.count"


def read_gguf(
    source: Path | bytes | GgufFile, codes: bool = True, put: Callable[[Array], Array] = np.asarray
) -> Program:
    """The program of a GGUF file: a path, a file's bytes, or a file that was opened.

    codes: whether exact codes stay codes; else all weights become float32, for methods that choose codes of
    their own, and `put` keeps each. ModelError for whatever is wrong with the file, or is not known of its
    architecture.
    """
    file = source if isinstance(source, GgufFile) else open_gguf(source)
    parts = file.metadata.get(_PARTS)
    if isinstance(parts, int) and parts > 1:  # 0 where they were joined
        raise file.wrong(f"is one of the {parts} files of a model", "join them by llama-gguf-split --merge")
    build = ARCHITECTURES.get(file.architecture)
    if build is None:
        raise file.wrong(
            f"is of the architecture '{file.architecture[:80]}', which tensmith does not know",
            f"those it knows are {', '.join(ARCHITECTURES)}",
        )
    making = GgufDecoder(file, codes, put)
    try:
        logits = build(making)
        making.add("identity", (logits,), LOGITS)
        return making.program()
    except ProgramError as error:
        raise file.wrong(f"does not fit together: {error}") from error
