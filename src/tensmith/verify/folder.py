"""`tensmith verify FOLDER`: a certificate's claims made again from the files alone."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from tensmith import gate
from tensmith.backend.onnx import write_onnx
from tensmith.data.gguf import is_gguf
from tensmith.engine.base import ENGINES
from tensmith.errors import VerificationError
from tensmith.files import sha256_file
from tensmith.frontend.model import read_weights_open
from tensmith.rewrite.calibration import Calibration
from tensmith.verify.claims import claims
from tensmith.verify.files import check_files
from tensmith.verify.finding import Finding, VerifyResult
from tensmith.verify.library import check_library
from tensmith.verify.replay import check_rules, check_trail, version
from tensmith.verify.schema import NAME, Certificate, read_certificate


class Again(Protocol):
    """What is measured again, by whoever has the data: the business of higher floors."""

    def calibration(self, certificate: Certificate, original: Path) -> Calibration | None:
        """Statistics of the data, which go in as the original at that path takes them; None without data.
        VerificationError if it is not the data stated."""

    def figures(self, certificate: Certificate, original: Path | None) -> Iterator[Finding]:
        """A finding for every metric."""


def verify_folder(
    folder: Path,
    original: Path | None = None,
    *,
    seconds: float = 30.0,
    again: Again | None = None,
    run_library: bool = False,
    on_finding: Callable[[Finding], None] | None = None,
) -> VerifyResult:
    """Checks the files of a front point against their certificate, with a fresh seed.

    original: the file the run started from, from the caller's hand: one that is found where the certificate
    says is the certificate's word. Of a .gguf file the run's .onnx file is made again. seconds: for all field
    checks together. run_library: runs a library that is not known to be what its model compiles to. Raises
    VerificationError where a file or the certificate was tampered with or damaged: a wrong hash, an edited
    trail, a claim that its figures do not give.
    """
    found: list[Finding] = []
    with tempfile.TemporaryDirectory(prefix="tensmith-") as work:
        for finding in _findings(Path(folder), original, Path(work), seconds, again, run_library):
            found.append(finding)
            if on_finding is not None:
                on_finding(finding)
    return VerifyResult(Path(folder), tuple(found))


def _findings(
    folder: Path, original: Path | None, work: Path, seconds: float, again: Again | None, run_library: bool
) -> Iterator[Finding]:
    certificate = read_certificate(folder / NAME)
    yield from _check_words(folder, certificate)
    yield from check_files(folder, certificate)
    path, why = _locate(folder, certificate, original, work)  # a wrong one is told before anything is proved
    yield from check_rules(certificate)
    if path is None:
        yield Finding("the trail replays from the original", "not checked", why)
    else:
        yield _whose(certificate, path, original)
        calibration = None if again is None else again.calibration(certificate, path)
        yield from check_trail(folder, certificate, path, seconds, calibration)
    yield from check_library(folder, certificate, run_library)
    if again is not None:
        yield from again.figures(certificate, path)
    else:
        for name in certificate.metrics:
            yield Finding(f"the metric {name}", "not checked", "nothing was measured again")


def _check_words(folder: Path, certificate: Certificate) -> Iterator[Finding]:
    """The certificate claims what follows from its own content: all of it, in order, and no more, unless an
    engine that is not here has more to say."""
    made = claims(
        certificate.trail,
        certificate.runs,
        certificate.rules,
        certificate.metrics,
        certificate.deployed,
        certificate.judged,
    )
    stated, engine = certificate.claims, certificate.deployed.engine
    if engine not in ENGINES:
        stated = [row for row in stated if row in made]
        claim = f"what is said of the engine '{engine[:100]}', and of its files"
        yield Finding(claim, "not checked", "there is no such engine here")
    for row in stated:
        if row not in made:
            raise VerificationError(
                f"{folder / NAME}: the claim '{row.claim[:200]}' does not follow from its own figures"
                f"{version(certificate)}"
            )
    if stated != made:
        missing = next((row.claim for row in made if row not in stated), "its order")
        raise VerificationError(
            f"{folder / NAME} does not list all that follows from its own content: {missing[:200]}"
            f"{version(certificate)}"
        )


# The original


def _locate(
    folder: Path, certificate: Certificate, given: Path | None, work: Path
) -> tuple[Path | None, str]:
    """The original file, or why it is not at hand. What a run measures of a .gguf file is made in `work`."""
    stated = certificate.original
    if given is not None:
        gate.check(given, gate.ORIGINAL)
        path = given
        if is_gguf(given):
            path = work / "model.onnx"
            write_onnx(read_weights_open(given), path)
        if _hash(path) != stated.sha256:
            raise VerificationError(f"{given} is not the original of {folder / NAME}: its SHA-256 differs")
        return path, ""
    for path in (folder / stated.relative, Path(stated.absolute)):
        try:
            if path.is_file() and _hash(path) == stated.sha256:
                return path, ""
        except (OSError, ValueError):
            continue
    return None, f"{stated.name} was not found; give it with --original"


def _whose(certificate: Certificate, path: Path, given: Path | None) -> Finding:
    claim = f"the original is {certificate.original.name}"
    if given is not None:
        return Finding(claim, "holds", f"SHA-256 of {given}" + (", as ONNX" if path != given else ""))
    why = f"{path} is where the certificate says: its word, not yours; give yours with --original"
    return Finding(claim, "not checked", why)


def _hash(path: Path) -> str:
    """ "" of what is too large for an .onnx file, and of what says no size: it may have no end."""
    return sha256_file(path) if 0 < path.stat().st_size <= gate.MODEL_BYTES else ""
