"""A character model's front beside the same weights quantized by llama.cpp: bytes, loss, tokens a second.

    python -m benchmarks.compress.characters [--model FILE.gguf] [--python PATH] [--time-budget 10m]

The model is that of `benchmarks.tasks` (GPT-2, 4.8 million weights, on tinyshakespeare), trained for
--minutes where --model is not given. Each file answers the same windows of held-out text, which no search has
seen; differences of losses are paired by window. Rates are of single tokens in one thread, the best of ROUNDS
in which files take turns; of llama.cpp's the time in its own calls is counted, none of Python's beside them.
Bytes are those of the file that is shipped. A model that is in FOLDER already, trained for as long, is not
trained again. Needs the package llama-cpp-python, here or in the Python that --python names; it quantizes
without an importance matrix, as its tool does by default.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks import DATA, ROOT, parts
from benchmarks.compress.command import compress
from benchmarks.compress.gguf import decoding_rate
from benchmarks.tasks.networks import CharacterModel
from benchmarks.tasks.tasks import CONTEXT, TASKS
from tensmith import load
from tensmith.data import open_dataset
from tensmith.evaluate.statistics import estimate

ROUNDS = 3
# What llama.cpp's files are called, and their number in its interface.
_QUANTIZED = {"F16": 1, "Q8_0": 7, "Q4_K_M": 15, "Q2_K": 10}

_THEIRS = """
import ctypes, sys, time
import numpy as np
import llama_cpp

source, file, kind, windows, count, out = sys.argv[1:]
if kind != "-":
    params = llama_cpp.llama_model_quantize_default_params()
    params.nthread, params.ftype = 1, int(kind)
    assert llama_cpp.llama_model_quantize(source.encode(), file.encode(), ctypes.byref(params)) == 0
options = {"n_ctx": 128, "n_threads": 1, "n_batch": 1, "verbose": False}
model = llama_cpp.Llama(file, logits_all=True, **options)
logits = []
for row in np.load(windows):
    model.reset()
    model.eval(row.tolist())
    logits.append(np.array(model.scores[: len(row)]))
model = llama_cpp.Llama(file, **options)

def next_after(token):
    batch = llama_cpp.llama_batch_get_one((ctypes.c_int32 * 1)(token), 1)
    started = time.perf_counter()
    assert llama_cpp.llama_decode(model.ctx, batch) == 0
    scores = llama_cpp.llama_get_logits_ith(model.ctx, -1)
    seconds = time.perf_counter() - started
    return int(np.ctypeslib.as_array(scores, (model.n_vocab(),)).argmax()), seconds

token, _ = next_after(1)
took = 0.0
for _ in range(int(count)):
    token, seconds = next_after(token)
    took += seconds
rate = int(count) / took
np.savez(out, logits=np.array(logits), rate=rate, version=llama_cpp.__version__)
"""


def losses(logits: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Nats a token of each of windows [n, length], but its first; logits [n, length, vocabulary]."""
    scores = logits[:, :-1].astype(np.float64)
    scores -= scores.max(-1, keepdims=True)
    chosen = np.take_along_axis(scores, tokens[:, 1:, None], -1)[..., 0]
    nats: np.ndarray = (np.log(np.exp(scores).sum(-1)) - chosen).mean(-1)
    return nats


def compared(given: Path | None, spec: str, options: Namespace) -> parts.Found:
    """All files of one model, which is trained where none is given."""
    folder = options.folder
    model, out = given or _trained(folder, options.minutes), folder / "out"
    compress(model, spec, out, "--max-drop", "1", "--time-budget", options.time_budget)
    for kind in _QUANTIZED:  # of another model
        (folder / f"{kind}.gguf").unlink(missing_ok=True)
    part = open_dataset(spec).part("test")
    rows = np.linspace(0, len(part) - 1, min(options.windows, len(part))).astype(int)
    windows = np.asarray(part.inputs(rows.tolist()))
    np.save(folder / "windows.npy", windows)
    files: dict[str, Callable[[], Measured]] = {
        kind: partial(_theirs, model, folder / f"{kind}.gguf", str(number), folder, options)
        for kind, number in _QUANTIZED.items()
    }
    points = sorted((out / "candidates").iterdir())
    files |= {each.name: partial(_ours, each, windows, options.tokens) for each in points}
    best: dict[str, Measured] = {}
    for _ in range(ROUNDS):
        for name, run in files.items():
            best[name] = max(filter(None, (run(), best.get(name))), key=lambda each: each.rate)
    ours = {each.name: best[each.name] for each in points}
    beside = {kind: _beside(best[kind], ours) for kind in _QUANTIZED}
    row = {name: measured.row() | beside.get(name, {}) for name, measured in best.items()}
    wrong = [f"no point is as good as {kind} in bytes, loss and rate" for kind in beside if not beside[kind]]
    return parts.Found(row=row, wrong=tuple(wrong))


