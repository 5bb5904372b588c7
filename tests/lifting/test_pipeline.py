"""The road's own behaviour, its steps played by doubles: order, refusals, files, JSON, and faults of ours."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tensmith.errors import ModelError, UsageError
from tensmith.formula.expr import SourcePosition
from tensmith.formula.types import INT
from tensmith.lifting import pipeline as road
from tensmith.lifting.lifted import EmittedFiles
from tensmith.lifting.limit import TimeUp, limited
from tensmith.lifting.loops import Function, Parameter
from tensmith.lifting.pipeline import lift_file, lift_function
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.second.checked import Checked
from tensmith.verify.obligation import Obligation, Verdict

REQUIRES = (SimpleNamespace(text="n >= 1"), SimpleNamespace(text="n >= 1"))


def function(name="f", line=3):
    return Function(name, (Parameter("n", INT),), INT, (), "python", "f.py", SourcePosition(line, 1))


def verdict(obligation, status="proved", detail=""):
    return Verdict(obligation, status, "structure", "z3", 0.0, detail)


def obligation(name="post of return", expects="unsat"):
    return Obligation(name, "post", "return", "", 7, 5, expects=expects)


@pytest.fixture
def play(monkeypatch):
    """Plays the steps of the road: all is proved, but for what is `changed`."""

    def played(**changed):
        summary = SimpleNamespace(
            arithmetic="integers", requires=REQUIRES, assumes=("integers fit in 64 bits",)
        )
        lifted = SimpleNamespace(**vars(summary), program="program f {}")
        found = [function("f"), Refusal("no loop here; write one", SourcePosition(9, 2), "g"), function("h")]
        emit = changed.pop("emit", lambda target, given: EmittedFiles({"f.py": target.encode()}))
        plain = {
            "read_source": lambda path: found,
            "derive_or_search": lambda found: summary,
            "tensorize": lambda given: lifted,
            "obligations": lambda given: [obligation()] * 20,
            "program_obligations": lambda *_: [],
            "trivial": lambda *_: (),
            "discharge": lambda given: [verdict(entry) for entry in given],
            "emitter_of": lambda target: SimpleNamespace(emit=lambda given: emit(target, given)),
            "certify": lambda folder, *_: [folder / "claims.json"],
            "SecondReader": lambda *_: SimpleNamespace(check=lambda given: Checked(7, "gcc")),
        }
        for name, step in (plain | changed).items():
            monkeypatch.setattr(road, name, step)

    return played


def test_every_function_has_its_own_outcome(tmp_path, play):
    play()
    results = lift_file(Path("f.py"), output=tmp_path)
    assert [(r.name, r.status) for r in results] == [("f", "proved"), ("g", "refused"), ("h", "proved")]
    assert (tmp_path / "f.py").read_text() == "numpy"
    assert results[0].files == (tmp_path / "f.py", tmp_path / "f.cert" / "claims.json")
    document = json.loads(json.dumps(results[1].to_json()))
    assert list(document) == [
        "name", "status", "reason", "line", "column", "arithmetic", "requires", "assumes", "notes",
        "obligations", "checked", "seconds", "program", "files",
    ]  # fmt: skip
    assert document["reason"] == "no loop here; write one" and (document["line"], document["column"]) == (
        9,
        2,
    )
    proved = results[0].to_json()
    assert proved["checked"] == {"inputs": 7, "by": "gcc", "why_not": ""}
    assert proved["requires"] == ["n >= 1"] and proved["obligations"] == 20
    assert proved["program"] == "program f {}" and proved["arithmetic"] == "integers"


def test_one_function_may_be_named_and_must_be_there(play):
    with pytest.raises(UsageError, match="no C, C\\+\\+ or Python"):
        lift_file(Path("f.txt"))
    play()
    assert [r.name for r in lift_file(Path("f.py"), "h")] == ["h"]
    with pytest.raises(UsageError, match="no function 'k'; its functions: f, g, h"):
        lift_file(Path("f.py"), "k")


def test_several_targets_have_a_folder_each(tmp_path, play):
    play()
    (result,) = lift_file(Path("f.py"), "f", ("numpy", "torch"), tmp_path)
    assert {str(path.relative_to(tmp_path)) for path in result.files} == {
        "numpy/f.py",
        "torch/f.py",
        "f.cert/claims.json",
    }


def test_without_a_folder_nothing_is_written(play):
    play(certify=None)
    (result,) = lift_file(Path("f.py"), "f")
    assert result.proved and result.files == () and result.emitted == {"numpy": {"f.py": b"numpy"}}


@pytest.mark.parametrize(
    ("status", "detail", "expects", "words"),
    [
        ("refuted", "in.n = 0\nin.m = 2", "unsat", "for the returned value is right where n = 0, m = 2;"),
        ("unknown", "", "unsat", "cannot be shown in time that the closed form found for the returned value"),
        ("refuted", "", "sat", "requirements contradict"),
    ],
)
def test_what_is_not_proved_is_refused_at_its_place(tmp_path, status, detail, expects, words, play):
    failing = obligation(expects=expects)
    play(obligations=lambda *_: [failing], discharge=lambda _: [verdict(failing, status, detail)])
    (result,) = lift_file(Path("f.py"), "f", output=tmp_path)
    assert result.status == "refused" and words in result.reason
    assert (result.line, result.column) == (7, 5) and not list(tmp_path.iterdir())


def test_the_first_failure_ends_the_proof(play):
    asked = []

    def discharge(given):
        asked.extend(given)
        return [verdict(entry, "unknown") for entry in given]

    play(discharge=discharge)
    (result,) = lift_file(Path("f.py"), "f")
    assert not result.proved and len(asked) < 20


def test_no_obligations_are_no_proof(play):
    play(obligations=lambda *_: [])
    (result,) = lift_file(Path("f.py"), "f")
    assert not result.proved and "nothing to prove" in result.reason


def failing(error):
    def step(*_):
        raise error

    return step


@pytest.mark.parametrize(
    "step", ["derive_or_search", "tensorize", "obligations", "discharge", "emit", "certify"]
)
def test_a_refusal_or_a_fault_of_any_step_is_a_refused_function(tmp_path, step, play):
    refusal = Refusal("the subscript depends on data; use the counter", SourcePosition(4, 9))
    for error, words, place in (
        (refusal, refusal.reason, (4, 9)),
        (ModelError("m is empty"), "m is empty", (3, 1)),
        (KeyError("k"), "the fault is ours", (3, 1)),
        (RecursionError(), "the fault is ours", (3, 1)),
    ):
        play(**{step: failing(error)})
        results = lift_file(Path("f.py"), "f", output=tmp_path)
        assert results[0].status == "refused" and words in results[0].reason
        assert (results[0].line, results[0].column) == place


def test_wrong_use_is_no_refusal(play):
    play(emit=failing(UsageError("unknown target")))
    with pytest.raises(UsageError):
        lift_file(Path("f.py"))


@pytest.mark.parametrize("name", ["a/b", "lambda", "..", "f-g", ""])
def test_names_that_cannot_name_a_file_are_refused(name, play):
    play()
    assert "rename it" in lift_function(function(name)).reason


def test_files_stay_inside_their_folder(tmp_path, play):
    play(emit=lambda *_: EmittedFiles({"../f.py": b""}))
    (result,) = lift_file(Path("f.py"), "f", output=tmp_path / "out")
    assert "outside" in result.reason and not (tmp_path / "f.py").exists()


def test_files_of_others_stay(tmp_path, play):
    (tmp_path / "f.py").write_text("mine")
    play()
    (result,) = lift_file(Path("f.py"), "f", output=tmp_path)
    assert "is there already" in result.reason and (tmp_path / "f.py").read_text() == "mine"
    (tmp_path / "f.cert").mkdir()
    play()
    (result,) = lift_file(Path("f.py"), "f", output=tmp_path)
    assert result.proved and (tmp_path / "f.py").read_text() == "numpy"


def test_endless_work_ends(monkeypatch, play):
    monkeypatch.setattr(road, "_FORMS", 0.05)
    monkeypatch.setattr(road, "_PROOF", 0.05)

    def forever(_):
        while True:
            pass

    play(derive_or_search=forever)
    (result,) = lift_file(Path("f.py"), "f")
    assert "finding closed forms took too long" in result.reason
    play(discharge=forever)
    (result,) = lift_file(Path("f.py"), "f")
    assert "the proof took too long" in result.reason


def test_what_was_refused_stays_so_where_whole_windows_take_too_long(monkeypatch):
    def summarize(found):
        raise Refusal("a window of its own", SourcePosition(4, 9)) if found.name == "f" else TimeUp

    monkeypatch.setattr(road, "summarize", summarize)
    monkeypatch.setattr(road, "with_whole_windows", lambda found: function("g"))
    with pytest.raises(Refusal, match="a window of its own"):
        road.derive_or_search(function(), seconds=0.01)


def test_the_limit_ends_with_its_block():
    def busy(seconds):
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    with limited(0.05):
        pass
    busy(0.1)
    with pytest.raises(TimeUp), limited(0.02):
        busy(5)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_limit_that_a_finalizer_swallows_comes_again():
    class Slow:
        def __del__(self):
            end = time.process_time() + 0.1
            while time.process_time() < end:
                pass

    began = time.process_time()
    with pytest.raises(TimeUp), limited(0.02):
        Slow()  # Python drops what is raised in a finalizer
        while time.process_time() < began + 20:
            pass
    assert time.process_time() < began + 10
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_progress_names_the_function(play):
    told = []
    play()
    lift_file(Path("f.py"), "f", progress=told.append)
    assert told[0] == "reading f.py" and any(sentence.startswith("f:") for sentence in told)
