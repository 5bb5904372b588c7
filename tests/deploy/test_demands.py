"""Runs that were told what to leave: layers kept to the bit, few methods, a plan to start from."""

from __future__ import annotations

import importlib.util
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

import tensmith
from command_line import candidates, refused
from command_line import tensmith as command
from lossy_samples import Interpreted
from tensmith.errors import MissingExtra, OutputError, UsageError
from tensmith.frontend.onnx import read_onnx
from tensmith.preview import preview
from tensmith.rewrite.archives import read_trained
from tensmith.rewrite.kept import Covered
from tensmith.search.allowed import Allowed
from tensmith.search.builder import Builder
from tensmith.search.candidate import Candidate
from tensmith.search.demands import SearchDemands
from tensmith.search.plan import Plan
from tensmith.search.plan_file import demand_fitting, read_plan_file
from tensmith.search.strategy import ALWAYS_TRIED
from tensmith.verify.files import PLAN_FILE

OPTIONS: dict[str, Any] = {"engines": ("onnxruntime",), "max_drop": 100, "prefer": "size"}
# What one layer after the other multiplies by, and adds.
SIZES = (16, 32, 64, 4)


def save_perceptron(folder: Path) -> None:
    """m.onnx of three layers, called one, two and three, and its answers to random rows in m.npz."""
    random, nodes, arrays = np.random.default_rng(3), [], []
    for number, (wide, high) in enumerate(itertools.pairwise(SIZES)):
        name, source, last = ("one", "two", "three")[number], f"r{number}" if number else "x", number == 2
        weights = random.standard_normal((wide, high)) / np.sqrt(wide)
        shifts = random.standard_normal(high) / 4
        arrays += [(f"{name}.weight", weights), (f"{name}.bias", shifts)]
        inputs, output = [source, f"{name}.weight", f"{name}.bias"], "y" if last else f"{name}_out"
        nodes.append(helper.make_node("Gemm", inputs, [output], name=name))
        nodes += [] if last else [helper.make_node("Relu", [output], [f"r{number + 1}"])]
    graph = helper.make_graph(
        nodes, "perceptron",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", SIZES[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", SIZES[-1]])],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.save(model, folder / "m.onnx")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rows = random.standard_normal((240, SIZES[0])).astype(np.float32)
    np.savez(folder / "m.npz", x=rows, y=np.asarray(session.run(None, {"x": rows})[0]).argmax(axis=1))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with m.onnx and m.npz; for reading only."""
    folder = tmp_path_factory.mktemp("perceptron")
    save_perceptron(folder)
    return folder


def compressed(place: Path, out: Path, **options: Any) -> Path:
    given = {**OPTIONS, "time_budget": 2, **options}
    tensmith.compress(place / "m.onnx", f"npz:{place / 'm.npz'}", output=out, **given)
    return out


def numbers(file: Path) -> dict[str, bytes]:
    """The tensors of a model file, by name."""
    model = onnx.load(file)
    return {each.name: numpy_helper.to_array(each).tobytes() for each in model.graph.initializer}


def points(out: Path) -> list[Path]:
    return [out / "best", *sorted((out / "candidates").iterdir())]


def tried(out: Path) -> list[Candidate]:
    return [Candidate.from_json(json.loads(body)) for _, _, body in candidates(out)]


def leaves(file: Path, original: Path, layer: str) -> bool:
    """Whether a model holds a layer of another, bit by bit."""
    ours, theirs = numbers(file), numbers(original)
    return all(ours.get(f"{layer}.{part}") == theirs[f"{layer}.{part}"] for part in ("weight", "bias"))


@pytest.fixture(scope="module")
def kept(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that keeps the layer in the middle; for reading only."""
    return compressed(place, tmp_path_factory.mktemp("kept") / "out", keep="two")


def test_a_kept_layer_is_the_same_numbers_in_every_point(kept: Path, place: Path) -> None:
    files = [point / "model.onnx" for point in points(kept)]
    assert len(files) > 2 and all(leaves(file, place / "m.onnx", "two") for file in files)
    assert not any(leaves(kept / "best" / "model.onnx", place / "m.onnx", name) for name in ("one", "three"))


def test_what_is_kept_is_told(kept: Path) -> None:
    report = json.loads((kept / "report.json").read_text())
    assert any("no lossy method was to change two_out" in note.lower() for note in report["notes"])
    treated = {row["name"]: row["treatment"] for row in report["layers"]}
    assert treated["two_out"] == "kept as it is" and "kept" not in treated["y"]
    assert yaml.safe_load((kept / "config.yaml").read_text())["keep"] == ["two"]
    assert all(read_plan_file(point / PLAN_FILE).content.keep == ("two_out",) for point in points(kept))


def test_without_keep_the_layer_changes(place: Path, tmp_path: Path) -> None:
    """The wrong twin: the check of the numbers can fail."""
    out = compressed(place, tmp_path / "out")
    assert not all(leaves(point / "model.onnx", place / "m.onnx", "two") for point in points(out))


