"""Certificates of lifted functions are checked again by both solvers; damage and forgery are found out."""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lifting.conditions.by_hand import gemv, in_place, prefix_max, reversed_dot
from tensmith.errors import VerificationError
from tensmith.lifting.conditions import obligations
from tensmith.lifting.summary import Summary
from tensmith.verify import lift_checker
from tensmith.verify.lift_certificate import Certified, as_json, check, digest, write_lift_certificate
from tensmith.verify.solve import discharge

Document = dict[str, Any]


def write(folder: Path, summary: Summary) -> Path:
    about = Certified(
        summary.function.name,
        as_json(summary.function),
        {"summary": digest(summary), "program": "0" * 64},
        summary.arithmetic,
        tuple(requirement.text for requirement in summary.requires),
        ("floats as reals",),
        tuple(result.name for result in summary.results),
    )
    write_lift_certificate(folder, about, discharge(obligations(summary)))
    return folder


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of gemv's certificate."""
    folder = write(tmp_path_factory.mktemp("original") / "gemv.cert", gemv())
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path: Path, original: dict[str, bytes]) -> Path:
    for name, data in original.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


@pytest.mark.parametrize("solver", ["z3", "cvc5"])
@pytest.mark.parametrize("make", [gemv, prefix_max, reversed_dot, in_place], ids=lambda make: make.__name__)
def test_a_certificate_is_proved_again(make: Callable[[], Summary], solver: str, tmp_path: Path) -> None:
    report = check(write(tmp_path / "f.cert", make()), solver)
    assert report.problems == () and report.ok
    assert report.obligations == report.solved + report.structural
    assert report.assumes == ("floats as reals",) and report.requires


def test_writing_again_leaves_no_old_scripts(tmp_path: Path) -> None:
    write(tmp_path, gemv())
    many = set(tmp_path.glob("*.smt2"))
    write(tmp_path, prefix_max())
    assert set(tmp_path.glob("*.smt2")) < many
    assert check(tmp_path).ok


def test_what_is_not_proved_gets_no_certificate(tmp_path: Path) -> None:
    summary = gemv()
    verdicts = discharge(obligations(summary))
    about = Certified("f", {}, {}, "reals", (), (), ())
    with pytest.raises(VerificationError, match="is not proved"):
        write_lift_certificate(tmp_path, about, [])
    from dataclasses import replace

    with pytest.raises(VerificationError, match="is not proved"):
        write_lift_certificate(tmp_path, about, [*verdicts, replace(verdicts[0], status="unknown")])


