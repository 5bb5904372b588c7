"""Networks in the shapes of ResNet-50, BERT-large and GPT-2 with random weights, and noise to feed them.

    python -m benchmarks.compress.shapes build/shapes [--narrow]

What examples/study/tensorsynth.yaml reads: sizes and times are those of trained networks, accuracies are not.
One image of 224 x 224, or 128 tokens. --narrow writes small networks of the same structure, to try it out.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path

import numpy as np
import torch

from benchmarks.models import build

NAMES = ("resnet50", "bert_large", "gpt2")
TOKENS, SAMPLES = 128, 64


def write(name: str, folder: Path, full: bool) -> None:
    """NAME.onnx for one sample, and NAME.npz with as many as a study splits."""
    torch.manual_seed(0)
    module, examples = build(name, full)
    one = tuple(x[:1] if x.ndim == 4 else x[:1].repeat(1, TOKENS // x.shape[1]) for x in examples)
    path, names = folder / f"{name}.onnx", [f"x{number}" for number in range(len(one))]
    torch.onnx.export(module, one, str(path), opset_version=18, input_names=names, external_data=full)
    random = np.random.default_rng(0)
    arrays = {}
    for key, x in zip(names, one):
        shape = (SAMPLES, *x.shape[1:])
        arrays[key] = (
            random.standard_normal(shape).astype(np.float32)
            if x.is_floating_point()
            else np.broadcast_to(x.numpy(), shape)
            if key != "x0"
            else random.integers(0, 100, shape)
        )
    np.savez(folder / f"{name}.npz", **arrays)


def main() -> None:
    """Writes all of them."""
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--narrow", action="store_true", help="small networks of the same structure")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        write(name, options.folder, not options.narrow)


if __name__ == "__main__":
    sys.exit(main())
