"""Assertions: assumed to hold, and said so. Their tests are not computed, so they may do nothing else."""

from __future__ import annotations

import ast

from tensmith.lifting import assumptions
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.python.module import place
from tensmith.lifting.source.python.scope import PythonScope

# Expressions that change nothing, whatever they are made of; calls of these functions alone.
_PURE = (
    *(ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.Set),
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.GeneratorExp, ast.ListComp),
    *(ast.comprehension, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context),
)
_PURE_CALLS = frozenset(
    (
        *("isinstance", "len", "abs", "min", "max", "sum", "all", "any", "range", "zip", "enumerate"),
        *("float", "int", "bool", "round", "type", "set", "math.isnan", "math.isfinite", "math.isinf"),
        *("numpy.all", "numpy.any", "numpy.isnan", "numpy.isfinite", "numpy.isinf", "numpy.ndim"),
        *("numpy.shape", "numpy.abs", "numpy.min", "numpy.max", "numpy.issubdtype"),
    )
)


def assertion(scope: PythonScope, statement: ast.Assert) -> None:
    """Notes that an assertion holds; refuses one whose test may do more than look."""
    for node in ast.walk(statement.test):
        pure = isinstance(node, _PURE)
        if isinstance(node, ast.Call):
            pure = scope.callee(node.func) in _PURE_CALLS and not node.keywords
        if not pure:
            where = place(node if isinstance(node, ast.expr) else statement)
            raise Refusal(
                "what an assertion calls or assigns may change something; compute it on a line before", where
            )
    scope.note(assumptions.ASSERTION(place(statement)))
