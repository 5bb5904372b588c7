"""Strangers' graphs: every one works, with ONNX Runtime's answers, or is refused by name.

    python -m benchmarks.trust.corpus [--graphs 500] [--first 0] [--only random,exported,data]

Random graphs over all operators that TensIR knows (random_graphs), graphs of exporters (exported), and the
models of TENSMITH_DATA. Each is interpreted, written as it was read and simplified, compiled (where that is
refused, in part), loaded, benched, and previewed. A wrong number, a traceback, a hang, more than one sentence
is a fault.

Numbers are compared with those of ONNX Runtime without optimizations, or with the interpreter's where it has
no kernel. An element that moves much where inputs and weights do by 1e-5 is given as much room: there,
rounding decides.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime

from benchmarks import DATA, parts
from benchmarks.trust.exported import EXPORTED, export
from benchmarks.trust.random_graphs import Graph
from forked import Commands
from tensmith.backend.onnx import to_onnx
from tensmith.engine.base import ENGINES
from tensmith.engine.signature import read_signature
from tensmith.errors import TensmithError
from tensmith.evaluate.bench import random_inputs
from tensmith.frontend.onnx import read_onnx
from tensmith.ir.interpreter import interpret
from tensmith.rewrite.trail import simplify

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]

PART = 10  # random graphs
SECONDS = 120.0
SHAKEN, TIMES = 1e-5, 3
# Relative to the largest number of an output, by its element type.
_ROUNDING = {"float16": 2e-2, "bfloat16": 1e-1, "float64": 1e-4, "float32": 1e-4}
# ONNX Runtime gives small floats as bytes.
_SMALL_FLOATS = {
    "tensor(float8e4m3fn)": ml_dtypes.float8_e4m3fn,
    "tensor(float8e4m3fnuz)": ml_dtypes.float8_e4m3fnuz,
    "tensor(float8e5m2)": ml_dtypes.float8_e5m2,
    "tensor(float8e5m2fnuz)": ml_dtypes.float8_e5m2fnuz,
}
SAMPLES = 6
FEW = 8

COMMANDS = (
    ("load", "m.onnx"),
    ("bench", "m.onnx", "--seconds", "0.05", "--engines", "onnxruntime"),
    ("compress", "m.onnx", "--data", "npz:data.npz", "--dry-run", "--engines", "onnxruntime"),
)


Run = Callable[[onnx.ModelProto, Arrays], dict[str, Array]]


def run_onnx(model: onnx.ModelProto, inputs: Arrays) -> dict[str, Array]:
    """The answers of ONNX Runtime, which leaves the graph as it is."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    answers = zip(session.get_outputs(), session.run(None, dict(inputs)))
    floats = _SMALL_FLOATS
    return {v.name: found.view(floats[v.type]) if v.type in floats else found for v, found in answers}


class Truth:
    """What a model answers, and by how much each element moves where inputs and weights move a little."""

    def __init__(self, run: Run, model: onnx.ModelProto, inputs: Arrays) -> None:
        self.answers = run(model, inputs)
        values = np.random.default_rng(0)
        self._others = []
        for _ in range(TIMES):
            moved = {name: _shaken(array, values) for name, array in inputs.items()}
            self._others.append(run(_with_shaken_weights(model, values), moved))

    def fault(self, found: Arrays) -> str:
        """What is wrong with answers; "" if nothing is."""
        for name, wanted in self.answers.items():
            others = [other[name] for other in self._others]
            if complaint := _difference(np.asarray(found[name]), np.asarray(wanted), others):
                return f"output '{name}' {complaint}"
        return ""


def _shaken(array: Array, values: np.random.Generator) -> Array:
    if array.dtype.kind != "f":
        return array
    return np.asarray(array * (1 + SHAKEN * values.standard_normal(array.shape)), array.dtype)


