"""Do two models compute the same? Proved by exact rules, equal over prime fields, or where they first differ.

The second model is read in the words of the first: inputs and outputs by name, or else in their order, and
symbolic sizes by where they stand. What differs is run by ONNX Runtime on the same random inputs.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from tensmith.backend.onnx import write_onnx
from tensmith.engine.base import BASELINE_ENGINE
from tensmith.engine.worker import SessionWorker
from tensmith.equality.apart import Apart, distance
from tensmith.equality.programs import compare_programs
from tensmith.equality.sampling import normal_inputs, picks_alone, roams, symbols
from tensmith.equality.sweep import ALIKE, Swept, swept
from tensmith.errors import ModelError, TensmithError
from tensmith.files import TemporaryFolder
from tensmith.formula.poly import Dim, Poly
from tensmith.ir import Node, Program
from tensmith.ir.ops.softmax import LEFT_OUT, MASKED
from tensmith.ir.part import without_dead
from tensmith.ir.types import TensorType
from tensmith.rewrite.trail import Traced, exhaust, in_phase, simplified, simplify
from tensmith.verify.claims import DRAWN, REALS

Arrays: TypeAlias = Mapping[str, np.ndarray[Any, Any]]
Verdict = Literal["equal", "different", "unknown"]

# What outputs are apart by at most, of the largest, where rounding may be all of it; and how many bytes of
# values are looked at.
_NEAR = 1e-2
_MOST_BYTES = 2 << 30
# Where neither model says how many samples it takes.
_BATCH, _LENGTH = 2, 16


@dataclass(frozen=True)
class ModelDifference:
    """What is known of two models.

    evidence: "proved" by `rules` exact steps; "checked" over prime fields, wrong with at most
    `error_probability`, 1 where no bound is known; "measured" of models that differ. outputs: how far each is
    apart on `inputs`, drawn from `seed` at `sizes`. first: the first value of the first model, in its
    order, that the second computes nowhere though it computes all that it is made of; by its name, operator
    and distance from the next best. assumed: what equality was proved or checked under, a sentence each.
    """

    verdict: Verdict
    evidence: str = ""
    error_probability: float = 0.0
    rules: int = 0
    reason: str = ""
    outputs: Mapping[str, Apart] | None = None
    first: tuple[str, str, Apart | None] | None = None
    inputs: Arrays | None = None
    sizes: Mapping[str, int] | None = None
    seed: int = 0
    assumed: tuple[str, ...] = ()

    @property
    def near(self) -> bool:
        """Whether outputs were measured, and are so near that rounding may be all of it."""
        return self.outputs is not None and all(apart.share < _NEAR for apart in self.outputs.values())


def compare_models(left: Program, right: Program, *, seed: int = 0, seconds: float = 60.0) -> ModelDifference:
    """See the module. seconds: for the test over fields.

    Raises ModelError where the models take or give other things, and what ONNX Runtime raises.
    """
    right, sizes, fixed = aligned(left, right)
    found = _compared(_at(left, sizes), right, seed, seconds)
    return replace(found, assumed=(*fixed, *found.assumed)) if found.verdict == "equal" else found


def _compared(left: Program, right: Program, seed: int, seconds: float) -> ModelDifference:
    """What is known of models that take the same."""
    given = [without_dead(program) for program in (left, right)]
    traces = [simplify(program, fold=False) for program in given]
    ours, theirs = (canonical(traced.program) for traced in traces)
    alike = _same_operators(left, right)
    if alike and ours.digest == theirs.digest:
        steps = sum(len(traced.trail) for traced in traces)
        return ModelDifference("equal", "proved", rules=steps, assumed=REALS)
    deadline = time.monotonic() + seconds
    ways = (_Pair(ours, theirs), _as_floats_are(*given))
    for way in ways if alike else ():
        if (found := _swept(way, seed, deadline - time.monotonic())) is not None:
            return _checked(way, found.error_probability, "", seed)
    measured = _measured(left, right, seed)
    for way in ways if measured.near else ways[:1]:
        left_over = max(1.0, deadline - time.monotonic())
        tested = compare_programs(way.left, way.right, seed=seed, seconds=left_over)
        if tested.equal and tested.error_probability < 1:
            return _checked(way, tested.error_probability, tested.reason, seed)
        if not way.assumed:
            verdict = "different" if "different" in (measured.verdict, tested.verdict) else measured.verdict
            measured = replace(measured, verdict=verdict, reason=tested.reason)
    return measured


def _same_operators(*programs: Program) -> bool:
    """Whether operators that stay as they are mean the same in both: that is a matter of the version."""
    opaque = any(node.opaque is not None for program in programs for node in program.nodes)
    return not opaque or programs[0].origin.opsets == programs[1].origin.opsets


class _Pair(NamedTuple):
    """The two programs, under assumptions."""

    left: Program
    right: Program
    assumed: tuple[str, ...] = ()


def _checked(pair: _Pair, probability: float, reason: str, seed: int) -> ModelDifference:
    """Equal over fields. Of integers that are more than positions, what is not drawn has no bound."""
    whole = [name for name, type_ in pair.left.inputs.items() if not type_.floating]
    bounded = all(picks_alone(program, name) for program in (pair.left, pair.right) for name in whole)
    drawn = whole or any(symbols(pair.left))
    return ModelDifference(
        "equal",
        "checked",
        probability if bounded else 1.0,
        reason=reason,
        seed=seed,
        assumed=(*pair.assumed, *([DRAWN] if drawn else [])),
    )


def _swept(pair: _Pair, seed: int, seconds: float) -> Swept | None:
    """What a sweep finds, guided by what ONNX Runtime computes of random inputs."""
    left, right, _ = pair
    try:
        given, _ = _inputs(left, seed)
        ours, theirs = (values_of(program, given) for program in (left, right))
    except TensmithError:  # what the files compute can be written; parts of it alone perhaps not
        return None
    # Numbers that are alike and come of other constants are guesses that go wrong one after the other.
    wrong = 4 if pair.assumed else 1
    return swept(left, right, ours, theirs, wrong=wrong, seed=seed, seconds=seconds)


# What two exporters write differently, and no float can tell apart.
_ROUNDED = "what is computed of constants alone may be rounded otherwise, by four units in the last place"
_UNITS = 4


def _as_floats_are(*given: Program) -> _Pair:
    """The programs as floats have them, and the assumptions under which that makes no difference."""
    folded = _alike([_folded(program) for program in given], given)
    left, right = (_masked(program) for program in folded)
    masked = left is not folded[0] or right is not folded[1]
    return _Pair(canonical(left), canonical(right), (_ROUNDED, MASKED) if masked else (_ROUNDED,))


def _folded(program: Program) -> Program:
    """What a file computes of constants alone, as the file has it, and then all else made simpler."""
    return simplified(exhaust(Traced(program), in_phase("fold"))).program


def _alike(folded: Sequence[Program], given: Sequence[Program]) -> list[Program]:
    """The programs, in which a constant that was computed is that of the other one, where it is as near."""
    found = list(folded)
    for number, was in enumerate(given):
        mine, other = found[number], found[1 - number]
        theirs: dict[Any, list[np.ndarray[Any, Any]]] = {}
        for array in other.constants.values():
            theirs.setdefault((array.shape, array.dtype), []).append(array)
        computed = [n for n, a in mine.constants.items() if n not in was.constants and a.dtype.kind == "f"]
        near = {name: _nearest(mine.constants[name], theirs) for name in computed}
        found[number] = replace(mine, constants={**mine.constants, **near})
    return found


def _nearest(array: np.ndarray[Any, Any], others: Mapping[Any, Sequence[np.ndarray[Any, Any]]]) -> Any:
    """The first of others that rounding tells from it, or the array itself."""
    with np.errstate(all="ignore"):
        for other in others.get((array.shape, array.dtype), ()):
            if np.all((array == other) | (np.abs(array - other) <= _UNITS * np.spacing(np.abs(array)))):
                return other
    return array


def _masked(program: Program) -> Program:
    """The program, with minus infinity where finite numbers stand for it and nobody else sees them."""
    masks: dict[str, Any] = {}
    for name, array in program.constants.items():
        if array.dtype.kind == "f" and _only_seen(program, name, "add"):
            finite = np.isfinite(array) & (array < LEFT_OUT)
            sums = [node.output for node in program.consumers[name]]
            if finite.any() and all(_only_seen(program, output, "softmax") for output in sums):
                masks[name] = np.where(finite, -np.inf, array).astype(array.dtype)
    return replace(program, constants={**program.constants, **masks}) if masks else program


def _only_seen(program: Program, name: str, op: str) -> bool:
    """Whether operators of a kind read a value, and nobody else."""
    readers = program.consumers.get(name, ())
    return name not in program.outputs and bool(readers) and all(reader.op == op for reader in readers)


# The second model in the words of the first


def aligned(left: Program, right: Program) -> tuple[Program, dict[str, int], tuple[str, ...]]:
    """The second program with the first one's names of inputs, outputs and sizes; sizes that only the first
    leaves open; and sentences about all that only one of them does."""
    inputs = _paired("input", left.inputs, right.inputs)
    outputs = _paired("output", dict.fromkeys(left.outputs), dict.fromkeys(right.outputs))
    names: dict[str, Dim] = {}
    sizes: dict[str, int] = {}
    for mine, theirs in inputs.items():
        _unify(mine, left.inputs[mine], right.inputs[theirs], names, sizes)
    words = {theirs: mine for mine, theirs in (*inputs.items(), *outputs.items())}
    given = {n: d for n, d in names.items() if isinstance(d, int)}
    renamed = _renamed(_at(right, given), words)
    fixed = [(sizes, "second"), (given, "first")]
    told = (f"{n} is {d}, as the {model} model fixes it" for each, model in fixed for n, d in each.items())
    return _at(renamed, {n: d for n, d in names.items() if not isinstance(d, int)}), sizes, tuple(told)


def _paired(kind: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, str]:
    if left.keys() == right.keys():
        return {name: name for name in left}
    if len(left) != len(right):
        lists = " and ".join(", ".join(side) or "none" for side in (left, right))
        raise ModelError(f"the models have other {kind}s ({lists}); they cannot be compared")
    return dict(zip(left, right))


def _unify(
    name: str, left: TensorType, right: TensorType, names: dict[str, Dim], sizes: dict[str, int]
) -> None:
    """Adds what sizes of the second model are in the first one: `names`; and open ones of the first that
    the second fixes: `sizes`."""
    wrong = f"input '{name}' is {left} in the first model and {right} in the second"
    if left.shape is None or right.shape is None:
        raise ModelError(f"{wrong}; give it a shape in both to compare them, open sizes by a name")
    if left.dtype != right.dtype or left.rank != right.rank:
        raise ModelError(f"{wrong}; they cannot be compared")
    for mine, theirs in zip(left.dims, right.dims):
        symbol = next(iter(theirs.symbols()), "") if isinstance(theirs, Poly) else ""
        if symbol and theirs == Poly.symbol(symbol):
            known = names.setdefault(symbol, mine)
            agree = known == mine
        elif isinstance(mine, Poly) and isinstance(theirs, int) and len(mine.symbols()) == 1:
            agree = sizes.setdefault(next(iter(mine.symbols())), theirs) == theirs
        else:
            agree = mine == theirs
        if not agree:
            raise ModelError(f"{wrong}; they cannot be compared")


def _at(program: Program, sizes: Mapping[str, Dim]) -> Program:
    """The program with symbols of sizes replaced."""
    values = {name: size if isinstance(size, Poly) else Poly.of(size) for name, size in sizes.items()}

    def placed(type_: TensorType) -> TensorType:
        dims = [d.substitute(values) if isinstance(d, Poly) else d for d in type_.shape or ()]
        return type_ if type_.shape is None else type_.with_shape(dims)

    if not sizes:
        return program
    inputs = {name: placed(type_) for name, type_ in program.inputs.items()}
    hints = {name: placed(type_) for name, type_ in program.hints.items()}
    return replace(program, inputs=inputs, hints=hints)


def _renamed(program: Program, words: Mapping[str, str]) -> Program:
    """The program with values renamed; others that have these names already get out of the way."""
    names: dict[str, str] = {}
    for name in sorted(program.names):
        names[name] = words.get(name) or (f"{name} of the second" if name in words.values() else name)

    def of(values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names[value] if value else "" for value in values)

    nodes = tuple(replace(node, inputs=of(node.inputs), outputs=of(node.outputs)) for node in program.nodes)
    return Program(
        program.name,
        {names[name]: type_ for name, type_ in program.inputs.items()},
        of(program.outputs),
        nodes,
        {names[name]: array for name, array in program.constants.items()},
        {names.get(name, name): type_ for name, type_ in program.hints.items()},
        program.origin,
    )


def canonical(program: Program) -> Program:
    """The program with names and an order that follow from what it computes, from the outputs backwards."""
    names: dict[str, str] = {name: name for name in program.inputs}
    nodes: list[Node] = []
    constants: dict[str, Any] = {}
    outputs = dict.fromkeys(program.outputs)
    stack = [(name, False) for name in reversed(program.outputs)]
    while stack:
        name, entered = stack.pop()
        if name in names or not name:
            continue
        node = program.producers.get(name)
        if node is None:
            names[name] = name if name in outputs else f"constant {len(constants)}"
            constants[names[name]] = program.constants[name]
        elif entered:
            for output in filter(None, node.outputs):
                names[output] = output if output in outputs else f"value {len(names)}"
            nodes.append(replace(node, name=""))
        else:
            stack.append((name, True))
            stack += [(value, False) for value in reversed(node.inputs)]
    ordered = tuple(
        replace(node, inputs=tuple(names.get(n, "") for n in node.inputs),
                outputs=tuple(names.get(n, "") for n in node.outputs))
        for node in nodes
    )  # fmt: skip
    return Program("model", dict(sorted(program.inputs.items())), program.outputs, ordered, constants)


# What differs


def _inputs(program: Program, seed: int, wide: bool = False) -> tuple[Arrays, dict[str, int]]:
    """Random inputs, and the sizes that they have."""
    batches, lengths = symbols(program)
    sizes = dict.fromkeys(lengths, _LENGTH) | dict.fromkeys(batches, _BATCH)
    return normal_inputs(program, sizes, seed, wide=wide), sizes


def _measured(left: Program, right: Program, seed: int) -> ModelDifference:
    """How far the models are apart on inputs, and where that begins.

    Where they are not, and integers may be any, it is how far they are apart on integers of all their range.
    """
    given, sizes = _inputs(left, seed)
    ours, theirs, outputs = _answers(left, right, given)
    if not any(apart.most for apart in outputs.values()) and any(
        roams((left, right), name) for name in left.inputs
    ):
        with contextlib.suppress(TensmithError):
            wide, _ = _inputs(left, seed, wide=True)
            ours, theirs, outputs = _answers(left, right, wide)
            given = wide
    differs = any(apart.most for apart in outputs.values())
    first = _first(left, right, ours, theirs) if differs else None
    known: Verdict = "different" if differs else "unknown"
    return ModelDifference(known, "measured", 0.0, 0, "", outputs, first, given, sizes, seed)


def _answers(left: Program, right: Program, given: Arrays) -> tuple[Arrays, Arrays, dict[str, Apart]]:
    """The values of both models on inputs, and how far their outputs are apart."""
    ours, theirs = (values_of(program, given) for program in (left, right))
    return ours, theirs, {name: distance(ours[name], theirs[name]) for name in left.outputs}


def values_of(program: Program, inputs: Arrays) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs of a program and as many values inside it as fit in memory."""
    names, left = list(program.outputs), _MOST_BYTES
    for node in program.nodes:
        for name in filter(None, node.outputs):
            type_ = program.facts[name].type
            dims = (type_.shape or ()) if type_ is not None else ()
            left -= 4 * math.prod(dim if isinstance(dim, int) else _LENGTH for dim in dims)
            if type_ is not None and type_.shape is not None and name not in names and left > 0:
                names.append(name)
    opened = replace(program, outputs=tuple(names))
    with TemporaryFolder() as folder:
        path = Path(folder) / "model.onnx"
        try:
            write_onnx(opened, path)
        except TensmithError:  # what only the outputs need is written all the same
            write_onnx(program, path)
        with SessionWorker(BASELINE_ENGINE, path) as worker:
            return worker.run({name: inputs[name] for name in program.inputs})


def _first(
    left: Program, right: Program, ours: Arrays, theirs: Arrays
) -> tuple[str, str, Apart | None] | None:
    """See ModelDifference.first."""
    by_shape: dict[Any, list[np.ndarray[Any, Any]]] = {}
    for array in (*theirs.values(), *right.constants.values()):
        by_shape.setdefault((array.shape, array.dtype.kind), []).append(array)
    for node in without_dead(left).nodes:
        for name in filter(None, node.outputs):
            if name not in ours or name in left.static_values:
                continue
            array = ours[name]
            near = [distance(array, other) for other in by_shape.get((array.shape, array.dtype.kind), ())]
            best = min(near, key=lambda apart: apart.most, default=None)
            if best is None or best.share > ALIKE:
                return name, node.op, best
    worst = [(name, distance(ours[name], theirs[name])) for name in left.outputs]
    name, apart = max(worst, key=lambda item: item[1].share)
    return name, left.producers[name].op if name in left.producers else "", apart
