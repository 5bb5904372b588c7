"""Which variables of a Python function are still read later: the standard backward analysis, on its ast.

A variable is declared in the loop language as deep inside as it can be, so that a name that serves several
loops in turn, or one iteration at a time, is not carried through all of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

Names = frozenset[str]
_NONE: Names = frozenset()


@dataclass
class Liveness:
    """By id of a statement: names read later before they are written. head: of a loop, at its condition;
    exposed: of a loop, what an iteration reads that it has not written."""

    before: dict[int, Names] = field(default_factory=dict)
    after: dict[int, Names] = field(default_factory=dict)
    head: dict[int, Names] = field(default_factory=dict)
    exposed: dict[int, Names] = field(default_factory=dict)

    def carried(self, statement: ast.stmt) -> Names:
        """What a compound statement assigns that is read after it, or in a later iteration."""
        live = self.after[id(statement)] | self.head.get(id(statement), _NONE)
        return assigned([statement]) & live


def analyse(body: Sequence[ast.stmt]) -> Liveness:
    """Liveness of every statement of a function."""
    found = Liveness()
    _block(body, _NONE, found, True)
    return found


def _block(statements: Sequence[ast.stmt], live: Names, found: Liveness, record: bool) -> Names:
    for statement in reversed(statements):
        after, live = live, _statement(statement, live, found, record)
        if record:
            found.after[id(statement)], found.before[id(statement)] = after, live
    return live


def _statement(statement: ast.stmt, live: Names, found: Liveness, record: bool) -> Names:
    match statement:
        case ast.If(test, body, orelse):
            return _block(body, live, found, record) | _block(orelse, live, found, record) | reads(test)
        case ast.For(target, source, body, _):
            head = live | _exposed(statement, body, found) - targets(target) | _places(target)
            if record:
                found.head[id(statement)] = head
                _block(body, head, found, True)
            return head | reads(source)
        case ast.While(test, body, _):
            head = live | _exposed(statement, body, found) | reads(test)
            if record:
                found.head[id(statement)] = head
                _block(body, head, found, True)
            return head
        case ast.Assign(places, value):
            killed = frozenset().union(*(targets(place) for place in places))
            return (live - killed) | reads(value) | frozenset().union(*(_places(place) for place in places))
        case ast.AnnAssign(target, _, value):
            killed = targets(target) if value is not None else _NONE
            return (live - killed) | (reads(value) if value is not None else _NONE) | _places(target)
        case ast.AugAssign(target, _, value):
            return live | targets(target) | _places(target) | reads(value)
    return live | reads(statement)


def _exposed(loop: ast.stmt, body: Sequence[ast.stmt], found: Liveness) -> Names:
    """Found once for each loop, so that deep nests cost no more than their size."""
    if id(loop) not in found.exposed:
        found.exposed[id(loop)] = _block(body, _NONE, found, False)
    return found.exposed[id(loop)]


def targets(target: ast.expr) -> Names:
    """Names that an assignment to `target` gives a new value."""
    if isinstance(target, ast.Name):
        return frozenset((target.id,))
    if isinstance(target, ast.Tuple | ast.List):
        return frozenset().union(*(targets(part) for part in target.elts))
    return _NONE


def _places(target: ast.expr) -> Names:
    """Names that are read to know where `target` lies: a and i of a[i]."""
    if isinstance(target, ast.Name):
        return _NONE
    if isinstance(target, ast.Tuple | ast.List):
        return frozenset().union(*(_places(part) for part in target.elts))
    return reads(target)


def reads(node: ast.AST) -> Names:
    """Names read in an expression; a comprehension's own variables are not."""
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        own = frozenset().union(*(targets(clause.target) for clause in node.generators))
        return frozenset().union(*(reads(part) for part in ast.iter_child_nodes(node))) - own
    if isinstance(node, ast.Name):
        return frozenset((node.id,))
    return frozenset().union(*(reads(part) for part in ast.iter_child_nodes(node)))


def assigned(statements: Sequence[ast.stmt]) -> Names:
    """Names that the statements give new values anywhere inside."""
    found: set[str] = set()
    for node in (node for statement in statements for node in ast.walk(statement)):
        match node:
            case ast.Assign(places):
                found.update(*map(targets, places))
            case ast.AnnAssign(target, _, ast.expr()) | ast.AugAssign(target) | ast.For(target):
                found |= targets(target)
    return frozenset(found)


def changed_arrays(statements: Sequence[ast.stmt]) -> Iterator[str]:
    """Names of lists that the statements may lengthen: receivers of append, and arguments of calls."""
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call):
                if isinstance(node.func, ast.Attribute):
                    yield from reads(node.func.value)
                for argument in node.args:
                    yield from reads(argument)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                yield node.target.id
