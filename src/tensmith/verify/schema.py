"""What certificate.json holds, and reading one that may come from a stranger."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    ValidationError,
    model_validator,
)

from tensmith.errors import OutputError, VerificationError
from tensmith.report.metric import KINDS, Evidence, Metric
from tensmith.verify import checker

NAME = "certificate.json"
SCHEMA = 2
MAX_BYTES = 32 * 2**20

_Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_Key = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
_Text = Annotated[str, StringConstraints(max_length=4000)]
# Names of files beside the certificate: no folders, no way out of the folder.
FILE_NAME = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$"
_FileName = Annotated[str, StringConstraints(pattern=FILE_NAME)]


def _metric(fields: object) -> Metric:
    """A metric, as in front.json."""
    try:
        return Metric.from_json(cast(Mapping[str, Any], fields))
    except OutputError as error:
        raise ValueError(str(error)) from error


_Metric = Annotated[Metric, PlainValidator(_metric)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class OriginalFile(_Model):
    """The file the run started from. `relative` is seen from the certificate's folder."""

    name: _Text
    relative: _Text
    absolute: _Text
    sha256: _Hash
    digest: _Hash


class TrailStep(_Model):
    """A rewrite, as rewrite.Step writes it."""

    rule: _Text
    site: _Text
    params: dict[str, Any]
    kind: Literal["exact", "lossy"]


class RunCheck(_Model):
    """A run of steps start .. stop-1, the digest of the program after it, and what its check found.

    A run of exact steps has a field check, a run of folding a fold error.
    """

    sort: Literal["exact", "fold"]
    start: int = Field(ge=0)
    stop: int = Field(ge=1)
    digest: _Hash
    verdict: Literal["equal", "different", "unknown", ""] = ""
    primes: list[int] = Field(default=[], max_length=64)
    degree: int = Field(default=0, ge=0)
    error_probability: float = Field(default=1.0, ge=0, le=1)
    seed: int = Field(default=0, ge=0)
    sizes: dict[str, int] = {}
    cuts: int = Field(default=0, ge=0)
    reason: _Text = ""
    constants: int = 0
    ulps: float | None = None


class Proof(_Model):
    """A rule, and how it is known to be sound."""

    rule: _Text
    verdict: Literal["proved", "structural", "not proved"]
    obligations: int
    how: _Text


class ClaimRow(_Model):
    """One claim; rows have the shape of report.document.Claim."""

    claim: _Text
    evidence: Evidence
    detail: _Text
    assumptions: list[_Text]


class Judged(_Model):
    """How accuracy was measured: whoever has the data measures it again.

    fingerprint: of the data (data.fingerprint). The numbers of samples are those that the splits were drawn
    by; `judged` is how many of the held-out ones were used. preprocess: a name or MEAN/STD, head: of a
    detector, as --decode names it, "" for none.
    """

    name: _Text
    fingerprint: _Hash
    seed: int = Field(ge=0)
    calibration_samples: int = Field(ge=1)
    search_samples: int = Field(ge=1)
    held_out_samples: int | None = Field(ge=1)
    judged: int = Field(ge=1)
    measure: Literal["accuracy", "agreement", "loss", "average-precision", "fidelity"]
    preprocess: _Text
    head: _Text = ""


class Prepared(_Model):
    """A step on the way from model.onnx to compiled code, and how it is known to be right."""

    step: _Text
    evidence: Literal["proved", "checked", "tested"]


class Deployed(_Model):
    """What the point is meant to run in and on, at which sizes.

    prepared: None where it is not known, or where nothing was compiled.
    """

    engine: _Text
    target: _Text = "host"
    settings: dict[str, _Text] = {}
    threads: int = Field(default=1, ge=1)
    sizes: dict[str, int] = {}
    prepared: list[Prepared] | None = Field(default=None, max_length=10_000)


class MachineRecord(_Model):
    """What the numbers of a replay and the code of a compilation depend on, beside their inputs."""

    numpy: _Text
    cpu: _Text
    features: _Hash
    compiler: _Text
    timings: _Text
    code: _Hash


class Certificate(_Model):
    """`digest` is the SHA-256 of everything else, so that an edited certificate is noticed.

    statistics: key (statistics.key_of) -> hash, of all that lossy steps asked of calibration data.
    """

    schema_: Literal[2] = Field(alias="schema")
    tensmith: _Text
    machine: MachineRecord
    original: OriginalFile
    files: dict[_FileName, _Hash] = Field(min_length=1, max_length=100)
    trail: list[TrailStep] = Field(max_length=100_000)
    statistics: dict[_Key, _Hash] = Field(max_length=10_000)
    runs: list[RunCheck] = Field(max_length=10_000)
    rules: list[Proof] = Field(max_length=10_000)
    deployed: Deployed
    judged: Judged | None
    claims: list[ClaimRow] = Field(max_length=1000)
    metrics: dict[str, _Metric] = Field(max_length=100)
    digest: _Hash

    @model_validator(mode="after")
    def _kinds(self) -> Certificate:
        for name, figure in self.metrics.items():
            kind = KINDS.get(name)
            if kind is None or figure.unit not in kind.units or figure.evidence not in kind.words:
                raise ValueError(f"no metric is '{name}' in '{figure.unit}', {figure.evidence}")
        if "accuracy" not in self.metrics and any(step.kind == "lossy" for step in self.trail):
            raise ValueError("it has lossy steps, and says nothing of the accuracy that is left")
        return self


def seal(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with its digest."""
    body = {key: value for key, value in document.items() if key != "digest"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return {**body, "digest": hashlib.sha256(text.encode()).hexdigest()}


def read_certificate(path: Path) -> Certificate:
    """The certificate of a file. VerificationError where it is missing, too large, damaged or edited."""
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise VerificationError(f"{path} is no file; give the folder of a front point, as OUT/best")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise VerificationError(
            f"cannot read {path}: {error.strerror or error}; give the folder of a front point, as OUT/best"
        ) from error
    if len(data) > MAX_BYTES:
        raise VerificationError(f"{path} is over {MAX_BYTES >> 20} MB, which no certificate is; refused")
    try:
        document = json.loads(data, parse_constant=_no_constant)
        found = Certificate.model_validate(document)
        sealed = seal(document)  # a number may be infinite without being called so
    except (ValueError, RecursionError) as error:
        raise VerificationError(f"{path} is not a certificate of schema {SCHEMA}: {_first(error)}") from error
    if sealed["digest"] != found.digest:
        raise VerificationError(
            f"{path} was edited or damaged: its content does not have the digest it states"
        )
    if wrong := checker.form(document):
        raise VerificationError(f"{path}: {wrong[0]}")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _first(error: BaseException) -> str:
    """The first thing wrong, and where."""
    if isinstance(error, ValidationError):
        detail = error.errors()[0]
        return f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}"
    return str(error) or type(error).__name__
