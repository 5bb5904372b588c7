"""The state of lowering one Python function: what names stand for, and the statements made so far."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tensmith.formula.expr import Call, Expr, Num, Read, SourcePosition, variable
from tensmith.formula.types import INT
from tensmith.ir.names import take
from tensmith.lifting import assumptions, loops
from tensmith.lifting.limit import Deadline
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.python.infer import infer
from tensmith.lifting.source.python.jumps import structured
from tensmith.lifting.source.python.kinds import AnyKind, ArrayKind, NumberKind
from tensmith.lifting.source.python.liveness import Liveness, Names, analyse, assigned
from tensmith.lifting.source.python.module import Module, dotted, local_names, place
from tensmith.lifting.source.python.types import Types
from tensmith.lifting.source.python.whitelist import ELSEWHERE, admit
from tensmith.registry import entered_in

_MOST_STATEMENTS = 20_000
_NONE: Names = frozenset()


@dataclass(frozen=True)
class ScalarValue:
    """A scalar value: an expression and its kind."""

    expr: Expr
    kind: NumberKind


@dataclass(frozen=True)
class Local:
    """A scalar variable that has been declared."""

    name: str
    kind: NumberKind

    def at(self, position: SourcePosition) -> ScalarValue:
        """Its value, read there."""
        return ScalarValue(variable(self.name, self.kind.scalar, position), self.kind)


@dataclass(frozen=True)
class ArrayRef:
    """An array, or a row of one: array[prefix], which has `kind.rank` subscripts left."""

    name: str
    kind: ArrayKind
    prefix: tuple[Expr, ...] = ()

    def row(self, index: Expr) -> ArrayRef:
        """array[prefix][index], of an array of more than one subscript left."""
        assert isinstance(self.kind.row, ArrayKind)
        return ArrayRef(self.name, self.kind.row, (*self.prefix, index))


Value: TypeAlias = ScalarValue | ArrayRef
Binding: TypeAlias = ScalarValue | Local | ArrayRef


@dataclass(frozen=True)
class Code:
    """A function ready for lowering."""

    function: ast.FunctionDef
    body: Sequence[ast.stmt]
    types: Types
    live: Liveness
    rebound: Names  # names its statements assign
    once: Names  # names they assign in one place only
    locals: Names  # parameters and every name assigned anywhere, reached or not: Python's scope
    expressions: tuple[ast.AST, ...]  # what has to be read

    @staticmethod
    def of(module: Module, function: ast.FunctionDef, given: dict[str, AnyKind] | None = None) -> Code:
        expressions = admit(function)
        body = structured(module, function)
        places = Counter(
            node.id
            for statement in body
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        )
        once = frozenset(name for name, count in places.items() if count == 1)
        types = infer(module, function, body, given)
        return Code(
            function, body, types, analyse(body), assigned(body), once, local_names(function), expressions
        )


@dataclass
class PythonFrame:
    """A function being lowered: the outermost, or one inlined into it. carried: names that the block
    assigns for readers outside it."""

    code: Code
    names: dict[str, Binding] = field(default_factory=dict)
    carried: Names = _NONE


class PythonScope:
    """See the module."""

    def __init__(self, module: Module, deadline: Deadline) -> None:
        self.module, self.deadline = module, deadline
        self.statements: list[loops.Statement] = []
        self.frames: list[PythonFrame] = []
        self.used: set[str] = set()
        self.labels: set[str] = set()
        self.noted: dict[str, None] = {}
        self.steady: set[str] = set()  # variables that keep their value while they are in sight
        self.home: dict[str, list[loops.Statement]] = {}  # local array -> the block that made it
        self.given_away: dict[str, SourcePosition] = {}  # local arrays appended to another
        self.constant_arrays: set[str] = set()  # lists that belong to the file
        self.visited: set[ast.AST] = set()  # nodes that a handler has read
        self.made = 0
        self.hint = ""

    @property
    def frame(self) -> PythonFrame:
        return self.frames[-1]

    # Statements.

    def emit(self, statement: loops.Statement) -> None:
        self.check_time(statement.position)
        self.statements.append(statement)

    def check_time(self, position: SourcePosition) -> None:
        """Refuses a function that grows without end."""
        self.made += 1
        if self.made > _MOST_STATEMENTS or self.deadline.passed:
            raise Refusal("the function is too long once its helpers are put in; split it", position)

    @contextmanager
    def block(self, carried: Names | None = None) -> Iterator[list[loops.Statement]]:
        """A block of its own: yields the list it is collected in. Names bound inside end with it."""
        outer, frame = self.statements, self.frame
        names, before = dict(frame.names), frame.carried
        self.statements = []
        frame.carried = before if carried is None else carried
        try:
            yield self.statements
        finally:
            self.statements, frame.names, frame.carried = outer, names, before

    # The second net: what no handler reads is refused.

    def visit(self, *nodes: ast.AST) -> None:
        """The nodes have been read."""
        self.visited.update(nodes)

    def visit_all(self, *nodes: ast.AST) -> None:
        """The nodes have been read with everything inside."""
        for node in nodes:
            self.visited.update(ast.walk(node))

    def check_visited(self, code: Code) -> None:
        """A Refusal at the first expression of a lowered function that no handler read."""
        left = [node for node in code.expressions if node not in self.visited]
        if left:
            first = min(left, key=lambda node: (place(node).line, place(node).column))
            raise Refusal(
                f"{ast.unparse(first)} is never reached, or has no meaning here; take it out", place(first)
            )

    # Names.

    def is_local(self, name: str) -> bool:
        """Whether the function has a variable of this name, set by now or not."""
        return name in self.frame.names or name in self.frame.code.locals

    def callee(self, node: ast.expr) -> str | None:
        """What a called expression names, as `Module.callee` says it; None for a variable of the function."""
        *outer, root = dotted(node)
        self.visit(*outer, root)
        if isinstance(root, ast.Name) and self.is_local(root.id):
            return None
        return self.module.callee(node)

    def fresh(self, name: str) -> str:
        """A name nothing else has: the source's own where it is free."""
        return take(name if name.isidentifier() else "result", self.used)

    def take_hint(self, otherwise: str) -> str:
        """The name of the variable that the value being made is for."""
        hint, self.hint = self.hint or otherwise, ""
        return hint

    def label(self, name: str, position: SourcePosition) -> str:
        """The unique label of a loop."""
        return loops.new_label(name, position, self.labels)

    def note(self, sentence: str) -> None:
        """Something assumed."""
        self.noted[sentence] = None

    def read(self, node: ast.Name) -> Value | None:
        """What a name stands for, if it is a variable in sight."""
        bound = self.frame.names.get(node.id)
        if isinstance(bound, Local):
            return bound.at(place(node))
        if isinstance(bound, ArrayRef):
            self.check_kept(bound, place(node))
        return bound

    # Variables.

    def declare(self, name: str, number: ScalarValue, position: SourcePosition) -> Local:
        """A new variable of the number's kind."""
        return self.variable(name, number.kind, number.expr, position)

    def variable(self, name: str, kind: NumberKind, value: Expr | None, position: SourcePosition) -> Local:
        """A new variable; it may have no value yet."""
        local = Local(self.fresh(name), kind)
        self.emit(loops.Declare(local.name, kind.scalar, value, position))
        return local

    def hold(self, name: str, number: ScalarValue, position: SourcePosition) -> ScalarValue:
        """The number as it is now, whatever is assigned later; what may fail does so here."""
        if self.is_steady(number.expr) and not may_fail(number.expr):
            return number
        local = self.declare(name, number, position)
        self.steady.add(local.name)
        return local.at(position)

    def is_steady(self, expr: Expr) -> bool:
        """Whether an expression has one value while it is in sight."""
        match expr:
            case Num():
                return True
            case Read(name):
                return name in self.steady
            case Call(_, arguments):
                return all(map(self.is_steady, arguments))
            case loops.Length(array):
                return array not in self.home
        return False

    # Arrays.

    def allocate(
        self,
        name: str,
        kind: ArrayKind,
        extents: Sequence[Expr],
        fill: Expr | None,
        position: SourcePosition,
    ) -> ArrayRef:
        """A new array; no extents: an empty list that grows. NumPy raises at a negative extent."""
        own = self.fresh(name)
        sizes = tuple(extents) or (Num(0, INT, position),) * kind.rank
        self.emit(loops.Allocate(own, kind.array(), sizes, fill, position, kind.numpy))
        self.home[own] = self.statements
        return ArrayRef(own, kind)

    def length(self, array: ArrayRef, axis: int, position: SourcePosition) -> ScalarValue:
        """The length of an axis of what is left of an array."""
        if axis >= array.kind.rank:
            raise Refusal(f"{array.name} has no axis {axis}; it has {array.kind.rank}", position)
        whole = len(array.prefix) + axis
        if whole and not array.kind.numpy and array.name not in self.home:
            self.note(assumptions.LISTS(array.name))
        return ScalarValue(loops.Length(array.name, whole, INT, position, array.prefix), NumberKind(INT))

    def touch(self, found: Value, position: SourcePosition) -> None:
        """Python has read this here, so it is there, whether its value serves or not."""
        if isinstance(found, ArrayRef) and found.prefix:
            self.declare("touched", self.length(found, 0, position), position)
        elif isinstance(found, ScalarValue):
            self.declare("touched", found, position)

    def load(self, array: ArrayRef, index: Expr, position: SourcePosition) -> Value:
        """array[index]: a number, or a row."""
        self.check_kept(array, position)
        if array.kind.rank > 1:
            held = self.hold("row", ScalarValue(index, NumberKind(INT)), position)
            return array.row(held.expr)
        element = array.kind.element
        return ScalarValue(loops.Load(array.name, (*array.prefix, index), element.scalar, position), element)

    def store(self, array: ArrayRef, index: Expr, value: Expr, position: SourcePosition) -> None:
        self.check_kept(array, position)
        if array.name in self.constant_arrays:
            raise Refusal(
                "a list of the file is changed, and the next call would find it so; copy it first", position
            )
        self.emit(loops.Store(array.name, (*array.prefix, index), value, position))

    def append(self, array: ArrayRef, value: Expr | str, position: SourcePosition) -> None:
        """Appends a number, or a local array, which must not be touched again."""
        self.check_kept(array, position)
        if array.name not in self.home or array.prefix:
            raise Refusal(
                "append to a list that the function did not make changes its argument's length; "
                "make a new list and return it",
                position,
            )
        if isinstance(value, str):
            if self.home.get(value) is not self.statements:
                raise Refusal(
                    "the same list is appended more than once, so its rows would be one list; "
                    "make the row where it is appended",
                    position,
                )
            if value in self.given_away:
                self.check_kept(ArrayRef(value, array.kind), position)
            self.given_away[value] = position
        self.emit(loops.Append(array.name, value, position))

    def check_kept(self, array: ArrayRef, position: SourcePosition) -> None:
        if array.name in self.given_away:
            raise Refusal(
                f"{array.name} was appended at {self.given_away[array.name]} and is shared from then on; "
                "append it last",
                position,
            )


