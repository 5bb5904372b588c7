"""Certificates of exact, lossy and native points hold, and forgeries of them are noticed."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

import forgery_points as forgery
import numpy as np
import points
import pytest
from forgery_points import Alteration

import tensmith
from lossy_samples import chain
from tensmith.deploy.again import verify_point
from tensmith.deploy.compared import answers_compared, measures_compared
from tensmith.engine import ENGINES
from tensmith.engine.compiled import NATIVE
from tensmith.errors import ProgramError, VerificationError
from tensmith.evaluate.energy import program_energy
from tensmith.evaluate.statistics import tango, wilson
from tensmith.frontend.onnx import read_onnx
from tensmith.hardware import load_target
from tensmith.ir import Program, make_node
from tensmith.ir.types import TensorType
from tensmith.report.metric import Metric, exact
from tensmith.rewrite.calibration import BINS, Moment
from tensmith.rewrite.lossy.weights import weighted_layers
from tensmith.verify import library
from tensmith.verify.finding import VerifyResult
from tensmith.verify.schema import Judged
from tensmith.verify.statistics import (
    FILE,
    MOST_BYTES,
    KeptStatistics,
    Statistics,
    arrays_of,
    key_of,
    read_statistics,
)

needs_compiler = pytest.mark.skipif(bool(ENGINES[NATIVE].missing()), reason="no C compiler is installed")
HELD_OUT = 121
SAMPLES = f"top-1 accuracy on {HELD_OUT} held-out samples"
KINDS = ["exact", "lossy", pytest.param("native", marks=needs_compiler)]
# Fields that are altered in tests; all of them, in every way, are in benchmarks/trust/forge.py.
_FIELDS = 40


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """original.onnx, data.npz and points; for reading only."""
    folder = tmp_path_factory.mktemp("points")
    points.write_original(folder)
    points.write_point(folder, "exact", points.exact_trail)
    points.write_point(folder, "lossy", points.lossy_trail)
    if not ENGINES[NATIVE].missing():
        points.write_point(folder, "native", points.lossy_trail, NATIVE)
    return folder


@pytest.fixture
def compile_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The native point's model is compiled to the folder that is there; it has the hash that it had."""
    wanted = (root / "native" / "model.onnx").read_bytes() if (root / "native").exists() else b""

    def compiled(model: Path, folder: Path, *_: object) -> None:
        assert model.read_bytes() == wanted
        shutil.copytree(root / "native", folder)

    monkeypatch.setattr(library, "compile_anew", compiled)


def unchecked(result: VerifyResult) -> list[str]:
    return [claim.split(" is ")[0] for claim in result.unchecked]


# What holds


@pytest.mark.parametrize("kind", KINDS)
def test_a_point_holds_and_what_needs_the_data_is_said(root: Path, kind: str) -> None:
    result = verify_point(root / kind, root / "original.onnx")
    assert result.ok and not result.complete
    statistics = [] if kind == "exact" else ["the calibration statistics are those of the data"]
    assert unchecked(result) == [*statistics, "accuracy", "latency_ms"]


def test_with_the_data_all_is_checked_but_a_latency_of_another_machine(root: Path) -> None:
    result = verify_point(root / "lossy", root / "original.onnx", f"npz:{root / 'data.npz'}")
    assert result.ok and not result.unchecked
    assert all(claim.startswith("latency_ms is ") for claim in result.different)


def test_a_latency_that_is_another_here_is_said_and_refutes_nothing(root: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(root / "lossy", tmp_path / "lossy"))
    forgery.edit(folder, lambda d: d["metrics"]["latency_ms"].update(value=1e6, low=1e6, high=1e6))
    result = verify_point(folder, root / "original.onnx", f"npz:{root / 'data.npz'}")
    assert result.ok and not result.complete
    assert result.different == ("latency_ms is 1e+06 [1e+06, 1e+06] ms",)


def test_other_data_is_refused(root: Path, tmp_path: Path) -> None:
    """Labels in another order are other data."""
    with np.load(root / "data.npz") as data:
        np.savez(tmp_path / "other.npz", x=data["x"], y=data["y"][::-1])
    with pytest.raises(VerificationError, match="is not the data of"):
        verify_point(root / "lossy", root / "original.onnx", f"npz:{tmp_path / 'other.npz'}")


