"""Files come in by one gate: whatever a path names, a command works or says one sentence, and never waits."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest
from typer.models import ArgumentInfo

from forked import Commands
from tensmith import cli, gate
from tensmith.cli.command import app
from tensmith.errors import DataError, ModelError

PACKAGE = Path(gate.__file__).parent

# Where a file is opened beside the gate, and why it may be. (module, what opens) -> reason
_OWN = "written by this process or by a process of its own"
_SYSTEM = "the system's own, /proc or /sys"
_ALONE = "runs without tensmith, and looks for a plain file itself"
_SHIPPED = "part of the package"
ELSEWHERE = {
    "fork_server.py": "the device of nothing",
    "database.py": "a database that passed the gate",
    "kernel/image.py": _OWN,
    "cache.py": "entries that it wrote itself; what is not as it was written counts for nothing",
    "lifting/second/compiled.py": "C texts of the package",
    "verify/signature.py": "plain files of bounded size, looked at before",
    "verify/statistics.py": "an archive whose size and members are bounded before they are read",
    "gate.py": "the gate",
    "files.py": "what was just written is flushed to disk",
    "backend/mixed/library.py": _SHIPPED,
    "backend/native/emit/loader.py": _ALONE,
    "backend/native/toolchain.py": _OWN,
    "deploy/greedy.py": _SHIPPED,
    "backend/packed/compiled.py": _SHIPPED,
    "rewrite/lossy/dependent.py": _SHIPPED,
    "backend/onnx.py": "writes",
    "cli/cache.py": _OWN,
    "cli/command.py": "a closed pipe is replaced by /dev/null",
    "cli/diff.py": "writes an archive in memory",
    "config.py": "parses what the gate read",
    "data/opening.py": "asks a reader, each of which asks the gate",
    "data/storage.py": "decompresses what the gate opened",
    "data/mapped.py": _OWN,
    "data/tree.py": "reads the archive that the gate opened",
    "data/readers/imagefolder.py": "decodes bytes that the tree read",
    "data/readers/wav.py": "decodes bytes that the tree read",
    "data/readers/npz.py": "reads the archive that the gate opened",
    "deploy/folder.py": "writes the lock",
    "deploy/write.py": _OWN,
    "engine/compiled.py": _SHIPPED,
    "engine/engines/onnxruntime.py": _OWN,
    "evaluate/activations.py": _OWN,
    "search/building.py": _OWN,
    "engine/resident.py": _SYSTEM,
    "engine/stopwatch.py": _SYSTEM,
    "evaluate/calibrator.py": _OWN,
    "evaluate/energy.py": _SYSTEM,
    "frontend/model_copy.py": "writes",
    "hardware/control_groups.py": _SYSTEM,
    "hardware/target.py": _SHIPPED,
    "kernel/shipped.py": _SHIPPED,
    "lifting/source/c/guard.py": "looks for a plain file and a size itself, with the line of its #include",
    "lifting/source/c/parse.py": _SHIPPED,
    "lifting/source/file.py": "looks for a plain file and a size itself",
    "report/page.py": _SHIPPED,
    "report/schema.py": _SHIPPED,
    "rewrite/archives.py": "arrays beside a certificate, in a size that was allowed",
    "rewrite/proved.py": _SHIPPED,
    "search/builder.py": _OWN,
    "study/page.py": _SHIPPED,
    "study/run.py": _OWN,
    "tune/tvm/device.py": _SHIPPED,
    "tune/tvm/remote.py": _OWN,
    "verify/checker.py": _ALONE,
    "verify/lift_certificate.py": "scripts that the small checker found to be plain files",
    "verify/lift_checker.py": _ALONE,
    "verify/schema.py": "looks for a plain file and a size itself",
    "workers/cluster.py": "a copy of a model file that a node is given",
}
_OPENERS = {"open", "read_bytes", "read_text", "memmap", "fromfile", "loadtxt", "genfromtxt", "ZipFile"}
_DOTTED = {("np", "load"), ("onnx", "load"), ("sqlite3", "connect"), ("os", "open"), ("json", "load"),
           ("yaml", "load"), ("tomllib", "load"), ("pickle", "load")}  # fmt: skip


def opens(path: Path) -> Iterator[int]:
    """Lines of a module that open a file by themselves."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id == "open":
            yield node.lineno
        elif isinstance(called, ast.Attribute):
            owner = called.value.id if isinstance(called.value, ast.Name) else ""
            if owner != "gate" and (called.attr in _OPENERS or (owner, called.attr) in _DOTTED):
                yield node.lineno


def test_nothing_else_opens_files() -> None:
    found = {str(path.relative_to(PACKAGE)): list(opens(path)) for path in PACKAGE.rglob("*.py")}
    unknown = {name: lines for name, lines in found.items() if lines and name not in ELSEWHERE}
    assert unknown == {}, "open by tensmith.gate, or say in this test why not"


