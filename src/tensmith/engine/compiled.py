"""Models compiled on the fly: a folder for each file and set of input sizes, kept in the user's cache.

A file is compiled in a process of its own, since that takes seconds and much memory. What the folder depends
on is its name, so nothing in it goes stale; the folders used least recently go when they are too many.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import inspect
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tensmith
from tensmith import cache
from tensmith.backend.native.emit import loader
from tensmith.children import Limits, memory_bytes
from tensmith.engine.base import ENGINES, CompilingEngine, first_line
from tensmith.errors import EngineError, ModelError, OutputError, system_sentence
from tensmith.files import sha256_bytes, sha256_file
from tensmith.fork_server import run_module
from tensmith.frontend.model_files import file_identity
from tensmith.registry import plugins
from tensmith.rewrite.proved import plugin_files

# The engine that compiles whole models, which some things are asked of by name.
NATIVE = "native"

# How the process that compiles ends where the system would not write (sysexits.h: EX_CANTCREAT).
UNWRITTEN = 73

_LONGEST_SECONDS = 1200.0
_MOST_BYTES = 4 << 30
# What decides what is compiled, and the endings of its files.
_ROOMS = ("formula", "ctext", "ir", "frontend", "rewrite", "equality", "hardware", "kernel", "backend")
_CODE = (".py", ".c", ".toml")


@dataclass(frozen=True)
class CompileOptions:
    """How to compile: by which engine, by which settings (all it has), and cut for how many threads."""

    engine: str
    settings: tuple[tuple[str, str], ...]
    threads: int

    @staticmethod
    def of(engine: str, settings: Mapping[str, str] | None = None, threads: int = 1) -> CompileOptions:
        """As an engine completes some settings; EngineError if they cannot be here."""
        by = compiling(engine)
        return CompileOptions(engine, tuple(by.completed(settings or {}).items()), by.cut(threads))


def compiling(engine: str) -> CompilingEngine:
    """The engine of a name; EngineError if it compiles nothing, UsageError if there is none."""
    found = ENGINES[engine]
    if not isinstance(found, CompilingEngine):
        raise EngineError(f"{engine} compiles no models: it loads them as they are")
    return found


def compiled_folder(path: Path, sizes: Mapping[str, int], options: CompileOptions) -> Path:
    """The folder of an ONNX file for these sizes, from the cache or compiled now.

    What is there and not as it was written is compiled anew. EngineError if it cannot be compiled, or the
    file is replaced meanwhile.
    """
    of = _of(path, sizes, options)

    def make(made: Path) -> None:
        compile_anew(path, made, sizes, options)
        if _identity(path, options) != of["model"]:
            raise EngineError(f"{options.engine} cannot load {path}: it has just been replaced; try again")

    return cache.cached(cache.user_cache("models"), of, make, _MOST_BYTES)


def compile_anew(path: Path, folder: Path, sizes: Mapping[str, int], options: CompileOptions) -> None:
    """Compiles an ONNX file into a folder that is not there yet; EngineError if it cannot be compiled.

    OutputError where there is no space for that, which is not the file's fault.
    """
    asked = {"settings": dict(options.settings), "sizes": dict(sizes), "threads": options.threads}
    by = compiling(options.engine)
    module = type(by).__module__
    arguments = (module, options.engine, str(path), str(folder), json.dumps(asked))
    try:
        done = run_module("tensmith.engine.compile", arguments, (module,), _LONGEST_SECONDS, _limits())
    except subprocess.TimeoutExpired as error:
        raise EngineError(
            f"{options.engine} cannot load {path}: compiling took over {_LONGEST_SECONDS:g} s"
        ) from error
    except OSError as error:
        reason = system_sentence(error, "free some space")
        raise OutputError(f"{options.engine} cannot start its compiler: {reason}") from error
    if done.code == UNWRITTEN:
        reason = first_line(RuntimeError(done.stderr))
        raise OutputError(f"{options.engine} cannot compile {path}: {reason}") from OSError(reason)
    if done.code != 0:
        silent = done.code < 0 or not done.stderr
        reason = f"the compiler {done.ending}" if silent else first_line(RuntimeError(done.stderr))
        raise EngineError(f"{options.engine} cannot load {path}: {reason}")


def _limits() -> Limits:
    """Seconds of all processors, and so much address space that only what runs away meets the end of it."""
    return Limits(_LONGEST_SECONDS * (os.cpu_count() or 1), max(16 << 30, 2 * memory_bytes()))


def _of(path: Path, sizes: Mapping[str, int], options: CompileOptions) -> dict[str, str]:
    """What a compiled folder depends on: the file and those it names, sizes, this CPU, code and tools."""
    by = compiling(options.engine)
    return {
        "model": _identity(path, options),
        "sizes": json.dumps(dict(sorted(sizes.items()))),
        "options": json.dumps([options.engine, options.settings, options.threads]),
        "processor": sha256_bytes(" ".join(sorted(loader.cpu_flags())).encode()),
        "code": code_revision() + _code_of(type(by)),
        "tools": by.revision(**dict(options.settings)),
    }


def _identity(path: Path, options: CompileOptions) -> str:
    try:
        return file_identity(path)
    except (ModelError, OSError) as error:
        raise EngineError(f"{options.engine} cannot load {path}: {error}") from error


@functools.cache
def _code_of(engine: type) -> str:
    """A hash of the files of a class and of those it derives from."""
    files = {inspect.getfile(each) for each in engine.__mro__ if each.__module__ not in ("abc", "builtins")}
    return sha256_bytes("".join(sha256_file(Path(each)) for each in sorted(files)).encode())


@functools.cache
def code_revision(*more: str) -> str:
    """A hash of the code that compiles, and of `more` rooms: tensmith's, that of plugins, and NumPy's
    version, which computes constants."""
    root = Path(tensmith.__file__).parent
    digest = hashlib.sha256(f"{tensmith.__version__} {np.__version__} {_plugin_revision()}".encode())
    for room in (*_ROOMS, *more):
        module = root / f"{room}.py"
        for source in [module] if module.exists() else sorted((root / room).rglob("*")):
            if source.suffix in _CODE:
                digest.update(source.read_bytes())
    return digest.hexdigest()


def _plugin_revision() -> str:
    """What plugins are installed, and a hash of their files: they may declare ops, rules and engines."""
    found = []
    for module, distribution in sorted(set(plugins())):
        spec = importlib.util.find_spec(module)
        if spec is None or spec.origin is None:  # whoever imports it says so
            continue
        home = Path(spec.origin)
        files = sorted(plugin_files(home) | {home})
        found += [module, distribution, *(sha256_file(file) for file in files)]
    return sha256_bytes("\n".join(found).encode())
