"""Points' certificates forged by somebody who knows the format: one thing altered, and everything that hangs
on it made anew (hashes, digest, the rows that follow), so that only what is false is left to be noticed.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tensmith.backend.native.emit.loader import digest_of
from tensmith.backend.packed import pack
from tensmith.errors import ModelError, TensmithError
from tensmith.verify.claims import claims
from tensmith.verify.finding import VerifyResult
from tensmith.verify.schema import NAME, Certificate, seal

Document = dict[str, Any]

# Names of files that would write over a line, end it, or are no text.
FORGED_NAMES = (b"\x1b[2K\rhashes and form are right", "a\u2028b".encode(), b"\xff")

# What an alteration may pass as, because the certificate does not claim it: path -> why.
NOT_CLAIMED = {
    r"tensmith": "a version in words: what it changes is noticed where it shows",
    r"machine\..*": "only an excuse for what comes out otherwise, and that is then said to be unchecked",
    r"original\.(name|relative|absolute)": "where to look for the original; its hash decides",
    r"judged\.name": "what the data is called; its fingerprint decides",
    r"metrics(\.\w+)?": "a figure that is left out; accuracy cannot be, where there are lossy steps",
    r"trail\.\d+\.params": "how a step is written, if it leads to the very file all the same",
    r"runs\.\d+\.seed": "of a test that needed no numbers; where there are primes, they follow from it",
    r"calibration\.npz": "how statistics are stored: their own hashes decide what they are",
    r"runs\.\d+\.ulps": "an upper bound: a larger one is true as well",
    r"deployed\.(target|threads|settings|engine)(\..*)?": "what a point without compiled code is meant to "
    "run in; figures that hang on it are measured again with --data, or said to be unchecked",
}
# What only the data can tell, and the finding that says so where there is none.
ONLY_BY_DATA = {
    r"metrics\.(\w+)\..*": r"\1 is ",
    r"judged(\..*)?": "accuracy is ",
}


@dataclass(frozen=True)
class Alteration:
    """One thing changed in a folder; `place`: a path in the certificate, or a file."""

    place: str
    what: str
    act: Callable[[Path], None]


# Fields


def fields(document: Document) -> Iterator[Alteration]:
    """Every field of a certificate, altered in every way that fits it."""
    for path, value in leaves({key: part for key, part in document.items() if key != "digest"}):
        name = ".".join(map(str, path))
        for what, other in others(value):
            yield Alteration(name, what, _edited(path, other, consistent=False))
            if path[0] not in ("claims", "digest"):
                yield Alteration(name, f"{what}, rows remade", _edited(path, other, consistent=True))
        if isinstance(path[-1], int) or path[0] in ("files", "metrics", "statistics"):
            yield Alteration(name, "deleted", _deleted(path, consistent=False))
            if path[0] != "claims":
                yield Alteration(name, "deleted, rows remade", _deleted(path, consistent=True))


def leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every value in a tree of JSON with its path, containers too."""
    if path:
        yield path, tree
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, item in items:
        yield from leaves(item, (*path, key))


def others(value: Any) -> Iterator[tuple[str, Any]]:
    """Other values of the same kind."""
    if isinstance(value, bool) or value is None:
        yield "another", None if value else 0.25
    elif isinstance(value, int):
        yield from (("one more", value + 1), ("zero", 0), ("huge", 2**62), ("two", 2))
    elif isinstance(value, float):
        yield from (("half", value / 2), ("tiny", 1e-300), ("huge", 1e300))
    elif isinstance(value, str):
        if re.fullmatch("[0-9a-f]{64}", value):
            yield "another hash", hashlib.sha256(value.encode()).hexdigest()
        else:
            yield "another word", value + "x"
            yield from ((f"said {word}", word) for word in ("proved", "exact", "equal") if word != value)
    elif isinstance(value, list):
        yield "emptied", []
        yield "doubled", value + value
        yield "turned", value[::-1]
    elif isinstance(value, dict):
        yield "emptied", {}


def _edited(path: tuple[Any, ...], value: Any, consistent: bool) -> Callable[[Path], None]:
    def change(document: Document) -> None:
        _at(document, path[:-1])[path[-1]] = value

    return lambda folder: edit(folder, change, consistent)


def _deleted(path: tuple[Any, ...], consistent: bool) -> Callable[[Path], None]:
    def change(document: Document) -> None:
        del _at(document, path[:-1])[path[-1]]

    return lambda folder: edit(folder, change, consistent)


def _at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


def edit(folder: Path, change: Callable[[Document], Any], consistent: bool = True) -> None:
    """A certificate changed, its digest remade; `consistent`: and the claims that follow from it."""
    path = folder / NAME
    document = json.loads(path.read_text())
    change(document)
    if consistent:
        with suppress(ValueError):  # no certificate any more
            whole = Certificate.model_validate(seal(document))
            rows = claims(whole.trail, whole.runs, whole.rules, whole.metrics, whole.deployed, whole.judged)
            document["claims"] = [row.model_dump() for row in rows]
    path.write_text(json.dumps(seal(document)))