def test_the_small_checker_stands_alone(folder: Path) -> None:
    path = Path(lift_checker.__file__)
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 500
    imported = {
        name.name.split(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import)
        for name in node.names
    } | {
        node.module.split(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.module
    }
    assert imported <= {
        "__future__",
        "collections",
        "dataclasses",
        "hashlib",
        "json",
        "pathlib",
        "re",
        "sys",
        "typing",
    }
    run = subprocess.run([sys.executable, "-I", str(path), str(folder)], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    next(folder.glob("*.smt2")).unlink()
    run = subprocess.run([sys.executable, "-I", str(path), str(folder)], capture_output=True, text=True)
    assert run.returncode == 1 and "is no plain file" in run.stderr


# Damage


def test_no_certificate_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match="is no file"):
        check(tmp_path)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_wild_structures_are_errors(folder: Path, content: bytes) -> None:
    (folder / lift_checker.NAME).write_bytes(content)
    with pytest.raises(VerificationError):
        check(folder)


def test_a_damaged_script_is_found(folder: Path) -> None:
    script = next(folder.glob("*.smt2"))
    script.write_text(script.read_text() + "\n")
    assert any("does not have the hash" in problem for problem in check(folder).problems)


def test_an_edited_structure_is_found(folder: Path) -> None:
    path = folder / lift_checker.NAME
    path.write_text(path.read_text().replace('"reals"', '"integers"'))
    assert any("edited or damaged" in problem for problem in check(folder).problems)


def test_a_stray_script_is_found(folder: Path) -> None:
    (folder / "999.smt2").write_text("(check-sat)")
    assert check(folder).problems == (f"{folder}: 999.smt2 belongs to no obligation",)


def test_a_link_is_not_followed(folder: Path) -> None:
    script = next(folder.glob("*.smt2"))
    moved = folder / "moved"
    script.rename(moved)
    script.symlink_to(moved)
    assert any("no plain file" in problem for problem in check(folder).problems)


# Forgery: every hash is right again, and still something is wrong


def forge(folder: Path, change: Callable[[Document], None]) -> list[str]:
    """Problems after a change, with the digest made anew."""
    path = folder / lift_checker.NAME
    document = json.loads(path.read_text())
    change(document)
    body = {key: item for key, item in document.items() if key != "digest"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    document["digest"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(document))
    return lift_checker.check(folder)


def without(**wanted: str) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        rows = document["obligations"]
        document["obligations"] = [r for r in rows if any(r[key] != item for key, item in wanted.items())]
        named = {row["file"] for row in document["obligations"] if "file" in row}
        assert len(document["obligations"]) < len(rows) and named

    return change


GONE = {
    "the model": (without(kind="satisfiable"), "whether the requirements can hold"),
    "an exit": (without(kind="exit", loop="j@2:1", subject="ends"), "that the loop j@2:1 ends"),
    "a way on": (without(kind="exit", loop="i@1:1", subject="goes on"), "that the loop i@1:1 goes on"),
    "an initiation": (without(kind="initiation", subject="y[]", loop="i@1:1"), "y[] in the loop i@1:1"),
    "a preservation": (without(kind="preservation", subject="j"), "j in the loop j@2:1"),
    "bounds": (without(kind="bounds", subject="A"), "the bounds of A"),
    "a frame": (without(kind="frame"), "the frame of y"),
    "a result": (without(kind="post"), "the result y"),
}


@pytest.mark.parametrize("name", GONE)
def test_what_is_left_out_is_missed(folder: Path, name: str) -> None:
    change, words = GONE[name]
    assert any(f"nothing proves {words}" in problem for problem in forge(folder, change))


def solved(document: Document) -> Document:
    """The row of a preservation that a solver proved, with the sums in its script."""
    return next(r for r in document["obligations"] if r["kind"] == "preservation" and r.get("recurrences"))


def rewrite(folder: Path, row: Document, line: str) -> None:
    """Another assertion in a row's script, with its hash made anew."""
    path = folder / row["file"]
    lines = path.read_text().split("\n")
    lines.insert(-3, line)
    path.write_text("\n".join(lines))
    row["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("(assert false)", "assumes what nothing states: false"),
        ("(assert (= (fold.0 0 0) 1.0))", "assumes what nothing states"),
        ("(assert (and (<= 0 (wrap.u8 300)) (<= (wrap.u8 300) 256)))", "assumes what nothing states"),
        ("(define-fun f () Int 3)", "does more than declare and assert"),
        ("(assert true) (assert false)", "does more than declare and assert"),
        ("(assert true ;", "does more than declare and assert"),
        ("(declare-fun fold.0 (Int) Int)", "declared otherwise than it is defined"),
    ],
)
def test_scripts_assume_nothing_of_their_own(folder: Path, line: str, words: str) -> None:
    def change(document: Document) -> None:
        rewrite(folder, solved(document), line)

    assert any(words in problem for problem in forge(folder, change))


def test_an_axiom_may_be_instantiated_anywhere(folder: Path) -> None:
    def change(document: Document) -> None:
        rewrite(folder, solved(document), "(assert (= (wrap.u8 (+ x0 1)) (mod (+ x0 1) 256)))")

    assert forge(folder, change) == []


FORGED: dict[str, tuple[Callable[[Document], Any], str]] = {
    "a circle of definitions": (
        lambda d: d["functions"][0].update(body="(fold.0 p0 k)"), "goes round in a circle",
    ),
    "a definition over nothing": (
        lambda d: d["functions"][0].update(body="(in.a p7)"), "has no parameter p7",
    ),
    "a kind of fold that is none": (lambda d: d["functions"][0].update(kind="median"), "is not defined"),
    "another body": (
        lambda d: d["functions"][0].update(body="(* (in.x k) 2.0)"), "assumes what nothing states",
    ),
    "a reason that is none": (lambda d: d["facts"][0].update(why="faith"), "is no reason to assume"),
    "a natural that is none": (
        lambda d: d["facts"].append({"text": "(>= in.n 0)", "why": "natural", "loop": ""}), "is no reason",
    ),
    "a counter of no loop": (
        lambda d: [f.update(loop="q@1:1") for f in d["facts"] if f["why"] == "counter"], "is of no loop",
    ),
    "form in place of a script": (
        lambda d: solved(d).pop("file"), "neither true by its form",
    ),
    "the answer sat": (
        lambda d: solved(d).update(expects="sat"), "wrong answer",
    ),
    "another goal": (
        lambda d: solved(d).update(goal="true"), "does not refute",
    ),
    "a script elsewhere": (
        lambda d: [r.update(file="../x.smt2") for r in d["obligations"] if "file" in r], "no plain number",
    ),
    "another function": (lambda d: d["source"].update(name="other"), "does not have the hash it states"),
    "a result more": (lambda d: d["results"].append("return"), "the results of the function"),
    "no rows": (lambda d: d.update(obligations="none"), "has no proper 'obligations'"),
    "rows of nothing": (lambda d: d.update(obligations=[3]), "malformed"),
    "another schema": (lambda d: d.update(schema=2), "schema 2 is not known"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_forgeries_are_found(folder: Path, name: str) -> None:
    change, words = FORGED[name]
    assert any(words in problem for problem in forge(folder, change)), name


def test_a_counter_is_in_range_only_inside_its_loop(folder: Path) -> None:
    def change(document: Document) -> None:
        number = next(n for n, fact in enumerate(document["facts"]) if fact["why"] == "counter")
        row = next(r for r in document["obligations"] if r["loop"] == "" and "file" in r)
        row["facts"].append(number)

    assert any("lies outside of it" in problem for problem in forge(folder, change))


def test_a_lemma_must_be_the_one_that_is_proved(tmp_path: Path) -> None:
    folder = write(tmp_path, reversed_dot())

    def lemma(document: Document) -> Document:
        (row,) = [r for r in document["obligations"] if r.get("lemmas")]
        return row["lemmas"][0]

    def other_goal(document: Document) -> None:
        lemma(document)["proof"]["goal"] = "true"

    assert any("not the one that is proved" in problem for problem in forge(folder, other_goal))
    write(tmp_path, reversed_dot())

    def forwards(document: Document) -> None:
        lemma(document)["window"]["reversed"] = False

    assert any("not the one that is proved" in problem for problem in forge(folder, forwards))


def test_a_script_that_proves_nothing_is_found_by_the_solver(folder: Path) -> None:
    """All that the structure demands is there, but the goal does not follow."""

    def change(document: Document) -> None:
        row = solved(document)
        path = folder / row["file"]
        text = path.read_text().replace(f"(assert (not {row['goal']}))", "(assert (not false))")
        path.write_text(text)
        row["goal"] = "false"
        row["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()

    assert forge(folder, change) == []
    for solver in ("z3", "cvc5"):
        (problem,) = check(folder, solver, 0.5).problems
        assert f"{solver} says sat" in problem or f"{solver} says unknown" in problem
