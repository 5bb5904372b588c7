"""A study runs cell by cell: failures keep their reasons, and what is known is not run again."""

from __future__ import annotations

import errno
import itertools
import json
import shutil
import signal
import sqlite3
import time
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import onnx
import pytest

from command_line import images, started, tensmith, tiny_model
from opencl_device import needs_opencl
from tensmith.cli.study import study
from tensmith.engine import ENGINES
from tensmith.engine.base import available
from tensmith.engine.device import DeviceEngine
from tensmith.engine.stopwatch import Turn
from tensmith.errors import EngineError, MissingExtra, OutputError
from tensmith.evaluate import energy
from tensmith.evaluate.energy import Counter
from tensmith.evaluate.judge import Judge
from tensmith.evaluate.latency import Rounds
from tensmith.files import locked
from tensmith.hardware import detect_cpu
from tensmith.report.metric import Metric, exact
from tensmith.search import resume
from tensmith.study import materials, run
from tensmith.study.materials import Materials
from tensmith.study.plan import StudyCell, StudyPlan, cells, read_plan
from tensmith.study.results import CellResult, Results, _digest, write_parquet
from tensmith.study.run import BUSY, DATABASE, StudyRun, known_results, prepare_study, run_study

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
TEXT = """name: tiny
datasets: [{name: noise, data: "npz:noise.npz", samples: 40, calibration: 16}]
models: [{name: tiny, path: tiny.onnx, dataset: noise, preprocess: raw}]
optimizations: [none, {weight_pruning: 60}]
systems: [onnxruntime]
hardware: [cpu, "estimated:host"]
method: {runs: 5, seconds: 0}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    onnx.save(tiny_model(), folder / "tiny.onnx")
    labels = np.random.default_rng(2).integers(0, 4, 240)
    np.savez(folder / "noise.npz", x_train=images()[:160], y_train=labels[:160],
             x_test=images()[160:], y_test=labels[160:])  # fmt: skip
    (folder / "study.yaml").write_text(TEXT.replace("[onnxruntime]", "[onnxruntime, untuned]"))
    return folder


def plan_of(place: Path) -> StudyPlan:
    return read_plan(place / "study.yaml")


@pytest.fixture(scope="module")
def done(place: Path) -> StudyRun:
    return run_study(plan_of(place), place, place / "out")


def test_every_cell_has_a_result(done: StudyRun) -> None:
    assert [result.cell for result in done.results] == done.cells and len(done.cells) == 6
    assert not any(result.failed for result in done.results)
    for result in done.results:
        estimated = result.cell.hardware.startswith("estimated")
        assert result.figures["latency_ms"].evidence == ("estimated" if estimated else "measured")
        sparse = result.cell.optimization != "none"
        assert (result.figures["expected"].value > 1.5) == sparse
        assert (result.figures["drop"].value == 0) or sparse


def test_random_weights_have_no_accuracy(done: StudyRun, place: Path) -> None:
    plan = plan_of(place)
    noise = plan.model_copy(
        update={"models": tuple(m.model_copy(update={"weights": "random"}) for m in plan.models)}
    )
    found = run_study(noise, place, place / "out").results
    assert [result.cell for result in found] == done.cells  # as they were: only what is told differs
    assert not any({"accuracy", "drop"} & result.figures.keys() for result in found)
    assert all("latency_ms" in result.figures for result in found)


def test_figures_say_of_how_many_samples_they_are(done: StudyRun, place: Path, tmp_path: Path) -> None:
    assert {result.value("batch") for result in done.results} == {1}
    model = tiny_model()
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 8
    shutil.copytree(place, tmp_path / "here", ignore=shutil.ignore_patterns("out"))
    onnx.save(model, tmp_path / "here" / "tiny.onnx")
    plan = plan_of(place).model_copy(update={"hardware": ("estimated:host",)})
    found = run_study(plan, tmp_path / "here", tmp_path / "out").results
    assert [result.value("batch") for result in found] == [8, 8]


def test_what_is_known_is_not_run_again_but_for_altered_rows(
    done: StudyRun, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    usual = run._measured
    monkeypatch.setattr(run, "_measured", lambda p, cell, m: ran.append(cell.id) or usual(p, cell, m))
    again = run_study(plan_of(place), place, place / "out")
    assert ran == [] and again.results == done.results
    victim = next(cell for cell in done.cells if cell.hardware.startswith("estimated"))
    with sqlite3.connect(place / "out" / DATABASE) as database:
        database.execute("UPDATE rows SET body = replace(body, 'tiny', 'tidy') WHERE name = ?", (victim.id,))
    again = run_study(plan_of(place), place, place / "out")
    assert ran == [victim.id] and len(again.results) == 6


def test_models_prepared_elsewhere_are_made_no_more(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = plan_of(place).models[0].model_copy(update={"name": "gone", "path": "gone.onnx"})
    plan = plan_of(place).model_copy(update={"hardware": ("estimated:host",)})
    both = plan.model_copy(update={"models": (*plan.models, gone)})
    failed = prepare_study(both, place, tmp_path / "there")
    assert {*failed} == {"gone / none", "gone / weight_pruning:60"} and "gone.onnx" in failed["gone / none"]
    shutil.copytree(tmp_path / "there" / "models", tmp_path / "here" / "models")
    monkeypatch.setattr(materials, "optimize", None)
    done = run_study(plan, place, tmp_path / "here")
    assert len(done.results) == 2 and not any(result.failed for result in done.results)


def test_a_failure_keeps_its_reason_and_stops_nobody(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, calls = run._measured, []

    def failing(plan: StudyPlan, cell: object, materials: Materials) -> object:
        calls.append(cell)
        if len(calls) == 1:
            raise ZeroDivisionError("the device was lost")
        if len(calls) == 3:
            raise KeyboardInterrupt
        return usual(plan, cell, materials)  # type: ignore[arg-type]

    monkeypatch.setattr(run, "_measured", failing)
    plan = plan_of(place).model_copy(update={"systems": ("untuned",), "hardware": ("estimated:host",),
                                             "optimizations": ("none", "float16", "int8")})  # fmt: skip
    found = run_study(plan, place, tmp_path)
    assert found.interrupted and len(found.cells) == 3
    assert [result.reason for result in found.results] == ["ZeroDivisionError: the device was lost", ""]
    # The failed cell rests, the interrupted one is taken up; with `retry` both.
    assert len(run_study(plan, place, tmp_path).results) == 3 and len(calls) == 4
    assert not any(r.failed for r in run_study(plan, place, tmp_path, retry=True).results)
    assert len(calls) == 5


def test_ctrl_c_that_foreign_code_makes_an_error_of_is_no_cell_s_failure(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loading(*given: object) -> object:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as interrupt:
            raise ImportError("initialization failed") from interrupt
        raise AssertionError("not reached")

    plan = plan_of(place).model_copy(update={"hardware": ("estimated:host",), "optimizations": ("none",)})
    monkeypatch.setattr(run, "_measured", loading)
    found = run_study(plan, place, tmp_path)
    assert found.interrupted and found.results == []


def test_what_is_trained_loses_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="the torch extra is not installed")
    from tensmith.recovery import training

    # As many steps on every machine, however busy: a tick is a millisecond.
    ticks = itertools.count()
    monkeypatch.setattr(training, "time", mock.Mock(monotonic=lambda: 0.001 * next(ticks)))
    monkeypatch.setattr(training.Training, "seconds_a_step", lambda self, *_: (0.3, 0.0))
    (tmp_path / "study.yaml").write_text(f"""name: trained
