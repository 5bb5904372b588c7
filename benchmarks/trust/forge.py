"""Forges certificates in every field and file, and says what `tensmith verify` notices.

    python -m benchmarks.trust.forge [--every 1] [--output FILE]

Four certificates are altered, one thing at a time and consistently (digest, hashes and rows made anew): of an
exact point, of a lossy one, of a native one, and of a lifted function. Every alteration must be refused, be
found false, turn what was checked into what is said to be unchecked, or be of what is not claimed
(tests/verify/forgery_points.py says of what, and why). What is missed is printed; the exit status is then 1.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import forgery as lift_forgery
import forgery_points as forgery
import points

from benchmarks import parts
from tensmith.cli.lift import lift
from tensmith.deploy.again import verify_point
from tensmith.files import sha256_file
from tensmith.lifting.recheck import recheck
from tensmith.verify import library
from tensmith.verify.lift_certificate import check

OUTCOMES = ("refused", "false", "unchecked", "not claimed", "MISSED")


# How points of a kind are made: their trail, their engine.
KINDS = {
    "exact": (points.exact_trail, "onnxruntime"),
    "lossy": (points.lossy_trail, "onnxruntime"),
    "native": (points.lossy_trail, "native"),
}


def once(function: Callable[..., Any], files: Callable[..., Iterator[Path]]) -> Callable[..., Any]:
    """The function, computed once for each content of the files it reads."""
    known: dict[Any, Any] = {}

    @functools.wraps(function)
    def cached(*arguments: Any) -> Any:
        key = (*(sha256_file(path) for path in files(*arguments) if path.is_file()), *map(str, arguments[2:]))
        if key not in known:
            known[key] = function(*arguments)
        return known[key]

    return cached


def compile_once(place: Path) -> None:
    """Makes `verify` compile each model only once, and run each library only once."""
    compile_anew = library.compile_anew  # type: ignore[attr-defined]

    def folder_of(model: Path, folder: Path, sizes: Any, manner: Any) -> None:
        if not model.is_file():
            return compile_anew(model, folder, sizes, manner)
        kept = place / f"{sha256_file(model)}-{sizes}-{manner}"[:200]
        if not kept.exists():
            compile_anew(model, kept, sizes, manner)
        shutil.copytree(kept, folder)

    library.compile_anew = folder_of  # type: ignore[attr-defined]
    library._ran = once(library._ran, lambda folder, *_: (folder / n for n in ("model.onnx", "libmodel.so")))


def constant_library(place: Path) -> Path:
    source, built = place / "constant.c", place / "constant.so"
    source.write_text(forgery.CONSTANT_FUNCTION)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", built, source], check=True)
    return built


def of_point(root: Path, kind: str, every: int) -> Iterator[tuple[str, str, str]]:
    """(place, alteration, outcome) of every alteration of a point of a kind."""
    points.write_original(root)
    original = root / "original.onnx"
    trail, engine = KINDS[kind]
    folder = points.write_point(root, kind, trail, engine)
    genuine = verify_point(folder, original)
    assert genuine.ok, genuine
    alterations = [
        *forgery.by_name(original),
        *(forgery.of_libraries(constant_library(root)) if engine == "native" else ()),
        *forgery.files(folder),
        *list(forgery.fields(json.loads((folder / forgery.NAME).read_text())))[::every],
    ]
    for alteration in alterations:
        copy = Path(shutil.copytree(folder, root / "copy" / kind))
        outcome = forgery.judge(
            copy, alteration, genuine, lambda place: verify_point(place, original, seconds=1)
        )
        shutil.rmtree(root / "copy")
        if outcome != "same":
            yield alteration.place, alteration.what, outcome


# Of a lift, what an alteration may pass as.
LIFT_NOT_CLAIMED = {"tensmith": "a version in words"}
SOURCE = """
def dot(a: list[float], b: list[float], n: int):
    total = 0.0
    for i in range(n):
        total += a[i] * b[i]
    return total
"""


def of_lift(root: Path, every: int) -> Iterator[tuple[str, str, str]]:
    """The same of a lifted function, whose source is given."""
    source = root / "k.py"
    source.write_text(SOURCE)
    lift(source, "numpy", "dot", root / "out")
    folder = root / "out" / "dot.cert"
    document = json.loads((folder / lift_forgery.lift_checker.NAME).read_text())
    alterations = [
        (path, what, value)
        for path, part in forgery.leaves({key: item for key, item in document.items() if key != "digest"})
        for what, value in forgery.others(part)
        if value != part
    ][::every]
    for path, what, value in alterations:
        copy = Path(shutil.copytree(folder, root / "copy"))

        def change(document: Any, path: Any = path, value: Any = value) -> None:
            for key in path[:-1]:
                document = document[key]
            document[path[-1]] = value

        refused = lift_forgery.forge(copy, change)
        place = ".".join(map(str, path))
        yield place, what, "refused" if refused else _of_source(copy, source, place)
        shutil.rmtree(copy)
    for name in sorted(path.name for path in folder.iterdir()):
        copy = Path(shutil.copytree(folder, root / "copy"))
        (copy / name).write_bytes((copy / name).read_bytes() + b" ")
        yield name, "one byte longer", _of_source(copy, source, name)
        shutil.rmtree(copy)


def _of_source(folder: Path, source: Path, place: str) -> str:
    """What the solver and the source say of a certificate."""
    if not check(folder).ok or recheck(folder, source).problems:
        return "false"
    return "not claimed" if place in LIFT_NOT_CLAIMED or place.endswith(".json") else "MISSED"


def altered(kind: str, root: Path, every: int) -> parts.Found:
    """How alterations of a certificate of a kind end, and those that are missed."""
    outcomes: Counter[str] = Counter()
    missed = []
    folder = root / kind
    folder.mkdir()
    for where, what, outcome in of_lift(folder, every) if kind == "lift" else of_point(folder, kind, every):
        outcomes[outcome] += 1
        missed += [f"{kind}: {where}, {what}"] if outcome == "MISSED" else []
    return parts.Found({kind: outcomes}, tuple(missed))


def main() -> int:
    """Prints a table and what was missed."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--only", type=parts.names, default=["lift", *KINDS], help="certificates, as A,B")
    parser.add_argument("--every", type=int, default=1, help="Alter every so many of the fields.")
    options = parser.parse_args()
    settings = {"bench": "forge", "every": options.every}
    with tempfile.TemporaryDirectory(prefix="tensmith-forge-") as name:
        compile_once(Path(name))
        work = functools.partial(altered, root=Path(name), every=options.every)
        document = parts.run(options.only, work, options.output, settings)
    table = document["counts"]
    print(f"{'':<8}" + "".join(f"{name:>13}" for name in OUTCOMES))
    for kind in table:
        print(f"{kind:<8}" + "".join(f"{table[kind].get(name, 0):>13}" for name in OUTCOMES))
    return parts.ended(document)


if __name__ == "__main__":
    sys.exit(main())
