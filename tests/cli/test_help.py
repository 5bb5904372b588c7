"""Help is quick, complete and has examples that parse; errors are short unless asked otherwise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

import tensmith as tensmith_package
from command_line import refused, tensmith
from tensmith import __version__, registry
from tensmith.cli.command import _engine_lines
from tensmith.config import Config
from tensmith.engine import ENGINES

COMMANDS = (
    "compress", "bench", "tune", "study", "compile", "pack", "unpack", "inspect", "verify", "sign", "explain",
    "report", "targets", "diff", "generate", "quantize",
    "doctor",
)  # fmt: skip
HEAVY = {"numpy", "onnx", "onnxruntime", "pydantic", "rich", "yaml", "scipy", "torch", "plotly", "jsonschema"}


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\nfrom tensmith.cli import main\nsys.argv[1:] = ['--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('LOADED', *{name.partition('.')[0] for name in sys.modules})"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    shown, _, loaded = result.stdout.partition("LOADED")
    assert all(command in shown for command in COMMANDS)
    assert HEAVY.isdisjoint(loaded.split())


@pytest.mark.parametrize(("model", "data"), [("none.onnx", "npz:x.npz"), ("m.onnx", "npz:x.npz")])
def test_what_is_not_there_is_told_before_anything_heavy_is_imported(
    model: str, data: str, tmp_path: Path
) -> None:
    (tmp_path / "m.onnx").touch()
    script = (
        "import sys\nfrom tensmith.cli import main\n"
        f"sys.argv[1:] = ['compress', {model!r}, '--data', {data!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    result = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert "does not exist" in result.stderr
    assert {"onnx", "onnxruntime", "plotly", "z3", "jsonschema"}.isdisjoint(result.stdout.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str, tmp_path: Path) -> None:
    result = tensmith(command, "--help", folder=tmp_path)
    assert result.returncode == 0
    assert f"Example: tensmith {command}" in result.stdout
    assert "--json" in result.stdout and "--debug" in result.stdout


def test_help_tells_the_defaults_that_hold(tmp_path: Path) -> None:
    shown = " ".join(tensmith("compress", "--help", folder=tmp_path).stdout.split())
    for name, field in Config.model_fields.items():
        if name == "model":
            continue
        option = f"--{name.replace('_', '-')} "
        assert option in shown
        if field.default and not isinstance(field.default, bool) and name != "time_budget":
            default = f"{field.default:g}" if isinstance(field.default, (int, float)) else field.default
            assert f"[default: {default}]" in shown.partition(f" {option}")[2].partition(" --")[0], name
    assert "[default: 10m]" in shown and Config.model_fields["time_budget"].default == 600


def test_the_version(tmp_path: Path) -> None:
    first, *engines = tensmith("--version", folder=tmp_path).stdout.splitlines()
    assert first == f"tensmith {__version__}"
    assert any(line.startswith("  onnxruntime ") for line in engines)


def test_the_version_is_told_whatever_an_engine_or_a_plugin_fails_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert "CC is 'no-such-compiler'" in (ENGINES["native"].missing() or "")
    assert not any("native" in line for line in _engine_lines())
    monkeypatch.setattr(type(ENGINES["openvino"]), "missing", lambda self: None)
    monkeypatch.setattr(
        type(ENGINES["openvino"]), "version", mock.Mock(side_effect=ImportError("half of it"))
    )
    monkeypatch.setattr(registry, "plugins", lambda: [("no_such_plugin", "")])
    monkeypatch.setattr(registry, "_plugins_loaded", False)
    monkeypatch.setattr(ENGINES, "_discovered", False)
    told = list(_engine_lines())
    assert "no_such_plugin" in told[0] and "  openvino: half of it" in told
    assert any(line.startswith("  onnxruntime ") for line in told)


def test_no_such_command(tmp_path: Path) -> None:
    result = tensmith("compres", folder=tmp_path)
    assert result.returncode == 2
    assert "compres" in result.stderr


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    refused(tensmith("explain", "none.onnx", folder=tmp_path), 1)
    result = tensmith("explain", "none.onnx", "--debug", folder=tmp_path)
    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("error: none.onnx does not exist")


def test_the_package_shows_what_it_has() -> None:
    assert {"compress", "load", "Front"} <= set(dir(tensmith_package))
