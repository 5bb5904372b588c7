"""Points with certificates, made without a search: exact, lossy and native, of one small model with data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from command_line import answers, images, tiny_model
from tensmith.backend.onnx import write_onnx
from tensmith.backend.packed import pack
from tensmith.config import Config
from tensmith.data import open_dataset, split
from tensmith.data.fingerprint import fingerprint
from tensmith.data.preprocess import RAW
from tensmith.deploy.again import judged_as
from tensmith.engine.base import ENGINES
from tensmith.engine.compiled import CompileOptions, compile_anew
from tensmith.evaluate import size
from tensmith.evaluate.calibrator import Calibrator
from tensmith.evaluate.task import Task
from tensmith.frontend.onnx import read_onnx
from tensmith.report.metric import Metric, exact
from tensmith.rewrite.calibration import Listening
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import Step
from tensmith.rewrite.trail import Traced, simplified, simplify
from tensmith.verify.certificate import make_certificate, write_certificate
from tensmith.verify.library import prepared_in
from tensmith.verify.runs import Checker
from tensmith.verify.schema import Deployed
from tensmith.verify.statistics import Statistics, collect, write_statistics

INT8 = Step("int8", "*", {"calibration": "minmax", "default_bits": 8}, "lossy")


def write_original(root: Path) -> None:
    """original.onnx, which simplifies and folds, and data.npz, on which it is always right: all four classes
    are about as frequent."""
    random = np.random.default_rng(3)
    norm = {name: (0.5 + random.random(8)).astype(np.float32) for name in ("s", "t", "m", "v")}
    model = tiny_model()
    model.graph.node[1].input[0] = "n"
    model.graph.node.insert(1, helper.make_node("BatchNormalization", ["c", *norm], ["n"]))
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in norm.items())
    samples = images()
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    logits = session.run(None, {"x": samples.transpose(0, 3, 1, 2).astype(np.float32)})[0]
    bias = next(tensor for tensor in model.graph.initializer if tensor.name == "fb")
    bias.CopyFrom(numpy_helper.from_array(-np.median(logits, axis=0), "fb"))
    onnx.save(model, root / "original.onnx")
    np.savez(root / "data.npz", x=samples, y=answers(model, samples))


def exact_trail(root: Path) -> tuple[Traced, Statistics]:
    return simplify(read_onnx(root / "original.onnx")), Statistics({}, {})


def lossy_trail(root: Path) -> tuple[Traced, Statistics]:
    before, _ = exact_trail(root)
    splits = split(open_dataset(f"npz:{root / 'data.npz'}"), 256, 2000, None, 0)
    calibrator = Calibrator(splits.calibration, RAW, 1)
    listening = Listening(calibrator)
    after = simplified(before.then(apply_lossy(before.program, INT8, listening), INT8))
    return after, collect(listening.asked, calibrator)


def write_point(
    root: Path,
    name: str,
    trail: Callable[[Path], tuple[Traced, Statistics]],
    engine: str = "onnxruntime",
) -> Path:
    """The folder of a point, at `root`/`name`."""
    folder = root / name
    traced, statistics = trail(root)
    sizes = {"n": 1} if engine == "native" else {}
    write_onnx(traced.program, root / "model.onnx")
    if sizes:
        compile_anew(root / "model.onnx", folder, sizes, CompileOptions.of(engine))
    write_onnx(traced.program, folder / "model.onnx")
    (folder / "model.packed").write_bytes(pack((folder / "model.onnx").read_bytes()))
    write_statistics(statistics, folder)
    config = Config(model="original.onnx")
    dataset = open_dataset(f"npz:{root / 'data.npz'}")
    splits = split(dataset, 256, 2000, None, 0)
    task = Task("accuracy", RAW)
    session = ENGINES[engine].prepare(folder if sizes else folder / "model.onnx", 1)
    metrics = {
        "accuracy": task.outcome(session, splits.held_out, None).metric(),
        "file_bytes": size.file_bytes(folder / "model.onnx"),
        "latency_ms": Metric(1.0, 0.5, 1.5, "ms", "measured"),
        "weight_bytes": size.weight_bytes(folder / "model.onnx"),
        "packed_bytes": exact((folder / "model.packed").stat().st_size, "bytes"),
    }
    shown: Any = {key: metric.to_json() for key, metric in metrics.items()}
    certificate = make_certificate(
        Checker(read_onnx(root / "original.onnx")),
        root / "original.onnx",
        traced.trail,
        {path.name: path for path in sorted(folder.iterdir())},
        shown,
        folder,
        statistics=statistics.hashes,
        deployed=Deployed(engine=engine, sizes=sizes, prepared=prepared_in(folder)),
        judged=judged_as(config, "npz:data.npz", fingerprint(splits, True), task, len(splits.held_out)),
    )
    write_certificate(certificate, folder)
    return folder
