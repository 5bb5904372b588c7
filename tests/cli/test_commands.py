"""The commands on a finished run of a tiny model, each as a user types it."""

from __future__ import annotations

import importlib.metadata
import json
import math
import re
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx
import pytest
import yaml

from command_line import QUICK, contents, read_json, refused, tensmith
from opencl_device import NO_OPENCL
from tensmith import load, registry
from tensmith.backend.packed import container, pack
from tensmith.cli import bench, doctor, explain, rules, study
from tensmith.cli.pack import pack as pack_command
from tensmith.cli.writing import refuse_existing, write_unless_other
from tensmith.engine import ENGINES, selftest
from tensmith.errors import OutputError, UsageError
from tensmith.evaluate import bench as timing
from tensmith.report.schema import validate_front


def document(*arguments: str | Path, folder: Path, code: int = 0) -> Any:
    """What a command prints under --json, which is all of its stdout."""
    result = tensmith(*arguments, "--json", folder=folder)
    assert result.returncode == code, result.stderr or result.stdout
    assert result.stderr == ""
    return json.loads(result.stdout)


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished run, to be written to."""
    return Path(shutil.copytree(finished, tmp_path / "out"))


def test_a_run_leaves_what_the_contract_says(finished: Path) -> None:
    front = read_json(finished / "front.json")
    validate_front(front)
    assert {"report.html", "front.json", "run.sqlite", "config.yaml", "best", "candidates"} <= {
        item.name for item in finished.iterdir()
    }
    assert front["schema"] == 3 and front["budget"]["accuracy_drop"] > 0
    for number, point in enumerate(front["points"]):
        lost = point["metrics"]["accuracy_drop"]["value"]
        assert not point["within_budget"] or lost <= front["budget"]["accuracy_drop"]
        folder = finished / "candidates" / f"{number:03d}"
        assert {item.name for item in folder.iterdir()} == set(point["files"])


def test_long_names_do_not_widen_every_row(tmp_path: Path) -> None:
    names = ["a" * 100_000, *(f"w{number}" for number in range(20))]
    tensors = [onnx.numpy_helper.from_array(np.ones(4, np.float32), name) for name in names]
    nodes = [onnx.helper.make_node("Sum", names, ["y"])]
    end = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4])
    graph = onnx.helper.make_graph(nodes, "g", [], [end], tensors)
    opsets = [onnx.helper.make_opsetid("", 19)]
    onnx.save(onnx.helper.make_model(graph, ir_version=9, opset_imports=opsets), tmp_path / "m.onnx")
    assert tensmith("pack", "m.onnx", "m.packed", folder=tmp_path).returncode == 0
    shown = tensmith("inspect", "m.packed", folder=tmp_path)
    assert shown.returncode == 0 and max(map(len, shown.stdout.splitlines())) < 200


def test_what_an_option_does_not_concern_is_said(tmp_path: Path, tiny: Path) -> None:
    model = tiny / "tiny.onnx"
    for arguments, words in (
        (("convert", model, "b.onnx", "--like", "c.gguf"), "--like is for a .gguf DST"),
        (("quantize", model, "b.onnx", "--bits", "8", "--block", "64"), "--block is for weights of 4 bits"),
        (("init", model, "--look", "no/such"), "is no folder"),
        (("diff", model, model, "--seed", "-1"), "--seed is a whole number"),
        (("diff", model, model, "--tolerance", "nan"), "--tolerance is a number"),
        (("bench", model, "--sizes", f"n={'9' * 5000}"), "is no size"),
        (("bench", model, "--sizes", "n=1,n=2"), "--sizes names 'n' twice"),
        (("cache", "."), ". gives DST no name"),
        (("rules", "--discover", "--vocabulary", "x", "--ops", "add"), "--vocabulary and --ops both say"),
    ):
        refused(tensmith(*arguments, folder=tmp_path), 2, words)


def test_a_run_is_repeated_from_its_configuration(finished: Path, tmp_path: Path) -> None:
    arguments = ("compress", "--config", finished / "config.yaml", "--dry-run", "--seed", "3")
    again = document(*arguments, folder=finished.parent)
    stored = yaml.safe_load((finished / "config.yaml").read_text())
    assert again["config"] == {**stored, "seed": 3}


def test_a_resumed_run_asks_what_it_was_begun_with(finished: Path, tiny: Path, tmp_path: Path) -> None:
    """Named again, its model may lie elsewhere."""
    moved = shutil.copyfile(tiny / "tiny.onnx", tmp_path / "moved.onnx")
    arguments = ("compress", moved, "--resume", "--output", finished, "--prefer", "latency", "--dry-run")
    again = document(*arguments, folder=finished.parent)
    stored = yaml.safe_load((finished / "config.yaml").read_text())
    assert again["config"] == {**stored, "model": str(moved), "prefer": "latency"}
    refused(
        tensmith("compress", moved, "--resume", folder=tmp_path), 1, "tensmith-out holds no run to resume"
    )


def test_a_dry_run_writes_nothing(tiny: Path, tmp_path: Path) -> None:
    for name in ("tiny.onnx", "tiny.npz"):
        shutil.copyfile(tiny / name, tmp_path / name)
    before = contents(tmp_path)
    arguments = ("compress", "tiny.onnx", "--data", "npz:tiny.npz", "--dry-run")
    planned = document(*arguments, "--engines", "onnxruntime", folder=tmp_path)
    assert contents(tmp_path) == before
    assert [layer["op"] for layer in planned["layers"]] == ["conv", "gemm"]
    assert planned["nodes"]["read"] == 5
    assert planned["preprocess"] == "raw"
    assert planned["engines"] == ["onnxruntime"]
    assert planned["seeds"][:2] == ["the model as it came", "exact rewrites alone"]
    shown = tensmith(*arguments, folder=tmp_path)
    assert shown.stdout.endswith("Nothing was written.\n")


def test_a_dry_run_refuses_the_folders_that_the_run_does(finished: Path) -> None:
    before = contents(finished)
    begin = ("compress", "--config", finished / "config.yaml", "--output", finished, "--dry-run")
    refused(tensmith(*begin, folder=finished.parent), 1, "holds a run already")
    refused(tensmith(*begin, "--resume", "--seed", "3", folder=finished.parent), 1, "made with another seed")
    refused(tensmith(*begin, "--resume", "--output", "no", folder=finished.parent), 1, "no run to resume")
    assert tensmith(*begin, "--resume", "--time-budget", "2m", folder=finished.parent).returncode == 0
    assert contents(finished) == before


def test_compress_shows_the_front_and_where_it_is(tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("compress", "tiny.onnx", "--data", "npz:tiny.npz", *QUICK, "--output", out)
    found = document(*arguments, folder=tiny)
    assert found["front"] == read_json(out / "front.json")
    assert found["chosen"] in [point["id"] for point in found["front"]["points"]]
    assert not found["interrupted"]

    result = tensmith(*arguments, "--resume", folder=tiny)
    assert result.returncode == 0
    assert result.stderr == ""  # no progress where there is no terminal
    assert "speed-up" in result.stdout
    assert str(out / "report.html") in result.stdout


def test_report_writes_the_page_again(copy: Path) -> None:
    page = copy / "report.html"
    before = page.read_bytes()
    page.unlink()
    result = tensmith("report", "out", folder=copy.parent)
    assert result.returncode == 0, result.stderr
    assert page.read_bytes() == before
    assert "speed-up" in result.stdout
    assert document("report", "out", folder=copy.parent)["front"] == read_json(copy / "front.json")


def test_a_runs_folder_is_loaded_as_its_best_point(copy: Path) -> None:
    assert load(copy).path == load(copy / "best").path


def test_a_certified_folder_is_loaded_itself_whatever_else_lies_in_it(copy: Path) -> None:
    shutil.copytree(copy / "best", copy / "best" / "best")
    shutil.copy(copy / "front.json", copy / "best")
    assert load(copy / "best").path.parent == copy / "best"


def test_report_draws_the_front(copy: Path) -> None:
    pytest.importorskip("matplotlib")
    result = tensmith("report", "out", "--figure", "front.svg", folder=copy.parent)
    assert result.returncode == 0 and "front.svg" in result.stdout
    assert (copy.parent / "front.svg").read_bytes().startswith(b"<?xml")


def test_verify_the_best_point_and_refuse_a_changed_one(copy: Path, tiny: Path) -> None:
    arguments = ("verify", "out/best", "--original", tiny / "tiny.onnx")
    assert document(*arguments, folder=copy.parent)["ok"]
    result = tensmith(*arguments, folder=copy.parent)
    assert result.returncode == 0
    assert "no claim is false" in result.stdout

    model = copy / "best" / "model.onnx"
    model.write_bytes(model.read_bytes() + b"\n")
    refused(tensmith(*arguments, folder=copy.parent), 1, "model.onnx", "SHA-256")


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1"])
def test_verify_takes_time_that_is_a_number(finished: Path, seconds: str) -> None:
    best = finished / "best"
    refused(
        tensmith("verify", best, "--seconds", seconds, folder=finished), 2, "--seconds is a number from 0"
    )


def test_what_is_packed_can_be_looked_at_and_unpacked(tmp_path: Path, tiny: Path) -> None:
    model = (tiny / "tiny.onnx").read_bytes()
    (tmp_path / "mine.onnx").write_bytes(model)
    made = document("pack", "mine.onnx", folder=tmp_path)
    assert made["path"] == "mine.packed" and made["bytes"] < made["model_bytes"] == len(model)
    assert (tmp_path / "mine.packed").read_bytes() == pack(model)
    refused(tensmith("pack", "mine.packed", "new.packed", folder=tmp_path), 1, "packed already")
    refused(tensmith("diff", "mine.onnx", "mine.packed", folder=tmp_path), 1, "tensmith unpack mine.packed")
    for command in ("unpack", "inspect"):
        words = ("mine.onnx is an ONNX file", "tensmith explain mine.onnx")
        refused(tensmith(command, "mine.onnx", folder=tmp_path), 1, *words)
    found = document("inspect", "mine.packed", folder=tmp_path)
    weights = {
        tensor.name: list(tensor.dims) for tensor in onnx.load(tmp_path / "mine.onnx").graph.initializer
    }
    assert {row["name"]: row["shape"] for row in found["tensors"]}.items() >= weights.items()
    spent = sum(row["bits"] * math.prod(row["shape"]) for row in found["tensors"]) / 8
    assert 0.5 * found["bytes"] < spent < found["bytes"] == made["bytes"]
    assert found["rest_bytes"] == pytest.approx(found["bytes"] - spent, abs=1)
    skeleton, *_ = container.read((tmp_path / "mine.packed").read_bytes(), len(model)).stored
    assert skeleton < found["rest_bytes"] < skeleton + 100  # and the header


@pytest.mark.parametrize("command", ["pack", "cache", "convert", "quantize"])
def test_a_model_is_never_written_over_itself(command: str, tiny: Path, tmp_path: Path) -> None:
    shutil.copyfile(tiny / "tiny.onnx", tmp_path / "mine.onnx")
    before = contents(tmp_path)
    (tmp_path / "link.onnx").symlink_to("mine.onnx")
    for name in ("mine.onnx", "link.onnx"):
        result = tensmith(command, "mine.onnx", name, "--force", folder=tmp_path)
        refused(result, 1, f"{name} is the file that is read", "another DST")
    assert {**before, "link.onnx": before["mine.onnx"]} == contents(tmp_path)


def test_a_file_that_is_no_packed_one_is_refused_before_anything_is_packed(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tensmith.backend.packed.pack", lambda model: pytest.fail("packed"))
    (tmp_path / "m.packed").write_text("mine")
    with pytest.raises(OutputError, match=r"m\.packed exists and is another file"):
        pack_command(tiny / "tiny.onnx", tmp_path / "m.packed")


def test_a_packed_file_that_is_larger_is_not_called_smaller(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tensmith.backend.packed.pack", lambda model: model + b"more")
    (told,) = pack_command(tiny / "tiny.onnx", tmp_path / "m.packed").shown
    assert "which saves nothing" in told and "smaller" not in told


def test_weights_outside_are_not_packed(tmp_path: Path, tiny: Path) -> None:
    model = onnx.load(tiny / "tiny.onnx")
    onnx.save(model, tmp_path / "two.onnx", save_as_external_data=True, location="two.data", size_threshold=0)
    refused(tensmith("pack", "two.onnx", folder=tmp_path), 1, "two.data", "weights inside")
    assert not (tmp_path / "two.packed").exists()


def test_unpack_gives_the_measured_file_back(tmp_path: Path, tiny: Path) -> None:
    model = (tiny / "tiny.onnx").read_bytes()
    (tmp_path / "tiny.packed").write_bytes(pack(model))
    found = document("unpack", "tiny.packed", folder=tmp_path)
    assert found["path"] == "tiny.onnx"
    assert (tmp_path / "tiny.onnx").read_bytes() == model
    assert tensmith("unpack", "tiny.packed", folder=tmp_path).returncode == 0  # the same file stands there
    (tmp_path / "tiny.onnx").write_text("old")
    assert tensmith("unpack", "tiny.packed", "--force", folder=tmp_path).returncode == 0
    assert (tmp_path / "tiny.onnx").read_bytes() == model


def test_weights_beside_what_is_written_alone_are_nobodys_business(tmp_path: Path) -> None:
    place = tmp_path / "m.packed"
    place.with_name("m.packed.data").write_bytes(b"of another")
    write_unless_other(place, b"new", force=False)
    with pytest.raises(OutputError, match=r"m\.packed exists and is another file"):
        write_unless_other(place, b"newer", force=False)
    with pytest.raises(OutputError, match=r"m\.packed\.data exists; name another DST"):
        place.unlink()
        refuse_existing(place, force=False)


def test_bench_takes_onnx_and_packed_files(tiny: Path, tmp_path: Path) -> None:
    shutil.copyfile(tiny / "tiny.onnx", tmp_path / "tiny.onnx")
    (tmp_path / "tiny.packed").write_bytes(pack((tiny / "tiny.onnx").read_bytes()))
    arguments = ("bench", "tiny.onnx", "tiny.packed", "--engines", "onnxruntime", "--seconds", "0.5")
    found = document(*arguments, folder=tmp_path)
    assert [model["path"] for model in found["models"]] == ["tiny.onnx", "tiny.packed"]
    first, second = (model["engines"][0] for model in found["models"])
    assert first["engine"] == "onnxruntime"
    assert first["ratio"]["value"] == 1
    assert set(second["latency_ms"]) == {"value", "low", "high", "unit", "evidence"}
    assert "tiny.packed" in tensmith(*arguments, folder=tmp_path).stdout


@pytest.mark.parametrize(
    ("engines", "failing", "code"),
    [("a,b", {"b"}, 1), (None, {"b"}, 0), (None, {"a", "b"}, 1), ("a,b", (), 0)],
)
def test_bench_fails_by_an_engine_that_was_named_or_by_all(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, engines: str | None, failing: set[str], code: int
) -> None:
    timed = {"latency_ms": None, "ratio": None, "tail": {"p95_ms": None, "p99_ms": None, "runs": 7}}
    rows = [{"engine": name, **({"error": "no"} if name in failing else timed)} for name in "ab"]
    models = [{"path": str(tiny / "tiny.onnx"), "engines": rows}]
    found = mock.Mock(busy=False, to_json=lambda: {"models": models})
    monkeypatch.setattr(timing, "bench", lambda *_: found)
    assert bench.bench([tiny / "tiny.onnx"], engines).exit_code == code


@pytest.mark.parametrize("options", [("--seconds", "0"), ("--threads", "0"), ("--engines", ",")])
def test_bench_refuses_bad_values(tiny: Path, options: tuple[str, str]) -> None:
    refused(tensmith("bench", "tiny.onnx", *options, folder=tiny), 2)


def test_explain_a_run(finished: Path) -> None:
    found = document("explain", "done", folder=finished.parent)
    assert [row["op"] for row in found["layers"]] == ["conv", "gemm"]
    assert all(row["treatment"] for row in found["layers"])
    assert isinstance(found["near_misses"], list)
    points = [point["id"] for point in read_json(finished / "front.json")["points"]]
    assert sorted([found["chosen"], *(row["id"] for row in found["others"])]) == sorted(points)
    speed = {
        point["id"]: point["metrics"]["speedup"]["value"]
        for point in read_json(finished / "front.json")["points"]
    }
    for row in found["others"]:  # as the front tells it
        assert row["times_less"]["latency_ms"] == pytest.approx(speed[row["id"]] / speed[found["chosen"]])
    name = found["layers"][0]["name"]
    one = document("explain", "done", "--layer", name, folder=finished.parent)
    assert [row["name"] for row in one["layers"]] == [name]
    refused(tensmith("explain", "done", "--layer", "nose", folder=finished.parent), 2, "nose", name)
    shown = tensmith("explain", "done", folder=finished.parent).stdout
    assert name in shown and "What each method would save" in shown and "bytes to ship, estimated" in shown
    assert {row["layer"] for row in one["outlooks"]} == {name}
    rows = {row["method"]: row for row in found["outlooks"] if row["layer"] == name}
    assert rows["half"]["bytes_after"] * 2 == rows["half"]["bytes_before"]
    assert {row["evidence"] for row in rows.values()} == {"estimated"}
    assert all(row["evidence"] == "measured" for row in found["methods"])
    estimated = {row["name"]: row["ms_before"] for row in found["layers"]}
    assert {row["layer"]: row["ms_before"] for row in found["outlooks"]} == estimated


def test_points_are_compared_in_words() -> None:
    assert explain._compared(("faster", "slower"), 0.43) == "2.33x slower"
    assert explain._compared(("smaller", "larger"), 1.15) == "1.15x smaller"
    lost = [explain._lost({"loses_more": value, "unit": "pt"}) for value in (0.001, 0.5, -0.5)]
    assert lost == ["loses as much", "loses 0.50 pt more", "loses 0.50 pt less"]


def test_options_that_would_do_nothing_are_refused(tmp_path: Path) -> None:
    model, plan = tmp_path / "m.onnx", tmp_path / "plan.yaml"
    for words, call in (
        ("--target is for a model", lambda: explain.explain(tmp_path, target="host")),
        ("--original is for the folder of a run", lambda: explain.explain(model, original=model)),
        ("leave it out with --discover", lambda: rules.rules(family="algebra", discover=True)),
        ("say how --discover looks", lambda: rules.rules(size=3)),
        ("say how --discover looks", lambda: rules.rules(time_budget="9s")),
        ("leave out --prepare", lambda: study.study(plan, prepare=True, retry=True)),
        ("leave out --prepare", lambda: study.study(plan, prepare=True, figures=True)),
        ("leave out --prepare", lambda: study.study(plan, prepare=True, parquet=True)),
    ):
        with pytest.raises(UsageError, match=words):
            call()


def test_explain_a_run_whose_model_has_gone(copy: Path, tiny: Path) -> None:
    found = document("explain", "out", folder=copy.parent)
    assert found["near_misses"] is None and found["outlooks"] is None
    assert "--original" in found["note"]
    found = document("explain", "out", "--original", tiny / "tiny.onnx", folder=copy.parent)
    assert found["near_misses"] is not None and found["outlooks"]
    (copy / "run.sqlite").unlink()
    found = document("explain", "out", "--original", tiny / "tiny.onnx", folder=copy.parent)
    assert found["methods"] == [] and {row["divergence"] for row in found["outlooks"]} == {None}
    assert {row["ms_before"] for row in found["outlooks"]} == {None}


def test_explain_a_model(tmp_path: Path) -> None:
    """A batch norm after a convolution is merged into it; one after a shared convolution nearly is."""
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w"], ["c"]),
        onnx.helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
        onnx.helper.make_node("Conv", ["n", "w"], ["d"]),
        onnx.helper.make_node("BatchNormalization", ["d", "s", "b", "m", "v"], ["e"]),
        onnx.helper.make_node("Add", ["d", "e"], ["y"]),
    ]
    ones = {name: np.ones(3, np.float32) for name in ("s", "b", "m", "v")}
    weights = {"w": np.ones((3, 3, 1, 1), np.float32), **ones}
    graph = onnx.helper.make_graph(
        nodes,
        "normal",
        [onnx.helper.make_tensor_value_info("x", 1, [1, 3, 4, 4])],
        [onnx.helper.make_tensor_value_info("y", 1, [1, 3, 4, 4])],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)]), tmp_path / "m.onnx"
    )
    found = document("explain", "m.onnx", folder=tmp_path)
    assert found["nodes"]["read"] == 5
    assert any("batch" in row["rule"] for row in found["fired"])
    assert any(row["reason"] for row in found["near_misses"])
    assert "nearly fired" in tensmith("explain", "m.onnx", folder=tmp_path).stdout


def test_targets(tmp_path: Path) -> None:
    names = [target["name"] for target in document("targets", folder=tmp_path)["targets"]]
    assert names[0] == "host" and "raspberry-pi-5" in names
    assert document("targets", "raspberry-pi-5", folder=tmp_path)["cores"] == 4
    assert "Cortex-A76" in tensmith("targets", "raspberry-pi-5", folder=tmp_path).stdout
    refused(tensmith("targets", "toaster", folder=tmp_path), 2, "toaster", "raspberry-pi-5")
    (tmp_path / "board.txt").touch()
    refused(tensmith("targets", "board.txt", folder=tmp_path), 2, "board.txt is no .toml file")


def test_doctor_says_which_engine_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "self_test", lambda _: 1.0)
    monkeypatch.setattr(type(ENGINES["native"]), "missing", lambda _: "no C compiler is installed")
    found = doctor.doctor()
    assert "native" not in {engine["engine"] for engine in found.document["engines"]}
    assert "  native: no C compiler is installed" in found.shown
    shown = "\n".join(map(str, found.shown))
    assert "works" in shown and "Extras" in shown
    assert found.exit_code == 0


def test_doctor_tells_what_fails_of_a_plugin_and_of_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it fails as nobody meant it to: this command is what one asks then."""
    monkeypatch.setattr(registry, "plugins", lambda: [("no_such_plugin", "some-ops 1")])
    monkeypatch.setattr(registry, "_plugins_loaded", False)
    monkeypatch.setattr(ENGINES, "_discovered", False)
    half = mock.Mock(side_effect=ImportError("half of it"))
    monkeypatch.setattr(type(ENGINES["native"]), "missing", half)
    monkeypatch.setattr(type(ENGINES["openvino"]), "missing", lambda _: None)
    monkeypatch.setattr(type(ENGINES["openvino"]), "version", half)
    monkeypatch.setattr(selftest, "self_test", lambda _: 1.0)
    found = doctor.doctor()
    assert found.exit_code == 1
    shown = "\n".join(map(str, found.shown))
    assert "the plugin no_such_plugin of some-ops 1 cannot be loaded (ModuleNotFoundError: " in shown
    for name in ("native", "openvino"):
        assert re.search(rf"  {name} *: half of it", shown)


