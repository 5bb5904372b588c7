"""What dependent quantization saves: int8 weights rounded for an entropy coder, with and without a trellis.

    python -m benchmarks.compress.trellis [--models resnet20_cifar10] [--output FILE]

A part is a model. coded, dependent: by level of the price of memory, bytes of model.packed and the divergence
from the original (nats a sample of the search split), by the same sensitivities of layers, where it is
between LEAST and MOST. saved: per cent of bytes, at equal divergences.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import DATA, parts
from benchmarks.compress.stock.cases import CASES, Case
from tensmith.backend.onnx import write_onnx
from tensmith.backend.packed import pack
from tensmith.data import parse_preprocess
from tensmith.engine import ENGINES
from tensmith.evaluate.calibrator import Calibrator
from tensmith.files import TemporaryFolder
from tensmith.frontend.onnx import read_onnx
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import EVERYWHERE, Step
from tensmith.rewrite.trail import simplify
from tensmith.search.bits import price
from tensmith.search.sensitivity import Probe, for_all_layers, layer_sensitivity

MODELS = ("resnet56_cifar10", "resnet20_cifar10", "resnet8_wide_cifar10")
# Levels from the first one on, down, and the divergences that are of use: from far too much loss to none.
HIGHEST, LOWEST, PROBING = 1, -14, 30.0
MOST, LEAST = 0.15, 0.002
Array = np.ndarray[Any, Any]


class Point(NamedTuple):
    """A file, and how far its answers are from the original's."""

    bytes: int
    divergence: float


def answers(case: Case, path: Path) -> Array:
    """Logarithms of what the classes have, [samples, classes]."""
    session = ENGINES["onnxruntime"].prepare(path, 1)
    samples = case.singles(case.views(DATA).search, case.model(DATA))
    found = np.concatenate([next(iter(session.run(inputs).values())) for inputs, _ in samples])
    logits = found.reshape(len(found), -1).astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    return np.asarray(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))


def saved(plain: Sequence[Point], trellis: Sequence[Point]) -> float:
    """Per cent of bytes at equal divergences: Bjontegaard's rate (ITU-T VCEG-M33, 2001), of parabolas."""
    curves = []
    for points in (plain, trellis):
        sizes, divergences = np.log(np.array(points, np.float64)).T
        curves.append((np.polynomial.Polynomial.fit(divergences, sizes, 2).convert(), divergences))
    low, high = max(d.min() for _, d in curves), min(d.max() for _, d in curves)
    areas = [curve.integ()(high) - curve.integ()(low) for curve, _ in curves]
    return round(100 * (1 - float(np.exp((areas[1] - areas[0]) / (high - low)))), 2)


def measured(name: str) -> parts.Found:
    """A model's ladder of prices, twice."""
    case, preprocess = CASES[name], parse_preprocess(CASES[name].preprocess or "raw")
    program = simplify(read_onnx(case.model(DATA))).program
    view = case.views(DATA).calibration
    calibrator = Calibrator(view, preprocess, 1)
    probe = Probe.of(program, view, preprocess, 1, PROBING)
    probed = layer_sensitivity(program, probe, calibrator, PROBING)
    sensitivities = for_all_layers(program, probed)
    worth = {site: max(each.divergence, 1e-9) for site, each in sensitivities.items()}
    plain = sorted(site for site, each in sensitivities.items() if each.plain)
    original = answers(case, case.model(DATA))
    found: dict[str, list[Point]] = {}
    with TemporaryFolder("tensmith-trellis-") as folder:
        path = Path(folder) / "model.onnx"

        def at(level: int, rounding: str) -> Point:
            params = {"calibration": "mse", "rounding": rounding, "price": price(level), "worth": worth}
            step = Step("int8", EVERYWHERE, params | ({"plain": plain} if plain else {}), "lossy")
            write_onnx(simplify(apply_lossy(program, step, calibrator)).program, path)
            divergence = (np.exp(original) * (original - answers(case, path))).sum(axis=1).mean()
            return Point(len(pack(path.read_bytes())), float(f"{divergence:.4g}"))

        for level in range(HIGHEST, LOWEST, -1):
            point = at(level, "coded")
            if point.divergence < LEAST:
                break
            if point.divergence <= MOST:
                found.setdefault("coded", []).append(point)
                found.setdefault("dependent", []).append(at(level, "dependent"))
    share = saved(found["coded"], found["dependent"])
    wrong = () if share > 0 else (f"a trellis saves {share} %",)
    ladders = {rounding: [each._asdict() for each in points] for rounding, points in found.items()}
    return parts.Found(row={"saved": share} | ladders, wrong=wrong)


def main() -> int:
    """1 where nothing was saved, or a part failed."""
    parser = parts.arguments_at_once(__doc__)
    parser.add_argument("--models", nargs="+", choices=list(CASES), default=list(MODELS), metavar="NAME")
    options = parser.parse_args()
    settings = {"bench": "trellis", "format": 2, "divergences": [LEAST, MOST]}
    return parts.main(options.models, measured, options.output, settings, options.at_once)


if __name__ == "__main__":
    sys.exit(main())
