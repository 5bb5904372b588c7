"""Trains the network of a task and writes it as ONNX.

    python -m benchmarks.tasks.train vit --data DIR [--minutes 8] [--output vit.onnx] [--also KIND:PATH]

Tasks: resnet18, mobilenet_v1, mobilenet_v2, vgg16, vit and mobilenet_v3 on CIFAR-10, sentiment on SST-2,
digits on the Free Spoken Digit Dataset, characters on tinyshakespeare. DIR is the dataset as it is published.
Beside the network lies what its data need to be read (a tokenizer, the two parts of a text). Trains on a GPU
where there is one, in bfloat16 where that is safe; Ctrl-C ends the training with what was learnt. --also:
another dataset to check on.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks import training
from benchmarks.tasks.tasks import TASKS, Task, all_rows
from tensmith.data import DatasetPart, open_dataset

_BATCH = 100


@dataclass(frozen=True)
class Score:
    """Of a part: the mean loss in nats and the share that is right, over all that has a label."""

    loss: float
    right: float

    def __str__(self) -> str:
        return f"{self.loss:.3f} nats, {100 * self.right:.2f} % right"


def score(network: nn.Module, task: Task, part: DatasetPart, device: str = "cpu") -> Score:
    """Of a network in evaluation mode."""
    loss = right = count = 0.0
    plain = replace(task, smoothing=0.0)
    with torch.inference_mode():
        for rows in all_rows(part, _BATCH):
            inputs, labels = task.samples(part, rows)
            scores, labels = network(*(each.to(device) for each in inputs)), labels.to(device)
            loss += float(plain.loss(scores, labels)) * labels.numel()
            right += int((scores.argmax(-1) == labels).sum())
            count += labels.numel()
    return Score(loss / count, right / count)


def made(name: str, data: Path, output: Path, minutes: float | None = None, seed: int = 0) -> nn.Module:
    """Trains a task's network, writes it to `output`, and says what it learnt."""
    task = TASKS[name]
    dataset = open_dataset(task.spec(data, output.parent))
    torch.manual_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network, part = task.network(dataset), dataset.part("train")
    network = network.to(device, memory_format=torch.channels_last)
    schedule = task.schedule if minutes is None else replace(task.schedule, seconds=60 * minutes)
    inputs, labels = task.samples(part, range(len(part)))
    inputs, labels = [each.to(device) for each in inputs], labels.to(device)

    def loss(rows: Tensor) -> Tensor:
        rows = rows.to(device)
        with torch.autocast(device, torch.bfloat16, enabled=device != "cpu"):
            return task.loss(network(*task.alter([each[rows] for each in inputs])), labels[rows])

    epochs = training.train(network, len(part), loss, schedule, seed)
    parameters = sum(each.numel() for each in network.parameters())
    print(f"{name}: {parameters} parameters, {epochs:.2f} epochs")
    for other, held_out in _held_out(dataset.parts).items():
        print(f"{name}: {other}: {score(network, task, held_out, device)}", flush=True)
    examples, _ = task.samples(part, [0, 1])
    training.export(network, examples, output, task.inputs, "scores")
    budget = f" --max-drop {task.asked.budget}" if task.asked else ""
    print(f"tensmith compress {output} --data '{dataset.source}'{budget}")
    return network.cpu()


def _held_out(parts: Mapping[str, DatasetPart]) -> dict[str, DatasetPart]:
    return {name: parts[name] for name in parts if name != "train"}


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("task", choices=[*TASKS])
    parser.add_argument("--data", type=Path, required=True, help="the dataset, as it is published")
    parser.add_argument("--minutes", type=float, help="of training, at most")
    parser.add_argument("--output", type=Path, help="the ONNX file; TASK.onnx where left out")
    parser.add_argument("--also", help="KIND:PATH of another dataset to check on")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    output = options.output or Path(f"{options.task}.onnx")
    network = made(options.task, options.data, output, options.minutes, options.seed)
    if options.also:
        _, _, reading = TASKS[options.task].spec(options.data, output.parent).partition("?")
        for name, part in _held_out(open_dataset(f"{options.also}?{reading}").parts).items():
            print(f"{options.also} {name}: {score(network, TASKS[options.task], part)}")


if __name__ == "__main__":
    main()
