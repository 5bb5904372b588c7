"""What a summary says on given inputs, element by element, and whether a run agrees at every step.

The meaning of closed forms in executable form, for tests: mathematical integers, floats in
double. `check` runs the function in the loop interpreter and compares every loop's facts at the start of each
iteration and at its end, and the results at the end of the function.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from lifting.loops_interpreter import Machine, Memory, copied
from tensmith.formula.expr import Call, Choose, Num, Read, Reduce, Size
from tensmith.formula.functions import ELEMENTARY, JOINS
from tensmith.formula.poly import Poly
from tensmith.formula.types import F64, MachineType
from tensmith.lifting.loops import Array, Loop, Statement, Struct
from tensmith.lifting.summary import Summary, Term, Written


def widened(node: Any) -> Any:
    """A function with every float a double, so that both sides compute alike."""
    if isinstance(node, MachineType):
        return F64 if node.kind == "float" else node
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        changed = {f.name: widened(getattr(node, f.name)) for f in dataclasses.fields(node)}
        return type(node)(**changed)
    return tuple(map(widened, node)) if isinstance(node, tuple) else node


class Unmet(Exception):
    """The inputs do not meet a requirement of the summary."""


class Mismatch(AssertionError):
    """The summary and the run disagree."""


# Terms


def _divided(a: float, b: float) -> float:
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)
    return a / b


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _guarded(function: Any) -> Any:
    def call(*values: float) -> float:
        try:
            return float(function(*values))
        except OverflowError:
            return math.inf
        except ValueError:
            return -math.inf if function is math.log and values[0] == 0 else math.nan

    return call


OPERATORS: dict[str, Any] = {
    "inf": lambda: math.inf,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "abs": abs,
    "minimum": lambda a, b: min(a, b),
    "maximum": lambda a, b: max(a, b),
    "pow": lambda a, b: a**b,
    "div": _truncated,
    "fmod": lambda a, b: a - b * _truncated(a, b),
    "floor_div": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "not": lambda a: not a,
    "left_shift": lambda a, b: a << b,
    "right_shift": lambda a, b: a >> b,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "bitwise_not": lambda a: ~a,
    "round": round,
    "floor": math.floor,
    "ceil": math.ceil,
    **{name: _guarded(getattr(math, name)) for name in ELEMENTARY},
}


class Meaning:
    """A summary at given inputs, as a `Machine` holds them at the function's entry."""

    def __init__(self, summary: Summary, machine: Machine) -> None:
        self.summary = summary
        self.scalars = dict(machine.scalars)
        self.arrays = {
            name: dataclasses.replace(m, data=copied(m.data)) for name, m in machine.arrays.items()
        }
        self.symbols = {name: value for name, value in self.scalars.items() if isinstance(value, int)}
        for name, memory in self.arrays.items():
            for axis in range(memory.type.rank):
                self.symbols[f"len({name}, {axis})"] = _length(memory, axis)
        self.given = dict(self.symbols)
        for size in summary.sizes:
            self.symbols[size.symbol] = max(0, size.poly.evaluate(self.given))

    def value(self, term: Term, symbols: Mapping[str, int]) -> Any:
        """The number a term stands for."""
        match term:
            case Num(value, type_):
                return (
                    bool(value)
                    if type_.kind == "bool"
                    else int(value)
                    if type_.kind == "int"
                    else float(value)
                )
            case Size(poly, _):
                return poly.evaluate(symbols)
            case Read(name, (), type_):
                found = self.scalars[name]
                return float(found) if type_.kind == "float" else found
            case Read(array, indices, _):
                return self.element(array, [index.evaluate(symbols) for index in indices], symbols)
            case Call("element", (Read(array), *subscripts), _):
                return self.element(array, [int(self.value(each, symbols)) for each in subscripts], symbols)
            case Call("where", (condition, a, b), _):
                return self.value(a if self.value(condition, symbols) else b, symbols)
            case Call("cast", (inner,), type_):
                return cast(self.value(inner, symbols), type_)
            case Call("div", (a, b), type_) if type_.kind == "float":
                return _divided(self.value(a, symbols), self.value(b, symbols))
            case Call(operator, arguments, _):
                return OPERATORS[operator](*(self.value(argument, symbols) for argument in arguments))
            case Reduce(kind, var, extent, body, start=start):
                found = self.value(start, symbols)
                for step in range(extent.evaluate(symbols)):
                    found = OPERATORS[JOINS[kind]](found, self.value(body, {**symbols, var: step}))
                return found
            case Choose(conditions, then, otherwise, _):
                chosen = all(poly.evaluate(symbols) >= 0 for poly in conditions)
                return self.value(then if chosen else otherwise, symbols)

    def element(self, array: str, at: Sequence[int], symbols: Mapping[str, int]) -> Any:
        """An element at the function's entry."""
        row, place = locate(self.arrays[array].data, self.steps(array, symbols), at)
        value = row[place]
        return value if isinstance(value, (bool, int)) else float(value)

    def steps(self, array: str, symbols: Mapping[str, int]) -> list[int] | None:
        """Strides of flat memory; None for nested."""
        memory = self.arrays.get(array)
        if memory is None or memory.type.memory == "nested":
            return None
        strides = self.summary.grids[array].strides or (Poly.of(1),)
        return [stride.evaluate(symbols) for stride in strides]

    def write(
        self, data: list[Any], steps: list[int] | None, parts: Sequence[Written], symbols: Mapping[str, int]
    ) -> None:
        """Put what was written into an array's data, growing local lists as they need."""
        for part in parts:
            self._box(part, list(zip(part.indices, part.extents)), dict(symbols), data, steps)

    def _box(
        self,
        part: Written,
        ranges: list[tuple[str, Poly]],
        symbols: dict[str, int],
        data: list[Any],
        steps: Any,
    ) -> None:
        if ranges:
            (name, extent), *rest = ranges
            for step in range(extent.evaluate(symbols)):
                self._box(part, rest, {**symbols, name: step}, data, steps)
        elif all(poly.evaluate(symbols) >= 0 for poly in part.where):
            at = [poly.evaluate(symbols) for poly in part.at]
            row, place = locate(data, steps, at, grow=steps is None)
            row[place] = self.value(part.value, symbols)


