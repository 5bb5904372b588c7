"""The trail of a certificate, walked again from the original: rules, exact runs, lossy steps, the file."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path

from tensmith import __version__
from tensmith.equality.programs import compare_programs, restated
from tensmith.errors import TensmithError, VerificationError
from tensmith.frontend.model_copy import copied_hashes
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program
from tensmith.rewrite.archives import trained_path
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.lossy.recover import trained_weights
from tensmith.rewrite.method import LOSSY, Method
from tensmith.rewrite.rule import EVERYWHERE, EXACT, Step
from tensmith.rewrite.trail import replay
from tensmith.verify.certificate import rule_row, run_check, written_hash
from tensmith.verify.claims import CHECKED
from tensmith.verify.files import MODEL
from tensmith.verify.finding import Finding
from tensmith.verify.machine import other_arithmetic
from tensmith.verify.prove import prove_rules
from tensmith.verify.runs import Stretch, exact_prefix, fold_error, stretches
from tensmith.verify.schema import NAME, Certificate, RunCheck
from tensmith.verify.statistics import FILE, Compared, KeptStatistics, read_statistics

_DEPLOYED = "model.onnx is what the trail leads to"


def trail_of(certificate: Certificate) -> list[Step]:
    """The trail as steps; VerificationError where a rewrite does not exist, or acts out of its turn."""
    stage = 0
    for number, step in enumerate(certificate.trail, 1):
        known = EXACT if step.kind == "exact" else LOSSY
        if step.rule not in known:
            raise VerificationError(
                f"{NAME}: step {number} of the trail is '{step.rule[:100]}', and there is no such "
                f"{step.kind} rewrite{version(certificate)}"
            )
        if step.kind == "lossy":
            if LOSSY[step.rule].stage < stage:
                raise VerificationError(
                    f"{NAME}: step {number} of the trail, {step.rule}, acts before what it follows"
                )
            stage = LOSSY[step.rule].stage
            if type(LOSSY[step.rule]).sites is Method.sites and step.site != EVERYWHERE:
                raise VerificationError(f"{NAME}: {step.rule} acts everywhere, not at '{step.site[:100]}'")
    return [Step(step.rule, step.site, step.params, step.kind) for step in certificate.trail]


def check_rules(certificate: Certificate) -> Iterator[Finding]:
    """The proof of every exact rule, made again; what the certificate says of it must be the same."""
    trail = trail_of(certificate)
    proofs = {proof.rule: proof for proof in prove_rules(trail)}
    if list(proofs) != [proof.rule for proof in certificate.rules]:
        raise VerificationError(f"{NAME} lists the proofs of other rules than its trail uses")
    for stated in certificate.rules:
        proof = proofs[stated.rule]
        claim = f"the rule {proof.rule} is sound"
        if proof.verdict == "not proved" or stated != rule_row(proof):
            detail = f"stated: {stated.verdict}, {stated.how}; found: {proof.verdict}, {proof.how}"
            yield Finding(claim, "does not hold", detail + version(certificate))
        else:
            detail = f"{len(proof.claims)} obligations proved again" if proof.claims else proof.how
            yield Finding(claim, "holds", detail)


def check_trail(
    folder: Path, certificate: Certificate, path: Path, seconds: float, calibration: Calibration | None
) -> Iterator[Finding]:
    """The trail from the original at `path` to the file; calibration: of the data, if it is at hand."""
    start = read_onnx(path)
    if start.digest != certificate.original.digest:
        raise VerificationError(
            f"{path} reads as another program than the certificate states{version(certificate)}"
        )
    trail = trail_of(certificate)
    try:
        found = list(stretches(start, trail))
    except TensmithError as error:
        raise VerificationError(
            f"{folder / NAME}: the trail does not replay from {path}: {error}{version(certificate)}"
        ) from error
    stated = [(run.sort, run.start, run.stop, run.digest) for run in certificate.runs]
    if stated != [(s.sort, s.start, s.stop, s.after.digest) for s in found]:
        raise VerificationError(
            f"{folder / NAME}: the trail leads to another program than the certificate states"
            f"{version(certificate)}"
        )
    prefix = exact_prefix(trail)
    yield Finding("the exact beginning of the trail replays from the original", "holds", f"{prefix} steps")
    exact = sum(s.sort == "exact" for s in found)
    for stretch, run in zip(found, certificate.runs):
        yield (
            _folded(stretch, run) if stretch.sort == "fold" else _equal(stretch, run, seconds / max(exact, 1))
        )
    after = found[-1].after if found else start
    if prefix == len(trail):
        yield (None if trail else _untouched(path, certificate)) or _written(certificate, after, "")
    else:
        yield from _lossy(folder, certificate, after, trail[prefix:], calibration)


# Exact runs


def _equal(stretch: Stretch, run: RunCheck, seconds: float) -> Finding:
    """A test with a fresh seed; and what is stated of the one that was made must follow from its seed."""
    claim = f"steps {stretch.start + 1} to {stretch.stop} do not change the outputs"
    check = compare_programs(stretch.before, stretch.after, seed=secrets.randbits(48), seconds=seconds)
    if check.verdict == "different":
        return Finding(claim, "does not hold", check.reason)
    if wrong := _misstated(stretch, run):
        return Finding(claim, "does not hold", wrong)
    if check.verdict == "unknown":
        return Finding(claim, "not checked", check.reason)
    if not check.primes:
        return Finding(claim, "holds", check.reason)
    bound = f"false pass at most {check.error_probability:.0e}"
    if check.error_probability > CHECKED:
        bound = f"no useful bound on a false pass: {check.reason or f'degree {check.degree}'}"
    return Finding(claim, "holds", f"modulo {len(check.primes)} fresh primes; {bound}")


def _misstated(stretch: Stretch, run: RunCheck) -> str:
    """What the certificate says of its own test and is not so; "" if nothing."""
    if run.verdict == "equal" and run.primes:
        check = restated(stretch.before, stretch.after, run.seed, len(run.primes), run.sizes, run.cuts)
    else:  # nothing was run, or could be
        check = compare_programs(stretch.before, stretch.after, seed=run.seed, seconds=0)
    if check is None:
        return "no test has the sizes and cuts that are stated of it"
    return _difference(run_check(stretch, check), run)


def _difference(made: RunCheck, stated: RunCheck) -> str:
    """The first field of a run that is not as it was computed again; "" if all are."""
    for name in RunCheck.model_fields:
        ours, theirs = getattr(made, name), getattr(stated, name)
        near = name == "error_probability" and abs(ours - theirs) <= 1e-6 * ours  # powers differ by libm
        if ours != theirs and not near:
            return f"the {name.replace('_', ' ')} is {str(ours)[:200]}, and not {str(theirs)[:200]} as stated"
    return ""


def _folded(stretch: Stretch, run: RunCheck) -> Finding:
    claim = f"step {stretch.stop} folds constants within {run.ulps} units in the last place"
    error = fold_error(stretch.before, stretch.after)
    made = run_check(stretch, error)
    if run.ulps is None or error.ulps > run.ulps + 1e-6:
        return Finding(claim, "does not hold", f"found {error.ulps:.3f} in '{error.constant}'")
    if wrong := _difference(made.model_copy(update={"ulps": run.ulps}), run):
        return Finding(claim, "does not hold", wrong)
    return Finding(claim, "holds", f"found {error.ulps:.3f} in {error.count} constants")


# Lossy steps


def _lossy(
    folder: Path, certificate: Certificate, start: Program, rest: Sequence[Step], data: Calibration | None
) -> Iterator[Finding]:
    """The rest of the trail, by statistics of the data, or by those that are kept."""
    trained = trained_weights(rest)
    if not all(trained_path(folder, weights).is_file() for weights in trained):
        why = "its weights were trained, which is not replayed, and they are not in the folder"
        yield Finding(_DEPLOYED, "not checked", why)
        return
    kept = read_statistics(folder / FILE) if FILE in certificate.files and (folder / FILE).is_file() else None
    if not certificate.statistics:
        kept = KeptStatistics({}, folder)
    compared = None
    if data is not None and certificate.statistics:
        compared = Compared(data, certificate.statistics, kept)
        after = _replayed(certificate, start, rest, compared)
        yield _of_data(compared)
    elif certificate.statistics:
        why = "give the data with --data"
        yield Finding("the calibration statistics are those of the data", "not checked", why)
    if kept is not None:
        compared = Compared(kept, certificate.statistics)
        after = _replayed(certificate, start, rest, compared)
        if compared.other or compared.met != set(certificate.statistics):
            detail = (compared.other or ["some that are stated"])[0] + " is not what was asked for"
            yield Finding("the statistics that are kept are those of the trail", "does not hold", detail)
            return
    if compared is None:
        yield Finding(_DEPLOYED, "not checked", f"{FILE} is not in the folder; give the data with --data")
    elif compared.other:
        yield Finding(_DEPLOYED, "not checked", f"{compared.other[0]} comes out otherwise on this machine")
    else:
        yield _written(certificate, after, other_arithmetic(certificate.machine))
    if trained:
        why = "the trail replays from the weights that training found; it is not trained again"
        yield Finding("training finds these weights", "not checked", why)


def _replayed(
    certificate: Certificate, start: Program, rest: Sequence[Step], calibration: Calibration
) -> Program:
    try:
        return replay(start, rest, calibration)
    except TensmithError as error:
        raise VerificationError(
            f"{NAME}: the lossy steps do not replay: {error}{version(certificate)}"
        ) from error


def _of_data(compared: Compared) -> Finding:
    claim = "the calibration statistics are those of the data"
    if not compared.other:
        return Finding(claim, "holds", f"{len(compared.met)} gathered again, bit by bit")
    if compared.far:
        return Finding(claim, "does not hold", f"{compared.far[0]} is another")
    if compared.kept is not None:
        return Finding(claim, "holds", f"{len(compared.met)} gathered again, but for rounding")
    return Finding(claim, "not checked", f"{compared.other[0]} comes out otherwise on this machine")


def _untouched(path: Path, certificate: Certificate) -> Finding | None:
    """That the file is the original at `path`, whose program is the one certified; None where it is not.

    Weights that lie beside the original were gathered in one file before it was measured.
    """
    same = copied_hashes(path, MODEL).items() <= certificate.files.items()
    return Finding(_DEPLOYED, "holds", "the original itself") if same else None


def _written(certificate: Certificate, program: Program, otherwise: str) -> Finding:
    """The file is the program as it is written. otherwise: why it may yet be another."""
    expected = certificate.files.get(MODEL)
    if expected is None:
        return Finding(_DEPLOYED, "does not hold", f"there is no {MODEL}")
    made = written_hash(program)
    if not made:
        return Finding(_DEPLOYED, "not checked", "the program does not fit into one file")
    if made == expected:
        return Finding(_DEPLOYED, "holds", "byte for byte")
    if otherwise:
        return Finding(_DEPLOYED, "not checked", f"it comes out otherwise here; {otherwise}")
    return Finding(_DEPLOYED, "does not hold", "the trail leads to another file")


def version(certificate: Certificate) -> str:
    """A hint where another version made the certificate."""
    if certificate.tensmith == __version__:
        return ""
    return f" (made by tensmith {certificate.tensmith[:40]}; this is {__version__})"
