"""Well-known networks with random weights, in their published layer structure, at any width.

Used to time the importer and, narrow, to test it. `width` scales channels; 1.0 is the published size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def conv_norm(
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    activation: type | None = nn.ReLU,
) -> nn.Sequential:
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([activation()] if activation else []))


class Residual(nn.Module):
    """relu(body(x) + shortcut(x)); He et al., arXiv:1512.03385."""

    def __init__(self, body: nn.Module, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = body
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else conv_norm(inputs, outputs, 1, stride, activation=None)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.shortcut(x))


class Head(nn.Sequential):
    """Global average pooling and a linear classifier."""

    def __init__(self, channels: int, classes: int, dropout: float = 0.0) -> None:
        super().__init__(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(dropout), nn.Linear(channels, classes)
        )


def resnet(
    blocks: tuple[int, ...], bottleneck: bool, width: float = 1.0, classes: int = 1000, small: bool = False
) -> nn.Module:
    """ResNet-18 is ((2, 2, 2, 2), False), ResNet-50 is ((3, 4, 6, 3), True). small: for images of 32 x 32."""
    channels = int(64 * width)
    wide = [conv_norm(3, channels, 7, 2), nn.MaxPool2d(3, 2, 1)]
    layers: list[nn.Module] = [conv_norm(3, channels, 3)] if small else wide
    for stage, count in enumerate(blocks):
        inner = int(64 * 2**stage * width)
        outputs = inner * 4 if bottleneck else inner
        for block in range(count):
            stride = 2 if stage and not block else 1
            if bottleneck:
                body = nn.Sequential(
                    conv_norm(channels, inner, 1), conv_norm(inner, inner, 3, stride),
                    conv_norm(inner, outputs, 1, activation=None),
                )  # fmt: skip
            else:
                body = nn.Sequential(
                    conv_norm(channels, inner, 3, stride), conv_norm(inner, outputs, 3, activation=None)
                )
            layers.append(Residual(body, channels, outputs, stride))
            channels = outputs
    return nn.Sequential(*layers, Head(channels, classes))


def _vgg16_stages(width: float, layer: Callable[[int, int], Sequence[nn.Module]]) -> list[nn.Module]:
    """Its convolutions, each by `layer` from and to so many channels, and poolings."""
    layers: list[nn.Module] = []
    channels = 3
    for size, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            outputs = int(size * width)
            layers += layer(channels, outputs)
            channels = outputs
        layers.append(nn.MaxPool2d(2))
    return layers


def vgg16(width: float = 1.0, classes: int = 1000) -> nn.Module:
    """Simonyan and Zisserman, arXiv:1409.1556, configuration D."""
    layers = _vgg16_stages(width, lambda n, m: (nn.Conv2d(n, m, 3, padding=1), nn.ReLU()))
    channels = int(512 * width)
    hidden = int(4096 * width)
    first = [nn.Linear(channels * 49, hidden), nn.ReLU(), nn.Dropout()]
    second = [nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout()]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(7), nn.Flatten(), *first, *second, nn.Linear(hidden, classes)
    )


def vgg16_small(width: float = 1.0, classes: int = 10) -> nn.Module:
    """VGG-16 for images of 32 x 32: batch normalization, and one linear layer behind the last pooling."""
    layers = _vgg16_stages(width, lambda n, m: (conv_norm(n, m, 3),))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(int(512 * width), classes))


def mobilenet_v1(width: float = 1.0, classes: int = 1000, small: bool = False) -> nn.Module:
    """Howard et al., arXiv:1704.04861: depthwise, then pointwise convolutions.

    small: for images of 32 x 32, whose first layer leaves their size as it is.
    """
    channels = int(32 * width)
    layers: list[nn.Module] = [conv_norm(3, channels, 3, 1 if small else 2)]
    for size, stride in (
        (64, 1),
        (128, 2),
        (128, 1),
        (256, 2),
        (256, 1),
        (512, 2),
        *((512, 1),) * 5,
        (1024, 2),
        (1024, 1),
    ):
        outputs = int(size * width)
        layers += [conv_norm(channels, channels, 3, stride, channels), conv_norm(channels, outputs, 1)]
        channels = outputs
    return nn.Sequential(*layers, Head(channels, classes))


class SqueezeExcite(nn.Module):
    """x * gate(expand(activation(reduce(mean(x))))); Hu et al., arXiv:1709.01507."""

    def __init__(
        self, channels: int, reduced: int, activation: type = nn.SiLU, gate: type = nn.Sigmoid
    ) -> None:
        super().__init__()
        self.reduce, self.activation = nn.Conv2d(channels, reduced, 1), activation()
        self.expand, self.gate = nn.Conv2d(reduced, channels, 1), gate()

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(self.expand(self.activation(self.reduce(F.adaptive_avg_pool2d(x, 1)))))


class InvertedResidual(nn.Module):
    """Expand, depthwise, perhaps squeeze-and-excite, project; Sandler et al., arXiv:1801.04381.

    excite: makes a squeeze-and-excite for so many channels.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        expansion: float,
        stride: int,
        kernel: int = 3,
        excite: Callable[[int], nn.Module] | None = None,
        activation: type = nn.ReLU6,
    ) -> None:
        super().__init__()
        hidden = round(inputs * expansion)
        layers: list[nn.Module] = []
        if expansion != 1:
            layers.append(conv_norm(inputs, hidden, 1, activation=activation))
        layers.append(conv_norm(hidden, hidden, kernel, stride, hidden, activation))
        if excite is not None:
            layers.append(excite(hidden))
        layers.append(conv_norm(hidden, outputs, 1, activation=None))
        self.body = nn.Sequential(*layers)
        self.skip = inputs == outputs and stride == 1

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.skip else self.body(x)