EXPRESSIONS: dict[type[ast.expr], Callable[[PythonScope, Any], Value]] = {}
lowers = entered_in(EXPRESSIONS)


def value(scope: PythonScope, node: ast.expr) -> Value:
    """An expression, lowered; statements it needs are emitted before."""
    lower = EXPRESSIONS.get(type(node))
    scope.visit(node)
    if lower is None:
        what = ELSEWHERE.get(type(node).__name__, type(node).__name__)
        raise Refusal(f"{what} cannot be lifted; use numbers, lists of numbers and loops", place(node))
    return lower(scope, node)


def fixed(scope: PythonScope, node: ast.expr, refused: str) -> Value:
    """An expression of the file, where names mean what they mean outside of every function; `refused`: why
    not, where no handler read a part of it."""
    expressions = admit(node)
    scope.frames.append(PythonFrame(replace(scope.frame.code, locals=_NONE)))
    try:
        found = value(scope, node)
    finally:
        scope.frames.pop()
    if not scope.visited.issuperset(expressions):
        raise Refusal(refused, place(node))
    return found


def number(scope: PythonScope, node: ast.expr) -> ScalarValue:
    """An expression that must be a number."""
    found = value(scope, node)
    if isinstance(found, ArrayRef):
        raise Refusal("a list stands where a number is needed; take an element, or write a loop", place(node))
    return found


