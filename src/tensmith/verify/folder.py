"""`tensmith verify FOLDER`: a certificate's claims made again from the files alone."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tensmith import __version__, gate
from tensmith.backend.packed import unpack
from tensmith.equality.programs import compare_programs
from tensmith.errors import ModelError, TensmithError, VerificationError
from tensmith.files import sha256_bytes, sha256_file
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program
from tensmith.rewrite.rule import Step
from tensmith.verify.certificate import written_hash
from tensmith.verify.claims import CHECKED, claims
from tensmith.verify.proofs import prove_rules
from tensmith.verify.runs import Stretch, fold_error, stretches
from tensmith.verify.schema import NAME, Certificate, RunCheck, read_certificate

Outcome = Literal["holds", "does not hold", "not checked"]

MODEL, PACKED = "model.onnx", "model.packed"
_MAX_ORIGINAL = 16 << 30


@dataclass(frozen=True)
class Finding:
    """One claim of a certificate, and what checking it again gave."""

    claim: str
    outcome: Outcome
    detail: str = ""


@dataclass(frozen=True)
class VerifyResult:
    """Findings in the order they were made. A claim that was not checked is not a false one."""

    folder: Path
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was found false."""
        return all(finding.outcome != "does not hold" for finding in self.findings)

    @property
    def complete(self) -> bool:
        """Whether every claim was checked and holds."""
        return all(finding.outcome == "holds" for finding in self.findings)


def verify_folder(
    folder: Path,
    original: Path | None = None,
    *,
    seconds: float = 30.0,
    on_finding: Callable[[Finding], None] | None = None,
) -> VerifyResult:
    """Checks the files of a front point against their certificate, with a fresh seed.

    original: the file the run started from, if it is not where the certificate says. seconds: for all field
    checks together. Raises VerificationError where a file or the certificate was tampered with or damaged: a
    wrong hash, an edited trail, a claim in words that its figures do not give.
    """
    found: list[Finding] = []
    for finding in _findings(Path(folder), original, seconds):
        found.append(finding)
        if on_finding is not None:
            on_finding(finding)
    return VerifyResult(Path(folder), tuple(found))


def _findings(folder: Path, original: Path | None, seconds: float) -> Iterator[Finding]:
    certificate = read_certificate(folder / NAME)
    _check_words(folder, certificate)
    yield from _files(folder, certificate)
    yield from _rules(certificate)
    path, why = _locate(folder, certificate, original)
    if path is None:
        yield Finding("the trail replays from the original", "not checked", why)
    else:
        yield Finding(f"the original is {certificate.original.name}", "holds", f"SHA-256 of {path}")
        yield from _replayed(folder, certificate, path, seconds)
    for row in certificate.claims:
        if row.evidence == "measured":
            yield Finding(row.claim, "not checked", "measured where the file was made; needs the data")


def _check_words(folder: Path, certificate: Certificate) -> None:
    made = claims(certificate.trail, certificate.runs, certificate.rules, certificate.metrics)
    for row in certificate.claims:
        if row not in made:
            raise VerificationError(
                f"{folder / NAME}: the claim '{row.claim[:200]}' does not follow from its own figures"
            )


# Files


def _files(folder: Path, certificate: Certificate) -> Iterator[Finding]:
    present = {name: folder / name for name in certificate.files if (folder / name).is_file()}
    if not present:
        raise VerificationError(f"{folder} holds none of the files of its certificate; give the whole folder")
    for name, expected in certificate.files.items():
        claim = f"{name} is the file that was certified"
        if name not in present:
            yield Finding(claim, "not checked", "the file is not in the folder")
            continue
        if sha256_file(present[name]) != expected:
            raise VerificationError(f"{present[name]} does not have the SHA-256 of the claim '{claim}'")
        yield Finding(claim, "holds", "SHA-256")
    for name in (MODEL, PACKED):
        if (folder / name).is_file() and name not in certificate.files:
            raise VerificationError(f"{folder / name} is not in the certificate; it belongs to another run")
    if PACKED in present and MODEL in certificate.files:
        yield _unpacked(present[PACKED], certificate.files[MODEL])


def _unpacked(path: Path, expected: str) -> Finding:
    claim = f"{PACKED} unpacks to {MODEL}, byte for byte"
    try:
        model = unpack(gate.read_bytes(path, gate.PACKED))
    except ModelError as error:
        raise VerificationError(f"{path}: the claim '{claim}' does not hold: {error}") from error
    if sha256_bytes(model) != expected:
        raise VerificationError(f"{path}: the claim '{claim}' does not hold: it unpacks to another model")
    return Finding(claim, "holds")


def _locate(folder: Path, certificate: Certificate, given: Path | None) -> tuple[Path | None, str]:
    """The original file, or why it is not at hand."""
    stated = certificate.original
    if given is not None:
        gate.check(given, gate.ORIGINAL)
        if _hash(given) != stated.sha256:
            raise VerificationError(f"{given} is not the original of {folder / NAME}: its SHA-256 differs")
        return given, ""
    for path in (folder / stated.relative, Path(stated.absolute)):
        try:
            if path.is_file() and _hash(path) == stated.sha256:
                return path, ""
        except (OSError, ValueError):
            continue
    return None, f"{stated.name} was not found; give it with --original"


