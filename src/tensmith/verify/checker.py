"""A second opinion on a certificate folder: hashes and form only, by the standard library alone.

    python -m tensmith.verify.checker FOLDER

Small enough to be read in a few minutes, and importing nothing of tensmith, so that trusting it does not mean
trusting what made the certificate. It says nothing about the claims themselves, but that their evidence words
are possible: primes are primes, and no metric is proved.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import sys
from io import BufferedReader
from pathlib import Path
from typing import Any

MAX_BYTES = 32 * 2**20
_HASH = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_EVIDENCE = ("proved", "bounded", "checked", "tested", "measured", "estimated")
_METRIC_EVIDENCE = ("measured", "estimated")
_PARTS: dict[str, type | tuple[type, ...]] = {
    "schema": int, "tensmith": str, "machine": dict, "original": dict, "files": dict, "trail": list,
    "statistics": dict, "runs": list, "rules": list, "deployed": dict, "judged": (dict, type(None)),
    "claims": list, "metrics": dict, "digest": str,
}  # fmt: skip
# Beside the files that a certificate lists there are itself and a signature of it.
_BESIDE = {"certificate.json", "certificate.json.sig"}
# Tests are made modulo primes of this range. By these bases, strong pseudoprimes below 2**64 are primes
# (Sinclair 2011).
_LOWEST, _HIGHEST = 2**20, 2**21
_BASES = (2, 325, 9375, 28178, 450775, 9780504, 1795265022)


def check(folder: Path) -> list[str]:
    """What is wrong with a certificate folder, as sentences; nothing is if the list is empty."""
    path = folder / "certificate.json"
    try:
        with _plain(path) as file:
            data = file.read(MAX_BYTES + 1)
        document = json.loads(data[:MAX_BYTES])
    except (OSError, ValueError, RecursionError) as error:
        return [f"{path} cannot be read: {error}"]
    wrong = form(document)
    return [f"{path}: {problem}" for problem in wrong] if wrong else files(folder, document)


def form(document: Any) -> list[str]:
    """What is wrong with a certificate's own content."""
    if not isinstance(document, dict) or set(document) != set(_PARTS):
        return ["it does not have the parts of a certificate"]
    mistyped = [name for name, kind in _PARTS.items() if not isinstance(document[name], kind)]
    if mistyped:
        return [f"'{mistyped[0]}' has the wrong type"]
    if document["schema"] != 2:
        return [f"schema {document['schema']} is not known"]
    if _digest(document) != document["digest"]:
        return ["its content does not have the digest it states: it was edited or damaged"]
    return [*_original(document), *_names(document), *_trail(document), *_claims(document)]


def _digest(document: dict[str, Any]) -> str:
    body = {key: value for key, value in document.items() if key != "digest"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _original(document: dict[str, Any]) -> list[str]:
    hashes = [document["original"].get(key) for key in ("sha256", "digest")]
    return [] if all(map(_is_hash, hashes)) else ["the original has no SHA-256"]


def _names(document: dict[str, Any]) -> list[str]:
    wrong = [
        name for name, value in document["files"].items() if not _NAME.fullmatch(name) or not _is_hash(value)
    ]
    if wrong:
        return [f"the file entry {wrong[0]!r} is not a plain name with a SHA-256"]
    return [] if document["files"] else ["it names no file"]


def _trail(document: dict[str, Any]) -> list[str]:
    """Runs must cover the exact beginning of the trail, in order and without gaps."""
    kinds = [step.get("kind") if isinstance(step, dict) else None for step in document["trail"]]
    if not all(kind in ("exact", "lossy") for kind in kinds):
        return ["a step of the trail is neither exact nor lossy"]
    prefix = kinds.index("lossy") if "lossy" in kinds else len(kinds)
    position = 0
    for run in document["runs"]:
        if not isinstance(run, dict) or run.get("start") != position or not _is_hash(run.get("digest")):
            return [f"the run of steps after step {position} is missing"]
        if not isinstance(run.get("stop"), int) or run["stop"] <= position:
            return [f"the run of steps after step {position} has no end"]
        position = run["stop"]
        primes = run.get("primes")
        if not isinstance(primes, list) or len(set(map(str, primes))) < len(primes):
            return [f"the run that ends with step {position} has no distinct primes"]
        for prime in primes:
            if type(prime) is not int or not _LOWEST <= prime < _HIGHEST or not is_prime(prime):
                return [f"{str(prime)[:40]} is no prime of the range that tests are made with"]
    return [] if position == prefix else ["the runs do not cover the exact beginning of the trail"]


def is_prime(number: int) -> bool:
    """Whether an odd number below 2**64 is prime: Miller and Rabin's test, which for these bases is exact."""
    if number < 3 or number % 2 == 0:
        return False
    twos = ((number - 1) & (1 - number)).bit_length() - 1
    for base in (b % number for b in _BASES):
        power = pow(base, (number - 1) >> twos, number)
        if base and power != 1 and all(pow(power, 2**k, number) != number - 1 for k in range(twos)):
            return False
    return True


def _claims(document: dict[str, Any]) -> list[str]:
    for row in document["claims"]:
        if not isinstance(row, dict) or set(row) != {"claim", "evidence", "detail", "assumptions"}:
            return ["a claim is not one"]
        if row["evidence"] not in _EVIDENCE:
            return [f"the claim {row['claim']!r} has no evidence word"]
        if row["evidence"] == "proved" and any(
            not isinstance(rule, dict) or rule.get("verdict") == "not proved" for rule in document["rules"]
        ):
            return [f"the claim {row['claim']!r} rests on a rule that is not proved"]
    for name, metric in document["metrics"].items():
        if not isinstance(metric, dict) or metric.get("evidence") not in _METRIC_EVIDENCE:
            return [f"the metric {name!r} is neither measured nor estimated"]
    if not document["claims"]:
        return ["it claims nothing"]
    return []


def files(folder: Path, document: dict[str, Any]) -> list[str]:
    """Files of the certificate that are missing or have other content, and files that it does not list."""
    strangers = {path.name for path in folder.iterdir()} - set(document["files"]) - _BESIDE
    wrong = [f"{folder / name} is not in the certificate" for name in sorted(strangers)]
    for name, expected in document["files"].items():
        try:
            with _plain(folder / name) as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            wrong.append(f"{folder / name} cannot be read: {error.strerror}")
            continue
        if found != expected:
            wrong.append(f"{folder / name} is not the file that was certified: its SHA-256 differs")
    return wrong


def _plain(path: Path) -> BufferedReader:
    """A file, opened; raises OSError for what is there and none, as a pipe would be waited for."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a file")
    return path.open("rb")


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


def main(arguments: list[str]) -> int:
    """0 if nothing is wrong, 1 if something is, 2 for a wrong call."""
    if len(arguments) != 1:
        print("usage: python -m tensmith.verify.checker FOLDER", file=sys.stderr)
        return 2
    wrong = check(Path(arguments[0]))
    print("\n".join(map(_line, wrong)) or "hashes and form are right")
    return 1 if wrong else 0


def _line(text: str) -> str:
    """One line to show: a stranger's names may hold what moves or colours a terminal's."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
