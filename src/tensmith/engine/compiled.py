"""Models compiled on the fly: a folder for each file and set of input sizes, kept in the user's cache.

A file is compiled in a process of its own, since that takes seconds and much memory. What the folder depends
on is its name, so nothing in it goes stale; the folders used least recently go when they are too many.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import tensmith
from tensmith import cache
from tensmith.backend.native.choose.choosers import ANY, FAMILIES
from tensmith.backend.native.choose.precision import refusal
from tensmith.backend.native.emit import loader
from tensmith.children import Limits, run
from tensmith.engine.base import first_line, refuse
from tensmith.errors import EngineError, ModelError, OutputError
from tensmith.files import sha256_bytes, sha256_file
from tensmith.frontend.model_files import model_files
from tensmith.kernel import scheduled
from tensmith.kernel.isa import host_isa
from tensmith.kernel.timings import Timings

# The names of the engines that run such folders; each is compiled by the backend of its name.
NATIVE, MIXED = "native", "mixed"
COMPILING = frozenset({NATIVE, MIXED})
# Ways to choose kernels: by estimates alone; by what `tensmith tune` has measured where it has; those that
# TVM's MetaSchedule found where it was asked.
UNTUNED, TUNED, METASCHEDULE = "untuned", "tuned", "metaschedule"
TUNINGS = (UNTUNED, TUNED, METASCHEDULE)
# What layers multiply in if nothing else is asked for.
FLOATS = "f32"

_LONGEST_SECONDS = 1200.0
_MOST_BYTES = 4 << 30
# What decides what is compiled, and the endings of its files.
_ROOMS = ("formula", "ctext", "ir", "frontend", "rewrite", "equality", "hardware", "kernel", "backend")
_CODE = (".py", ".c", ".toml")


@dataclass(frozen=True)
class CompileOptions:
    """How to compile: kernels chosen how, multiplying in what at most, cut for how many threads, for which
    engine; by which algorithm layers are computed that it takes.
    """

    tuning: str = TUNED
    precision: str = FLOATS
    threads: int = 1
    engine: str = NATIVE
    algorithm: str = ANY

    @property
    def words(self) -> list[str]:
        """As the command that compiles takes them."""
        return [self.tuning, self.precision, self.algorithm, str(self.threads)]

    @staticmethod
    def of(engine: str, path: Path, settings: Mapping[str, str], threads: int = 1) -> CompileOptions:
        """How an engine's settings say to compile the file at `path`; EngineError if that cannot be here."""
        given = dict(settings)
        tuning, precision = given.pop("tuning", TUNED), given.pop("precision", FLOATS)
        algorithm = given.pop("algorithm", ANY)
        refuse(engine, given)
        if tuning not in TUNINGS:
            raise EngineError(f"{engine}'s tuning is one of {', '.join(TUNINGS)}, not '{tuning}'")
        if algorithm not in (ANY, *FAMILIES):
            raise EngineError(
                f"{engine}'s algorithm is one of {', '.join((ANY, *FAMILIES))}, not '{algorithm}'"
            )
        if reason := refusal(precision, host_isa()):
            raise EngineError(f"{engine} cannot load {path}: {reason}")
        # What other precisions take is estimated, and an estimate is not held against a measurement.
        tuning = tuning if precision == FLOATS else UNTUNED
        # Regions of a mixed model run in the thread that calls them.
        cut = 1 if engine == MIXED else min(threads, loader.MOST_THREADS)
        return CompileOptions(tuning, precision, cut, engine, algorithm)


def stock(engines: Iterable[str]) -> tuple[str, ...]:
    """Those of some engines that are not our own."""
    return tuple(engine for engine in engines if engine not in COMPILING)


def compiled(
    path: Path, sizes: Mapping[str, int], options: CompileOptions = CompileOptions()
) -> loader.Model:
    """The ONNX model at `path` for these sizes, loaded; EngineError if it cannot be compiled."""
    return load(compiled_folder(path, sizes, options), options.threads)


def load(folder: Path, threads: int = 1) -> loader.Model:
    """The model in a compiled folder; EngineError if it was altered or does not run here."""
    try:
        return loader.Model(folder, threads)
    except loader.ModelError as error:
        raise EngineError(f"native cannot load {folder}: {error}") from error


def compiled_folder(path: Path, sizes: Mapping[str, int], options: CompileOptions = CompileOptions()) -> Path:
    """The folder of an ONNX file for these sizes, from the cache or compiled now.

    What is there and not as it was written is compiled anew.
    """
    room, of = cache.user_cache("models"), _of(path, sizes, options)
    folder = cache.find(room, of)
    if folder is None:
        folder = cache.keep(room, of, lambda made: compile_anew(path, made, sizes, options), replace=False)
        cache.tidy(folder, _MOST_BYTES)
    os.utime(folder)
    return folder


def compile_anew(path: Path, folder: Path, sizes: Mapping[str, int], options: CompileOptions) -> None:
    """Compiles an ONNX file into a folder that is not there yet; EngineError if it cannot be compiled."""
    words = [f"{name}={size}" for name, size in sizes.items()]
    given = [*options.words, str(path), str(folder), *words]
    command = [sys.executable, "-m", f"tensmith.backend.{options.engine}", *given]
    try:
        done = run(command, _LONGEST_SECONDS, _limits())
    except subprocess.TimeoutExpired as error:
        raise EngineError(
            f"{options.engine} cannot load {path}: compiling took over {_LONGEST_SECONDS:g} s"
        ) from error
    except OSError as error:
        raise OutputError(f"{options.engine} cannot start its compiler: {error.strerror}") from error
    if done.code != 0:
        silent = done.code < 0 or not done.stderr
        reason = f"the compiler {done.ending}" if silent else first_line(RuntimeError(done.stderr))
        raise EngineError(f"{options.engine} cannot load {path}: {reason}")


def _limits() -> Limits:
    """Seconds of all processors, and so much address space that only what runs away meets the end of it."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Limits(_LONGEST_SECONDS * (os.cpu_count() or 1), max(16 << 30, 2 * physical))


def _of(path: Path, sizes: Mapping[str, int], options: CompileOptions) -> dict[str, str]:
    """What a compiled folder depends on: the file and those it names, sizes, this CPU, code and timings."""
    digest = hashlib.sha256()
    try:
        for part in model_files(path):
            digest.update(bytes.fromhex(sha256_file(part)))
    except (ModelError, OSError) as error:
        raise EngineError(f"{options.engine} cannot load {path}: {error}") from error
    return {
        "model": digest.hexdigest(),
        "sizes": json.dumps(dict(sorted(sizes.items()))),
        "options": " ".join((options.engine, *options.words)),
        "processor": sha256_bytes(" ".join(sorted(loader.cpu_flags())).encode()),
        "code": code_revision(),
        "timings": "" if options.tuning == UNTUNED else timings_revision(options.tuning),
    }


def timings_revision(tuning: str) -> str:
    """What is known of kernels: their timings, and for MetaSchedule those that are kept."""
    try:
        with contextlib.closing(Timings()) as timings:
            return timings.revision() + (scheduled.revision() if tuning == METASCHEDULE else "")
    except OutputError as error:
        raise EngineError(f"native cannot choose kernels: {error}") from error


@functools.cache
def code_revision() -> str:
    """A hash of the code that compiles."""
    root = Path(tensmith.__file__).parent
    digest = hashlib.sha256(tensmith.__version__.encode())
    for room in _ROOMS:
        for source in sorted((root / room).rglob("*")):
            if source.suffix in _CODE:
                digest.update(source.read_bytes())
    return digest.hexdigest()
