"""Images in one folder a class, the layout of ImageNet and torchvision, in a folder or a tar file."""

from __future__ import annotations

import io
import warnings
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from tensmith import gate
from tensmith.data.dataset import Array, Dataset
from tensmith.data.opening import reader
from tensmith.data.tree import FileTree, by_folder, classified, demand_classes, open_tree
from tensmith.errors import DataError
from tensmith.files import at_home

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = (".jpg", ".jpeg", ".png")
ORDER_FILES = ("synsets.txt", "wnids.txt", "classes.txt")
PIXEL_LIMIT = 64_000_000
SIZE_LIMIT = 8192


@reader("imagefolder", example="DIR_OR_TAR")
def open_imagefolder(path: str, /, *, size: int = 0) -> Dataset:
    """JPEG and PNG images, one subfolder a class, optionally below train/, val/ or test/.

    An image may lie deeper in the folder of its class; one that lies in none is left out and told. Classes
    are numbered in the order of synsets.txt, wnids.txt or classes.txt (whole lines, or their first words)
    when one lies inside or beside, else in alphabetical order, and then a folder beside theirs without images
    is refused. `?size=224` scales the short side to size*256/224 and crops the centre; without it all images
    of a batch must have one size.
    """
    if not 0 <= size <= SIZE_LIMIT:
        raise DataError(
            f"images of {size} pixels a side are out of range; choose a size of at most {SIZE_LIMIT}"
        )
    tree = open_tree(at_home(path))
    images = tree.having(*SUFFIXES)
    if not images:
        raise DataError(f"no .jpg or .png images in {tree.root}; expected [val/]CLASS/IMAGE.jpg")
    described = by_folder(tree.root, images)
    if not described:
        raise DataError(
            f"no image in {tree.root} lies in a folder of its class; expected [val/]CLASS/IMAGE.jpg"
        )
    found = {label for _, label in described.values()}
    class_names = _class_order(tree, found)
    if not class_names:
        demand_classes(tree.root, images, tree.folders, ".jpg or .png image")
        class_names = sorted(found)
    if unknown := found - set(class_names):
        name = next(name for name in images if name in described and described[name][1] in unknown)
        raise DataError(
            f"{tree.root}/{name}: class '{described[name][1]}' is not in the class order file; add it there"
        )
    return classified(
        "imagefolder", "image", tree, images, described, class_names, partial(decode_image, size=size),
        ragged=False, remedy="add ?size=224", files=".jpg or .png image",
    )  # fmt: skip


def _class_order(tree: FileTree, found: set[str]) -> list[str]:
    for wanted in ORDER_FILES:
        for name in tree.names:
            if PurePosixPath(name).name == wanted:
                return _classes(tree.text(name), name, found)
        beside = tree.root.absolute().parent / wanted
        if beside.is_file():
            text = gate.read_bytes(beside, gate.WORDS).decode(errors="replace")
            return _classes(text, str(beside), found)
    return []


def _classes(text: str, where: str, found: set[str]) -> list[str]:
    """A class a line: the whole line where the classes found are such lines, else its first word."""
    lines = [line.strip() for line in text.removeprefix("\ufeff").splitlines() if line.strip()]
    names = lines if found <= set(lines) else [line.split()[0] for line in lines]
    if len(set(names)) != len(names):
        raise DataError(f"{where} names a class twice; every line must start with another class folder")
    return names


def decode_image(data: bytes, where: str, size: int) -> Array:
    """A JPEG or PNG file as float32 RGB [3, height, width] in 0..255.

    `size` > 0: short side to size*256/224 (bicubic), then the centre size x size, as for ImageNet. Refuses
    images past 64 million pixels before decoding them.
    """
    image = decoded_image(data, where)
    if size:
        image = _centre(image, size)
    return np.ascontiguousarray(np.asarray(image, np.uint8).transpose(2, 0, 1), dtype=np.float32)


def decoded_image(data: bytes, where: str) -> Image.Image:
    """A JPEG or PNG file as an RGB picture; DataError if it is none, or has over 64 million pixels."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # our own limit is below
            image: Image.Image = Image.open(io.BytesIO(data), formats=("JPEG", "PNG"))
        if image.width * image.height > PIXEL_LIMIT:
            raise DataError(
                f"{where} is {image.width}x{image.height} pixels, past the limit of {PIXEL_LIMIT}; scale it"
            )
        if image.mode.startswith("I"):  # 16 bits of grey, which Pillow would cut off at 255
            image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
        return image.convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(
            f"{where} is not a readable JPEG or PNG image ({error}); get it again or remove it"
        ) from error


def _centre(image: Image.Image, size: int) -> Image.Image:
    from PIL import Image

    short = round(size * 256 / 224)
    scale = short / min(image.size)
    width, height = (max(short, round(side * scale)) for side in image.size)
    if width * height > PIXEL_LIMIT:
        raise DataError(
            f"an image of {image.width}x{image.height} pixels is too long and thin for size={size}; remove it"
        )
    left, top = (width - size) // 2, (height - size) // 2
    scaled = image.resize((width, height), Image.Resampling.BICUBIC)
    return scaled.crop((left, top, left + size, top + size))