def locate(data: Any, steps: list[int] | None, at: Sequence[int], grow: bool = False) -> tuple[Any, int]:
    if steps is not None:
        place = sum(step * index for step, index in zip(steps, at, strict=True))
        if not 0 <= place < len(data):
            raise Mismatch(f"the summary touches {list(at)}, outside the array")
        return data, place
    for depth, index in enumerate(at):
        while grow and index >= len(data):
            data.append([] if depth + 1 < len(at) else None)
        if not 0 <= index < len(data):
            raise Mismatch(f"the summary touches {list(at)}, outside the array")
        if depth + 1 < len(at):
            data = data[index]
    return data, at[-1]


def cast(value: Any, type_: MachineType) -> Any:
    """A conversion as the loop language has it."""
    if type_.kind == "float":
        return float(value)
    if type_.kind == "bool":
        return value != 0
    whole = int(value)
    if type_.bits is None:
        return whole
    wrapped = whole % (1 << type_.bits)
    return wrapped - (1 << type_.bits) if type_.signed and wrapped >> (type_.bits - 1) else wrapped


def _length(memory: Memory, axis: int) -> int:
    if memory.extents is not None:
        return memory.extents[axis] if axis else len(memory.data) // max(1, math.prod(memory.extents[1:]))
    rows: Any = memory.data
    for _ in range(axis):
        if not rows:
            return memory.shape[axis] if len(memory.shape) > axis else 0
        rows = rows[0]
    return len(rows)


def same(a: Any, b: Any) -> bool:
    """Equal, floats up to the rounding of another order of additions."""
    if isinstance(a, list) or isinstance(b, list):
        return isinstance(a, list) and isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    if a is None or b is None:
        return a is b
    if isinstance(a, int) and isinstance(b, int):
        return int(a) == int(b)
    a, b = float(a), float(b)
    return (math.isnan(a) and math.isnan(b)) or a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)


# Runs


