"""Resize: values against ONNX's reference in every mode, and types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance import check, close, one_node, random, run_onnx
from onnx.reference import ReferenceEvaluator

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array, Floats
from tensmith.formula.evaluate import evaluate
from tensmith.formula.expr import tensor
from tensmith.formula.poly import Poly
from tensmith.ir.op import OPS, Run, Symbolic, Typed
from tensmith.ir.types import TensorType

COORDINATES = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric", "align_corners"]
RESIZE = OPS["resize"]


def by_scales(x: Array, scales: list[float], attrs: dict[str, Any]) -> None:
    """The inferred type and the values for known scales are those of ONNX's reference."""
    inputs = (x, None, np.array(scales, np.float32))
    full = {**RESIZE.attributes, **attrs}
    types = tuple(None if i is None else TensorType.of(i) for i in inputs)
    use = Typed(full, types, (None, *inputs[1:]))
    assert RESIZE.accepts(use) is None
    (type_,) = RESIZE.infer(use)
    (got,) = RESIZE.run(Run(full, inputs, types, (type_,)), Floats())
    given = {f"x{i}": array for i, array in enumerate(inputs) if array is not None}
    right = ReferenceEvaluator(one_node(RESIZE, inputs, attrs, 1, 19)).run(None, given)[0]
    assert type_ == TensorType.of(right)
    close(got.astype(np.float32), right, atol=1e-5)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_modes_to_sizes(mode: str, coordinates: str) -> None:
    attrs = {"mode": mode, "coordinate_transformation_mode": coordinates}
    for sizes in ((1, 2, 7, 3), (1, 2, 8, 10)):
        inputs = [random(1, 2, 4, 5), None, None, np.array(sizes)]
        check("resize", inputs, attrs, opset=19, formula=False, atol=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", COORDINATES[:4])
def test_modes_by_scales(mode: str, coordinates: str) -> None:
    attrs = {"mode": mode, "coordinate_transformation_mode": coordinates}
    for scales in ([1, 1, 0.6, 2.5], [1, 1, 2, 0.5]):
        by_scales(random(1, 2, 4, 6), scales, attrs)


@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_rounding(rounding: str) -> None:
    attrs = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": rounding}
    by_scales(random(1, 2, 4, 6), [1, 1, 2, 0.5], attrs)


@pytest.mark.parametrize(("antialias", "exclude"), [(0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialias_and_exclude_outside(mode: str, antialias: int, exclude: int) -> None:
    attrs = {"mode": mode, "antialias": antialias, "exclude_outside": exclude}
    by_scales(random(1, 1, 8, 9), [1, 1, 0.6, 0.4], attrs)


def test_an_infinity_reaches_its_neighbours_alone() -> None:
    x, scales = np.array([[[[1, 2, 3, np.inf]]]], np.float32), np.array([1, 1, 1, 2], np.float32)
    run = Run({**RESIZE.attributes, "mode": "linear"}, (x, None, scales), (None,) * 3, (None,))
    (y,) = RESIZE.run(run, Floats())
    assert y.ravel().tolist() == [1, 1.25, 1.75, 2.25, 2.75, np.inf, np.inf, np.inf]


def test_crop_and_resize() -> None:
    attrs = {
        "mode": "linear",
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "extrapolation_value": 10.0,
    }
    roi = np.array([0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7], np.float32)
    inputs = [random(1, 1, 4, 4), roi, None, np.array([1, 1, 3, 5])]
    check("resize", inputs, attrs, opset=19, formula=False, field=False, atol=1e-5)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_kept_aspect_ratio(policy: str) -> None:
    inputs = [random(1, 2, 4, 6), None, None, np.array([7, 8])]
    attrs = {"keep_aspect_ratio_policy": policy, "axes": (2, 3)}
    check("resize", inputs, attrs, opset=19, formula=False, open_shape=True)


def test_a_whole_factor_repeats_each_element() -> None:
    for style in ({}, {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}):
        full = {**RESIZE.attributes, **style}
        x, scales = random(1, 2, 3, 4), np.array([1, 1, 2, 3], np.float32)
        reads = (tensor("x", *x.shape), None, tensor("scales", 4))
        (formula,) = RESIZE.formula(Symbolic(full, reads, (None, None, scales)))
        types = (TensorType.of(x), None, TensorType.of(scales))
        (y,) = RESIZE.run(Run(full, (x, None, scales), types, (None,)), Floats())
        close(evaluate(formula, {"x": x}, {}, Floats()).astype(np.float32), y)


def test_a_kept_aspect_ratio_has_no_formula() -> None:
    attrs = {**RESIZE.attributes, "keep_aspect_ratio_policy": "not_larger"}
    reads = (tensor("x", 1, 3, 2, 2), None, None, tensor("sizes", 4))
    with pytest.raises(ProgramError, match="keeps the aspect ratio"):
        RESIZE.formula(Symbolic(attrs, reads, (None, None, None, np.array([1, 3, 4, 8]))))


@pytest.mark.parametrize("empty", [(0,), (0, 1)])
def test_empty_sizes_are_no_sizes(empty: tuple[int, ...]) -> None:
    """As models of opset 11 leave them out: the scales count, for formulas and types too."""
    reads = (tensor("x", 1, 2, 3, 4), None, tensor("scales", 4), tensor("sizes", *empty))
    values = (None, None, np.array([1, 1, 2, 3], np.float32), np.zeros(empty, np.int64))
    (formula,) = RESIZE.formula(Symbolic(RESIZE.attributes, reads, values))
    assert formula.shape == (1, 2, 6, 12)
    types = (TensorType("f32", (1, 2, 3, 4)), None, TensorType("f32", (4,)), TensorType("i64", empty))
    (found,) = RESIZE.infer(Typed(RESIZE.attributes, types, values))
    assert found is not None and found.static == (1, 2, 6, 12)


def test_symbolic_sizes_keep_their_scale() -> None:
    h = Poly.symbol("H")
    types = (TensorType("f32", (1, 3, h, h)), None, TensorType("f32", (4,)))
    use = Typed(RESIZE.attributes, types, (None, None, np.array([1, 1, 2, 0.5], np.float32)))
    assert RESIZE.infer(use) == (TensorType("f32", (1, 3, h * 2, h // 2)),)


def test_sizes_that_rounding_decides_are_left_open() -> None:
    """10 * 0.7 is 7 in float32, though the float32 next to 0.7 is less."""
    scales = np.array([1, 1, 1, 0.7], np.float32)
    h = Poly.symbol("H")
    for size, known in ((10, False), (11, True), (h, False)):
        types = (TensorType("f32", (1, 1, 1, size)), None, TensorType("f32", (4,)))
        (found,) = RESIZE.infer(Typed(RESIZE.attributes, types, (None, None, scales)))
        assert found is not None and (found.static is not None) == known
    inputs = (random(1, 1, 1, 10), None, scales)
    types = tuple(None if i is None else TensorType.of(i) for i in inputs)
    (y,) = RESIZE.run(Run(RESIZE.attributes, inputs, types, (None,)), Floats())
    assert y.shape == run_onnx(RESIZE, inputs, {}, 1, 19)[0].shape == (1, 1, 1, 7)


def test_shares_of_whole_numbers_are_refused() -> None:
    types = (TensorType("u8", (1, 3, 4, 4)), None, TensorType("f32", (4,)))
    values = (None, None, np.array([1, 1, 2, 2], np.float32))
    for mode, told in (("nearest", None), ("linear", "mode=linear of u8"), ("cubic", "mode=cubic of u8")):
        assert RESIZE.accepts(Typed({**RESIZE.attributes, "mode": mode}, types, values)) == told