def test_doctor_counts_a_package_under_any_of_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ["net-cpu>=2; extra == 'net'", "net>=2; extra == 'net'", "z; extra == 'net'", "other"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: asked)
    monkeypatch.setattr(doctor, "_version", {"net-cpu": "2.1"}.get)
    assert doctor._packages("net") == {"net-cpu": "2.1", "z": None}
    monkeypatch.setattr(doctor, "_version", {}.get)
    assert doctor._packages("net") == {"net-cpu": None, "net": None, "z": None}


def test_doctor_counts_a_package_of_a_fitting_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of packages for other machines only those that are there are shown."""
    asked = [
        "old>=1.18; extra == 'net'", "pinned==2.13.0; extra == 'net'", "early>=3; extra == 'net'",
        "there>=1; extra == 'net' and platform_system == 'Elsewhere'",
        "absent; extra == 'net' and platform_system == 'Elsewhere'",
    ]  # fmt: skip
    versions = {"old": "1.14", "pinned": "2.13.0+cpu", "early": "3.1rc1", "there": "1"}
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: asked)
    monkeypatch.setattr(doctor, "_version", versions.get)
    assert doctor._packages("net") == {**versions, "old": "1.14, needs >=1.18"}


def test_doctor(tmp_path: Path) -> None:
    broken = bool(NO_OPENCL) and ENGINES["opencl"].missing() is None
    found = document("doctor", folder=tmp_path, code=int(broken))
    assert found["machine"]["threads"] >= 1
    assert found["machine"]["peak_gflops"]["fp32"] > 0
    engines = {engine["engine"]: engine for engine in found["engines"]}
    assert engines["onnxruntime"]["error"] is None
    assert 0 <= found["kernel_table"]["stale"] <= found["kernel_table"]["entries"]
