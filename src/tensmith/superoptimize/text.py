"""A program as Python statements: NumPy's functions, and calls of C kernels where loops are fused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from tensmith.ir import Node, Program
from tensmith.ir.edits import in_order
from tensmith.ir.handlers import Handlers
from tensmith.ir.ops.slicing import python_slice
from tensmith.ir.types import DTYPES
from tensmith.lifting.emit.array_rules import alike, einsum
from tensmith.lifting.emit.expression import ARITHMETIC, ExpressionText, Rule, call
from tensmith.superoptimize.kernels import kernel_text, part_of
from tensmith.superoptimize.numpy_table import FUNCTIONS, RELATIONS
from tensmith.superoptimize.trace import OutsideCall

# Multiply-adds of one product below which a loop of C takes no longer than a call of BLAS.
_SMALL_PRODUCT = 4096
# Elements of a constant that stands in the text of C.
_MOST_PRINTED = 64


@dataclass(frozen=True)
class ProgramText:
    """A function of the program's parameters. kernels: name -> its C, and the part of the program it is."""

    source: str
    kernels: Mapping[str, tuple[str, Program]] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Wanted:
    """What a program is for: parameters in order, results, calls of NumPy between its parts.

    scalar: results that are numbers, not arrays. several: whether they come as a tuple.
    """

    parameters: tuple[str, ...]
    results: tuple[str, ...]
    scalar: tuple[bool, ...]
    calls: tuple[OutsideCall, ...]
    several: bool


def numpy_text(program: Program, wanted: Wanted) -> ProgramText:
    """Every op by NumPy."""
    return _Text(program, wanted, {}).written()


def fused_text(program: Program, wanted: Wanted) -> ProgramText:
    """Loops in C, large matrix products by NumPy."""
    return _Text(program, wanted, _stages(program, wanted)).written()


def looped_text(program: Program, wanted: Wanted) -> ProgramText:
    """All loops in C, those of matrix products too."""
    return _Text(program, wanted, _stages(program, wanted, by_blas=False)).written()


# What is computed where


def _stages(program: Program, wanted: Wanted, by_blas: bool = True) -> dict[str, int]:
    """Value -> the kernel that computes it, counted in order; what is not here NumPy computes.

    A kernel may read what NumPy makes of earlier kernels. A value goes into the last one that is early enough
    for all its readers.
    """
    calls = {call.result: call for call in wanted.calls}
    ready = dict.fromkeys((*program.inputs, *program.constants, ""), 0)
    stage: dict[str, int] = {}
    outside = [Node("call", call.operands, (call.result,)) for call in wanted.calls]
    for node in in_order((*program.nodes, *outside), set()):
        name = node.output
        if name in calls:
            ready[name] = 1 + max((ready[operand] for operand in node.inputs), default=0)
            continue
        ready[name] = max(ready[each] for each in node.inputs)
        product = _writing(node).product
        if product is not None and (node.inputs[0] in calls or (by_blas and product(program, node))):
            ready[name] += 1
        else:
            stage[name] = ready[name]
    asked = {name for call in wanted.calls for name in call.operands} | set(wanted.results)
    for node in reversed(program.nodes):
        readers = [reader.output for reader in program.consumers.get(node.output, ())]
        if node.output not in stage or not readers or node.output in asked:
            continue
        if all(reader in stage for reader in readers):
            stage[node.output] = min(stage[reader] for reader in readers)
        elif _writing(node).view and not any(reader in stage for reader in readers):
            del stage[node.output]
    return stage


