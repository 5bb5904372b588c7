"""Average precision of a detector, as COCO counts it: the mean over IoU from 0.5 to 0.95, and over classes.

Which of a sample's boxes find something does not depend on other samples: pycocotools matches them sample by
sample, and what is kept of a sample is enough to compute the precision of any set of samples.
"""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from tensmith.errors import DataError, needing
from tensmith.evaluate.heads import MOST_BOXES
from tensmith.evaluate.statistics import Z_95, jackknife
from tensmith.formula.arith import Array
from tensmith.report.metric import Metric, spread

# COCO's: intersections over union, levels of recall, boxes a class that count.
IOUS = np.linspace(0.5, 0.95, 10)
_RECALLS = np.linspace(0, 1, 101)
_COUNTED = 100


@dataclass(frozen=True, eq=False)
class Detections:
    """What boxes of each sample found. All have a row a sample; [samples, 300] with NaN for no box:

    scores float32; categories int32; hits int16, bit t set where a box finds an object at IOUS[t]; ignored
    int16, bit t set where it does not count. objects: int32 [samples, classes] that are there to be found.
    """

    scores: Array
    categories: Array
    hits: Array
    ignored: Array
    objects: Array

    def metric(self) -> Metric:
        """Average precision, in per cent; interval by the jackknife over samples."""
        value, low, high = jackknife(self._precision, len(self.scores))
        return spread(value, max(0.0, low), min(100.0, high), "AP")

    def drop(self, original: Self, z: float = Z_95) -> Metric:
        """Points of average precision lost on the same samples, paired: jackknife of the difference."""
        if not np.array_equal(self.objects, original.objects):
            raise DataError("the two results are not of the same samples, so they cannot be paired")
        if not self.objects.any():
            return spread(0.0, -100.0, 100.0, "pt")  # where nothing is to be found, nothing is known
        value, low, high = jackknife(
            lambda kept: original._precision(kept) - self._precision(kept), len(self.scores), z
        )
        return spread(value, max(-100.0, low), min(100.0, high), "pt")

    @property
    def found(self) -> Array:
        """float64 [samples]: the share of objects found at IoU 0.5, each by the score of its box."""
        scores = np.where((self.hits & 1) > 0, np.nan_to_num(self.scores), 0.0).sum(axis=1)
        share: Array = scores / np.maximum(self.objects.sum(axis=1), 1)
        return share

    @cached_property
    def _by_class(self) -> list[tuple[int, Array, Array, Array]]:
        """Of each class with objects its number, and of its boxes, best first: samples, hits, misses; the
        latter bool [IOUS, boxes]."""
        rows, places = np.nonzero(np.isfinite(self.scores))
        order = np.argsort(-self.scores[rows, places], kind="stable")
        rows, places = rows[order], places[order]
        categories = self.categories[rows, places]
        bits = 1 << np.arange(len(IOUS))[:, None]
        hits = (self.hits[rows, places] & bits) > 0
        counted = (self.ignored[rows, places] & bits) == 0
        found = []
        for number in np.flatnonzero(self.objects.sum(axis=0)):
            own = np.flatnonzero(categories == number)
            found.append((int(number), rows[own], (hits & counted)[:, own], (~hits & counted)[:, own]))
        return found

    def _precision(self, kept: Array) -> float:
        """Average precision in per cent of the samples in `kept`, bool [samples]."""
        precisions = []
        for number, rows, hits, misses in self._by_class:
            objects = int(self.objects[kept, number].sum())
            if objects:
                chosen = kept[rows]
                precisions.append(_interpolated(hits[:, chosen], misses[:, chosen], objects))
        return 100 * float(np.mean(precisions)) if precisions else 0.0


def _interpolated(hits: Array, misses: Array, objects: int) -> float:
    """The mean over IOUS and 101 levels of recall of the best precision at that recall or more."""
    found, wrong = hits.cumsum(axis=1), misses.cumsum(axis=1)
    precision = found / np.maximum(found + wrong, 1)
    best = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    total = 0.0
    for recall, row in zip(found / objects, best):
        places = np.searchsorted(recall, _RECALLS, side="left")
        total += float(row[places[places < row.size]].sum())
    return total / (len(hits) * len(_RECALLS))


