"""Random graphs of images: values read by several, residuals, joins, pools; in one to three threads."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from native_programs import Net

from tensmith.backend.native.emit.folder import write_folder
from tensmith.backend.native.emit.loader import Model
from tensmith.backend.native.plan import make_plan
from tensmith.ir import Program, interpret
from tensmith.kernel import Isa, host_isa, isa_named

KINDS = ("conv", "conv", "residual", "residual", "concat", "pool", "relu", "depthwise")
MOST_CHANNELS = 160


class Graph:
    """A graph as a seed draws it; `values` are (name, channels), all of one height and width."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        channels, height = self.draw.choice([3, 16, 32]), self.draw.choice([5, 9, 21])
        self.net = Net(self.draw.choice([1, 1, 2]), channels, height, self.draw.choice([7, 16, 17, 37]))
        self.density = self.draw.choice([0.1, 1.0, 1.0])
        self.random = np.random.default_rng(seed)
        self.values = [("x", channels)]
        for _ in range(self.draw.randint(4, 9)):
            self._grow(*self.draw.choice(self.values[-3:]))

    def _conv(self, value: str, channels: int, filters: int, window: int) -> str:
        name = self.net.conv(value, channels, filters, window)
        weights = self.net.constants[self.net.nodes[-1].inputs[1]]
        weights[self.random.random(weights.shape) > self.density] = 0
        return name

    def _grow(self, value: str, channels: int) -> None:
        """One more value that reads `value`."""
        kind, window = self.draw.choice(KINDS), self.draw.choice([1, 3])
        if kind == "conv":
            filters = self.draw.choice([5, 16, 20, 32])
            value, channels = self._conv(value, channels, filters, window), filters
        elif kind == "residual":
            same = [name for name, count in self.values if count == channels]
            inner = self.net.add("relu", self._conv(value, channels, channels, self.draw.choice([1, 3])))
            sums = self._conv(inner, channels, channels, window)
            value = self.net.add("add", sums, self.draw.choice(same))
        elif kind == "concat":
            parts = self.draw.choices(self.values, k=self.draw.choice([2, 3]))
            if sum(count for _, count in parts) > MOST_CHANNELS:
                return
            value = self.net.add("concat", *(name for name, _ in parts), axis=1)
            channels = sum(count for _, count in parts)
        elif kind == "pool":
            pads = {"strides": (1, 1), "pads": (1, 1, 1, 1)}
            value = self.net.add("max_pool", value, kernel_shape=(3, 3), **pads)
        elif kind == "depthwise":
            value = self.net.conv(value, channels, channels, 3, group=channels)
        else:
            value = self.net.add("relu", value)
        self.values.append((value, channels))

    @property
    def program(self) -> Program:
        """The last value, and some of those before it, as outputs."""
        names = [name for name, _ in self.values[1:]]
        others = [name for name in names[:-1] if self.draw.random() < 0.2]
        return self.net.program(*dict.fromkeys([names[-1], *others]))


def test_what_gcc_12_drops(tmp_path: Path) -> None:
    """Planes are copied into blocks of 8 in one array; see `hidden` in kernel.isa."""
    if "avx2" not in host_isa().features:
        pytest.skip("this CPU has no AVX2")
    compare(Graph(424).program, isa_named("avx2"), 3, tmp_path)


@pytest.mark.parametrize("seed", [3, 13, 23, 52, 56, 60, 62, 71, *range(100, 104), 424])
def test_a_random_graph(seed: int, tmp_path: Path) -> None:
    compare(Graph(seed).program, host_isa(), seed % 3 + 1, tmp_path)


def compare(program: Program, isa: Isa, threads: int, folder: Path) -> None:
    write_folder(make_plan(program, isa, threads=threads), folder / "f")
    model = Model(folder / "f", threads)
    for again in range(2):
        x = np.random.default_rng(again).standard_normal(program.inputs["x"].static).astype(np.float32)
        found, expected = model(x=x), interpret(program, {"x": x})
        for name in program.outputs:
            scale = max(1, abs(expected[name]).max())
            np.testing.assert_allclose(found[name], expected[name], atol=1e-4 * scale, err_msg=name)
