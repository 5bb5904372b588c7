"""`tensmith explain`: why a layer got its treatment, which rules fired, and which nearly did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from tensmith.cli.command import Answer, command
from tensmith.cli.options import OpenSizes
from tensmith.cli.terminal import table

# Of a point beside another: what it is where it takes less, and where it takes more.
_WORDS = {
    "packed_bytes": ("smaller", "larger"),
    "latency_ms": ("faster", "slower"),
    "peak_bytes": ("less memory", "more memory"),
    "energy_mj": ("less energy", "more energy"),
}
_SITES_SHOWN = 6
_REASONS_SHOWN = 12


@command(example="tensmith explain out --layer layer1.0.conv1")
def explain(
    subject: Annotated[
        Path, typer.Argument(metavar="OUT|MODEL", help="A run's folder, or an .onnx or .gguf file.")
    ],
    layer: Annotated[str | None, typer.Option(help="Only this layer, by its name in the table.")] = None,
    original: Annotated[
        Path | None, typer.Option(help="The run's original model, if it is not where it was.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The device that a model's times are estimated for. [default: host]")
    ] = None,
    sizes: OpenSizes = None,
) -> Answer:
    """Say why each layer got this treatment: what it weighs, what it costs, how sensitive it is; what each
    lossy method would save of it, by estimate, and should cost; which exact rules fired, and which nearly did
    and why not. Nothing is measured: what a run measured is shown beside."""
    from tensmith.cli.sizes import assumed, parse_sizes
    from tensmith.errors import UsageError
    from tensmith.explain import explain_model, explain_run

    if subject.is_dir():
        if target is not None:
            raise UsageError("--target is for a model; a run was made for its own, so leave it out")
        if sizes is not None:
            raise UsageError("--sizes is for a model; a run had its own, so leave it out")
        document = explain_run(subject, layer, original)
        return Answer(document, list(_run(document)))
    if original is not None:
        raise UsageError(f"--original is for the folder of a run, and {subject} is none; leave it out")
    given = parse_sizes(sizes)
    document = explain_model(subject, target or "host", layer, given)
    guessed = assumed([subject], 1, given)
    return Answer(document, [*_model(document), *(["", guessed] if guessed else [])])


def _run(document: dict[str, Any]) -> Iterator[Any]:
    yield f"{document['run']}: the chosen point is {document['chosen']}, on {document['engine']}"
    if document["others"]:
        yield "The other points of the front beside it"
    for row in document["others"]:
        taken = ", ".join(_compared(_WORDS[name], ratio) for name, ratio in row["times_less"].items())
        marks = f" ({', '.join(row['marks'])})" if row["marks"] else ""
        yield f"  {row['id']}{marks}: {_lost(row)}; {taken}"
    yield ""
    rows = (
        (row["name"], row["op"], row["shape"], f"{row['bytes_before']:,} -> {row['bytes_after']:,}",
         f"{_number(row['ms_before'])} -> {_number(row['ms_after'])}", _number(row["sensitivity"]),
         row["treatment"])
        for row in document["layers"]
    )  # fmt: skip
    yield table(("layer", "op", "weights", "bytes", "ms, estimated", "sensitivity", "treatment"), rows)
    yield ""
    yield from _outlooks(document)
    yield from _methods(document)
    yield "Lossy steps, their price measured"
    for step in document["lossy"]:
        yield f"  {step['rule']} at {step['site']}"
    if not document["lossy"]:
        yield "  none"
    yield from _rules(document)
    if document["rejected"]:
        yield "Tried and not taken"
        for row in document["rejected"][:_REASONS_SHOWN]:
            yield f"  {row['id']} {row['status']}: {row['reason']}"
        if len(document["rejected"]) > _REASONS_SHOWN:
            yield f"  and {len(document['rejected']) - _REASONS_SHOWN} more, all in --json"
    if document["note"]:
        yield f"Note: {document['note']}."


def _lost(row: dict[str, Any]) -> str:
    lost = f"{abs(row['loses_more']):.2f}"
    if float(lost) == 0:
        return "loses as much"
    return f"loses {lost} {row['unit']} {'more' if row['loses_more'] > 0 else 'less'}"


def _compared(words: tuple[str, str], times_less: float) -> str:
    """As 1.15x smaller, or 2.3x slower."""
    less, more = words
    return f"{times_less:.2f}x {less}" if times_less >= 1 else f"{1 / max(times_less, 1e-9):.2f}x {more}"


def _model(document: dict[str, Any]) -> Iterator[Any]:
    nodes = document["nodes"]
    yield f"{document['model']}: {nodes['read']} nodes, {nodes['simplified']} once simplified"
    yield ""
    rows = (
        (row["name"], row["op"], row["shape"], f"{row['bytes']:,}", _number(row["multiply_adds"]),
         _number(row["ms"]))
        for row in document["layers"]
    )  # fmt: skip
    yield table(("layer", "op", "weights", "bytes", "multiply-adds", "ms, estimated"), rows)
    if document["tables"]:
        names = ", ".join(f"{row['name']} ({row['op']})" for row in document["tables"])
        yield f"Other layers with weights: {names}"
    yield ""
    yield from _outlooks(document)
    yield from _rules(document)


def _outlooks(document: dict[str, Any]) -> Iterator[Any]:
    """What each method would make of each layer; nothing where the original is not at hand."""
    if not document["outlooks"]:
        return
    yield "What each method would save of a layer by itself, and should cost"
    yield table(
        ("layer", "method", "with", "bytes to ship, estimated", "ms, estimated", "nats a sample"),
        [
            (row["layer"], row["method"], row["words"], _change(row["bytes_before"], row["bytes_after"]),
             _change(row["ms_before"], row["ms_after"]), _cost(row))
            for row in document["outlooks"]
        ],
    )  # fmt: skip
    yield ""


def _methods(document: dict[str, Any]) -> Iterator[Any]:
    """What the run measured of each method alone."""
    if not document["methods"]:
        return
    yield "Methods alone, on the whole model, measured by this run"
    yield table(
        ("method", "candidate", "loses", "smaller", "faster"),
        [
            (row["method"], f"{row['candidate']} {row['status']}", f"{row['drop']:.2f} {row['unit']}",
             f"{row['times']:.2f}x", f"{row['speedup']:.2f}x")
            for row in document["methods"]
        ],
    )  # fmt: skip
    yield ""


def _change(before: float | None, after: float | None) -> str:
    """As 1,000 -> 250 (-75%); one figure where nothing changes."""
    if before is None or after is None:
        return "-"
    share = f"{after / before - 1:+.0%}" if before else "+0%"
    if share in ("+0%", "-0%"):
        return _number(before)
    return f"{_number(before)} -> {_number(after)} ({share})"


def _cost(row: dict[str, Any]) -> str:
    if row["divergence"] is None:
        return "-"
    return f"{_number(row['divergence'])}, {row['divergence_evidence']}"


def _rules(document: dict[str, Any]) -> Iterator[str]:
    yield "Exact rules that fired"
    for row in document["fired"]:
        some = [*row["sites"][:_SITES_SHOWN], *(["..."] if len(row["sites"]) > _SITES_SHOWN else [])]
        yield f"  {row['rule']}, {len(row['sites'])}x: {', '.join(some)}"
    if not document["fired"]:
        yield "  none"
    if document["near_misses"] is not None:
        yield "Rules that nearly fired"
        for row in document["near_misses"]:
            yield f"  {row['rule']} at {row['site']}: {row['reason']}"
        if not document["near_misses"]:
            yield "  none"
    if document["opaque"]:
        yield "Opaque operators, left as they are"
        for row in document["opaque"]:
            yield f"  {row['op']} at {row['site']}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
