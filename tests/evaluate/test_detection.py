"""Average precision against pycocotools' own, heads, and what users' functions may do wrong."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import numpy as np
import pytest

from tensmith.errors import DataError, UsageError
from tensmith.evaluate.detection import Detections, matched
from tensmith.evaluate.heads import HEADS, head_named, suppressed
from tensmith.evaluate.outcome import answer_arrays, answers_of, joined
from tensmith.evaluate.statistics import jackknife

pytest.importorskip("pycocotools", reason="pycocotools is not installed")
RNG = np.random.default_rng(0)
CLASSES = 3


def scene(samples: int, noise: float, crowd: bool = True) -> tuple[list[np.ndarray], np.ndarray]:
    """Boxes that nearly are those of the labels, some missed and some invented."""
    labels = np.full((samples, 6, 6), -1, np.float32)
    boxes = []
    for sample in range(samples):
        rows = []
        for place in range(RNG.integers(0, 6)):
            low, size = RNG.uniform(0, 0.6, 2), RNG.uniform(0.1, 0.4, 2)
            class_ = RNG.integers(CLASSES)
            is_crowd = crowd and RNG.random() < 0.1
            labels[sample, place] = [class_, *low, *(low + size), is_crowd]
            if RNG.random() < 0.8:
                off = noise * RNG.standard_normal(4)
                rows.append([*(np.concatenate([low, low + size]) + off), RNG.random(), class_])
        for _ in range(RNG.integers(0, 4)):
            low = RNG.uniform(0, 0.6, 2)
            rows.append([*low, *(low + 0.2), RNG.random() / 2, RNG.integers(CLASSES + 1)])
        found = np.array(rows).reshape(-1, 6)
        boxes.append(found[np.argsort(-found[:, 4])])
    return boxes, labels


def official(boxes: list[np.ndarray], labels: np.ndarray) -> float:
    """What COCOeval's own summary says."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    truth = COCO()
    rows = [(n, row) for n, sample in enumerate(labels.tolist()) for row in sample if row[0] >= 0]
    truth.dataset = {
        "info": {},
        "images": [{"id": n} for n in range(len(boxes))],
        "categories": [{"id": n} for n in range(CLASSES)],
        "annotations": [
            {
                "id": number, "image_id": n, "category_id": int(c), "bbox": [x, y, u - x, v - y],
                "area": (u - x) * (v - y), "iscrowd": int(crowd),
            }
            for number, (n, (c, x, y, u, v, crowd)) in enumerate(rows, 1)
        ],
    }  # fmt: skip
    results = [
        [n, x, y, u - x, v - y, score, c] for n, found in enumerate(boxes) for x, y, u, v, score, c in found
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        truth.createIndex()
        evaluation = COCOeval(truth, truth.loadRes(np.array(results)), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return 100 * float(evaluation.stats[0])


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.05])
def test_it_is_coco_s_average_precision(noise: float) -> None:
    boxes, labels = scene(60, noise)
    assert matched(boxes, labels, CLASSES).metric().value == pytest.approx(official(boxes, labels), abs=1e-6)


def test_parts_are_joined_as_one_and_travel_as_arrays() -> None:
    boxes, labels = scene(40, 0.02)
    whole = matched(boxes, labels, CLASSES)
    parts = [matched(boxes[at : at + 10], labels[at : at + 10], CLASSES) for at in range(0, 40, 10)]
    again = joined([answers_of(answer_arrays(part)) for part in parts])
    assert isinstance(again, Detections)
    assert again.metric() == whole.metric()


def test_a_drop_is_paired_and_its_interval_covers() -> None:
    boxes, labels = scene(120, 0.01)
    before = matched(boxes, labels, CLASSES)
    worse = [rows + 0.02 * RNG.standard_normal(rows.shape) * [1, 1, 1, 1, 0, 0] for rows in boxes]
    after = matched(worse, labels, CLASSES)
    drop = after.drop(before)
    assert drop.unit == "pt" and drop.low > 0
    assert drop.value == pytest.approx(before.metric().value - after.metric().value)
    assert before.drop(before).value == 0
    with pytest.raises(DataError, match="paired"):
        after.drop(matched(*scene(120, 0.01), CLASSES))


def test_nothing_found_is_nothing() -> None:
    _, labels = scene(10, 0.0)
    nothing = [np.zeros((0, 6))] * 10
    assert matched(nothing, labels, CLASSES).metric().value == 0
    wrong = [np.array([[0, 0, 1, 1, np.nan, 0.0], [0, 0, 1, 1, 0.5, 99.0]])] * 10
    assert matched(wrong, labels, CLASSES).metric().value == 0


