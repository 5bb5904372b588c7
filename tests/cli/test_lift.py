"""`tensmith lift` as a user meets it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from rich.table import Table

from command_line import tensmith
from tensmith.cli.lift import lift
from tensmith.lifting import auto

SOURCE = """
def dot(a: list[float], b: list[float], n: int):
    total = 0.0
    for i in range(n):
        total += a[i] * b[i]
    return total


def first(a, n: int):
    for i in range(n):
        if a[i] > 0:
            if n: return 2
    return -1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "k.py").write_text(SOURCE)
    return tmp_path


def test_files_and_json(folder: Path) -> None:
    result = tensmith("lift", "k.py", "--to", "numpy", "--output", "out", "--json", folder=folder)
    assert result.returncode == 1 and result.stderr == ""
    proved, refused = json.loads(result.stdout)["functions"]
    assert proved["status"] == "proved" and proved["requires"] == ["len(a) >= n", "len(b) >= n"]
    assert "out/dot.py" in proved["files"] and proved["obligations"] > 5 and "matmul" in proved["program"]
    assert refused["status"] == "refused" and (refused["line"], refused["column"]) == (12, 19)
    spec = importlib.util.spec_from_file_location("dot", folder / "out" / "dot.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.dot([1, 2], np.ones(2), 2) == 3
    with pytest.raises(ValueError, match="len"):
        module.dot([1], [1], 2)


def test_one_function_and_its_explanation(folder: Path) -> None:
    result = tensmith("lift", "k.py", "--function", "dot", "--to", "numpy", "--explain", folder=folder)
    assert result.returncode == 0 and result.stderr == ""
    for words in ("dot: proved", "requires len(a) >= n", "while i < n", "closed forms", "loop i@4:5",
                  "obligations", "preservation", "tensor program", "1 of 1 functions proved"):  # fmt: skip
        assert words in result.stdout, words
    assert (folder / "lifted" / "dot.py").exists()


def test_what_a_target_says_of_its_files_is_shown(folder: Path) -> None:
    result = tensmith("lift", "k.py", "--function", "dot", "--to", "gemmini", folder=folder)
    assert result.returncode == 0 and "  note     Nothing of it runs on Gemmini" in result.stdout


def test_auto_says_its_table(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(auto, "CANDIDATES", ("numpy", "onnx"))  # the others take long to import
    monkeypatch.setattr(auto, "_SECONDS", 0.01)
    answer = lift(folder / "k.py", "auto", "dot", folder / "out", "n=50")
    assert answer.exit_code == 0
    (document,) = answer.document["functions"]
    assert document["auto"][0]["target"] == document["target"] and document["auto"][0]["ratio"] == 1
    assert {row["target"] for row in document["auto"]} == {"numpy", "onnx"} and document["files"]
    assert any(
        isinstance(shown, Table) and "timed on a 50, b 50" in str(shown.title) for shown in answer.shown
    )


def test_a_function_that_cannot_be_timed_costs_no_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto, "CANDIDATES", ("numpy",))
    monkeypatch.setattr(auto, "_SECONDS", 0.01)
    dot = SOURCE.partition("def first")[0]
    (folder / "k.py").write_text(dot + dot.replace("dot", "sums").replace("b", "c"))
    answer = lift(folder / "k.py", "auto", None, folder / "out", "b=50")
    assert answer.exit_code == 1
    timed, untimed = answer.document["functions"]
    assert timed["status"] == "proved" and timed["target"] == "numpy" and timed["files"]
    assert untimed["status"] == "refused" and "--sizes names b" in untimed["reason"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("k.py", "--to", "cobol"), "--to: there is no target 'cobol'"),
        (("k.py", "--to", "numpy", "--function", "g"), "no function 'g'; its functions: dot, first"),
        (("k.py", "--to", "numpy", "--sizes", "n=3"), "--sizes is for --to auto"),
        (("k.py", "--to", "auto", "--function", "dot", "--sizes", "n"), "--sizes has 'n'"),
        (("k.txt", "--to", "numpy"), "is no C, C++ or Python file"),
        (("k.py",), "--to"),
    ],
)
def test_wrong_use(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    result = tensmith("lift", *arguments, folder=folder)
    assert result.returncode == 2 and words in result.stderr and "Traceback" not in result.stderr


def test_a_file_that_is_no_program(folder: Path) -> None:
    (folder / "bad.py").write_text("def f(:\n")
    result = tensmith("lift", "bad.py", "--to", "numpy", folder=folder)
    assert result.returncode == 1 and "bad.py:1:7:" in result.stderr
    result = tensmith("lift", "gone.py", "--to", "numpy", folder=folder)
    assert result.returncode == 1 and "gone.py:1:1: cannot be read" in result.stderr


def test_the_certificate_is_checked_again(folder: Path) -> None:
    tensmith("lift", "k.py", "--function", "dot", "--to", "numpy", "--output", "out", folder=folder)
    result = tensmith("verify", "out/dot.cert", "--json", folder=folder)
    assert result.returncode == 0, result.stdout
    document = json.loads(result.stdout)
    assert document["ok"] and document["solved"] + document["structural"] == document["obligations"] > 5
    assert document["requires"] == ["len(a) >= n", "len(b) >= n"] and document["source"] is None
    result = tensmith("verify", "out/dot.cert", folder=folder)
    assert "give --source" in result.stdout and result.stdout.count("requires") == 2
    result = tensmith("verify", "out/dot.cert", "--source", "k.py", folder=folder)
    assert result.returncode == 0 and "they are what k.py demands" in result.stdout
    asked = ("verify", "out/dot.cert", "--source", "k.py", "--strict")
    assert tensmith(*asked, folder=folder).returncode == 0
    result = tensmith(*asked, "--no-run", "--json", folder=folder)
    assert result.returncode == 1 and json.loads(result.stdout)["unchecked"] == [
        "that the running source agrees"
    ]
    (folder / "other.py").write_text(SOURCE.replace("total +=", "total -="))
    result = tensmith("verify", "out/dot.cert", "--source", "other.py", "--json", folder=folder)
    assert result.returncode == 1 and "other.py gives another" in json.loads(result.stdout)["problems"][0]
    script = next((folder / "out" / "dot.cert").glob("*.smt2"))
    script.write_text(script.read_text().replace("(check-sat)", "(assert false)\n(check-sat)"))
    result = tensmith("verify", "out/dot.cert", folder=folder)
    assert result.returncode == 1 and "does not hold" in result.stdout
    result = tensmith("verify", "out/dot.cert", "--solver", "magic", folder=folder)
    assert result.returncode == 2 and "z3 or cvc5, not magic" in result.stderr
    result = tensmith("verify", "out/dot.cert", "--original", "k.py", folder=folder)
    assert result.returncode == 2 and "--source, not --original" in result.stderr
    for name in ("gone", "out"):
        result = tensmith("verify", name, folder=folder)
        assert result.returncode == 1 and "neither certificate.json nor structure.json" in result.stderr
        assert "OUT/best" in result.stderr and "F.cert" in result.stderr
