"""A study file becomes cells; what is wrong in it is named by line and nearest word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensmith.cli.study import study
from tensmith.errors import UsageError
from tensmith.study.plan import (
    LADDERS,
    TrainingBudget,
    cells,
    data_expanded,
    expected_seconds,
    read_plan,
    rung,
)

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "study"
SMALL = """name: small
datasets:
  - {name: digits, data: "npz:digits.npz"}
models:
  - {name: net, path: net.onnx, dataset: digits}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "study.yaml"
    path.write_text(text)
    return path


def test_the_grid_of_the_issue_has_its_cells() -> None:
    plan = read_plan(EXAMPLES / "cifar.yaml")
    found = cells(plan)
    grid = [cell for cell in found if cell.algorithm != "any"]
    assert len({cell.id for cell in grid}) == len(grid) == 4 * 5 * 3 * 2
    assert expected_seconds(plan, found, {}) < 3 * 3600
    assert expected_seconds(plan, found[:10], {"untuned": [2.0, 4.0], "tuned": [3.0]}) < 10 * 3 + 40


def test_a_name_alone_is_the_paper_s_ladder_and_other_layers_make_no_senseless_cells(tmp_path: Path) -> None:
    text = SMALL + "optimizations: [none, weight_pruning]\nalgorithms: [any, sparse]\n"
    plan = read_plan(written(tmp_path, text + "systems: [untuned, openvino]\nhardware: [cpu, opencl]\n"))
    found = {(c.optimization, c.algorithm, c.system, c.hardware) for c in cells(plan)}
    assert {o for o, *_ in found} == {"none", *(f"weight_pruning:{p}" for p in LADDERS["weight_pruning"])}
    assert not any(a == "sparse" and (o == "none" or s == "openvino") for o, a, s, _ in found)
    assert not any(h == "opencl" and s == "openvino" for _, _, s, h in found)


def test_ids_stay_when_a_plan_grows_and_change_with_what_figures_depend_on(tmp_path: Path) -> None:
    (cell,) = cells(read_plan(written(tmp_path, SMALL)))
    grown = cells(read_plan(written(tmp_path, SMALL + "optimizations: [int8, none]\n")))
    assert cell.id in [other.id for other in grown] and len(grown) == 2
    (other,) = cells(read_plan(written(tmp_path, SMALL + "method: {runs: 10}\n")))
    assert other.id != cell.id and other.words == cell.words


def test_what_an_optimization_leaves_may_be_trained(tmp_path: Path) -> None:
    text = SMALL + "optimizations: [none, trained: [int8, weight_pruning: [80, 95]]]\n"
    plan = read_plan(written(tmp_path, text + "algorithms: [any, sparse]\ntraining: {seconds: 30}\n"))
    names = [f"trained:weight_pruning:{amount}" for amount in (80, 95)]
    assert plan.optimizations == ("none", "trained:int8", *names)
    assert [rung(name) for name in plan.optimizations[1:3]] == [
        ("trained:int8", None),
        ("trained:weight_pruning", 80),
    ]
    assert {c.optimization for c in cells(plan) if c.algorithm == "sparse"} == set(names)
    longer = plan.model_copy(update={"training": TrainingBudget(seconds=60)})
    changed = {c.optimization for c in cells(plan)} - {
        c.optimization for c in cells(longer) if c in set(cells(plan))
    }
    assert changed == {"trained:int8", *names}
    assert expected_seconds(longer, cells(longer), {}) - expected_seconds(plan, cells(plan), {}) == 3 * 30


