"""What a program of tokens is made of: its input of tokens, their number, and the rows of its values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tensmith.errors import ModelError
from tensmith.formula.poly import Poly
from tensmith.ir import Program

# An input that says which tokens count.
MASK = "attention_mask"


@dataclass(frozen=True)
class TokenRows:
    """A program that reads tokens [batch, length]. ModelError where it does not."""

    program: Program

    @cached_property
    def tokens(self) -> str:
        """The input of tokens."""
        found = [
            name
            for name, type_ in self.program.inputs.items()
            if type_.dtype in ("i64", "i32") and type_.rank == 2 and isinstance(type_.dims[1], Poly)
        ]
        named = [name for name in found if name != MASK]
        if not named or len(found) < len(self.program.inputs):
            raise ModelError("a decoder takes integers [batch, length] of an open length, and nothing else")
        return named[0]

    @cached_property
    def length(self) -> str:
        """The symbol of the number of tokens."""
        size = Poly.of(self.program.inputs[self.tokens].dims[1])
        name = min(size.symbols())
        if size != Poly.symbol(name):
            raise ModelError("the number of tokens is no size of its own")
        return name

    @cached_property
    def told(self) -> frozenset[str]:
        """Values that depend on tokens, not on their number alone."""
        found = set(self.program.inputs)
        for node in self.program.nodes:
            by_shape = node.traits.measures and self._counted(node.inputs[0])
            if not by_shape and any(name in found for name in node.inputs):
                found.update(filter(None, node.outputs))
        return frozenset(found)

    def _counted(self, value: str) -> bool:
        """Whether all sizes of a value are made of those of inputs."""
        inputs = [type_.dims for type_ in self.program.inputs.values()]
        known = {symbol for dims in inputs for dim in dims for symbol in Poly.of(dim).symbols()}
        type_ = self.program.facts[value].type
        if type_ is None or type_.shape is None:
            return False
        return all(Poly.of(dim).symbols() <= known for dim in type_.shape)

    def axes(self, value: str) -> tuple[int, ...]:
        """The axes of rows of a value: those whose size is made of the number of tokens."""
        type_ = self.program.facts[value].type
        if type_ is None or type_.shape is None:
            raise ModelError(f"the shape of '{value}' is not known")
        return tuple(
            axis
            for axis, size in enumerate(type_.dims)
            if isinstance(size, Poly) and self.length in size.symbols()
        )
