"""A certificate against its source: the function is lifted again, and everything must be said the same.

Of the certificate only choices are taken, which change no claim: which of an obligation's scripts the solver
was asked, and with which of its lemmas. All else is made anew and compared letter for letter, so that nothing
of whoever wrote the certificate is trusted. That the scripts are those of their hashes and hold is for
`lift_certificate.check` to say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tensmith import __version__
from tensmith.files import sha256_bytes
from tensmith.lifting.conditions.certify import certified
from tensmith.lifting.loops import Function
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.road import lift_function, read_source, standard_steps
from tensmith.verify.lift_certificate import NAME, certificate_files, read_structure, window_row
from tensmith.verify.obligation import Lemma, Obligation, Verdict

Row = Mapping[str, Any]
_SHOWN = 3


def recheck(folder: Path, source: Path) -> list[str]:
    """Where a certificate says something else than its source gives, as sentences; none where it does not.

    Raises VerificationError for a folder without a certificate, TensmithError for a source that cannot be
    read.
    """
    document = read_structure(folder)
    name = document.get("function")
    found = [entry for entry in read_source(source) if _name(entry) == name]
    if len(found) != 1:
        many = "several functions" if found else "no function"
        return [f"{source} has {many} named {name}; give the source that {folder} was made from"]
    try:
        made = _again(found[0], document)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        return [f"{folder / NAME} is malformed ({type(error).__name__})"]
    if isinstance(made, str):
        return [f"{source}: {name} has no proof: {made}"]
    version = document.get("tensmith")
    other = "" if version == __version__ else f" (made by tensmith {version}; this is {__version__})"
    differing = list(_differences(document, made))
    left = f"; {len(differing) - _SHOWN} differences more" if len(differing) > _SHOWN else ""
    return [f"{folder}: {source} gives another {what}{other}{left}" for what in differing[:_SHOWN]]


def _name(entry: Function | Refusal) -> str:
    return entry.function if isinstance(entry, Refusal) else entry.name


# Making it again


def _again(entry: Function | Refusal, document: Row) -> dict[str, Any] | str:
    """The certificate's structure.json made again, or why there is none."""
    rows = iter(document["obligations"])

    def stated(obligations: Sequence[Obligation]) -> list[Verdict]:
        return [_stated(obligation, next(rows, {})) for obligation in obligations]

    if isinstance(entry, Function):
        entry = replace(entry, file=document["source"]["file"])  # a source may be renamed
    work = (result := lift_function(entry, (), steps=replace(standard_steps(), discharge=stated))).work
    if work.summary is None or work.lifted is None or not result.proved:
        return result.reason
    files = certificate_files(certified(work.summary, work.lifted), work.verdicts)
    made: dict[str, Any] = json.loads(files[NAME])
    return made


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
        if key in ("tensmith", "digest", "obligations") or stated.get(key) == made.get(key):
            continue
        yield f"'{key}'"
    ours, theirs = made["obligations"], stated["obligations"]
    if len(ours) != len(theirs):
        yield f"number of obligations: {len(ours)}, not {len(theirs)}"
    for mine, other in zip(ours, theirs):
        if _told(mine, made) != _told(other, stated):
            yield f"'{mine['name']}'"


def _told(row: Row, document: Row) -> Any:
    """A row with its facts themselves in place of their numbers."""
    facts = [document["facts"][number] for number in row.get("facts", [])]
    lemmas = [{**lemma, "proof": _told(lemma["proof"], document)} for lemma in row.get("lemmas", [])]
    return {**row, "facts": facts, "lemmas": lemmas}
