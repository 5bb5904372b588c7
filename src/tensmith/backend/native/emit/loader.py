"""Loads a compiled model folder: model.json, libmodel.so, weights.bin. Needs nothing but NumPy.

    from model import Model

    model = Model("folder")
    outputs = model(x=array)        # name -> array in, name -> array out

A folder with an altered file is refused by its hash, and so is one whose instructions this CPU does not have.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import json
import mmap
import os
import platform
import queue
import threading
import weakref
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np

SCHEMA = 1
LIBRARY, WEIGHTS, MANIFEST = "libmodel.so", "weights.bin", "model.json"
ENTRY, PART_ENTRY = "tensmith_run", "tensmith_run_part"

MOST_THREADS = 256

_MOST_MANIFEST_BYTES = 1 << 24
# What a manifest holds; threads are 1 and "prepared" is empty where it does not say.
_FIELDS: dict[str, type] = {
    "files": dict, "digest": str, "inputs": list, "outputs": list, "needs": list, "architecture": str,
    "arena_bytes": int, "weights_bytes": int, "threads": int, "prepared": list,
}  # fmt: skip
_UNSAID: dict[str, Any] = {"threads": 1, "prepared": []}
_MACHINES = {"arm64": "aarch64", "AMD64": "x86_64"}
# CPU features as the manifest names them -> as Linux does, where that differs.
_FLAGS = {"neon": "asimd", "fp16": "asimdhp", "dotprod": "asimddp"}
# Linux lends tile registers to a process that asks: arch_prctl(ARCH_REQ_XCOMP_PERM, tile data).
TILES, ASK_FOR_TILES = {"amx_int8", "amx_bf16"}, (158, 0x1023, 18)


# What lay at the path of a library each time that it was loaded: devices and numbers of files.
_LOADED: dict[Path, list[tuple[int, int]]] = {}


class ModelError(Exception):
    """The folder cannot be used here; the message says why."""


def path_of_now(library: Path) -> str:
    """Where a library lies, so written that the file of now is loaded.

    By a path dlopen gives what it loaded by that path before, also after another file came to lie there.
    """
    there = library.stat()
    before = _LOADED.setdefault(library, [])
    if (there.st_dev, there.st_ino) not in before:
        before.append((there.st_dev, there.st_ino))
    again = before.index((there.st_dev, there.st_ino))
    return f"{library.parent}/{'./' * again}{library.name}"


class Model:
    """A loaded model; any number of threads may call it.

    Calls that overlap have an arena each, made when it is first needed and kept for later calls. A model
    runs in as many threads as it was compiled for, or in one if it is given fewer `threads`; these serve one
    call after the other, and sleep between calls.
    """

    def __init__(self, folder: str | Path = "", threads: int | None = None) -> None:
        self.folder = Path(folder) if folder else Path(__file__).parent
        self.manifest = read_manifest(self.folder)
        require_cpu(self.manifest)
        self._weights = page_memory(self.manifest["weights_bytes"])
        with (self.folder / WEIGHTS).open("rb") as file:
            file.readinto(self._weights)
        self.weights_at = address_of(self._weights)
        self._arenas = [arena_of(self.manifest["arena_bytes"])]  # those that no call is using
        self.bytes = self.manifest["weights_bytes"] + self.manifest["arena_bytes"]
        library = ctypes.CDLL(path_of_now(self.folder.resolve() / LIBRARY))
        made_for = self.manifest.get("threads", 1)
        alone = made_for == 1 or (threads is not None and threads < made_for)
        self._run = _entry(library) if alone else _Crew(library, made_for)
        self.inputs: list[dict[str, Any]] = self.manifest["inputs"]
        self.outputs: list[dict[str, Any]] = self.manifest["outputs"]
        self._takes, self._gives = _arrays(self.inputs), _arrays(self.outputs)

    def __call__(self, /, **inputs: Any) -> dict[str, Any]:
        """One inference. Arrays are converted to the model's element types and must have its shapes."""
        given = self._fitting(inputs)
        results = {name: np.empty(shape, dtype) for name, (shape, dtype) in self._gives.items()}
        self._infer(pointers_of(given), pointers_of(results.values()))
        return results

    def bind(
        self, inputs: dict[str, Any], results: dict[str, Any] | None = None
    ) -> tuple[Callable[[], None], dict[str, Any]]:
        """(a call that repeats one inference on these inputs, the arrays it writes its outputs to).

        results: arrays for some of the outputs, of their types and shapes. One may be an input's, if nothing
        but what makes that output reads it. Threads that share such a call wait for each other, since it has
        one set of arrays.
        """
        given, places = self._fitting(inputs), results or {}
        if places.keys() - self._gives.keys():
            raise ModelError(f"the model gives {', '.join(self._gives)}, not {', '.join(places)}")
        results = {
            name: _place(name, shape, dtype, places[name]) if name in places else np.empty(shape, dtype)
            for name, (shape, dtype) in self._gives.items()
        }
        step = functools.partial(self._infer, pointers_of(given), pointers_of(results.values()))
        step.__dict__["kept"] = (given, results)  # alive as long as the call is
        return one_at_a_time(step), results

    def entry(self) -> int | None:
        """Where the function is that C calls; None where threads share the work."""
        run: Any = self._run
        return None if isinstance(run, _Crew) else ctypes.cast(run, ctypes.c_void_p).value

    def _infer(self, reads: Any, writes: Any) -> None:
        """One inference between arrays of pointers."""
        try:
            arena = self._arenas.pop()
        except IndexError:  # all are in use
            arena = arena_of(self.manifest["arena_bytes"])
        failed = self._run(self.weights_at, reads, writes, arena[0])
        self._arenas.append(arena)
        if failed:
            raise ModelError("the model failed while running")

    def _fitting(self, inputs: dict[str, Any]) -> list[Any]:
        """The inputs in the model's order and element types; ModelError if they do not fit."""
        if inputs.keys() != self._takes.keys():
            raise ModelError(
                f"the model takes the inputs {', '.join(self._takes)}, "
                f"but was given {', '.join(inputs) or 'none'}"
            )
        given = []
        for name, (shape, dtype) in self._takes.items():
            try:
                array = np.asarray(inputs[name], dtype, order="C")
            except (TypeError, ValueError, OverflowError) as error:
                raise ModelError(f"input '{name}' is no array of {dtype}: {error}") from error
            if array.shape != shape:
                raise ModelError(f"input '{name}' has shape {list(array.shape)}, not {list(shape)}")
            given.append(array)
        return given


