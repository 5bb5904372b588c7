"""A C or C++ source's functions, cut out and compiled with sanitizers, each call in a confined process."""

from __future__ import annotations

import functools
import re
import shutil
import struct
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.errors import TensmithError
from tensmith.formula.types import MachineType
from tensmith.kernel.toolchain import Compiler, find_compiler, run_compiler
from tensmith.lifting.loops import Array, Function, element_of
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.second.calls import call_text, table
from tensmith.lifting.second.cut import cut
from tensmith.lifting.second.process import Process, ProcessGone
from tensmith.lifting.second.values import CallResult, Divided, Faulty, Meaningless, dtype, flat, is_flat
from tensmith.lifting.source.c import guard as c_guard
from tensmith.lifting.source.c.parse import definitions, parse

_HERE = Path(__file__).parent
_UNDEFINED = (
    "signed-integer-overflow,integer-divide-by-zero,shift,bounds,float-cast-overflow,vla-bound,null,alignment,"
    "return,unreachable"
)
# What is asked of the compiler, the most first, and what it is called.
_SANITIZERS = (
    (
        (f"-fsanitize=address,{_UNDEFINED}",),
        ("-fsanitize=address",),
        "address and undefined-behaviour sanitizers",
    ),
    ((f"-fsanitize={_UNDEFINED}",), (), "undefined-behaviour sanitizer"),
    ((), (), "no sanitizers"),
)
_FLAGS = ("-O1", "-ffp-contract=off", "-fsigned-char", "-fno-strict-aliasing", "-w", "-D_GLIBCXX_ASSERTIONS")
_SOURCE = "ts_source.c"  # the file under a name that holds no quote
# Our C++ headers declare the types of these wherever they are included.
_TYPES = ("#include <stddef.h>", "#include <stdint.h>")
_COMPILING, _RUNNING = 30.0, 20.0  # seconds by the clock
_ASAN = "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=256:quarantine_size_mb=8"
_DONE, _ASSUMED, _DIVIDED = range(3)  # statuses of driver.c


