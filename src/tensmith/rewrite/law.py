"""Exact rules as data: a law is a line of algebra, with a wrong twin and the shapes it holds for.

    law("mul_into_conv", conv(X, W, B) * C, conv(X, W * along(C, 0, W), B * flat(C)),
        wrong=conv(X, W, B * flat(C)), given=conv_instances(), c="1 G*K *1")

Shapes are words: names stand for sizes, `*S` for as many sizes as the instance has dimensions, `*1` for as
many ones. They are read twice. Where a rule is proved they are the shapes of its symbolic instances; where it
is matched, those that the law names itself are its conditions. The same holds of attributes: what an instance
fixes is a condition, what it leaves symbolic may be anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import Formula, Scalar, call, compute, tensor
from tensmith.formula.poly import Dim, Poly
from tensmith.ir import Node, Program
from tensmith.ir.edits import Edit, facts_after
from tensmith.ir.infer import Facts
from tensmith.ir.interpreter import interpret
from tensmith.ir.op import OPS, Attrs
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.rewrite.case import Case, constant, formula
from tensmith.rewrite.match import Match, build, match
from tensmith.rewrite.rule import EXACT, FormulaObligation, NodeRule, Phase, Rule
from tensmith.rewrite.term import (
    AnyElementwise,
    Bindings,
    Const,
    ConstantTable,
    Later,
    Number,
    Term,
    Use,
    Var,
    ops,
    resolve,
    show,
)

Condition: TypeAlias = Callable[[Match], str | None]

_X = Var("x")

# The ops that act on each element alone.
ELEMENTWISE = frozenset(name for name, op in OPS.items() if isinstance(op, Elementwise))
# What an attribute that is left out stands for, one number an axis.
_NEUTRAL = {"pads": 0, "strides": 1, "dilations": 1}
_CUT_OFF = "whole numbers are cut off"


@dataclass(frozen=True)
class Instance:
    """Symbolic shapes of variables, and attributes of captures: integers are conditions, symbols are free.

    dims: how many sizes a `*S` stands for. lower: least values of symbols, 0 where nothing is said.
    values: of variables that are known, as axes are: arrays, or a number that is every element.
    elements: of variables that are not any tensor, the element at each position. dtypes: where not f32.
    sample: attributes that are no conditions. example: neither are its shapes; the law says where it holds.
    """

    name: str
    shapes: Mapping[str, str]
    dims: int = 0
    attrs: Mapping[str, Attrs] = field(default_factory=dict)
    lower: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    sample: Mapping[str, Attrs] = field(default_factory=dict)
    elements: Mapping[str, Callable[..., Scalar]] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    example: bool = False


Given: TypeAlias = Sequence[Instance]

# Tensors of one shape: elementwise laws hold for any, as they are about one element.
MATRIX: Given = (Instance("matrix", {"": "M N"}),)
# Of the shapes that a law names, no size 0.
NOT_EMPTY: Given = (Instance("not empty", {}, lower=dict.fromkeys("BIJKLN", 1)),)


@dataclass(eq=False)
class Law(NodeRule):
    """left = right, in every instance of `given`, where the shapes named and `when` hold; see `lemma`."""

    name: str
    left: Term
    right: Term
    wrong: Term
    given: Given
    twin: Given
    shapes: Mapping[str, str]
    when: Condition | None
    values: Sequence[Mapping[str, Any]]
    sample: Mapping[str, Attrs]

    def __post_init__(self) -> None:
        sides = (self.left, self.right, self.wrong)
        self._variables = list(dict.fromkeys(v for side in sides for v in _variables(side)))
        self._parts = [part for side in sides[:2] for part in _parts(side)]
        root = frozenset({self.left.op}) if isinstance(self.left, Use) else frozenset[str]()
        self.roots = ELEMENTWISE if isinstance(self.left, AnyElementwise) else root  # type: ignore[misc]

    @property
    def statement(self) -> str:
        """The law as a line."""
        return f"{show(self.left)} = {show(self.right)}"

    @property
    def conditions(self) -> list[str]:
        """The shapes that are asked for, and what else is, where it says so."""
        when = (getattr(self.when, "__doc__", None) or "").strip()
        return [*(f"{name}: [{words}]" for name, words in self.shapes.items()), *([when] if when else [])]

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """The matched nodes replaced."""
        found = match(self.left, program, node.output)
        if isinstance(found, str):
            return found
        reason = self._refused(found)
        if reason is not None:
            return reason
        if any(self._cuts(made, program.facts) for made in found.nodes):
            return _CUT_OFF
        replacement = resolve(self.right, found)
        if isinstance(replacement, Var):
            return Edit(remove=(node,), alias={node.output: found.values[replacement.name]})
        nodes, constants, _ = build(replacement, found, node.outputs)
        return Edit(remove=tuple(found.nodes), add=tuple(nodes), constants=constants)

    def edit(self, program: Program, site: str) -> Edit | str:
        """The edit at a site, where whoever read the value reads one of the same type.

        Types decide what is proved: over real numbers, and of known ranks.
        """
        found = super().edit(program, site)
        if isinstance(found, str):
            return found
        facts, before = facts_after(program, found), program.facts[site].type
        if before is None or before.shape is None or facts[found.alias.get(site, site)].type != before:
            return ""
        return _CUT_OFF if any(self._cuts(node, facts) for node in found.add) else found

    def _cuts(self, node: Node, facts: Mapping[str, Facts]) -> bool:
        """Whether a node divides whole numbers, or the like, and is not any function of elements."""
        type_ = facts[node.output].type
        if not node.traits.cuts or (type_ is not None and type_.floating):
            return False
        free = any(isinstance(part, AnyElementwise) for part in self._parts)
        return not free or any(
            isinstance(part, Later) or (isinstance(part, Use) and part.op == node.op) for part in self._parts
        )

    def obligations(self) -> Iterator[FormulaObligation]:
        """left = right in every case."""
        for case in self.cases(self.given):
            yield claim(f"{self.name}/{case.name}", self.left, resolve(self.right, case), case)

    def twins(self) -> Iterator[FormulaObligation]:
        """left = wrong, to be refuted in every case of the twin's instances."""
        for case in self.cases(self.twin):
            yield claim(f"{self.name}/{case.name}", self.left, resolve(self.wrong, case), case)

    def cases(self, given: Given) -> Iterator[Case]:
        """Every instance, with every choice of values, ones in front of a shape kept and left out."""
        for instance in given:
            for choice in self.values or ({},):
                for short in sorted({False, any(t.startswith("1 ") for t in self.shapes.values())}):
                    yield self._case(instance, {**instance.values, **choice}, short)

    def _case(self, instance: Instance, values: Mapping[str, Any], short: bool) -> Case:
        tensors: dict[str, Formula] = {}
        for var in self._variables:
            if var.optional and var.name not in {*instance.shapes, *self.shapes, *values}:
                continue
            if np.ndim(values.get(var.name, 0)):
                tensors[var.name] = constant(np.asarray(values[var.name]))
                continue
            other = "" if var.name in values else instance.shapes.get("", "")
            words = self.shapes.get(var.name) or instance.shapes.get(var.name, other)
            sizes = tuple(map(_size, _words(words.removeprefix("1 ") if short else words, instance.dims)))
            if var.name in values:
                tensors[var.name] = compute(sizes, lambda *_, number=values[var.name]: number)
            elif var.name in instance.elements:
                tensors[var.name] = compute(sizes, instance.elements[var.name])
            elif instance.dtypes.get(var.name) == "bool":
                tensors[var.name] = truth(tensor(var.name, *sizes))
            else:
                tensors[var.name] = tensor(var.name, *sizes)
        shaped = {*instance.shapes, *self.shapes}
        known = {name: np.asarray(value) for name, value in values.items() if name not in shaped}
        details = [instance.name, *(f"{k} = {v}" for k, v in values.items()), *(["short"] if short else [])]
        sources = (instance.attrs, instance.sample, self.sample)
        captures = {name for source in sources for name in source}
        attrs = {
            name: {k: v for source in sources for k, v in source.get(name, {}).items()} for name in captures
        }
        return Case(", ".join(details), tensors, attrs, known, instance.lower, instance.dtypes)

    def _refused(self, m: Match) -> str | None:
        """Why a match is not enough: the own condition, or the shapes and attributes of every instance."""
        try:
            reason = self.when(m) if self.when is not None else None
        except ProgramError as error:  # an axis that what was matched does not have
            reason = str(error)
        if reason is not None:
            return reason
        for instance in self.given:
            reason = self._fits(instance, m)
            if reason is None:
                break
        return reason

    def _fits(self, instance: Instance, m: Match) -> str | None:
        for capture, wanted in instance.attrs.items():
            for name, value in wanted.items():
                if capture in m.attrs and not _agrees(name, value, m.attrs[capture].get(name)):
                    return f"the {capture} has {name}={m.attrs[capture].get(name)}"
        sizes: dict[str, Dim] = {}
        shapes = self.shapes if instance.example else {**instance.shapes, **self.shapes}
        for name, words in shapes.items():
            if not name or not m.values.get(name):
                continue
            shape = m.type(Var(name)).shape
            if shape is None:
                return f"the shape of {name} is not known"
            if not _bind(_words(words, instance.dims), shape, sizes, name in self.shapes):
                return f"{name} of shape {list(map(str, shape))} is not {words}"
        return None