def mobilenet_v2(width: float = 1.0, classes: int = 1000, small: bool = False) -> nn.Module:
    """Sandler et al., arXiv:1801.04381, table 2. small: for images of 32 x 32, halved thrice."""
    channels, last = int(32 * width), int(1280 * width)
    early = 1 if small else 2
    layers: list[nn.Module] = [conv_norm(3, channels, 3, early, activation=nn.ReLU6)]
    for expansion, size, count, stride in (
        (1, 16, 1, 1),
        (6, 24, 2, early),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for block in range(count):
            outputs = max(1, int(size * width))
            layers.append(InvertedResidual(channels, outputs, expansion, 1 if block else stride))
            channels = outputs
    return nn.Sequential(*layers, conv_norm(channels, last, 1, activation=nn.ReLU6), Head(last, classes, 0.2))


def efficientnet_b0(width: float = 1.0, classes: int = 1000) -> nn.Module:
    """Tan and Le, arXiv:1905.11946, table 1."""
    channels, last = int(32 * width), int(1280 * width)
    layers: list[nn.Module] = [conv_norm(3, channels, 3, 2, activation=nn.SiLU)]
    for expansion, size, count, stride, kernel in (
        (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
        (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
    ):  # fmt: skip
        for block in range(count):
            outputs = max(1, int(size * width))
            excite = partial(SqueezeExcite, reduced=max(1, channels // 4))
            step = 1 if block else stride
            layers.append(InvertedResidual(channels, outputs, expansion, step, kernel, excite, nn.SiLU))
            channels = outputs
    return nn.Sequential(*layers, conv_norm(channels, last, 1, activation=nn.SiLU), Head(last, classes, 0.2))


class DenseLayer(nn.Module):
    """Appends `growth` channels to its input; Huang et al., arXiv:1608.06993."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth), nn.ReLU(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], 1)


def densenet(blocks: tuple[int, ...], width: float = 1.0, classes: int = 1000) -> nn.Module:
    """DenseNet-161 is (6, 12, 36, 24), with growth rate 48."""
    growth, channels = int(48 * width), int(96 * width)
    layers: list[nn.Module] = [conv_norm(3, channels, 7, 2), nn.MaxPool2d(3, 2, 1)]
    for stage, count in enumerate(blocks):
        for _ in range(count):
            layers.append(DenseLayer(channels, growth))
            channels += growth
        if stage < 3:
            layers += [
                nn.BatchNorm2d(channels),
                nn.ReLU(),
                nn.Conv2d(channels, channels // 2, 1, bias=False),
                nn.AvgPool2d(2),
            ]
            channels //= 2
    return nn.Sequential(*layers, nn.BatchNorm2d(channels), nn.ReLU(), Head(channels, classes))


class Attention(nn.Module):
    """Multi-head attention, causal or not; Vaswani et al., arXiv:1706.03762."""

    def __init__(self, size: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.project = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        batch, length, size = x.shape
        split = self.project(x).reshape(batch, length, 3, self.heads, size // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, size))


class TransformerBlock(nn.Module):
    """Post-norm with erf GELU as BERT has it, or pre-norm with tanh GELU as GPT-2 has it.

    norm_first: pre-norm where it is not causal either, as vision transformers have it.
    """

    def __init__(self, size: int, heads: int, causal: bool, norm_first: bool = False) -> None:
        super().__init__()
        self.norm_first = causal or norm_first
        self.attention = Attention(size, heads, causal)
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        gelu = nn.GELU(approximate="tanh" if causal else "none")
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), gelu, nn.Linear(4 * size, size))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if self.norm_first:
            x = x + self.attention(self.norm1(x), mask)
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.mlp(x))


class Bert(nn.Module):
    """BERT-base: 12 layers, size 768, 12 heads; BERT-large: 24, 1024, 16. Devlin et al., arXiv:1810.04805."""

    def __init__(self, layers: int = 12, size: int = 768, heads: int = 12, vocabulary: int = 30522) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, size), nn.Embedding(512, size)
        self.segments = nn.Embedding(2, size)
        self.norm = nn.LayerNorm(size)
        self.blocks = nn.ModuleList(TransformerBlock(size, heads, causal=False) for _ in range(layers))
        self.pooler = nn.Linear(size, size)

    def forward(self, tokens: Tensor, attention_mask: Tensor, segments: Tensor) -> tuple[Tensor, Tensor]:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.norm(self.words(tokens) + self.positions(positions) + self.segments(segments))
        mask = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * -10000.0
        for block in self.blocks:
            x = block(x, mask)
        return x, torch.tanh(self.pooler(x[:, 0]))


class Gpt2(nn.Module):
    """GPT-2 at 12 layers, size 768, 12 heads, with tied embeddings; Radford et al. 2019.

    context: the longest text.
    """

    def __init__(
        self,
        layers: int = 12,
        size: int = 768,
        heads: int = 12,
        vocabulary: int = 50257,
        context: int = 1024,
    ) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, size), nn.Embedding(context, size)
        self.blocks = nn.ModuleList(TransformerBlock(size, heads, causal=True) for _ in range(layers))
        self.norm = nn.LayerNorm(size)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.words.weight.T


def _image(size: int) -> tuple[Tensor, ...]:
    return (torch.randn(2, 3, size, size),)


def _tokens(count: int) -> tuple[Tensor, ...]:
    ids = torch.randint(0, 100, (2, 16))
    return (ids, torch.ones_like(ids), torch.zeros_like(ids))[:count]


def _lively(module: nn.Module) -> nn.Module:
    """Weights under which signals neither die nor explode (He et al., arXiv:1502.01852)."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight)
    return module.eval()


def _resnet50(full: bool) -> nn.Module:
    return resnet((3, 4, 6, 3) if full else (1, 1, 1, 1), True, 1.0 if full else 0.125)


def _densenet161(full: bool) -> nn.Module:
    return densenet((6, 12, 36, 24) if full else (1, 2, 2, 1), 1.0 if full else 0.125)


_BUILDERS: dict[str, Callable[[bool], nn.Module]] = {
    "resnet18": lambda full: resnet((2, 2, 2, 2), False, 1.0 if full else 0.125),
    "resnet50": _resnet50,
    "vgg16": lambda full: vgg16(1.0 if full else 0.0625),
    "mobilenet_v1": lambda full: mobilenet_v1(1.0 if full else 0.25),
    "mobilenet_v2": lambda full: mobilenet_v2(1.0 if full else 0.25),
    "densenet161": _densenet161,
    "efficientnet_b0": lambda full: efficientnet_b0(1.0 if full else 0.25),
    "bert_base": lambda full: Bert() if full else Bert(2, 32, 4, 100),
    "bert_large": lambda full: Bert(24, 1024, 16) if full else Bert(3, 32, 4, 100),
    "gpt2": lambda full: Gpt2() if full else Gpt2(2, 32, 4, 100),
}
NAMES = tuple(_BUILDERS)


def build(name: str, full: bool = True) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A network at its published size, or a narrow one of the same structure, and example inputs."""
    module = _lively(_BUILDERS[name](full))
    if name.startswith("bert"):
        return module, _tokens(3)
    if name == "gpt2":
        return module, _tokens(1)
    return module, _image(224 if full or name == "vgg16" else 64)