def test_an_accuracy_that_the_data_does_not_give_is_false(root: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(root / "lossy", tmp_path / "lossy"))
    stated = json.loads((folder / forgery.NAME).read_text())["metrics"]["accuracy"]
    assert stated["value"] < 100
    forgery.edit(folder, lambda d: d["metrics"]["accuracy"].update(value=100.0, high=100.0))
    result = verify_point(folder, root / "original.onnx", f"npz:{root / 'data.npz'}")
    false = [finding.claim for finding in result.findings if finding.outcome == "does not hold"]
    assert false == [f"accuracy is 100 [{stated['low']:.6g}, 100] %, {SAMPLES}"]


def test_an_accuracy_of_a_few_samples_more_is_not_confirmed_by_the_interval(
    root: Path, tmp_path: Path
) -> None:
    """As any count of the samples gives it, with the interval of that count."""
    folder = Path(shutil.copytree(root / "lossy", tmp_path / "lossy"))
    stated = json.loads((folder / forgery.NAME).read_text())["metrics"]["accuracy"]
    hits = round(stated["value"] * HELD_OUT / 100) + 3
    low, high = wilson(hits, HELD_OUT)
    forged = {"value": 100 * hits / HELD_OUT, "low": 100 * low, "high": 100 * high}
    assert stated["low"] < forged["value"] < stated["high"]
    forgery.edit(folder, lambda d: d["metrics"]["accuracy"].update(forged))
    result = verify_point(folder, root / "original.onnx", f"npz:{root / 'data.npz'}")
    (found,) = (finding for finding in result.findings if finding.claim.startswith("accuracy is "))
    assert found.outcome == "differs here" and f"differs by 3 of {HELD_OUT} samples" in found.detail


def test_a_figure_of_another_measure_is_not_called_accuracy(root: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(root / "lossy", tmp_path / "lossy"))
    forgery.edit(folder, lambda d: d["judged"].update(measure="agreement"))
    result = verify_point(folder, root / "original.onnx")
    (accuracy,) = (claim for claim in result.unchecked if claim.startswith("accuracy is "))
    told = f"agreement with the original on {HELD_OUT} held-out samples"
    assert accuracy.endswith(f" %, {told}")
    rows = json.loads((folder / forgery.NAME).read_text())["claims"]
    assert any(row["detail"].endswith(f"Accuracy is {told}.") for row in rows)


def test_samples_that_the_data_does_not_hold_were_not_judged(root: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(root / "lossy", tmp_path / "lossy"))
    forgery.edit(folder, lambda d: d["judged"].update(judged=HELD_OUT + 1))
    with pytest.raises(VerificationError, match=f"the data holds {HELD_OUT} that are held out"):
        verify_point(folder, root / "original.onnx", f"npz:{root / 'data.npz'}")


@pytest.mark.parametrize(
    ("target", "cpu", "outcome", "why"),
    [
        ("host", "", "holds", ""),
        ("host", "another", "not checked", "it was made with another CPU"),
        ("raspberry-pi-5", "another", "does not hold", ""),
        ("mydev", "", "not checked", "there is no target 'mydev' here"),
        ("/tmp/mydev.toml", "", "not checked", "there is no target"),
    ],
)
def test_energy_is_estimated_again_for_a_machine_that_is_known(
    root: Path, tmp_path: Path, target: str, cpu: str, outcome: str, why: str
) -> None:
    folder = Path(shutil.copytree(root / "lossy", tmp_path / "lossy"))
    energy = program_energy(read_onnx(folder / "model.onnx"), load_target("host"), {"n": 1})
    other = exact(2 * energy.high, "mJ", "estimated") if outcome == "does not hold" else energy

    def change(document: forgery.Document) -> None:
        document["metrics"]["energy_mj"] = other.to_json()
        document["deployed"]["target"] = target
        document["machine"]["cpu"] = cpu or document["machine"]["cpu"]

    forgery.edit(folder, change)
    result = verify_point(folder, root / "original.onnx", f"npz:{root / 'data.npz'}")
    (found,) = (finding for finding in result.findings if finding.claim.startswith("energy_mj is "))
    assert found.outcome == outcome and why in found.detail