def matched(boxes: list[Array], labels: Array, classes: int) -> Detections:
    """What boxes find: of each sample [boxes, 6], left, top, right, bottom as shares, score and class.

    The best score comes first. labels: as DatasetPart has them. Boxes of classes that they do not know do not
    count.
    """
    count = len(boxes)
    scores = np.full((count, MOST_BOXES), np.nan, np.float32)
    hits, ignored = (np.zeros((count, MOST_BOXES), np.int16) for _ in range(2))
    categories = np.zeros((count, MOST_BOXES), np.int32)
    known = labels[..., 0] >= 0
    objects = np.zeros((count, classes), np.int32)
    for sample, place in zip(*np.nonzero(known & (labels[..., 5] == 0))):
        objects[sample, int(labels[sample, place, 0])] += 1
    boxes = [rows[_known(rows, classes)][:MOST_BOXES] for rows in boxes]
    for sample, rows in enumerate(boxes):
        scores[sample, : len(rows)], categories[sample, : len(rows)] = rows[:, 4], rows[:, 5]
    for sample, place, found, skipped in _matches(boxes, labels, classes):
        hits[sample, place], ignored[sample, place] = found, skipped
    return Detections(scores, categories, hits, ignored, objects)


def _known(rows: Array, classes: int) -> Array:
    """Which boxes are of a class of the data, and made of numbers."""
    known: Array = np.isfinite(rows).all(axis=1) & (rows[:, 5] >= 0) & (rows[:, 5] < classes)
    return known


def _matches(boxes: list[Array], labels: Array, classes: int) -> list[tuple[int, int, int, int]]:
    """(sample, number of its box, hits, ignored) as pycocotools finds them."""
    with needing("average precision", "detection"):
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    truth = COCO()
    results: list[list[float]] = []
    places: dict[int, tuple[int, int]] = {}
    objects = [
        {
            "id": number,
            "image_id": int(sample),
            "category_id": int(row[0]),
            "bbox": [float(row[1]), float(row[2]), float(row[3] - row[1]), float(row[4] - row[2])],
            "area": float((row[3] - row[1]) * (row[4] - row[2])),
            "iscrowd": int(row[5]),
        }
        for number, (sample, row) in enumerate(
            ((sample, row) for sample, rows in enumerate(labels) for row in rows if row[0] >= 0), start=1
        )
    ]
    for sample, rows in enumerate(boxes):
        for place, (left, top, right, bottom, score, class_) in enumerate(rows.tolist()):
            places[len(results) + 1] = (sample, place)
            results.append([sample, left, top, right - left, bottom - top, score, class_])
    if not results:
        return []
    truth.dataset = {
        "info": {},
        "images": [{"id": sample} for sample in range(len(boxes))],
        "annotations": objects,
        "categories": [{"id": number} for number in range(classes)],
    }
    with contextlib.redirect_stdout(io.StringIO()):  # it tells how it gets on
        truth.createIndex()
        evaluation: Any = COCOeval(truth, truth.loadRes(np.array(results)), "bbox")
        evaluation.params.areaRng, evaluation.params.areaRngLbl = [[0, 1e10]], ["all"]
        evaluation.params.maxDets = [_COUNTED]
        evaluation.params.iouThrs = IOUS
        evaluation.evaluate()
    weights = 1 << np.arange(len(IOUS))
    found, counted = [], set()
    for each in filter(None, evaluation.evalImgs):
        hits = weights @ (each["dtMatches"] > 0)
        ignored = weights @ each["dtIgnore"].astype(np.int64)
        for number, hit, skipped in zip(each["dtIds"], hits, ignored):
            counted.add(number)
            found.append((*places[number], int(hit), int(skipped)))
    every = int(weights.sum())
    return found + [(*places[number], 0, every) for number in places.keys() - counted]
