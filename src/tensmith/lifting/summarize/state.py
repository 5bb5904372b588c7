"""What symbolic execution carries along: the state, and what it meets on the way."""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.formula.expr import Call, Read, SourcePosition
from tensmith.formula.poly import Poly
from tensmith.formula.types import MachineType
from tensmith.lifting.summarize.memory import Contents
from tensmith.lifting.summarize.scope import Scope
from tensmith.lifting.summary import LoopFacts, Term

_UNDEFINED = "undefined "


def undefined(name: str, type_: MachineType) -> Term:
    """What a variable holds that no statement gave a value."""
    return Read(_UNDEFINED + name, (), type_)


def undefined_name(symbol: str) -> str | None:
    """The variable whose lack of a value is named."""
    return symbol.removeprefix(_UNDEFINED) if symbol.startswith(_UNDEFINED) else None


@dataclass
class State:
    """What every variable and array holds. Lengths of local arrays are scalars "len(NAME, AXIS)"."""

    scalars: dict[str, Term]
    arrays: dict[str, Contents]

    def copy(self) -> State:
        """A state of its own."""
        return State(dict(self.scalars), dict(self.arrays))


@dataclass(frozen=True)
class Occurrence:
    """Where something of the source is evaluated."""

    scope: Scope
    position: SourcePosition


@dataclass(frozen=True)
class Access(Occurrence):
    """A subscript of a parameter's array as the source has it."""

    array: str
    at: tuple[Poly, ...]
    stored: bool


@dataclass(frozen=True)
class Lookup(Occurrence):
    """An element of a parameter's array at subscripts some of which are data: a term of "element".

    inside: subscripts that are none, in the rows of flat memory, and how long these are.
    """

    term: Call
    inside: tuple[tuple[Poly, Poly], ...] = ()

    @property
    def array(self) -> str:
        """The parameter."""
        whole = self.term.args[0]
        assert isinstance(whole, Read)
        return whole.tensor


@dataclass(frozen=True)
class Divisor(Occurrence):
    """An integer that something is divided by."""

    term: Term


@dataclass(frozen=True)
class PendingLoop(Occurrence):
    """A loop's facts, with the scope at its head, where outer loops still have to be resolved."""

    facts: LoopFacts