@dataclass(frozen=True)
class Measured:
    """One file: its bytes, nats a token of each window [n], tokens a second, what else is to be said."""

    size: int
    losses: np.ndarray
    rate: float
    more: Mapping[str, Any]

    def row(self) -> dict[str, Any]:
        """Its figures in the document."""
        loss = float(self.losses.mean())
        return {"bytes": self.size, "loss": loss, "tokens_per_second": self.rate, **self.more}


def _theirs(model: Path, file: Path, kind: str, folder: Path, options: Namespace) -> Measured:
    answered, windows = folder / "answers.npz", folder / "windows.npy"
    words = map(str, (model, file, "-" if file.exists() else kind, windows, options.tokens, answered))
    subprocess.run([options.python, "-c", _THEIRS, *words], check=True, capture_output=True)
    with np.load(answered) as answers:
        nats = losses(answers["logits"], np.load(windows))
        version = {"version": str(answers["version"])}
        return Measured(file.stat().st_size, nats, float(answers["rate"]), version)


def _ours(folder: Path, windows: np.ndarray, tokens: int) -> Measured:
    model = load(folder)
    logits = np.concatenate([model(window[None]) for window in windows])
    shipped = next(folder / name for name in ("model.packed", "model.onnx") if (folder / name).exists())
    rate = decoding_rate(load(folder, engine="native"), tokens)
    steps = yaml.safe_load((folder / "plan.yaml").read_text())["steps"]
    lossy = [step["rule"] for step in steps if step.get("kind", "lossy") == "lossy"]
    words = " and ".join(lossy) or "exact rewrites alone"
    return Measured(shipped.stat().st_size, losses(logits, windows), rate, {"words": words})


def _beside(theirs: Measured, ours: Mapping[str, Measured]) -> dict[str, Any]:
    """The point of least loss that is neither larger nor slower: what it loses more, with its interval.

    Nothing where there is none, or where it surely loses more.
    """
    as_good = {name: o for name, o in ours.items() if o.size <= theirs.size and o.rate >= theirs.rate}
    if not as_good:
        return {}
    point = min(as_good, key=lambda name: float(as_good[name].losses.mean()))
    more = as_good[point].losses - theirs.losses
    value, low, high = estimate(more, lambda rows: rows.mean(-1))
    return {"beside": point, "loses more": {"value": value, "low": low, "high": high}} if low <= 0 else {}


def main() -> int:
    """1 where no point is as good as a file of llama.cpp."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--model", type=Path, help="its GGUF file, of this script")
    parser.add_argument("--python", default=sys.executable, help="one that has llama-cpp-python")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "characters")
    parser.add_argument("--minutes", type=float, default=20, help="of training")
    parser.add_argument("--time-budget", default="10m")
    parser.add_argument("--windows", type=int, default=200, help="of text that files answer")
    parser.add_argument("--tokens", type=int, default=120, help="single ones that are timed")
    options = parser.parse_args()
    spec = TASKS["characters"].spec(DATA / TASKS["characters"].data, options.folder)
    settings = {"bench": "characters", "time_budget": options.time_budget, "context": CONTEXT}
    settings |= parts.unusual(parser, options, "minutes", "windows", "tokens")
    every = {"characters": options.model}
    return parts.main(every, compared, options.output, settings, spec=spec, options=options)


def _trained(folder: Path, minutes: float) -> Path:
    """The GGUF file of a model that is trained for so long unless it is there."""
    from benchmarks.tasks.train import made

    file = folder / f"trained_{minutes:g}_minutes.gguf"
    if not file.exists():
        network = made("characters", DATA / TASKS["characters"].data, folder / "model.onnx", minutes)
        assert isinstance(network, CharacterModel)
        file.write_bytes(network.gguf())
    return file


if __name__ == "__main__":
    sys.exit(main())
