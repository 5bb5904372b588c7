"""Boxes of COCO's annotations: where they are told to be, in which layouts, and what is refused."""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tensmith.data import open_dataset
from tensmith.errors import DataError


def picture(size: tuple[int, int]) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, (255, 0, 0)).save(file, "PNG")
    return file.getvalue()


def document(**changes: Any) -> dict[str, Any]:
    """Two images, 40x20 and 20x20; a dog (id 7) and a crowd of cats (id 3) on the first."""
    return {
        "images": [
            {"id": 5, "file_name": "a.png", "width": 40, "height": 20},
            {"id": 9, "file_name": "b.png", "width": 20, "height": 20},
        ],
        "categories": [{"id": 7, "name": "dog"}, {"id": 3, "name": "cat"}],
        "annotations": [
            {"id": 1, "image_id": 5, "category_id": 7, "bbox": [10, 5, 20, 10]},
            {"id": 2, "image_id": 5, "category_id": 3, "bbox": [0, 0, 40, 20], "iscrowd": 1},
        ],
    } | changes


def box(*numbers: Any) -> dict[str, Any]:
    """An annotation of the first image."""
    return {"id": 4, "image_id": 5, "category_id": 7, "bbox": list(numbers)}


def write(root: Path, where: str = "annotations/instances_val2017.json", **changes: Any) -> str:
    for name, size in (("a.png", (40, 20)), ("b.png", (20, 20))):
        place = root / "val2017" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(picture(size))
    file = root / where
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document(**changes)))
    return f"coco:{root}"


def test_boxes_are_shares_of_the_image_and_classes_go_by_id(tmp_path: Path) -> None:
    data = open_dataset(write(tmp_path))
    assert (data.task, data.classes, data.class_names) == ("detection", 2, ("cat", "dog"))
    part = data.part("validation")
    first, second = part.labels([0, 1])
    np.testing.assert_allclose(first, [[1, 0.25, 0.25, 0.75, 0.75, 0], [0, 0, 0, 1, 1, 1]])
    assert (second[:, 0] == -1).all(), "an image of no box counts too"
    with pytest.raises(DataError, match=r"\?size=640 or \?letterbox"):
        part.inputs([0, 1])


def test_ids_may_be_written_as_words(tmp_path: Path) -> None:
    worded = json.loads(re.sub(r'id": (\d+)', r'id": "\1"', json.dumps(document())))
    (labels,) = open_dataset(write(tmp_path / "words", **worded)).part("validation").labels([0])
    assert np.array_equal(labels, open_dataset(write(tmp_path / "numbers")).part("validation").labels([0])[0])


def test_images_are_stretched_or_letterboxed_with_their_boxes(tmp_path: Path) -> None:
    name = write(tmp_path)
    stretched = open_dataset(f"{name}?size=8").part("validation")
    assert stretched.inputs([0, 1]).shape == (2, 3, 8, 8)
    boxed = open_dataset(f"{name}?letterbox=8").part("validation")
    image = boxed.inputs([0])[0]
    assert image[:, 2:6].reshape(3, -1).mean(axis=1).tolist() == [255, 0, 0]
    assert set(image[:, [0, 1, 6, 7]].ravel()) == {114}
    np.testing.assert_allclose(boxed.labels([0])[0][0], [1, 0.25, 0.375, 0.75, 0.625, 0])


def test_images_in_tar_files_and_annotations_beside_them(tmp_path: Path) -> None:
    write(tmp_path / "tar", "instances_val.json")
    with tarfile.open(tmp_path / "tar" / "val.tar", "w") as archive:
        archive.add(tmp_path / "tar" / "val2017", "val")
    for file in (tmp_path / "tar" / "val2017").iterdir():
        file.unlink()
    assert len(open_dataset(f"coco:{tmp_path / 'tar'}?size=8").part("validation")) == 2
    write(tmp_path / "beside", "val2017/_annotations.coco.json")
    assert len(open_dataset(f"coco:{tmp_path / 'beside'}").part("validation")) == 2