def test_without_the_statistics_lossy_steps_are_not_checked_and_the_data_gives_them_again(
    root: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(root / "lossy", tmp_path / "lossy"))
    (folder / FILE).unlink()
    result = verify_point(folder, root / "original.onnx")
    assert result.ok and "model.onnx is what the trail leads to" in result.unchecked
    again = verify_point(folder, root / "original.onnx", f"npz:{root / 'data.npz'}")
    assert "model.onnx is what the trail leads to" not in again.unchecked and again.ok


def test_a_packed_file_alone_is_verified_with_the_data(root: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(root / "lossy", tmp_path / "lossy"))
    (folder / "model.onnx").unlink()
    result = verify_point(folder, root / "original.onnx", f"npz:{root / 'data.npz'}")
    found = {finding.claim: finding for finding in result.findings}
    assert result.ok
    assert found["the calibration statistics are those of the data"].outcome == "holds"
    assert found["model.onnx is what the trail leads to"].outcome == "holds"
    (accuracy,) = (found[claim] for claim in result.unchecked if claim.startswith("accuracy is "))
    assert accuracy.detail == "model.onnx is not in the folder"


def test_an_engine_or_a_setting_that_is_not_here_is_not_measured(root: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(root / "lossy", tmp_path / "lossy"))
    forgery.edit(folder, lambda d: d["deployed"].update(engine="far"))
    result = verify_point(folder, root / "original.onnx", f"npz:{root / 'data.npz'}")
    assert result.ok and unchecked(result) == ["what", "accuracy", "latency_ms"]
    forgery.edit(folder, lambda d: d["deployed"].update(engine="onnxruntime", settings={"threads": "4"}))
    result = verify_point(folder, root / "original.onnx", f"npz:{root / 'data.npz'}")
    assert result.ok and unchecked(result) == ["accuracy", "latency_ms"]


@needs_compiler
def test_a_library_that_is_not_what_the_model_compiles_to_is_not_run(
    root: Path, tmp_path: Path, compile_once: None
) -> None:
    source, built, ran = tmp_path / "c.c", tmp_path / "c.so", tmp_path / "ran"
    code = f'__attribute__((constructor)) void f(void) {{ fopen("{ran}", "w"); }}'
    source.write_text(f"#include <stdio.h>\n{code}{forgery.CONSTANT_FUNCTION}")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", built, source], check=True)
    folder = Path(shutil.copytree(root / "native", tmp_path / "native"))
    (swap, *_) = forgery.of_libraries(built)
    swap.act(folder)
    result = verify_point(folder, root / "original.onnx")
    assert not result.ok and not ran.exists()
    assert any(claim.startswith("libmodel.so computes") for claim in result.unchecked)
    asked = verify_point(folder, root / "original.onnx", run_library=True)
    assert ran.exists() and not any(claim.startswith("libmodel.so computes") for claim in asked.unchecked)


class Halves:
    """In the place of ONNX Runtime: half of what it is given, and no number of more than `most`."""

    def __init__(self, most: float) -> None:
        self.most = most

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: np.where(array > self.most, np.nan, array / 2) for name, array in inputs.items()}


def test_a_library_is_run_on_all_bytes() -> None:
    x = TensorType("u8", (64,))
    program = Program("p", {"x": x}, ("y",), (make_node("cast", ("x",), ("y",), {"to": 1}),), {})
    for most, wide in ((np.inf, True), (200, False)):
        given = [library._asked(program, {}, number, Halves(most))[0]["x"].max() for number in range(4)]
        assert [number > 200 for number in given] == [False, wide] * 2


def test_a_folder_is_loaded_only_as_it_was_certified(root: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(root / "lossy", tmp_path / "lossy"))
    assert tensmith.load(folder)(np.zeros((1, 3, 8, 8), np.float32)).shape == (1, 4)
    (folder / "model.onnx").write_bytes((root / "exact" / "model.onnx").read_bytes())
    with pytest.raises(VerificationError, match=r"model\.onnx"):
        tensmith.load(folder)


# What is forged