def test_an_open_is_found(tmp_path: Path) -> None:
    module = tmp_path / "m.py"
    module.write_text("open(a)\nPath(a).read_text()\nnp.load(a)\ngate.read_text(a, K)\n")
    assert list(opens(module)) == [1, 2, 3]


# The gate itself


def test_sizes_are_bounded_before_anything_is_read(tmp_path: Path) -> None:
    huge = tmp_path / "huge.onnx"
    huge.touch()
    os.truncate(huge, 3 << 30)
    with pytest.raises(ModelError, match=r"huge.onnx has 3221225472 bytes, and an .onnx file has at most"):
        gate.read_bytes(huge, gate.MODEL)


def test_growth_is_bounded() -> None:
    assert gate.most_decompressed(13 << 20) < 3 << 30
    pieces = (bytes(1 << 20) for _ in range(1 << 20))
    with pytest.raises(DataError, match="as bombs do"):
        sum(map(len, gate.bounded(pieces, 10, "d.xz")))


def test_a_file_that_becomes_a_pipe_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "p")
    monkeypatch.setattr(gate, "check", lambda path, kind: 0)
    with pytest.raises(ModelError, match="is a pipe, not a file"):
        gate.open_file(tmp_path / "p", gate.MODEL)


# Every command on every hostile path


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)


def _huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 5 << 30)


def _unreadable(path: Path) -> None:
    path.write_bytes(b"secret")
    path.chmod(0)


HOSTILE: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "folder": Path.mkdir,
    "pipe": os.mkfifo,
    "socket": _socket,
    "zeros": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/tty"),
    "loop": lambda path: path.symlink_to(path.name),
    "dangling": lambda path: path.symlink_to("nowhere"),
    "empty": Path.touch,
    "huge": _huge,
    "unreadable": _unreadable,
}
# {} stands for the hostile path; --data and the model beside it are sound, signed/ has some signature.
COMMANDS = {
    "compress a model": ("compress", "{}.onnx", "--data", "npz:tiny.npz", "--output", "out"),
    "compress --config": ("compress", "--config", "{}.yaml", "--output", "out"),
    "compress --plan": (
        "compress",
        "tiny.onnx",
        "--data",
        "npz:tiny.npz",
        "--plan",
        "{}.json",
        "--output",
        "out",
    ),
    "compress --target": (
        "compress",
        "tiny.onnx",
        "--data",
        "npz:tiny.npz",
        "--target",
        "{}.toml",
        "--dry-run",
    ),
    "dry run": ("compress", "{}.onnx", "--data", "npz:tiny.npz", "--dry-run"),
    "init": ("init", "{}.onnx", "--output", "out"),
    "init --look": ("init", "tiny.onnx", "--look", "{}", "--output", "tiny.yaml"),
    "compile": ("compile", "{}.onnx", "--output", "out"),
    "compile --target": ("compile", "tiny.onnx", "--target", "{}.toml", "--output", "out"),
    "bench": ("bench", "{}.onnx", "--seconds", "0.1"),
    "bench a packed file": ("bench", "{}.packed", "--seconds", "0.1"),
    "study": ("study", "{}.yaml", "--output", "out"),
    "diagnose": ("diagnose", "{}.onnx", "--seconds", "0.1"),
    "diff": ("diff", "{}.onnx", "tiny.onnx"),
    "diff with the second": ("diff", "tiny.onnx", "{}.onnx"),
    "tune": ("tune", "{}.onnx", "--output", "out"),
    "pack": ("pack", "{}.onnx", "out.packed"),
    "unpack": ("unpack", "{}.packed", "out.onnx"),
    "inspect": ("inspect", "{}.packed"),
    "convert": ("convert", "{}.gguf", "out"),
    "quantize": ("quantize", "{}.onnx", "out"),
    "quantize gguf": ("quantize", "{}.gguf", "out"),
    "convert --like": ("convert", "tiny.onnx", "out.gguf", "--like", "{}.gguf"),
    "inspect gguf": ("inspect", "{}.gguf"),
    "generate gguf": ("generate", "{}.gguf", "--tokens", "1"),
    "compile gguf": ("compile", "{}.gguf", "--output", "out"),
    "bench gguf": ("bench", "{}.gguf", "--seconds", "0.1"),
    "compress gguf": ("compress", "{}.gguf", "--data", "npz:tiny.npz", "--output", "out"),
    "cache": ("cache", "{}.onnx", "out.onnx"),
    "explain": ("explain", "{}.onnx"),
    "explain --original": ("explain", "done", "--original", "{}.onnx"),
    "rules": ("rules", "{}.onnx", "--discover"),
    "report": ("report", "{}.run"),
    "verify": ("verify", "{}.run"),
    "verify --original": ("verify", "done/best", "--original", "{}.onnx"),
    "verify --source": ("verify", "lifted/f.cert", "--source", "{}.c"),
    "verify --key": ("verify", "signed", "--key", "{}.pub"),
    "sign": ("sign", "{}.run", "--key", "key"),
    "sign --key": ("sign", "signed", "--key", "{}"),
    "optimize": ("optimize", "{}.py", "--function", "f", "--example", "x=f64[3]"),
    "lift c": ("lift", "{}.c", "--to", "numpy"),
    "lift python": ("lift", "{}.py", "--to", "numpy"),
    "targets": ("targets", "{}.toml"),
    "load": ("load", "{}.onnx"),
    "load a packed file": ("load", "{}.packed"),
    "data npz": ("compress", "tiny.onnx", "--data", "npz:{}.npz", "--dry-run"),
    "data cifar10": ("compress", "tiny.onnx", "--data", "cifar10:{}.xz", "--dry-run"),
    "data imagefolder": ("compress", "tiny.onnx", "--data", "imagefolder:{}.tar.gz", "--dry-run"),
    "data text": ("compress", "tiny.onnx", "--data", "text:{}.txt", "--dry-run"),
}


