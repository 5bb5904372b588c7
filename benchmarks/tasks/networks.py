"""The networks: what each reads, and its layers. Their blocks are those of `benchmarks.models`."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.models import Bert, Gpt2, Head, InvertedResidual, SqueezeExcite, TransformerBlock, conv_norm
from tensmith.backend.gguf import TensorToWrite, entry, gguf_bytes


class VisionTransformer(nn.Module):
    """Images [batch, 3, 32, 32] to a score a class; Dosovitskiy et al., arXiv:2010.11929.

    Patches of 4x4, learnt places, blocks that norm first, and the mean over all patches.
    """

    def __init__(self, classes: int, layers: int = 6, size: int = 128, heads: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, size, 4, 4)
        self.places = nn.Parameter(0.02 * torch.randn(1, 64, size))
        blocks = (TransformerBlock(size, heads, causal=False, norm_first=True) for _ in range(layers))
        self.blocks = nn.Sequential(*blocks)
        self.norm, self.head = nn.LayerNorm(size), nn.Linear(size, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2) + self.places
        return self.head(self.norm(self.blocks(x)).mean(1))


def _gated(hidden: int) -> nn.Module:
    return SqueezeExcite(hidden, max(8, hidden // 4), nn.ReLU, nn.Hardsigmoid)


# Kernel, hidden channels, channels, squeeze-and-excite, hard-swish, stride: MobileNetV3-Small, table 2, with
# the stride of its first block left out, since images are of 32 x 32.
_SMALL = (
    (3, 16, 16, True, False, 1), (3, 72, 24, False, False, 2), (3, 88, 24, False, False, 1),
    (5, 96, 40, True, True, 2), (5, 240, 40, True, True, 1), (5, 240, 40, True, True, 1),
    (5, 120, 48, True, True, 1), (5, 144, 48, True, True, 1), (5, 288, 96, True, True, 2),
    (5, 576, 96, True, True, 1), (5, 576, 96, True, True, 1),
)  # fmt: skip


class MobileNetV3(nn.Sequential):
    """Images [batch, 3, 32, 32] to a score a class; Howard et al., arXiv:1905.02244."""

    def __init__(self, classes: int) -> None:
        layers: list[nn.Module] = [conv_norm(3, 16, 3, activation=nn.Hardswish)]
        channels = 16
        for kernel, hidden, outputs, excite, swish, stride in _SMALL:
            activation = nn.Hardswish if swish else nn.ReLU
            expansion, gate = hidden / channels, _gated if excite else None
            layers.append(InvertedResidual(channels, outputs, expansion, stride, kernel, gate, activation))
            channels = outputs
        layers.append(conv_norm(channels, 576, 1, activation=nn.Hardswish))
        super().__init__(*layers, Head(576, 128), nn.Hardswish(), nn.Linear(128, classes))


class SentimentEncoder(nn.Module):
    """Tokens and their mask, each int64 [batch, length], to a score a class: BERT's blocks, small, and the
    mean over all tokens.
    """

    def __init__(self, vocabulary: int, classes: int) -> None:
        super().__init__()
        self.encoder = Bert(layers=3, size=128, heads=4, vocabulary=vocabulary)
        self.head = nn.Linear(128, classes)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        words, _ = self.encoder(tokens, mask, torch.zeros_like(tokens))
        weights = mask.to(words.dtype)[:, :, None]
        return self.head((words * weights).sum(1) / weights.sum(1))


class LogMel(nn.Module):
    """Sound [batch, samples] to log-mel features [batch, frames, bands], as operators that every runtime has.

    A Hann window and the discrete Fourier transform are one convolution with 2 * (window / 2 + 1) filters;
    the bands are triangles on the mel scale (O'Shaughnessy 1987).
    """

    def __init__(self, rate: int = 8000, window: int = 256, step: int = 128, bands: int = 40) -> None:
        super().__init__()
        self.step = step
        angle = 2 * math.pi * torch.outer(torch.arange(window // 2 + 1), torch.arange(window)) / window
        waves = torch.cat([angle.cos(), angle.sin()]) * torch.hann_window(window)
        self.register_buffer("waves", waves[:, None])
        self.register_buffer("triangles", self._triangles(rate, window, bands))

    @staticmethod
    def _triangles(rate: int, window: int, bands: int) -> Tensor:
        """[window / 2 + 1, bands]."""
        highest = 2595 * math.log10(1 + rate / 2 / 700)
        edges = 700 * (10 ** (torch.linspace(0, highest, bands + 2) / 2595) - 1)
        heard = torch.linspace(0, rate / 2, window // 2 + 1)[:, None]
        up = (heard - edges[:-2]) / (edges[1:-1] - edges[:-2])
        down = (edges[2:] - heard) / (edges[2:] - edges[1:-1])
        return torch.minimum(up, down).clamp(min=0)

    def forward(self, sound: Tensor) -> Tensor:
        spectrum = nn.functional.conv1d(sound[:, None], self.waves, stride=self.step)
        real, imaginary = spectrum.chunk(2, 1)
        power = (real * real + imaginary * imaginary).transpose(1, 2)
        return torch.log(power @ self.triangles + 1e-5)


class DigitRecogniser(nn.Module):
    """Sound [batch, samples] at 8 kHz to a score a class: log-mel features, two GRUs, the mean over time."""

    def __init__(self, classes: int, size: int = 128) -> None:
        super().__init__()
        self.features, self.norm = LogMel(), nn.LayerNorm(40)
        self.recurrent = nn.GRU(40, size, num_layers=2, batch_first=True)
        self.head = nn.Linear(size, classes)

    def forward(self, sound: Tensor) -> Tensor:
        states, _ = self.recurrent(self.norm(self.features(sound)))
        return self.head(states.mean(1))


class CharacterModel(Gpt2):
    """Characters [batch, length] to scores of the next one: GPT-2, small."""

    def __init__(self, vocabulary: int, context: int) -> None:
        super().__init__(layers=6, size=256, heads=8, vocabulary=vocabulary, context=context)

    def gguf(self) -> bytes:
        """The weights as a file for llama.cpp, without a tokenizer: a token is a character's number."""
        arrays = {name: tensor.detach().cpu().numpy() for name, tensor in self.state_dict().items()}
        tensors = {_gguf_name(name): array.astype(np.float32) for name, array in arrays.items()}
        vocabulary, size = arrays["words.weight"].shape
        numbers = {
            "context_length": len(arrays["positions.weight"]), "embedding_length": size,
            "block_count": len(self.blocks), "feed_forward_length": 4 * size, "vocab_size": vocabulary,
            "attention.head_count": self.blocks[0].attention.heads, "attention.layer_norm_epsilon": 1e-5,
        }  # fmt: skip
        told = {"general.architecture": "gpt2", "tokenizer.ggml.model": "none"}
        entries = {**told, **{f"gpt2.{name}": number for name, number in numbers.items()}}
        written = {name: TensorToWrite(a.shape, "F32", a.tobytes()) for name, a in tensors.items()}
        return gguf_bytes({name: entry(value) for name, value in entries.items()}, written)


# What llama.cpp calls a GPT-2's tensors, by what they are called here.
_GGUF = {
    "words": "token_embd", "positions": "position_embd", "norm": "output_norm",
    "attention.project": "attn_qkv", "attention.out": "attn_output", "norm1": "attn_norm",
    "norm2": "ffn_norm", "mlp.0": "ffn_up", "mlp.2": "ffn_down",
}  # fmt: skip


def _gguf_name(name: str) -> str:
    *path, part = name.split(".")
    block = f"blk.{path[1]}." if path[0] == "blocks" else ""
    return f"{block}{_GGUF['.'.join(path[2:] if block else path)]}.{part}"


def begun(network: nn.Module) -> nn.Module:
    """With transformers' weights as they are usually begun: normal, 0.02, biases 0."""
    for layer in network.modules():
        if isinstance(layer, (nn.Linear, nn.Embedding)):
            nn.init.normal_(layer.weight, std=0.02)
        if isinstance(layer, nn.Linear):
            nn.init.zeros_(layer.bias)
    return network