class CompiledSource:
    """The functions of a file that can be called, compiled together, or each alone where that fails."""

    def __init__(self, path: Path, functions: Sequence[Function]) -> None:
        self.source = c_guard.read(path)
        self.unit, *_ = parse(self.source)
        found = definitions(self.unit, path)
        self.cursors = {cursor.spelling: cursor for cursor in found}
        self.functions = {function.name: function for function in functions}
        self.cpp = c_guard.language(path) == "c++"
        self.folder = Path(tempfile.mkdtemp(prefix="tensmith-second-"))
        weakref.finalize(self, shutil.rmtree, self.folder, True)
        self.built: dict[str, Driver | TensmithError] = {}

    def __getitem__(self, name: str) -> CompiledFunction:
        """A function to be called; TensmithError or Refusal if it cannot be compiled or called."""
        if name not in self.built:
            self.build()
        driver = self.built[name]
        if isinstance(driver, TensmithError):
            raise driver
        other = functools.cache(functools.partial(self.wrapping, name))
        return CompiledFunction(driver, self.functions[name], other)

    def build(self) -> None:
        """Compile all functions together; where that fails, each by itself."""
        texts: dict[str, str] = {}
        for name, function in self.functions.items():
            try:
                texts[name] = call_text(len(texts), function, self.cursors[name])
            except Refusal as refusal:
                self.built[name] = TensmithError(f"{name} cannot be called from outside: {refusal.reason}")
        driver = self.attempt(list(texts))
        self.built |= dict.fromkeys(texts, driver)
        if isinstance(driver, TensmithError) and len(texts) > 1:
            self.built |= {name: self.attempt([name]) for name in texts}

    def attempt(self, names: Sequence[str]) -> Driver | TensmithError:
        try:
            return self.driver(names)
        except TensmithError as error:
            return error

    def wrapping(self, name: str) -> CompiledFunction | None:
        """A function compiled once more, to wrap around where it overflows, and with no sanitizer."""
        try:
            return CompiledFunction(self.driver([name], wrapping=True), self.functions[name])
        except TensmithError:
            return None

    def driver(self, names: Sequence[str], wrapping: bool = False) -> Driver:
        """Functions as one program."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        files = cut(self.source, self.unit, [self.cursors[name] for name in names])
        own = next(iter(files))
        for file, text in files.items():
            (folder / (_SOURCE if file == own else file)).write_text(text, encoding="utf-8")
        for file in ("call.h", "driver.c"):
            (folder / f"ts_{file}").write_text(_text(file).replace('"call.h"', '"ts_call.h"'))
        calls = [
            call_text(number, self.functions[name], self.cursors[name]) for number, name in enumerate(names)
        ]
        unit = f"ts_unit.{'cpp' if self.cpp else 'c'}"
        lines = [
            *(_TYPES if self.cpp else ()),
            "#define main ts_main",
            f'#include "{_SOURCE}"',
            "#undef main",
            '#include "ts_call.h"',
        ]
        (folder / unit).write_text("\n".join([*lines, *calls, table(len(names))]))
        return Driver(*compiled(folder, unit, wrapping), list(names))


@functools.cache
def _text(name: str) -> str:
    return (_HERE / name).read_text()


def compiled(folder: Path, unit: str, wrapping: bool) -> tuple[Path, str]:
    """The program of a unit and the driver, and by what it was compiled; with what sanitizers there are, or
    with none and overflow that wraps. TensmithError if it does not compile in any way."""
    compiler = find_compiler()
    standard = ("-std=gnu++17",) if unit.endswith("cpp") else ("-std=gnu11", "-fgnu89-inline")
    library = ("-lc++" if compiler.cross else "-lstdc++",) if unit.endswith("cpp") else ()
    program = folder / "program"
    for number in range(len(_SANITIZERS) - 1 if wrapping else _usable(compiler), len(_SANITIZERS)):
        compiling, linking, words = _SANITIZERS[number]
        shared = (*compiler.command, *_FLAGS, *compiling, *(("-fwrapv",) if wrapping else ()))
        try:
            run_compiler((*shared, *standard, "-c", unit, "-o", "unit.o"), str(folder), _COMPILING)
            driver = _driver(compiler)
            run_compiler(
                (*compiler.command, *linking, "unit.o", str(driver), "-o", str(program), *library, "-lm"),
                str(folder),
                _COMPILING,
            )
        except TensmithError:
            if number + 1 == len(_SANITIZERS) or _works(compiler, number):
                raise
            continue
        return program, f"{named(compiler)}, {words}"
    raise AssertionError("one way is the last")


@functools.cache
def _usable(compiler: Compiler) -> int:
    """The first of the ways that the compiler has."""
    return next(number for number in range(len(_SANITIZERS)) if _works(compiler, number))


@functools.cache
def _works(compiler: Compiler, number: int) -> bool:
    """Whether a way compiles and links the driver with nothing to call, and it starts: AddressSanitizer does
    not where memory is limited."""
    if number + 1 == len(_SANITIZERS):
        return True
    _, linking, _ = _SANITIZERS[number]
    with tempfile.TemporaryDirectory(prefix="tensmith-second-") as name:
        folder = Path(name)
        (folder / "ts_call.h").write_text(_text("call.h"))
        (folder / "empty.c").write_text('#include "ts_call.h"\nconst ts_call ts_calls[] = {0};\n')
        try:
            driver = str(_driver(compiler))
            command = (*compiler.command, *linking, "empty.c", driver, "-o", "program", "-lm")
            run_compiler(command, name, _COMPILING)
            Driver(folder / "program", "", []).start().close()
        except (TensmithError, ProcessGone):
            return False
    return True


_KEEP: list[tempfile.TemporaryDirectory[str]] = []


@functools.cache
def _driver(compiler: Compiler) -> Path:
    """The driver's object file, compiled once in a process. It is not sanitized: its hooks would be called
    for its own sake."""
    _KEEP.append(tempfile.TemporaryDirectory(prefix="tensmith-second-"))
    folder = Path(_KEEP[-1].name)
    for file in ("call.h", "driver.c"):
        (folder / file).write_text(_text(file))
    run_compiler(
        (*compiler.command, "-O1", "-w", "-c", "driver.c", "-o", "driver.o"), str(folder), _COMPILING
    )
    return folder / "driver.o"


def named(compiler: Compiler) -> str:
    """ "gcc 12.2.0", from what the compiler calls itself."""
    family = "clang" if "clang" in compiler.version else "gcc"
    numbers = re.findall(r"\d+\.\d+(?:\.\d+)?", compiler.version)
    return f"{family} {numbers[-1] if family == 'gcc' else numbers[0]}" if numbers else family


class Driver:
    """A compiled program that is started at the first call, and again where a call has ended it."""

    def __init__(self, program: Path, by: str, names: Sequence[str]) -> None:
        self.program, self.by, self.names = program, by, names
        self.process: Process | None = None

    def start(self) -> Process:
        """The process, which has begun; ProcessGone, not of a call that crashed, where it does not begin."""
        if self.process is None:
            wanted = {"driver": str(self.program), "environment": {"ASAN_OPTIONS": _ASAN}}
            process = Process(wanted, _RUNNING)
            try:
                process.read(4)
            except ProcessGone as gone:
                raise ProcessGone(crashed=False) from gone
            self.process = process
        return self.process


class CompiledFunction:
    """One function of a driver; see `values.SourceFunction`."""

    def __init__(
        self, driver: Driver, function: Function, other: Callable[[], CompiledFunction | None] = lambda: None
    ) -> None:
        self.driver, self.function, self.by, self.other = driver, function, driver.by, other
        self.number = driver.names.index(function.name)
        self.fields = function.fields

    def __call__(self, arguments: Mapping[str, Any], like: Any = None, rounding: int = 0) -> CallResult:
        values = flat(self.function, arguments)
        data = [struct.pack("=iii", self.number, len(values), rounding)]
        first: dict[int, int] = {}
        for place, (name, kind) in enumerate(self.fields):
            value = values[name]
            array = np.ascontiguousarray(value, dtype(element_of(kind)))
            same = (
                first.setdefault(id(value), place)
                if isinstance(value, np.ndarray) and is_flat(kind)
                else place
            )
            data.append(_slot(array, -1 if same == place else same))
        data.append(_slot(np.zeros(2, "u8") if like is None else np.asarray(like), -1, empty=True))
        process = self.driver.start()
        try:
            process.write(b"".join(data))
            (status,) = struct.unpack("=i", process.read(4))
            if status == _DONE:
                return self.outcome(process, values, like)
        except ProcessGone as ended:
            self.driver.process = None
            if ended.crashed:
                raise Faulty("it crashes") from ended
            raise
        if status == _ASSUMED:
            raise Meaningless
        if status == _DIVIDED:
            raise Divided
        process.close()
        self.driver.process = None
        raise Faulty("a sanitizer reports memory outside of what it may use")

    def ambiguous(self, arguments: Mapping[str, Any], like: Any, outcome: CallResult) -> bool:
        """Whether another compilation of the same source gives another outcome: then the call has no meaning,
        although no sanitizer saw it (compilers fold a - 8 <= 0 to a <= 8 before they look for overflow)."""
        other = self.other()
        if other is None:
            return False
        try:
            found = other(arguments, like)
        except (Meaningless, Faulty, ProcessGone):
            return False
        return _bytes(found) != _bytes(outcome)

    def outcome(self, process: Process, values: Mapping[str, Any], like: Any) -> CallResult:
        """What the driver answers, where the call ended as it should."""
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        for name, kind in self.fields:
            shape, content = _answer(process)
            if isinstance(kind, Array):
                found = np.frombuffer(content, dtype(kind.element))
                extents = np.shape(values[name]) if is_flat(kind) else shape[: kind.rank]
                arrays[name] = found.reshape(extents)
        shape, content = _answer(process)
        returns = self.function.returns
        assert not isinstance(returns, tuple), "C returns one value"
        if returns is None:
            return CallResult(None, arrays)
        if isinstance(returns, MachineType):
            element = dtype(returns)
            return CallResult(np.frombuffer(content[: element.itemsize], element)[0], arrays)
        extents = np.shape(like) if is_flat(returns) else shape[: returns.rank]
        return CallResult(np.frombuffer(content, dtype(returns.element)).reshape(extents), arrays)


def _bytes(outcome: CallResult) -> list[bytes]:
    """All of an outcome, bit by bit."""
    return [np.asarray(part).tobytes() for part in (outcome.value, *outcome.arrays.values())]


def _slot(array: np.ndarray[Any, Any], same: int, empty: bool = False) -> bytes:
    """A slot as the driver reads it: whose memory, extents, bytes, content."""
    extents = (*array.shape, 0, 0, 0)[:3]
    head = struct.pack("=iqqqq", same, *extents, array.nbytes)
    return head if same >= 0 or empty else head + array.tobytes()


def _answer(process: Process) -> tuple[tuple[int, ...], bytes]:
    *shape, size = struct.unpack("=qqqq", process.read(32))
    if not 0 <= size <= 1 << 30:
        raise ProcessGone(crashed=True)
    return tuple(shape), process.read(size)