def may_fail(expr: Expr) -> bool:
    """Whether an expression reads an array, or asks a row of it, or divides."""
    match expr:
        case loops.Load():
            return True
        case Call(operator, arguments):
            return operator in ("div", "floor_div", "mod", "left_shift", "right_shift") or any(
                map(may_fail, arguments)
            )
        case loops.Length(row=row):
            return bool(row)
    return False


def integer(scope: PythonScope, node: ast.expr) -> Expr:
    """An expression that must be an integer, as an unbounded one."""
    found = number(scope, node)
    if found.kind.scalar.kind != "int":
        raise Refusal(
            f"an integer is needed here, not a {found.kind.scalar.kind}; convert it by int()", place(node)
        )
    if found.expr.type == INT:
        return found.expr
    if isinstance(found.expr, Num):
        return Num(found.expr.value, INT, found.expr.position)
    return Call("cast", (found.expr,), INT, place(node))


def condition(scope: PythonScope, node: ast.expr) -> ScalarValue:
    """An expression that is looked at as true or false: a number, or whether a list has elements."""
    found = value(scope, node)
    if isinstance(found, ScalarValue):
        return found
    if found.kind.numpy:
        what = f"whether {ast.unparse(node)} is true is asked of an array of NumPy"
        raise Refusal(f"{what}; write len({ast.unparse(node)}) > 0", place(node))
    return scope.length(found, 0, place(node))


def array(scope: PythonScope, node: ast.expr) -> ArrayRef:
    """An expression that must be a list or an array."""
    return listed(value(scope, node), node)


def listed(found: Value, node: ast.expr) -> ArrayRef:
    """The value of an expression, which must be a list or an array."""
    if isinstance(found, ScalarValue):
        raise Refusal("a number stands where a list is needed; pass the list", place(node))
    return found