def _arrays(specs: list[dict[str, Any]]) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Shape and element type of each, by name; ModelError if they do not say so."""
    try:
        return {spec["name"]: (tuple(spec["shape"]), np.dtype(spec["dtype"])) for spec in specs}
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{MANIFEST} does not say what the model takes and gives: {error!r}") from error


def _place(name: str, shape: tuple[int, ...], dtype: Any, array: Any) -> Any:
    """An array to write an output to; ModelError if it does not fit."""
    fits = array.dtype == dtype and array.shape == shape
    if not (fits and array.flags.c_contiguous and array.flags.writeable):
        raise ModelError(f"output '{name}' is {dtype}{list(shape)}, dense; its array is not")
    return array


def one_at_a_time(call: Callable[[], Any]) -> Callable[[], Any]:
    """A call for which threads wait for each other."""
    turns: queue.SimpleQueue[None] = queue.SimpleQueue()  # a lock that costs little where nobody waits
    wait, release = turns.get, turns.put
    release(None)

    def waiting() -> Any:
        wait()
        try:
            return call()
        finally:
            release(None)

    return waiting


def _entry(library: ctypes.CDLL) -> Callable[..., int]:
    """The function that runs everything in the calling thread."""
    run: Callable[..., int] = getattr(library, ENTRY)
    run.restype, run.argtypes = ctypes.c_int, [ctypes.c_void_p] * 4  # type: ignore[attr-defined]
    return run


class _Crew:
    """Threads that compute the parts of a run with the one that calls; between runs they sleep.

    There is one meeting of them at a time, so runs wait for each other. A process that is forked off has none
    of the threads: its first run starts its own.
    """

    def __init__(self, library: ctypes.CDLL, threads: int) -> None:
        self._threads, self._lock = threads, threading.Lock()
        self._part = getattr(library, PART_ENTRY)
        self._part.restype = ctypes.c_int
        self._part.argtypes = [
            *[ctypes.c_void_p] * 4, ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p,
        ]  # fmt: skip
        self._yield = ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p)
        _CREWS.add(self)
        self._assemble()

    def _assemble(self) -> None:
        self._meeting, self._runs = (ctypes.c_ulong * 2)(), 0
        self._calls: list[queue.SimpleQueue[Any]] = [queue.SimpleQueue() for _ in range(1, self._threads)]
        self._others = [
            threading.Thread(target=_work, args=(self._part, part, calls), daemon=True)
            for part, calls in enumerate(self._calls, 1)
        ]
        weakref.finalize(self, _dismiss, self._calls)
        for thread in self._others:
            thread.start()

    def left_behind(self) -> None:
        """For a process that was just forked off: the lock may be held by a thread that it lacks."""
        self._lock, self._calls = threading.Lock(), []

    def __call__(self, *arguments: Any) -> int:
        with self._lock:
            if not self._calls:
                self._assemble()
            return self._together(arguments)

    def _together(self, arguments: tuple[Any, ...]) -> int:
        try:
            shared = (self._meeting, self._runs, self._yield)
            self._runs += 1
            for calls in self._calls:
                calls.put((arguments, shared))
            return int(self._part(*arguments, 0, *shared))
        except BaseException:  # an interrupt: whoever was called may wait for somebody who was not
            self._meeting[1] = 1
            _dismiss(self._calls)
            for thread in self._others:
                thread.join()
            self._assemble()
            raise


_CREWS: weakref.WeakSet[_Crew] = weakref.WeakSet()


def _forked() -> None:
    for crew in list(_CREWS):
        crew.left_behind()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _work(run: Callable[..., int], part: int, calls: queue.SimpleQueue[Any]) -> None:
    """One thread of a crew: a part of each run, until it is dismissed."""
    while (call := calls.get()) is not None:
        run(*call[0], part, *call[1])
        del call  # what is kept alive by it must not wait for the next one


def _dismiss(crew: list[queue.SimpleQueue[Any]]) -> None:
    for calls in crew:
        calls.put(None)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder whose files are all as they were written."""
    path = folder / MANIFEST
    try:
        if path.stat().st_size > _MOST_MANIFEST_BYTES:
            raise ModelError(f"{path} is too large to be a manifest")
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"cannot read {path}: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise ModelError(f"{path} is no manifest of schema {SCHEMA}; load it with the loader it came with")
    for name, kind in _FIELDS.items():
        if not isinstance(manifest.get(name, _UNSAID.get(name)), kind):
            raise ModelError(f"{path} does not say its {name}; build the folder again")
    if manifest["digest"] != digest_of(manifest):
        raise ModelError(f"{path} was altered after it was written; build the folder again")
    if not all(isinstance(name, str) for name in manifest["needs"]):
        raise ModelError(f"{path} names no CPU features by needs; build the folder again")
    if {LIBRARY, WEIGHTS} - manifest["files"].keys():
        raise ModelError(f"{path} does not name {LIBRARY} and {WEIGHTS}")
    if not 1 <= manifest.get("threads", 1) <= MOST_THREADS:
        raise ModelError(f"{path} asks for more than {MOST_THREADS} threads; build the folder again")
    for name, digest in manifest["files"].items():
        if Path(name).name != name:
            raise ModelError(f"{path} names '{name}', which is outside its folder")
        if _sha256(folder / name) != digest:
            raise ModelError(f"{folder / name} was altered after it was written; build the folder again")
    return manifest


