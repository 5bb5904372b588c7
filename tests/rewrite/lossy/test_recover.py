"""A step of trained weights takes those of its hash, where they fit, and no others."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from lossy_samples import Interpreted, chain, recovered
from tensmith.errors import ProgramError, VerificationError
from tensmith.formula.arith import Array
from tensmith.ir import Program
from tensmith.rewrite.archives import digest_of, read_arrays, read_trained, trained_path, write_arrays
from tensmith.rewrite.lossy.recover import trained_weights
from tensmith.rewrite.method import LOSSY, apply_lossy
from tensmith.rewrite.rule import Step


@dataclass
class Kept(Interpreted):
    """A calibration with trained weights in a folder."""

    folder: Path | None = None

    def trained(self, weights: str) -> dict[str, Array]:
        return read_trained(self.folder, weights)


def quantized() -> Program:
    params = {"default_bits": 4, "stored": "codes"}
    return apply_lossy(chain(), Step("weight_only", params=params, kind="lossy"), Interpreted())


def codes_of(program: Program) -> str:
    return next(name for name in program.constants if name.endswith(".codes"))


def test_constants_are_replaced_in_their_own_types(tmp_path: Path) -> None:
    program = quantized()
    name = codes_of(program)
    arrays = {name: np.clip(program.constants[name].astype(np.int8) + 1, -7, 7).astype(np.int8)}
    write_arrays(trained_path(tmp_path, digest_of(arrays)), arrays)
    after = apply_lossy(program, recovered(arrays), Kept(folder=tmp_path))
    assert after.constants[name].dtype == program.constants[name].dtype
    np.testing.assert_array_equal(after.constants[name].astype(np.int8), arrays[name])
    assert trained_weights([recovered(arrays)]) == [digest_of(arrays)]
    assert LOSSY["recover"].treatment(recovered(arrays).params, name) == "trained for 3 steps"


def test_other_weights_are_refused(tmp_path: Path) -> None:
    program = quantized()
    name = codes_of(program)
    good = program.constants[name].astype(np.int8)
    for arrays, words in (
        ({name: good[:1]}, "no constant"),
        ({"nothing": good}, "no constant"),
        ({name: np.full_like(good, 100)}, "do not fit its type"),
    ):
        write_arrays(trained_path(tmp_path, digest_of(arrays)), arrays)
        with pytest.raises(ProgramError, match=words):
            apply_lossy(program, recovered(arrays), Kept(folder=tmp_path))
    write_arrays(trained_path(tmp_path, digest_of({name: good})), {name: good + 1})
    with pytest.raises(ProgramError, match="not those that were trained"):
        apply_lossy(program, recovered({name: good}), Kept(folder=tmp_path))
    with pytest.raises(ProgramError, match="not at hand"):
        apply_lossy(program, recovered({"other": good}), Kept(folder=tmp_path))
    with pytest.raises(ProgramError, match="SHA-256"):
        apply_lossy(program, recovered({name: good}, weights="../../elsewhere"), Kept(folder=tmp_path))


@pytest.mark.parametrize("name", ["samples", "steps", "batch", "seed", "rate"])
def test_how_weights_were_found_must_be_told(name: str, tmp_path: Path) -> None:
    program = quantized()
    arrays = {codes_of(program): program.constants[codes_of(program)].astype(np.int8)}
    write_arrays(trained_path(tmp_path, digest_of(arrays)), arrays)
    whole = recovered(arrays)
    apply_lossy(program, whole, Kept(folder=tmp_path))
    params = {key: value for key, value in whole.params.items() if key != name}
    with pytest.raises(ProgramError, match="how the weights were found"):
        apply_lossy(program, replace(whole, params=params), Kept(folder=tmp_path))


def test_archives_are_bounded_and_hold_no_pickles(tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    arrays = {"/a.b": np.arange(6, dtype=np.int8).reshape(2, 3), "file": np.array(3.5)}
    write_arrays(path, arrays)
    first = path.read_bytes()
    write_arrays(path, arrays)
    assert path.read_bytes() == first
    found = read_arrays(path, 1 << 20, "arrays")
    assert digest_of(found) == digest_of(arrays)
    with pytest.raises(VerificationError, match="no arrays: it holds more"):
        read_arrays(path, 100, "arrays")
    damaged = bytearray(path.read_bytes())
    damaged[60:90] = bytes(30)  # in what is deflated
    (tmp_path / "damaged.npz").write_bytes(damaged)
    with pytest.raises(VerificationError, match="holds no arrays"):
        read_arrays(tmp_path / "damaged.npz", 1 << 20, "arrays")
    np.savez(path, a=np.array([{}], object))
    with pytest.raises(VerificationError, match="size it states"):
        read_arrays(path, 1 << 20, "arrays")


@pytest.mark.parametrize("header", ["{[]: 1}", "((((", "{\n  1\n 2"])
def test_headers_that_are_no_python_are_refused(header: str, tmp_path: Path) -> None:
    text = header.encode()
    with zipfile.ZipFile(tmp_path / "odd.npz", "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    with pytest.raises(VerificationError, match="holds no arrays"):
        read_arrays(tmp_path / "odd.npz", 1 << 20, "arrays")
