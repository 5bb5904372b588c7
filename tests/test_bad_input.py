"""Whatever is wrong with what a user gives: one clear sentence, the right exit code, nothing lost."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from command_line import (
    QUICK,
    TIMEOUT_S,
    answers,
    candidates,
    contents,
    images,
    read_json,
    refused,
    started,
    tensmith,
    tiny_model,
    wait_for_candidates,
)
from tensmith.report.schema import validate_front
from tensmith.search.plan import UNTOUCHED

LONG = ("--engines", "onnxruntime", "--time-budget", "40s", "--preprocess", "raw")


@pytest.fixture
def place(tiny: Path, tmp_path: Path) -> Path:
    """A folder of its own with tiny.onnx and tiny.npz."""
    for name in ("tiny.onnx", "tiny.npz"):
        shutil.copyfile(tiny / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def run_folder(finished: Path, place: Path) -> Path:
    """A copy of a finished run, in `place`."""
    return Path(shutil.copytree(finished, place / "out"))


def compress(
    place: Path, *options: str, model: str = "tiny.onnx", data: str = "npz:tiny.npz", limit: int | None = None
) -> subprocess.CompletedProcess[str]:
    arguments = ("compress", model, "--data", data, *QUICK, "--output", "out", *options)
    return tensmith(*arguments, folder=place, file_limit=limit)


# The model


def test_a_missing_model(place: Path) -> None:
    refused(compress(place, model="none.onnx"), 1, "none.onnx does not exist", "check the path")
    assert not (place / "out").exists()


@pytest.mark.parametrize("command", ["explain", "bench", "pack", "unpack", "inspect"])
def test_a_missing_file_for_the_other_commands(command: str, tmp_path: Path) -> None:
    refused(tensmith(command, "none.onnx", folder=tmp_path), 1, "none.onnx", "check the path")


@pytest.mark.parametrize("command", ["report", "verify"])
def test_a_missing_run(command: str, tmp_path: Path) -> None:
    refused(tensmith(command, "none", folder=tmp_path), 1, "none")


def test_a_truncated_model(place: Path) -> None:
    data = (place / "tiny.onnx").read_bytes()
    (place / "tiny.onnx").write_bytes(data[: len(data) // 2])
    refused(compress(place), 1, "tiny.onnx", "truncated or not an ONNX file", "export or copy it again")
    assert not (place / "out").exists()


@pytest.mark.parametrize("content", [b"", b"\x89PNG\r\n\x1a\n" + bytes(100), b"import torch\n"])
def test_a_file_that_is_no_model(place: Path, content: bytes) -> None:
    (place / "tiny.onnx").write_bytes(content)
    refused(compress(place), 1, "tiny.onnx", "again")
    assert (place / "tiny.onnx").read_bytes() == content


def test_nan_in_the_weights(place: Path) -> None:
    weights = np.ones((8, 3, 3, 3))
    weights[1, 2, 0, 0] = np.nan
    onnx.save(tiny_model(w=weights), place / "tiny.onnx")
    refused(compress(place), 1, "tiny.onnx", "'w'", "NaN", "export")
    assert not (place / "out").exists()


def test_a_batch_of_several_samples_that_the_file_fixes(place: Path) -> None:
    model = onnx.load(place / "tiny.onnx")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 8
    onnx.save(model, place / "tiny.onnx")
    assert compress(place).returncode == 0
    assert (place / "out" / "front.json").exists()
    context = json.loads((place / "out" / "report.json").read_text())["context"]
    assert context["batch"] == 8  # what latencies are of


def test_an_operator_no_engine_knows(place: Path) -> None:
    model = tiny_model()
    model.graph.node[1].CopyFrom(helper.make_node("Sparkle", ["c"], ["r"], domain="com.example"))
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    onnx.save(model, place / "tiny.onnx")
    refused(compress(place), 1, "com.example")
    assert not (place / "out").exists()


def test_an_operator_unknown_to_us_stays_as_it_is(place: Path) -> None:
    model = tiny_model()
    model.graph.node[1].CopyFrom(helper.make_node("SampleOp", ["c"], ["r"], domain="com.microsoft"))
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    model.graph.value_info.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, ["n", 8, 8, 8]))
    onnx.save(model, place / "tiny.onnx")
    np.savez(place / "tiny.npz", x=images(), y=answers(model, images()))

    assert compress(place).returncode == 0
    for file in (place / "out" / "candidates").glob("*/model.onnx"):
        assert "SampleOp" in [node.op_type for node in onnx.load(file).graph.node]
    explained = tensmith("explain", "tiny.onnx", "--json", folder=place)
    assert "com.microsoft.SampleOp" in explained.stdout


def test_a_model_that_may_only_be_read(place: Path) -> None:
    (place / "tiny.onnx").chmod(0o444)
    assert compress(place).returncode == 0
    assert (place / "out" / "best" / "model.onnx").stat().st_mode & 0o200


# The data


def test_missing_data(place: Path) -> None:
    refused(compress(place, data="npz:none.npz"), 1, "none.npz", "check the path")


def test_no_data_at_all(place: Path) -> None:
    refused(tensmith("compress", "tiny.onnx", folder=place), 2, "--data KIND:PATH")


def test_a_configuration_of_a_run_on_data_from_python(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(place))
    (place / "config.yaml").write_text("model: ~/tiny.onnx\ndata: ''\n")
    run = ("compress", "--config", "config.yaml")
    refused(tensmith(*run, folder=place), 2, "config.yaml names no data", "by tensmith.compress")
    refused(tensmith(*run, "--data", "npz:none.npz", folder=place), 1, "none.npz does not exist")


def test_an_unknown_kind_of_data(place: Path) -> None:
    refused(compress(place, data="pigeons:x"), 2, "pigeons", "npz")


def test_data_that_does_not_fit_the_model(place: Path) -> None:
    np.savez(place / "tiny.npz", x=images(size=9), y=np.arange(240) % 4)
    refused(compress(place), 1, "the data does not fit the model", "[3, 9, 9]", "'x'")
    assert not (place / "out").exists()


def test_data_of_another_rank(place: Path) -> None:
    np.savez(place / "tiny.npz", x=np.zeros((240, 5), np.float32), y=np.arange(240) % 4)
    refused(compress(place), 1, "the data does not fit the model")


def test_labels_out_of_range(place: Path) -> None:
    np.savez(place / "tiny.npz", x=images(), y=np.arange(240) % 9)
    refused(compress(place), 1, "labels up to 8", "4 classes")
    assert not (place / "out").exists()


def test_negative_labels(place: Path) -> None:
    np.savez(place / "tiny.npz", x=images(), y=np.arange(240) % 4 - 1)
    refused(compress(place), 1, "label")


def test_no_samples(place: Path) -> None:
    np.savez(place / "tiny.npz", x=images(0), y=np.zeros(0, np.int64))
    refused(compress(place), 1, "tiny.npz", "empty")


def test_too_few_samples_to_calibrate_on(place: Path) -> None:
    np.savez(place / "tiny.npz", x=images(2), y=np.arange(2))
    refused(compress(place), 1, "too few samples", "larger dataset")


def test_an_empty_calibration_set_asked_for(place: Path) -> None:
    refused(compress(place, "--calibration-samples", "0"), 2, "--calibration-samples must be")


def test_data_that_is_no_archive(place: Path) -> None:
    (place / "tiny.npz").write_bytes(b"not a zip file")
    refused(compress(place), 1, "tiny.npz", "not a readable .npz file")


# Options and configuration


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--time-budget", "soon"), "--time-budget: 'soon' is not a time such as"),
        (("--time-budget", "-5s"), "'-5s'"),
        (("--max-size", "12 bananas"), "'12 bananas'"),
        (("--max-size", "9" * 400), "too large"),
        (("--max-drop", "-1"), "--max-drop must be"),
        (("--max-drop", "nan"), "--max-drop must be"),
        (("--max-latency", "0"), "--max-latency must be"),
        (("--max-memory", "a little"), "'a little'"),
        (("--max-energy", "0"), "--max-energy must be"),
        (("--prefer", "cheapest"), "--prefer must be"),
        (("--search", "xyz"), "--search: there is no search 'xyz'; known: auto, beam,"),
        (("--search", "bean"), "did you mean 'beam'?"),
        (("--only", "int9"), "--only: there is no lossy method 'int9'; did you mean 'int8'"),
        (("--measure", "beauty"), "--measure must be"),
        (("--preprocess", "sepia"), "sepia"),
        (("--target", "toaster"), "toaster"),
        (("--engines", "steam"), "steam"),
        (("--engines", " ,"), "--engines names no engine"),
        (("--threads", "0"), "--threads must be"),
        (("--seed", "-1"), "--seed must be"),
    ],
)
def test_bad_option_values(place: Path, options: tuple[str, ...], word: str) -> None:
    refused(compress(place, *options), 2, word)
    assert not (place / "out").exists()


def test_options_of_the_wrong_type_and_unknown_ones(place: Path) -> None:
    for options in (("--threads", "many"), ("--fast",)):
        result = compress(place, *options)
        assert result.returncode == 2
        assert options[0] in result.stderr
        assert "Traceback" not in result.stderr


MANY_ALIASES = "c0: &c0 [x, x]\n" + "".join(f"c{n}: &c{n} [*c{n - 1}, *c{n - 1}]\n" for n in range(1, 30))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("model: [unclosed", "is no YAML"),
        ("- a\n- list", "holds no options"),
        ("model: tiny.onnx\ndata: npz:tiny.npz\nspeed: 11", "bad.yaml:3: there is no option 'speed'"),
        (
            "model: tiny.onnx\nmax_dorp: 1",
            "bad.yaml:2: there is no option 'max_dorp'; did you mean 'max_drop'?",
        ),
        (
            "model: tiny.onnx\ndata: npz:tiny.npz\nthreads: many",
            "bad.yaml:3: threads must be a whole number, not 'many'",
        ),
        ("model: tiny.onnx\ndata: npz:tiny.npz\noutput: elsewhere", "there is no option 'output'"),
        ("!!python/object/apply:os.system ['true']", "is no YAML"),
        (MANY_ALIASES, "stands for more than"),
        ("model: tiny.onnx\nmax_drop: 0.5\nmax_drop: 5", "line 3 has 'max_drop' for the second time"),
        ("model: tiny.onnx\nthreads: !!int ''", "a tag (!!) does not fit"),
        ("model: tiny.onnx\nseed: !!timestamp abc", "a tag (!!) does not fit"),
        ("model: tiny.onnx\nrecover: yes", "bad.yaml:2: recover: true and false are for hardware alone"),
        ("data: npz:tiny.npz", "no model is given"),
    ],
)
def test_a_bad_configuration(place: Path, text: str, word: str) -> None:
    (place / "bad.yaml").write_text(text)
    refused(tensmith("compress", "--config", "bad.yaml", folder=place), 2, word)


def test_a_file_that_is_no_plan(place: Path) -> None:
    (place / "plan.txt").write_text("hello world\n")
    refused(compress(place, "--plan", "plan.txt"), 2, "plan.txt is not a plan; give a plan.yaml")


def test_a_missing_configuration(place: Path) -> None:
    refused(tensmith("compress", "--config", "none.yaml", folder=place), 2, "none.yaml")


# The output folder


def test_an_output_that_is_a_file(place: Path) -> None:
    (place / "out").write_text("mine")
    refused(compress(place), 1, "out is a file", "--output")
    assert (place / "out").read_text() == "mine"


def test_an_output_that_cannot_be_made(place: Path) -> None:
    (place / "file").write_text("mine")
    refused(compress(place, "--output", "file/out"), 1, "file/out", "--output")
    assert (place / "file").read_text() == "mine"


def test_an_output_in_a_place_that_is_not_for_writing(place: Path) -> None:
    refused(compress(place, "--output", "/proc/out"), 1, "/proc/out", "--output")


def test_an_output_with_somebody_elses_files(place: Path) -> None:
    (place / "out").mkdir()
    (place / "out" / "thesis.tex").write_text("years of work")
    refused(compress(place), 1, "out is not empty", "--output")
    assert contents(place / "out") == {"thesis.tex": b"years of work"}


def test_an_output_of_another_run(place: Path, run_folder: Path) -> None:
    before = contents(run_folder)
    refused(compress(place), 1, "out holds a run already", "--resume", "--output")
    refused(compress(place, "--resume", "--seed", "7"), 1, "another seed")
    onnx.save(tiny_model(fb=np.ones(4)), place / "tiny.onnx")
    refused(compress(place, "--resume"), 1, "another the model file"[:7], "model file")
    assert contents(run_folder) == before


def test_nothing_to_resume(place: Path) -> None:
    refused(compress(place, "--resume"), 1, "no run to resume")
    refused(tensmith("compress", "--resume", "--output", "out", folder=place), 1, "no run to resume")
    assert not (place / "out").exists()


def test_a_corrupt_database(place: Path, run_folder: Path) -> None:
    database = run_folder / "run.sqlite"
    database.write_bytes(b"garbage " * 4096)
    before = contents(run_folder)
    refused(compress(place, "--resume"), 1, "run.sqlite is damaged", "nothing was changed")
    assert contents(run_folder) == before


def test_a_database_with_damaged_records(place: Path, run_folder: Path) -> None:
    with sqlite3.connect(run_folder / "run.sqlite") as database:
        database.execute("UPDATE candidates SET body = substr(body, 1, 40)")
    database.close()
    refused(compress(place, "--resume"), 1, "run.sqlite is damaged")
    validate_front(read_json(run_folder / "front.json"))


@pytest.mark.parametrize("name", ["front.json", "report.json"])
def test_a_truncated_document(place: Path, run_folder: Path, name: str) -> None:
    data = (run_folder / name).read_bytes()
    (run_folder / name).write_bytes(data[: len(data) // 2])
    before = contents(run_folder)
    refused(tensmith("report", "out", folder=place), 1, name, "compress")
    assert contents(run_folder) == before


def test_a_report_of_the_wrong_shape(place: Path, run_folder: Path) -> None:
    (run_folder / "report.json").write_text('{"front": {}, "notes": 3}')
    refused(tensmith("report", "out", folder=place), 1, "report.json")


def test_a_damaged_packed_file(place: Path) -> None:
    from tensmith.backend.packed import pack

    packed = bytearray(pack((place / "tiny.onnx").read_bytes()))
    packed[len(packed) // 2] ^= 1
    (place / "tiny.packed").write_bytes(packed)
    refused(tensmith("unpack", "tiny.packed", "new.onnx", folder=place), 1, "damaged")
    refused(tensmith("bench", "tiny.packed", folder=place), 1, "damaged")
    assert not (place / "new.onnx").exists()


def test_unpack_does_not_replace_another_file(place: Path) -> None:
    from tensmith.backend.packed import pack

    (place / "tiny.packed").write_bytes(pack((place / "tiny.onnx").read_bytes()))
    (place / "mine.onnx").write_text("mine")
    refused(tensmith("unpack", "tiny.packed", "mine.onnx", folder=place), 1, "mine.onnx exists", "--force")
    assert (place / "mine.onnx").read_text() == "mine"


# The disk


def test_a_disk_that_is_full_from_the_start(place: Path) -> None:
    refused(compress(place, limit=8192), 1, "cannot write", "out/")


def test_a_disk_that_fills_up(place: Path) -> None:
    onnx.save(
        tiny_model(w=np.ones((8000, 3, 3, 3)), b=np.ones(8000), fw=np.ones((4, 8000))), place / "tiny.onnx"
    )
    # Room for the database, not for a model: the first file that does not fit is a candidate's.
    refused(compress(place, limit=512 * 1024), 1, "cannot write", "out/work/", "limit on file sizes")
    # Only the original is known, which needs no file of its own: the one that did not fit was not judged.
    assert [key for _, key, _ in candidates(place / "out")] == [UNTOUCHED.key]


def test_a_disk_that_fills_up_while_resuming_leaves_the_front(place: Path, run_folder: Path) -> None:
    before = contents(run_folder / "best")
    shutil.rmtree(run_folder / "work")
    refused(compress(place, "--resume", limit=1000), 1, "cannot write")
    assert contents(run_folder / "best") == before
    validate_front(read_json(run_folder / "front.json"))


# Interrupts


@pytest.fixture
def running(place: Path) -> Iterator[subprocess.Popen[str]]:
    """A run on `place`/out that would take long."""
    arguments = ("compress", "tiny.onnx", "--data", "npz:tiny.npz", *LONG, "--output", "out")
    with started(*arguments, folder=place) as process:
        yield process


def test_two_runs_on_one_folder_and_ctrl_c(place: Path, running: subprocess.Popen[str]) -> None:
    out = place / "out"
    wait_for_candidates(running, out, 2)
    refused(compress(place, "--resume"), 1, "another run is working in out", "--output")

    running.send_signal(signal.SIGINT)
    shown, complaints = running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == 130, complaints
    assert "--resume" in shown
    validate_front(read_json(out / "front.json"))
    assert (out / "best" / "model.onnx").exists()


def test_killed_and_resumed(place: Path, running: subprocess.Popen[str]) -> None:
    out = place / "out"
    wait_for_candidates(running, out, 2)
    seen = candidates(out)
    running.kill()
    running.communicate(timeout=TIMEOUT_S)
    before = candidates(out)
    assert len(seen) >= 2 and before[: len(seen)] == seen

    result = tensmith("compress", "--resume", "--output", "out", folder=place)  # as it was begun
    assert result.returncode == 0, result.stderr
    assert candidates(out)[: len(before)] == before
    validate_front(read_json(out / "front.json"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_interrupt_stops_at_once(
    place: Path, running: subprocess.Popen[str], number: signal.Signals
) -> None:
    wait_for_candidates(running, place / "out", 2)
    running.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        running.communicate(timeout=0.5)
    running.send_signal(number)
    _, complaints = running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == 130
    assert complaints.startswith("error: interrupted")
    assert "--resume" in complaints
    assert len(candidates(place / "out")) >= 1


def test_the_exit_code_stands_whatever_was_interrupted(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text(
        "from tensmith import cli\n"
        "from tensmith.cli import command\n"
        "def app(**_):\n"
        "    try: exec('raise KeyboardInterrupt')\n"
        "    except KeyboardInterrupt: return 130\n"
        "command.app, cli._COMMANDS = app, ()\n"
        "cli.main()\n"
    )
    ended = subprocess.run([sys.executable, "-m", "interrupted"], cwd=tmp_path, timeout=TIMEOUT_S)
    assert ended.returncode == 130


def test_interrupted_while_commands_are_imported(tmp_path: Path) -> None:
    (tmp_path / "early.py").write_text(
        "import os, signal\n"
        "from tensmith import cli\n"
        "cli.importlib.import_module = lambda name: os.kill(os.getpid(), signal.SIGINT)\n"
        "cli.main()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-m", "early"], cwd=tmp_path, timeout=TIMEOUT_S, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (130, "error: interrupted; nothing was written\n")


def test_interrupted_before_anything_was_measured(place: Path, running: subprocess.Popen[str]) -> None:
    while not (place / "out" / "run.sqlite").exists():
        assert running.poll() is None
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    _, complaints = running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == 130
    assert complaints.startswith("error: interrupted; nothing ")
    assert not (place / "out").exists()