def test_filters(tmp_path: Path) -> None:
    text = SMALL + "optimizations: [none, {weight_pruning: [50, 90]}]\nsystems: [untuned, onnxruntime]\n"
    chosen = text + "only: [{optimization: 'weight_*'}]\nexclude: [{optimization: '*:90', system: untuned}]\n"
    found = [(c.optimization, c.system) for c in cells(read_plan(written(tmp_path, chosen)))]
    assert found == [
        ("weight_pruning:50", "untuned"),
        ("weight_pruning:50", "onnxruntime"),
        ("weight_pruning:90", "onnxruntime"),
    ]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("optimizatons: [none]\n", ("study.yaml:6", "did you mean 'optimizations'?")),
        ("optimizations:\n  - none\n  - wieght_pruning: 50\n", ("study.yaml:6", "'weight_pruning'")),
        ("optimizations: [{weight_pruning: 120}]\n", ("study.yaml:6", "'120' is no whole per cent")),
        ("optimizations: [trained: [none]]\n", ("study.yaml:6", "leaves nothing to train")),
        ("optimizations: [trained]\n", ("study.yaml:6", "no optimization 'trained'")),
        ("optimizations: [trained: [int9]]\n", ("study.yaml:6", "did you mean 'int8'")),
        ("optimizations: [{weight_pruning: ²}]\n", ("study.yaml:6", "'²' is no whole per cent")),
        ("hardware: ['cpu:²']\n", ("study.yaml:6", "'²' is no number of threads")),
        ("systems: [tunned]\n", ("study.yaml:6", "did you mean 'tuned'?")),
        ("hardware: ['cpu:none']\n", ("study.yaml:6", "no number of threads")),
        ("hardware: ['estimated:cortex-a7']\n", ("study.yaml:6", "target")),
        ("method:\n  runs: 5\n  second: 1\n", ("study.yaml:8", "did you mean 'seconds'?")),
        ("\nexclude:\n  - {model: nett}\n", ("study.yaml:8", "did you mean 'net'?")),
        ("seed: [\n", ("no YAML",)),
        ("hardware: [{cuda: 0}]\n", ("study.yaml:6", "is called cuda")),
        ("optimizations: [[none]]\n", ("study.yaml:6", "a list inside a list")),
        ("optimizations: [!!set {none}]\n", ("study.yaml:6", "must be text")),
        ("systems: [onnxruntime]\nhardware: ['estimated:host']\n", ("study.yaml:6", "no cell")),
    ],
)
def test_a_typo_is_named_by_line_and_nearest_word(tmp_path: Path, more: str, words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as raised:
        read_plan(written(tmp_path, SMALL + more))
    assert all(word in str(raised.value) for word in words), raised.value


def test_a_name_is_that_of_a_folder_here(tmp_path: Path) -> None:
    name = next(line for line in SMALL.splitlines() if line.startswith("name:"))
    with pytest.raises(UsageError, match=r"yaml:1: '\.\./x' is no name"):
        read_plan(written(tmp_path, SMALL.replace(name, "name: ../x")))
    with pytest.raises(UsageError, match="is no name"):
        read_plan(written(tmp_path, SMALL.replace(name, r'name: "a\0b"')))


def test_a_function_that_gives_data_is_found_as_python_finds_it(tmp_path: Path) -> None:
    assert data_expanded("python:my_data:load", tmp_path) == "python:my_data:load"
    assert data_expanded("npz:a.npz", tmp_path) == f"npz:{tmp_path / 'a.npz'}"


def test_a_dry_run_names_what_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = study(written(tmp_path, SMALL), dry_run=True)
    model, data = answer.document["missing"]
    assert model.startswith("the model ") and "onnx" in model and "digits.npz" in data
    assert [str(line).startswith("Cells would fail: the ") for line in answer.shown] == [False, True, True]


def test_a_study_file_runs_no_code_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_study_data.py").write_text("open('ran', 'w')\n")
    named = "python:own_study_data:load"
    file = written(tmp_path, SMALL.replace("npz:digits.npz", named))
    with pytest.raises(UsageError, match=rf"study\.yaml would run code for its data, {named}; .* --data"):
        study(file, dry_run=True)
    with pytest.raises(UsageError, match=rf"no data 'python:own:load' for --data; did you mean '{named}'"):
        study(file, data=["python:own:load"], dry_run=True)
    assert not (tmp_path / "ran").exists()
    assert study(file, data=[named], dry_run=True).document["left"] == 1


def test_a_model_for_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"yaml:5: no dataset 'digit'; did you mean 'digits'"):
        read_plan(written(tmp_path, SMALL.replace("dataset: digits", "dataset: digit")))


def test_no_code_comes_out_of_a_study_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read_plan(written(tmp_path, SMALL + "seed: !!python/object/apply:os.getpid []\n"))