def claim(name: str, left: Term, right: Term, case: Case) -> FormulaObligation:
    """The obligation that two terms are equal in a symbolic instance."""
    sides = (left, right, case)
    return FormulaObligation(name, formula(left, case), formula(right, case), Ranges(lower=case.lower), sides)


class Family(NodeRule):
    """One rule of several lines: the first whose left side is found is applied."""

    def __init__(self, name: str, members: Sequence[Law]) -> None:
        self.name, self.members = name, members
        self.roots = frozenset[str]().union(*(member.roots for member in members))  # type: ignore[misc]

    @property
    def statement(self) -> str:
        """The lines."""
        return "; ".join(member.statement for member in self.members)

    @property
    def conditions(self) -> list[str]:
        """Those of its lines."""
        return list(dict.fromkeys(words for member in self.members for words in member.conditions))

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """See edit."""
        return self.edit(program, node.output)

    def edit(self, program: Program, site: str) -> Edit | str:
        """The edit of the first line that applies."""
        reasons = ""
        for member in self.members:
            found = member.edit(program, site)
            if isinstance(found, Edit):
                return found
            reasons = reasons or found
        return reasons

    def lemmas(self) -> Iterable[Rule]:
        """Every line."""
        return self.members


def lemma(
    name: str,
    left: Term,
    right: Term | float,
    wrong: Term | float,
    *,
    given: Given = MATRIX,
    twin: Given = (),
    when: Condition | None = None,
    values: Sequence[Mapping[str, Any]] = (),
    sample: Mapping[str, Attrs] | None = None,
    **shapes: str,
) -> Law:
    """left = right, as a law that is not registered.

    wrong: a plausible mistake in `right`, which must be refuted. given: the instances it is proved in;
    twin: those where the mistake is refuted, if others. shapes: conditions on variables' shapes. when: why it
    does not apply to a match, None if it does. values: numbers that variables are everywhere in the proof,
    each choice an instance. sample: attributes of captures in the proof alone.
    """
    sides = [Number(side) if isinstance(side, (int, float)) else side for side in (right, wrong)]
    return Law(name, left, sides[0], sides[1], given, twin or given, shapes, when, values, sample or {})


