"""A certificate against its source: the function is lifted again, and everything must be said the same.

Of the certificate only choices are taken, which change no claim: which of an obligation's scripts the solver
was asked, and with which of its lemmas. All else is made anew and compared letter for letter, so that nothing
of whoever wrote the certificate is trusted. That the scripts are those of their hashes and hold is for
`lift_certificate.check` to say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tensmith import __version__
from tensmith.files import sha256_bytes
from tensmith.lifting.conditions.certify import certified
from tensmith.lifting.loops import Function
from tensmith.lifting.pipeline import lift_function, name_of, read_source
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.second import SecondReader
from tensmith.lifting.second.checked import NOT_RUN, Checked
from tensmith.verify.lift_certificate import NAME, certificate_files, read_structure, window_row
from tensmith.verify.obligation import Lemma, Obligation, Verdict

Row = Mapping[str, Any]
_SHOWN = 3


@dataclass(frozen=True)
class Recheck:
    """problems: where a certificate says something else than its source gives, as sentences; checked: what
    running the source again gave."""

    problems: tuple[str, ...]
    checked: Checked = NOT_RUN


def recheck(folder: Path, source: Path, run: bool = True) -> Recheck:
    """Lifts a certificate's function again and compares; run: the source's function is run again as well.

    Raises VerificationError for a folder without a certificate, TensmithError for a source that cannot be
    read.
    """
    document = read_structure(folder)
    name = document.get("function")
    found = [entry for entry in read_source(source) if name_of(entry) == name]
    if len(found) != 1:
        many = "several functions" if found else "no function"
        return _wrong(f"{source} has {many} named {name}; give the source that {folder} was made from")
    reader = SecondReader(source, [entry for entry in found if isinstance(entry, Function)]) if run else None
    try:
        made, checked = _again(found[0], document, reader)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        return _wrong(f"{folder / NAME} is malformed ({type(error).__name__})")
    if isinstance(made, str):
        return _wrong(f"{source}: {name} has no proof: {made}")
    version = document.get("tensmith")
    other = "" if version == __version__ else f" (made by tensmith {version}; this is {__version__})"
    differing = [*_differences(document, made), *_miscounted(document.get("checked"), checked)]
    left = f"; {len(differing) - _SHOWN} differences more" if len(differing) > _SHOWN else ""
    found_wrong = [f"{folder}: {source} gives another {what}{other}{left}" for what in differing[:_SHOWN]]
    return Recheck(tuple(found_wrong), checked)


def _wrong(problem: str) -> Recheck:
    return Recheck((problem,))


# Making it again


def _again(
    entry: Function | Refusal, document: Row, reader: SecondReader | None
) -> tuple[dict[str, Any] | str, Checked]:
    """The certificate's structure.json made again, or why there is none, and what running it gave."""
    rows = iter(document["obligations"])

    def stated(obligations: Sequence[Obligation]) -> list[Verdict]:
        return [_stated(obligation, next(rows, {})) for obligation in obligations]

    if isinstance(entry, Function):
        entry = replace(entry, file=document["source"]["file"])  # a source may be renamed
    work = (result := lift_function(entry, (), reader=reader, settle=stated)).work
    if work.summary is None or work.lifted is None or not result.proved:
        return result.reason, work.checked
    files = certificate_files(certified(work.summary, work.lifted), work.verdicts)
    made: dict[str, Any] = json.loads(files[NAME])
    return made, work.checked


def _stated(obligation: Obligation, row: Row) -> Verdict:
    """An obligation as proved in the way that a row of the certificate states, if that is a way to prove it;
    else in some other, which will not be what the row says."""
    if obligation.script is None:
        return Verdict(obligation, "proved", "structure", "", 0.0)
    lemmas = tuple(_lemmas(obligation, row.get("lemmas", [])))
    equations = tuple(lemma.equation for lemma, _ in lemmas)
    ways = [
        ("free functions", obligation.script.text(exact=False)),
        ("exact definitions", obligation.script.text(exact=True)),
    ]
    if lemmas:
        ways = [("fold lemma", obligation.script.text(True, equations, steps)) for steps in (False, True)]
    said = (row.get("rung"), row.get("sha256"))
    chosen = next((way for way in ways if (way[0], sha256_bytes(way[1].encode())) == said), ways[0])
    return Verdict(obligation, "proved", chosen[0], "", 0.0, text=chosen[1], lemmas=lemmas)


def _lemmas(obligation: Obligation, stated: Sequence[Row]) -> Iterator[tuple[Lemma, Verdict]]:
    """Those of the obligation's lemmas that a row uses, in their own order."""
    for lemma in obligation.lemmas() if stated else ():
        for item in stated:
            if (item["equation"], item["window"]) == (lemma.equation, window_row(lemma.window)):
                yield lemma, _stated(lemma.obligation, item["proof"])
                break


# Comparing


def _differences(stated: Row, made: Row) -> Iterator[str]:
    """What a certificate should say otherwise, the obligations one by one."""
    for key in sorted(stated.keys() | made.keys()):
        if key in ("tensmith", "digest", "obligations", "checked") or stated.get(key) == made.get(key):
            continue
        yield f"'{key}'"
    ours, theirs = made["obligations"], stated["obligations"]
    if len(ours) != len(theirs):
        yield f"number of obligations: {len(ours)}, not {len(theirs)}"
    for mine, other in zip(ours, theirs):
        if _told(mine, made) != _told(other, stated):
            yield f"'{mine['name']}'"


def _miscounted(stated: Any, made: Checked) -> Iterator[str]:
    """What is said of running the source that cannot be, or that running it again does not give. By which C
    compiler it was, and why it was not done, are not said of this machine."""
    if not isinstance(stated, Mapping) or stated.keys() != made.to_json().keys():
        yield "'checked', which says on how many inputs"
        return
    inputs, by, why_not = (stated[key] for key in ("inputs", "by", "why_not"))
    done = type(inputs) is int and inputs > 0
    words = isinstance(by, str) and isinstance(why_not, str)
    if type(inputs) is not int or not words or (bool(by), bool(why_not)) != (done, not done):
        yield "'checked': by what the source ran, or why it did not"
    elif done and made.inputs:
        if inputs != made.inputs:
            yield f"number of inputs that the source was run on: {made.inputs}, not {inputs}"
        if by != made.by and "Python" in (by, made.by):
            yield f"language that the source runs in: {made.by}, not {by}"


def _told(row: Row, document: Row) -> Any:
    """A row with its facts themselves in place of their numbers."""
    facts = [document["facts"][number] for number in row.get("facts", [])]
    lemmas = [{**lemma, "proof": _told(lemma["proof"], document)} for lemma in row.get("lemmas", [])]
    return {**row, "facts": facts, "lemmas": lemmas}
