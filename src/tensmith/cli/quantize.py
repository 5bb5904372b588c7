"""`tensmith quantize`: a model with weights of few bits, made without data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tensmith.cli.command import Answer, command
from tensmith.cli.progress import progress
from tensmith.cli.writing import Force, refuse_existing, refuse_source

if TYPE_CHECKING:
    from tensmith.quantization import Quantization


@command(example="tensmith quantize decoder.onnx small.onnx")
def quantize(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="The .onnx or .gguf file.")],
    target: Annotated[
        Path, typer.Argument(metavar="DST", help="The .onnx file to write; large weights go to DST.data.")
    ],
    bits: Annotated[int, typer.Option(help="4 for matrix products and 8 for the rest, or 8 for all.")] = 4,
    block: Annotated[
        int | None, typer.Option(help="Weights of 4 bits that share a scale. [default: 32]")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="LAYER", help="Leave it as it is: a name or a pattern; may be repeated."),
    ] = None,
    force: Force = False,
) -> Answer:
    """Round the weights of a model to few bits, without data: what it loses is not known afterwards.

    Tensor by tensor from file to file, so that a model may be larger than memory; nothing is run. How far
    weights moved is measured, what that costs is not: `tensmith diff SRC DST` says how far outputs are apart,
    and `tensmith compress` judges by your data.
    """
    from tensmith.errors import UsageError
    from tensmith.quantization import quantize as run
    from tensmith.rewrite.lossy.block_int4 import BLOCK

    if block is not None and bits == 8:
        raise UsageError("--block is for weights of 4 bits; leave it out, or choose --bits 4")
    refuse_source(target, source)
    refuse_existing(target, force)
    together = BLOCK if block is None else block
    with progress("reading the model") as tell:
        found = run(source, target, bits=bits, block=together, keep=keep or (), progress=tell)
    return Answer(found.to_json(), list(_shown(found)))


def _shown(found: Quantization) -> Iterator[str]:
    from tensmith.report.quantity import byte_text

    share = found.weight_bytes / found.original_bytes
    yield (
        f"{found.path}: weights of {byte_text(found.weight_bytes)}, {share:.0%} of "
        f"{byte_text(found.original_bytes)}"
    )
    for bits, block in dict.fromkeys((tensor.bits, tensor.block) for tensor in found.tensors):
        alike = [tensor for tensor in found.tensors if (tensor.bits, tensor.block) == (bits, block)]
        sharing = f"{block} weights" if block else "an output channel"
        worst = max(alike, key=lambda tensor: tensor.error)
        yield (
            f"{len(alike)} tensors in {bits} bits, a scale for {sharing}: moved by at most {worst.error:.2%} "
            f"of their size ({worst.weight}), measured"
        )
    if found.kept:
        yield f"kept: {', '.join(found.kept)}"
    yield "This is lossy, and nobody judged it: no data was given, and the model was not run."