def law(
    name: str,
    left: Term,
    right: Term | float,
    wrong: Term | float,
    *,
    order: int = 50,
    phase: Phase = "simplify",
    says: str = "",
    found: str = "",
    **details: Any,
) -> None:
    """Registers an exact rule; see `lemma` for its details.

    says: what it does, where the line of algebra does not tell. found: see Rule.
    """
    made = lemma(name, left, right, wrong, **details)
    _register(made, order, phase, says or f"{made.statement}.", found)


def family(
    name: str,
    lines: Iterable[Sequence[Any]],
    *,
    order: int = 50,
    phase: Phase = "simplify",
    says: str = "",
    found: str = "",
    **details: Any,
) -> None:
    """Registers one rule of several lines (left, right, wrong), alike for all of a family of ops."""
    members = [
        lemma(f"{name} {number}", left, right, wrong, **details)
        for number, (left, right, wrong) in enumerate(lines, start=1)
    ]
    made = Family(name, members)
    _register(made, order, phase, says or f"{made.statement}.", found)


def _register(made: Law | Family, order: int, phase: Phase, says: str, found: str) -> None:
    assert made.roots, f"the left side of '{made.name}' is no op that could be matched"
    made.order, made.phase, made.__doc__, made.found = order, phase, says, found
    EXACT.add(made.name, made)