class _Text:
    """Statements under construction; `stages` as above."""

    def __init__(self, program: Program, wanted: Wanted, stages: Mapping[str, int]) -> None:
        self.program, self.wanted, self.stages = program, wanted, stages
        self.calls = {call.result: call for call in wanted.calls}
        self.names = {name: f"a{place}" for place, name in enumerate(wanted.parameters)}
        self.head = f"def optimized({', '.join(self.names.values())}):"
        self.lines: list[str] = []
        self.kernels: dict[str, tuple[str, Program]] = {}
        self.constants: dict[str, Any] = {}
        self.solved: set[str] = set()  # inverses that are not computed

    def written(self) -> ProgramText:
        """The whole function. A call whose result nobody reads may raise, and is made."""
        results = list(map(self._result, self.wanted.results, self.wanted.scalar))
        for name in self.calls:
            if name not in self.solved:
                self.value(name)
        returned = f"({', '.join(results)},)" if self.wanted.several else results[0]
        source = "\n    ".join([self.head, *self.lines, f"return {returned}"]) + "\n"
        return ProgramText(source, self.kernels, self.constants)

    def _result(self, name: str, scalar: bool) -> str:
        """A result as the original gives it: a number of NumPy's, or an array that is nobody else's."""
        text, node = self.value(name), self.program.producers.get(name)
        if name in self.stages:
            return f"{text}[()]" if scalar else text
        if scalar:
            return f"{self.dtype(name)}({text})"
        return text if node is not None and not shares_memory(node) else f"np.array({text})"

    def value(self, name: str) -> str:
        """The name of a value, which is computed before it is named."""
        if name not in self.names and name in self.stages:
            self._kernel(self.stages[name])
        elif name not in self.names:
            text = self._text(name)
            self.names[name] = f"v{len(self.names)}"
            self.lines.append(f"{self.names[name]} = {text}")
        return self.names[name]

    def values(self, node: Node) -> list[str]:
        """The operands of a node."""
        return [self.value(name) for name in node.inputs if name]

    def known(self, name: str) -> list[int]:
        """Sizes or axes."""
        value = self.program.facts[name].value
        assert value is not None, "a traced program knows its sizes"
        return [int(item) for item in value.reshape(-1)]

    def shape(self, name: str) -> tuple[int, ...]:
        """The sizes of a value."""
        found = self.program.type(name).static
        assert found is not None, "a traced program has fixed sizes"
        return found

    def dtype(self, name: str) -> str:
        """The element type of a value: np.float64."""
        return f"np.{DTYPES[self.program.type(name).dtype].type.__name__}"

    def _text(self, name: str) -> str:
        if name in self.program.constants:
            self.constants[f"k{len(self.constants)}"] = self.program.constants[name]
            return f"k{len(self.constants) - 1}"
        if name in self.calls:
            call = self.calls[name]
            return f"{call.function}({', '.join(map(self.value, call.operands))}{call.arguments})"
        node = self.program.producers[name]
        return _writing(node).text(self, node)

    def _kernel(self, stage: int) -> None:
        """One C function for all values of a stage that others read."""
        nodes = [node for node in self.program.nodes if self.stages.get(node.output) == stage]
        inside = {node.output for node in nodes}
        outputs = [node.output for node in nodes if self._read_outside(node.output, inside)]
        read = dict.fromkeys(name for node in nodes for name in node.inputs if name)
        inputs = [name for name in read if name not in inside and not self._printed(name)]
        given = list(map(self.value, inputs))
        part, name = part_of(self.program, inputs, outputs), f"kernel{stage}"
        self.kernels[name] = (kernel_text(part, name), part)
        for output in outputs:
            self.names[output] = f"v{len(self.names)}"
        self.lines.append(f"{', '.join(self.names[each] for each in outputs)} = {name}({', '.join(given)})")

    def _read_outside(self, name: str, inside: set[str]) -> bool:
        readers = self.program.consumers.get(name, ())
        return name in self.program.outputs or any(reader.output not in inside for reader in readers)

    def _printed(self, name: str) -> bool:
        """Whether a value is a constant that stands in the text of C."""
        constant = self.program.constants.get(name)
        return constant is not None and (constant.size <= _MOST_PRINTED or constant.dtype.kind == "i")


# What each op is in NumPy


OpText: TypeAlias = Callable[[_Text, Node], str]


@dataclass(frozen=True)
class Writing:
    """An op in NumPy's words; view: it shares its operand's memory; turns: whether a node of it does.
    product: whether BLAS does it best."""

    text: OpText
    view: bool = False
    product: Callable[[Program, Node], bool] | None = None
    turns: Callable[[Node], bool] | None = None


WRITINGS = Handlers[Writing]()


def _writing(node: Node) -> Writing:
    found = WRITINGS.find(node)
    assert found is not None, f"there is no text for {node.label}"
    return found


def written(program: Program) -> bool:
    """Whether every op of a program is one that NumPy and C are written for."""
    return all(WRITINGS.find(node) is not None for node in program.nodes)


def shares_memory(node: Node) -> bool:
    """Whether what an op gives is a view of its operand."""
    found = _writing(node)
    return found.view or (found.turns is not None and found.turns(node))


def _formatted(pattern: str) -> OpText:
    return lambda w, node: pattern.format(*w.values(node))


def _spelled(rule: Rule) -> OpText:
    return lambda w, node: rule(w, node, list(map(ExpressionText, w.values(node)))).code


def _reduction(pattern: str, w: _Text, node: Node) -> str:
    kept = ", keepdims=True" if node.attrs["keepdims"] else ""
    axes = f", axis={tuple(w.known(node.inputs[1]))}" if node.operand(1) else ""
    return pattern.format(w.value(node.inputs[0]), axes + kept)


# As lifting spells them, or by the function that they are traced from.
_SPELLED = {**ARITHMETIC, **alike("np")}
for _function, _name in (FUNCTIONS | RELATIONS).items():
    WRITINGS(_name)(Writing(_spelled(_SPELLED.get(_name) or call(f"np.{_function.__name__}"))))
for _name in ("and", "or", "xor", "not", "pow", "where"):
    WRITINGS(_name)(Writing(_spelled(_SPELLED[_name])))
for _name, _pattern in {
    "div": "{0} / {1}", "reciprocal": "1 / {0}", "relu": "np.maximum({0}, 0)",
    "sigmoid": "1 / (1 + np.exp(-{0}))",
}.items():  # fmt: skip
    WRITINGS(_name)(Writing(_formatted(_pattern)))
