"""`tensmith init`: the file that it writes is a configuration, with the data that fits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import yaml

from command_line import refused, tensmith, tiny_model
from tensmith.cli.init import init
from tensmith.config import make_config, read_config


def test_what_it_writes_is_what_compress_reads(tiny: Path, tmp_path: Path) -> None:
    for name in ("tiny.onnx", "tiny.npz"):
        shutil.copy(tiny / name, tmp_path)
    np.savez(tmp_path / "others.npz", x=np.zeros((9, 5), np.float32))  # does not fit
    (tmp_path / "hostile:name.npz").write_bytes(b"")
    done = tensmith("init", "tiny.onnx", "--json", folder=tmp_path)
    assert json.loads(done.stdout)["data"] == ["npz:tiny.npz"]
    text = (tmp_path / "tensmith.yaml").read_text()
    assert make_config(**read_config(tmp_path / "tensmith.yaml")) == make_config(
        model="tiny.onnx", data="npz:tiny.npz"
    )
    options = yaml.safe_load(text)
    assert all(f"\n{name}: " in text for name in options)
    assert text.count("\n# ") >= len(options)  # each is explained
    shown = tensmith("compress", "--config", "tensmith.yaml", "--dry-run", folder=tmp_path)
    assert "npz:tiny.npz" in shown.stdout


def test_names_stay_in_their_comments(tmp_path: Path) -> None:
    model = tiny_model()
    forged = "x\u2028seed: 7\u2028\x1b[2Kmodel: other.onnx"
    model.graph.input[0].name = model.graph.node[0].input[0] = forged
    onnx.save(model, tmp_path / "tiny.onnx")
    init(tmp_path / "tiny.onnx", output=tmp_path / "made.yaml")
    made = make_config(**read_config(tmp_path / "made.yaml"))
    assert made == make_config(model=str(tmp_path / "tiny.onnx"))


def test_without_data_the_way_out_is_said(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    shutil.copy(tiny / "tiny.onnx", tmp_path / "alone")
    done = tensmith("init", "tiny.onnx", folder=tmp_path / "alone")
    assert "--look DIR" in done.stdout
    found = tensmith("init", "tiny.onnx", "--look", tiny, "--output", "b.yaml", folder=tmp_path / "alone")
    assert f"npz:{tiny / 'tiny.npz'}" in found.stdout


def test_a_file_that_is_there_stays(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "tensmith.yaml").write_text("mine")
    refused(tensmith("init", tiny / "tiny.onnx", folder=tmp_path), 1, "is there already", "--output")
    assert (tmp_path / "tensmith.yaml").read_text() == "mine"