def floating(m: Match) -> str | None:
    """None if x is of floats."""
    return None if m.type(_X).floating else ""


# Parts of right sides


def filled(number: float, like: Var, shape: Callable[[Bindings], Sequence[Dim]] | None = None) -> Later:
    """One number in the shape and the type of a variable, or in another shape."""

    def make(m: Bindings) -> Term:
        sizes = m.shape(like) if shape is None else shape(m)
        return ops.expand(ConstantTable((), lambda: number, like), literal(sizes))

    return Later(make, f"{number:g}")


def everywhere(number: float, shape: Callable[[Bindings], Sequence[Dim]] | None = None) -> Later:
    """One number of x's type for all that was matched; `shape` as above is what a proof knows of it."""

    def make(m: Bindings) -> Term:
        if isinstance(m, Match):
            return filled(number, _X, lambda _: m.program.type(m.nodes[0].output).dims)
        return filled(number, _X, shape)

    return Later(make, f"{number:g}")


def literal(sizes: Sequence[Dim]) -> Array:
    """Sizes as an operand: whole numbers, or symbols too."""
    whole = all(isinstance(size, int) for size in sizes)
    return np.array(list(sizes), dtype=np.int64 if whole else object)


def join(axis: int, *parts: Term) -> Use:
    """Tensors one after the other."""
    return ops.concat(*parts, attrs={"axis": axis})


def shaped(x: Term, sizes: Sequence[Dim]) -> Use:
    """x under another shape, none of whose sizes is 0."""
    return ops.reshape(x, literal(sizes))


def at_once(part: Term, m: Bindings) -> Term:
    """What constants alone go into, computed when the rule is applied: it must round nowhere."""
    if not isinstance(m, Match) or isinstance(part, Var):
        return part
    nodes, new, root = build(resolve(part, m), m, [next(m.program.fresh("constant"))])
    read = {name: m.program.constants[name] for name in m.values.values() if name in m.program.constants}
    program = Program("constant", {}, (root,), tuple(nodes), {**read, **new})
    return Const(interpret(program, {})[root])


def truth(of: Formula) -> Formula:
    """A tensor of truth values: whether numbers are above zero."""
    return compute(of.shape, lambda *at: call("less", 0, of[at]))


def flat(vector: Term) -> Later:
    """The elements of a tensor as a vector."""
    return Later(lambda m: ops.reshape(vector, np.array([-1], dtype=np.int64)), show(vector))


def along(vector: Term, axis: int, like: Var) -> Later:
    """The elements of a tensor along one axis, in as many dimensions as `like` has."""

    def make(m: Bindings) -> Term:
        shape = np.ones(len(m.shape(like)), dtype=np.int64)
        shape[axis] = -1
        return ops.reshape(vector, shape)

    return Later(make, show(vector))


def attribute(capture: str, name: str) -> Later:
    """A captured attribute as a number."""
    return Later(lambda m: Number(m.attrs[capture][name]), name)


# Reading shapes


def _parts(term: Term) -> Iterator[Term]:
    yield term
    if isinstance(term, Use | AnyElementwise):
        for arg in term.args:
            yield from _parts(arg)


