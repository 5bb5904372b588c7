"""Texts of any length for engines that compile for each: padded at their ends to few lengths.

A model of which it is proved that no row depends on a later token answers a padded text as it is, in its
first rows. Judging a hundred stories, each of another length, would compile a hundred times.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tensmith.engine.base import Arrays, Session, compiler
from tensmith.errors import EngineError, TensmithError
from tensmith.formula.arith import Array
from tensmith.frontend.onnx import read_onnx
from tensmith.rewrite.tokens.causal import SIZES, Causality

# Lengths are powers of two from this on.
_LEAST = 16


def judging_texts(session: Session, engine: str, path: Path) -> Session:
    """The session of an engine with the file at `path`, for texts of any length.

    EngineError where the engine compiles for each length, and rows of the model may depend on later tokens.
    """
    if not compiler(engine):
        return session
    try:
        causality = Causality.of(read_onnx(path))
        late = causality.late
        if not late and SIZES in causality.assumed:
            late = SIZES
    except TensmithError as error:
        late = str(error)
    if not late and len(causality.program.inputs) > 1:
        late = "it has inputs beside its tokens"
    if late:
        raise EngineError(
            f"{engine} compiles {path.name} for each length of text, and whether padding changes its answers "
            f"is not known: {late}"
        )
    axes = {
        name: tuple(a for a, size in enumerate(causality.program.type(name).dims) if size == causality.length)
        for name in causality.program.outputs
    }
    return PaddedTexts(session, axes)


class PaddedTexts(Session):
    """A session that pads what it is given, tokens [n, length], and gives the rows that there were.

    rows: of each output, the axes that are as long as the text.
    """

    def __init__(self, session: Session, rows: Mapping[str, tuple[int, ...]]) -> None:
        self.inputs, self.outputs = session.inputs, session.outputs
        self.operators, self.samples = session.operators, session.samples
        self._session, self._rows = session, rows
        self._refused: set[int] = set()

    def run(self, inputs: Arrays) -> dict[str, Array]:
        """See Session. A text that the model takes at no longer length is computed at its own."""
        ((name, tokens),) = inputs.items()
        length = tokens.shape[1]
        padded = max(_LEAST, 1 << (length - 1).bit_length())
        if padded in self._refused:
            return self._session.run(inputs)
        try:
            found = self._session.run({name: np.pad(tokens, ((0, 0), (0, padded - length)))})
        except EngineError:
            self._refused.add(padded)
            return self._session.run(inputs)
        return {output: self._first(array, self._rows[output], length) for output, array in found.items()}

    def close(self) -> None:
        self._session.close()

    def _first(self, array: Array, axes: tuple[int, ...], length: int) -> Array:
        return array[tuple(slice(length if axis in axes else None) for axis in range(array.ndim))]
