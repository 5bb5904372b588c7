"""`tensmith cache`: a decoder exported without caches of keys and values, with them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tensmith.cli.command import Answer, command
from tensmith.cli.writing import Force, place_of, refuse_existing, write_unless_other


@command(example="tensmith cache decoder.onnx")
def cache(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="The .onnx or .gguf file of a decoder.")],
    target: Annotated[
        Path | None,
        typer.Argument(metavar="[DST]", help="Where to write; SRC with .cached.onnx if left out."),
    ] = None,
    force: Force = False,
) -> Answer:
    """Give a decoder caches of keys and values, so that a token costs one row and not the whole text.

    Its inputs past_key_values.N and outputs present.N are those that generation loops feed. It is compared
    with the original on random texts, whole and in parts, and written only if the logits are the same. The
    answer says whether it is proved, for texts of every length, that no row depends on a later token.
    """
    from tensmith.deploy.caching import cached_decoder
    from tensmith.deploy.generation import TokenDecoder
    from tensmith.deploy.model import load
    from tensmith.errors import UsageError
    from tensmith.files import TemporaryFolder, sha256_file
    from tensmith.frontend.model_copy import copy_model
    from tensmith.frontend.model_files import model_files

    place = place_of(source, target, ".cached.onnx")
    if place.suffix != ".onnx":
        raise UsageError(f"what is written is an ONNX file; '{place.name}' must end in .onnx")
    model = load(source)
    with TemporaryFolder() as folder:
        made = Path(folder) / "cached.onnx"
        decoder = cached_decoder(model.program, TokenDecoder(model.session), made, "onnxruntime", 1)
        files = model_files(made)
        size = sum(file.stat().st_size for file in files)
        if len(files) > 1:
            refuse_existing(place, force)
            copy_model(made, place)
            digest = sha256_file(place)
        else:
            digest = write_unless_other(place, made.read_bytes(), force)
    apart, tokens = decoder.compared.apart, decoder.compared.tokens
    late = decoder.causality.late
    assumed = [] if late else sorted(decoder.causality.assumed)
    document = {
        "path": str(place), "bytes": size, "caches": len(decoder.caches), "apart": apart,
        "evidence": "tested", "tested_tokens": tokens, "sha256": digest,
        "causal": {"evidence": "tested" if late else "proved", "reason": late, "assumes": assumed},
    }  # fmt: skip
    told = (
        f"{place}: {len(decoder.caches)} caches; on random texts of up to {tokens} tokens logits are "
        f"{apart:.1e} of their range apart"
    )
    if late:
        told += f"; that no row depends on a later token is tested only ({late})"
    else:
        told += "; that no row depends on a later token is proved for every length"
    return Answer(document, [told, *(f"  assumes  {sentence}" for sentence in assumed)])
