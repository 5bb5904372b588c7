"""Ops as others that have fast kernels, before a program is compiled.

depth to space, back     a transpose between two reshapes
instance, group norm     layer normalization of rows, then a scale and a bias a channel
transposed codes         weights as layers read them: an output head may share its table with an embedding
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tensmith.formula.poly import Dim, Poly, product
from tensmith.ir.ops.sizes import quotient
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import law
from tensmith.rewrite.match import Match
from tensmith.rewrite.right_sides import at_once, shaped
from tensmith.rewrite.term import Bindings, Later, Term, Use, Var, later, ops

X = Var("x")
lower: Any = partial(law, phase="lower", order=20)


def _whole(m: Match) -> str | None:
    """every size is known, and not zero"""
    shape = m.type(X).static
    return None if shape is not None and 0 not in shape else "a size is not known, or zero"


# Blocks of pixels

_LEAST = dict.fromkeys("NCHWGb", 1)


def _blocks(name: str, shape: str) -> list[Instance]:
    attrs: list[dict[str, Any]] = [{"blocksize": Poly.symbol("b"), "mode": mode} for mode in ("DCR", "CRD")]
    return [Instance(each["mode"], {"x": shape}, attrs={name: each}, lower=_LEAST) for each in attrs]


def _split(x: Term, before: Sequence[Dim], order: Sequence[int], after: Sequence[Dim]) -> Use:
    """x as `before`, its axes in another order, as `after`."""
    return shaped(ops.transpose(shaped(x, before), attrs={"perm": tuple(order)}), after)


def _to_space(m: Bindings, swapped: bool) -> Use:
    """Rows and columns of a block are taken for each other where `swapped`."""
    n, c, h, w = m.shape(X)
    b = m.attrs["blocks"]["blocksize"]
    k = quotient([c], [b * b])
    by_channel = m.attrs["blocks"]["mode"] == "CRD"
    before = (n, k, b, b, h, w) if by_channel else (n, b, b, k, h, w)
    channel, row, column = (1, 2, 3) if by_channel else (3, 1, 2)
    rows = (4, column, 5, row) if swapped else (4, row, 5, column)
    return _split(X, before, (0, channel, *rows), (n, k, h * b, w * b))


def _to_depth(m: Bindings, swapped: bool) -> Use:
    n, c, h, w = m.shape(X)
    b = m.attrs["blocks"]["blocksize"]
    rows, columns = quotient([h], [b]), quotient([w], [b])
    places = (5, 3) if swapped else (3, 5)
    order = (0, 1, *places, 2, 4) if m.attrs["blocks"]["mode"] == "CRD" else (0, *places, 1, 2, 4)
    return _split(X, (n, c, rows, b, columns, b), order, (n, c * b * b, rows, columns))


for _name, _left, _made, _image in (
    ("depth_to_space_as_transpose", ops.depth_to_space(X, attrs="blocks"), _to_space, "N b*b*C H W"),
    ("space_to_depth_as_transpose", ops.space_to_depth(X, attrs="blocks"), _to_depth, "N C b*H b*W"),
):
    lower(
        _name,
        _left,
        Later(partial(_made, swapped=False), "reshape(transpose(reshape(x)))"),
        Later(partial(_made, swapped=True), "reshape(transpose(reshape(x)))"),
        given=_blocks("blocks", _image),
        when=_whole,
        says=f"{_left.op} is a transpose between two reshapes.",
    )

# Normalizations of rows

SCALE, SHIFT = Var("scale"), Var("shift")


@later("layer_normalization(rows) * scale + {0.name}")
def _rows(m: Bindings, shift: Var) -> Use:
    """A row for each group of channels, or each channel, normalized; then a scale and a bias a channel."""
    batch, channels, *space = m.shape(X)
    groups = m.attrs["norm"].get("num_groups", channels)
    positions, attrs = product(space), {"epsilon": m.attrs["norm"]["epsilon"]}
    rows = shaped(X, (batch, groups, quotient([channels], [groups]) * positions))
    normal = ops.layer_normalization(rows, np.ones(1, np.float32), attrs=attrs)
    scale, bias = (shaped(vector, (channels, 1)) for vector in (SCALE, shift))
    return shaped(shaped(normal, (batch, channels, positions)) * scale + bias, m.shape(X))


def _images(channels: str, **attrs: Any) -> list[Instance]:
    """Batches of images in 1 to 3 dimensions."""
    return [
        Instance(
            f"{n}d",
            {"x": f"N {channels} *H", "scale": channels, "shift": channels},
            n,
            sample={"norm": {"epsilon": 2.0**-10, **attrs}},
            lower={**_LEAST, **{f"H{axis}": 1 for axis in range(n)}},
        )
        for n in (1, 2, 3)
    ]


lower(
    "instance_norm_as_rows",
    ops.instance_normalization(X, SCALE, SHIFT, attrs="norm"),
    _rows(SHIFT),
    _rows(SCALE),
    given=_images("C"),
    when=lambda m: _whole(m) or _single(m),
    says="An instance norm is a layer norm of each channel's row, then a scale and a bias a channel.",
)
lower(
    "group_norm_as_rows",
    ops.group_normalization(X, SCALE, SHIFT, attrs="norm"),
    _rows(SHIFT),
    _rows(SCALE),
    given=_images("G*C", num_groups=Poly.symbol("G")),
    when=lambda m: _whole(m) or _single(m),
    says="A group norm is a layer norm of each group's row, then a scale and a bias a channel.",
)


def _single(m: Match) -> str | None:
    return None if m.type(X).dtype == "f32" else "numbers are not of 32 bits"


# Codes of weights

CODES, S = Var("codes", static=True), Var("s", static=True)
Z = Var("z", static=True, optional=True)


def _transposed(m: Bindings, axis: int) -> Use:
    """Codes, and scales and zero points of blocks, transposed; those of rows or columns as they are."""
    parts = [ops.transpose(v) if len(m.shape(v)) == 2 else v for v in (CODES, S, Z) if m.has(v)]
    attrs = {**m.attrs["codes"], "axis": axis}
    return ops.dequantize_linear(*(at_once(part, m) for part in parts), attrs=attrs)


def _other_axis(m: Bindings) -> int:
    return int(1 - m.attrs["codes"]["axis"] % 2)


def _constants(m: Match) -> str | None:
    """all of the codes' parts are constants"""
    parts = [m.values[v.name] for v in (CODES, S, Z) if m.has(v)]
    known = all(name in m.program.constants for name in parts)
    matrix = m.type(CODES).rank == 2 and m.attrs["turn"]["perm"] in (None, (), (1, 0))
    return None if known and matrix else "no constant matrix of codes"


