"""A process that computes and does nothing else: no files but to read, no network, no other process.

Run by itself, `python -I -S cell.py`, and uses the standard library alone. Its first line of input, JSON,
says what to do: become a compiled driver, or hold Python functions and call them, one line of JSON for each
call and each answer. Limits on memory, time and files hold everywhere; on Linux a filter of system calls is
set before anything of a source is there, and a narrower one before it runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import sys
from collections.abc import Iterator
from typing import Any

# Name: number on x86-64, number on aarch64 (-1: there is none). What a program needs to compute ...
_COMPUTE = {
    "read": (0, 63), "write": (1, 64), "exit": (60, 93), "exit_group": (231, 94), "brk": (12, 214),
    "mmap": (9, 222), "munmap": (11, 215), "mprotect": (10, 226), "mremap": (25, 216), "madvise": (28, 233),
    "futex": (202, 98), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132), "getpid": (39, 172), "gettid": (186, 178), "clock_gettime": (228, 113),
    "getrandom": (318, 278), "sched_yield": (24, 124),
}  # fmt: skip
# ... and to be loaded: to become another program that opens its libraries, all to read.
_LOAD = {
    "execve": (59, 221), "close": (3, 57), "fstat": (5, 80), "newfstatat": (262, 79), "stat": (4, -1),
    "lstat": (6, -1), "lseek": (8, 62), "pread64": (17, 67), "access": (21, -1), "faccessat": (269, 48),
    "faccessat2": (439, 439), "readlink": (89, -1), "readlinkat": (267, 78), "arch_prctl": (158, -1),
    "set_tid_address": (218, 96), "set_robust_list": (273, 99), "rseq": (334, 293), "uname": (63, 160),
    "prlimit64": (302, 261), "getrlimit": (97, 163), "sysinfo": (99, 179), "prctl": (157, 167),
    "sched_getaffinity": (204, 123), "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176),
    "getegid": (108, 177), "seccomp": (317, 277),
}  # fmt: skip
_OPEN = {"open": (2, -1, 1), "openat": (257, 56, 2)}  # with the number of the argument that holds the flags
_CHANGING = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000  # write only, read and write, create, truncate, append
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_ALLOW, _DENY = 0x7FFF0000, 0x00050001  # SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | EPERM
_NO_NEW_PRIVILEGES, _SET_FILTER, _END_WITH_PARENT = 38, 22, 1

# FE_UPWARD and FE_DOWNWARD of <fenv.h>; asked before the filters, which know no uname.
_MODES = {
    "x86_64": {1: 0x800, -1: 0x400}, "aarch64": {1: 0x400000, -1: 0x800000},
}.get(platform.machine(), {})  # fmt: skip

SECONDS = 8  # of processor time
MEMORY = 4 << 30  # not for sanitized programs: their shadow memory is larger than any limit


def limit(memory: bool) -> None:
    """Limits of the process, as far as the system has them."""
    try:
        import resource
    except ImportError:
        return
    wanted = [("CPU", SECONDS), ("FSIZE", 0), ("CORE", 0), ("NPROC", 0)]
    for name, bound in [*wanted, ("AS", MEMORY)] if memory else wanted:
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is not None:
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(kind, (bound, bound))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def confine(loading: bool) -> bool:
    """Forbid all system calls but those to compute, or also to load a program; whether the system does."""
    machine = _ARCHITECTURES.get(platform.machine())
    if machine is None or not sys.platform.startswith("linux"):
        return False
    column, architecture = machine
    allowed = {**_COMPUTE, **_LOAD} if loading else _COMPUTE
    numbers = [row[column] for row in allowed.values() if row[column] >= 0]
    opening = [(row[column], row[2]) for row in _OPEN.values() if loading and row[column] >= 0]
    # Each instruction: code, jump if true, jump if false, constant. Of the call: its number at byte 0, the
    # architecture at 4, argument k at 16 + 8 k.
    code = [(0x20, 0, 0, 4), (0x15, 1, 0, architecture), (0x06, 0, 0, _DENY), (0x20, 0, 0, 0)]
    for number in numbers:
        code += [(0x15, 0, 1, number), (0x06, 0, 0, _ALLOW)]
    for number, argument in opening:
        code += [(0x15, 0, 4, number), (0x20, 0, 0, 16 + 8 * argument), (0x45, 0, 1, _CHANGING)]
        code += [(0x06, 0, 0, _DENY), (0x06, 0, 0, _ALLOW)]
    code.append((0x06, 0, 0, _DENY))
    data = b"".join(
        op.to_bytes(2, "little") + bytes((yes, no)) + k.to_bytes(4, "little") for op, yes, no, k in code
    )
    held = ctypes.create_string_buffer(data, len(data))
    program = _Program(len(code), ctypes.addressof(held))
    control = ctypes.CDLL(None, use_errno=True).prctl
    if control(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        return False
    return not control(_SET_FILTER, 2, ctypes.byref(program), 0, 0)


def end_with_parent() -> None:
    """Whoever starts this may be killed; then this ends as well."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_END_WITH_PARENT, 9, 0, 0, 0)


