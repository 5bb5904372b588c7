"""Cutting an image into register tiles, and filters into chunks: whole ones first, ragged ones at the end."""

from __future__ import annotations

from tensmith.kernel.buffer import Buffer, Halo
from tensmith.kernel.problem import ConvolutionProblem

# The height and width of a tile, or of an image.
Extent = tuple[int, int]


def output_extent(problem: ConvolutionProblem, flat: bool) -> Extent:
    """Height and width of y; one row if `flat`: where positions are independent and lie in one run."""
    height, width = problem.output
    return (1, height * width) if flat else (height, width)


def walked_extent(problem: ConvolutionProblem, *buffers: Buffer) -> Extent:
    """`output_extent` as far as all of these lie flat: what is read, what is added, what is written."""
    return output_extent(problem, problem.pointwise and all(buffer.flat for buffer in buffers))


def read_halo(problem: ConvolutionProblem) -> Halo:
    """The zeros around x that the windows of `problem` reach."""
    top, left, _, _ = problem.pads
    reach = [
        (problem.output[d] - 1) * problem.strides[d] + problem.dilations[d] * (problem.window[d] - 1) + 1
        for d in range(2)
    ]
    return Halo(top, left, max(0, reach[0] - problem.height - top), max(0, reach[1] - problem.width - left))


def read_buffer(problem: ConvolutionProblem, block: int, dtype: str = "f32") -> Buffer:
    """x in blocks of so many channels, with the pads that are read as a halo."""
    return Buffer(problem.channels, problem.height, problem.width, block, read_halo(problem), dtype)


def tile_extent(image: Extent, positions: int) -> Extent:
    """A tile of at most `positions`: part of a row, or whole rows."""
    height, width = image
    return min(height, max(1, positions // width)), min(width, positions)


def spans(length: int, step: int) -> list[tuple[int, int, int]]:
    """(from, to, step) of the whole steps in a length, and of what is left."""
    whole = length - length % step
    return [span for span in ((0, whole, step), (whole, length, length - whole)) if span[0] < span[1]]


def tiles(image: Extent, positions: int) -> list[tuple[Extent, int]]:
    """(tile, how many) over an image."""
    return extents(image, tile_extent(image, positions))


def extents(image: Extent, tile: Extent) -> list[tuple[Extent, int]]:
    """`tiles` for a tile of any extent."""
    return [
        ((rows, columns), down * across)
        for rows, down in chunks(image[0], tile[0])
        for columns, across in chunks(image[1], tile[1])
    ]


def chunks(count: int, most: int) -> list[tuple[int, int]]:
    """(size, how many) of the chunks of at most `most` that add up to `count`."""
    return [(step, (stop - start) // step) for start, stop, step in spans(count, most)]


def vector_chunks(elements: int, most: int, lanes: int, ragged: bool) -> list[tuple[int, int, int]]:
    """(vectors, how many such chunks, elements of the last vector) of chunks of at most `most` vectors.

    Where `elements` end in a part of a vector, `ragged` chunks say so; else that vector counts as whole.
    """
    found = [(size, times, lanes) for size, times in chunks(-(-elements // lanes), most)]
    if ragged and elements % lanes:
        size, times, _ = found.pop()
        found += [*([(size, times - 1, lanes)] if times > 1 else []), (size, 1, elements % lanes)]
    return found


def load_weights(positions: int, blocks: int, lanes: int, bytes_in_all: int) -> str:
    """C that loads a row of weight vectors into f; weights that no cache keeps are fetched well ahead."""
    load = f"UNROLL for (int k = 0; k < {blocks}; k++) f[k] = load(w + k * {lanes});"
    ahead = fetched_ahead(positions, lanes, bytes_in_all)
    fetch = f"\n            UNROLL for (int k = 0; k < {blocks}; k++) FETCH(w + k * {lanes} + {ahead});"
    return load + (fetch if ahead else "")


def fetched_ahead(positions: int, lanes: int, bytes_in_all: int) -> int:
    """How many weights ahead to fetch; 0 for weights that a cache keeps.

    A step takes about as many cycles as there are positions for each line of weights, memory takes _WAIT.
    """
    if bytes_in_all < _KEPT_BYTES:
        return 0
    return lanes * min(_MOST_AHEAD, max(_LEAST_AHEAD, _WAIT // positions))


# Cycles until a line arrives from memory; lines to ask for in advance; bytes that stay in a second cache.
_WAIT, _LEAST_AHEAD, _MOST_AHEAD = 1200, 16, 64
_KEPT_BYTES = 512 << 10


def over_tiles(image: Extent, positions: int, call: str, indent: int) -> str:
    """C loops over the tiles of an image: `call` with {rows}, {columns} filled in, at row i and column j."""
    return over_extents(image, tile_extent(image, positions), call, indent)


def over_extents(image: Extent, tile: Extent, call: str, indent: int) -> str:
    """`over_tiles` for a tile of any extent."""
    rows, columns = tile
    pad = " " * indent
    lines = []
    for top, bottom, tall in spans(image[0], rows):
        lines.append(f"{pad}for (int i = {top}; i < {bottom}; i += {tall}) {{")
        for left, right, wide in spans(image[1], columns):
            lines.append(f"{pad}    for (int j = {left}; j < {right}; j += {wide})")
            lines.append(f"{pad}        {call.format(rows=tall, columns=wide)}")
        lines.append(f"{pad}}}")
    return "\n".join(lines)