def _hash(path: Path) -> str:
    return sha256_file(path) if path.stat().st_size <= _MAX_ORIGINAL else ""


# Rules, trail, runs


def _rules(certificate: Certificate) -> Iterator[Finding]:
    trail = _trail(certificate)
    names = {step.rule for step in trail if step.kind == "exact"}
    stated = {proof.rule: proof for proof in certificate.rules}
    if names != set(stated):
        raise VerificationError(f"{NAME} lists the proofs of other rules than its trail uses")
    try:
        proofs = prove_rules(trail)
    except TensmithError as error:
        raise VerificationError(
            f"{NAME}: the trail cannot be read: {error}{_version(certificate)}"
        ) from error
    for proof in proofs:
        claim = f"the rule {proof.rule} is sound"
        if proof.verdict == "not proved" or stated[proof.rule].verdict != proof.verdict:
            detail = f"stated: {stated[proof.rule].verdict}; found: {proof.verdict}: {proof.how}"
            yield Finding(claim, "does not hold", detail)
        else:
            detail = f"{proof.obligations} obligations proved again" if proof.obligations else proof.how
            yield Finding(claim, "holds", detail)


def _replayed(folder: Path, certificate: Certificate, path: Path, seconds: float) -> Iterator[Finding]:
    start = read_onnx(path)
    if start.digest != certificate.original.digest:
        raise VerificationError(
            f"{path} reads as another program than the certificate states{_version(certificate)}"
        )
    trail = _trail(certificate)
    try:
        found = list(stretches(start, trail))
    except TensmithError as error:
        raise VerificationError(
            f"{folder / NAME}: the trail does not replay from {path}: {error}{_version(certificate)}"
        ) from error
    stated = [(run.sort, run.start, run.stop, run.digest) for run in certificate.runs]
    if stated != [(s.sort, s.start, s.stop, s.after.digest) for s in found]:
        raise VerificationError(
            f"{folder / NAME}: the trail leads to another program than the certificate states"
            f"{_version(certificate)}"
        )
    yield Finding(
        "the trail replays from the original", "holds", f"{sum(s.stop - s.start for s in found)} steps"
    )
    exact = sum(s.sort == "exact" for s in found)
    for stretch, run in zip(found, certificate.runs):
        yield _folded(stretch, run) if stretch.sort == "fold" else _equal(stretch, seconds / max(exact, 1))
    if all(step.kind == "exact" for step in trail):
        yield _written(certificate, found[-1].after if found else start)


def _equal(stretch: Stretch, seconds: float) -> Finding:
    claim = f"steps {stretch.start + 1} to {stretch.stop} do not change the outputs"
    check = compare_programs(stretch.before, stretch.after, seed=secrets.randbits(48), seconds=seconds)
    if check.verdict == "different":
        return Finding(claim, "does not hold", check.reason)
    if check.verdict == "unknown":
        return Finding(claim, "not checked", check.reason)
    if not check.primes:
        return Finding(claim, "holds", check.reason)
    bound = f"false pass at most {check.error_probability:.0e}"
    if check.error_probability > CHECKED:
        bound = f"no useful bound on a false pass: {check.reason or f'degree {check.degree}'}"
    return Finding(claim, "holds", f"modulo {len(check.primes)} fresh primes; {bound}")


def _folded(stretch: Stretch, run: RunCheck) -> Finding:
    claim = f"step {stretch.stop} folds constants within {run.ulps} units in the last place"
    error = fold_error(stretch.before, stretch.after)
    holds = run.ulps is not None and error.ulps <= run.ulps + 1e-6
    return Finding(
        claim, "holds" if holds else "does not hold", f"found {error.ulps:.3f} in {error.count} constants"
    )


def _written(certificate: Certificate, program: Program) -> Finding:
    """Without lossy steps the deployed file is the replayed program as it is written, or the original."""
    claim = f"{MODEL} is what the trail leads to"
    expected = certificate.files.get(MODEL)
    if expected is None:
        return Finding(claim, "not checked", f"there is no {MODEL}")
    if not certificate.trail and expected == certificate.original.sha256:
        return Finding(claim, "holds", "the original file itself")
    made = written_hash(program)
    if not made:
        return Finding(claim, "not checked", "the program does not fit into one file")
    return Finding(claim, "holds" if made == expected else "does not hold", "byte for byte")


def _trail(certificate: Certificate) -> list[Step]:
    return [Step(step.rule, step.site, step.params, step.kind) for step in certificate.trail]


def _version(certificate: Certificate) -> str:
    """A hint where another version made the certificate."""
    if certificate.tensmith == __version__:
        return ""
    return f" (made by tensmith {certificate.tensmith[:40]}; this is {__version__})"
