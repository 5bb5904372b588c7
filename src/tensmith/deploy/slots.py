"""A decoder compiled for one token at a time: caches of fixed sizes that stay where they are (with_slots)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tensmith.backend.native.emit.loader import Model
from tensmith.backend.onnx import write_onnx
from tensmith.deploy.caching import SAME, CacheComparison, apart
from tensmith.deploy.generation import MASK, POSITIONS, Sampling, TokenDecoder
from tensmith.engine.compiled import CompileOptions, compiled
from tensmith.errors import EngineError, TensmithError
from tensmith.files import TemporaryFolder
from tensmith.formula.arith import Array
from tensmith.ir import Program
from tensmith.rewrite.caching import PAST, POSITION, PRESENT, with_slots
from tensmith.rewrite.trail import simplify

# Capacities are powers of two from this on, so that few are compiled.
_LEAST = 64
# The longest text on which a step and the original are compared before it is used, and the rows that are.
_LONGEST, _ROWS = 272, 16


def stepped(program: Program, capacity: int) -> Program:
    """The program for one token at a time (rewrite.caching.with_slots), simplified. ModelError where that
    cannot be."""
    return simplify(with_slots(simplify(program).program, capacity)).program


@dataclass
class SlotDecoder(TokenDecoder):
    """Compiles `program` once for every capacity, and compares each with the decoder that `session` is, which
    goes on alone where the two differ: where rows look at later ones, or change with the length."""

    program: Program
    threads: int = 1
    _models: dict[int, tuple[Model, CacheComparison]] = field(default_factory=dict)

    def _said(self, known: list[int], most: int, sampling: Sampling) -> Iterator[int]:
        capacity = self._capacity(len(known) + most - 1)
        model, compared = self._models[capacity]
        if compared.apart > SAME:
            yield from super()._said(known, most, sampling)
            return
        drawer, text = sampling.drawer(), SlotText(model, self.tokens.name, self.logits)
        for token in known:
            row = text.said(token)
        for left in range(most, 0, -1):
            if len(known) >= 2 * compared.tokens:
                compared = CacheComparison(apart(row, self.rows(known)[-1]), len(known))
                self._models[capacity] = model, compared
                if compared.apart > SAME:
                    yield from super()._said(known, left, sampling)
                    return
            known.append(sampling.token(row, drawer))
            yield known[-1]
            if left > 1:
                row = text.said(known[-1])

    def _capacity(self, tokens: int) -> int:
        """Of a step that is compiled, for so many tokens: a power of two, or where the model takes no text of
        that length, just so many."""
        wanted = max(_LEAST, 1 << (tokens - 1).bit_length())
        if wanted not in self._models and tokens not in self._models:
            try:
                self._models[wanted] = self._made(wanted)
            except TensmithError:
                if tokens == wanted:
                    raise
                self._models[tokens] = self._made(tokens)
        return wanted if wanted in self._models else tokens

    def _made(self, capacity: int) -> tuple[Model, CacheComparison]:
        """The step of a capacity, and how far its logits are from the original's."""
        program = stepped(self.program, capacity)
        dims = (dim for type_ in program.inputs.values() for dim in type_.dims)
        symbols = {symbol for dim in dims if not isinstance(dim, int) for symbol in dim.symbols()}
        with TemporaryFolder() as folder:
            path = Path(folder) / "step.onnx"
            write_onnx(program, path)
            model = compiled(path, dict.fromkeys(symbols, 1), CompileOptions(threads=self.threads))
        return model, self._compared(model, capacity)

    def _compared(self, model: Model, capacity: int) -> CacheComparison:
        """Over a random text: first rows and the last one, each against the original on all up to there."""
        length = min(capacity, _LONGEST)
        vocabulary = self.vocabulary or 256
        known = np.random.default_rng(capacity).integers(0, vocabulary, length).tolist()
        text, worst = SlotText(model, self.tokens.name, self.logits), 0.0
        for count, token in enumerate(known, 1):
            row = text.said(token)
            if count <= _ROWS or count == length:
                try:
                    expected = self.rows(known[:count])[-1]
                except EngineError:
                    if count <= _ROWS:
                        raise
                    return CacheComparison(worst, _ROWS)
                worst = max(worst, apart(row, expected))
        return CacheComparison(worst, length)


class SlotText:
    """One text that a compiled step computes, token by token; each leaves its caches to the next."""

    def __init__(self, model: Model, tokens: str, logits: str) -> None:
        given: dict[str, Array] = {s["name"]: np.zeros(s["shape"], s["dtype"]) for s in model.inputs}
        past = PAST.format("")
        after = {PRESENT.format(name.removeprefix(past)): a for name, a in given.items() if past in name}
        self._step, outputs = model.bind(given, after)
        self._tokens = given[tokens]
        self._row: Array = outputs[logits][0, -1]
        self._places = [given[name] for name in (POSITION, POSITIONS) if name in given]
        self._mask = given.get(MASK)
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
