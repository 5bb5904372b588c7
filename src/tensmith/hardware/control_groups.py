"""What a container leaves to its processes: control groups of Linux, of both versions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_GROUPS, _ROOT = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def core_limit(groups: Path = _GROUPS, root: Path = _ROOT) -> int | None:
    """Over how many cores this process's share of time may spread, begun ones whole; None for no limit."""
    return min(_cores(groups, root), default=None)


def memory_limit(groups: Path = _GROUPS, root: Path = _ROOT) -> int | None:
    """The bytes that this process may fill together with those in its groups; None for no limit."""
    found = (
        read_if_there(folder / "memory.max") or read_if_there(folder / "memory.limit_in_bytes")
        for folder in _folders("memory", groups, root)
    )
    return min((int(text) for text in found if text.strip().isdecimal() and int(text)), default=None)


def read_if_there(path: Path) -> str:
    """A file of the system's; "" where it cannot be read."""
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""


def _cores(groups: Path, root: Path) -> Iterator[int]:
    for folder in _folders("cpu", groups, root):
        apart = (read_if_there(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
        words = (read_if_there(folder / "cpu.max") or " ".join(apart)).split()
        if len(words) == 2 and all(map(str.isdecimal, words)) and int(words[1]):
            quota, period = map(int, words)
            yield max(1, -(-quota // period))


def _folders(controller: str, groups: Path, root: Path) -> Iterator[Path]:
    """Those of the groups that this process is in, each within the next, where the controller has files."""
    for line in read_if_there(groups).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        top = root / controller if controllers else root
        inner = PurePosixPath(path.lstrip("/"))
        if ".." not in inner.parts:
            yield top / inner
        yield from (top / outer for outer in inner.parents if ".." not in outer.parts)
