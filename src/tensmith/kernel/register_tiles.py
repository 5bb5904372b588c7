"""What kernels share that sum up register tiles: some positions of an image by some vectors of filters."""

from __future__ import annotations

from tensmith.kernel.buffer import Buffer
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.tiles import Extent


def layouts(problem: ConvolutionProblem, block: int) -> list[int]:
    """Channels that a block of x may hold: `block`, or all, where a matrix product reads rows as they lie."""
    rows = problem.pointwise and problem.groups == 1 and problem.height == 1
    return list(dict.fromkeys((block, problem.channels) if rows else (block,)))


def store_tile(
    tile: Extent, blocks: int, last: int, target: Buffer, epilogue: Epilogue, lanes: int,
    sums: str = "a[i][j][k]",
) -> str:  # fmt: skip
    """C that finishes the `sums` of a tile and stores them at y.

    Of the last vector only `last` elements are stored, where rows end with them.
    """
    kept = epilogue.residual or target
    at, add = (
        f"i * {buffer.row} + j * {buffer.block} + k * {vector_step(buffer, lanes)}"
        for buffer in (target, kept)
    )
    bias, each = (
        f"load(b + k * {lanes})",
        (f"UNROLL for (int i = 0; i < {tile[0]}; i++) UNROLL for (int j = 0; j < {tile[1]}; j++)"),
    )
    value, end = epilogue.apply(sums, bias, f"load(r + {add})"), ""
    if last < lanes:
        ragged = f"load(r + {add})" if kept.block == lanes else f"load_part(r + {add}, {last})"
        end = f"""
    {each} {{
        enum {{ k = {blocks - 1} }};
        store_part(y + {at}, {epilogue.apply(sums, bias, ragged)}, {last});
    }}"""
    return f"""\
    {each}
        UNROLL for (int k = 0; k < {blocks - bool(end)}; k++)
            store(y + {at}, {value});{end}
"""


def vector_step(buffer: Buffer, lanes: int) -> int:
    """From one vector of channels to the next, in a buffer of blocks or of channels last."""
    return buffer.plane if buffer.block == lanes else lanes