def _variables(term: Term) -> Iterator[Var]:
    return (part for part in _parts(term) if isinstance(part, Var))


def _words(words: str, dims: int) -> list[str]:
    """A shape in words with `*S` and `*1` written out: a word an axis."""
    found: list[str] = []
    for word in words.split():
        name, plus, rest = word[1:].partition("+")
        numbers = [""] * dims if name == "1" else range(dims)
        found += [f"{name}{axis}{plus}{rest}" for axis in numbers] if word.startswith("*") else [word]
    return found


def _size(word: str) -> Poly:
    """`G*K+2` as a polynomial."""
    total = Poly.of(0)
    for part in word.split("+"):
        product = Poly.of(1)
        for factor in part.split("*"):
            product = product * (Poly.of(int(factor)) if factor.isdigit() else Poly.symbol(factor))
        total = total + product
    return total


def _bind(words: Sequence[str], shape: Sequence[Dim], sizes: dict[str, Dim], condition: bool) -> bool:
    """Whether a shape has the rank of its words and, on condition, is what they stood for before.

    Ones in front may be left out. Words without a condition only learn what they stand for.
    """
    missing = len(words) - len(shape)
    if missing < 0 or any(word != "1" for word in words[:missing]):
        return False
    for word, size in zip(words[missing:], shape):
        expected = int(word) if word.isdigit() else sizes.setdefault(word, size)
        if condition and expected != size:
            return False
    return True


def _agrees(name: str, wanted: Any, found: Any) -> bool:
    """Whether an attribute is as an instance has it: symbols stand for anything."""
    if isinstance(wanted, Poly) or (isinstance(wanted, tuple) and any(isinstance(w, Poly) for w in wanted)):
        return True
    if isinstance(wanted, tuple) and name in _NEUTRAL:
        return all(v == _NEUTRAL[name] for v in wanted) and all(v == _NEUTRAL[name] for v in found or ())
    return bool(found == wanted)


# Instances of heavy ops


def conv_instances(
    dims: Iterable[int] = (1, 2, 3),
    *,
    grouped: bool = True,
    padded: bool = True,
    square: bool = False,
    **others: str,
) -> Given:
    """conv(x, w, b), everything symbolic: x [N, G*C, *H], w [G*K, C, *R], b [G*K]; others by their shapes.

    One group of K filters and C channels if not `grouped`; C filters if `square`.
    """
    found = []
    for n in dims:
        filters = "C" if square else "G*K" if grouped else "K"
        channels = "G*C" if grouped else "C"
        attrs = {"strides": _symbols("s", n), "dilations": _symbols("d", n),
                 "pads": _symbols("p", 2 * n) if padded else (0,) * (2 * n),
                 "group": Poly.symbol("G") if grouped else 1}  # fmt: skip
        shapes = {"x": f"N {channels} *H", "w": f"{filters} C *R", "b": filters, **others}
        lower = {f"p{side}": 0 for side in range(2 * n)} if padded else {}
        found.append(Instance(f"{n}d", shapes, n, {"conv": attrs}, lower))
    return found


def _symbols(letter: str, count: int) -> tuple[Poly, ...]:
    return tuple(Poly.symbol(f"{letter}{number}") for number in range(count))


def gemm_instances(**others: str) -> Given:
    """gemm(X, W, B): X [N, C], W [C, K] or turned, B [K], nothing scaled; and others by their shapes."""
    plain = {"alpha": 1.0, "beta": 1.0, "transA": 0}
    return [
        Instance(f"transB={turned}", {"x": "N C", "w": "K C" if turned else "C K", "b": "K", **others}, 0,
                 {"gemm": {**plain, "transB": turned}})
        for turned in (0, 1)
    ]  # fmt: skip


def matmul_instances(dims: Iterable[int] = (0, 1, 2, 3), **others: str) -> Given:
    """Products of X [*L, N, C] and others by their shapes; `dims` leading axes L."""
    return [Instance(f"rank {2 + n}", {"x": "*L N C", **others}, n) for n in dims]
