"""What may be tried: a grammar of terms, its atoms and rules.

A symbol is a set of terms that grows; `Rule` joins terms of some symbols to terms of another. Terms live in a
context: outside of folds, or inside one, where the position of the fold is an index variable more.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tensmith.formula.expr import Call, Choose, Num, Read, Reduce, Size
from tensmith.formula.functions import COMPARISONS
from tensmith.formula.poly import Poly
from tensmith.formula.types import BOOL, MachineType
from tensmith.formula.walk import walk
from tensmith.lifting.summary import Term, first

Symbol = Hashable
OUTSIDE, START, FOLD = "", "start", "fold."


@dataclass(frozen=True)
class Production:
    """symbol -> operator(parts); "fold.KIND" folds a term of the context `parts[0]` is in from `parts[1]`;
    `var` and `extent` are those of the fold."""

    symbol: Symbol
    operator: str
    parts: tuple[Symbol, ...]
    type: MachineType
    var: str = OUTSIDE
    extent: Poly = field(default_factory=lambda: Poly.of(0))

    def term(self, parts: Sequence[Term]) -> Term:
        """The term that the rule makes."""
        if self.operator.startswith(FOLD):
            return Reduce(
                self.operator.removeprefix(FOLD), self.var, self.extent, parts[0], self.type, start=parts[1]
            )
        return Call(self.operator, tuple(parts), self.type)


@dataclass
class Grammar:
    """start: what is looked for; contexts: symbol -> the variable of the fold around it, or OUTSIDE."""

    start: Symbol
    rules: list[Production] = field(default_factory=list)
    atoms: dict[Symbol, list[Term]] = field(default_factory=dict)
    contexts: dict[Symbol, str] = field(default_factory=dict)


ARITHMETIC = ("add", "sub", "mul", "minimum", "maximum")
_OF_INTEGERS = ("div", "fmod", "floor_div", "mod")
_OF_FLOATS = ("exp", "log", "sqrt", "tanh")
_FOLDS = {
    "sum": {"add", "sub", "neg"},
    "prod": {"mul", "where"},
    "max": {"maximum", "where"},
    "min": {"minimum", "where"},
}


def kinds_of(operators: Iterable[str]) -> tuple[str, ...]:
    """The folds that operators of a loop's body can amount to."""
    return tuple(kind for kind, joining in _FOLDS.items() if not joining.isdisjoint(operators))


def operators_of(terms: Iterable[Term]) -> frozenset[str]:
    """Operators inside; a choice by position is a select."""
    found = set()
    for term in terms:
        for part in walk(term):
            if isinstance(part, Call):
                found.add(part.function)
            elif isinstance(part, Choose):
                found.add("where")
    return frozenset(found)


def free_grammar(
    start: MachineType,
    operators: frozenset[str],
    kinds: Sequence[str],
    atoms: Mapping[str, Sequence[Term]],
    folds: Mapping[str, Poly],
) -> Grammar:
    """Any operator on any terms that fit. atoms: by context, those under START are where folds start; folds:
    variable -> extent."""
    types = {term.type: None for terms in atoms.values() for term in terms}
    plain = [type_ for type_ in dict.fromkeys((start, *types)) if type_ != BOOL]
    grammar = Grammar((start, OUTSIDE))
    for context, terms in atoms.items():
        for type_ in (*plain, BOOL):
            grammar.contexts[type_, context] = OUTSIDE if context == START else context
        for term in terms:
            grammar.atoms.setdefault((term.type, context), []).append(term)
        if context == START:
            continue
        for name, parts, made in (rule for type_ in plain for rule in _rules(type_, plain, operators)):
            operands = tuple((part, context) for part in parts)
            grammar.rules.append(Production((made, context), name, operands, made))
    for var, extent in folds.items():
        for type_ in plain:
            pair = ((type_, var), (type_, START))
            grammar.rules += [
                Production((type_, OUTSIDE), f"{FOLD}{kind}", pair, type_, var, extent) for kind in kinds
            ]
    return grammar


Signature = tuple[str, tuple[MachineType, ...], MachineType]


def _rules(type_: MachineType, types: Sequence[MachineType], operators: frozenset[str]) -> list[Signature]:
    """Operators on a type: name, types of operands and result."""
    real = type_.kind == "float"
    binary = (*ARITHMETIC, *(("div",) if real else _OF_INTEGERS))
    found: list[Signature] = [(name, (type_, type_), type_) for name in binary]
    found += [(name, (type_,), type_) for name in ("neg", "abs", *(_OF_FLOATS if real else ()))]
    found += [(name, (type_, type_), BOOL) for name in COMPARISONS]
    found += [("where", (BOOL, type_, type_), type_)]
    found += [("cast", (other,), type_) for other in types if other != type_]
    if type_ == types[0]:
        found += [("and", (BOOL, BOOL), BOOL), ("or", (BOOL, BOOL), BOOL), ("not", (BOOL,), BOOL)]
    return [signature for signature in found if signature[0] in operators]


def well_typed(term: Term) -> bool:
    """Whether every operator's operands fit."""
    for part in walk(term):
        match part:
            case Call("cast") | Num() | Read(indices=()) | Size():
                fits = True
            case Call("where", (condition, a, b), type_):
                fits = condition.type == BOOL and a.type == b.type == type_
            case Call(name, arguments, type_) if name in COMPARISONS:
                fits = type_ == BOOL and arguments[0].type == arguments[1].type != BOOL
            case Call(name, arguments, type_):
                fits = all(argument.type == type_ for argument in arguments)
                fits = fits and (type_ == BOOL) == (name in ("and", "or", "not"))
                fits = fits and not (name in _OF_INTEGERS and name != "div" and type_.kind == "float")
                fits = fits and not (name in _OF_FLOATS and type_.kind != "float")
            case Reduce(_, _, _, body, type_):
                fits = body.type == first(part).type == type_ != BOOL
            case _:
                fits = True
        if not fits:
            return False
    return True