datasets: [{{name: digits, data: "npz:{DIGITS / "digits.npz"}", samples: 300, calibration: 64}}]
models: [{{name: digits, path: {DIGITS / "digits.onnx"}, dataset: digits}}]
optimizations: [none, channel_pruning: 60, trained: [channel_pruning: 60]]
systems: [onnxruntime]
training: {{seconds: 12}}
method: {{runs: 3, seconds: 0}}
""")
    done = run_study(plan_of(tmp_path), tmp_path, tmp_path / "out")
    none, pruned, trained = (result.figures["drop"].value for result in done.results)
    assert none == 0 and trained < pruned and pruned > 2
    files = [result.figures["weights"].value for result in done.results]
    assert files[1] == files[2] < files[0]


def test_a_model_that_is_not_there_is_the_reason_of_its_cells(place: Path, tmp_path: Path) -> None:
    plan = plan_of(place)
    gone = plan.models[0].model_copy(update={"path": "gone.onnx"})
    plan = plan.model_copy(update={"models": (gone,), "hardware": ("estimated:host",)})
    assert all("gone.onnx" in r.reason for r in run_study(plan, place, tmp_path).results)


def test_random_pixels_stand_for_no_images_that_were_preprocessed_before(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place, tmp_path / "here", ignore=shutil.ignore_patterns("out"))
    plan = plan_of(place).model_copy(
        update={"hardware": ("estimated:host",), "optimizations": ("int8_uncalibrated",)}
    )
    (found,) = run_study(plan, tmp_path / "here", tmp_path / "out").results
    assert not found.failed
    with np.load(place / "noise.npz") as arrays:
        labels = {name: array for name, array in arrays.items() if name.startswith("y")}
        ready = {
            name: np.float32(arrays[name] / 127.5 - 1).transpose(0, 3, 1, 2) for name in ("x_train", "x_test")
        }
    np.savez(tmp_path / "here" / "noise.npz", **labels, **ready)
    (found,) = run_study(plan, tmp_path / "here", tmp_path / "out").results
    assert "takes random pixels" in found.reason


@pytest.mark.parametrize(("name", "reason"), [("folder", "is a folder"), ("x" * 300, "too long")])
def test_a_model_that_cannot_be_read_stops_no_other(
    place: Path, tmp_path: Path, name: str, reason: str
) -> None:
    (tmp_path / "folder").mkdir()
    plan = plan_of(place)
    path = str(tmp_path / name)
    bad = plan.models[0].model_copy(update={"name": "bad", "path": path})
    plan = plan.model_copy(update={"models": (bad, *plan.models), "hardware": ("estimated:host",)})
    found = run_study(plan, place, tmp_path / "out").results
    assert {r.cell.model for r in found if r.failed} == {"bad"} and {r.cell.model for r in found} == {
        "bad",
        "tiny",
    }
    assert all(reason in r.reason for r in found if r.failed)


def test_results_stay_where_a_model_is_gone_for_a_while(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place, tmp_path / "here", ignore=shutil.ignore_patterns("out"))
    plan = plan_of(place).model_copy(update={"hardware": ("estimated:host",), "optimizations": ("none",)})
    done = run_study(plan, tmp_path / "here", tmp_path / "out")
    for file in ("tiny.onnx", "noise.npz"):
        (tmp_path / "here" / file).rename(tmp_path / file)
        assert run_study(plan, tmp_path / "here", tmp_path / "out", retry=True).results == done.results
        (tmp_path / file).rename(tmp_path / "here" / file)


def test_times_of_another_engine_or_processor_are_measured_again(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hardware = ("cpu:1", "estimated:host", "estimated:raspberry-pi-4")
    plan = plan_of(place).model_copy(update={"optimizations": ("none",), "hardware": hardware})
    ran: list[tuple[str, str]] = []
    usual = run._measured
    monkeypatch.setattr(
        run, "_measured", lambda p, c, m: ran.append((c.system, c.hardware)) or usual(p, c, m)
    )

    def again() -> set[tuple[str, str]]:
        ran.clear()
        left = len(cells(plan)) - len(known_results(plan, place, tmp_path))
        results = run_study(plan, place, tmp_path).results
        assert len(results) == 4 and not any(result.failed for result in results) and len(ran) == left
        return set(ran)

    measured = {("onnxruntime", "cpu:1"), ("untuned", "cpu:1")}
    every = {*measured, *(("untuned", where) for where in hardware[1:])}
    assert again() == every and again() == set()
    with monkeypatch.context() as other:
        other.setattr(type(ENGINES["native"]), "version", lambda self: "0.0.9")
        assert again() == {("untuned", "cpu:1")}
    assert again() == {("untuned", "cpu:1")}
    with monkeypatch.context() as gone:
        gone.setattr(type(ENGINES["native"]), "version", mock.Mock(side_effect=EngineError("no compiler")))
        assert again() == set()  # it cannot be measured again
    with monkeypatch.context() as other:  # which all are judged in
        other.setattr(type(ENGINES["onnxruntime"]), "version", lambda self: "0.0.9")
        assert again() == every
    assert again() == every
    other_cpu = replace(detect_cpu(), model="another")
    monkeypatch.setattr(resume, "detect_cpu", lambda: other_cpu)
    assert again() == every
    with sqlite3.connect(tmp_path / DATABASE) as database:  # of before there were settings
        for name, body in list(database.execute("SELECT name, body FROM rows")):
            if (row := json.loads(body)).pop("setting", None):
                old = json.dumps(row)
                database.execute(
                    "REPLACE INTO rows VALUES (?, ?, ?)", (name, old, _digest(name, old.encode()))
                )
    assert again() == every


def test_answers_of_another_processor_or_version_are_judged_again(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(place).model_copy(update={"hardware": ("estimated:host",), "optimizations": ("none",)})
    judged: list[object] = []
    usual = Judge.outcome
    monkeypatch.setattr(Judge, "outcome", lambda self, *given: judged.append(given) or usual(self, *given))

    def anew() -> bool:
        judged.clear()
        assert prepare_study(plan, place, tmp_path) == {}
        return bool(judged)

    assert anew() and not anew()
    other_cpu = replace(detect_cpu(), model="another")
    monkeypatch.setattr(resume, "detect_cpu", lambda: other_cpu)
    assert anew() and not anew()
    monkeypatch.setattr(type(ENGINES["onnxruntime"]), "version", lambda self: "0.0.9")
    assert anew() and not anew()
    monkeypatch.setattr(materials, "__version__", "0.0.9")
    assert anew() and not anew()


def test_a_search_on_another_machine_or_by_other_code_makes_another_model(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("weight_pruning:60", "tensmith", "tensmith_stock")
    plan = plan_of(place).model_copy(update={"hardware": ("estimated:host",), "optimizations": names})
    monkeypatch.setattr(
        materials, "searched", lambda _, options, __, path: shutil.copy(options["model"], path)
    )
    results = Results(tmp_path / DATABASE)
    made = Materials(plan, place, tmp_path / "models", results)

    def models() -> list[Path]:
        return [made.optimized(cell) for cell in cells(plan)]

    def changed() -> list[bool]:
        return [one != other for one, other in zip(before, models(), strict=True)]

    before = models()
    assert changed() == [False, False, False]
    with monkeypatch.context() as other:
        other.setattr(type(ENGINES["native"]), "version", lambda self: "0.0.9")
        assert changed() == [False, "native" in available(), False]
    with monkeypatch.context() as other:
        usual = materials.code_revision
        other.setattr(materials, "code_revision", lambda *more: usual(*more) + "".join(more))
        assert changed() == [False, True, True]
    other_cpu = replace(detect_cpu(), model="another")
    monkeypatch.setattr(resume, "detect_cpu", lambda: other_cpu)
    assert changed() == [False, True, True]
    results.close()


@needs_opencl
def test_a_result_names_the_device_that_computed(place: Path, tmp_path: Path) -> None:
    plan = plan_of(place).model_copy(update={"hardware": ("opencl",), "optimizations": ("none",)})
    (found,) = run_study(plan, place, tmp_path).results
    device = ENGINES["opencl"]
    assert isinstance(device, DeviceEngine)
    assert not found.failed and found.setting["device"] == device.device()[0]


def test_two_studies_do_not_share_a_folder(place: Path, tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(OutputError, match="another run is working"):
        run_study(plan_of(place), place, tmp_path)


def test_a_study_takes_no_folder_of_others(place: Path, tmp_path: Path) -> None:
    mine = tmp_path / "tables.md"
    mine.write_text("mine")
    for output, words in ((tmp_path, "is not empty and holds no study"), (mine, "tables.md is a file")):
        for act in (run_study, prepare_study):
            with pytest.raises(OutputError, match=words):
                act(plan_of(place), place, output)
    assert [file.name for file in tmp_path.iterdir()] == ["tables.md"] and mine.read_text() == "mine"


def test_other_labels_are_other_data(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place, tmp_path / "here", ignore=shutil.ignore_patterns("out"))
    plan = plan_of(place).model_copy(update={"hardware": ("estimated:host",)})
    before = run_study(plan, tmp_path / "here", tmp_path / "out").results
    with np.load(place / "noise.npz") as arrays:
        turned = {**arrays, "y_test": 3 - arrays["y_test"]}
    np.savez(tmp_path / "here" / "noise.npz", **turned)
    after = run_study(plan, tmp_path / "here", tmp_path / "out").results
    assert [one.cell for one in after] == [one.cell for one in before]
    assert all(one.figures["accuracy"] != other.figures["accuracy"] for one, other in zip(before, after))


def test_samples_to_search_on_are_nothing_to_what_takes_no_time(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(materials, "_PROBING", 30)
    monkeypatch.setattr(materials, "_CHOOSING", 60)
    ran: list[str] = []
    usual = run._measured
    monkeypatch.setattr(run, "_measured", lambda p, c, m: ran.append(c.optimization) or usual(p, c, m))
    monkeypatch.setattr(
        materials, "searched", lambda _, options, __, path: shutil.copy(options["model"], path)
    )
    few = plan_of(place).model_copy(update={"hardware": ("estimated:host",)})
    before = run_study(few, place, tmp_path).results
    made = {path.name for path in (tmp_path / "models").iterdir()}
    ran.clear()
    more = few.model_copy(update={"optimizations": (*few.optimizations, "tensmith")})
    after = run_study(more, place, tmp_path).results
    assert ran == ["tensmith"] and after[: len(before)] == before and not after[-1].failed
    assert len({path.name for path in (tmp_path / "models").iterdir()} - made) == 1
    monkeypatch.setattr(materials, "_CHOOSING", 70)
    run_study(more, place, tmp_path)
    assert ran == ["tensmith", "tensmith"]  # its search would see others


def test_a_dry_run_knows_what_is_of_other_data(done: StudyRun, place: Path, tmp_path: Path) -> None:
    shutil.copytree(place, tmp_path / "here")
    at = plan_of(place), tmp_path / "here", tmp_path / "here" / "out"
    assert len(known_results(*at)) == len(done.cells)
    arguments = ("study", "study.yaml", "--output", "out", "--dry-run", "--json")
    assert json.loads(tensmith(*arguments, folder=tmp_path / "here").stdout)["left"] == 0
    with np.load(place / "noise.npz") as arrays:
        turned = {**arrays, "y_test": 3 - arrays["y_test"]}
    np.savez(tmp_path / "here" / "noise.npz", **turned)
    assert known_results(*at) == []
    assert json.loads(tensmith(*arguments, folder=tmp_path / "here").stdout)["left"] == len(done.cells)


@pytest.mark.parametrize("caught", [True, False])
def test_a_full_disk_is_no_reason_of_a_cell(
    caught: bool, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object) -> object:
        cause = OSError(errno.ENOSPC, "no space left on device")
        if caught:
            raise OutputError("cannot write: no space left on device") from cause
        raise cause

    monkeypatch.setattr(run, "_measured", full)
    with pytest.raises(OutputError, match="no space"):
        run_study(plan_of(place), place, tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr(Materials, "optimized", full)
    with pytest.raises(OutputError, match="no space"):
        prepare_study(plan_of(place), place, tmp_path)
    monkeypatch.undo()
    assert not any(result.failed for result in run_study(plan_of(place), place, tmp_path).results)


def test_a_killed_study_goes_on_where_it_was(place: Path, tmp_path: Path) -> None:
    def stored() -> dict[StudyCell, CellResult]:
        results = Results(tmp_path / "out" / DATABASE)
        found = results.of(cells(plan_of(place)))
        results.close()
        return {result.cell: result for result in found}

    arguments = ("study", place / "study.yaml", "--output", tmp_path / "out", "--json")
    with started(*arguments, folder=place) as process:
        deadline, kept = time.monotonic() + 120, {}
        while len(kept) < 2 and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.1)
            if (tmp_path / "out" / DATABASE).exists():
                kept = stored()
        process.kill()
    assert len(kept) >= 2
    finished = tensmith(*arguments, folder=place)
    assert finished.returncode == 0, finished.stderr
    assert len(json.loads(finished.stdout)["results"]) == 6
    assert len(after := stored()) == 6 and after | kept == after  # its seconds, too


def test_a_study_fails_where_every_cell_does(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some may: not all choices go together."""
    usual = run._measured
    for few in (True, False):

        def measured(plan, cell, now, few=few):
            if few and cell.hardware.startswith("estimated"):
                return usual(plan, cell, now)
            raise EngineError("no such kernel")

        monkeypatch.setattr(run, "_measured", measured)
        assert study(place / "study.yaml", tmp_path / str(few)).exit_code == (0 if few else 1)