def test_a_search_that_forgets_what_is_kept_ships_nothing_lossy(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The builder asks by itself: plans that came by without the space's word fail, with the reason."""
    monkeypatch.setattr(Allowed, "fitted", lambda self, plan: plan)
    out = compressed(place, tmp_path / "out", keep="two")
    lossy = [candidate for candidate in tried(out) if not candidate.plan.is_exact]
    assert lossy and {candidate.status for candidate in lossy} == {"failed"}
    assert all("does not leave 'two_out' as it is" in candidate.reason for candidate in lossy)
    assert all(leaves(point / "model.onnx", place / "m.onnx", "two") for point in points(out))


def test_a_step_that_names_a_kept_layer_and_changes_it_is_found_out(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And looks at the numbers: it is enough that one method got its hands on the weights."""
    monkeypatch.setattr(Covered, "of", lambda whole, sites: Covered(whole, {}, tuple(whole.constants)))
    out = compressed(place, tmp_path / "out", keep="two")
    lossy = [candidate for candidate in tried(out) if not candidate.plan.is_exact]
    assert lossy and all("changes 'two_out', which is to be kept" in each.reason for each in lossy)


def test_a_runs_plan_is_what_the_next_run_starts_from(kept: Path, place: Path, tmp_path: Path) -> None:
    """Tried right after the forms that always are, with what it keeps; and the search goes on from there."""
    begun = kept / "best" / PLAN_FILE
    out = compressed(place, tmp_path / "out", plan=begun)
    plan = read_plan_file(begun).content.plan()
    assert [each.plan for each in tried(out)].index(plan) <= ALWAYS_TRIED
    assert all(leaves(point / "model.onnx", place / "m.onnx", "two") for point in points(out))
    report = json.loads((out / "report.json").read_text())
    assert "The search began with the plan in plan.yaml." in report["notes"]
    written = {read_plan_file(point / PLAN_FILE).content.plan() for point in points(out)}
    assert written <= {each.plan for each in tried(out)}
    (tmp_path / "other.yaml").write_text(begun.read_text() + "\n# and another word\n")
    with pytest.raises(OutputError, match="another plan"):
        compressed(place, out, plan=tmp_path / "other.yaml", resume=True)
    with pytest.raises(OutputError, match="another keep"):
        compressed(place, out, plan=begun, keep=["one"], resume=True)


PLANS = {
    "keep: [twoo]": "no layer 'twoo' to keep; did you mean 'two'",
    "only: [int9]": ":1: only: there is no lossy method 'int9'; did you mean 'int8'",
    "kep: [two]": ":1: there is no 'kep' here; did you mean 'keep'",
    "steps:\n- rule: int8\n- rule: prunning": ":3: .*no lossy method 'prunning'",
    "steps:\n- {rule: int8, parms: {}}": ":2: there is no 'parms' here; did you mean 'params'",
    "steps:\n- {rule: int8, site: two_out}": ":2: 'int8' has nothing to do at 'two_out'; .*[*]",
    "steps:\n- {rule: low_rank, site: two_oot, params: {rank: 2}}": "at 'two_oot'; did you mean 'two_out'",
    "steps:\n- {rule: int8, params: {callibration: mse}}": "no parameter callibration; did you mean 'calibr",
    "steps:\n- {rule: int8, params: {calibration: best}}": "calibration is 'best'; choose one of",
    "steps:\n- {rule: int8, params: {skip: [too_out]}}": "no layer 'too_out' for skip; did you mean 'two",
    "steps:\n- {rule: int8, params: {skip: [[two]]}}": r"no layer '\['two'\]' for skip",
    "steps:\n- {rule: int8, params: {weight_only: [too_out]}}": "no layer 'too_out' for weight_only; did you",
    "steps:\n- {rule: weight_only, params: {bits: {twos: 4}}}": "no layer 'twos' for bits",
    "steps:\n- {rule: weight_only, params: {bits: 4}}": "bits is 4; give whole numbers by layer",
    "steps:\n- {rule: weight_only, params: {skip: 4}}": "skip is 4; give a list of layers",
    "keep: [two]\nsteps:\n- {rule: weight_only, params: {skip: 4}}": ":3: .*skip is 4; give a list of layers",
    "steps:\n- {rule: int8, params: {kept: 4}}": ":2: .*kept is 4; give a list of layers",
    "steps:\n- {rule: int8, params: {kept: null}}": ":2: .*kept is None; give a list of layers",
    "steps:\n- {rule: int8, params: {kept: two_out}}": ":2: .*kept is 'two_out'; give a list of layers",
    "keep: [two]\nsteps:\n- {rule: int8, params: {kept: 4}}": ":3: .*kept is 4; give a list of layers",
    "steps:\n- {rule: weight_only, params: {default_bits: 77}}": "77",
    "steps:\n- {rule: int8, params: {day: 2020-01-01}}": ":2: steps.0.params.day",
    "steps:\n- {rule: commute, kind: exact}": "no exact rule 'commute'",
    "keep: [two]\nsteps:\n- {rule: low_rank, site: two_out, params: {rank: 2}}": ":3: 'two_out' is to be",
    "only: [int8]\nsteps:\n- {rule: half}": ":3: 'half' is none of the methods that --only names: int8",
    "keep: [two]\nsettings: {precision: bf16}": ":2: precision rounds in every layer",
    "settings: {presision: bf16}": "no setting 'presision'; did you mean 'precision'",
    "settings: {engine: tensorflow}": "no engine 'tensorflow'",
    "steps: []\nsettings: {engine: cuda}": ":2: engine 'cuda' is none of the run's: onnxruntime, native",
    "steps: !!python/object/apply:os.getpid []": "is no YAML",
    "- int8": "is not a plan; give a plan.yaml",
    "": "is not a plan; give a plan.yaml",
    "steps: 3": ":1: steps must be a list, not 3",
    "steps:\n- rule: recover\n"
    "  params: {weights: %s, original: x, data: x, samples: 1, steps: 1, batch: 1, seed: 0, rate: 0}"
    % ("a" * 64): ":2: the trained weights a+ are not at hand",
}  # fmt: skip


class Untrained(Interpreted):
    """No weights of training are kept."""

    def trained(self, weights: str) -> Mapping[str, Any]:
        return read_trained(None, weights)


@pytest.mark.parametrize("text", PLANS)
def test_a_plan_that_does_not_fit_is_refused(text: str, place: Path, tmp_path: Path) -> None:
    """In one sentence that names what is wrong."""
    file, original = tmp_path / "p.yaml", read_onnx(place / "m.onnx")
    file.write_text(text)
    builder = Builder(place / "m.onnx", original, tmp_path, Untrained())
    with pytest.raises(UsageError, match=PLANS[text]):
        demands = SearchDemands.of((), (), str(file))
        builder.allowed = demands.allowed(original, builder.program(Plan()).program, False)
        assert demands.text is not None
        demand_fitting(demands.text, builder, ("onnxruntime", "native"))


def test_a_run_that_is_refused_leaves_nothing_behind(place: Path, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("steps:\n- {rule: low_rank, site: two, params: {rank: 2}}")
    with pytest.raises(UsageError, match=":2: 'low_rank' has nothing to do at 'two'; did you mean 'two_out'"):
        compressed(place, tmp_path / "out", plan=tmp_path / "p.yaml")
    assert not (tmp_path / "out").exists()


def test_a_dry_run_refuses_the_plans_that_the_run_does(place: Path, tmp_path: Path) -> None:
    plan, given = tmp_path / "p.yaml", (place / "m.onnx", f"npz:{place / 'm.npz'}")
    plan.write_text("steps:\n- {rule: low_rank, site: two, params: {rank: 2}}")
    with pytest.raises(UsageError, match=":2: 'low_rank' has nothing to do at 'two'; did you mean 'two_out'"):
        preview(*given, plan=plan, **OPTIONS)
    plan.write_text("steps:\n- {rule: int8}")
    assert any("int8" in seed for seed in preview(*given, plan=plan, only="int8", **OPTIONS)["seeds"])
    assert [item.name for item in tmp_path.iterdir()] == ["p.yaml"]


@pytest.mark.parametrize("options", [{"recover": 60}, {"search": "saturation"}], ids=str)
def test_a_dry_run_refuses_what_cannot_run_here(
    options: dict[str, Any], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra):
        preview(place / "m.onnx", f"npz:{place / 'm.npz'}", **OPTIONS, **options)


def test_a_plan_of_aliases_is_refused(tmp_path: Path) -> None:
    """Nine lines that stand for nine to the ninth entries."""
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    (tmp_path / "p.yaml").write_text("\n".join(lines))
    with pytest.raises(UsageError, match="stands for more than"):
        read_plan_file(tmp_path / "p.yaml")


def test_commands_say_what_is_unknown(place: Path, tmp_path: Path) -> None:
    begin = ("compress", place / "m.onnx", "--data", f"npz:{place / 'm.npz'}")
    refused(command(*begin, "--only", "int9", folder=tmp_path), 2, "int9", "int8", "weight_only")
    refused(command(*begin, "--keep", "tow", folder=tmp_path), 2, "'tow'", "'two'", "tensmith explain")
    refused(command(*begin, "--plan", "none.yaml", folder=tmp_path), 2, "none.yaml does not exist")
    shown = command(*begin, "--keep", "t*", "--only", "int8", "--dry-run", folder=tmp_path).stdout
    assert "No lossy method was to change two_out, y." in shown and "weight_only" not in shown