# Files


def files(folder: Path) -> Iterator[Alteration]:
    """Every file of a folder damaged, emptied, replaced, removed, and one more; hashes as they were, and made
    anew everywhere."""
    for name in sorted(path.name for path in folder.iterdir() if path.name != NAME):
        for what, change in _CONTENTS.items():
            for remade in (False, True):
                words = f"{what}, hashes remade" if remade else what
                yield Alteration(name, words, _with_content(name, change, remade))
        yield Alteration(name, "removed", lambda place, name=name: (place / name).unlink())  # type: ignore[misc]
        yield Alteration(name, "removed, not listed", _removed(name))
    yield Alteration("a file more", "not listed", lambda place: _write(place / "extra.py", b"pass"))
    yield Alteration("a file more", "listed", _with_content("extra.py", lambda _: b"pass", True))
    yield Alteration("a folder more", "not listed", lambda place: (place / "lib").mkdir())


_CONTENTS: dict[str, Callable[[bytes], bytes]] = {
    "one bit flipped": lambda data: (
        data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]
    ),
    "zeroed": lambda data: bytes(len(data)),
    "emptied": lambda data: b"",
    "one byte longer": lambda data: data + b"\n",
}


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _with_content(name: str, change: Callable[[bytes], bytes], remade: bool) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        path = folder / name
        path.write_bytes(change(path.read_bytes() if path.exists() else b""))
        if remade:
            restate(folder, repack=name != "model.packed")

    return act


def _removed(name: str) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        (folder / name).unlink()
        edit(folder, lambda document: document["files"].pop(name))

    return act


def restate(folder: Path, repack: bool = True) -> None:
    """All hashes that files are stated with, made anew: the manifest's and the certificate's; repack: and the
    packed model, of the model's file."""
    model, packed, manifest = (folder / name for name in ("model.onnx", "model.packed", "model.json"))
    if repack and model.exists() and packed.exists():
        with suppress(ModelError, TensmithError, ValueError):
            packed.write_bytes(pack(model.read_bytes()))
    if manifest.exists():
        with suppress(ValueError):
            document = json.loads(manifest.read_bytes())
            document["files"] = {
                name: _sha(folder / name) for name in document["files"] if (folder / name).exists()
            }
            document["digest"] = digest_of(document)
            manifest.write_text(json.dumps(document, indent=1))

    def change(document: Document) -> None:
        document["files"] = {
            p.name: _sha(p) for p in sorted(folder.iterdir()) if p.name != NAME and p.is_file()
        }

    edit(folder, change)


def _sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# By name


def by_name(original: Path) -> Iterator[Alteration]:
    """Whole forgeries: what somebody would do who wanted to deceive."""

    def another_model(folder: Path) -> None:
        model = onnx.load(original)
        _shift(model)
        onnx.save(model, folder / "model.onnx")
        restate(folder)

    def nothing_claimed(folder: Path) -> None:
        another_model(folder)
        edit(folder, lambda d: d.update(trail=[], runs=[], rules=[], metrics={}, statistics={}))
        edit(folder, lambda d: d.update(claims=[]), consistent=False)

    def its_own_original(folder: Path) -> None:
        shutil.copyfile(folder / "model.onnx", folder / "original.onnx")
        stated = {"relative": "original.onnx", "sha256": _sha(folder / "original.onnx")}
        edit(folder, lambda d: d["original"].update(stated))
        edit(folder, lambda d: d.update(trail=[], runs=[], rules=[], statistics={}))
        restate(folder)

    def bias(folder: Path) -> None:
        model = onnx.load(folder / "model.onnx")
        _shift(model)
        onnx.save(model, folder / "model.onnx")
        restate(folder)

    def excused(folder: Path) -> None:
        bias(folder)
        edit(
            folder, lambda d: d["machine"].update(numpy="0.1", cpu="other", compiler="other", timings="other")
        )

    def step(number: int, **fields: Any) -> Callable[[Path], None]:
        return lambda folder: edit(folder, lambda d: d["trail"][number].update(fields))

    def run(**fields: Any) -> Callable[[Path], None]:
        return lambda folder: edit(folder, lambda d: d["runs"][0].update(fields))

    yield Alteration("model.onnx", "another model, which claims nothing", nothing_claimed)
    yield Alteration("model.onnx", "another model", another_model)
    yield Alteration("model.onnx", "an original of its own", its_own_original)
    yield Alteration("model.onnx", "another bias", bias)
    yield Alteration("model.onnx", "another bias, made on another machine", excused)
    yield Alteration("trail", "a method that does not exist", step(-1, rule="magic"))
    yield Alteration("trail", "an exact rule said to be lossy", step(0, kind="lossy"))
    yield Alteration(
        "trail", "exact steps more", lambda f: edit(f, lambda d: d["trail"].append(d["trail"][0]))
    )
    yield Alteration(
        "trail",
        "lossy steps only",
        lambda f: edit(f, lambda d: d.update(trail=[s for s in d["trail"] if s["kind"] == "lossy"], runs=[])),
    )
    yield Alteration("runs", "64 primes of 2", run(primes=[2] * 64, error_probability=1e-300))
    yield Alteration("runs", "another seed's primes", run(primes=[1048583, 1048589], error_probability=1e-9))
    yield Alteration("runs", "a probability of 1e-300", run(error_probability=1e-300))
    yield Alteration(
        "runs",
        "nothing had to be run",
        run(primes=[], degree=0, error_probability=0.0, reason="the same nodes compute them", sizes={}),
    )
    yield Alteration(
        "metrics",
        "a proved metric",
        lambda f: edit(f, lambda d: d["metrics"]["latency_ms"].update(evidence="proved")),
    )
    yield Alteration(
        "metrics",
        "a metric of no kind",
        lambda f: edit(f, lambda d: d["metrics"].update(beauty=d["metrics"]["latency_ms"])),
    )
    yield Alteration("claims", "a row less", lambda f: edit(f, lambda d: d["claims"].pop(), False))
    yield Alteration(
        "claims",
        "a row more",
        lambda f: edit(f, lambda d: d["claims"].append({**d["claims"][0], "claim": "It is perfect."}), False),
    )
    yield Alteration(
        "files", "the folder above", lambda f: edit(f, lambda d: d["files"].update({"../data.npz": "0" * 64}))
    )