def _with_shaken_weights(model: onnx.ModelProto, values: np.random.Generator) -> onnx.ModelProto:
    """A copy with other weights; few numbers are bounds, scales and sizes, and stay."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    held = [each.t for node in copy.graph.node if node.op_type == "Constant" for each in node.attribute]
    for tensor in (*copy.graph.initializer, *held):
        if math.prod(tensor.dims) > FEW and tensor.data_type in (1, 10, 11):
            array = _shaken(onnx.numpy_helper.to_array(tensor), values)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    return copy


def _difference(found: Array, wanted: Array, others: list[Array]) -> str:
    if any(other.shape != wanted.shape for other in others):
        return ""  # its size depends on rounding
    if found.shape != wanted.shape:
        return f"has shape {found.shape}, not {wanted.shape}"
    if found.dtype != wanted.dtype and wanted.dtype.kind not in "OUS":
        return f"is {found.dtype}, not {wanted.dtype}"
    if wanted.dtype.kind in "OUSbiu":
        settled = np.logical_and.reduce([np.asarray(other == wanted) for other in others])
        wrong = settled & (found != wanted)
    else:
        found, wanted = found.astype(np.float64), wanted.astype(np.float64)
        moved = [abs(other.astype(np.float64) - wanted) for other in others]
        largest = abs(wanted[np.isfinite(wanted)]).max(initial=1)
        with np.errstate(invalid="ignore"):
            room = _ROUNDING.get(others[0].dtype.name, 0.5) * largest + 20 * np.max(moved, axis=0)
            near = (found == wanted) | (np.isnan(found) & np.isnan(wanted)) | (abs(found - wanted) <= room)
        settled = np.isfinite(room) | (np.isnan(wanted) & np.logical_and.reduce([np.isnan(o) for o in moved]))
        wrong = settled & ~near
    if not wrong.any():
        return ""
    at = tuple(int(index) for index in np.argwhere(wrong)[0])
    return f"{list(at)} is {found[at]}, not {wanted[at]}; {int(wrong.sum())} of {wrong.size} are wrong"


class Case:
    """One model, which is m.onnx in a folder of its own: how each step ended, and every fault."""

    def __init__(self, folder: Path, commands: Commands) -> None:
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self._folder, self._path, self._commands = folder, folder / "m.onnx", commands

    def examine(self) -> None:
        """All steps."""
        if not self._command("compile", "m.onnx", "--output", "native"):
            self._command("compile", "m.onnx", "--mixed", "--output", "mixed")
        self._step("read", self._answers)
        for words in COMMANDS:
            self._command(*words)

    def _answers(self) -> str:
        """Reads the model, and compares what is made of it."""
        program = read_onnx(self._path)
        inputs = random_inputs(read_signature(self._path).inputs)
        _save_samples(self._folder / "data.npz", inputs)
        found = _truth(onnx.load(self._path), inputs)
        if found is None:
            self.counts["no truth"] += 1
            return ""
        truth, run = found
        known = all(node.opaque is None for node in program.nodes)  # others are interpreted by ONNX
        ways: dict[str, Callable[[], Arrays]] = {
            **({"interpreted": lambda: interpret(program, inputs)} if known else {}),
            "written": lambda: run(to_onnx(program), inputs),
            "simplified": lambda: run(to_onnx(simplify(program).program), inputs),
            **{
                engine: partial(_compiled, engine, self._folder / engine, inputs)
                for engine in ("native", "mixed")
                if (self._folder / engine).exists()
            },
        }
        for name, answers in ways.items():
            self._step(name, partial(_fault, truth, answers))
        return ""

    def _step(self, name: str, act: Callable[[], str]) -> None:
        """`act` says what is wrong, or raises what refuses by name."""
        try:
            fault = act()
        except TensmithError:
            self.counts[f"{name} refused"] += 1
        except Exception as error:
            self.faults.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
        else:
            self.counts[f"{name} {'wrong' if fault else 'worked'}"] += 1
            self.faults += [f"{name}: {fault}"] if fault else []

    def _command(self, *words: str) -> bool:
        """Whether a command worked."""
        outcome = self._commands(*words, folder=self._folder, seconds=SECONDS)
        self.counts[f"{words[0]} {'refused' if outcome.code else 'worked'}"] += 1
        self.faults += [f"{' '.join(words)}: {outcome.fault}"] if outcome.fault else []
        return outcome.code == 0


def _fault(truth: Truth, answers: Callable[[], Arrays]) -> str:
    return truth.fault(answers())


def _compiled(engine: str, folder: Path, inputs: Arrays) -> Arrays:
    """The answers of what was compiled into a folder."""
    session = ENGINES[engine].prepare(folder, 1)
    try:
        return session.run(inputs)
    finally:
        session.close()


def _interpreted(model: onnx.ModelProto, inputs: Arrays) -> dict[str, Array]:
    return interpret(read_onnx(model), inputs)


def _truth(model: onnx.ModelProto, inputs: Arrays) -> tuple[Truth, Run] | None:
    """By ONNX Runtime, or else by the interpreter, and which; None where neither runs the model."""
    for run in (run_onnx, _interpreted):
        try:
            return Truth(run, model, inputs), run
        except Exception:  # of ONNX Runtime's many kinds, or that the interpreter lacks an operator
            continue
    return None


def _save_samples(path: Path, inputs: Arrays) -> None:
    """Unlabelled data for a dry run: the inputs a few times, a sample a row."""
    rows = {name: np.repeat(array[:1], SAMPLES, axis=0) for name, array in inputs.items() if array.ndim}
    np.savez(path, **rows)  # type: ignore[arg-type]


def examined(name: str, model: Callable[[Path], None], commands: Commands) -> parts.Found:
    """What became of a model, which `model` writes to a path."""
    with tempfile.TemporaryDirectory() as folder:
        case = Case(Path(folder), commands)
        model(Path(folder) / "m.onnx")
        case.examine()
    return parts.Found(case.counts, tuple(f"{name} {fault}" for fault in case.faults))


def random_models(numbers: range, commands: Commands) -> parts.Found:
    """What became of the graphs of some numbers."""
    every = []
    for number in numbers:
        graph = Graph(number)
        model = graph.model()
        onnx.checker.check_model(model)
        every.append(examined(graph.name, partial(onnx.save, model), commands))
    counts: dict[str, Any] = {}
    for found in every:
        counts = parts.added(counts, found.counts)
    wrong = [fault for found in every for fault in found.wrong]
    wrong += [] if counts.get("read worked") else [f"graphs {numbers[0]} to {numbers[-1]}: none was read"]
    return parts.Found(counts, tuple(wrong))


def exported_model(name: str, commands: Commands) -> parts.Found:
    """What became of an exporter's graph."""
    return examined(name, partial(export, name), commands)


def file_model(path: Path, commands: Commands) -> parts.Found:
    """What became of a model of the data."""
    return examined(path.stem, lambda place: place.symlink_to(path), commands)


def main() -> int:
    """1 if there is a fault."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--graphs", type=int, default=500, help="random ones")
    parser.add_argument("--first", type=int, default=0, help="number")
    parser.add_argument("--only", type=parts.names, default=["random", "exported", "data"], help="as A,B")
    options = parser.parse_args()
    end = options.first + options.graphs
    every: dict[str, Callable[[Commands], parts.Found]] = {}
    if "random" in options.only:
        for start in range(options.first, end, PART):
            every[f"random {start}"] = partial(random_models, range(start, min(start + PART, end)))
    if "exported" in options.only:
        every |= {name: partial(exported_model, name) for name in EXPORTED}
    if "data" in options.only:
        models = sorted((DATA / "models").glob("*.onnx"))
        every |= {path.stem: partial(file_model, path) for path in models}
    with Commands() as commands:
        return parts.main(every, lambda part: part(commands), options.output, {"bench": "corpus"})


if __name__ == "__main__":
    sys.exit(main())