class Checked(Machine):
    """An interpreter that holds every loop against its facts."""

    def __init__(self, summary: Summary, limit: int = 100_000) -> None:
        super().__init__(summary.function, limit)
        self.summary = summary
        self.loops = {facts.label: facts for facts in summary.loops}
        self.meaning: Meaning | None = None
        self.counters: dict[str, int] = {}

    def run(self, statement: Statement) -> Any:
        if not isinstance(statement, Loop):
            return super().run(statement)
        facts = self.loops[statement.label]
        before = {name: copied(self.arrays[name].data) for name in facts.arrays}
        self.counters[facts.counter] = 0
        while True:
            self.check(statement, before)
            if not self.truth(statement.condition):
                break
            self.left -= 1
            assert self.left >= 0, "endless"
            self.block(statement.body)
            self.counters[facts.counter] += 1
        assert self.meaning is not None
        symbols = {**self.meaning.symbols, **self.counters}
        if self.counters[facts.counter] != max(0, facts.trips.evaluate(symbols)):
            raise Mismatch(f"{facts.label} runs {self.counters[facts.counter]} times, not {facts.trips}")
        del self.counters[facts.counter]
        return None

    def check(self, loop: Loop, before: Mapping[str, list[Any]]) -> None:
        assert self.meaning is not None
        facts = self.loops[loop.label]
        symbols = {**self.meaning.symbols, **self.counters}
        for name, term in facts.scalars.items():
            held = (
                _length(self.arrays[name[4:].rsplit(",", 1)[0]], int(name[:-1].rsplit(" ", 1)[1]))
                if name.startswith("len(")
                else self.scalars[name]
            )
            if name.startswith("len(") and not self.arrays[name[4:].rsplit(",", 1)[0]].data:
                continue
            claimed = self.meaning.value(term, symbols)
            if held is not None and not same(held, claimed):
                raise Mismatch(f"{loop.label} #{self.counters}: {name} is {held}, not {claimed}")
        for name, parts in facts.arrays.items():
            data = shaped(self.arrays[name].data, before[name])
            steps = self.meaning.steps(name, symbols)
            if name not in self.meaning.arrays and self.arrays[name].extents is not None:
                extents = self.arrays[name].extents or ()
                steps = [math.prod(extents[axis + 1 :]) for axis in range(len(extents))]
            self.meaning.write(data, steps, parts, symbols)
            if not same(data, self.arrays[name].data):
                raise Mismatch(
                    f"{loop.label} #{self.counters}: {name} is {self.arrays[name].data}, not {data}"
                )


def shaped(data: Any, before: Any) -> Any:
    """What an array held before, in the shape it has now (lengths are facts of their own)."""
    if not isinstance(data, list):
        return None if isinstance(before, list) else before
    old = before if isinstance(before, list) else []
    return [shaped(part, old[n] if n < len(old) else None) for n, part in enumerate(data)]


def check(summary: Summary, arguments: Sequence[Any]) -> None:
    """Raise Mismatch where a run on the arguments disagrees with the summary, Unmet where it says nothing."""
    machine = Checked(summary)
    function = summary.function
    for parameter, argument in zip(function.parameters, arguments, strict=True):
        if isinstance(parameter.type, Struct):
            for name, kind in parameter.type.fields:
                machine.bind(f"{parameter.name}.{name}", kind, argument[name])
        else:
            machine.bind(parameter.name, parameter.type, argument)
    machine.meaning = meaning = Meaning(summary, machine)
    if not meets(meaning):
        raise Unmet
    value = machine.block(function.body)
    results = {result.name: result for result in summary.results}
    for name in machine.entry:
        data = copied(meaning.arrays[name].data)
        if name in results:
            meaning.write(data, meaning.steps(name, meaning.symbols), results[name].written, meaning.symbols)
        if not same(data, machine.arrays[name].data):
            raise Mismatch(f"{name} ends as {machine.arrays[name].data}, not {data}")
    if "return" in results:
        compare_return(meaning, results["return"], value)
    elif function.returns is not None:
        raise Mismatch("the returned value is no result")


