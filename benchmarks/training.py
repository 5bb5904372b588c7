"""What benches that train a network of their own share: the loop, and the ONNX file that comes of it."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn

BATCH_NAME = "batch"
_MOST_OF_A_BATCH = 4096


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to learn. rate: at the peak; warm: the share of it that the rate rises in.

    Training ends after `epochs` over the samples, or after `seconds`. By Adam, or with `momentum` by gradient
    descent with Nesterov's.
    """

    seconds: float
    epochs: float
    batch: int = 64
    rate: float = 2e-3
    decay: float = 0.01
    warm: float = 0.0
    momentum: float = 0.0

    def optimizer(self, network: nn.Module) -> torch.optim.Optimizer:
        """What takes the steps."""
        given, rate, decay = network.parameters(), self.rate, self.decay
        if not self.momentum:
            return torch.optim.AdamW(given, rate, weight_decay=decay)
        return torch.optim.SGD(given, rate, self.momentum, weight_decay=decay, nesterov=True)

    def rate_at(self, share: float) -> float:
        """Up in a line, then down along half a cosine. share: of the training, 0 to 1."""
        if share < self.warm:
            return self.rate * share / self.warm
        return self.rate * (0.5 + 0.5 * math.cos(math.pi * (share - self.warm) / (1 - self.warm)))


def train(
    network: nn.Module, samples: int, loss: Callable[[Tensor], Tensor], schedule: Schedule, seed: int
) -> float:
    """Steps over samples drawn anew in every epoch; how many epochs it came to.

    loss: of samples by their numbers [n]. Ctrl-C ends it with what was learnt so far. The network is left in
    evaluation mode.
    """
    order = torch.Generator().manual_seed(seed)
    optimizer = schedule.optimizer(network)
    network.train()
    began, seen, total = time.monotonic(), 0, schedule.epochs * samples
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            for rows in torch.randperm(samples, generator=order).split(schedule.batch):
                share = max(seen / total, (time.monotonic() - began) / schedule.seconds)
                if share >= 1:
                    network.eval()
                    return seen / samples
                for group in optimizer.param_groups:
                    group["lr"] = schedule.rate_at(share)
                optimizer.zero_grad()
                loss(rows).backward()
                nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                optimizer.step()
                seen += len(rows)
    network.eval()
    return seen / samples


def export(
    network: nn.Module, examples: Sequence[Tensor], path: Path, inputs: Sequence[str], output: str
) -> None:
    """The network as PyTorch's exporter writes it, for any number of samples.

    The notes that torch leaves on every node are taken out: they name folders of this machine, and a file
    blown up by them would flatter whatever compresses it.
    """
    batch = torch.export.Dim(BATCH_NAME, min=1, max=_MOST_OF_A_BATCH)
    free, given = tuple({0: batch} for _ in examples), tuple(example.cpu() for example in examples)
    # Captured here, since torch.onnx captures recurrent layers as loops.
    program = torch.export.export(network.eval().cpu(), given, dynamic_shapes=free)
    exported = torch.onnx.export(
        program, given, dynamo=True, verbose=False, input_names=[*inputs], output_names=[output],
        dynamic_shapes=free,
    )  # fmt: skip
    assert exported is not None
    model = exported.model_proto
    for node in model.graph.node:
        node.ClearField("metadata_props")
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
