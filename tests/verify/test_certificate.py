"""Certificates hold for what they were made of, and for nothing else."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from forgery_points import FORGED_NAMES
from forgery_points import edit as forged

from gguf_models import rotary_model, written
from small_network import network
from tensmith.backend.onnx import write_onnx
from tensmith.backend.packed import pack
from tensmith.deploy.again import verify_point
from tensmith.deploy.model import load
from tensmith.errors import VerificationError
from tensmith.files import sha256_file
from tensmith.frontend.model import read_weights_open
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program, TensorType, make_node
from tensmith.report.document import Metrics
from tensmith.rewrite.rule import EVERYWHERE, EXACT
from tensmith.rewrite.trail import simplify
from tensmith.verify import checker
from tensmith.verify import folder as folders
from tensmith.verify.certificate import make_certificate, write_certificate
from tensmith.verify.folder import VerifyResult, verify_folder
from tensmith.verify.runs import Checker, FoldError, fold_error, stretches
from tensmith.verify.schema import MAX_BYTES, read_certificate, seal

METRICS: Metrics = {
    "latency_ms": {"value": 1.0, "low": 0.9, "high": 1.1, "unit": "ms", "evidence": "measured"}
}
Edit = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """original.onnx and best/ with a certificate, of a trail without lossy steps."""
    root = tmp_path_factory.mktemp("made")
    original, best = root / "original.onnx", root / "best"
    write_onnx(network(), original)
    start = read_onnx(original)
    traced = simplify(start)
    write_onnx(traced.program, best / "model.onnx")
    (best / "model.packed").write_bytes(pack((best / "model.onnx").read_bytes()))
    files = {name: best / name for name in ("model.onnx", "model.packed")}
    write_certificate(make_certificate(Checker(start), original, traced.trail, files, METRICS, best), best)
    return root


@pytest.fixture
def best(made: Path, tmp_path: Path) -> Path:
    """A copy of best/ to damage."""
    shutil.copytree(made, tmp_path / "copy")
    return tmp_path / "copy" / "best"


def edit(best: Path, change: Edit, sealed: bool = True) -> None:
    """Changes a certificate, and its digest too unless `sealed` is false."""
    path = best / "certificate.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(seal(document) if sealed else document))


def outcomes(result: VerifyResult, start: str) -> set[str]:
    return {finding.outcome for finding in result.findings if finding.claim.startswith(start)}


# What holds


def test_a_fresh_certificate_holds_in_everything_but_measurements(best: Path) -> None:
    result = verify_folder(best)
    assert result.ok and not result.complete
    assert result.unchecked == ("the original is original.onnx", "the metric latency_ms")
    assert outcomes(result, "steps") == {"holds"} and outcomes(result, "model.onnx is what") == {"holds"}
    assert checker.check(best) == []


def test_claims_carry_their_evidence(best: Path) -> None:
    rows = read_certificate(best / "certificate.json").claims
    words = {row.evidence for row in rows}
    assert {"proved", "checked", "bounded", "measured"} <= words
    assert all(row.assumptions for row in rows if row.evidence in ("proved", "checked", "bounded"))


def test_without_the_original_nothing_is_false_but_less_is_checked(best: Path) -> None:
    (best.parent / "original.onnx").unlink()
    edit(best, lambda d: d["original"].update(absolute=str(best / "gone.onnx")))
    result = verify_folder(best)
    assert result.ok and outcomes(result, "the trail replays") == {"not checked"}


def test_the_original_can_be_given(best: Path, made: Path) -> None:
    (best.parent / "original.onnx").unlink()
    edit(best, lambda d: d["original"].update(absolute=str(best / "gone.onnx")))
    assert outcomes(verify_folder(best, made / "original.onnx"), "the original is") == {"holds"}
    with pytest.raises(VerificationError, match="not the original"):
        verify_folder(best, best / "model.onnx")


def test_another_original_is_told_before_anything_is_proved(
    best: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proved = mock.Mock()
    monkeypatch.setattr(folders, "check_rules", proved)
    with pytest.raises(VerificationError, match="not the original"):
        verify_folder(best, best / "model.onnx")
    assert not proved.called


def test_a_packed_file_alone_is_enough(best: Path) -> None:
    (best / "model.onnx").unlink()
    result = verify_folder(best)
    assert result.ok and outcomes(result, "model.packed unpacks") == {"holds"}


def test_what_is_larger_than_any_onnx_file_is_another_original_without_being_read(
    best: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = tmp_path / "large.onnx"
    large.touch()
    os.truncate(large, 3 << 30)
    read = mock.Mock(return_value="")
    monkeypatch.setattr(folders, "sha256_file", read)
    with pytest.raises(VerificationError, match="not the original"):
        verify_folder(best, large)
    assert not read.called


def test_an_original_may_have_any_size(best: Path, tmp_path: Path) -> None:
    """As .gguf files have. This one is of another program, which shows that it was read."""
    large = tmp_path / "large.gguf"
    large.write_bytes(written(rotary_model()))
    with large.open("ab") as file:
        file.truncate(3 << 30)
    write_onnx(read_weights_open(large), tmp_path / "model.onnx")
    edit(best, lambda d: d["original"].update(sha256=sha256_file(tmp_path / "model.onnx")))
    with pytest.raises(VerificationError, match="reads as another program"):
        verify_folder(best, large)


def test_an_empty_packed_file_is_no_model(best: Path, made: Path) -> None:
    (best / "model.packed").write_bytes(b"")
    (best / "model.onnx").unlink()
    edit(best, lambda d: d.update(files={"model.packed": sha256_file(best / "model.packed")}))
    result = verify_point(best, made / "original.onnx")
    assert not result.ok and outcomes(result, "model.onnx is what") == {"does not hold"}


# Folding


def test_folding_is_within_half_a_unit_in_the_last_place_and_a_wrong_constant_is_not() -> None:
    start = network()
    fold = next(s for s in stretches(start, simplify(start).trail) if s.sort == "fold")
    assert 0 < fold_error(fold.before, fold.after).ulps <= 0.5
    name = fold_error(fold.before, fold.after).constant
    wrong = fold.after.constants[name].copy()
    wrong.flat[0] = np.nextafter(np.nextafter(wrong.flat[0], np.float32(9)), np.float32(9))
    assert fold_error(fold.before, fold.after.with_constants({name: wrong})).ulps > 1


@pytest.mark.parametrize("last", ["cast", "quantize_linear", "floor", "mod", "less", "arg_max"])
def test_a_fold_is_held_against_what_rounds_its_inputs_as_declared(last: str) -> None:
    """1 over the f32 beside 1/3 is 3 in f32, and less than 3 in f64: an integer, or a code, another."""
    constants = {
        "one": np.float32([1]), "third": np.float32([1]) / np.float32([3]),
        "scale": np.array(2, np.float32), "zero": np.array(0, np.int8), "three": np.float32([3]),
    }  # fmt: skip
    rounding = {
        "cast": make_node("cast", ("quotient",), ("whole",), {"to": 6}),
        "quantize_linear": make_node("quantize_linear", ("quotient", "scale", "zero"), ("whole",)),
        "floor": make_node("floor", ("quotient",), ("whole",)),
        "mod": make_node("mod", ("quotient", "three"), ("whole",), {"fmod": 1}),
        "less": make_node("less", ("quotient", "three"), ("whole",)),
        "arg_max": make_node("arg_max", ("both",), ("whole",)),
    }[last]
    element, right = {
        "cast": (6, 3), "quantize_linear": (3, 2), "floor": (1, 3), "mod": (1, 0), "less": (9, 0),
        "arg_max": (7, 0),
    }[last]  # fmt: skip
    nodes = (
        make_node("div", ("one", "third"), ("quotient",)),
        *([make_node("concat", ("quotient", "three"), ("both",), {"axis": 0})] if last == "arg_max" else []),
        rounding,
        make_node("cast", ("x",), ("given",), {"to": element}),
        make_node("equal", ("given", "whole"), ("y",)),
    )
    before = Program("border", {"x": TensorType("f32", (1,))}, ("y",), nodes, constants)
    after = EXACT["fold_constants"].apply(before, EVERYWHERE)
    assert after.constants["whole"] == right
    assert fold_error(before, after) == FoldError(1, 0.0, "whole")


def test_a_range_is_folded_as_long_as_it_is_declared() -> None:
    """From 0.1 to 0.4 by 0.1 there are 4 numbers in f32, and 3 where each is widened to f64."""
    constants = {name: np.array(value, np.float32) for name, value in [("a", 0.1), ("b", 0.4), ("c", 0.1)]}
    nodes = (
        make_node("range", ("a", "b", "c"), ("r",)),
        make_node("reduce_sum", ("r",), ("whole",), {"keepdims": 0}),
        make_node("mul", ("x", "whole"), ("y",)),
    )
    before = Program("range", {"x": TensorType("f32", (1,))}, ("y",), nodes, constants)
    after = EXACT["fold_constants"].apply(before, EVERYWHERE)
    assert after.constants["whole"] == np.float32(1)
    error = fold_error(before, after)
    assert error.constant == "whole" and error.ulps <= 0.5


def test_folded_text_is_compared() -> None:
    constants = {
        "labels": np.array(["a", "b", "c"], object),
        "last": np.array(-1, np.int64),
        "axes": np.array([0], np.int64),
    }
    nodes = (
        make_node("gather", ("labels", "last"), ("label",), {"axis": 0}),
        make_node("unsqueeze", ("label", "axes"), ("row",)),
        make_node("gather", ("row", "i"), ("y",), {"axis": 0}),
    )
    before = Program("text", {"i": TensorType("i64", (1,))}, ("y",), nodes, constants)
    after = EXACT["fold_constants"].apply(before, EVERYWHERE)
    assert after.constants["row"].tolist() == ["c"]
    assert fold_error(before, after) == FoldError(1, 0.0, "row")
    other = after.with_constants({"row": np.array(["a"], object)})
    assert fold_error(before, other).ulps == np.inf


def test_a_constant_that_a_rule_makes_of_data_is_no_fold() -> None:
    nodes = (
        make_node("softmax", ("x",), ("p",), {"axis": -1}),
        make_node("reduce_sum", ("p", "axes"), ("s",), {"keepdims": 1}),
        make_node("mul", ("s", "z"), ("y",)),
    )
    types = {"x": TensorType("f32", (2, 4)), "z": TensorType("f32", (2, 1))}
    start = Program("certain", types, ("y",), nodes, {"axes": np.array([-1])})
    found = Checker(start).check(simplify(start).trail)
    assert [check.count for _, check in found if isinstance(check, FoldError)] == [0]


# What is refused


@pytest.mark.parametrize("name", ["model.onnx", "model.packed"])
@pytest.mark.parametrize("place", [0.01, 0.5, 0.99])
def test_any_flipped_bit_in_a_file_is_refused(best: Path, name: str, place: float) -> None:
    data = bytearray((best / name).read_bytes())
    data[int(len(data) * place)] ^= 1
    (best / name).write_bytes(data)
    with pytest.raises(VerificationError, match=name):
        verify_folder(best)
    assert any(name in problem for problem in checker.check(best))


def swap_hash(document: dict[str, Any]) -> None:
    document["files"]["model.onnx"] = document["files"]["model.packed"]


def drop_step(document: dict[str, Any]) -> None:
    del document["trail"][0]


def overclaim(document: dict[str, Any]) -> None:
    row = next(row for row in document["claims"] if row["evidence"] == "checked")
    row["detail"] = row["detail"].replace("equal modulo", "proved equal modulo")


EDITS = [
    (swap_hash, "model.onnx"),
    (drop_step, "certificate"),
    (overclaim, "does not follow"),
    (lambda d: d["trail"][0].update(site="elsewhere"), "trail"),
    (lambda d: d["trail"][0].update(rule="no_such_rule"), "certificate"),
    (lambda d: d["runs"][0].update(digest="0" * 64), "trail leads to another"),
    (lambda d: d["runs"][0].update(error_probability=1e-30), "does not follow"),
    (lambda d: d["runs"][0].update(primes=[2] * 64), "distinct primes"),
    (lambda d: d["runs"][0].update(primes=[1048577]), "is no prime"),
    (lambda d: d["metrics"]["latency_ms"].update(evidence="proved"), "no metric is 'latency_ms'"),
    (lambda d: d["claims"].pop(), "does not list all that follows"),
    (lambda d: d["claims"].reverse(), "does not list all that follows"),
    (lambda d: d["original"].update(digest="0" * 64), "another program"),
    (lambda d: d["rules"].pop(), "certificate"),
    (lambda d: d["metrics"]["latency_ms"].update(value=0.95), "does not follow"),
    (lambda d: d.update(schema=1), "is not a certificate of schema 2"),
    (lambda d: d.update(schema=3), "schema"),
    (lambda d: d.update(extra=1), "extra"),
    (lambda d: d["files"].update({"../../etc/passwd": "0" * 64}), "certificate"),
]


@pytest.mark.parametrize(("change", "message"), EDITS)
def test_an_edited_certificate_is_refused_even_with_a_right_digest(
    best: Path, change: Edit, message: str
) -> None:
    edit(best, change)
    with pytest.raises(VerificationError, match=message):
        verify_folder(best)


@pytest.mark.parametrize("change", [change for change, _ in EDITS])
def test_an_edited_certificate_does_not_have_its_digest(best: Path, change: Edit) -> None:
    edit(best, change, sealed=False)
    with pytest.raises(VerificationError):
        verify_folder(best)
    assert checker.check(best) != []


def test_claims_of_another_version_are_refused_with_its_name(best: Path) -> None:
    for change in (lambda d: d["claims"][0].update(detail="other words"), lambda d: d["claims"].pop()):
        edit(best, lambda d, change=change: (d.update(tensmith="99.0"), change(d)))
        with pytest.raises(VerificationError, match=r"\(made by tensmith 99\.0; this is "):
            verify_folder(best)


def test_what_an_engine_that_is_not_here_does_is_not_checked(best: Path) -> None:
    (best / "libfar.so").write_bytes(b"")
    row = {"claim": "libfar.so computes.", "evidence": "tested", "detail": "", "assumptions": []}

    def elsewhere(document: dict[str, Any]) -> None:
        document["deployed"].update(engine="far", prepared=[{"step": "cast", "evidence": "tested"}])
        document["files"]["libfar.so"] = sha256_file(best / "libfar.so")
        document["claims"].insert(-1, row)

    edit(best, elsewhere)
    result = verify_folder(best)
    assert result.ok and "what is said of the engine 'far', and of its files" in result.unchecked
    edit(best, lambda d: d["claims"].pop(0))
    with pytest.raises(VerificationError, match="does not list all that follows"):
        verify_folder(best)


def test_primes_are_told_from_pseudoprimes() -> None:
    by_division = [n for n in range(3, 5000) if all(n % d for d in range(2, int(n**0.5) + 1))]
    assert [n for n in range(5000) if checker.is_prime(n)] == by_division
    strong_by_small_bases = (2047, 1373653, 25326001, 3215031751, 3825123056546413051)
    assert not any(map(checker.is_prime, strong_by_small_bases))
    assert checker.is_prime(2**61 - 1) and checker.is_prime(2**64 - 59)


@pytest.mark.parametrize("text", ["", "{", "[]", "NaN", "[" * 100_000, '{"schema": 1}', "\x00"])
def test_what_is_no_certificate_is_refused(best: Path, text: str) -> None:
    (best / "certificate.json").write_text(text)
    with pytest.raises(VerificationError, match="certificate"):
        verify_folder(best)
    assert checker.check(best) != []


def test_an_infinite_number_is_refused(best: Path) -> None:
    """Which JSON has no word for, but writes as one that is too large."""
    path = best / "certificate.json"
    document = json.loads(path.read_text())
    document["trail"][0]["params"] = {"scale": "HUGE"}
    path.write_text(json.dumps(document).replace('"HUGE"', "1e999"))
    with pytest.raises(VerificationError, match="is not a certificate of schema 2"):
        read_certificate(path)


def test_a_step_of_no_kind_is_found_by_the_checker(best: Path) -> None:
    edit(best, lambda d: d["trail"][0].update(kind=[]))
    assert any("neither exact nor lossy" in problem for problem in checker.check(best))


@pytest.mark.skipif(not Path("/proc/version").is_file(), reason="no files without a size here")
def test_a_file_that_may_have_no_end_is_not_read(best: Path) -> None:
    endless = Path("/proc/version")
    digest = hashlib.sha256(endless.read_bytes()).hexdigest()
    edit(best, lambda d: d["original"].update(absolute=str(endless), relative="gone", sha256=digest))
    assert "the trail replays from the original" in verify_folder(best).unchecked


@pytest.mark.parametrize("name", ["certificate.json", "model.packed"])
def test_a_pipe_is_not_waited_for(best: Path, name: str) -> None:
    (best / name).unlink()
    os.mkfifo(best / name)
    assert any("not a file" in problem for problem in checker.check(best))
    if name == "certificate.json":
        with pytest.raises(VerificationError, match="is no file"):
            verify_folder(best)


def test_a_huge_certificate_is_not_read(best: Path) -> None:
    with (best / "certificate.json").open("ab") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(VerificationError, match="MB"):
        verify_folder(best)


def test_a_file_of_another_run_is_refused(best: Path) -> None:
    edit(best, lambda d: d["files"].pop("model.packed"))
    with pytest.raises(VerificationError, match="another run"):
        verify_folder(best)
    assert any("model.packed is not in the certificate" in problem for problem in checker.check(best))


@pytest.mark.parametrize("name", ["model.py", "__pycache__", "libmodel.so"])
def test_nobody_puts_a_file_beside(best: Path, name: str) -> None:
    (best / name).mkdir() if name.startswith("_") else (best / name).write_text("")
    with pytest.raises(VerificationError, match=f"{name} is not in the certificate"):
        verify_folder(best)
    if name.startswith("_"):
        load(best)  # which uses no such thing
        return
    with pytest.raises(VerificationError, match=f"{name} is not in the certificate"):
        load(best)


def test_a_looser_fold_than_stated_does_not_hold(best: Path) -> None:
    def tighten(document: dict[str, Any]) -> None:
        run = next(run for run in document["runs"] if run["sort"] == "fold")
        run["ulps"] = 0.0

    forged(best, tighten)
    result = verify_folder(best)
    assert not result.ok and "does not hold" in outcomes(result, "step ")


def test_a_model_that_the_trail_does_not_lead_to_does_not_hold(best: Path, made: Path) -> None:
    """A false certificate: hashes right, trail right, but another model deployed."""
    shutil.copy(made / "original.onnx", best / "model.onnx")
    (best / "model.packed").write_bytes(pack((best / "model.onnx").read_bytes()))

    def restate(document: dict[str, Any]) -> None:
        for name in document["files"]:
            document["files"][name] = hashlib.sha256((best / name).read_bytes()).hexdigest()

    edit(best, restate)
    result = verify_folder(best)
    assert not result.ok and outcomes(result, "model.onnx is what") == {"does not hold"}


def test_the_checker_is_a_command(best: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checker.main([str(best)]) == 0
    (best / "model.onnx").write_bytes(b"")
    assert checker.main([str(best)]) == 1 and "model.onnx" in capsys.readouterr().out
    assert checker.main([]) == 2


def test_no_name_forges_a_line_of_the_checker(best: Path) -> None:
    for name in FORGED_NAMES:
        (best / os.fsdecode(name)).write_text("")
    run = subprocess.run([sys.executable, "-I", checker.__file__, best], capture_output=True)
    lines = run.stdout.decode().splitlines()
    assert (run.returncode, run.stderr) == (1, b"") and len(lines) == len(FORGED_NAMES)
    assert all(line.isprintable() and line.endswith("is not in the certificate") for line in lines)
