"""Certificates forged by somebody who knows the format: every hash is right again, and still they lie."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tensmith.verify import lift_checker

Document = dict[str, Any]


def forge(folder: Path, change: Callable[[Document], Any]) -> list[str]:
    """What the small checker finds after a change, with the digest made anew."""
    path = folder / lift_checker.NAME
    document = json.loads(path.read_text())
    change(document)
    document["digest"] = sha({key: item for key, item in document.items() if key != "digest"})
    path.write_text(json.dumps(document))
    return lift_checker.check(folder)


def sha(value: Any) -> str:
    """Of JSON in its canonical form."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def solved(document: Document, kind: str = "preservation") -> Document:
    """The row of a kind that a solver proved, with conditions on its path, and sums in its script."""
    return next(r for r in document["obligations"] if r["kind"] == kind and r.get("path"))


def edit(folder: Path, document: Document, row: Document, change: Callable[[str], str]) -> None:
    """Another text for a row's script, with its hash made anew wherever it is stated."""
    path = folder / row["file"]
    path.write_text(change(path.read_text()))
    for other in lift_checker.rows(document):
        if other.get("file") == row["file"]:
            other["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()


def insert(line: str) -> Callable[[str], str]:
    """A line more before the goal of a script."""

    def change(text: str) -> str:
        lines = text.split("\n")
        return "\n".join([*lines[:-3], line, *lines[-3:]])

    return change


def assume(folder: Path, document: Document, fact: Document, kinds: Callable[[str], bool]) -> None:
    """A fact more in every script of some kinds; of a counter, of the first loop."""
    loop = next(f["loop"] for f in document["facts"] if f["loop"]) if fact["why"] == "counter" else ""
    document["facts"].append({"loop": loop, "of": "", **fact})
    done = set()
    for row in lift_checker.rows(document):
        if "file" in row and kinds(row["kind"]):
            row["facts"].append(len(document["facts"]) - 1)
            if row["file"] not in done:
                edit(folder, document, row, insert(f"(assert {fact['text']})"))
            done.add(row["file"])


def other_goal(goal: str, kind: str = "preservation") -> Callable[[Path, Document], None]:
    def change(folder: Path, document: Document) -> None:
        row = solved(document, kind)
        edit(folder, document, row, lambda text: text.replace(f"(not {row['goal']})", f"(not {goal})"))
        row["goal"] = goal

    return change


def path(*conditions: str) -> Callable[[Path, Document], None]:
    def change(folder: Path, document: Document) -> None:
        row = solved(document)
        for condition in conditions:
            edit(folder, document, row, insert(f"(assert {condition})"))
        row["path"] += conditions

    return change


def required(of: str, kinds: Callable[[str], bool]) -> Callable[[Path, Document], None]:
    """A contradiction as a requirement; of: which one it is said to be, "first" for one of the function's."""

    def change(folder: Path, document: Document) -> None:
        said = document["requires"][0] if of == "first" else of
        assume(folder, document, {"text": "(>= 0 1)", "why": "requirement", "of": said}, kinds)

    return change


def contradiction(why: str, **fact: str) -> Callable[[Path, Document], None]:
    def change(folder: Path, document: Document) -> None:
        assume(folder, document, {"why": why, **fact}, lambda kind: kind != "satisfiable")

    return change


def by_form(folder: Path, document: Document) -> None:
    """Rows with scripts are said to be true by their form."""
    for row in document["obligations"]:
        if row["kind"] in ("preservation", "post") and row.pop("file", None):
            row["structural"] = "both sides are the same after normalisation"
    named = {row["file"] for row in lift_checker.rows(document) if "file" in row}
    for script in folder.glob("*.smt2"):
        if script.name not in named:
            script.unlink()


def other_constant(folder: Path, document: Document) -> None:
    """The function itself is another one."""
    store = document["source"]["body"][1]["body"][0]
    store["value"]["value"] = "7.0"
    document["hashes"]["function"] = sha(document["source"])


def shared(folder: Path, document: Document) -> None:
    """A goal that does not follow has a model, which is asked of the same script as that of the requirements:
    whoever asks a script only once takes one answer for the other."""
    model, row = solved(document, "satisfiable"), solved(document, "frame")
    other_goal("(>= x0 7)", "frame")(folder, document)
    row["facts"] = model["facts"] = sorted({*row["facts"], *model["facts"]})
    script = (folder / row["file"]).read_text()
    for number in row["facts"]:
        line = f"(assert {document['facts'][number]['text']})"
        if line not in script.split("\n"):
            edit(folder, document, row, insert(line))
    lines = (folder / row["file"]).read_text().split("\n")
    row["path"] = model["path"] = [line[8:-1] for line in lines if line.startswith("(assert ")]
    model.update(file=row["file"], sha256=row["sha256"])


EVERY = str.islower  # all kinds
# A change, and what the small checker or the solver says of it; "" where only the source can tell.
FORGERIES: dict[str, tuple[Callable[[Path, Document], Any], str]] = {
    "a goal that says nothing": (other_goal("true"), "its goal says nothing"),
    "a goal about nothing": (other_goal("(>= 1 0)"), "its goal says nothing"),
    "a goal of one side": (other_goal("(and (= x0 x0) (>= x0 x0))"), "its goal says nothing"),
    "a goal that does not follow": (other_goal("(>= x0 7)"), "z3 says sat, not unsat"),
    "a path that is false": (path("false"), "its path speaks of nothing"),
    "a path of contradictions": (path("(>= x0 7)", "(>= 5 x0)"), ""),
    "a requirement that is not listed": (required("", EVERY), "is no reason to assume (>= 0 1)"),
    "a requirement without a model": (
        required("first", lambda kind: kind != "satisfiable"), "nobody asked for a model",
    ),
    "a requirement that cannot hold": (required("first", EVERY), "z3 says unsat, not sat"),
    "a wrong limit of a type": (
        contradiction("type", text="(>= (+ (- 5) in.m) 0)"), "'type' is no reason to assume",
    ),
    "a natural number that need not be one": (
        contradiction("natural", text="(>= in.m 0)"), "'natural' is no reason to assume",
    ),
    "a natural number above another": (
        contradiction("natural", text="(>= x0 7 0)"), "'natural' is no reason to assume",
    ),
    "a second definition of a size": (
        contradiction("size", text="(= (+ (* (- 1) size.m) in.n) 0)"), "'size' is no reason to assume",
    ),
    "a size that is none": (contradiction("size", text="(= in.m 1)"), "'size' is no reason to assume"),
    "a second range of a counter": (
        contradiction("counter", text="(>= (+ 3 (* (- 1) at.q)) 0)"), "'counter' is no reason to assume",
    ),
    "a definition more": (
        lambda folder, d: d["functions"].append({**d["functions"][0], "body": "1.0"}), "assumes what nothing",
    ),
    "a definition over any ?q": (
        lambda folder, d: d["functions"][0].update(body="(in.x ?q)"), "which is not defined before it",
    ),
    "one script for two questions": (shared, "z3 says sat, not unsat"),
    "nothing is required": (lambda folder, d: d.update(requires=[]), "is no reason to assume"),
    "nothing is assumed": (lambda folder, d: d.update(assumes=[]), "does not say that it assumes"),
    "another name": (lambda folder, d: d.update(function="other"), "names another function"),
    "another arithmetic": (lambda folder, d: d.update(arithmetic="integers"), "another arithmetic"),
    "no program": (
        lambda folder, d: [r.update(subject="z") for r in d["obligations"] if r["kind"] == "program"],
        "nothing proves the program of y",
    ),
    "no result": (
        lambda folder, d: d.update(results=[]), "nothing proves the results of the function",
    ),
    "true by its form": (by_form, ""),
    "hashes of nothing": (lambda folder, d: d["hashes"].update(summary="0" * 64, program="0" * 64), ""),
    "another constant": (other_constant, ""),
}  # fmt: skip
