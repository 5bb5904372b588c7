"""Trains a small network on scikit-learn's handwritten digits and writes digits.npz and digits.onnx.

    pip install '.[torch]' scikit-learn
    python examples/digits/train.py

Both files are committed, so the demo needs neither torch nor scikit-learn. Seeded, on one CPU thread, about
a minute; torch sums in an order of its own on other CPUs, so another machine's weights may differ.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional as F

HERE = Path(__file__).resolve().parent
SEED = 0
TEST_IMAGES = 500
EPOCHS, BATCH, RATE, DECAY = 30, 32, 4e-3, 1e-2

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]


class ConvNorm(nn.Sequential):
    """Convolution without bias, batch norm, and Relu unless told not to."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1, relu: bool = True
    ) -> None:
        layers: list[nn.Module] = [
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs),
        ]
        super().__init__(*layers, *([nn.ReLU()] if relu else []))


class Residual(nn.Module):
    """relu(x + body(x)); He et al., arXiv:1512.03385."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(ConvNorm(channels, channels), ConvNorm(channels, channels, relu=False))

    def forward(self, x: Tensor) -> Tensor:
        """x: [n, channels, height, width]; the same shape out."""
        return F.relu(x + self.body(x))


class Digits(nn.Module):
    """images [n, 1, 8, 8] in 0..1 -> logits [n, 10]; 96,074 parameters.

    A stem, a residual block, a depthwise separable convolution of stride 2 (Howard et al., arXiv:1704.04861),
    a residual block, global average pooling and a linear layer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            ConvNorm(1, 32),
            Residual(32),
            ConvNorm(32, 32, stride=2, groups=32),
            ConvNorm(32, 64, kernel=1),
            Residual(64),
        )
        self.head = nn.Linear(64, 10)

    def forward(self, images: Tensor) -> Tensor:
        """See the class."""
        logits: Tensor = self.head(self.features(images).mean((2, 3)))
        return logits


def make_data() -> dict[str, Images | Labels]:
    """x_train, y_train, x_test, y_test: pixels of 0..16 stretched to uint8 0..255, classes in proportion."""
    pixels, labels = load_digits(return_X_y=True)
    images = np.rint(pixels.reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8)
    x_train, x_test, y_train, y_test = train_test_split(
        images, labels.astype(np.int64), test_size=TEST_IMAGES, random_state=SEED, stratify=labels
    )
    return {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}


def as_input(images: Images) -> Tensor:
    """uint8 images to the range that the network takes."""
    return torch.from_numpy(images.astype(np.float32) / 255)


def shifted(images: Tensor) -> Tensor:
    """Every image moved by up to one pixel either way, the gap black."""
    padded = F.pad(images, (1, 1, 1, 1))
    offsets = torch.randint(3, (len(images), 2)).tolist()
    return torch.stack([p[:, y : y + 8, x : x + 8] for p, (y, x) in zip(padded, offsets)])


def train(images: Images, labels: Labels) -> Digits:
    """A trained network, in evaluation mode."""
    x, y = as_input(images), torch.from_numpy(labels)
    network = Digits()
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=DECAY)
    steps = EPOCHS * -(-len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, steps)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(x)).split(BATCH):
            loss = F.cross_entropy(network(shifted(x[chosen])), y[chosen], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return network.eval()


def export(network: Digits, path: Path) -> None:
    """Writes the network as PyTorch hands it over: any batch, batch norms still in place.

    Only the notes that torch leaves on every node are taken out: they name folders of this machine, and a
    file blown up by them would flatter whatever compresses it.
    """
    exported = torch.onnx.export(
        network,
        (torch.zeros(2, 1, 8, 8),),
        input_names=["images"],
        output_names=["logits"],
        dynamic_shapes={"images": {0: torch.export.Dim("batch")}},
        dynamo=True,
        optimize=False,
        verbose=False,
    )
    assert exported is not None
    model = exported.model_proto
    for node in model.graph.node:
        node.ClearField("metadata_props")
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def main() -> None:
    """Writes both files and prints the accuracy on the test images."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    data = make_data()
    np.savez_compressed(HERE / "digits.npz", **data)
    network = train(data["x_train"], data["y_train"])
    export(network, HERE / "digits.onnx")
    with torch.no_grad():
        right = network(as_input(data["x_test"])).argmax(1).numpy() == data["y_test"]
    parameters = sum(p.numel() for p in network.parameters())
    print(f"{parameters} parameters; {100 * right.mean():.1f} % of {TEST_IMAGES} test images right")


if __name__ == "__main__":
    main()