for _name, _pattern in {
    "reduce_sum": "np.sum({0}{1})", "reduce_mean": "np.mean({0}{1})", "reduce_prod": "np.prod({0}{1})",
    "reduce_max": "np.max({0}{1})", "reduce_min": "np.min({0}{1})", "reduce_l1": "np.sum(np.abs({0}){1})",
    "reduce_sum_square": "np.sum(np.square({0}){1})", "reduce_l2": "np.sqrt(np.sum(np.square({0}){1}))",
    "reduce_log_sum": "np.log(np.sum({0}{1}))",
}.items():  # fmt: skip
    WRITINGS(_name)(Writing(partial(_reduction, _pattern)))
WRITINGS("identity")(Writing(_formatted("{0}"), view=True))


def _writes(*ops: str, view: bool = False) -> Callable[[OpText], OpText]:
    def register(text: OpText) -> OpText:
        WRITINGS(*ops)(Writing(text, view))
        return text

    return register


@_writes("cast")
def _cast(w: _Text, node: Node) -> str:
    return f"{w.dtype(node.output)}({w.value(node.inputs[0])})"


@_writes("reshape", "squeeze", "unsqueeze", "flatten", view=True)
def _reshape(w: _Text, node: Node) -> str:
    return f"np.reshape({w.value(node.inputs[0])}, {w.shape(node.output)})"


@_writes("expand", view=True)
def _expand(w: _Text, node: Node) -> str:
    return f"np.broadcast_to({w.value(node.inputs[0])}, {w.shape(node.output)})"


@_writes("transpose", view=True)
def _transpose(w: _Text, node: Node) -> str:
    perm = node.attrs["perm"]
    return f"np.transpose({w.value(node.inputs[0])}{'' if perm is None else f', {tuple(perm)}'})"


@_writes("slice", view=True)
def _slice(w: _Text, node: Node) -> str:
    shape = w.shape(node.inputs[0])
    starts, stops, *more = (w.known(name) for name in node.inputs[1:] if name)
    axes = more[0] if more else list(range(len(starts)))
    steps = more[1] if len(more) > 1 else [1] * len(starts)
    parts = [":"] * len(shape)
    for start, stop, axis, step in zip(starts, stops, axes, steps):
        cut = python_slice(shape[axis], start, stop, step)
        last = "" if cut.stop is None else str(min(stop, shape[axis]))
        parts[axis] = f"{cut.start}:{last}:{step}"
    return f"{w.value(node.inputs[0])}[{', '.join(parts)}]"


@_writes("concat")
def _concat(w: _Text, node: Node) -> str:
    return f"np.concatenate(({', '.join(w.values(node))},), {node.attrs['axis']})"


@_writes("gather")
def _gather(w: _Text, node: Node) -> str:
    return f"np.take({', '.join(w.values(node))}, {node.attrs['axis']})"


@_writes("cum_sum", "cum_prod")
def _cumulated(w: _Text, node: Node) -> str:
    return f"np.{node.op.replace('_', '')}({w.value(node.inputs[0])}, {w.known(node.inputs[1])[0]})"


def _matmul(w: _Text, node: Node) -> str:
    """inv(a) @ b is solve(a, b), which takes fewer operations, where nobody else reads inv(a)."""
    left, right = node.inputs
    call = w.calls.get(left)
    plain = (len(w.shape(left)), len(w.shape(right))) in ((2, 1), (2, 2)) and left not in w.names
    alone = call is not None and call.function == "np.linalg.inv" and w.program.uses(left) == 1
    if call is not None and alone and plain:
        w.solved.add(left)
        return f"np.linalg.solve({w.value(call.operands[0])}, {w.value(right)})"
    return f"{w.value(left)} @ {w.value(right)}"


def _large(program: Program, node: Node) -> bool:
    """Whether a product of matrices is not small."""
    left, right = ((1, *(program.type(name).static or ())) for name in node.inputs)
    columns = right[-1] if len(right) > 2 else 1
    return left[-2] * left[-1] * columns > _SMALL_PRODUCT


def _contracts(program: Program, node: Node) -> bool:
    """Whether an Einstein sum is of matrix products: each operand has an axis of the result for itself."""
    left, _, result = node.attrs["equation"].partition("->")
    terms = left.split(",")
    others = [set("".join(term for term in terms if term is not own)) for own in terms]
    own = [set(term) - other for term, other in zip(terms, others)]
    return len(terms) > 1 and all(letters & set(result) for letters in own)


def _sums_nothing(node: Node) -> bool:
    """Whether an Einstein sum is of one operand, none of whose axes goes."""
    left, _, result = node.attrs["equation"].partition("->")
    return "," not in left and set(left) <= set(result)


WRITINGS("matmul")(Writing(_matmul, product=_large))
_einsum = _spelled(einsum("np.einsum", ", optimize=True"))
WRITINGS("einsum")(Writing(_einsum, product=_contracts, turns=_sums_nothing))
