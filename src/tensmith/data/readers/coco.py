"""Images with boxes in COCO's annotation format (Lin et al., "Microsoft COCO", ECCV 2014)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from tensmith import gate
from tensmith.data.dataset import ALL, Array, Dataset, DatasetPart, LazyParts, by_part, part_name
from tensmith.data.opening import reader
from tensmith.data.parts import ItemPart
from tensmith.data.readers.imagefolder import PIXEL_LIMIT, SIZE_LIMIT, SUFFIXES, decoded_image
from tensmith.data.tree import TAR_SUFFIXES, FileTree, open_folder, open_tree
from tensmith.errors import DataError
from tensmith.files import at_home

# The colour of what a letterboxed image does not fill, as YOLO's trainers have it.
_GREY = 114
_FILES = re.compile(r"instances_(?P<word>[a-z]+?)_?\d*\.json|_annotations\.coco\.json")
_NONE = -1
# Of an image; labels have room for the most of any image in every one, in so many bytes at most.
_MOST_BOXES, _MOST_BYTES = 10_000, 2 << 30
# Pixels from the corner, farther than any image reaches.
_FARTHEST = 1e9
# What int and float raise of what JSON may hold.
_NOT_A_NUMBER = (KeyError, TypeError, ValueError, OverflowError)


@reader("coco", example="DIR")
def open_coco(path: str, /, *, size: int = 0, letterbox: int = 0) -> Dataset:
    """Images and the boxes in them, in COCO's layout: `instances_PART.json` in DIR or DIR/annotations.

    Images lie in folders or tar files of DIR, under the names that the annotations give; those of no box
    count too. Files `_annotations.coco.json` beside images are read as well. `?size=352` scales images to
    that many pixels a side without keeping their proportions; `?letterbox=640` keeps them, and fills what is
    left with grey; without either, all images of a batch must have one size. Class i is the category whose
    id is the i-th smallest. `tensmith compress` needs `--decode` to know boxes in a model's outputs.
    """
    for name, value in (("size", size), ("letterbox", letterbox)):
        if not 0 <= value <= SIZE_LIMIT:
            raise DataError(f"{name}={value} is out of range; choose at most {SIZE_LIMIT} pixels a side")
    if size and letterbox:
        raise DataError("images are scaled by ?size or by ?letterbox, not by both")
    root = at_home(path)
    files = by_part(_annotation_files(root), partial(_part_of, root=root), str(root))
    if not files:
        raise DataError(
            f"no annotations in {root}: expected instances_val2017.json or the like, there or in annotations/"
        )
    trees = tuple(_trees(root))
    first = next(iter(files.values()))
    classes = _categories(_document(first), first)
    canvas = _Canvas(size, letterbox)
    openers = {part: partial(_part, part, file, trees, classes, canvas) for part, file in files.items()}
    return Dataset("coco", "detection", len(classes), LazyParts(openers), "image", tuple(classes.values()))


@dataclass(frozen=True)
class _Canvas:
    """Where an image goes: stretched to `size` a side; in proportion to `letterbox` a side; or as it is."""

    size: int
    letterbox: int

    def placed(self, width: int, height: int) -> tuple[int, int, int, int, int, int]:
        """Of the canvas the width and height; of the image on it left, top, width and height, in pixels."""
        if self.size:
            return self.size, self.size, 0, 0, self.size, self.size
        if not self.letterbox:
            return width, height, 0, 0, width, height
        side = self.letterbox
        scale = side / max(width, height)
        across, down = (max(1, round(scale * length)) for length in (width, height))
        return side, side, (side - across) // 2, (side - down) // 2, across, down


def _annotation_files(root: Path) -> Iterator[Path]:
    if not root.is_dir():
        raise DataError(f"no such folder: {root}; check the path given after the dataset's kind")
    for folder in (root, *sorted(child for child in root.iterdir() if child.is_dir())):
        yield from sorted(file for file in folder.iterdir() if _FILES.fullmatch(file.name))


def _part_of(file: Path, root: Path) -> str:
    """By the word in the file's name, else by its folder."""
    match = _FILES.fullmatch(file.name)
    word = (match and match["word"]) or ("" if file.parent == root else file.parent.name)
    return part_name(_letters(word)) or word or ALL