def _shift(model: onnx.ModelProto) -> None:
    """Changes the first initializer of floats or 32-bit integers that is a bias."""
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.ndim == 1 and array.size > 2 and array.dtype in (np.float32, np.int32):
            tensor.CopyFrom(numpy_helper.from_array((array + 100).astype(array.dtype), tensor.name))
            return
    raise AssertionError("the model has no bias")


CONSTANT_FUNCTION = """
int tensmith_run(const void *w, const void *const *in, void *const *out, void *arena) {
    for (int i = 0; i < 4; i++) ((float *)out[0])[i] = i;
    return 0;
}
"""


def of_libraries(compiled: Path) -> Iterator[Alteration]:
    """What somebody would put in the place of compiled code; compiled: a library of CONSTANT_FUNCTION."""

    def library(folder: Path) -> None:
        shutil.copyfile(compiled, folder / "libmodel.so")
        restate(folder)

    def loader(folder: Path) -> None:
        (folder / "model.py").write_text("raise SystemExit('mine')\n")
        restate(folder)

    def excused(folder: Path) -> None:
        library(folder)
        edit(folder, lambda d: d["machine"].update(compiler="another"))

    def interpreted(folder: Path) -> None:
        library(folder)
        edit(folder, lambda d: d["deployed"].update(engine="onnxruntime", sizes={}, prepared=None))

    def promoted(folder: Path) -> None:
        (folder / "libmodel.so").unlink()
        proved = [{"step": "everything", "evidence": "proved"}]
        edit(folder, lambda d: d["deployed"].update(prepared=proved))

    yield Alteration("libmodel.so", "a constant function", library)
    yield Alteration("libmodel.so", "a constant function, by another compiler", excused)
    yield Alteration("libmodel.so", "a constant function, said to be of no use", interpreted)
    yield Alteration("model.py", "a program of one's own", loader)
    yield Alteration("deployed.prepared", "steps said to be proved, without the library", promoted)


# Judging


def judge(
    folder: Path, alteration: Alteration, genuine: VerifyResult, verify: Callable[[Path], VerifyResult]
) -> str:
    """What came of an alteration: "same", "refused", "false", "unchecked", "not claimed" or "MISSED"."""
    before = _contents(folder)
    try:
        alteration.act(folder)
    except (LookupError, TypeError):
        return "same"  # there is nothing of the kind
    if _contents(folder) == before:
        return "same"
    try:
        result = verify(folder)
    except TensmithError:
        return "refused"
    if not result.ok:
        return "false"
    held = {finding.claim for finding in genuine.findings if finding.outcome == "holds"}
    now = {finding.claim for finding in result.findings if finding.outcome == "holds"}
    if held - now and set(result.unchecked) - set(genuine.unchecked):
        return "unchecked"
    for pattern, claim in ONLY_BY_DATA.items():
        if match := re.fullmatch(pattern, alteration.place):
            about = match.expand(claim)
            if any(name.startswith(about) for name in result.unchecked):
                return "unchecked"
    if any(re.fullmatch(pattern, alteration.place) for pattern in NOT_CLAIMED):
        return "not claimed"
    return "MISSED"


def _contents(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {p.name: p.read_bytes() if p.is_file() else None for p in folder.iterdir()}
    found[NAME] = copy.deepcopy({k: v for k, v in json.loads(found[NAME]).items() if k != "digest"})
    return found