def digest_of(manifest: dict[str, Any]) -> str:
    """The SHA-256 of what a manifest says but for its own, in hex: sizes in it are those of compiled code."""
    told = {name: value for name, value in manifest.items() if name != "digest"}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def require_cpu(manifest: dict[str, Any]) -> None:
    """ModelError if this machine lacks what the library was compiled for."""
    machine = _MACHINES.get(platform.machine(), platform.machine())
    if machine != manifest["architecture"]:
        raise ModelError(
            f"the model is compiled for {manifest['architecture']}, and this machine is {machine}"
        )
    flags = cpu_flags()
    lacking = [name for name in manifest["needs"] if flags and linux_flag(name) not in flags]
    if lacking:
        raise ModelError(f"the model needs a CPU with {', '.join(lacking)}, which this one has not")
    tiles = sorted(TILES.intersection(manifest["needs"])) if flags else []  # Linux's, and so is the call
    if tiles and ctypes.CDLL(None).syscall(*map(ctypes.c_long, ASK_FOR_TILES)) != 0:
        raise ModelError(
            f"the model needs {', '.join(tiles)}, which the system does not let this process use"
        )


def linux_flag(feature: str) -> str:
    """How /proc/cpuinfo names a CPU feature."""
    return _FLAGS.get(feature, feature)


def cpu_flags() -> set[str]:
    """The flags line of /proc/cpuinfo; empty where there is none."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return set()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return set(value.split())
    return set()


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error}") from error


def page_memory(size: int) -> mmap.mmap:
    """Zeroed memory on page boundaries, on huge pages where the system offers them."""
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, max(size, mmap.PAGESIZE))
    # What is shared with children, as is the default, gets no huge pages.
    memory = mmap.mmap(-1, max(size, mmap.PAGESIZE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def arena_of(size: int) -> tuple[int, mmap.mmap]:
    """(its address, the memory)."""
    memory = page_memory(size)
    return address_of(memory), memory


def address_of(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def pointers_of(arrays: Collection[Any]) -> Any:
    """Their addresses, as C takes them; the arrays must outlive it."""
    at = [array.__array_interface__["data"][0] for array in arrays]
    return (ctypes.c_void_p * max(1, len(at)))(*at)
