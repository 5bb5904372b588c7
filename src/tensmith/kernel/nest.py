"""A loop nest, said once: printed as C; tests read it back as the formula that it computes.

    step = SumOver(axis, steps)        a loop whose steps add to the sums
         | ForEach(axes, steps)        unrolled loops: each value of the axes has sums of its own
         | Based(operand)              a pointer to where the loops so far have come
         | Registers(fetched)          registers are filled, an element or a vector each
         | MultiplyAdd(left, right)    sums += left * right, by an instruction
         | Prefetch(operand), Verbatim(text)    what helps the processor or the compiler

Subscripts are polynomials in the axes. What they hold of axes that no loop runs over are lanes of vectors,
and the few neighbours that one instruction multiplies and sums. Sizes may be symbols where a nest is only
read: what is proved of it then holds for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from tensmith.formula.poly import Dim, Poly

# Axes of no loop: the neighbours that one instruction multiplies and sums, the lanes of the sums.
TOGETHER, LANE = "e", "lane"


class Ragged(NamedTuple):
    """Where a loop ends sooner: in round `full` of the loop over `outer` it has `rest` rounds."""

    outer: str
    full: Dim
    rest: Dim


@dataclass(frozen=True)
class Axis:
    """var = first .. extent - 1, as often unrolled as the macro `unroll` says. Printed extents are numbers.

    An axis that `joins` others runs over all of their values, the last one innermost.
    """

    var: str
    extent: Dim
    unroll: str = ""
    ragged: Ragged | None = None
    joins: tuple[Axis, ...] = ()
    first: int = 0

    @property
    def poly(self) -> Poly:
        """The variable."""
        return Poly.symbol(self.var)

    def loop(self, moves: str = "", limit: Dim | None = None) -> str:
        """The head of the C loop."""
        rounds = str(self.extent if limit is None else limit)
        if limit is None and self.ragged and self.ragged.rest != 0:
            outer, full, rest = self.ragged
            rounds = f"({outer} < {full} ? {rounds} : {rest})" if full else str(rest)
        unroll = f"{self.unroll} " if self.unroll else ""
        return f"{unroll}for (int {self.var} = {self.first}; {self.var} < {rounds}; {self.var}++{moves})"


def apart(var: str, extent: int) -> Axis:
    """An axis that is unrolled altogether."""
    return Axis(var, extent, "UNROLL")


@dataclass(frozen=True)
class Operand:
    """`name`[index]: a tensor in memory at a C pointer to `unit` elements; strides are in elements."""

    name: str
    index: tuple[Poly, ...]
    strides: tuple[int, ...] = ()
    c_type: str = "float"
    unit: int = 1

    def step(self, axis: str) -> int:
        """How far apart neighbours along an axis lie."""
        factors = [poly.coefficient(axis) or Poly.of(0) for poly in self.index]
        return sum((f.constant or 0) * stride for f, stride in zip(factors, self.strides)) // self.unit

    def offset(self, axes: Sequence[str]) -> str:
        """C of the part of the address that these axes make, in the order of the subscripts."""
        found = dict.fromkeys(axis for poly in self.index for axis in axes if axis in poly.symbols())
        terms = (f"{axis} * {step}" if step != 1 else axis for axis in found if (step := self.step(axis)))
        return " + ".join(terms) or "0"


@dataclass(frozen=True)
class Fetched:
    """An element or a vector of an operand; `text` is the C of it, of a pointer {0} and an offset {1}."""

    operand: Operand
    text: str = "{0}[{1}]"


@dataclass(frozen=True)
class Registers:
    """`name`[axes]: what is fetched for each value of the axes, in registers of a C type.

    The last round of the last axis has a `last` text of its own; the axis `lane` picks one of a vector.
    """

    c_type: str
    name: str
    axes: tuple[Axis, ...]
    fetched: Fetched
    last: str = ""
    lane: str = ""


@dataclass(frozen=True)
class MultiplyAdd:
    """a[axes] += sum(e < together; left * right): `text`, of the sums {0}, left {1} and right {2}.

    The last round of the last axis, which its loop runs over, may have a `last` text of its own.
    """

    axes: tuple[Axis, ...]
    left: Fetched | Registers
    right: Fetched | Registers
    text: str = "{0} += {1} * {2}"
    together: int = 1
    last: str = ""


@dataclass(frozen=True)
class Based:
    """A pointer `name` to where the loops so far have come in an operand, which is read from there then."""

    name: str
    operand: Operand


@dataclass(frozen=True)
class Prefetch:
    """What lies so many elements `further` is asked for, for each value of the axes."""

    axes: tuple[Axis, ...]
    operand: Operand
    further: int


@dataclass(frozen=True)
class Verbatim:
    """A line of C."""

    text: str


@dataclass(frozen=True)
class ForEach:
    """Steps for each value of `axes`."""

    axes: tuple[Axis, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class SumOver:
    """Steps in every round of an axis; the pointers of what it `moves` go along.

    Where it is `peeled`, it is printed several times, each with other limits of some axes.
    """

    axis: Axis
    steps: tuple[Step, ...]
    moves: tuple[Operand, ...] = ()
    peeled: tuple[Mapping[str, Dim], ...] = ({},)


Step: TypeAlias = SumOver | ForEach | Based | Registers | MultiplyAdd | Prefetch | Verbatim


@dataclass(frozen=True)
class _Scope:
    """Which loops are open, their limits, and of operands: the pointer, and the axes that it has followed."""

    pad: str
    open: tuple[str, ...] = ()
    pointers: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    limits: Mapping[str, Dim] = field(default_factory=dict)

    def inside(self, axes: Sequence[Axis]) -> _Scope:
        """The scope of the loops' steps."""
        return replace(self, pad=self.pad + "    ", open=(*self.open, *(axis.var for axis in axes)))

    def pointing(self, operand: Operand, name: str) -> _Scope:
        """The scope after a pointer went to where the loops have come."""
        return replace(self, pointers={**self.pointers, operand.name: (name, self.open)})

    def place(self, operand: Operand) -> tuple[str, str]:
        """(pointer, offset) of an operand."""
        name, followed = self.pointers.get(operand.name, (operand.name, ()))
        return name, operand.offset([axis for axis in self.open if axis not in followed])

    def value(self, value: Fetched | Registers) -> str:
        """The C of a value."""
        if isinstance(value, Fetched):
            return value.text.format(*self.place(value.operand))
        return _element(value.name, value.axes) + (f"[{value.lane}]" if value.lane else "")


