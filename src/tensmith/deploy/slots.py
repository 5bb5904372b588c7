"""A decoder compiled for one token at a time: caches of fixed sizes that stay where they are (with_slots)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from tensmith.backend.native.emit.loader import Model
from tensmith.backend.onnx import write_onnx
from tensmith.deploy.caching import CachedDecoder, compared_on
from tensmith.deploy.generation import MASK, POSITIONS, Sampling, State, TokenDecoder
from tensmith.deploy.greedy import GreedyLoop
from tensmith.engine.compiled import NATIVE, CompileOptions
from tensmith.engine.engines.native import compiled
from tensmith.errors import EngineError, TensmithError
from tensmith.files import TemporaryFolder
from tensmith.formula.arith import Array
from tensmith.ir import Program
from tensmith.rewrite.tokens.caching import PAST, POSITION, PRESENT, with_slots
from tensmith.rewrite.tokens.causal import Causality
from tensmith.rewrite.trail import simplify

# Capacities are powers of two from this on, so that few are compiled.
_LEAST = 64
# The longest text on which a step and the original are compared before it is used; the first rows one by one.
_LONGEST, _ROWS = 272, 16
# So many texts that have ended leave their memory to others.
_MOST_IDLE = 2


@dataclass
class SlotDecoder(CachedDecoder):
    """A compiled step for texts of up to some number of tokens; `session` is the original's."""

    model: Model
    capacity: int
    # Texts that have ended.
    _idle: list[SlotText] = field(default_factory=list)

    @property
    def keeps(self) -> bool:
        return True

    def _said(self, known: list[int], most: int, sampling: Sampling) -> Iterator[int]:
        if self.compared.apart > self.borne:
            yield from self.original._said(known, most, sampling)
            return
        text = None if not most or sampling.temperature else self._in_c()
        if text is None:
            yield from super()._said(known, most, sampling)
            return
        row, _ = self.fed(known, 0, text)
        said = [sampling.token(row, sampling.drawer())]
        yield said[0]
        for token in text.likeliest(said[0], most - 1):
            said.append(token)
            yield token
        if len(said) < most:  # logits are no numbers, which it tells
            sampling.token(row, sampling.drawer())
        if len(self._idle) < _MOST_IDLE:  # one that was interrupted may be anywhere, and is left
            self._idle.append(text)

    def _in_c(self) -> SlotText | None:
        """A text of no tokens that goes on in C, in the memory of one that ended where there is such; None
        where that cannot be."""
        try:
            text = self._idle.pop()
        except IndexError:
            text = self.nothing()
        else:
            text.forget()
        return text if text._loop is not None else None

    def nothing(self) -> SlotText:
        try:
            return SlotText(self.model, self.capacity, self.tokens.name, self.logits)
        except MemoryError as error:
            raise EngineError(
                f"there is not enough memory for caches of {self.capacity} tokens; ask for fewer"
            ) from error

    def new_rows(self, known: list[int], fed: int, state: State) -> tuple[Array, State]:
        return np.stack([state.said(token).copy() for token in known[fed:]]), state

    def fed(self, known: list[int], fed: int, state: State) -> tuple[Array, State]:
        for token in known[fed:]:
            row: Array = state.said(token)
        return row, state


@dataclass
class SlotDecoders(TokenDecoder):
    """Compiles a step of `program`, which is simplified, for every capacity that texts ask for, and compares
    each with the decoder that `session` is; where they differ, or it is not proved that no row depends on a
    later one, that goes on alone. Where nothing can be compiled here, `whole` computes whole texts, if it is
    given."""

    program: Program
    threads: int = 1
    whole: TokenDecoder | None = None
    made: dict[int, SlotDecoder] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)

    def _said(self, known: list[int], most: int, sampling: Sampling) -> Iterator[int]:
        try:
            if self._causality.late:
                return super()._said(known, most, sampling)
            decoder: TokenDecoder = self._of(len(known) + most - 1)
        except TensmithError:
            if self.whole is None:
                raise
            decoder = self.whole
        return decoder._said(known, most, sampling)

    def _of(self, tokens: int) -> SlotDecoder:
        """The decoder for so many tokens: their number is a power of two, or where the model takes no text of
        that length, just that."""
        wanted = max(_LEAST, 1 << (tokens - 1).bit_length())
        if large := [capacity for capacity in self.made if tokens <= capacity <= wanted]:
            return self.made[min(large)]
        if wanted not in self.refused:
            try:
                return self.made.setdefault(wanted, self._made(wanted))
            except TensmithError:
                if tokens == wanted:
                    raise
                self.refused.add(wanted)
        return self.made.setdefault(tokens, self._made(tokens))

    @cached_property
    def _causality(self) -> Causality:
        return Causality.of(self.program)

    def _made(self, capacity: int) -> SlotDecoder:
        program = simplify(with_slots(self.program, capacity)).program
        dims = (dim for type_ in program.inputs.values() for dim in type_.dims)
        symbols = {symbol for dim in dims if not isinstance(dim, int) for symbol in dim.symbols()}
        with TemporaryFolder() as folder:
            path = Path(folder) / "step.onnx"
            write_onnx(program, path)
            model = compiled(path, dict.fromkeys(symbols, 1), CompileOptions.of(NATIVE, threads=self.threads))
        found = SlotDecoder(self.session, TokenDecoder(self.session), self._causality, model, capacity)
        length = min(capacity, _LONGEST)
        parts = length * (1,) if length <= _ROWS else (*_ROWS * (1,), length - _ROWS)
        found.compared = compared_on(found, parts, capacity)
        return found


class SlotText:
    """One text that a compiled step computes, token by token; each leaves its caches to the next."""

    def __init__(self, model: Model, capacity: int, tokens: str, logits: str) -> None:
        given: dict[str, Array] = {s["name"]: np.zeros(s["shape"], s["dtype"]) for s in model.inputs}
        past = PAST.format("")
        after = {PRESENT.format(name.removeprefix(past)): a for name, a in given.items() if past in name}
        self._model, self._capacity, self._given = model, capacity, given
        self._step, self._outputs = model.bind(given, after)
        self._tokens = given[tokens]
        self._row: Array = self._outputs[logits][0, -1]
        self._places = [given[name] for name in (POSITION, POSITIONS) if name in given]
        self._mask = given.get(MASK)
        self._count = 0

    def forget(self) -> None:
        """Back to a text of no tokens."""
        for array in self._given.values():
            array[...] = 0
        self._count = 0

    def said(self, token: int) -> Array:
        """Logits [vocabulary] after one more token; the next call overwrites them."""
        self._tokens[...] = token
        for place in self._places:
            place[...] = self._count
        if self._mask is not None:
            self._mask[0, self._count] = 1
        self._count += 1
        self._step()
        return self._row

    def likeliest(self, token: int, wanted: int) -> Iterator[int]:
        """So many tokens after one more, the likeliest each; fewer where logits are no numbers."""
        assert self._loop is not None
        return self._loop.tokens(token, self._count, wanted)

    @cached_property
    def _loop(self) -> GreedyLoop | None:
        """What goes on in C; None where that cannot be."""
        try:
            bound = self._model, self._given, self._outputs
            return GreedyLoop(*bound, self._row, self._tokens, self._places, self._mask, self._capacity)
        except TensmithError:
            return None