def noticed(root: Path, tmp_path: Path, kind: str, alterations: list[Alteration]) -> dict[str, list[str]]:
    """What was done, by what came of it; "same": nothing was altered."""
    original, found = root / "original.onnx", defaultdict[str, list[str]](list)

    def verify(folder: Path) -> VerifyResult:
        return verify_point(folder, original, seconds=1)

    genuine = verify(root / kind)
    for number, alteration in enumerate(alterations):
        copy = Path(shutil.copytree(root / kind, tmp_path / str(number)))
        found[forgery.judge(copy, alteration, genuine, verify)].append(
            f"{alteration.place}: {alteration.what}"
        )
    assert not found["MISSED"]
    return found


@pytest.mark.parametrize("kind", ["exact", "lossy"])
def test_whole_forgeries_are_noticed(root: Path, tmp_path: Path, kind: str) -> None:
    found = noticed(root, tmp_path, kind, [*forgery.by_name(root / "original.onnx")])
    assert not found["same"]


@pytest.mark.parametrize("kind", ["exact", "lossy"])
def test_altered_files_are_noticed(root: Path, tmp_path: Path, kind: str) -> None:
    found = noticed(root, tmp_path, kind, [*forgery.files(root / kind)])
    assert not found["same"]


@pytest.mark.parametrize("kind", ["exact", "lossy"])
def test_altered_fields_are_noticed(root: Path, tmp_path: Path, kind: str) -> None:
    every = [*forgery.fields(json.loads((root / kind / forgery.NAME).read_text()))]
    noticed(root, tmp_path, kind, random.Random(0).sample(every, _FIELDS))


@needs_compiler
def test_altered_code_is_noticed(root: Path, tmp_path: Path, compile_once: None) -> None:
    altered: list[Callable[[Path], None]] = []
    for alteration in forgery.files(root / NATIVE):
        code = alteration.place in ENGINES[NATIVE].files
        if code and alteration.what.endswith(("zeroed, hashes remade", "flipped, hashes remade")):
            altered.append(alteration.act)
    assert len(altered) == 2 * len(ENGINES[NATIVE].files)
    for number, act in enumerate(altered):
        copy = Path(shutil.copytree(root / NATIVE, tmp_path / str(number)))
        act(copy)
        with contextlib.suppress(VerificationError):
            assert not verify_point(copy, root / "original.onnx", seconds=1).ok


@pytest.mark.parametrize(
    ("dtype", "settings", "coarse"),
    [
        (np.int8, {}, True),
        (np.bool_, {}, False),
        (np.float32, {"tuning": "tuned", "algorithm": "gemm", "precision": "f32"}, False),
        (np.float32, {"precision": "bf16"}, True),
    ],
)
def test_only_fewer_bits_are_allowed_larger_errors(
    dtype: type, settings: dict[str, str], coarse: bool
) -> None:
    x = TensorType("f32", (2,))
    node = make_node("relu", ("x",), ("y",))
    program = Program("p", {"x": x}, ("y",), (node,), {"c": np.ones(2, dtype)})
    assert library._tolerance(program, settings) == (library._QUANTIZED if coarse else library._ROUNDING)


# Statistics of a stranger


