"""Writes a lifted function as source or model files: one module a target, found by importing this folder.

    @emitter
    class Numpy(Emitter):
        name = "numpy"
        def emit(self, lifted): return Emitted({f"{lifted.function.name}.py": text.encode()})

`EMITTERS["numpy"].emit(lifted)` gives file names and contents; nothing is written to disk here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, TypeVar

from tensmith.lifting.lifted import EmittedFiles, Lifted
from tensmith.registry import Registry

__all__ = ["EMITTERS", "EmittedFiles", "Emitter", "emitter"]


class Emitter(ABC):
    """A target language. Stateless; `name` is what the user writes after --to."""

    name: ClassVar[str]

    @abstractmethod
    def emit(self, lifted: Lifted) -> EmittedFiles:
        """The files of one lifted function, named after it; raises Refusal where the target cannot say it."""


EMITTERS: Registry[Emitter] = Registry("target", "tensmith.lifting.emit")

Class = TypeVar("Class", bound=type[Emitter])


def emitter(cls: Class) -> Class:
    """Registers an emitter under its name."""
    EMITTERS.add(cls.name, cls())
    return cls
