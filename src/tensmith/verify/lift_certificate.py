"""The certificate of a lifted function: a folder of SMT-LIB 2 scripts and structure.json, and its checking.

structure.json holds the function in the loop language, hashes of function, summary and program, what is
required and assumed, the definitions of prefix functions, and a row for each obligation: what it is about,
and how it was proved: by its form, or by the script of its file with the recurrence instances and lemmas
used. `lift_checker` reads the same folder without the rest of tensmith; `check` asks a solver again as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from tensmith import __version__
from tensmith.errors import OutputError, VerificationError
from tensmith.files import sha256_bytes, write_text
from tensmith.formula.types import MachineType
from tensmith.verify import lift_checker
from tensmith.verify.obligation import FoldWindow, Lemma, Verdict
from tensmith.verify.signature import SUFFIX
from tensmith.verify.solve import ask
from tensmith.verify.theory import Prefix

SCHEMA = 2
NAME = lift_checker.NAME


@dataclass(frozen=True)
class Certified:
    """What a certificate is about, in the order a reader wants it. tree: the function as JSON; checked: on
    how many inputs its source was run beside the program, by what, or why not (the word for it is tested)."""

    function: str
    tree: Any
    hashes: Mapping[str, str]
    arithmetic: str
    requires: tuple[str, ...]
    assumes: tuple[str, ...]
    results: tuple[str, ...]
    checked: Mapping[str, Any]


@dataclass(frozen=True)
class LiftReport:
    """What checking a certificate gave. problems: nothing is wrong if there are none; undecided: what the
    solver neither proved nor refuted."""

    folder: Path
    function: str
    solver: str
    obligations: int
    solved: int
    structural: int
    requires: tuple[str, ...]
    assumes: tuple[str, ...]
    problems: tuple[str, ...]
    undecided: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every obligation was proved again and the folder is complete."""
        return not self.problems and not self.undecided