def _matrices() -> list[Instance]:
    """One grid for all, one a row or column, one a block; with and without zero points."""
    grids: dict[str, tuple[str, str, dict[str, Any]]] = {
        "one grid": ("N C", "", {"axis": 1}),
        "rows": ("N C", "N", {"axis": 0}),
        "columns": ("N C", "C", {"axis": 1}),
        "blocks of rows": ("b*N C", "N C", {"axis": 0, "block_size": Poly.symbol("b")}),
        "blocks of columns": ("N b*C", "N C", {"axis": 1, "block_size": Poly.symbol("b")}),
    }
    return [
        Instance(
            f"{name}{', zero points' * zeros}",
            {"codes": codes, "s": grid, **({"z": grid} if zeros else {})},
            sample={"codes": attrs, "turn": {"perm": (1, 0)}},
            dtypes={"codes": "i8", "z": "i8"},
            lower=_LEAST,
            example=True,
        )
        for name, (codes, grid, attrs) in grids.items()
        for zeros in (False, True)
    ]


lower(
    "transposed_codes",
    ops.transpose(ops.dequantize_linear(CODES, S, Z, attrs="codes"), attrs="turn"),
    Later(lambda m: _transposed(m, _other_axis(m)), "dequantize_linear(transpose(codes), s, z)"),
    Later(lambda m: _transposed(m, 1 - _other_axis(m)) * 2, "2 dequantize_linear(transpose(codes), s, z)"),
    given=_matrices(),
    when=_constants,
    order=10,
    says="transpose(dequantize(codes)) = dequantize(transpose(codes)): weights as layers read them.",
)
