"""Compiled code against its model: compiled again, compared byte for byte, and only then run.

To run a library is to run whatever its author put there. So a stranger's is run if it is, to the byte, what
this machine's own compiler makes of the model, or if the user asks for it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tensmith import gate
from tensmith.backend.native.choose.precision import PRECISIONS
from tensmith.engine.base import BASELINE_ENGINE, ENGINES, compiler
from tensmith.engine.compiled import CompileOptions, compile_anew, compiling
from tensmith.engine.worker import SessionWorker
from tensmith.equality.apart import farthest
from tensmith.equality.sampling import normal_inputs
from tensmith.errors import TensmithError, VerificationError
from tensmith.files import TemporaryFolder, sha256_file
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program, interpret
from tensmith.verify.finding import Finding
from tensmith.verify.machine import other_toolchain
from tensmith.verify.schema import NAME, Certificate, Deployed, Prepared

MANIFEST = "model.json"
_MOST_MANIFEST_BYTES = 1 << 24
_SAMPLES = 16
# Of the largest output: sums in another order, functions of other libraries; or a few steps of eight bits.
_ROUNDING, _QUANTIZED = 2e-3, 0.1
_REBUILT = "is what model.onnx compiles to"
_PREPARED = "the steps that prepare model.onnx are what the certificate says"


def prepared_in(folder: Path) -> list[Prepared] | None:
    """What a compiled folder says of the steps that prepared its model; None where it says nothing."""
    path = folder / MANIFEST
    if not path.is_file() or path.stat().st_size > _MOST_MANIFEST_BYTES:
        return None
    try:
        rows = json.loads(gate.read_bytes(path, gate.COMPILED))["prepared"]
        return [Prepared(step=row["step"], evidence=row["evidence"]) for row in rows]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None


def check_library(folder: Path, certificate: Certificate, run: bool) -> Iterator[Finding]:
    """Findings about what was compiled. run: the library is run though it is not what this machine makes."""
    deployed = certificate.deployed
    if deployed.engine not in ENGINES:  # of which nothing is known
        return
    by = compiler(deployed.engine)
    if by is None:
        if deployed.prepared is not None or deployed.sizes:
            raise VerificationError(f"{NAME} says how code was compiled, but {deployed.engine} compiles none")
        return
    library = by.library
    if (folder / MANIFEST).is_file() and deployed.prepared != prepared_in(folder):
        raise VerificationError(f"{NAME} does not say of the model's preparation what {MANIFEST} says")
    found = list(_compared(folder, certificate))
    yield from found
    claim = f"{library} computes what model.onnx does, but for rounding"
    if run or all(finding.outcome == "holds" for finding in found):
        yield _ran(folder, deployed, claim)
    else:
        why = "it was not run: it is not known to be what the model compiles to; --run-library runs it"
        yield Finding(claim, "not checked", why)


def _compared(folder: Path, certificate: Certificate) -> Iterator[Finding]:
    """One finding a file of the folder, or one for all where the model cannot be compiled here."""
    deployed = certificate.deployed
    names = compiling(deployed.engine).files
    with TemporaryFolder() as place:
        made = Path(place) / "made"
        try:
            options = CompileOptions.of(deployed.engine, deployed.settings, deployed.threads)
            compile_anew(folder / "model.onnx", made, deployed.sizes, options)
        except TensmithError as error:
            for name in names:
                yield Finding(f"{name} {_REBUILT}", "not checked", str(error)[:300])
            return
        otherwise = other_toolchain(certificate.machine)
        if deployed.prepared != prepared_in(made):
            yield Finding(
                _PREPARED,
                "not checked" if otherwise else "does not hold",
                otherwise or "here they are others, or known otherwise",
            )
        for name in names:
            yield _same(name, folder / name, made / name, otherwise)


def _same(name: str, given: Path, made: Path, otherwise: str) -> Finding:
    claim = f"{name} {_REBUILT}"
    if not given.is_file():
        return Finding(claim, "not checked", "the file is not in the folder")
    if made.stat().st_size == given.stat().st_size and sha256_file(made) == sha256_file(given):
        return Finding(claim, "holds", "compiled again, byte for byte")
    if otherwise:
        return Finding(claim, "not checked", f"it comes out otherwise here; {otherwise}")
    return Finding(claim, "does not hold", "this machine's compiler makes another file of the model")


# Running it


def _ran(folder: Path, deployed: Deployed, claim: str) -> Finding:
    """The library against ONNX Runtime on random inputs, each in a process of its own.

    Where they differ and the model has codes, the interpreter decides: ONNX Runtime may round where the model
    does not.
    """
    try:
        program = read_onnx(folder / "model.onnx")
        tolerance = _tolerance(program, deployed.settings)
        with (
            SessionWorker(BASELINE_ENGINE, folder / "model.onnx", sizes=deployed.sizes) as reference,
            SessionWorker(deployed.engine, folder, deployed.threads) as worker,
        ):
            worst, off, answers = 0.0, 0.0, set()
            for number in range(_SAMPLES):
                inputs, expected = _asked(program, deployed.sizes, number, reference)
                answers.add(b"".join(array.tobytes() for array in expected.values()))
                found = worker.run(inputs)
                apart = farthest(expected, found)
                if apart > tolerance == _QUANTIZED and (meant := _meant(program, inputs)) is not None:
                    off, apart = max(off, apart), farthest(meant, found)
                worst = max(worst, apart)
    except TensmithError as error:
        return Finding(claim, "not checked", str(error)[:300])
    if len(answers) < 2:
        return Finding(claim, "not checked", "the model answers all random inputs alike")
    holds = worst <= tolerance
    detail = f"{_SAMPLES} random inputs; at most {worst:.1e} of the largest output apart"
    if off:
        detail += f", by the interpreter where ONNX Runtime's answers are {off:.1e} apart"
    return Finding(claim, "holds" if holds else "does not hold", detail)


def _tolerance(program: Program, settings: Mapping[str, str]) -> float:
    """Codes of eight bits and fewer, and layers in fewer bits than floats have, are allowed far more."""
    codes = any(a.dtype.itemsize == 1 and a.dtype.kind != "b" for a in program.constants.values())
    narrow = settings.get("precision", PRECISIONS[0]) != PRECISIONS[0]
    return _QUANTIZED if codes or narrow else _ROUNDING


def _asked(
    program: Program, sizes: Mapping[str, int], number: int, reference: SessionWorker
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Random inputs and ONNX Runtime's answers: every other time of integers over all their range, where it
    answers these with finite numbers."""
    if number % 2:
        with contextlib.suppress(TensmithError):
            inputs = normal_inputs(program, sizes, number, wide=True)
            answers = reference.run(inputs)
            if all(np.isfinite(array).all() for array in answers.values()):
                return inputs, answers
    inputs = normal_inputs(program, sizes, number)
    return inputs, reference.run(inputs)


def _meant(program: Program, inputs: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What a program answers by its ops' own meaning; None where that cannot be computed here."""
    try:
        return interpret(program, inputs)
    except (TensmithError, MemoryError):
        return None
