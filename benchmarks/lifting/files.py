"""The source files of tests/lifting/kernels, in their groups: the parts of most benches of lifting."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from corpus import GROUPS

from benchmarks import parts


@dataclass(frozen=True)
class SourceFile:
    """A file, and the functions wanted of it."""

    group: str
    path: Path
    functions: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.group}/{self.path.stem}"


def arguments(doc: str | None) -> ArgumentParser:
    """The options of a bench that goes through the groups."""
    parser = parts.arguments(doc)
    parser.add_argument("--groups", type=parts.names, default=[*GROUPS], help="groups of kernels, as A,B")
    return parser


def files(options: Namespace) -> dict[str, SourceFile]:
    """The files of the groups that were asked for, by name."""
    return {str(file): file for group in options.groups for file in _of(group)}


def _of(group: str) -> Iterator[SourceFile]:
    for path in dict.fromkeys(kernel.path for kernel in GROUPS[group]):
        yield SourceFile(group, path, tuple(k.function for k in GROUPS[group] if k.path == path))


def on_one_core() -> None:
    """Keeps this process, and what it starts, on one core."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