def as_json(value: Any) -> Any:
    """A tree of dataclasses as JSON: objects with the class under "node"; machine types as
    what they say, numbers that JSON lacks as text."""
    if is_dataclass(value) and not isinstance(value, type):
        found = {field.name: as_json(getattr(value, field.name)) for field in fields(value)}
        return {"node": type(value).__name__, **found}
    if isinstance(value, MachineType):
        return {"node": "Scalar", "kind": value.kind, "bits": value.bits, "signed": value.signed}
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [as_json(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def digest(value: Any) -> str:
    """SHA-256 of a tree of dataclasses, by its JSON."""
    return sha256_bytes(_canonical(as_json(value)))


def _canonical(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


# Writing


def write_lift_certificate(folder: Path, about: Certified, verdicts: Sequence[Verdict]) -> list[Path]:
    """Writes the folder and removes scripts and signature of an older certificate in it. structure.json comes
    last and whole; it holds the hashes of the scripts. Raises as `certificate_files` does."""
    files = certificate_files(about, verdicts)
    structure = files.pop(NAME)
    paths = [folder / name for name in files]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in (NAME + SUFFIX, NAME):
            (folder / old).unlink(missing_ok=True)
        for path in set(folder.glob("*.smt2")) - set(paths):
            path.unlink()
        for path, text in zip(paths, files.values()):
            path.write_bytes(text.encode())
    except OSError as error:
        why = error.strerror or error
        raise OutputError(f"cannot write {folder}: {why}; choose another --output") from error
    write_text(folder / NAME, structure)
    return [*paths, folder / NAME]


def certificate_files(about: Certified, verdicts: Sequence[Verdict]) -> dict[str, str]:
    """The texts of a certificate by file name: the scripts in order, and structure.json.

    Raises VerificationError if a verdict is not "proved": there is nothing to certify then.
    """
    failed = [v.obligation.name for v in verdicts if v.status != "proved"]
    if failed or not verdicts:
        raise VerificationError(f"{about.function} is not proved: {(failed or ['no obligation'])[0]}")
    writing = _Writing({}, {}, {})
    rows = [writing.row(verdict) for verdict in verdicts]
    document = {
        "schema": SCHEMA,
        "tensmith": __version__,
        "function": about.function,
        "hashes": {**about.hashes, "function": sha256_bytes(_canonical(about.tree))},
        "arithmetic": about.arithmetic,
        "requires": list(about.requires),
        "assumes": list(about.assumes),
        "results": list(about.results),
        "checked": dict(about.checked),
        "source": about.tree,
        "functions": [as_json(prefix) for _, prefix in sorted(writing.functions.items())],
        "facts": [dict(zip(("text", "why", "loop", "of"), line)) for line in writing.facts],
        "obligations": rows,
    }
    document["digest"] = sha256_bytes(_canonical(document))
    return {**writing.files, NAME: json.dumps(document, indent=1, sort_keys=True) + "\n"}


@dataclass
class _Writing:
    """files: name -> text; functions: prefix functions by name; facts: their numbers; all used so far."""

    files: dict[str, str]
    functions: dict[str, Prefix]
    facts: dict[tuple[str, str, str, str], int]

    def row(self, verdict: Verdict) -> dict[str, Any]:
        """One obligation; lemmas come with their own rows inside it."""
        obligation, script = verdict.obligation, verdict.obligation.script
        row: dict[str, Any] = {
            "name": obligation.name,
            "kind": obligation.kind,
            "subject": obligation.subject,
            "loop": obligation.loop,
            "line": obligation.line,
            "column": obligation.column,
            "rung": verdict.rung,
        }
        if script is None:
            return {**row, "structural": obligation.structural}
        self.functions |= obligation.functions
        file = self._file(verdict.text)
        lines = [(fact.text, fact.why, fact.loop, fact.of) for fact in (*script.facts, *script.further)]
        return {
            **row,
            "file": file,
            "sha256": sha256_bytes(self.files[file].encode()),
            "expects": obligation.expects,
            "facts": sorted({self.facts.setdefault(line, len(self.facts)) for line in lines}),
            "path": list(script.path),
            "goal": script.goal,
            "lemmas": [self._lemma(lemma, proof) for lemma, proof in verdict.lemmas],
        }

    def _lemma(self, lemma: Lemma, proof: Verdict) -> dict[str, Any]:
        return {
            "equation": lemma.equation,
            "window": window_row(lemma.window),
            "proof": self.row(proof),
        }

    def _file(self, text: str) -> str:
        for name, known in self.files.items():
            if known == text:
                return name
        name = f"{len(self.files) + 1:03d}.smt2"
        self.files[name] = text
        return name


def window_row(window: FoldWindow) -> dict[str, Any]:
    """What a lemma says, as its row holds it."""
    return {key: value for key, value in as_json(window).items() if key != "node"}


# Checking


def read_structure(folder: Path) -> dict[str, Any]:
    """structure.json of a folder. Raises VerificationError where there is none that can be read."""
    try:
        return lift_checker.read(folder)
    except lift_checker.Wrong as wrong:
        raise VerificationError(f"{folder}: {wrong}") from wrong


def check(folder: Path, solver: str = "z3", timeout: float = 10.0) -> LiftReport:
    """Checks a certificate again: its structure by the small checker, every script by a solver.

    Raises VerificationError for a folder that holds no certificate, or a solver that is not there.
    """
    document = read_structure(folder)
    problems = lift_checker.check(folder)
    rows = list(lift_checker.rows(document)) if not problems else []
    solved, undecided = 0, []
    for (file, expects), names in _questions(rows).items():
        answer, why = ask((folder / file).read_text(encoding="utf-8"), solver, timeout)
        said = f"{folder / file} ({names[0]}): {solver} says {answer}, not {expects}"
        if answer == expects:
            solved += len(names)
        elif answer == "unknown":
            undecided.append(f"{said}: {why.splitlines()[0]}" if why else said)
        else:
            problems.append(said)
    return LiftReport(
        Path(folder),
        str(document.get("function", "")),
        solver,
        len(rows),
        solved,
        sum("file" not in row for row in rows),
        tuple(map(str, document.get("requires", []))),
        tuple(map(str, document.get("assumes", []))),
        tuple(problems),
        tuple(undecided),
    )


def _questions(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], list[str]]:
    """(file, answer wanted) -> names of obligations."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if "file" in row:
            found.setdefault((row["file"], row["expects"]), []).append(row["name"])
    return found
