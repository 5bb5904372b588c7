"""The files of a point against its certificate: all are listed, all are what they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tensmith import gate
from tensmith.backend.packed import unpack
from tensmith.engine.base import ENGINES, compiler, compilers
from tensmith.errors import ModelError, VerificationError
from tensmith.files import sha256_bytes, sha256_file
from tensmith.frontend.model_files import model_files
from tensmith.rewrite.archives import trained_path
from tensmith.rewrite.lossy.recover import trained_weights
from tensmith.verify.finding import Finding
from tensmith.verify.schema import NAME, Certificate, read_certificate
from tensmith.verify.signature import SUFFIX
from tensmith.verify.statistics import FILE as STATISTICS

MODEL, PACKED = "model.onnx", "model.packed"
# The plan that led to a point, for a next run to start from; nothing is claimed of it but its bytes.
PLAN_FILE = "plan.yaml"
_BESIDE = frozenset({NAME, NAME + SUFFIX})


def require_certified(folder: Path) -> None:
    """VerificationError unless all that could be used of a folder is as its certificate states."""
    listed = read_certificate(folder / NAME).files
    usable = {MODEL, PACKED, *listed}.union(*(by.files for by in compilers().values()))
    for name in sorted(usable & {path.name for path in folder.iterdir()}):
        if name not in listed:
            raise _stranger(folder / name)
        _check_hash(folder / name, listed[name])


def check_files(folder: Path, certificate: Certificate) -> Iterator[Finding]:
    """Every file in the folder is listed and has the hash stated, and every file listed has its place."""
    present = {path.name for path in folder.iterdir()} - _BESIDE
    if strangers := sorted(present - certificate.files.keys()):
        raise _stranger(folder / strangers[0])
    if not present:
        raise VerificationError(f"{folder} holds none of the files of its certificate; give the whole folder")
    for name, expected in certificate.files.items():
        claim = f"{name} is the file that was certified"
        if name not in present:
            yield Finding(claim, "not checked", "the file is not in the folder")
            continue
        _check_hash(folder / name, expected)
        yield Finding(claim, "holds", "SHA-256")
    idle = sorted(certificate.files.keys() - _with_a_role(folder, certificate))
    if idle and certificate.deployed.engine in ENGINES:
        raise VerificationError(f"{folder / NAME} lists {idle[0]}, which is no part of such a point")
    if PACKED in present and MODEL in certificate.files:
        yield _unpacked(folder / PACKED, certificate.files[MODEL])


def _stranger(path: Path) -> VerificationError:
    return VerificationError(
        f"{path} is not in the certificate: it is of another run, or was put there since; remove it"
    )


def _check_hash(path: Path, expected: str) -> None:
    if not path.is_file() or sha256_file(path) != expected:
        raise VerificationError(f"{path} is not the file that was certified: it has another SHA-256")


def _with_a_role(folder: Path, certificate: Certificate) -> set[str]:
    """The files that a point may consist of."""
    by = compiler(certificate.deployed.engine)
    found = {MODEL, PACKED, PLAN_FILE, *(by.files if by else ())}
    if certificate.statistics:
        found.add(STATISTICS)
    found.update(trained_path(folder, weights).name for weights in trained_weights(certificate.trail))
    with suppress(ModelError):
        found.update(path.name for path in model_files(folder / MODEL))
    return found


def _unpacked(path: Path, expected: str) -> Finding:
    claim = f"{PACKED} unpacks to {MODEL}, byte for byte"
    try:
        model = unpack(gate.read_bytes(path, gate.PACKED))
    except ModelError as error:
        raise VerificationError(f"{path}: the claim '{claim}' does not hold: {error}") from error
    if sha256_bytes(model) != expected:
        raise VerificationError(f"{path}: the claim '{claim}' does not hold: it unpacks to another model")
    return Finding(claim, "holds")
