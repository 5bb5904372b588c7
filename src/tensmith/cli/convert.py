"""`tensmith convert`: a model in another file format."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from tensmith.cli.command import Answer, command
from tensmith.cli.writing import Force, refuse_existing, refuse_source, write_unless_other


@command(example="tensmith convert out/best small.gguf --like model.gguf")
def convert(
    source: Annotated[
        Path, typer.Argument(metavar="SRC", help="A .gguf, .onnx or .packed file, or the folder of a point.")
    ],
    target: Annotated[Path, typer.Argument(metavar="DST", help="Where to write: a .gguf or an .onnx file.")],
    like: Annotated[
        Path | None,
        typer.Option(help="For a .gguf file: the one that SRC was made of. [default: SRC, if it is one]"),
    ] = None,
    force: Force = False,
) -> Answer:
    """Write a model as GGUF or as ONNX, without changing a number of it.

    A GGUF file is written like another one, whose metadata and tokenizer it gets: SRC must be that decoder in
    all but its weights, as compress leaves it where it changed weights alone. What did not change stays as it
    was stored; of the rest, codes that Q8_0 or Q4_0 holds exactly are stored so, other matrices as F16 or
    BF16 where that is exact, or as F32.
    """
    from tensmith.data.gguf import is_gguf
    from tensmith.deploy.as_gguf import as_gguf
    from tensmith.deploy.model import load
    from tensmith.errors import UsageError
    from tensmith.frontend.model_files import model_bytes, model_files

    if like is not None and target.suffix != ".gguf":
        raise UsageError("--like is for a .gguf DST; leave it out")
    refuse_source(target, source, *([like] if like else []))
    model = load(source)
    if target.suffix == ".onnx":
        refuse_existing(target, force)
        model.save(target)
        files, size = model_files(target), model_bytes(target)
        shown = f"{' and '.join(map(str, files))}: {size} bytes"
        return Answer({"path": str(target), "bytes": size}, [shown])
    if target.suffix != ".gguf":
        raise UsageError(f"DST ends in .gguf or .onnx, and '{target.name}' does not")
    if like is None and not is_gguf(model.path):
        raise UsageError("a .gguf file is written like another one: name that by --like FILE.gguf")
    content, kinds = as_gguf(model.program, like or model.path)
    digest = write_unless_other(target, content, force)
    counted = Counter(kinds.values())
    told = ", ".join(f"{number} in {kind}" for kind, number in counted.most_common())
    document = {"path": str(target), "bytes": len(content), "sha256": digest, "tensors": dict(kinds)}
    return Answer(
        document, [f"{target}: {len(content)} bytes, tensors {told}; every number is the model's own"]
    )
