"""`continue` and early `return` without jumps: what follows moves into the branch that does not leave.

if c: return x          if c: result = x
rest                    else: rest
return y                      result = y
                        return result

A loop that looks for something and does no more goes through all iterations and remembers the first; its test
is then met in iterations that Python would not reach, and must not fail there:

for i in range(n):      ended, first = False, n
    if c: S; break      for i in range(n):
else: T                     if c: ended, first = True, min(first, i)
                        if ended: i = first; S
                        else: T

Where it runs over lists, and an element of them is asked for later, it is numbered: x = a[first].
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tensmith.lifting.refusal import Refusal
from tensmith.lifting.returned import returned_name
from tensmith.lifting.source.python.module import Module, local_names, outside_functions, place

_MOST_STATEMENTS = 5000
_BREAK = (
    "break ends the loop where the data says; let that be all that the loop does, under one if, give the "
    "loop its number of iterations, or guard its body by an if"
)

# The counter of a loop: its name, what it does not pass, and whether it grows.
_Counter: TypeAlias = tuple[str, ast.expr, bool]


def structured(module: Module, function: ast.FunctionDef) -> list[ast.stmt]:
    """The body, its jumps gone: a `Return` of a value stands at the end or nowhere. Refuses returns
    inside loops."""
    work = _Work(module, function)
    body = function.body
    count = _count(function)
    if not any(_jumps(statement, ast.Return) for statement in body[:-1]) and not isinstance(
        body[-1], ast.If | ast.For | ast.While
    ):
        last = body[-1] if isinstance(body[-1], ast.Return) else None
        inner = work.block(body[:-1] if last else body, ast.Return)
        return [*inner, last] if last is not None and last.value is not None else inner
    valued = {node.value is not None for node in _all_returns(body)}
    inner = work.block(body, ast.Return)
    if True not in valued:
        return inner
    if False in valued or not _always_leaves(body):
        raise Refusal(
            f"{function.name} returns a value on some paths and none on others; return a value on every path",
            place(function),
        )
    end, first = ast.Return(_results(count, ast.Load())), next(_all_returns(body))
    for made in ast.walk(end):
        ast.copy_location(made, first)
    return [*inner, end]


class _Work:
    """The statements that rewriting may still make: duplicated tails could be exponential.

    names: how often each stands in the function.
    """

    def __init__(self, module: Module, function: ast.FunctionDef) -> None:
        self.left, self.names = _MOST_STATEMENTS, Counter(_names(function))
        names = {"range", "enumerate", "len", "zip"} - local_names(function)
        self.builtin = frozenset(name for name in names if module.callee(_name(name)) == name)
        self.enumerates = {"enumerate", "len", "zip"} <= self.builtin

    def block(self, statements: Sequence[ast.stmt], jump: type[ast.stmt]) -> list[ast.stmt]:
        """Statements without `jump`, which ends the block early."""
        made: list[ast.stmt] = []
        for n, statement in enumerate(statements):
            self.left -= 1
            if self.left < 0:
                raise Refusal("the branches with early exits are too many; join them", place(statement))
            if isinstance(statement, ast.Continue):
                return made
            if isinstance(statement, ast.Break):
                raise Refusal(_BREAK, place(statement))
            if isinstance(statement, ast.Return):
                return [*made, *_result(statement)]
            if isinstance(statement, ast.If):
                inside = [*statement.body, *statement.orelse]
                rest = statements[n + 1 :] if any(_jumps(inner, jump) for inner in inside) else ()
                then = self.block([*statement.body, *rest], jump)
                otherwise = self.block([*statement.orelse, *rest], jump)
                branch = ast.If(statement.test, then or [_pass(statement)], otherwise)
                made.append(ast.copy_location(branch, statement))
                if any(_jumps(inner, jump) for inner in inside):
                    return made
            elif isinstance(statement, ast.For | ast.While):
                if sought := self.sought(statement):
                    return [*made, *self.block([*self.search(statement, sought), *statements[n + 1 :]], jump)]
                if statement.orelse:
                    raise Refusal(
                        "an else after a loop is not lifted; move it after the loop",
                        place(statement.orelse[0]),
                    )
                made.append(self.loop(statement))
            else:
                made.append(statement)
        return made

    def loop(self, statement: ast.For | ast.While) -> ast.stmt:
        for node in _all_returns(statement.body):
            raise Refusal(
                "a return inside a loop makes the result depend on when it is met; let that be all that the "
                "loop does, under one if, or leave the loop last",
                place(node),
            )
        body = self.block(statement.body, ast.Continue) or [_pass(statement)]
        if isinstance(statement, ast.For):
            return ast.copy_location(ast.For(statement.target, statement.iter, body, []), statement)
        return ast.copy_location(ast.While(statement.test, body, []), statement)

    def search(self, statement: ast.For | ast.While, sought: _Sought) -> list[ast.stmt]:
        """The loop through all iterations, and what follows where it ended early."""
        where = place(statement)
        ended, first = f"ended {where}", f"first {where}"
        start: list[ast.stmt] = [_assign(ended, ast.Constant(False))]
        found: list[ast.stmt] = [_assign(ended, ast.Constant(True))]
        back: list[ast.stmt] = []
        inside = Counter(_names(statement))
        inside.subtract(_names(*sought.statements, *statement.orelse))
        later = {name for name in inside if self.names[name] > inside[name]}
        statement, counter, asked = self.numbered(statement, sought.counter, later)
        if counter is not None and (asked or counter[0] in later):
            name, limit, up = counter
            start.append(_assign(first, limit))
            sides = (_name(name), _name(first)) if up else (_name(first), _name(name))
            nearer = ast.Compare(sides[0], [ast.Lt()], [sides[1]])
            found.append(_assign(first, ast.IfExp(nearer, _name(name), _name(first))))
            back.append(_assign(name, _name(first)))
        for element, over in asked.items():
            back.append(_assign(element, ast.Subscript(over, _name(first), ast.Load())))
        if isinstance(statement, ast.For) and (
            {*_names(statement.target)} & later - asked.keys() - {*(counter or ())[:1]}
        ):
            reason = "a loop that ends early hands on what it ran over"
            raise Refusal(f"{reason}; loop over a list, range or enumerate, and hand on the place", where)
        test = ast.If(sought.test, found, [])
        # Without a break, what the else says is done in any case.
        otherwise, behind = ([], statement.orelse) if sought.go else (statement.orelse, [])
        branch = ast.If(_name(ended), [*back, *sought.statements] or [_pass(statement)], otherwise)
        body = [test, *sought.rest]
        loop: ast.stmt = (
            ast.For(statement.target, statement.iter, body, [])
            if isinstance(statement, ast.For)
            else ast.While(sought.go or statement.test, body, [])
        )
        made = [*start, loop, branch, *behind]
        for each in made:
            _place(each, statement)
        return made

    def numbered(
        self, loop: ast.For | ast.While, counter: _Counter | None, later: set[str]
    ) -> tuple[ast.For | ast.While, _Counter | None, dict[str, ast.Name]]:
        """A loop over lists, numbered where an element is asked for later; its counter, and the lists of such
        elements."""
        match loop:
            case ast.For(ast.Tuple([_, element]), ast.Call(ast.Name("enumerate"), [over])) if counter:
                return loop, counter, _elements(element, over, later)
            case ast.For(element, over) if self.enumerates and (asked := _elements(element, over, later)):
                number, (over_first, *_) = f"place {place(loop)}", asked.values()
                target = ast.Tuple([ast.Name(number, ast.Store()), element], ast.Store())
                made = ast.For(target, ast.Call(_name("enumerate"), [over], []), loop.body, loop.orelse)
                return ast.copy_location(made, loop), (number, _length(over_first), True), asked
        return loop, counter, {}

    def sought(self, loop: ast.For | ast.While) -> _Sought | None:
        """What a loop looks for; None where it does not end early, or does more than look."""
        first, *rest = loop.body
        if (
            isinstance(first, ast.If)
            and not first.orelse
            and isinstance(first.body[-1], ast.Break | ast.Return)
        ):
            kept = first.body[:-1] if isinstance(first.body[-1], ast.Break) else first.body
            if any(_jumps(each, ast.Continue) for each in kept):
                return None
            if isinstance(loop, ast.For):
                return None if rest else _Sought(first.test, kept, [], self.ranged(loop))
            counter = _counted(loop.test, rest)
            return None if counter is None else _Sought(first.test, kept, rest, counter)
        if (
            isinstance(loop, ast.While)
            and isinstance(loop.test, ast.BoolOp)
            and isinstance(loop.test.op, ast.And)
        ):
            go, *others = loop.test.values
            counter = _counted(go, loop.body)
            reads = any(isinstance(part, ast.Subscript) for other in others for part in ast.walk(other))
            if counter is not None and reads:
                return _Sought(ast.UnaryOp(ast.Not(), loop.test), [], loop.body, counter, go)
        return None

    def ranged(self, loop: ast.For) -> _Counter | None:
        """The counter of `for i in range(...)` with a step that is a literal, or of
        `for i, ... in enumerate(a)`."""
        match loop.iter, loop.target:
            case ast.Call(ast.Name("range"), args, []), ast.Name(name) if 1 <= len(args) <= 3:
                step = _literal(args[2]) if len(args) > 2 else 1
                plain = step and "range" in self.builtin
                return (name, args[min(1, len(args) - 1)], step > 0) if plain else None
            case ast.Call(ast.Name("enumerate"), [ast.Name() as over], []), ast.Tuple([ast.Name(name), *_]):
                plain = self.enumerates and _names(loop.target).count(name) == 1
                return (name, _length(over), True) if plain else None
        return None


@dataclass(frozen=True)
class _Sought:
    """What a loop looks for. test: ends it; statements: then, but for the break; rest: of an iteration that
    goes on; go: the condition that is left.
    """

    test: ast.expr
    statements: list[ast.stmt]
    rest: list[ast.stmt]
    counter: _Counter | None
    go: ast.expr | None = None


def _counted(go: ast.expr, body: Sequence[ast.stmt]) -> _Counter | None:
    """The counter of a loop that does nothing but count, as long as it is below or above a number."""
    if len(body) != 1 or not isinstance(go, ast.Compare) or len(go.ops) != 1:
        return None
    (step,), (limit,) = body, go.comparators
    if not (isinstance(step, ast.AugAssign) and isinstance(step.target, ast.Name)):
        return None
    size = _literal(step.value) * {ast.Add: 1, ast.Sub: -1}.get(type(step.op), 0)
    kinds = ast.Lt | ast.LtE if size > 0 else ast.Gt | ast.GtE
    name = step.target.id
    counts = isinstance(go.left, ast.Name) and go.left.id == name and isinstance(go.ops[0], kinds)
    return (name, limit, size > 0) if size and counts and name not in _names(limit) else None


def _literal(node: ast.expr) -> int:
    """A literal integer; 0 for everything else."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_literal(node.operand)
    found = node.value if isinstance(node, ast.Constant) else 0
    return found if type(found) is int else 0


