"""The certificate of a front point: what was proved, checked, bounded and measured, and on what it rests."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tensmith import __version__
from tensmith.backend.onnx import to_onnx
from tensmith.engine.base import BASELINE_ENGINE
from tensmith.equality.programs import FieldCheck
from tensmith.errors import ProgramError
from tensmith.files import sha256_bytes, sha256_file, write_text
from tensmith.ir import Program
from tensmith.report.document import Metrics
from tensmith.report.metric import Metric
from tensmith.rewrite.judge import RuleProof
from tensmith.rewrite.rule import Step
from tensmith.verify.claims import claims
from tensmith.verify.machine import this_machine
from tensmith.verify.prove import prove_rules
from tensmith.verify.runs import Checker, FoldError, Stretch
from tensmith.verify.schema import (
    NAME,
    SCHEMA,
    Certificate,
    Deployed,
    Judged,
    Proof,
    RunCheck,
    TrailStep,
    seal,
)

_STOCK = Deployed(engine=BASELINE_ENGINE)


def make_certificate(
    checker: Checker,
    original: Path,
    trail: Sequence[Step],
    files: Mapping[str, Path],
    metrics: Metrics,
    folder: Path,
    *,
    statistics: Mapping[str, str] | None = None,
    deployed: Deployed = _STOCK,
    judged: Judged | None = None,
) -> dict[str, Any]:
    """The certificate of the files that a trail led to, as JSON.

    checker: of the program of the file `original`. files: name in `folder` -> where that file is now.
    metrics: as in front.json. statistics: the hashes of what lossy steps asked of the data.
    """
    runs = [run_check(stretch, check) for stretch, check in checker.check(trail)]
    rules = [rule_row(proof) for proof in prove_rules(trail)]
    steps = [TrailStep.model_validate(json.loads(json.dumps(step.to_json()))) for step in trail]
    figures = {name: Metric.from_json(metric) for name, metric in metrics.items()}
    relative = os.path.relpath(original.resolve(), folder.resolve())
    document = {
        "schema": SCHEMA,
        "tensmith": __version__,
        "machine": this_machine().model_dump(),
        "original": {
            "name": original.name,
            "relative": Path(relative).as_posix(),
            "absolute": str(original.resolve()),
            "sha256": sha256_file(original),
            "digest": checker.start.digest,
        },
        "files": {name: sha256_file(path) for name, path in sorted(files.items())},
        "trail": [step.model_dump() for step in steps],
        "statistics": dict(statistics or {}),
        "runs": [run.model_dump() for run in runs],
        "rules": [rule.model_dump() for rule in rules],
        "deployed": deployed.model_dump(),
        "judged": None if judged is None else judged.model_dump(),
        "claims": [row.model_dump() for row in claims(steps, runs, rules, figures, deployed, judged)],
        "metrics": {name: figure.to_json() for name, figure in figures.items()},
    }
    sealed = seal(json.loads(json.dumps(document, allow_nan=False)))
    Certificate.model_validate(sealed)
    return sealed


def write_certificate(certificate: Mapping[str, Any], folder: Path) -> Path:
    """Writes certificate.json into a folder, atomically."""
    path = folder / NAME
    write_text(path, json.dumps(certificate, indent=1, sort_keys=True) + "\n")
    return path


def run_check(stretch: Stretch, check: FieldCheck | FoldError) -> RunCheck:
    """A run with its check as the certificate holds it."""
    common = {"start": stretch.start, "stop": stretch.stop, "digest": stretch.after.digest}
    if isinstance(check, FoldError):
        ulps = None if check.ulps == float("inf") else check.ulps
        return RunCheck.model_validate(
            {
                **common,
                "sort": "fold",
                "constants": check.count,
                "ulps": ulps,
                "reason": check.constant[:1000],
            }
        )
    return RunCheck.model_validate(
        {
            **common,
            "sort": "exact",
            "verdict": check.verdict,
            "primes": list(check.primes),
            "degree": check.degree,
            "error_probability": check.error_probability,
            "seed": check.seed,
            "sizes": dict(check.sizes or {}),
            "cuts": check.cuts,
            "reason": check.reason[:1000],
        }
    )


def rule_row(proof: RuleProof) -> Proof:
    """A rule's proof as the certificate holds it."""
    return Proof(rule=proof.rule, verdict=proof.verdict, obligations=len(proof.claims), how=proof.how[:1000])


def written_hash(program: Program) -> str:
    """The SHA-256 of the file that a program is written as; "" where ONNX cannot say it in one file."""
    try:
        return sha256_bytes(to_onnx(program).SerializeToString(deterministic=True))
    except (ProgramError, ValueError):
        return ""
