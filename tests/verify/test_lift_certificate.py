"""Certificates of lifted functions are checked again by both solvers; damage and forgery are found out."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from forgery import FORGERIES, Document, edit, forge, insert, other_goal, solved
from forgery_points import FORGED_NAMES

from lifting.conditions.by_hand import blend, gemv, in_place, reversed_dot, zeros_and_quotient
from tensmith.cli.verify import verify
from tensmith.errors import VerificationError
from tensmith.lifting.conditions import certify, obligations, program_obligations
from tensmith.lifting.summary import Summary
from tensmith.lifting.tensorize import tensorize
from tensmith.verify import lift_certificate, lift_checker
from tensmith.verify.lift_certificate import Certified, check, write_lift_certificate
from tensmith.verify.solve import discharge

ASSUMES = (
    "floats as reals: rounding and the order of additions may differ",
    "signed arithmetic of the source does not overflow",
)


def write(folder: Path, summary: Summary) -> Path:
    summary = replace(summary, assumes=ASSUMES)
    lifted = tensorize(summary)
    certify(
        folder, summary, lifted, discharge([*obligations(summary), *program_obligations(lifted, summary)])
    )
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
@pytest.mark.parametrize("make", [gemv, blend, reversed_dot, in_place], ids=lambda make: make.__name__)
def test_a_certificate_is_proved_again(make: Callable[[], Summary], solver: str, tmp_path: Path) -> None:
    report = check(write(tmp_path / "f.cert", make()), solver)
    assert report.problems == () and report.ok
    assert report.obligations == report.solved + report.structural
    assert set(ASSUMES) == set(report.assumes) and report.requires


def test_writing_again_leaves_no_old_scripts_and_no_old_signature(tmp_path: Path) -> None:
    write(tmp_path, gemv())
    (tmp_path / "structure.json.sig").write_text("of the older one")
    many = set(tmp_path.glob("*.smt2"))
    write(tmp_path, in_place())
    assert set(tmp_path.glob("*.smt2")) < many and not any(tmp_path.glob("*.sig"))
    assert check(tmp_path).ok


def test_what_is_not_proved_gets_no_certificate(tmp_path: Path) -> None:
    summary = gemv()
    verdicts = discharge(obligations(summary))
    about = Certified("f", {}, {}, "reals", (), (), (), {})
    with pytest.raises(VerificationError, match="is not proved"):
        write_lift_certificate(tmp_path, about, [])
    with pytest.raises(VerificationError, match="is not proved"):
        write_lift_certificate(tmp_path, about, [*verdicts, replace(verdicts[0], status="unknown")])


def test_the_small_checker_stands_alone(folder: Path) -> None:
    path = Path(lift_checker.__file__)
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 510
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


def test_no_name_forges_a_line_of_the_small_checker(folder: Path) -> None:
    for name in FORGED_NAMES:
        (folder / os.fsdecode(name)).write_text("")
    run = subprocess.run([sys.executable, "-I", lift_checker.__file__, folder], capture_output=True)
    lines = run.stderr.decode().splitlines()
    assert run.returncode == 1 and len(lines) == len(FORGED_NAMES)
    assert all(line.isprintable() and line.endswith("belongs to no obligation") for line in lines)


# Damage


def test_no_certificate_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match="is no plain file"):
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


@pytest.mark.parametrize("name", ["001.smt2", lift_checker.NAME])
def test_a_pipe_is_not_waited_for(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    (problem,) = lift_checker.check(folder)[:1]
    assert f"{name} is no plain file" in problem


# Forgery: every hash is right again, and still something is wrong


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
    "an initiation": (
        without(kind="initiation", subject="y[]", loop="i@1:1"),
        "the initiation of y[] in the loop i@1:1",
    ),
    "a preservation": (without(kind="preservation", subject="j"), "the preservation of j in the loop j@2:1"),
    "bounds": (without(kind="bounds", subject="A"), "the bounds of A"),
    "a frame": (without(kind="frame"), "the frame of y"),
    "a result": (without(kind="post"), "the result y"),
}


@pytest.mark.parametrize("name", GONE)
def test_what_is_left_out_is_missed(folder: Path, name: str) -> None:
    change, words = GONE[name]
    assert any(f"nothing proves {words}" in problem for problem in forge(folder, change))


def test_a_divisor_that_a_requirement_speaks_of_is_missed_too(tmp_path: Path) -> None:
    problems = forge(write(tmp_path, zeros_and_quotient()), without(kind="definedness"))
    assert problems == [f"{tmp_path}: nothing proves the divisor at 2:1"]


WRAP = "(declare-fun wrap.u8 (Int) Int)"
INVERSE = "(assert (=> (distinct 2.0 0.0) (= (* 2.0 (inv 2.0)) 1.0)))"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("(assert false)", "assumes what nothing states: false"),
        ("(assert (= (fold.0 0 0) 1.0))", "assumes what nothing states"),
        (
            f"{WRAP}\n(assert (and (<= 0 (wrap.u8 300)) (<= (wrap.u8 300) 256)))",
            "assumes what nothing states",
        ),
        ("(define-fun f () Int 3)", "does more than declare and assert"),
        ("(assert true) (assert false)", "is no expression"),
        ("(assert true ;", "is no script of declarations"),
        ("(declare-fun fold.0 (Int) Int)", "declared otherwise than it is defined"),
        # Solvers turn one sort into another, where an axiom would say what is false.
        (f"(declare-fun inv (Real) Int)\n{INVERSE}", "nothing says what * gives of (Real Int)"),
        ("(declare-fun inv (Real) Int)\n(declare-fun inv (Real) Real)", "declared otherwise"),
        (f"{WRAP}\n(assert (= (wrap.u8 0.5) (mod 0.5 256)))", "nothing says what wrap.u8 gives of (Real)"),
        ("(declare-const x9 Real)", "declared otherwise"),
        ("(declare-fun in.x (Int) Int)", "declared otherwise"),
    ],
)
def test_scripts_assume_nothing_of_their_own(folder: Path, line: str, words: str) -> None:
    def change(document: Document) -> None:
        edit(folder, document, solved(document), insert(line))

    assert any(words in problem for problem in forge(folder, change))


@pytest.mark.parametrize("more", ["(assert false)", "(assert (= 0 1))", " (assert false) "])
def test_the_first_line_names_a_logic_and_no_more(folder: Path, more: str) -> None:
    def change(document: Document) -> None:
        edit(folder, document, solved(document), lambda text: text.replace("\n", f"{more}\n", 1))

    assert any("is no script of declarations" in problem for problem in forge(folder, change))


def test_a_fold_has_the_sort_of_its_body(folder: Path) -> None:
    def change(document: Document) -> None:
        fold = {"name": "fold.9", "kind": "sum", "sort": "Int", "parameters": [], "body": "0.5"}
        document["functions"].append(fold)
        law = "(assert (=> (>= 0 0) (= (fold.9 (+ 0 1)) (+ (fold.9 0) 0.5))))"
        edit(folder, document, solved(document), insert(f"(declare-fun fold.9 (Int) Int)\n{law}"))

    assert any("nothing says what + gives of (Int Real)" in problem for problem in forge(folder, change))


@pytest.mark.parametrize(
    ("text", "sort"),
    [
        ("(+ 1 (mod 7 2) (- (to_int 1.5)))", "Int"),
        ("(ite (< 1 2) (/ 1.0 3.0) (to_real 2))", "Real"),
        ("(ite (= 1 1) (distinct 1.0 2.0) (=> true false))", "Bool"),
    ],
)
def test_expressions_have_sorts(text: str, sort: str) -> None:
    assert lift_checker._sort(lift_checker._parse(text), {}) == sort


def test_sizes_of_a_model_are_whole(folder: Path) -> None:
    def change(document: Document) -> None:
        row = next(row for row in document["obligations"] if row["kind"] == "satisfiable")
        real = "(declare-const size.m Real)"
        edit(folder, document, row, lambda text: text.replace("(declare-const size.m Int)", real))
        assert real in (folder / row["file"]).read_text()

    assert any("size.m is declared otherwise" in problem for problem in forge(folder, change))


def test_an_axiom_may_be_instantiated_anywhere(folder: Path) -> None:
    def change(document: Document) -> None:
        line = "(assert (= (wrap.u8 (+ x0 1)) (mod (+ x0 1) 256)))"
        edit(folder, document, solved(document), insert(f"{WRAP}\n{line}"))

    assert forge(folder, change) == []


FORGED: dict[str, tuple[Callable[[Document], Any], str]] = {
    "a circle of definitions": (
        lambda d: d["functions"][0].update(body="(fold.0 p0 k)"), "which is not defined before it",
    ),
    "a definition by what it chooses": (
        lambda d: d["functions"][0].update(body="(in.a (place.fold.0 p0 k))"), "which is not defined before",
    ),
    "a definition by what it chooses, in bars": (
        lambda d: d["functions"][0].update(body="(in.a (|place.fold.0| p0 k))"), "does not need",
    ),
    "a circle of definitions, in bars": (
        lambda d: d["functions"][0].update(body="(|fold.0| p0 k)"), "does not need",
    ),
    "a definition over nothing": (
        lambda d: d["functions"][0].update(body="(in.a p7)"), "has no parameter p7",
    ),
    "a fold of no kind": (lambda d: d["functions"][0].update(kind="median"), "is no prefix function"),
    "another body": (
        lambda d: d["functions"][0].update(body="(* (in.x k) 2.0)"), "assumes what nothing states",
    ),
    "a requirement of what the proof defines": (
        lambda d: next(f for f in d["facts"] if f["why"] == "requirement").update(text="(= (fold.0 0 0) 7)"),
        "'requirement' is no reason to assume",
    ),
    "a requirement of what a law chooses": (
        lambda d: next(f for f in d["facts"] if f["why"] == "requirement").update(text="(= (place.f 0) 7)"),
        "'requirement' is no reason to assume",
    ),
    "a reason that is none": (lambda d: d["facts"][0].update(why="faith"), "is no reason to assume"),
    "a counter of no loop": (
        lambda d: [f.update(loop="q@1:1") for f in d["facts"] if f["why"] == "counter"], "is no reason",
    ),
    "no script": (lambda d: solved(d).pop("file"), "neither true by its form"),
    "the answer sat": (lambda d: solved(d).update(expects="sat"), "wrong answer"),
    "another goal": (lambda d: solved(d).update(goal="true"), "does not refute"),
    "a script elsewhere": (
        lambda d: [r.update(file="../x.smt2") for r in d["obligations"] if "file" in r], "no plain number",
    ),
    "another function": (lambda d: d["source"].update(name="other"), "does not have the hash it states"),
    "a result more": (lambda d: d["results"].append("return"), "the results of the function"),
    "no rows": (lambda d: d.update(obligations="none"), "is no list"),
    "rows of nothing": (lambda d: d.update(obligations=[3]), "malformed"),
    "another schema": (lambda d: d.update(schema=1), "schema 1 is not known"),
    "a node of another language": (lambda d: rename_calls(d), "a function has no Apply"),
}  # fmt: skip


def rename_calls(document: Document) -> None:
    """Divisions under a name that nobody asks about."""
    named = json.dumps(document["source"]).replace('"node": "Call"', '"node": "Apply"')
    document["source"] = json.loads(named)
    document["hashes"]["function"] = lift_checker._sha(document["source"])


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


@pytest.mark.parametrize("name", FORGERIES)
def test_what_follows_from_the_document_alone_is_checked(folder: Path, name: str) -> None:
    """The others are found with the source, see tests/lifting/test_recheck.py."""
    change, words = FORGERIES[name]
    forge(folder, lambda document: change(folder, document))
    problems = check(folder).problems
    assert any(words in problem for problem in problems) if words else problems == ()


def test_a_script_that_proves_nothing_is_found_by_either_solver(folder: Path) -> None:
    assert forge(folder, lambda document: other_goal("(>= x0 7)")(folder, document)) == []
    for solver in ("z3", "cvc5"):
        report = check(folder, solver, 0.5)
        assert not report.ok
        (said,) = report.problems + report.undecided
        assert f"{solver} says sat" in said or f"{solver} says unknown" in said


def test_what_a_solver_does_not_decide_is_not_false(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lift_certificate, "ask", lambda text, solver, timeout: ("unknown", "timeout"))
    report = check(folder)
    assert report.problems == () and not report.ok
    assert all(said.endswith("sat: timeout") for said in report.undecided)
    answer = verify(folder)
    assert answer.exit_code == 1 and answer.document["undecided"] == list(report.undecided)
    assert answer.shown[-1].endswith("not proved again; z3 refutes nothing, but does not decide all")
