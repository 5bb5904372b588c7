"""A character model's front beside the same weights quantized by llama.cpp: bytes, loss, tokens a second.

    python -m benchmarks.compress.characters [--model FILE.gguf] [--python PATH] [--time-budget 10m]

The model is that of `benchmarks.tasks` (GPT-2, 4.8 million weights, on tinyshakespeare), trained for
--minutes where --model is not given. Each file answers the same windows of held-out text, which no search has
seen; rates are of single tokens in one thread, the best of ROUNDS in which files take turns. Bytes are those
of the file that is shipped. What is in FOLDER already is only measured. Needs the package llama-cpp-python,
here or in the Python that --python names; it quantizes without an importance matrix, as its tool does by
default.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
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

ROUNDS = 3
_RATE = "tokens_per_second"
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
    assert llama_cpp.llama_decode(model.ctx, batch) == 0
    scores = llama_cpp.llama_get_logits_ith(model.ctx, -1)
    return int(np.ctypeslib.as_array(scores, (model.n_vocab(),)).argmax())

token = next_after(1)
started = time.perf_counter()
for _ in range(int(count)):
    token = next_after(token)
np.savez(out, logits=np.array(logits), rate=int(count) / (time.perf_counter() - started))
"""


def loss(logits: np.ndarray, tokens: np.ndarray) -> float:
    """Nats a token of windows [n, length], but the first of each; logits [n, length, vocabulary]."""
    scores = logits[:, :-1].astype(np.float64)
    scores -= scores.max(-1, keepdims=True)
    chosen = np.take_along_axis(scores, tokens[:, 1:, None], -1)[..., 0]
    return float(np.mean(np.log(np.exp(scores).sum(-1)) - chosen))


def compared(model: Path, spec: str, options: Namespace) -> parts.Found:
    """All files of one model."""
    folder = options.folder / "characters"
    out = folder / "out"
    if not (out / "front.json").exists():
        compress(model, spec, out, "--max-drop", "1", "--time-budget", options.time_budget)
    part = open_dataset(spec).part("test")
    rows = np.linspace(0, len(part) - 1, min(options.windows, len(part))).astype(int)
    windows = np.asarray(part.inputs(rows.tolist()))
    np.save(folder / "windows.npy", windows)
    files: dict[str, Callable[[], Mapping[str, Any]]] = {
        kind: partial(_theirs, model, folder / f"{kind}.gguf", str(number), folder, options)
        for kind, number in _QUANTIZED.items()
    }
    points = sorted((out / "candidates").iterdir())
    files |= {each.name: partial(_ours, each, windows, options.tokens) for each in points}
    row: dict[str, Mapping[str, Any]] = {}
    for _ in range(ROUNDS):
        for name, run in files.items():
            row[name] = max(run(), row.get(name, {}), key=lambda each: float(each.get(_RATE, 0)))
    wrong = [_undominated(kind, row[kind], [row[each.name] for each in points]) for kind in _QUANTIZED]
    return parts.Found(row=row, wrong=tuple(filter(None, wrong)))


def _theirs(model: Path, file: Path, kind: str, folder: Path, options: Namespace) -> Mapping[str, Any]:
    answered, windows = folder / "answers.npz", folder / "windows.npy"
    words = map(str, (model, file, "-" if file.exists() else kind, windows, options.tokens, answered))
    subprocess.run([options.python, "-c", _THEIRS, *words], check=True, capture_output=True)
    with np.load(answered) as answers:
        nats = loss(answers["logits"], np.load(windows))
        return {"bytes": file.stat().st_size, "loss": nats, _RATE: float(answers["rate"])}


def _ours(folder: Path, windows: np.ndarray, tokens: int) -> Mapping[str, Any]:
    model = load(folder)
    logits = np.concatenate([model(window[None]) for window in windows])
    shipped = next(folder / name for name in ("model.packed", "model.onnx") if (folder / name).exists())
    rate = decoding_rate(load(folder, engine="native"), tokens)
    steps = yaml.safe_load((folder / "plan.yaml").read_text())["steps"]
    lossy = [step["rule"] for step in steps if step.get("kind", "lossy") == "lossy"]
    words = " and ".join(lossy) or "exact rewrites alone"
    return {"bytes": shipped.stat().st_size, "loss": loss(logits, windows), _RATE: rate, "words": words}


def _undominated(kind: str, theirs: Mapping[str, Any], ours: Sequence[Mapping[str, Any]]) -> str:
    """A sentence where no point is as good in everything; losses are held beside one another as shown."""

    def beats(point: Mapping[str, Any]) -> bool:
        better = round(point["loss"], parts.LOSS_PLACES) <= round(theirs["loss"], parts.LOSS_PLACES)
        return better and point["bytes"] <= theirs["bytes"] and point[_RATE] >= theirs[_RATE]

    return "" if any(map(beats, ours)) else f"no point beats {kind} in bytes, loss and tokens a second"


def main() -> int:
    """1 where a file of llama.cpp is beaten by no point."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--model", type=Path, help="its GGUF file, of this script")
    parser.add_argument("--python", default=sys.executable, help="one that has llama-cpp-python")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "tasks")
    parser.add_argument("--minutes", type=float, default=20, help="of training")
    parser.add_argument("--time-budget", default="10m")
    parser.add_argument("--windows", type=int, default=200, help="of text that files answer")
    parser.add_argument("--tokens", type=int, default=120, help="single ones that are timed")
    options = parser.parse_args()
    folder = options.folder / "characters"
    spec = TASKS["characters"].spec(DATA / TASKS["characters"].data, folder)
    model = options.model or _trained(folder, options.minutes)
    settings = {"bench": "characters", "time_budget": options.time_budget, "context": CONTEXT}
    return parts.main({"characters": model}, compared, options.output, settings, spec=spec, options=options)


def _trained(folder: Path, minutes: float) -> Path:
    """The GGUF file of a model that is trained unless it is there."""
    from benchmarks.tasks.train import made

    file = folder / "model.gguf"
    if not file.exists():
        network = made("characters", DATA / TASKS["characters"].data, folder / "model.onnx", minutes)
        assert isinstance(network, CharacterModel)
        file.write_bytes(network.gguf())
    return file


if __name__ == "__main__":
    sys.exit(main())
