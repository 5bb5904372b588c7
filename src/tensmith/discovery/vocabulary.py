"""What terms are made of: typed variables, numbers, and words that make a larger term of smaller ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensmith.errors import UsageError
from tensmith.ir.op import OPS
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.ir.ops.logic import Logical
from tensmith.rewrite.case import Case
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import lemma
from tensmith.rewrite.term import Term, Use, Var, ops, parts


@dataclass(frozen=True)
class Word:
    """A use of an op of terms, as many as `takes` has letters: r for numbers, t for truth values."""

    takes: str
    make: Callable[..., Use]
    weight: int = 1


_WEIGHTS = {
    **dict.fromkeys(("div", "reciprocal", "sqrt", "reduce_l2"), 4),
    **dict.fromkeys(("exp", "log", "pow", "sigmoid", "tanh", "softplus", "erf", "gelu"), 16),
    **dict.fromkeys(("softmax", "log_softmax", "reduce_log_sum_exp"), 16),
}


@dataclass(frozen=True)
class Vocabulary:
    """Variables by their shapes in words (see `law`), those that are truth values, words and numbers.

    sizes: what the sizes are where terms are run; all different, so that shapes tell axes apart. alike: laws
    hold for any shapes that broadcast to one, as all words act on each element alone.
    """

    name: str
    shapes: Mapping[str, str]
    words: tuple[Word, ...]
    numbers: tuple[float, ...] = ()
    truths: frozenset[str] = frozenset()
    sizes: Mapping[str, int] = field(default_factory=lambda: {"M": 5, "N": 6, "K": 7})
    alike: bool = True

    @property
    def variables(self) -> list[Var]:
        """The variables."""
        return [Var(name) for name in self.shapes]

    @property
    def instance(self) -> Instance:
        """What laws are proved in."""
        return Instance(self.name, self.shapes, dtypes=dict.fromkeys(self.truths, "bool"))

    def conditions(self, term: Term) -> dict[str, Any]:
        """The shapes that a law about `term` asks for."""
        return {} if self.alike else {v: s for v, s in self.shapes.items() if v in variables_of(term)}

    @property
    def case(self) -> Case:
        """The variables in the proof."""
        everything = Use("max", tuple(self.variables))
        given = (self.instance,)
        return next(lemma(self.name, everything, everything, 0, given=given).cases(given))


def variables_of(term: Term) -> list[str]:
    """The names of variables in the order in which they are first read."""
    return list(dict.fromkeys(part.name for part in parts(term) if isinstance(part, Var)))


def simple(names: Iterable[str]) -> tuple[Word, ...]:
    """Elementwise ops by name, with their usual attributes."""
    found = []
    for name in names:
        declared = OPS.get(name)
        if not isinstance(declared, Elementwise):
            raise UsageError(f"'{name}' is no op that acts on each element alone; see docs/operators.md")
        found.append(Word(_taken(declared), getattr(ops, name), _WEIGHTS.get(name, 1)))
    return tuple(found)


def _taken(op: Elementwise) -> str:
    """The operands that an op needs; two where it takes many, or is declared by its arithmetic alone."""
    meaning = getattr(type(op), "meaning", None)
    if op.many or meaning is None:
        return "rr"
    parameters = list(inspect.signature(meaning).parameters.values())[1:]
    needed = sum(p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty for p in parameters)
    return "trr" if op.name == "where" else ("t" if isinstance(op, Logical) else "r") * needed


def _view(op: str, *others: object, **attrs: object) -> Word:
    """An op of one term, operands that are known, and attributes."""
    return Word("r", lambda x: getattr(ops, op)(x, *others, attrs=attrs or None), _WEIGHTS.get(op, 1))


def _ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


def _joined(axis: int) -> Word:
    return Word("rr", lambda x, y: ops.concat(x, y, attrs={"axis": axis}))


def _reductions(*kinds: str) -> tuple[Word, ...]:
    return tuple(_view(f"reduce_{k}", _ints(axis), keepdims=1) for k in kinds for axis in (0, 1))


_MATRICES = {"x": "M N", "y": "M N", "z": "M N"}
_END = 2**40
_TURNED = _view("transpose", perm=(1, 0))
_REVERSED = _view("slice", _ints(-1), _ints(-_END), _ints(1), _ints(-1))

VOCABULARIES = {
    each.name: each
    for each in (
        Vocabulary(
            "elements",
            _MATRICES,
            simple(("neg", "abs", "relu", "sign", "max", "min", "add", "sub", "mul", "div")),
            (2.0,),
        ),
        Vocabulary(
            "functions",
            _MATRICES,
            simple(("neg", "abs", "relu", "exp", "log", "sqrt", "reciprocal", "sigmoid", "tanh", "softplus"))
            + simple(("add", "sub", "mul", "div")),
            (1.0,),
        ),
        Vocabulary(
            "choices",
            {**_MATRICES, "p": "M N", "q": "M N"},
            simple(("where", "less", "less_or_equal", "equal", "not", "and", "or", "xor"))
            + simple(("neg", "abs", "relu", "max", "add", "mul")),
            (0.0,),
            frozenset("pq"),
        ),
        Vocabulary(
            "reductions",
            {"x": "M N", "y": "M N", "r": "M 1"},
            _reductions("sum", "max", "mean", "sum_square", "l1", "l2", "log_sum_exp", "prod")
            + simple(("neg", "abs", "relu", "exp", "log", "sqrt", "add", "mul", "max"))
            + (_view("softmax", axis=1), _view("log_softmax", axis=1), _TURNED),
            alike=False,
        ),
        Vocabulary(
            "products",
            {"x": "M N", "y": "M N", "w": "N K", "v": "N K"},
            (
                Word("rr", ops.matmul), _TURNED, _joined(0), _joined(1), *_reductions("sum", "mean"),
                *simple(("neg", "add", "mul")),
            ),
            alike=False,
        ),
        Vocabulary(
            "moves",
            {"x": "M N", "y": "M N"},
            (
                _TURNED, _REVERSED, _joined(0), _joined(1), *_reductions("sum", "max"),
                _view("pad", _ints(0, 1, 0, 1)), _view("pad", _ints(1, 0, 1, 0)),
                _view("slice", _ints(0), _ints(1), _ints(1)),
                _view("slice", _ints(1), _ints(_END), _ints(1)),
                _view("cum_sum", _ints(1).reshape(()), exclusive=0, reverse=0),
                _view("cum_sum", _ints(1).reshape(()), exclusive=0, reverse=1),
                _view("tile", _ints(1, 2)), _view("trilu", upper=1), _view("trilu", upper=0),
                _view("reshape", _ints(-1)), *simple(("neg", "relu", "add", "mul")),
            ),
            alike=False,
        ),
        Vocabulary(
            "images",
            {"x": "M N 9 9", "y": "M N 9 9"},
            (
                *(
                    _view(f"{kind}_pool", kernel_shape=(k, k), strides=(s, s), pads=(0, 0, 0, 0))
                    for kind in ("average", "max")
                    for k, s in ((2, 1), (2, 2), (3, 1), (3, 3))
                ),
                _view("global_average_pool"), _view("global_max_pool"),
                _view("pad", _ints(0, 0, 1, 1, 0, 0, 1, 1)),
                _view("transpose", perm=(0, 1, 3, 2)), _joined(0), _joined(1),
                *simple(("neg", "relu", "exp", "add", "max")),
            ),
            alike=False,
        ),
    )
}  # fmt: skip


def of_ops(names: Iterable[str]) -> Vocabulary:
    """Elementwise ops over three variables."""
    return Vocabulary("ops", _MATRICES, simple(names), (0.0, 1.0))