def test_where_nothing_is_to_be_found_nothing_is_known() -> None:
    boxes, labels = scene(10, 0.0)
    labels[..., 5] = 1  # crowds alone
    answers = matched(boxes, labels, CLASSES)
    drop = answers.drop(answers)
    assert (drop.low, drop.high) == (-100.0, 100.0)


def test_the_jackknife_of_a_mean_is_its_standard_error() -> None:
    values = RNG.standard_normal(3200)
    value, low, high = jackknife(lambda kept: float(values[kept].mean()), len(values))
    assert value == pytest.approx(values.mean())
    expected = 2 * 2.04 * values.std() / np.sqrt(len(values))  # t of 31 degrees of freedom
    assert high - low == pytest.approx(expected, rel=0.35)


def test_suppression_keeps_the_best_of_a_class() -> None:
    boxes = np.array(
        [[0, 0, 10, 10, 0.5, 0], [1, 0, 11, 10, 0.9, 0], [0, 0, 10, 10, 0.4, 1], [0, 0, 10, 10, 1e-5, 2]]
    )
    assert suppressed(boxes, 0.5)[:, 4].tolist() == [0.9, 0.4]


def test_heads_put_a_box_where_it_is() -> None:
    yolo5 = np.zeros((1, 4, 7), np.float32)
    yolo5[0, 2] = [20, 30, 10, 8, 0.9, 0.1, 0.8]
    yolo8 = np.zeros((1, 6, 4), np.float32)
    yolo8[0, :, 2] = [20, 30, 10, 8, 0.1, 0.72]
    fastest = np.zeros((1, 7, 4, 4), np.float32)
    fastest[0, :, 2, 1] = [0.9, 0, 0, -1, -2, 0.1, 0.7]
    for name, output in (("yolov5", yolo5), ("yolov8", yolo8)):
        ((left, top, right, bottom, score, class_),) = HEADS[name].boxes({"y": output}, (64, 64), 1)[0]
        assert (left, top, right, bottom, class_) == (15, 26, 25, 34, 1)
        assert score == pytest.approx(0.72)
    first = HEADS["fastestdet"].boxes({"y": fastest}, (64, 32), 1)[0][0]
    width, height = 32 / (1 + np.e), 64 / (1 + np.e**2)
    assert first[:4] == pytest.approx([8 - width / 2, 32 - height / 2, 8 + width / 2, 32 + height / 2])
    assert first[4] == pytest.approx(0.9**0.6 * 0.7**0.4) and first[5] == 1


def test_a_head_that_does_not_fit_names_the_outputs() -> None:
    with pytest.raises(DataError, match=r"logits \[1, 10\]"):
        HEADS["yolov8"].boxes({"logits": np.zeros((1, 10))}, (8, 8), 1)


def own(path: Path, body: str) -> str:
    path.write_text(f"import numpy as np\ndef boxes(outputs, size):\n    {body}\n")
    return f"{path}:boxes"


def test_a_function_of_the_user_s(tmp_path: Path) -> None:
    made = head_named(own(tmp_path / "mine.py", "return [np.array([[0, 0, 4, 4, .5, 0]])]"))
    assert made.own
    assert made.boxes({"y": np.zeros((1, 2))}, (8, 8), 1)[0].tolist() == [[0, 0, 4, 4, 0.5, 0]]
    raising = head_named(own(tmp_path / "raises.py", "return outputs['no']"))
    with pytest.raises(DataError, match=r"KeyError.*y \[1, 2\]"):
        raising.boxes({"y": np.zeros((1, 2))}, (8, 8), 1)
    wrong = head_named(own(tmp_path / "wrong.py", "return [np.zeros((3, 5))]"))
    with pytest.raises(DataError, match="left, top, right, bottom, score, class"):
        wrong.boxes({"y": np.zeros((1, 2))}, (8, 8), 1)


@pytest.mark.parametrize(
    "text",
    ["yolo", "missing.py:boxes", "{own}:none", "{broken}:boxes"],
    ids=["name", "file", "none", "broken"],
)
def test_what_is_no_head_is_refused(text: str, tmp_path: Path) -> None:
    own(tmp_path / "own.py", "pass")
    (tmp_path / "broken.py").write_text("1 / 0")
    text = text.format(own=tmp_path / "own.py", broken=tmp_path / "broken.py")
    with pytest.raises(UsageError, match="--decode"):
        head_named(text)
