"""No name of a stranger acts on the terminal: every command shows what it hides, and JSON stays JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from command_line import images, tiny_model
from forked import Commands, Outcome
from tensmith.cli import terminal

HOSTILE = "a\x1b[2J\x07\r\u202eb\x9b\u2028c"
MODEL = f"m{HOSTILE}.onnx"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, an archive, sources, targets and configurations, all with hostile names."""
    folder = tmp_path_factory.mktemp("hostile")
    model = tiny_model()
    for node in model.graph.node:
        node.name = f"{HOSTILE}\n{node.name}"
        for names in (node.input, node.output):
            names[:] = [f"{name}{HOSTILE}" if name else "" for name in names]
    for value in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        value.name += HOSTILE
    model.graph.name = model.doc_string = model.producer_name = HOSTILE
    model.metadata_props.add(key=HOSTILE, value=HOSTILE)
    onnx.save(model, folder / MODEL)
    wrong = tiny_model()
    wrong.graph.node[1].op_type = HOSTILE
    onnx.save(wrong, folder / "wrong.onnx")
    np.savez(folder / "d.npz", **{f"x{HOSTILE}": images(), "y": np.arange(240) % 4})
    (folder / "f.py").write_text(f"def f(a):\n    return a['{HOSTILE[:5]}']\n")
    (folder / "f.c").write_text(f'int f(int *a) {{ return "{HOSTILE}"[a[0]]; }}\n')
    (folder / "t.toml").write_text(f"'{HOSTILE[-1]}\\u202e' = 1\nname = \"\\u001b[2J\"\n")
    (folder / "c.yaml").write_text('"k\\e[2J\\u202E": 1\nmodel: "\\e[2J"\n')
    (folder / "cert").mkdir()
    (folder / "cert" / "certificate.json").write_text(json.dumps({"schema": HOSTILE, HOSTILE: 1}))
    (folder / "run").mkdir()
    (folder / "run" / "front.json").write_text(json.dumps({HOSTILE: HOSTILE}))
    return folder


COMMANDS = (
    ("explain", MODEL),
    ("explain", "wrong.onnx"),
    ("bench", MODEL, "--seconds", "0.05", "--engines", "onnxruntime"),
    ("bench", "wrong.onnx", "--seconds", "0.05", "--engines", "onnxruntime"),
    ("bench", MODEL, "--engines", HOSTILE),
    ("compile", MODEL, "--output", "out"),
    ("compile", "wrong.onnx", "--output", "out"),
    ("compile", MODEL, "--target", HOSTILE),
    ("compile", MODEL, "--sizes", f"{HOSTILE}=3"),
    ("compress", MODEL, "--data", "npz:d.npz", "--dry-run"),
    ("compress", MODEL, "--data", f"{HOSTILE}:d.npz"),
    ("compress", MODEL, "--data", f"npz:{HOSTILE}"),
    ("compress", "--config", "c.yaml"),
    ("lift", "f.py", "--to", "numpy"),
    ("lift", "f.c", "--to", "numpy"),
    ("lift", HOSTILE, "--to", HOSTILE),
    ("targets", "t.toml"),
    ("verify", "cert"),
    ("verify", HOSTILE),
    ("report", "run"),
    ("unpack", MODEL),
    ("pack", MODEL),
    ("pack", "wrong.onnx"),
    ("inspect", MODEL),
    ("tune", HOSTILE),
    (HOSTILE,),
    ("bench", f"--{HOSTILE}"),
)


def raw(outcome: Outcome) -> set[str]:
    """Characters in what was printed that a terminal would act on."""
    return {c for c in outcome.stdout + outcome.stderr if not c.isprintable() and c != "\n"}


@pytest.mark.parametrize("arguments", COMMANDS, ids=ascii)
def test_names_are_shown_and_not_obeyed(arguments: tuple[str, ...], commands: Commands, place: Path) -> None:
    outcome = commands(*arguments, folder=place)
    assert raw(outcome) == set()
    assert "Traceback" not in outcome.stderr
    assert outcome.code in (0, 1, 2)


def test_json_stays_json(commands: Commands, place: Path) -> None:
    outcome = commands("explain", MODEL, "--json", folder=place)
    assert raw(outcome) == set()
    assert json.loads(outcome.stdout)["model"] == MODEL


def test_numbers_that_json_lacks_are_null(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show_json({"a": [float("nan"), 1.5], "b": float("inf")})
    assert json.loads(capsys.readouterr().out) == {"a": [None, 1.5], "b": None}


def test_a_sentence_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show(["holds  all claims\nholds  forged"])
    assert capsys.readouterr().out == "holds  all claims\\nholds  forged\n"
