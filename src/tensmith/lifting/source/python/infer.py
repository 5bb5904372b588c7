"""The constraints that a Python function puts on the types of its variables; see `types`."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from tensmith.formula.expr import NOWHERE
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.returned import returned_name, returned_place
from tensmith.lifting.source.python import infer_calls as calls
from tensmith.lifting.source.python import names
from tensmith.lifting.source.python.kinds import (
    PY_BOOL,
    PY_FLOAT,
    PY_INT,
    AnyKind,
    NumberKind,
    arithmetic,
    compared,
    join,
    last_name,
    literal,
    promote,
    quotient,
    read_annotation,
)
from tensmith.lifting.source.python.module import Module, place
from tensmith.lifting.source.python.types import Cell, Cells, Types, TypeScope

Items: TypeAlias = "Cell | tuple[Items, ...]"


def infer(
    module: Module,
    function: ast.FunctionDef,
    body: Sequence[ast.stmt],
    given: Mapping[str, AnyKind] | None = None,
) -> Types:
    """Types of a function whose jumps are gone; `given` are kinds of arguments that are known."""
    inference = Inference(module)
    scope = inference.function(function, body, given or {})
    inference.cells.solve()
    found = inference.cells.found
    return Types(
        {name: found(cell) for name, cell in scope.parameters.items()},
        {name: found(cell) for name, cell in scope.variables.items()},
        {key: found(cell) for key, cell in inference.seen.items()},
    )


class Inference:
    def __init__(self, module: Module) -> None:
        self.module, self.cells = module, Cells()
        self.seen: dict[int, Cell] = {}
        self.called: dict[str, TypeScope] = {}

    # Functions.

    def function(
        self, function: ast.FunctionDef, body: Sequence[ast.stmt], given: Mapping[str, AnyKind]
    ) -> TypeScope:
        scope = TypeScope(result=self.cells.new(place(function)))
        arguments = function.args
        for argument in (*arguments.posonlyargs, *arguments.args):
            scope.parameters[argument.arg] = passed = self.parameter(argument, given.get(argument.arg))
            scope.variables[argument.arg] = variable = self.cells.new(place(argument))
            self.cells.flow(passed, variable)
        self.returned(function, scope)
        self.block(body, scope)
        return scope

    def parameter(self, argument: ast.arg, given: AnyKind | None) -> Cell:
        where = place(argument)
        if given is not None:
            return self.of_kind(given, argument)
        if argument.annotation is not None:
            self.module.check_type(argument.annotation)
        written = argument.annotation and self.module.meant(argument.annotation)
        note = read_annotation(written, where) if written is not None else None
        cell = self.cells.new(where)
        cell.parameter = True
        if note is None:
            return cell
        cell.numpy = note.numpy
        leaf = cell
        for _ in range((note.rank or 1) if note.array else 0):
            leaf.listed = not note.numpy
            leaf = self.cells.element(leaf)
        if note.element is not None and not (note.array and note.rank is None):
            leaf.kind, leaf.fixed = note.element, True
        elif note.element is not None:  # NDArray[np.float32] leaves the rank open
            cell.leaf = note.element
        return cell

    def of_kind(self, kind: AnyKind, node: ast.AST) -> Cell:
        if isinstance(kind, NumberKind):
            return self.cells.new(place(node), kind)
        cell = self.of_kind(kind.row, node)
        return self.cells.array(place(node), kind.numpy, cell)

    def returned(self, function: ast.FunctionDef, scope: TypeScope) -> None:
        """-> float and -> list[float] demand floats of what is returned, one by one in -> tuple[...]."""
        if function.returns is None or scope.result is None:
            return
        match self.module.meant(function.returns):
            case ast.Subscript(base, ast.Tuple(parts)) if last_name(base) in ("tuple", "Tuple"):
                for number, part in enumerate(parts, 1):
                    self.demanded(part, self.result(scope, returned_name(number)))
            case whole:
                self.demanded(whole, scope.result)

    def demanded(self, annotation: ast.expr, leaf: Cell) -> None:
        try:
            note = read_annotation(self.module.meant(annotation), place(annotation))
        except Refusal:
            return
        if (
            note is None
            or note.element is None
            or note.element.scalar.kind != "float"
            or (note.array and note.rank is None)
        ):
            return
        for _ in range((note.rank or 1) if note.array else 0):
            leaf = self.cells.element(leaf)
        leaf.demanded = True

    # Statements.

    def block(self, statements: Sequence[ast.stmt], scope: TypeScope) -> None:
        for statement in statements:
            self.statement(statement, scope)

    def statement(self, statement: ast.stmt, scope: TypeScope) -> None:
        match statement:
            case ast.Assign(targets, value):
                for target in targets:
                    self.assign(target, value, scope)
            case ast.AnnAssign(target, _, ast.expr() as value):
                self.assign(target, value, scope)
            case ast.AugAssign(target, operator, value):
                place_cell = self.target(target, scope)
                left = self.cells.new(place(target))
                self.cells.flow(place_cell, left)
                result = self.binary(operator, left, self.expression(value, scope), statement)
                self.cells.flow(result, place_cell)
            case ast.For(target, source, body, _):
                self.bind(target, self.items(source, scope), scope)
                self.block(body, scope)
            case ast.While(test, body, _) | ast.If(test, body, _):
                self.expression(test, scope)
                self.block(body, scope)
                if isinstance(statement, ast.If):
                    self.block(statement.orelse, scope)
            case ast.Expr(value):
                self.expression(value, scope)
            case ast.Return(ast.expr() as value) if scope.result is not None:
                if several := self.several(value, scope):
                    for number, cell in enumerate(several, 1):
                        self.cells.flow(cell, self.result(scope, returned_name(number)))
                else:
                    self.cells.flow(self.expression(value, scope), scope.result)

    def result(self, scope: TypeScope, name: str) -> Cell:
        """The cell of what is returned, or of one of several values."""
        if name == returned_name() and scope.result is not None:
            return scope.result
        if name not in scope.results:
            scope.results[name] = self.cells.new(NOWHERE)
        return scope.results[name]

    def several(self, value: ast.expr, scope: TypeScope) -> list[Cell]:
        """The cells of a tuple's values, which stands here or is what a helper returns; none of others."""
        if isinstance(value, ast.Tuple):
            return [self.expression(part, scope) for part in value.elts]
        called = (self.module.callee(value.func) or "") if isinstance(value, ast.Call) else ""
        if not called.startswith("def "):
            return []
        self.expression(value, scope)
        helper = self.called.get(called.removeprefix("def "))
        return list(helper.results.values()) if helper is not None else []

    def assign(self, target: ast.expr, value: ast.expr, scope: TypeScope) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
                for inner, part in zip(target.elts, value.elts):
                    self.assign(inner, part, scope)
                return
            if isinstance(value, ast.Call) and (several := self.several(value, scope)):
                for inner, cell in zip(target.elts, several):
                    self.bind(inner, cell, scope)
                return
            shape = isinstance(value, ast.Attribute) and value.attr == "shape"
            whole = self.expression(value.value if shape else value, scope)  # type: ignore[attr-defined]
            for inner in target.elts:
                if shape:
                    whole.root().numpy = True
                    self.bind(inner, self.count(inner), scope)
                    whole = self.cells.element(whole)
                else:
                    self.bind(inner, self.cells.element(whole), scope)
            return
        self.cells.flow(self.expression(value, scope), self.target(target, scope))

    def target(self, target: ast.expr, scope: TypeScope) -> Cell:
        """The cell of a place that is written."""
        if not isinstance(target, ast.Name):
            return self.expression(target, scope)
        if returned_place(target.id) is not None and target.id not in scope.variables:
            scope.variables[target.id] = self.result(scope, target.id)
        cell = scope.find(target.id)
        if cell is None:
            cell = scope.variables[target.id] = self.cells.new(place(target))
        return cell

    def bind(self, target: ast.expr, items: Items, scope: TypeScope) -> None:
        """A loop's or comprehension's target takes the items."""
        if isinstance(target, ast.Tuple | ast.List):
            if isinstance(items, Cell):
                parts: Sequence[Items] = [self.cells.element(items)] * len(target.elts)
            else:
                parts = items
            for inner, part in zip(target.elts, parts):
                self.bind(inner, part, scope)
        elif isinstance(items, Cell):
            self.cells.flow(items, self.target(target, scope))

    def items(self, source: ast.expr, scope: TypeScope) -> Items:
        """What iterating gives: a cell, or a tuple of them."""
        if isinstance(source, ast.Call):
            called = self.module.callee(source.func)
            if called == "range":
                for bound in source.args:
                    self.pinned(bound, scope)
                return self.count(source)
            if called == "enumerate" and source.args:
                return (self.count(source), self.items(source.args[0], scope))
            if called == "zip":
                return tuple(self.items(part, scope) for part in source.args)
            if called == "reversed" and source.args:
                return self.items(source.args[0], scope)
        return self.cells.element(self.expression(source, scope))

    def count(self, node: ast.AST) -> Cell:
        cell = self.cells.new(place(node), PY_INT)
        cell.pinned = True
        return cell

    def pinned(self, node: ast.expr, scope: TypeScope) -> Cell:
        cell = self.expression(node, scope)
        cell.pinned = True
        return cell

    # Expressions.

    def expression(self, node: ast.expr, scope: TypeScope) -> Cell:
        cell = self.seen[id(node)] = self.typed(node, scope)
        return cell

    def typed(self, node: ast.expr, scope: TypeScope) -> Cell:
        match node:
            case ast.Constant(value):
                return self.constant(value, node)
            case ast.Name(name):
                return self.name(name, node, scope)
            case ast.Subscript(value, index):
                return self.subscript(node, value, index, scope)
            case ast.Attribute():
                return self.attribute(node, scope)
            case ast.BinOp(left, operator, right):
                repeated = next(
                    (side for side in (left, right) if isinstance(side, ast.List | ast.ListComp)), None
                )
                if isinstance(operator, ast.Mult) and repeated is not None:
                    self.pinned(right if repeated is left else left, scope)
                    return self.expression(repeated, scope)
                sides = self.expression(left, scope), self.expression(right, scope)
                if isinstance(operator, ast.Add) and any(map(_is_list, sides)):
                    return self.joined_lists(node, sides)
                return self.binary(operator, *sides, node)
            case ast.UnaryOp(operator, operand):
                inner = self.expression(operand, scope)
                if isinstance(operator, ast.Not):
                    return self.cells.new(place(node), PY_BOOL)
                return self.same(node, [inner], lambda kinds: arithmetic(kinds[0], kinds[0]))
            case ast.Compare(left, _, comparators):
                parts = [self.expression(part, scope) for part in (left, *comparators)]
                self.cells.relate(*parts)
                result = self.cells.new(place(node))
                return self.cells.rule(
                    result, parts, lambda kinds: join(*(compared(*pair) for pair in pairwise(kinds)))
                )
            case ast.BoolOp(_, values):
                return self.joined(node, values, scope)
            case ast.IfExp(test, then, otherwise):
                self.expression(test, scope)
                return self.joined(node, [then, otherwise], scope)
            case ast.Call():
                return calls.call(self, node, scope)
            case ast.ListComp(element, clauses) | ast.GeneratorExp(element, clauses):
                inside = self.clauses(clauses, scope)
                made = self.cells.array(place(node), element=self.joined(element, [element], inside))
                made.listed = isinstance(node, ast.ListComp)
                return made
            case ast.List(elements) | ast.Tuple(elements):
                whole = self.cells.array(place(node))
                whole.listed = isinstance(node, ast.List)
                for part in elements:
                    self.cells.flow(self.expression(part, scope), self.cells.element(whole))
                return whole
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.expression(child, scope)
        return self.cells.new(place(node))

    def joined_lists(self, node: ast.expr, sides: Sequence[Cell]) -> Cell:
        """A new list of what two lists hold."""
        whole = self.cells.array(place(node))
        whole.listed = True
        for side in sides:
            self.cells.flow(self.cells.element(side), self.cells.element(whole))
        return whole

    def clauses(self, clauses: Sequence[ast.comprehension], scope: TypeScope) -> TypeScope:
        inside = TypeScope(outer=scope)
        for clause in clauses:
            items = self.items(clause.iter, inside)
            for name in ast.walk(clause.target):
                if isinstance(name, ast.Name):
                    inside.variables[name.id] = self.cells.new(place(name))
            self.bind(clause.target, items, inside)
            for test in clause.ifs:
                self.expression(test, inside)
        return inside

    def constant(self, value: object, node: ast.expr) -> Cell:
        if isinstance(value, float):
            return self.float(node)
        return self.cells.new(place(node), literal(value) if isinstance(value, int) else None)

    def float(self, node: ast.AST) -> Cell:
        """A value that is a float whatever the parameters are, which demands floats beside it."""
        cell = self.cells.new(place(node), PY_FLOAT)
        cell.demanded = True
        return cell

    def name(self, name: str, node: ast.expr, scope: TypeScope) -> Cell:
        cell = scope.find(name)
        if cell is None and name in self.module.constants:
            return self.expression(self.module.constants[name], TypeScope())
        if cell is None and self.module.imports.get(name, "").rpartition(".")[2] in names.FLOAT_CONSTANTS:
            return self.float(node)
        return cell or self.cells.new(place(node))

    def subscript(self, node: ast.Subscript, value: ast.expr, index: ast.expr, scope: TypeScope) -> Cell:
        if isinstance(value, ast.Attribute) and value.attr == "shape":
            whole = self.array_of_numpy(value.value, scope)
            axis = index.value if isinstance(index, ast.Constant) and isinstance(index.value, int) else 0
            for _ in range(min(axis, 8) + 1):
                whole = self.cells.element(whole)
            return self.count(node)
        cell = self.expression(value, scope)
        if isinstance(index, ast.Slice):
            for bound in (index.lower, index.upper):
                if bound is not None:
                    self.pinned(bound, scope)
            self.cells.element(cell)
            return cell
        if isinstance(index, ast.Tuple):
            cell.root().numpy = True
        for part in index.elts if isinstance(index, ast.Tuple) else (index,):
            self.pinned(part, scope)
            cell = self.cells.element(cell)
        return cell

    def attribute(self, node: ast.Attribute, scope: TypeScope) -> Cell:
        if isinstance(node.value, ast.Name) and scope.find(node.value.id) is None:
            return self.float(node) if node.attr in names.FLOAT_CONSTANTS else self.cells.new(place(node))
        if node.attr in ("size", "ndim", "shape"):
            self.array_of_numpy(node.value, scope)
            return self.count(node)
        return self.cells.new(place(node))

    def array_of_numpy(self, node: ast.expr, scope: TypeScope) -> Cell:
        """What has a shape is no list."""
        whole = self.expression(node, scope)
        self.cells.element(whole)
        whole.root().numpy = True
        return whole

    def same(self, node: ast.AST, operands: list[Cell], rule: object) -> Cell:
        """A result related to its operands, an integer only if they are."""
        result = self.cells.new(place(node))
        self.cells.relate(result, *operands)
        result.counts_from += operands
        return self.cells.rule(result, operands, rule)  # type: ignore[arg-type]

    def joined(self, node: ast.AST, parts: Sequence[ast.expr], scope: TypeScope) -> Cell:
        result = self.cells.new(place(node))
        for part in parts:
            self.cells.flow(self.expression(part, scope), result)
        return result

    def binary(self, operator: ast.operator, left: Cell, right: Cell, node: ast.AST) -> Cell:
        match operator:
            case ast.Div():
                result = self.cells.new(place(node))
                self.cells.relate(result, left, right)
                result.demanded = True
                return self.cells.rule(result, [left, right], lambda kinds: quotient(*kinds))
            case ast.FloorDiv() | ast.Mod():
                self.cells.relate(left, right)
                result = self.cells.new(place(node))
                result.counts_from += [left, right]
                return self.cells.rule(result, [left, right], lambda kinds: arithmetic(*kinds))
            case ast.LShift() | ast.RShift() | ast.BitAnd() | ast.BitOr() | ast.BitXor():
                result = self.cells.new(place(node))
                for operand in (left, right):
                    operand.pinned = True
                return self.cells.rule(result, [left, right], lambda kinds: promote(*kinds))
            case ast.Pow():
                return self.power(left, right, node)
        return self.same(node, [left, right], lambda kinds: arithmetic(*kinds))

    def power(self, left: Cell, right: Cell, node: ast.AST) -> Cell:
        """x ** 2 is what x is; x ** -1 and x ** 0.5 are floats."""
        exponent = node.right if isinstance(node, ast.BinOp) else None
        if isinstance(node, ast.Call) and len(node.args) == 2:
            exponent = node.args[1]
        if isinstance(exponent, ast.Constant) and isinstance(exponent.value, int):
            return self.same(node, [left], lambda kinds: arithmetic(kinds[0], kinds[0]))
        result = self.cells.new(place(node))
        self.cells.relate(result, left, right)
        if isinstance(exponent, ast.UnaryOp):
            left.demanded = True
            return self.cells.rule(result, [left, right], lambda kinds: quotient(*kinds))
        return self.cells.rule(result, [left, right], lambda kinds: arithmetic(*kinds))


def _is_list(cell: Cell) -> bool:
    """Whether a list is known to flow there by now."""
    waiting, seen = [cell.root()], set[int]()
    while waiting:
        root = waiting.pop()
        if root.listed:
            return True
        if id(root) not in seen:
            seen.add(id(root))
            waiting += [source.root() for source in root.counts_from]
    return False