# Values as JSON: arrays with their bytes, what JSON lacks with its name


def packed(value: Any) -> Any:
    """A value as JSON."""
    if isinstance(value, (list, tuple)):
        return [packed(part) for part in value]
    if isinstance(value, (bool, int, float)) and type(value) in (bool, int, float):
        return value
    if isinstance(value, dict):
        return None  # a struct's fields: arguments, which nobody changes
    if hasattr(value, "dtype") and hasattr(value, "tobytes"):
        return {"dtype": value.dtype.str, "shape": list(value.shape), "bytes": value.tobytes().hex()}
    return None if value is None else {"kind": type(value).__name__}


def unpacked(value: Any) -> Any:
    """A value of JSON; arrays only where NumPy is imported."""
    if isinstance(value, list):
        return [unpacked(part) for part in value]
    if isinstance(value, dict) and "fields" in value:
        return Fields((name, unpacked(part)) for name, part in value["fields"].items())
    if isinstance(value, dict):
        numpy = sys.modules["numpy"]
        data = bytearray.fromhex(value["bytes"])
        return numpy.frombuffer(data, value["dtype"]).reshape(value["shape"])
    return value


class Fields(dict[str, Any]):
    """A struct's fields, as a mapping and as attributes."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


@contextlib.contextmanager
def rounded(direction: int) -> Iterator[None]:
    """Floating-point results upwards (1) or downwards (-1), where this processor's mode is known."""
    mode = _MODES.get(direction)
    if mode is None:
        yield
        return
    change = ctypes.CDLL(None).fesetround  # of the C library that Python runs on
    change(mode)
    try:
        yield
    finally:
        change(0)


def answer(spaces: dict[str, dict[str, Any]], request: dict[str, Any]) -> dict[str, Any]:
    """A text to be held, or a call of what a text defined: its value and its arguments afterwards."""
    try:
        if "text" in request:
            space: dict[str, Any] = {"__name__": "second_reader"}
            spaces[request["space"]] = space
            exec(compile(request["text"], "<source>", "exec"), space)
            return {}
        arguments = unpacked(request["arguments"])
        for place, other in request.get("same", ()):
            arguments[place] = arguments[other]
        with rounded(request.get("rounding", 0)):
            value = spaces[request["space"]][request["name"]](*arguments)
        return {"value": packed(value), "arguments": packed(arguments)}
    except MemoryError:
        return {"error": "MemoryError", "text": "too much memory"}
    except Exception as error:
        return {"error": type(error).__name__, "text": str(error)[:500]}


def main() -> None:
    """Become what the first line of input says."""
    first = bytearray()
    while not first.endswith(b"\n"):
        part = os.read(0, 1)  # not a byte more: the rest is the driver's
        if not part:
            return
        first += part
    wanted = json.loads(first)
    end_with_parent()
    limit(memory="driver" not in wanted)
    if "driver" in wanted:
        confine(loading=True)
        os.execve(wanted["driver"], [wanted["driver"]], wanted["environment"])
    sys.path[:0] = wanted.get("path", [])
    for module in ("math", *wanted.get("modules", ())):
        __import__(module)
    if "numpy" in sys.modules:
        sys.modules["numpy"].seterr(all="ignore")
    source, answers = os.fdopen(0), os.fdopen(1, "w")
    sys.stdout = sys.stderr = None
    answers.write(json.dumps({"confined": confine(loading=False)}) + "\n")
    answers.flush()
    spaces: dict[str, dict[str, Any]] = {}
    for line in source:
        answers.write(json.dumps(answer(spaces, json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
