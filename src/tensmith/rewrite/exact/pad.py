"""Zero padding moved into the window op that reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.formula.expr import Formula, compute, tensor
from tensmith.formula.poly import Dim, Poly
from tensmith.ir.ops.sizes import as_ints, is_negative
from tensmith.ir.ops.slicing import full_pads
from tensmith.rewrite.exact.batch_norm import B, W, X, conv_case
from tensmith.rewrite.pattern import PatternRule
from tensmith.rewrite.rule import exact
from tensmith.rewrite.term import Case, Match, Term, Use, Var, ops
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


def _with_pads(m: Match | Case, attrs: Mapping[str, Any], rank: int, turned: bool = False) -> dict[str, Any]:
    """The window's attributes with the pad's widths added (ends for begins if `turned`)."""
    begins, ends = full_pads(rank, m.value(PADS), m.value(AXES) if m.has(AXES) else None)
    outer = (*ends[2:], *begins[2:]) if turned else (*begins[2:], *ends[2:])
    inner = attrs["pads"] or (0,) * len(outer)
    return {**attrs, "pads": tuple(a + b for a, b in zip(inner, outer))}


def _object_array(items: Sequence[Dim]) -> Array:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def _padded(n: int) -> tuple[Formula, Array]:
    """The pads operand of n spatial dimensions: its formula, which nobody reads, and its symbolic value."""
    widths: list[Dim] = []
    for side in "be":
        widths += [0, 0, *(Poly.symbol(f"{side}{d}") for d in range(n))]
    return compute((4 + 2 * n,), lambda _: 0), _object_array(widths)


@exact("pad_into_conv")
class PadIntoConv(PatternRule):
    """conv(pad(x, widths), w, b, pads) = conv(x, w, b, pads + widths)."""

    order = 30

    def left(self) -> Use:
        """A convolution over a pad."""
        return ops.conv(ops.pad(X, PADS, FILL, AXES, attrs="pad"), W, B, attrs="conv")

    def check(self, m: Match) -> str | None:
        """Zeros around the image only, explicit pads."""
        if m.attrs["conv"]["auto_pad"] not in ("NOTSET", "VALID"):
            return f"auto_pad={m.attrs['conv']['auto_pad']} depends on the padded size"
        return _spatial(m, len(m.shape(W)))

    def right(self, m: Match | Case) -> Term:
        """The convolution pads."""
        return self._moved(m, False)

    def wrong(self, m: Match | Case) -> Term:
        """Begins and ends change places."""
        return self._moved(m, True)

    def _moved(self, m: Match | Case, turned: bool) -> Use:
        attrs = dict(m.attrs["conv"])
        if attrs.get("auto_pad") == "VALID":
            attrs |= {"auto_pad": "NOTSET", "pads": None}
        return ops.conv(X, W, B, attrs=_with_pads(m, attrs, len(m.shape(W)), turned))

    def cases(self) -> Iterable[Case]:
        """One and two spatial dimensions, with and without bias."""
        for n in (1, 2):
            for bias in (True, False):
                case = conv_case(n, bias, {})
                formula, widths = _padded(n)
                lower = {**case.lower, **{f"{side}{d}": 0 for side in "be" for d in range(n)}}
                attrs = {**case.attrs, "pad": {"mode": "constant"}}
                tensors = {**case.tensors, "pads": formula}
                yield replace(case, tensors=tensors, attrs=attrs, values={"pads": widths}, lower=lower)


@exact("pad_into_average_pool")
class PadIntoAveragePool(PatternRule):
    """average_pool(pad(x)) = average_pool(x) that pads by itself and counts its padding."""

    order = 30

    def left(self) -> Use:
        """An average pool over a pad."""
        return ops.average_pool(ops.pad(X, PADS, FILL, AXES, attrs="pad"), attrs="pool")

    def check(self, m: Match) -> str | None:
        """Zeros around the image only, and every position counted so far."""
        attrs = m.attrs["pool"]
        if (
            attrs["auto_pad"] != "NOTSET"
            or attrs["ceil_mode"]
            or (any(attrs["pads"] or ()) and not attrs["count_include_pad"])
        ):
            return "the pool pads by rules of its own"
        reason = _spatial(m, len(m.shape(X)))
        if reason is None:  # ONNX Runtime refuses a pool with a window that lies in its padding
            pads, kernel = _with_pads(m, attrs, len(m.shape(X)))["pads"], 2 * attrs["kernel_shape"]
            if not all(is_negative(pad - size) for pad, size in zip(pads, kernel)):
                return "the padding is not surely narrower than the window"
        return reason

    def right(self, m: Match | Case) -> Term:
        """The pool pads and counts."""
        return self._moved(m, 1)

    def wrong(self, m: Match | Case) -> Term:
        """The padding is not counted."""
        return self._moved(m, 0)

    def _moved(self, m: Match | Case, count: int) -> Use:
        attrs = _with_pads(m, m.attrs["pool"], len(m.shape(X)))
        return ops.average_pool(X, attrs={**attrs, "count_include_pad": count})

    def cases(self) -> Iterable[Case]:
        """One and two spatial dimensions."""
        for n in (1, 2):
            formula, widths = _padded(n)
            sizes = [Poly.symbol(f"H{d}") + 2 for d in range(n)]
            pool = {"kernel_shape": (3, 2)[:n], "strides": (2, 1)[:n], "pads": (0,) * (2 * n)}
            yield Case(
                f"{n}d",
                {"x": tensor("x", Poly.symbol("N"), Poly.symbol("C"), *sizes), "pads": formula},
                {"pad": {"mode": "constant"}, "pool": pool},
                {"pads": widths},
                {f"{side}{d}": 0 for side in "be" for d in range(n)},
            )