def printed(step: Step, indent: int) -> str:
    """The C of a nest, to stand in a function where its operands are pointers and the sums are a[axes]."""
    return "\n".join(_lines((step,), _Scope(" " * indent)))


def _lines(steps: Sequence[Step], scope: _Scope) -> list[str]:
    found: list[str] = []
    for step in steps:
        match step:
            case SumOver():
                for limits in step.peeled:
                    found += _loop(step, replace(scope, limits={**scope.limits, **limits}))
                continue
            case ForEach():
                for head, inner in _rounds(step):
                    body = _lines(inner, scope.inside(step.axes))
                    one = len(body) == 1
                    found += [f"{scope.pad}{head} {body[0].strip() if one else '{'}"]
                    found += [] if one else [*body, scope.pad + "}"]
                continue
            case Based(name, operand):
                pointer, offset = scope.place(operand)
                text = f"const {operand.c_type} *{name} = {pointer} + {offset};"
                scope = scope.pointing(operand, name)
            case Prefetch(axes, operand, further):
                pointer, offset = scope.inside(axes).place(operand)
                text = f"{_heads(axes)} FETCH({pointer} + {offset} + {further});"
            case Registers():
                text = f"\n{scope.pad}".join(_kept(step, scope.inside(step.axes)))
            case MultiplyAdd(axes, left, right, template):
                text = template.format(_element("a", axes), scope.value(left), scope.value(right)) + ";"
            case Verbatim(text):
                pass
        found.append(scope.pad + text)
    return found


def _loop(step: SumOver, scope: _Scope) -> list[str]:
    axis, going, inner = step.axis, "", scope.inside([step.axis])
    for operand in step.moves:
        pointer, _ = scope.place(operand)
        going += f", {pointer} += {operand.step((axis.joins or (axis,))[-1].var)}"
        inner = inner.pointing(operand, pointer)
    head = scope.pad + axis.loop(going, scope.limits.get(axis.var))
    if len(step.steps) == 1 and isinstance(step.steps[0], SumOver):  # loops that stand below each other
        return [head, *_lines(step.steps, replace(inner, pad=scope.pad))]
    return [head + " {", *_lines(step.steps, inner), scope.pad + "}"]


def _kept(kept: Registers, scope: _Scope) -> list[str]:
    """The declaration of registers, and what fills them."""
    name, value = _element(kept.name, kept.axes), scope.value(kept.fetched)
    if not kept.axes:
        return [f"{kept.c_type} {name} = {value};"]
    sizes, (*others, last) = "".join(f"[{axis.extent}]" for axis in kept.axes), kept.axes
    declared = f"{kept.c_type} {kept.name}{sizes};"
    if not kept.last:
        return [declared, f"{_heads(kept.axes)} {name} = {value};"]
    whole = last.extent - 1
    rest = scope.value(replace(kept.fetched, text=kept.last))
    heads = _heads([*others, replace(last, extent=whole)])
    return [
        declared,
        f"{heads} {name} = {value};",
        f"{{ enum {{ {last.var} = {whole} }}; {name} = {rest}; }}",
    ]


def _rounds(step: ForEach) -> Iterator[tuple[str, tuple[Step, ...]]]:
    """(what stands before its steps, steps): twice where a product ends in another text."""
    (*others, last), inner = step.axes, step.steps
    ends = tuple(
        replace(each, text=each.last) if isinstance(each, MultiplyAdd) and each.last else each
        for each in inner
    )
    if ends == inner:
        yield _heads(step.axes), inner
        return
    assert isinstance(last.extent, int)
    if last.extent > 1:
        yield _heads([*others, replace(last, extent=last.extent - 1)]), inner
    yield _heads([*others, replace(last, first=last.extent - 1)]), ends


def _heads(axes: Sequence[Axis]) -> str:
    return " ".join(axis.loop() for axis in axes)


def _element(name: str, axes: Sequence[Axis]) -> str:
    return name + "".join(f"[{axis.var}]" for axis in axes)