def test_loose_images_beside_a_tar_file(tmp_path: Path) -> None:
    write(tmp_path, "_annotations.coco.json")
    for file in (tmp_path / "val2017").iterdir():
        file.rename(tmp_path / file.name)
    (tmp_path / "val2017").rmdir()
    tarfile.open(tmp_path / "backup.tar", "w").close()
    assert len(open_dataset(f"coco:{tmp_path}?size=8").part("all")) == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"images": 3}, "no annotation file"),
        ({"images": [{"id": 1}]}, "lacks id, file_name"),
        (
            {"images": [{"id": 1, "file_name": "c.png", "width": 2, "height": 2}]},
            r"c\.png, which lies nowhere",
        ),
        ({"images": []}, "names no images"),
        ({"categories": []}, "no categories"),
        ({"categories": [{"name": "x"}]}, "no id"),
        ({"annotations": [{"id": 4, "image_id": 5}]}, "annotation 4 needs"),
        ({"annotations": [{"id": 4, "image_id": 6, "category_id": 7, "bbox": [0, 0, 1, 1]}]}, "annotation 4"),
        ({"annotations": [box(0, 0, -1, 1)]}, "no box"),
        ({"annotations": [box(1e41, 0, 1, 1)]}, "no box"),
        ({"annotations": [box(float("nan"), 0, 1, 1)]}, "no box"),
        ({"annotations": [box(0, float("nan"), 1, 1)]}, "no box"),
        ({"annotations": [box(0, 0, 1, float("nan"))]}, "no box"),
        ({"annotations": [box(10**400, 0, 1, 1)]}, "annotation 4"),
        ({"annotations": [box("1", "2", "3", "4")]}, "annotation 4"),
        ({"annotations": [box(0, 0, 1, 1) | {"iscrowd": "0"}]}, "iscrowd is 0 or 1"),
        ({"annotations": [box(0, 0, 1, 1) | {"iscrowd": ""}]}, "iscrowd is 0 or 1"),
        ({"annotations": [box(0, 0, 1, 1)] * 10_001}, "10001 boxes"),
        ({"categories": [{"id": float("inf"), "name": "x"}]}, "no id"),
        ({"categories": [{"id": 7, "name": "dog"}, {"id": 7, "name": "cat"}]}, "two categories"),
        ({"images": [{"id": 1, "file_name": "a.png", "width": float("inf"), "height": 2}]}, "lacks id"),
        ({"images": [{"id": 1, "file_name": "a.png", "width": 40, "height": 20}] * 2}, "two images"),
    ],
)
def test_what_is_not_coco_s_is_refused(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    name = write(tmp_path, **changes)
    with pytest.raises(DataError, match=words):
        open_dataset(name).part("validation")


def test_boxes_for_another_size_are_refused(tmp_path: Path) -> None:
    images = [{"id": 5, "file_name": "a.png", "width": 80, "height": 40}]
    part = open_dataset(write(tmp_path, images=images, annotations=[]) + "?size=8").part("validation")
    with pytest.raises(DataError, match="has 40x20 pixels, its annotations are for 80x40"):
        part.inputs([0])


def test_parts_have_the_same_categories(tmp_path: Path) -> None:
    write(tmp_path)
    name = write(
        tmp_path, "annotations/instances_test2017.json", categories=[{"id": 7, "name": "cat"}], annotations=[]
    )
    data = open_dataset(name)
    with pytest.raises(DataError, match="other categories"):
        data.part("test"), data.part("validation")


def test_one_file_a_part(tmp_path: Path) -> None:
    write(tmp_path, "annotations/instances_val2014.json")
    with pytest.raises(DataError, match=r"val2014\.json' and .*val2017\.json' are both the part 'val"):
        open_dataset(write(tmp_path))


def test_a_folder_without_annotations_and_bad_options(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no annotations"):
        open_dataset(f"coco:{tmp_path}")
    with pytest.raises(DataError, match="no such folder"):
        open_dataset(f"coco:{tmp_path / 'no'}")
    name = write(tmp_path)
    with pytest.raises(DataError, match="not by both"):
        open_dataset(f"{name}?size=8&letterbox=8")
    with pytest.raises(DataError, match="out of range"):
        open_dataset(f"{name}?size=100000")
