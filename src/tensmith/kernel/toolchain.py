"""From C text to a shared library: a compiler is found, run in a private folder, its result cached.

The host's compiler, which CC names as for make, is preferred since it starts fastest; the `ziglang` wheel
(clang, no system needed) serves where there is none, and for other processors. What it links names no C
library: memcpy and memset come from the program that loads it, so that one file runs beside glibc, musl or
none.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tensmith import cache
from tensmith.children import Limits, ProcessResult, run
from tensmith.errors import EngineError, MissingExtra, OutputError, system_advice
from tensmith.files import TemporaryFolder, sha256_bytes
from tensmith.kernel.isa import Isa

OPTIMIZED = ("-std=gnu11", "-O2", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math")
FLAGS = (*OPTIMIZED, "-fPIC", "-fvisibility=hidden")
LONGEST_SECONDS = 600.0
# What a compiler may take of memory: many times what the largest of our texts needs.
MOST_MEMORY = 16 << 30
# What the libraries that are kept may take, and so the parsed headers.
_MOST_BYTES = 1 << 30
_LIBRARY = "kernels.so"
_PARSED = "parsed.h"
_HOSTS = ("cc", "gcc", "clang")
_ZIG = {"-mcpu=cortex-m4": "-mcpu=cortex_m4+vfp4d16sp", "-mfpu=fpv4-sp-d16": "", "-mfloat-abi=hard": ""}
# For images: functions in sections of their own, nothing for debuggers, and what each takes of the stack.
_ALONE = ("-ffunction-sections", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-g0",
          "-fstack-size-section")  # fmt: skip


@dataclass(frozen=True)
class Compiler:
    """A C compiler: how it is called and what it calls itself. `cross` if it builds for any processor."""

    command: tuple[str, ...]
    version: str
    cross: bool

    @property
    def identity(self) -> tuple[str, ...]:
        """What it calls itself, and options that it is always called with."""
        return (self.version, *(() if self.cross else self.command[1:]))


def has_compiler() -> bool:
    """Whether `find_compiler` finds one for this machine; starts nothing. EngineError where CC names none."""
    return host_command() is not None or importlib.util.find_spec("ziglang") is not None


@dataclass(frozen=True)
class CompileUnit:
    """A C text of several that make a library; `portable` if every processor of the architecture runs it."""

    text: str
    portable: bool = False


def find_compiler(architecture: str | None = None) -> Compiler:
    """The compiler for an architecture (default: this machine's); MissingExtra if there is none."""
    if architecture in (None, _machine()) and (command := host_command()):
        return Compiler(command, _version(command), cross=False)
    if wheel := importlib.util.find_spec("ziglang"):
        # Its program, where it is found: `python -m ziglang` starts an interpreter, which starts that.
        zig = shutil.which("zig", path=os.pathsep.join(wheel.submodule_search_locations or ()))
        command = (zig, "cc") if zig else (sys.executable, "-m", "ziglang", "cc")
        return Compiler(command, _version(command), cross=True)
    raise MissingExtra("compiling kernels without a C compiler on this machine", "native")


def host_command() -> tuple[str, ...] | None:
    """The command of this machine's own compiler, by CC (which may have options) or by the usual names."""
    text = os.environ.get("CC", "")
    try:
        named = shlex.split(text)
    except ValueError as error:
        raise EngineError(f"the environment's CC is {text!r}, which is no command: {error}") from error
    for name, *options in [named] if named else [[host] for host in _HOSTS]:
        if path := shutil.which(name):
            return (path, *options)
    if named:
        raise EngineError(f"the environment's CC is '{named[0]}', and there is no such command; unset it")
    return None


def takes(flags: tuple[str, ...]) -> bool:
    """Whether this machine's own compiler knows these flags, or there is none: ziglang's knows them all."""
    try:
        command = host_command()
    except EngineError:  # whoever compiles is told
        return True
    return command is None or _takes(command, flags)


@functools.cache
def _takes(command: tuple[str, ...], flags: tuple[str, ...]) -> bool:
    with TemporaryFolder("tensmith-cc-") as folder:
        try:
            run_compiler((*command, *flags, "-fsyntax-only", "-x", "c", os.devnull), folder)
        except EngineError:
            return False
        return True


def compiler_file() -> str:
    """This machine's compiler, as well as can be told without starting it; one put in its place differs."""
    command = host_command()
    if command is not None:
        found = Path(command[0]).stat()
        return f"{command} {found.st_size} {found.st_mtime_ns}"
    import importlib.metadata

    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return f"ziglang {importlib.metadata.version('ziglang')}"
    return "ziglang"


def compile_library(text: str, isa: Isa, *, room: Path | None = None, longest: float | None = None) -> Path:
    """The shared library of C `text` for `isa`, kept in `room` (default: the user's cache) or compiled now.

    EngineError with the compiler's first complaint if it fails, dies or takes over `longest` seconds.
    """

    def make(folder: Path) -> None:
        folder.mkdir()
        link_library([CompileUnit(text)], {}, isa, folder / _LIBRARY, longest or LONGEST_SECONDS)

    of = _library_of(text, isa)
    if room is not None:
        return cache.fetch(room, of, make) / _LIBRARY
    return cache.cached(cache.user_cache("native"), of, make, _MOST_BYTES) / _LIBRARY


def load_library(text: str, isa: Isa) -> ctypes.CDLL:
    """C `text` for this machine as functions to call; EngineError where it does not compile or load."""
    try:
        return ctypes.CDLL(str(compile_library(text, isa)))
    except OSError as error:
        raise EngineError(f"cannot load what was compiled: {error}") from error


def kept_library(text: str, isa: Isa) -> Path | None:
    """The library that `compile_library` would not have to compile, if it is in the user's cache."""
    folder = cache.find(cache.user_cache("native"), _library_of(text, isa))
    return None if folder is None else folder / _LIBRARY


def _library_of(text: str, isa: Isa) -> dict[str, str]:
    return {"command": build_version(isa).replace("\0", " "), "text": sha256_bytes(text.encode())}


def link_library(
    units: Sequence[CompileUnit],
    files: Mapping[str, bytes],
    isa: Isa,
    library: Path,
    longest: float = LONGEST_SECONDS,
) -> None:
    """Compiles `units`, which may include `files` by their names, into one shared library.

    EngineError with the compiler's first complaint if it fails, dies or takes over `longest` seconds.
    """
    with TemporaryFolder("tensmith-cc-") as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        sources = [Path(folder) / f"unit{n}.c" for n in range(len(units))]
        objects = [_compiled(unit, isa, source, longest) for unit, source in zip(units, sources)]
        shutil.copyfile(_linked(objects, isa, Path(folder), longest), library)


def build_version(isa: Isa) -> str:
    """The compiler and its flags in one line: what a library depends on beside its text."""
    compiler, arguments = _build(isa)
    return "\0".join((*compiler.identity, *arguments))


def _build(isa: Isa, portable: bool = False) -> tuple[Compiler, tuple[str, ...]]:
    """The compiler for an instruction set or, `portable`, its architecture, and its arguments."""
    compiler = find_compiler(isa.architecture)
    flags = () if portable else isa.flags
    if not compiler.cross:
        return compiler, (*FLAGS, *flags)
    return compiler, (*_target(isa), *FLAGS, *_zig_flags(flags))


def _zig_flags(flags: Iterable[str]) -> tuple[str, ...]:
    """Flags of gcc as zig writes them: it names features as LLVM does, all in one word."""
    written = (_ZIG.get(flag, flag.replace("+fp16", "+fullfp16")) for flag in flags)
    return tuple(filter(None, written))


def _target(isa: Isa) -> tuple[str, ...]:
    return ("-target", isa.triple)


def _compiled(unit: CompileUnit, isa: Isa, source: Path, longest: float) -> Path:
    """The object file that a unit is compiled to, by way of `source`."""
    compiler, arguments = _build(isa, unit.portable)
    compiled = source.with_suffix(".o")
    source.write_text(unit.text, encoding="utf-8")
    if isa.header and isa.header in unit.text and not compiler.cross and "clang" not in compiler.version:
        parsed = _parsed(compiler, arguments, isa.header)
        if parsed.is_file():  # the user may have emptied the cache since
            arguments = (*arguments, "-include", str(parsed))
    command = (*compiler.command, *arguments, "-c", "-o", str(compiled), str(source))
    run_compiler(command, str(source.parent), longest)
    return compiled


@functools.cache
def _parsed(compiler: Compiler, arguments: tuple[str, ...], header: str) -> Path:
    """A file that says `header`, beside which gcc finds it parsed: that is half of what a kernel takes."""

    def make(folder: Path) -> None:
        folder.mkdir()
        (folder / _PARSED).write_text(header, encoding="utf-8")
        run_compiler((*compiler.command, *arguments, "-x", "c-header", _PARSED), str(folder))

    of = {"command": " ".join((*compiler.identity, *arguments)), "header": header}
    return cache.cached(cache.user_cache("headers"), of, make, _MOST_BYTES) / _PARSED


def _linked(objects: Sequence[Path], isa: Isa, folder: Path, longest: float) -> Path:
    """The shared library of some object files."""
    compiler, _ = _build(isa)
    alone = (*_target(isa), "-nostdlib") if compiler.cross else ("-lm",)
    built = folder / _LIBRARY
    linking = ("-shared", "-s", "-o", str(built), *map(str, objects), *alone)
    run_compiler((*compiler.command, *linking), str(folder), longest)
    return built


def link_image(text: str, isa: Isa, script: str, keep: str, image: Path) -> None:
    """Links C `text` for a device without operating system as `script` says, without what `keep` never calls.

    EngineError with the compiler's or the linker's first complaint.
    """
    compiler = find_compiler(isa.architecture)
    with TemporaryFolder("tensmith-cc-") as folder:
        source, layout = Path(folder) / "unit.c", Path(folder) / "layout.ld"
        source.write_text(text, encoding="utf-8")
        layout.write_text(script, encoding="utf-8")
        linking = ("-nostdlib", f"-Wl,-T,{layout},--entry={keep},--gc-sections", "-o", str(image))
        flags = (*_target(isa), *OPTIMIZED, *_zig_flags(isa.flags), *_ALONE)
        run_compiler((*compiler.command, *flags, str(source), *linking), folder)


def run_compiler(command: tuple[str, ...], folder: str, longest: float = LONGEST_SECONDS) -> str:
    """Standard output of a compiler's command run in `folder`, where zig keeps its own caches too.

    It has `longest` seconds and MOST_MEMORY, and ends with this process. EngineError with its first complaint
    if it fails, dies or takes more; OutputError if that is of no space.
    """
    shared = str(cache.user_cache("zig"))
    settings = {"ZIG_LOCAL_CACHE_DIR": folder, "ZIG_GLOBAL_CACHE_DIR": shared}
    try:
        limits = Limits(longest, MOST_MEMORY)
        done = run(command, longest, limits, folder=folder, environment=os.environ | settings)
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"the C compiler {command[0]} did not end within {longest:g} s") from error
    except OSError as error:
        raise EngineError(f"the C compiler {command[0]} cannot be started: {error.strerror}") from error
    if done.code != 0:
        complaint = f"the C compiler {command[0]} {_complaint(done)}"
        for number in (errno.ENOSPC, errno.EDQUOT):
            if (reason := os.strerror(number)) in done.stderr:
                full = OSError(number, reason)
                raise OutputError(f"{complaint}; {system_advice(full, '')}") from full
        raise EngineError(complaint)
    return done.stdout


def _complaint(done: ProcessResult) -> str:
    """Why a compiler failed, in its own words if it has any."""
    if done.code < 0:
        return done.ending
    complaints = [line.strip() for line in done.stderr.splitlines() if "error" in line]
    return f"failed ({done.code}): {(complaints or [done.stderr[-300:].strip() or 'it says nothing'])[0]}"


@functools.cache
def _version(command: tuple[str, ...]) -> str:
    with TemporaryFolder("tensmith-cc-") as folder:
        return run_compiler((*command, "--version"), folder, LONGEST_SECONDS).partition("\n")[0]


def _machine() -> str:
    return {"arm64": "aarch64", "AMD64": "x86_64"}.get(platform.machine(), platform.machine())