def test_parquet_holds_a_row_a_cell(done: StudyRun, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    write_parquet(done.results, tmp_path / "r.parquet")
    table = parquet.read_table(tmp_path / "r.parquet").to_pylist()
    assert [row["model"] for row in table] == [result.cell.model for result in done.results]


def test_an_extra_is_named_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="a study's Parquet file needs"):
        study(Path("nowhere.yaml"), parquet=True)


def test_a_ratio_of_busy_rounds_says_so(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(place).model_copy(
        update={"hardware": ("cpu:1",), "systems": ("onnxruntime",), "optimizations": ("none",)}
    )
    method = plan.method.model_copy(update={"runs": 2, "seconds": 1.0})
    plan = plan.model_copy(update={"method": method})
    monkeypatch.setattr(Turn, "disturbed", False)
    told = []
    for busy in (False, True):
        rounds = Rounds(np.ones((9, 2)), busy)
        monkeypatch.setattr(run, "take_turns", lambda *_, rounds=rounds: rounds)
        (found,) = run_study(plan, place, tmp_path / str(busy)).results
        told.append(found.notes)
    assert told == [(), (BUSY,)]


def test_a_gpu_is_charged_by_its_own_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    spent: dict[str, Metric | None] = {"rapl": exact(3.0, "mJ"), "nvml": exact(5.0, "mJ")}
    for name in spent:
        monkeypatch.setattr(energy, f"{name}_counter", lambda name=name: Counter(name, int))
    monkeypatch.setattr(run, "contender_energy", lambda counter, *rest: spent[counter.name])

    def charged(hardware: str) -> Metric | None:
        return run._energy(mock.Mock(), mock.Mock(hardware=hardware), mock.Mock())

    assert [charged(hardware) for hardware in ("cpu:2", "cuda", "opencl")] == [*spent.values(), None]
    spent["nvml"] = None  # it stood still
    assert charged("cuda") is None