def test_statistics_are_bounded_and_hold_no_pickles(tmp_path: Path) -> None:
    path = tmp_path / FILE
    np.savez_compressed(path, a=np.zeros(3 * MOST_BYTES // 8 * 2))
    with pytest.raises(VerificationError, match="more than 16 MB"):
        read_statistics(path)
    np.savez(path, a=np.array([{}], object))
    with pytest.raises(VerificationError, match="size it states"):
        read_statistics(path)
    path.write_bytes(b"PK")
    with pytest.raises(VerificationError, match="no calibration statistics"):
        read_statistics(path)


@pytest.mark.parametrize(
    "arrays",
    [
        {"k.histogram": np.zeros(1)},
        {"k.histogram": np.zeros((3, 3))},
        {"k.first": np.zeros((1, 3)), "k.second": np.zeros((1, 3, 2)), "k.count": np.array(1)},
        {"k.first": np.zeros((1, 3)), "k.second": np.zeros((1, 3, 3)), "k.count": np.zeros(2)},
        {"k.first": np.zeros((1, 3)), "k.second": np.zeros((1, 3, 3))},
        {"k.first": np.zeros((1, 3)), "k.second": np.zeros((1, 3, 3)), "k.count": np.array(0)},
        {"k.first": np.zeros((1, 3)), "k.second": np.zeros((1, 3, 3)), "k.count": np.array(np.inf)},
        {"k.histogram": np.zeros(9)},
        {"k.histogram": np.zeros(BINS + 2), "k.count": np.array(1)},
        {"k": np.zeros(9)},
    ],
)
def test_statistics_have_shapes(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    np.savez(tmp_path / FILE, **arrays)
    with pytest.raises(VerificationError, match="of no known shape"):
        read_statistics(tmp_path / FILE)


@pytest.mark.parametrize(("groups", "depth"), [(1, 26), (1, 28), (2, 27)])
def test_moments_are_of_their_layers_inputs(groups: int, depth: int) -> None:
    program = chain()
    site = weighted_layers(program)[0].site

    def kept(groups: int, depth: int) -> KeptStatistics:
        moment = Moment(np.zeros((groups, depth)), np.zeros((groups, depth, depth)), 1)
        return KeptStatistics({key_of(program, "moment", site): arrays_of(moment)})

    assert kept(1, 27).moment(program, site).count == 1
    with pytest.raises(ProgramError, match="another size"):
        kept(groups, depth).moment(program, site)


def test_what_is_not_kept_is_said(root: Path) -> None:
    kept = read_statistics(root / "lossy" / FILE)
    program, _ = points.exact_trail(root)
    with pytest.raises(ProgramError, match="not among the statistics"):
        kept.moment(program.program, "nowhere")


def test_large_statistics_are_hashed_and_not_kept(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setattr("tensmith.verify.statistics.MOST_BYTES", 1000)
    _, statistics = points.lossy_trail(root)
    assert statistics == Statistics(statistics.hashes, {}) and len(statistics.hashes) == 3


@pytest.mark.parametrize(("low", "outcome"), [(1.0, "holds"), (1.03, "holds"), (1.2, "differs here")])
def test_a_time_of_another_process_may_lie_a_little_beside_the_interval(low: float, outcome: str) -> None:
    stated, found = (Metric(at, at, at, "ms", "measured") for at in (1.0, low))
    for one, other in ((stated, found), (found, stated)):
        assert measures_compared("latency_ms is 1", one, other).outcome == outcome


@pytest.mark.parametrize(
    ("stated", "outcome"),
    [
        ((2.07, 2.05, 2.09), "holds"),
        ((2.1, 1.99, 2.3), "holds"),
        ((2.0, 1.5, 2.5), "holds"),  # of a busy machine, and right
        ((0.2, 0.2, 5.0), "differs here"),
        ((1.0, 1.0, 2.0), "differs here"),
        ((1.5, 1.49, 1.51), "differs here"),
    ],
)
def test_a_wide_interval_confirms_no_time(stated: tuple[float, float, float], outcome: str) -> None:
    one, other = (Metric(*ends, "ms", "measured") for ends in (stated, (2.0, 1.95, 2.06)))
    assert measures_compared("latency_ms is so", one, other).outcome == outcome


def figures_compared(
    measure: str, name: str, unit: str, stated: tuple[float, ...], found: tuple[float, ...], samples: int
) -> str:
    fields = {"calibration_samples": 1, "search_samples": 1, "held_out_samples": None, "seed": 0}
    more = {"name": "", "fingerprint": "0" * 64, "preprocess": "", "judged": samples, "measure": measure}
    one, other = (Metric(*ends, unit, "measured") for ends in (stated, found))
    return answers_compared(name, f"{name} is so", one, other, Judged(**fields, **more)).outcome


def of_count(hits: int, samples: int) -> tuple[float, float, float]:
    low, high = wilson(hits, samples)
    return 100 * hits / samples, 100 * low, 100 * high


@pytest.mark.parametrize(
    ("stated", "samples", "outcome"),
    [
        (of_count(1469, 1500), 1500, "holds"),
        (of_count(1470, 1500), 1500, "holds"),
        (of_count(1471, 1500), 1500, "differs here"),
        (of_count(1479, 1500), 1500, "does not hold"),  # beyond the interval
        ((98.5, 97.75, 99.0), 1500, "does not hold"),  # 1,477.5 samples
        ((of_count(1469, 1500)[0], 97.0, 99.0), 1500, "does not hold"),  # another interval
        ((1e300, 1e300, 1e300), 1500, "does not hold"),
        ((-0.1, -0.1, 0.0), 1000, "does not hold"),
    ],
)
def test_an_accuracy_is_a_count_of_samples(
    stated: tuple[float, float, float], samples: int, outcome: str
) -> None:
    found = of_count(1469, 1500)
    assert figures_compared("accuracy", "accuracy", "%", stated, found, samples) == outcome


@pytest.mark.parametrize(
    ("lost", "gained", "outcome"),
    [(5, 5, "holds"), (6, 5, "holds"), (6, 6, "holds"), (5, 9, "differs here"), (0, 30, "does not hold")],
)
def test_a_drop_is_a_count_of_samples(lost: int, gained: int, outcome: str) -> None:
    def drop(lost: int, gained: int) -> tuple[float, float, float]:
        low, high = tango(lost, gained, 1500)
        return (lost - gained) / 15, 100 * low, 100 * high

    stated, found = drop(lost, gained), drop(5, 5)
    assert figures_compared("accuracy", "accuracy_drop", "pt", stated, found, 1500) == outcome
    assert figures_compared("accuracy", "accuracy_drop", "pt", (-0.25, -0.5, 0.0), found, 1500) != "holds"
    assert figures_compared("accuracy", "accuracy_drop", "pt", (-2, -7, 3.5), (0, -5, 5), 64) != "holds"


# By measure and name, what is stated, and what is found where another CPU rounds otherwise, or does not.
NEAR = [
    ("loss", "accuracy", "nats/token", (2.0, 1.9, 2.1), (2.00001, 1.90001, 2.10001)),
    ("loss", "accuracy_drop", "%", (3e-5, 2e-5, 4e-5), (-1e-5, -2e-5, 0.0)),
    ("fidelity", "accuracy", "dB", (119.3, 119.1, 119.5), (117.9, 117.7, 118.1)),
    ("fidelity", "accuracy_drop", "%", (1.1e-4, 1e-4, 1.2e-4), (1.4e-4, 1.3e-4, 1.5e-4)),
    ("average-precision", "accuracy", "AP", (61.0, 58.0, 64.0), (61.02, 58.03, 64.01)),
]
FAR = [
    ("loss", "accuracy", "nats/token", (2.0, 1.9, 2.1), (2.01, 1.91, 2.11), "differs here"),
    ("loss", "accuracy", "nats/token", (1.8, 1.7, 1.9), (2.01, 1.91, 2.11), "does not hold"),
    ("loss", "accuracy_drop", "%", (0.1, 0.0, 0.2), (0.3, 0.2, 0.4), "does not hold"),
    ("fidelity", "accuracy", "dB", (119.3, 119.1, 119.5), (60.0, 59.8, 60.2), "does not hold"),
    ("fidelity", "accuracy", "dB", (40.5, 40.0, 41.0), (40.0, 39.4, 40.6), "differs here"),
    ("fidelity", "accuracy", "dB", (1e300, 1e300, 1e300), (120.0, 120.0, 120.0), "does not hold"),
    ("fidelity", "accuracy", "dB", (-1e300, -1e300, -1e300), (0.0, 0.0, 0.0), "does not hold"),
    ("average-precision", "accuracy", "AP", (62.0, 59.0, 65.0), (61.0, 58.0, 64.0), "differs here"),
]


@pytest.mark.parametrize(("measure", "name", "unit", "stated", "found"), NEAR)
def test_rounding_makes_no_figure_false(
    measure: str, name: str, unit: str, stated: tuple[float, ...], found: tuple[float, ...]
) -> None:
    assert figures_compared(measure, name, unit, stated, found, 100) == "holds"


@pytest.mark.parametrize(("measure", "name", "unit", "stated", "found", "outcome"), FAR)
def test_what_is_more_than_rounding_is_not_confirmed(
    measure: str, name: str, unit: str, stated: tuple[float, ...], found: tuple[float, ...], outcome: str
) -> None:
    assert figures_compared(measure, name, unit, stated, found, 100) == outcome
