"""How images reach a model: with the channels, in the order and of the element type that its input has.

Readers give [n, channels, height, width] in 0..255. What a model takes is read off its input: channels first
or last (TensorFlow's exports), no axis of channels, or one flat row; colour or grey; floats or integers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tensmith.data.dataset import Array
from tensmith.data.preprocess import Preprocess, parse_preprocess
from tensmith.errors import DataError

FIRST, LAST, PLANE, FLAT = "channels first", "channels last", "no channels", "flat"
# ITU-R BT.601: what a grey picture has of red, green and blue.
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


@dataclass(frozen=True)
class ImageForm:
    """What a model's input makes of an image."""

    order: str
    channels: int
    dtype: np.dtype

    @staticmethod
    def of(
        shape: Sequence[int | None], dtype: np.dtype, image: tuple[int, int, int], name: str = ""
    ) -> ImageForm:
        """The form under which an image [channels, height, width] fits an input of that shape (None: any).

        Channels first where both orders fit; the image's own channels before others. DataError if none does.
        """
        own, height, width = image
        colours = (own, *(other for other in (1, 3) if own in (1, 3) and other != own))
        for channels in colours:
            orders = {
                FIRST: (channels, height, width),
                LAST: (height, width, channels),
                **({PLANE: (height, width)} if channels == 1 else {}),
                FLAT: (channels * height * width,),
            }
            for order, sizes in orders.items():
                known = order != FLAT or shape[-1] is not None  # a row of any length may be anything
                if known and len(sizes) == len(shape) - 1 and _fit(sizes, shape[1:]):
                    return ImageForm(order, channels, dtype)
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise DataError(
            f"the data does not fit the model: its images are [{own}, {height}, {width}], and input '{name}' "
            f"takes [{wanted}], channels first, last or flat; give images of the size that it takes"
        )

    def coloured(self, images: Array) -> Array:
        """[n, channels, height, width] with the channels of the form."""
        if images.shape[1] == self.channels:
            return images
        if self.channels == 3:
            return np.repeat(images, 3, axis=1)
        grey: Array = np.tensordot(images.astype(np.float32, copy=False), _LUMA, axes=(1, 0))
        return grey[:, None]

    def placed(self, images: Array) -> Array:
        """[n, channels, height, width] as the input takes them; integers are rounded and stay in range."""
        if self.dtype.kind in "iu":
            bounds = np.iinfo(self.dtype)
            images = np.clip(np.rint(images), bounds.min, bounds.max).astype(self.dtype)
        if self.order == LAST:
            images = np.moveaxis(images, 1, -1)
        elif self.order == PLANE:
            images = images[:, 0]
        elif self.order == FLAT:
            images = images.reshape(len(images), math.prod(images.shape[1:]))
        return np.ascontiguousarray(images)


@dataclass(frozen=True)
class ImageInput:
    """Images on their way into a model: coloured, brought into its range, placed."""

    preprocess: Preprocess
    form: ImageForm

    @property
    def name(self) -> str:
        """The preprocessing's: the form follows from the model."""
        return self.preprocess.name

    def to_json(self) -> dict[str, Any]:
        """{"preprocess": its name, "form": {"order", "channels", "dtype"}}."""
        return {"preprocess": self.name, "form": asdict(self.form) | {"dtype": self.form.dtype.name}}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> ImageInput:
        """What `to_json` wrote."""
        form = document["form"]
        placed = ImageForm(form["order"], form["channels"], np.dtype(form["dtype"]))
        return ImageInput(parse_preprocess(document["preprocess"]), placed)

    def __call__(self, images: Array) -> Array:
        """Images [n, channels, height, width] in 0..255 as the model's input takes them."""
        return self.form.placed(self.preprocess(self.form.coloured(images)))


def are_pixels(images: Array) -> bool:
    """Whether images may be pixels: what is below 0, or fractions of 1, was preprocessed already."""
    finite = images[np.isfinite(images)]
    fractions = finite.max(initial=0) <= 1 and bool((finite % 1).any())
    return bool(finite.min(initial=0) >= 0 and not fractions)


def _fit(sizes: tuple[int, ...], shape: Sequence[int | None]) -> bool:
    return all(known is None or size == known for size, known in zip(sizes, shape))