# Those that take a folder, and those whose answer it may be that a file holds something else.
FOLDERS, ANSWERS = ("init --look",), ("verify --source",)
_ANSWERED = "exit code 1 without one sentence: "
# Paths that are written.
WRITTEN = ("output", "target", "save_inputs", "fix", "figure")


def test_every_path_that_a_command_reads_is_hostile_once() -> None:
    for name in cli._COMMANDS:
        importlib.import_module(f"tensmith.cli.{name}")
    read = set()
    for command in app.registered_commands:
        assert command.callback is not None
        arguments = 0
        for option in inspect.signature(command.callback).parameters.values():
            kind, *told = get_args(option.annotation)
            argument = isinstance(told[0], ArgumentInfo)
            arguments += argument
            if "Path" in str(kind) and option.name not in WRITTEN:
                read.add((command.name, str(arguments) if argument else f"--{option.name.replace('_', '-')}"))
    tried = set()
    for words in COMMANDS.values():
        place = next(number for number, word in enumerate(words) if "{}" in word)
        before = words[place - 1]
        tried.add((words[0], before if before.startswith("--") else str(place)))
    assert read - tried == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_hostile_path_is_one_sentence(
    name: str, commands: Commands, tiny: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    for sound in ("tiny.onnx", "tiny.npz"):
        shutil.copyfile(tiny / sound, tmp_path / sound)
    (tmp_path / "done").symlink_to(finished)
    arguments = COMMANDS[name]
    if "signed" in arguments:
        shutil.copytree(finished / "best", tmp_path / "signed")
        (tmp_path / "signed" / "certificate.json.sig").write_text("none")
    if "lifted/f.cert" in arguments:
        (tmp_path / "f.c").write_text("int f(int a) { return a; }")
        assert commands("lift", "f.c", "--to", "numpy", "--no-run", folder=tmp_path, seconds=30).code == 0
    for kind, make in HOSTILE.items():
        if kind == "huge" and name.startswith("data"):
            continue  # data may be as large as it is: it is read in pieces
        written = next(word for word in arguments if "{}" in word).format(kind)
        make(tmp_path / written.partition(":")[2] if ":" in written else tmp_path / written)
        outcome = commands(*(word.format(kind) for word in arguments), folder=tmp_path, seconds=30)
        answered = name in ANSWERS and outcome.fault == _ANSWERED
        assert outcome.fault is None or answered, f"{name}, {kind}: {outcome.fault}"
        if kind == "folder" and name in FOLDERS:
            assert outcome.code == 0
        elif kind != "unreadable" or os.geteuid():  # root reads all, and finds it damaged
            assert outcome.code, f"{name} took {kind} for good"
        assert not (tmp_path / "out").exists(), f"{name}, {kind}"


def test_a_hostile_signature_is_one_sentence(
    commands: Commands, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best, place = tmp_path / "best", Path("certificate.json.sig")
    shutil.copytree(finished / "best", best)
    (tmp_path / "key.pub").write_text(f"ssh-ed25519 {'A' * 68} me")
    monkeypatch.chdir(best)
    for kind, make in HOSTILE.items():
        make(place)
        outcome = commands("verify", "best", "--key", "key.pub", folder=tmp_path, seconds=30)
        assert outcome.fault is None, f"{kind}: {outcome.fault}"
        assert outcome.code, f"{kind} is a signature"
        place.rmdir() if kind == "folder" else place.unlink(missing_ok=True)
