"""From a detector's outputs to boxes: the usual heads by name, or a function of the user's."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.errors import DataError, TensmithError, UsageError
from tensmith.formula.arith import Array

# (outputs by name, height and width of the input) -> of each sample float [boxes, 6]: left, top, right and
# bottom in pixels of the input, score, class.
Decode = Callable[[Mapping[str, Array], tuple[int, int]], Sequence[Array]]

_LEAST_SCORE = 0.001
_MOST_BEFORE = 2000
# Boxes that are kept of a sample.
MOST_BOXES = 300


@dataclass(frozen=True)
class Head:
    """A way to read boxes off outputs. `own`: it is a function of the user's."""

    name: str
    decode: Decode
    own: bool = False

    def boxes(self, outputs: Mapping[str, Array], size: tuple[int, int], count: int) -> list[Array]:
        """float64 [boxes, 6] of each of `count` samples, the best score first, at most 300.

        DataError where the outputs are not those of this head.
        """
        there = ", ".join(f"{name} {list(array.shape)}" for name, array in outputs.items())
        try:
            found = [np.asarray(rows, np.float64) for rows in self.decode(outputs, size)]
        except TensmithError as error:
            raise DataError(f"{error}; the outputs are {there}") from error
        except Exception as error:  # whatever the user's function raises
            raise DataError(
                f"--decode {self.name} failed with {type(error).__name__}: {error}; the outputs are {there}"
            ) from error
        found = [rows.reshape(0, 6) if not rows.size else rows for rows in found]
        if len(found) != count or any(rows.ndim != 2 or rows.shape[1] != 6 for rows in found):
            shapes = [list(rows.shape) for rows in found[:3]]
            raise DataError(
                f"--decode {self.name} gives {len(found)} arrays of shapes {shapes} for {count} samples; it "
                "must give one [boxes, 6] a sample: left, top, right, bottom, score, class"
            )
        return [rows[np.argsort(-rows[:, 4], kind="stable")[:MOST_BOXES]] for rows in found]


HEADS: dict[str, Head] = {}


def head(name: str) -> Callable[[Decode], Decode]:
    """Registers a function under a name; its docstring says which outputs it reads."""

    def register(decode: Decode) -> Decode:
        HEADS[name] = Head(name, decode)
        return decode

    return register


def head_named(text: str) -> Head:
    """A head by its name, or FILE.py:FUNCTION, which is run; UsageError if there is none."""
    if text in HEADS:
        return HEADS[text]
    file, colon, function = text.rpartition(":")
    if not colon or not file.endswith(".py"):
        raise UsageError(
            f"unknown head '{text}'; --decode is {', '.join(HEADS)}, or FILE.py:FUNCTION of your own"
        )
    return Head(text, _loaded(Path(file), function), own=True)


def _loaded(file: Path, function: str) -> Decode:
    try:
        spec = importlib.util.spec_from_file_location(re.sub(r"\W", "_", file.stem), file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except Exception as error:  # running it runs the user's code
        raise UsageError(f"cannot run {file} ({type(error).__name__}: {error}); check --decode") from error
    found: Any = getattr(module, function, None)
    if not callable(found):
        raise UsageError(f"{file} has no function '{function}'; check --decode")
    return found  # type: ignore[no-any-return]


@head("fastestdet")
def _fastestdet(outputs: Mapping[str, Array], size: tuple[int, int]) -> list[Array]:
    """One output [n, 5 + classes, rows, columns]: objectness, box, classes of each cell (FastestDet)."""
    cells = _first(outputs, (0, 6, 0, 0), "fastestdet", "[n, 5 + classes, rows, columns]")
    n, _, rows, columns = cells.shape
    objectness, box, classes = cells[:, 0], cells[:, 1:5], cells[:, 5:]
    score = np.clip(objectness, 0, None) ** 0.6 * np.clip(classes.max(axis=1), 0, None) ** 0.4
    x = (np.arange(columns) + np.tanh(box[:, 0])) / columns
    y = (np.arange(rows)[:, None] + np.tanh(box[:, 1])) / rows
    width, height = (1 / (1 + np.exp(-box[:, place].astype(np.float64))) for place in (2, 3))
    parts = (x, y, width, height, score, classes.argmax(axis=1))
    found = np.stack([part.reshape(n, -1) for part in parts], axis=2)
    found[..., [0, 2]] *= size[1]
    found[..., [1, 3]] *= size[0]
    return [suppressed(_corners(each), 0.45) for each in found]


@head("yolov5")
def _yolov5(outputs: Mapping[str, Array], size: tuple[int, int]) -> list[Array]:
    """First output [n, boxes, 5 + classes]: centre, size in pixels, objectness, classes (YOLOv3, v5, v7)."""
    boxes = _first(outputs, (0, 0, 6), "yolov5", "[n, boxes, 5 + classes]")
    classes = boxes[..., 5:]
    score = boxes[..., 4] * classes.max(axis=2)
    found = np.concatenate([boxes[..., :4], score[..., None], classes.argmax(axis=2)[..., None]], axis=2)
    return [suppressed(_corners(each), 0.6) for each in found]


@head("yolov8")
def _yolov8(outputs: Mapping[str, Array], size: tuple[int, int]) -> list[Array]:
    """First output [n, 4 + classes, boxes]: centre and size in pixels, classes (YOLOv8, v9, v11)."""
    boxes = _first(outputs, (0, 5, 0), "yolov8", "[n, 4 + classes, boxes]").transpose(0, 2, 1)
    classes = boxes[..., 4:]
    best = classes.max(axis=2)[..., None]
    found = np.concatenate([boxes[..., :4], best, classes.argmax(axis=2)[..., None]], axis=2)
    return [suppressed(_corners(each), 0.7) for each in found]


def _first(outputs: Mapping[str, Array], least: Sequence[int], name: str, layout: str) -> Array:
    """The first output, as float64; DataError where its axes are not that many, each of `least` or more."""
    first = next(iter(outputs.values()), np.zeros(0))
    if first.ndim != len(least):
        raise DataError(f"this head reads a first output of {len(least)} axes")
    if any(size < fewest for size, fewest in zip(first.shape, least)):
        raise DataError(f"{name} needs an output {layout}")
    return first.astype(np.float64)


def _corners(boxes: Array) -> Array:
    """[boxes, 6] with centre and size as left, top, right and bottom."""
    centre, half = boxes[:, :2], boxes[:, 2:4] / 2
    return np.concatenate([centre - half, centre + half, boxes[:, 4:]], axis=1)


def suppressed(boxes: Array, overlap: float) -> Array:
    """Non-maximum suppression: without boxes that lie over a better one of their class.

    overlap: intersection over union from which two are one. Those of a score under 0.001 go too.
    """
    kept = boxes[boxes[:, 4] >= _LEAST_SCORE]
    kept = kept[np.argsort(-kept[:, 4], kind="stable")[:_MOST_BEFORE]]
    low, high = kept[:, :2], kept[:, 2:4]
    area = np.prod(np.maximum(high - low, 0), axis=1)
    alive = np.ones(len(kept), bool)
    for number in range(len(kept)):
        if alive[number]:
            rest = slice(number + 1, None)
            sides = np.minimum(high[number], high[rest]) - np.maximum(low[number], low[rest])
            inside = np.prod(np.maximum(sides, 0), axis=1)
            union = area[number] + area[rest] - inside
            same = kept[rest, 5] == kept[number, 5]
            alive[rest] &= ~(same & (inside > overlap * union))
    return kept[alive]
