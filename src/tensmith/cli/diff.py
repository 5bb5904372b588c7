"""`tensmith diff`: do two model files compute the same, and where do they first differ."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensmith.cli.command import Answer, command

if TYPE_CHECKING:
    import numpy as np

    from tensmith.equality.apart import Apart
    from tensmith.verify.difference import ModelDifference

# What engines and exporters round otherwise, of the largest number of an output.
_ROUNDING = 1e-5


@command(example="tensmith diff exported_before.onnx exported_after.onnx")
def diff(
    first: Annotated[Path, typer.Argument(metavar="A.onnx", help="A model, .onnx or .gguf.")],
    second: Annotated[Path, typer.Argument(metavar="B.onnx", help="Another one.")],
    save_inputs: Annotated[
        Path | None, typer.Option(metavar="FILE.npz", help="Keep the inputs on which they differ, by name.")
    ] = None,
    tolerance: Annotated[
        float, typer.Option(help="Outputs so far apart, of the largest number, count as rounding.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Of random inputs and primes.")] = 0,
    seconds: Annotated[float, typer.Option(help="Time for the test over prime fields.")] = 60.0,
) -> Answer:
    """Tell whether two models compute the same: proved by exact rules, or equal over prime fields with a
    bound on the error where one is known, for whatever batch; or how far their outputs are apart and the
    first value that differs. Exit code 0 if they are equal, 1 if they are not or nobody knows."""
    from tensmith.errors import OutputError, UsageError
    from tensmith.files import write_bytes
    from tensmith.frontend.model import read_model
    from tensmith.verify.difference import compare_models

    if seed < 0:
        raise UsageError(f"--seed is a whole number from 0, not {seed}")
    if not 0 <= tolerance < math.inf or not 0 < seconds < math.inf:
        raise UsageError("--tolerance is a number from 0, --seconds one above it")
    if save_inputs is not None and save_inputs.exists():
        raise OutputError(f"{save_inputs} is there already; name another file")
    found = compare_models(read_model(first), read_model(second), seed=seed, seconds=seconds)
    lines = list(_lines(found, tolerance))
    if save_inputs is not None and found.inputs is not None:
        write_bytes(save_inputs, _archive(found.inputs))
        lines.append(f"The inputs lie in {save_inputs}.")
    return Answer(_document(found, tolerance), lines, 0 if _equal(found, tolerance) else 1)


def _archive(inputs: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """An .npz file; np.savez has names of its own that an input may have too."""
    import numpy as np

    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in inputs.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    return stream.getvalue()


def _equal(found: ModelDifference, tolerance: float) -> bool:
    """Whether the models are equal, or near enough for whoever asks."""
    if found.outputs is None or found.verdict == "equal":
        return found.verdict == "equal"
    return tolerance > 0 and all(apart.share <= tolerance for apart in found.outputs.values())


def _lines(found: ModelDifference, tolerance: float) -> Iterator[str]:
    if found.evidence == "proved":
        yield f"Equal: proved, by {found.rules} steps of exact rules, for all inputs and sizes."
        yield from (f"  assumed: {sentence}" for sentence in found.assumed)
        return
    if found.evidence == "checked":
        chance = "no bound on the error is known"
        if found.error_probability < 1:
            chance = f"wrong with a probability of at most {found.error_probability:.1e}"
        yield f"Equal: checked over random prime fields, {chance}."
        yield from (f"  assumed: {sentence}" for sentence in found.assumed)
        return
    verdicts = {"different": "Different", "unknown": "Unknown"}
    where = f" at {', '.join(f'{k}={v}' for k, v in found.sizes.items())}" if found.sizes else ""
    said = f" ({found.reason})" if found.reason else ""
    yield f"{verdicts[found.verdict]}{said}. Measured by ONNX Runtime on inputs of seed {found.seed}{where}:"
    for name, apart in (found.outputs or {}).items():
        yield f"  output {name}: {_words(apart)}"
    if found.first is not None:
        name, op, best = found.first
        near = f"; the nearest is {_words(best)}" if best is not None else ""
        yield f"  first value that the second model does not compute: {name} ({op or 'input'}){near}"
    if tolerance and _equal(found, tolerance):
        yield f"That is within --tolerance {tolerance:g}."
    elif not tolerance and found.verdict == "different" and _equal(found, _ROUNDING):
        yield f"Rounding may be all of it; --tolerance {_ROUNDING:g} takes it for that."


def _words(apart: Apart) -> str:
    if not apart.most:
        return "the same numbers"
    if apart.most == float("inf"):
        return "of another shape, or no number where the other is one"
    return f"at most {apart.most:.2g} apart, {apart.share:.1e} of the largest number"


def _document(found: ModelDifference, tolerance: float) -> dict[str, Any]:
    outputs = {name: {"most": a.most, "largest": a.largest} for name, a in (found.outputs or {}).items()}
    first = found.first and {"value": found.first[0], "op": found.first[1]}
    return {
        "verdict": found.verdict,
        "evidence": found.evidence,
        "error_probability": found.error_probability if found.evidence == "checked" else None,
        "rules": found.rules,
        "reason": found.reason,
        "assumed": list(found.assumed),
        "outputs": outputs,
        "first": first,
        "sizes": dict(found.sizes or {}),
        "seed": found.seed,
        "within_tolerance": _equal(found, tolerance),
    }