def _letters(word: str) -> str:
    """Of "val2017" the "val"."""
    return re.split(r"[\d._-]", word)[0]


def _trees(root: Path) -> Iterator[FileTree]:
    yield open_folder(root)
    for child in sorted(root.iterdir()):
        if child.is_file() and child.name.lower().endswith(TAR_SUFFIXES):
            yield open_tree(child)


def _document(file: Path) -> dict[str, Any]:
    """The file, if its lists are COCO's."""
    try:
        document = json.loads(gate.read_bytes(file, gate.ANNOTATIONS))
        lists = [document[key] for key in ("images", "annotations", "categories")]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise DataError(
            f"{file} is no annotation file of COCO's ({type(error).__name__}: {str(error)[:100]}); it needs "
            "images, annotations and categories"
        ) from error
    if not all(isinstance(rows, list) and all(isinstance(row, dict) for row in rows) for rows in lists):
        raise DataError(f"{file} is no annotation file of COCO's: its lists hold something else than objects")
    return document  # type: ignore[no-any-return]


def _categories(document: Mapping[str, Any], file: Path) -> dict[int, str]:
    """Names by id, in the order of ids."""
    rows = document["categories"]
    try:
        found = {int(row["id"]): str(row.get("name", row["id"])) for row in rows}
    except _NOT_A_NUMBER as error:
        raise DataError(f"{file}: a category has no id that is a number") from error
    if len(found) < len(rows):
        raise DataError(f"{file}: two categories have one id")
    if not found:
        raise DataError(f"{file} has no categories; boxes without a class cannot be judged")
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class _Picture:
    """An image of the annotations: where its file is, and how large it is said to be."""

    tree: FileTree
    name: str
    width: int
    height: int


def _part(
    part: str, file: Path, trees: Sequence[FileTree], classes: Mapping[int, str], canvas: _Canvas
) -> DatasetPart:
    document = _document(file)
    if _categories(document, file) != classes:
        raise DataError(f"{file} has other categories than the annotations of the other parts")
    pictures = _pictures(document["images"], file, part, trees)
    numbers = {key: number for number, key in enumerate(pictures)}
    boxes: list[list[tuple[float, ...]]] = [[] for _ in pictures]
    ranks = {key: rank for rank, key in enumerate(classes)}
    for row in document["annotations"]:
        number, box = _box(row, file, pictures, numbers, ranks, canvas)
        boxes[number].append(box)
    most = max(1, *map(len, boxes), 1)
    if most > _MOST_BOXES or 24 * most * len(boxes) > _MOST_BYTES:
        raise DataError(f"{file} has {most} boxes in one of {len(boxes)} images; that is too many")
    labels = np.full((len(boxes), most, 6), _NONE, np.float32)
    for number, found in enumerate(boxes):
        labels[number, : len(found)] = np.array(found, np.float32).reshape(-1, 6)
    listed = list(pictures.values())
    scaled = "add ?size=640 or ?letterbox=640"
    return ItemPart(len(listed), lambda n: _read(listed[n], canvas), labels, ragged=False, remedy=scaled)