def compare_return(meaning: Meaning, result: Any, value: Any) -> None:
    if result.shape is None:
        claimed = meaning.value(result.written[0].value, meaning.symbols)
        if not same(value, claimed):
            raise Mismatch(f"returns {value}, not {claimed}")
        return
    shape = [extent.evaluate(meaning.symbols) for extent in result.shape]
    data = _empty(shape)
    meaning.write(data, None, result.written, meaning.symbols)
    if not same(data, value) and (shape[0] or value):
        raise Mismatch(f"returns {value}, not {data}")


def _empty(shape: Sequence[int]) -> Any:
    return [_empty(shape[1:]) for _ in range(max(0, shape[0]))] if shape else None


def meets(meaning: Meaning) -> bool:
    """Whether the inputs meet the requirements that numbers decide."""
    for requirement in meaning.summary.requires:
        poly = requirement.poly
        if (
            requirement.kind == "nonzero"
            and requirement.array
            and _holds_zero(meaning.arrays[requirement.array].data)
        ):
            return False
        if poly is None:
            continue
        value = poly.evaluate(meaning.given)
        memory = meaning.arrays.get(requirement.array)
        match requirement.kind:
            case "at_least":
                met = value >= 0
            case "equal":
                met = value == 0
            case "nonzero":
                met = value != 0
            case "length" if memory is not None:
                nested = memory.extents is None
                met = value <= (_length(memory, requirement.axis) if nested else len(memory.data))
                met = met or (requirement.axis > 0 and not memory.data)
            case _:
                met = True
        if not met:
            return False
    return True


def _holds_zero(data: Any) -> bool:
    return any(map(_holds_zero, data)) if isinstance(data, list) else data == 0


# Inputs


def arguments(summary: Summary, chance: random.Random) -> list[Any]:
    """Random inputs that are likely to meet the requirements."""
    function = summary.function
    scalars: dict[str, Any] = {}
    for name, type_ in function.fields:
        if isinstance(type_, MachineType):
            scalars[name] = _scalar(type_, chance)
    symbols = {name: value for name, value in scalars.items() if isinstance(value, int)}
    lengths = {
        f"len({n}, {a})": chance.choice((0, 1, 2, 3, 5))
        for n, t in function.fields
        if isinstance(t, Array)
        for a in range(t.rank)
    }
    values = {**symbols, **lengths}
    arrays = {n: _array(summary, n, t, values, chance) for n, t in function.fields if isinstance(t, Array)}
    found: list[Any] = []
    for parameter in function.parameters:
        if isinstance(parameter.type, Struct):
            names = [name for name, _ in parameter.type.fields]
            found.append({n: {**scalars, **arrays}[f"{parameter.name}.{n}"] for n in names})
        else:
            found.append({**scalars, **arrays}[parameter.name])
    return found


def _scalar(type_: MachineType, chance: random.Random) -> Any:
    if type_.kind == "float":
        return chance.choice((0.5, 1.0, -2.0, 3.25, chance.uniform(-4, 4)))
    if type_.kind == "bool":
        return chance.random() < 0.5
    return chance.choice((0, 1, 2, 3, 5, 4, -1 if type_.signed else 6))


def _array(summary: Summary, name: str, type_: Array, values: dict[str, int], chance: random.Random) -> Any:
    needed = [0] * type_.rank
    for requirement in summary.requires:
        if requirement.kind == "length" and requirement.array == name and requirement.poly is not None:
            needed[requirement.axis] = max(needed[requirement.axis], requirement.poly.evaluate(values))
    if type_.memory == "flat":
        return [_element(type_.element, chance) for _ in range(needed[0] + chance.choice((0, 0, 2)))]
    shape = [max(need, values[f"len({name}, {axis})"]) for axis, need in enumerate(needed)]
    return _filled(shape, type_.element, chance)


def _filled(shape: Sequence[int], element: MachineType, chance: random.Random) -> Any:
    if not shape:
        return _element(element, chance)
    return [_filled(shape[1:], element, chance) for _ in range(shape[0])]


def _element(element: MachineType, chance: random.Random) -> Any:
    if element.kind == "float":
        return round(chance.uniform(-3, 3), 2)
    if element.kind == "bool":
        return chance.random() < 0.5
    if element.bits == 8:
        return chance.randrange(256) if not element.signed else chance.randrange(-128, 128)
    return chance.randrange(-9, 10) if element.signed else chance.randrange(40)
