"""`tensmith generate`: what a language model says."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Annotated

import typer

from tensmith.cli.command import INTERRUPTED, Answer, command


@command(example="tensmith generate stories.onnx --tokenizer tok512.bin --prompt 'Once upon a time'")
def generate(
    model: Annotated[
        Path, typer.Argument(help="The .onnx, .packed or .gguf file, or the folder of a point.")
    ],
    prompt: Annotated[str | None, typer.Option(help="The text to go on with.")] = None,
    tokens: Annotated[str | None, typer.Option(help="Its tokens instead, as 1,2,3.")] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="byte, a tokenizer.json, a file of llama2.c, or a .gguf file. [default: that in MODEL]"
        ),
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(help="How many tokens at most.")] = 64,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token.")] = 0.0,
    top_p: Annotated[float, typer.Option(help="Draw from the fewest tokens that hold this share.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Repeats what is drawn.")] = 0,
    stop: Annotated[
        str | None,
        typer.Option(help="Tokens that end the text, as 1,2,3, or none. [default: those of the tokenizer]"),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(help="Where it runs. [default: what a point was compiled to, else ONNX Runtime]"),
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads of the engine.")] = 1,
) -> Answer:
    """Let a language model go on with a text, and say how fast it is."""
    from tensmith.data.gguf import is_gguf
    from tensmith.data.gguf_tokens import tokenizer_of_gguf
    from tensmith.data.tokenizers import Speller, speller
    from tensmith.deploy.generation import Sampling
    from tensmith.deploy.model import load
    from tensmith.errors import DataError, MissingExtra, TensmithError, UsageError

    if (prompt is None) == (tokens is None):
        raise UsageError("give --prompt TEXT with its --tokenizer, or --tokens 1,2,3")
    if prompt is not None and any("\ud800" <= letter <= "\udfff" for letter in prompt):
        raise UsageError("--prompt is no UTF-8; give its tokens by --tokens")
    if prompt is not None and tokenizer is None and not is_gguf(model):
        raise UsageError("--prompt needs --tokenizer: byte, or the model's tokenizer.json or tok*.bin")
    words: Speller | None = None
    if tokenizer is not None:
        words = speller(tokenizer)
    elif is_gguf(model):
        with contextlib.nullcontext() if prompt is not None else contextlib.suppress(DataError, MissingExtra):
            words = tokenizer_of_gguf(model)
    start = _numbers(tokens, "--tokens") if prompt is None or words is None else words.start(prompt)
    ends = (
        words.ends
        if stop is None and words is not None
        else _numbers("" if stop == "none" else stop, "--stop")
    )
    loaded = load(model, engine, threads)
    steps = loaded.stream(start, max_new_tokens, Sampling(temperature, top_p, seed), ends)
    said: list[int] = []
    stopped, code = "", 0
    began = first = ended = time.perf_counter()
    try:
        for token in steps:
            ended = time.perf_counter()
            first = first if said else ended
            said.append(token)
    except (KeyboardInterrupt, TensmithError) as error:
        if not said:
            raise
        interrupted = isinstance(error, KeyboardInterrupt)
        stopped, code = ("interrupted", INTERRUPTED) if interrupted else (str(error), 1)
    rate = (len(said) - 1) / (ended - first) if len(said) > 1 else None
    text = words.decode([*start, *said]) if words is not None else None
    waited = first - began if said else None
    pace = "the text ends at once" if waited is None else f"first token after {waited:.3f} s"
    pace += f", then {rate:.1f} tokens/s" if rate else ""
    document = {
        "prompt_tokens": start, "tokens": said, "text": text, "first_token_seconds": waited,
        "tokens_per_second": rate, "stopped": stopped or None,
    }  # fmt: skip
    shown = [text or ",".join(map(str, said)), f"{len(said)} tokens: {pace}"]
    return Answer(document, [*shown, *([f"Stopped: {stopped}."] if stopped else [])], code)


# Of the largest token that any model could have.
_DIGITS = 20


def _numbers(words: str | None, option: str) -> list[int]:
    from tensmith.errors import UsageError

    parts = [part.strip() for part in (words or "").split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() and len(part) < _DIGITS for part in parts):
        raise UsageError(f"{option} takes numbers from 0, as 1,2,3, not '{words}'")
    return list(map(int, parts))