def _pictures(
    rows: Sequence[Mapping[str, Any]], file: Path, part: str, trees: Sequence[FileTree]
) -> dict[int, _Picture]:
    """The images by id; DataError naming the first that is not there."""
    places: dict[str, list[tuple[FileTree, str]]] = {}
    for tree in trees:
        for name in tree.having(*SUFFIXES):
            places.setdefault(PurePosixPath(name).name, []).append((tree, name))
    found: dict[int, _Picture] = {}
    for row in rows:
        try:
            key, given = int(row["id"]), str(row["file_name"])
            width, height = int(row["width"]), int(row["height"])
        except _NOT_A_NUMBER as error:
            raise DataError(f"{file}: an image lacks id, file_name, width or height") from error
        if key in found:
            raise DataError(f"{file}: two images have the id {key}")
        if min(width, height) < 1 or width * height > PIXEL_LIMIT:
            raise DataError(f"{file}: image {given} is said to be {width}x{height} pixels; mend its entry")
        among = places.get(PurePosixPath(given).name, [])
        if not among:
            raise DataError(f"{file} names {given}, which lies nowhere below {file.parent}; get the images")
        tree, name = max(among, key=lambda place: _nearness(place, given, part, file))
        found[key] = _Picture(tree, name, width, height)
    if not found:
        raise DataError(f"{file} names no images; there is nothing to judge by")
    return found


def _nearness(place: tuple[FileTree, str], given: str, part: str, file: Path) -> tuple[bool, bool, bool]:
    """Images of one name may lie in the folders of several parts: which is meant."""
    tree, name = place
    words = (*PurePosixPath(name).parts, tree.root.name)
    beside = (tree.root / name).parent == file.parent
    return name.endswith(given), beside, any(part_name(_letters(word)) == part for word in words)


def _box(
    row: Mapping[str, Any],
    file: Path,
    pictures: Mapping[int, _Picture],
    numbers: Mapping[int, int],
    ranks: Mapping[int, int],
    canvas: _Canvas,
) -> tuple[int, tuple[float, ...]]:
    """The number of an annotation's image, and its box: class, left, top, right, bottom as shares of what the
    model sees, and whether it is of a crowd."""
    try:
        key, class_ = int(row["image_id"]), ranks[int(row["category_id"])]
        picture, number = pictures[key], numbers[key]
        left, top, width, height = map(_number, row["bbox"])
        crowd = bool((0, 1).index(row.get("iscrowd", 0)))
    except _NOT_A_NUMBER as error:
        known = str(row.get("id", "?"))[:40]
        raise DataError(
            f"{file}: annotation {known} needs image_id and category_id of the file, and bbox, four numbers; "
            "iscrowd is 0 or 1"
        ) from error
    near = all(abs(length) < _FARTHEST for length in (left, top, width, height))
    if not near or min(width, height) < 0:
        known = str(row.get("id", "?"))[:40]
        raise DataError(f"{file}: annotation {known} has no box [x, y, width, height]")
    whole_w, whole_h, dx, dy, across, down = canvas.placed(picture.width, picture.height)
    sx, sy = across / picture.width / whole_w, down / picture.height / whole_h
    x, y = left * sx + dx / whole_w, top * sy + dy / whole_h
    return number, (float(class_), x, y, x + width * sx, y + height * sy, float(crowd))


def _number(value: Any) -> float:
    if not isinstance(value, (int, float)):
        raise TypeError
    return float(value)


def _read(picture: _Picture, canvas: _Canvas) -> Array:
    """float32 RGB [3, height, width] in 0..255."""
    from PIL import Image

    where = f"{picture.tree.root}/{picture.name}"
    image = decoded_image(picture.tree.read(picture.name), where)
    if image.size != (picture.width, picture.height):
        said = f"{picture.width}x{picture.height}"
        raise DataError(
            f"{where} has {image.width}x{image.height} pixels, its annotations are for {said}; boxes would "
            "be misplaced"
        )
    whole_w, whole_h, left, top, across, down = canvas.placed(*image.size)
    if image.size != (across, down):
        image = image.resize((across, down), Image.Resampling.BILINEAR)
    if (whole_w, whole_h) != (across, down):
        whole = Image.new("RGB", (whole_w, whole_h), (_GREY, _GREY, _GREY))
        whole.paste(image, (left, top))
        image = whole
    return np.ascontiguousarray(np.asarray(image, np.uint8).transpose(2, 0, 1), dtype=np.float32)
