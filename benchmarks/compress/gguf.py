"""GGUF files here and in llama.cpp: how far logits are apart, and single tokens a second in both.

python -m benchmarks.compress.gguf [--python PATH] [--only llama-F32,...] [--tokens 60]

Needs the package llama-cpp-python, here or in the Python that --python names. llama.cpp keeps keys and
values in float32 for this, multiplies codes with activations rounded to 8 bits, and reads GELU off a table.
It is fed single tokens: with several, its tiles (AMX) end the process where a machine does not allow them.
Where it does not end as it should, the row says how.
"""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks import DATA, parts, use_tests
from tensmith.deploy.generation import Sampling
from tensmith.deploy.model import Model
from tensmith.frontend.model import read_weights_open
from tensmith.ir.interpreter import interpret

use_tests("")
from gguf_models import gpt2_model, rotary_model, stories, written  # noqa: E402 - below tests/

_THEIRS = """
import sys, time
import numpy as np
from llama_cpp import Llama

file, rows, count = sys.argv[1], np.load(sys.argv[2]), int(sys.argv[3])
options = {"n_ctx": 512, "n_threads": 1, "type_k": 0, "type_v": 0, "flash_attn": False, "n_batch": 1}
model = Llama(file, logits_all=True, verbose=False, **options)
model.eval(rows.tolist())
logits = np.array(model.scores[: len(rows)])
model.reset()
model.eval([1])
started = time.perf_counter()
for _ in range(count):
    model.eval([int(model.scores[model.n_tokens - 1].argmax())])
np.savez(sys.argv[4], logits=logits, rate=count / (time.perf_counter() - started))
"""
# Rows of a text that are compared.
_ROWS = 60


def measured(name: str, python: str, count: int) -> parts.Found:
    """One file."""
    which, kind = name.split("-")
    models = {"llama": rotary_model, "qwen2": partial(rotary_model, "qwen2"), "gpt2": gpt2_model}
    model = stories(DATA) if which == "stories260k" else models[which]()
    with TemporaryDirectory() as folder:
        file, texts, theirs = (Path(folder) / each for each in ("m.gguf", "rows.npy", "theirs.npz"))
        file.write_bytes(written(model, kind))
        program = read_weights_open(file)
        tokens = np.random.default_rng(0).integers(3, program.type("logits").dims[-1], _ROWS)
        np.save(texts, tokens)
        words = [python, "-c", _THEIRS, str(file), str(texts), str(count), str(theirs)]
        ended = subprocess.run(words, capture_output=True, text=True, check=False)
        found = interpret(program, {"tokens": tokens[None]})["logits"][0]
        row: dict[str, float | str] = {"ours_tokens_per_second": decoding_rate(Model(file, "native"), count)}
        if ended.returncode:
            said = (ended.stderr.strip().splitlines() or [f"signal {-ended.returncode}"])[-1]
            return parts.Found(row=row | {"llama.cpp": f"ended with {ended.returncode}: {said}"})
        with np.load(theirs) as other:
            apart = float(abs(found - other["logits"]).max() / np.ptp(found))
            row |= {"theirs_tokens_per_second": float(other["rate"]), "apart_of_range": apart}
    return parts.Found(row=row)


def decoding_rate(model: Model, count: int) -> float:
    """Tokens a second of a decoder, one at a time."""
    list(model.stream([1], count))  # compiled
    steps = model.decoder.steps([1], count, Sampling())
    next(steps)
    started = time.perf_counter()
    said = sum(1 for _ in steps)
    return said / (time.perf_counter() - started)


def main() -> int:
    """1 where a file could not be compared."""
    every = [
        f"{which}-{kind}"
        for which in ("llama", "qwen2", "gpt2", "stories260k")
        for kind in ("F32", "Q8_0", "Q4_0")
    ]
    parser = parts.arguments(__doc__)
    parser.add_argument("--python", default=sys.executable, help="one that has llama-cpp-python")
    parser.add_argument("--only", type=parts.names, default=every, help="files, as A,B")
    parser.add_argument("--tokens", type=int, default=50, help="single ones that are timed")
    options = parser.parse_args()
    settings = {"bench": "gguf", "tokens": options.tokens}
    return parts.main(
        options.only, measured, options.output, settings, python=options.python, count=options.tokens
    )


if __name__ == "__main__":
    sys.exit(main())
