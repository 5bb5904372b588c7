"""A tiny detector, and pictures with boxes for it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

SIDE, CELL = 32, 8
CELLS = (SIDE // CELL) ** 2


def detector(path: Path) -> None:
    """[n, 3, 32, 32] -> [n, 5, 16]: a box for each cell of 8x8 pixels, scored by how bright it is."""
    hidden = 12
    eyes = np.full((hidden, 3, CELL, CELL), 1 / (3 * CELL**2)) * (
        1 + 0.3 * np.random.default_rng(0).standard_normal((hidden, 1, 1, 1))
    )
    mean = np.full((1, hidden, 1, 1), 1 / hidden)
    middle = CELL * np.mgrid[0 : SIDE // CELL, 0 : SIDE // CELL].reshape(2, -1) + CELL / 2
    boxes = np.stack([middle[1], middle[0], *np.full((2, CELLS), CELL)])[None]
    nodes = [
        helper.make_node("Conv", ["x", "eyes"], ["seen"], strides=[CELL, CELL]),
        helper.make_node("Relu", ["seen"], ["bright"]),
        helper.make_node("Conv", ["bright", "mean"], ["cells"]),
        helper.make_node("Reshape", ["cells", "shape"], ["scores"]),
        helper.make_node("Mul", ["scores", "zero"], ["nothing"]),
        helper.make_node("Add", ["nothing", "boxes"], ["placed"]),
        helper.make_node("Concat", ["placed", "scores"], ["y"], axis=1),
    ]
    arrays = {"eyes": eyes, "mean": mean, "boxes": boxes, "zero": np.zeros(())}
    constants = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    constants.append(numpy_helper.from_array(np.array([-1, 1, CELLS]), "shape"))
    graph = helper.make_graph(
        nodes, "detector",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5, CELLS])],
        constants,
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def pictures(folder: Path) -> None:
    """160 images on which one or two cells are bright, with COCO's annotations."""
    folder.mkdir()
    random = np.random.default_rng(1)
    images, annotations = [], []
    for number in range(160):
        pixels = random.integers(0, 60, (SIDE, SIDE, 3)).astype(np.uint8)
        for cell in random.choice(CELLS, 1 + number % 2, replace=False):
            x, y = CELL * int(cell % (SIDE // CELL)), CELL * int(cell // (SIDE // CELL))
            pixels[y : y + CELL, x : x + CELL] += np.uint8(random.integers(40, 150))
            annotations.append(
                {"id": len(annotations), "image_id": number, "category_id": 1, "bbox": [x, y, CELL, CELL]}
            )
        Image.fromarray(pixels).save(folder / f"{number}.png")
        images.append({"id": number, "file_name": f"{number}.png", "width": SIDE, "height": SIDE})
    document = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "cell"}]}
    (folder / "instances_all.json").write_text(json.dumps(document))