def _names(*nodes: ast.AST) -> list[str]:
    """Every name that stands in them, as often as it does."""
    return [part.id for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)]


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _elements(target: ast.expr, over: ast.expr, later: set[str]) -> dict[str, ast.Name]:
    """What a loop over a list or several (zip) names and is asked for later, with the list of each."""
    names, lists = [target], [over]
    if isinstance(target, ast.Tuple) and isinstance(over, ast.Call) and _names(over.func) == ["zip"]:
        names, lists = target.elts, over.args
    found = {
        name.id: list_
        for name, list_ in zip(names, lists)
        if isinstance(name, ast.Name) and isinstance(list_, ast.Name) and name.id in later
    }
    plain = len(names) == len(lists) == len({*_names(target)} - {*_names(*lists)})
    return found if plain else {}


def _length(over: ast.Name) -> ast.expr:
    return ast.Call(_name("len"), [over], [])


def _assign(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _place(made: ast.AST, like: ast.stmt) -> None:
    """New nodes stand where the loop does; those of the source stay where they are."""
    for node in ast.walk(made):
        if isinstance(node, ast.stmt | ast.expr) and not hasattr(node, "lineno"):
            ast.copy_location(node, like)


def _pass(statement: ast.stmt) -> ast.stmt:
    return ast.copy_location(ast.Pass(), statement)


def _result(statement: ast.Return) -> list[ast.stmt]:
    if statement.value is None:
        return []
    target = _results(_values(statement), ast.Store())
    for made in ast.walk(target):
        ast.copy_location(made, statement)
    return [ast.copy_location(ast.Assign([target], statement.value), statement)]


def _results(count: int, context: ast.expr_context) -> ast.expr:
    """What is returned as a variable, or as a tuple of some."""
    if not count:
        return ast.Name(returned_name(), context)
    return ast.Tuple([ast.Name(returned_name(place), context) for place in range(1, count + 1)], context)


def _values(statement: ast.Return) -> int:
    """How many values a tuple has that is returned; 0 for what is no tuple."""
    value = statement.value
    if not isinstance(value, ast.Tuple):
        return 0
    if len(value.elts) < 2:
        raise Refusal("a tuple of fewer than two values is returned; return a value", place(statement))
    return len(value.elts)


def _count(function: ast.FunctionDef) -> int:
    """How many values a function returns in a tuple; 0 where it returns none."""
    counts: dict[int, ast.Return] = {}
    for statement in _all_returns(function.body):
        if statement.value is not None:
            counts.setdefault(_values(statement), statement)
    if len(counts) > 1:
        raise Refusal(
            f"{function.name} returns other numbers of values on other paths; return as many on every path",
            place(list(counts.values())[1]),
        )
    return next(iter(counts), 0)


def _jumps(statement: ast.stmt, jump: type[ast.stmt]) -> bool:
    """Whether the statement holds a jump of this kind that leaves the block it stands in."""
    if isinstance(statement, jump):
        return True
    if isinstance(statement, ast.If):
        return any(_jumps(inner, jump) for inner in (*statement.body, *statement.orelse))
    if isinstance(statement, ast.For | ast.While):
        inside = any(_all_returns(statement.body)) if jump is ast.Return else False
        return inside or any(_jumps(inner, jump) for inner in statement.orelse)
    return False


def _all_returns(statements: Sequence[ast.stmt]) -> Iterator[ast.Return]:
    return (node for node in outside_functions(*statements) if isinstance(node, ast.Return))


def _always_leaves(statements: Sequence[ast.stmt]) -> bool:
    """Whether every path through the statements ends in a return."""
    for statement in statements:
        if isinstance(statement, ast.Return):
            return True
        if isinstance(statement, ast.If) and all(map(_always_leaves, (statement.body, statement.orelse))):
            return True
        breaks = any(isinstance(part, ast.Break) for part in ast.walk(statement))
        if isinstance(statement, ast.For | ast.While) and not breaks and _always_leaves(statement.orelse):
            return True
    return False
