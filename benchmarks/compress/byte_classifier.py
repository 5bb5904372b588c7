"""A classifier of files by their bytes, as some that are deployed: made, trained here, and compressed.

    python -m benchmarks.compress.byte_classifier [--time-budget 5m] [--folder build/bytes] [--output FILE]

The first and last 1,024 bytes of a file go in as numbers (256 stands for "no byte"); one-hot vectors, a
product written as einsum, four positions joined into one, layer norms written out, a wide convolution along
the file, the largest over the file, a product: 0.8 million weights. It is trained for some minutes on the
files below --roots, 24 kinds by their suffixes, and judged on files that it never saw. Files and weights stay
in FOLDER.
"""

from __future__ import annotations

import os
import random
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks import ROOT, parts, training
from benchmarks.compress.asked import Asked, compressed_as_asked

# Kinds of files by suffix.
KINDS = (
    ".py", ".pyc", ".c", ".h", ".hpp", ".js", ".css", ".html", ".xml", ".svg", ".json", ".yaml", ".md",
    ".rst", ".txt", ".cmake", ".pl", ".pm", ".so", ".a", ".gz", ".png", ".mo", ".jar",
)  # fmt: skip
ENDS, NOTHING = 1024, 256
WIDTH, JOINED, FILTERS, TAPS = 64, 4, 512, 5
MOST_OF_A_KIND, FEWEST, MOST_EPOCHS = 1500, 100, 8
ASKED = Asked(budget=0.5, faster=1.8, smaller=3.5)


class WrittenNorm(nn.Module):
    """A layer norm as exporters without an operator for it write it."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(size)), nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        variance = (centred * centred).mean(-1, keepdim=True)
        return centred / torch.sqrt(variance + 1e-6) * self.scale + self.shift


class ByteClassifier(nn.Module):
    """Bytes [batch, 2 * ENDS] to a score a kind."""

    def __init__(self, kinds: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(NOTHING + 1, WIDTH) * 0.3)
        self.joined, self.pooled = WrittenNorm(WIDTH * JOINED), WrittenNorm(FILTERS)
        self.wide = nn.Conv1d(WIDTH * JOINED, FILTERS, TAPS, padding=TAPS // 2)
        self.head = nn.Linear(FILTERS, kinds)

    def forward(self, x: Tensor) -> Tensor:
        return self.scores(torch.einsum("blv,vd->bld", F.one_hot(x.long(), NOTHING + 1).float(), self.table))

    def scores(self, vectors: Tensor) -> Tensor:
        """From the vectors of bytes on; training looks them up."""
        joined = self.joined(vectors.reshape(vectors.shape[0], -1, WIDTH * JOINED))
        found = F.gelu(self.wide(joined.transpose(1, 2)))
        return self.head(self.pooled(found.amax(2)))


def files(roots: list[Path], seed: int) -> Iterator[tuple[Path, int]]:
    """Files of each kind below the roots, and the number of the kind, in a random order."""
    found: dict[str, list[Path]] = {kind: [] for kind in KINDS}
    for root in roots:
        for folder, below, names in os.walk(root):
            below.sort()
            for name in sorted(names):
                kind = Path(name).suffix.lower()
                if kind in found:
                    found[kind].append(Path(folder) / name)
    draw = random.Random(seed)
    enough = {kind: paths for kind, paths in found.items() if len(paths) >= FEWEST}
    every = [
        (path, number)
        for number, paths in enumerate(enough.values())
        for path in draw.sample(paths, min(MOST_OF_A_KIND, len(paths)))
    ]
    draw.shuffle(every)
    yield from every


def sample(path: Path) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """The two ends of a file; OSError."""
    with path.open("rb") as file:
        first = file.read(ENDS)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - ENDS))
        last = file.read(ENDS)
    row = np.full(2 * ENDS, NOTHING, np.int32)
    row[: len(first)] = np.frombuffer(first, np.uint8)
    row[2 * ENDS - len(last) :] = np.frombuffer(last, np.uint8)
    return row


def gathered(roots: list[Path], seed: int) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Samples and kinds; a text that is there twice counts once."""
    rows: dict[bytes, tuple[np.ndarray, int]] = {}  # type: ignore[type-arg]
    for path, kind in files(roots, seed):
        if path.is_file() and path.stat().st_size > 64:
            row = sample(path)
            rows.setdefault(row.tobytes(), (row, kind))
    return np.stack([row for row, _ in rows.values()]), np.array([kind for _, kind in rows.values()])


def trained(x: np.ndarray, y: np.ndarray, seconds: float, seed: int) -> ByteClassifier:  # type: ignore[type-arg]
    """Over as many epochs as fit the time."""
    torch.manual_seed(seed)
    model = ByteClassifier(int(y.max()) + 1)
    samples, labels = torch.from_numpy(x).long(), torch.from_numpy(y).long()

    def loss(rows: Tensor) -> Tensor:
        return F.cross_entropy(model.scores(model.table[samples[rows]]), labels[rows])

    training.train(model, len(samples), loss, training.Schedule(seconds, MOST_EPOCHS), seed)
    return model


def made(folder: Path, options: Namespace) -> None:
    """model.onnx and data.npz in a folder."""
    x, y = gathered(options.roots, options.seed)
    kept = len(x) // 3  # to train on; the rest is for tensmith to split
    model = trained(x[:kept], y[:kept], options.seconds, options.seed)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / "data.npz", x=x[kept:], y=y[kept:])
    training.export(model, (torch.from_numpy(x[:2]),), folder / "model.onnx", ["bytes"], "scores")


def compressed(options: Namespace) -> parts.Found:
    """What its front holds."""
    folder = options.folder / f"trained_{options.seconds:g}_seconds_{options.seed}"
    if not (folder / "model.onnx").exists():
        made(folder, options)
    return compressed_as_asked(
        folder / "model.onnx", f"npz:{folder / 'data.npz'}", folder / "out", options.time_budget, ASKED
    )


def main() -> int:
    """1 where less was reached than was asked for."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--roots", nargs="+", type=Path, default=[Path(sys.prefix), Path("/usr")])
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bytes")
    parser.add_argument("--seconds", type=float, default=240.0, help="of training")
    parser.add_argument("--time-budget", default="5m")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    settings = {"bench": "byte_classifier", "time_budget": options.time_budget}
    settings |= parts.unusual(parser, options, "seconds", "seed")
    return parts.main({"byte classifier": options}, compressed, options.output, settings)


if __name__ == "__main__":
    sys.exit(main())
