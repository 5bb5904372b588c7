"""Zero padding moved into the window op that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.formula.poly import Poly
from tensmith.ir.ops.sizes import as_ints, is_negative
from tensmith.ir.ops.slicing import full_pads
from tensmith.rewrite.exact.products import B, W, X, conv
from tensmith.rewrite.given import Instance, conv_instances
from tensmith.rewrite.law import law
from tensmith.rewrite.match import Match
from tensmith.rewrite.term import Bindings, Use, Var, later, ops
from tensmith.rewrite.values import uniform

PADS, FILL, AXES = Var("pads"), Var("fill", optional=True), Var("axes", optional=True)


def zero_pads(m: Match, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]] | str:
    """(begins, ends) of a pad captured as "pad" that puts zeros and cuts nothing, or why it is not one."""
    if m.attrs["pad"]["mode"] != "constant" or (m.has(FILL) and uniform(m.program, m.values["fill"]) != 0):
        return "the padding is not zero"
    try:
        sides = full_pads(rank, _numbers(m, PADS), _numbers(m, AXES) if m.has(AXES) else None)
    except ProgramError as error:
        return str(error)
    begins, ends = map(as_ints, sides)
    return (begins, ends) if all(width >= 0 for width in (*begins, *ends)) else "the padding cuts"


def _numbers(m: Match, var: Var) -> Array:
    value = m.value(var)
    if value is None or value.dtype == object:
        raise ProgramError(f"the {var.name} of the padding are not known")
    return value


def _spatial(m: Match, rank: int) -> str | None:
    found = zero_pads(m, rank)
    if isinstance(found, str):
        return found
    return "channels or images are padded" if any((*found[0][:2], *found[1][:2])) else None


def _widened(m: Bindings, attrs: Mapping[str, Any], rank: int, turned: bool = False) -> dict[str, Any]:
    """The window's attributes with the pad's widths added (ends for begins if `turned`)."""
    begins, ends = full_pads(rank, m.value(PADS), m.value(AXES) if m.has(AXES) else None)
    outer = (*ends[2:], *begins[2:]) if turned else (*begins[2:], *ends[2:])
    inner = attrs["pads"] or (0,) * len(outer)
    return {**attrs, "pads": tuple(a + b for a, b in zip(inner, outer))}


def _padded(instance: Instance) -> Instance:
    """An instance whose images are padded by any widths, which are known."""
    begins, ends = ([Poly.symbol(f"{side}{axis}") for axis in range(instance.dims)] for side in "be")
    widths = np.array([0, 0, *begins, 0, 0, *ends], dtype=object)
    lower = {**instance.lower, **{f"{side}{axis}": 0 for side in "be" for axis in range(instance.dims)}}
    sample = {**instance.sample, "pad": {"mode": "constant"}}
    return replace(instance, values={"pads": widths}, lower=lower, sample=sample)


PADDED = ops.pad(X, PADS, FILL, AXES, attrs="pad")


def _into_conv(m: Match) -> str | None:
    """Zeros around the image only, explicit pads."""
    if m.attrs["conv"]["auto_pad"] not in ("NOTSET", "VALID"):
        return f"auto_pad={m.attrs['conv']['auto_pad']} depends on the padded size"
    return _spatial(m, len(m.shape(W)))


@later("conv(x, w, b)")
def _padding_conv(m: Bindings, turned: bool) -> Use:
    attrs = dict(m.attrs["conv"])
    if attrs.get("auto_pad") == "VALID":
        attrs |= {"auto_pad": "NOTSET", "pads": None}
    return ops.conv(X, W, B, attrs=_widened(m, attrs, len(m.shape(W)), turned))


law("pad_into_conv", conv(PADDED, W, B), _padding_conv(False), _padding_conv(True),
    given=[_padded(i) for i in conv_instances()], when=_into_conv, order=30,
    says="conv(pad(x, widths), w, b, pads) = conv(x, w, b, pads + widths).")  # fmt: skip


def _into_pool(m: Match) -> str | None:
    """Zeros around the image only, and every position counted so far."""
    attrs = m.attrs["pool"]
    own = any(attrs["pads"] or ()) and not attrs["count_include_pad"]
    if attrs["auto_pad"] != "NOTSET" or attrs["ceil_mode"] or own:
        return "the pool pads by rules of its own"
    reason = _spatial(m, len(m.shape(X)))
    if reason is None:  # ONNX Runtime refuses a pool with a window that lies in its padding
        pads, kernel = _widened(m, attrs, len(m.shape(X)))["pads"], 2 * attrs["kernel_shape"]
        if not all(is_negative(pad - size) for pad, size in zip(pads, kernel)):
            return "the padding is not surely narrower than the window"
    return reason


@later("average_pool(x)")
def _padding_pool(m: Bindings, count: int) -> Use:
    attrs = _widened(m, m.attrs["pool"], len(m.shape(X)))
    return ops.average_pool(X, attrs={**attrs, "count_include_pad": count})


def _window(n: int) -> Instance:
    """Windows that are wider than the padding, as engines want them."""
    b, e = ([Poly.symbol(f"{side}{axis}") for axis in range(n)] for side in "be")
    kernel = tuple(before + after + 1 for before, after in zip(b, e))
    pool = {"kernel_shape": kernel, "strides": (2, 1)[:n], "pads": (0,) * (2 * n)}
    return _padded(Instance(f"{n}d", {"x": "N C *H+2"}, n, sample={"pool": pool}))


law("pad_into_average_pool", ops.average_pool(PADDED, attrs="pool"), _padding_pool(1), _padding_pool(0),
    given=[_window(1), _window(2)], when=_into_pool, order=30,
    says="average_pool(pad(x)) = average_pool(x) that pads by itself and counts its padding.")  # fmt: skip
