"""`continue` and early `return` without jumps: what follows moves into the branch that does not leave.

if c: return x          if c: result = x
rest                    else: rest
return y                      result = y
                        return result
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.python.module import outside_functions, place

RESULT = "return"  # no name of Python, so none of the source's
_MOST_STATEMENTS = 5000


def structured(function: ast.FunctionDef) -> list[ast.stmt]:
    """The body, its jumps gone: a `Return` of a value stands at the end or nowhere. Refuses returns
    inside loops."""
    work = _Work()
    body = function.body
    if not any(_jumps(statement, ast.Return) for statement in body[:-1]) and not isinstance(body[-1], ast.If):
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
    name = ast.Name(RESULT, ast.Load())
    end = ast.Return(name)
    ast.copy_location(end, next(_all_returns(body)))
    ast.copy_location(name, end)
    return [*inner, end]


class _Work:
    """The statements that rewriting may still make: duplicated tails could be exponential."""

    def __init__(self) -> None:
        self.left = _MOST_STATEMENTS

    def block(self, statements: Sequence[ast.stmt], jump: type[ast.stmt]) -> list[ast.stmt]:
        """Statements without `jump`, which ends the block early."""
        made: list[ast.stmt] = []
        for n, statement in enumerate(statements):
            self.left -= 1
            if self.left < 0:
                raise Refusal("the branches with early exits are too many; join them", place(statement))
            if isinstance(statement, ast.Continue):
                return made
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
                made.append(self.loop(statement))
            else:
                made.append(statement)
        return made

    def loop(self, statement: ast.For | ast.While) -> ast.stmt:
        for node in _all_returns(statement.body):
            raise Refusal(
                "a return inside a loop makes the result depend on when it is met; leave the loop last",
                place(node),
            )
        body = self.block(statement.body, ast.Continue) or [_pass(statement)]
        if isinstance(statement, ast.For):
            return ast.copy_location(ast.For(statement.target, statement.iter, body, []), statement)
        return ast.copy_location(ast.While(statement.test, body, []), statement)


def _pass(statement: ast.stmt) -> ast.stmt:
    return ast.copy_location(ast.Pass(), statement)


def _result(statement: ast.Return) -> list[ast.stmt]:
    if statement.value is None:
        return []
    target = ast.copy_location(ast.Name(RESULT, ast.Store()), statement)
    return [ast.copy_location(ast.Assign([target], statement.value), statement)]


def _jumps(statement: ast.stmt, jump: type[ast.stmt]) -> bool:
    """Whether the statement holds a jump of this kind that leaves the block it stands in."""
    if isinstance(statement, jump):
        return True
    if isinstance(statement, ast.If):
        return any(_jumps(inner, jump) for inner in (*statement.body, *statement.orelse))
    if isinstance(statement, ast.For | ast.While) and jump is ast.Return:
        return any(_all_returns(statement.body))
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
    return False
