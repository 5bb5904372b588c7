"""Which variables a function changes: what is never changed can be bound once and for all."""

from __future__ import annotations

from tensmith.lifting.source.c.cursor import Cursor, children, descendants, initializer, key, kind, operator
from tensmith.lifting.source.c.types import is_reference, vector_element

MUTATORS = ("push_back", "emplace_back", "resize", "assign", "clear", "pop_back", "insert", "erase", "swap")
ITERATORS = ("data", "begin", "end")


def written(function: Cursor) -> frozenset[int]:
    """The declarations that are assigned to, stepped, grown, or handed out by address or reference."""
    found: set[int] = set()
    for cursor in descendants(function):
        for target in targets(cursor):
            found |= root(target)
    return frozenset(found)


def targets(cursor: Cursor) -> list[Cursor]:
    """The expressions that a cursor changes, or lets others change."""
    match kind(cursor):
        case "UNARY_OPERATOR":
            sign = operator(cursor)
            return children(cursor)[:1] if sign == "&" or sign[-2:] in ("++", "--") else []
        case "BINARY_OPERATOR":
            return children(cursor)[:1] if operator(cursor) == "=" else []
        case "COMPOUND_ASSIGNMENT_OPERATOR":
            return children(cursor)[:1]
        case "VAR_DECL":
            first = initializer(cursor) if changeable(cursor.type) else None
            return [first] if first is not None else []
        case "CXX_FOR_RANGE_STMT":
            parts = children(cursor)
            return [parts[1]] if len(parts) == 3 and changeable(parts[0].type) else []
        case "CALL_EXPR":
            return arguments(cursor)
    return []


def arguments(call: Cursor) -> list[Cursor]:
    """What a call may change: the vector a method belongs to, or gives a way into; arguments passed by
    reference."""
    function = call.referenced
    if function is None:
        return []
    if kind(function) == "CXX_METHOD" and call.spelling in ITERATORS and not function.is_const_method():
        return children(call)[:1]
    if kind(function) == "CXX_METHOD" and call.spelling in (*MUTATORS, "operator="):
        return children(call)[:1]
    if kind(function) in ("CONSTRUCTOR", "CXX_METHOD") and vector_element(call.type) is not None:
        return []
    if call.spelling in ("operator[]", "at", "min", "max"):
        return []
    pairs = zip(function.get_arguments(), call.get_arguments(), strict=False)
    return [given for parameter, given in pairs if changeable(parameter.type)]


def changeable(kind_of: object) -> bool:
    """Whether a type is a reference through which one may write."""
    reference = kind_of.get_canonical()  # type: ignore[attr-defined]
    return is_reference(kind_of) and not reference.get_pointee().is_const_qualified()


def root(cursor: Cursor) -> set[int]:
    """The variable whose own memory an expression names: v for v[i] where v is a vector, none for p[i]."""
    while True:
        match kind(cursor):
            case "DECL_REF_EXPR":
                return {key(cursor.referenced)} if cursor.referenced is not None else set()
            case "CONDITIONAL_OPERATOR":
                return root(children(cursor)[1]) | root(children(cursor)[2])
            case "UNARY_OPERATOR" | "ARRAY_SUBSCRIPT_EXPR":
                return set()  # through a pointer; a local array is not tracked
        inner = children(cursor)
        if not inner:
            return set()
        cursor = inner[0]


def changes(cursor: Cursor) -> bool:
    """Whether evaluating may change a variable: an assignment, a step, a call that is handed a way to one."""
    for inner in descendants(cursor):
        match kind(inner):
            case "UNARY_OPERATOR" if operator(inner)[-2:] in ("++", "--"):
                return True
            case "BINARY_OPERATOR" if operator(inner) == "=":
                return True
            case "COMPOUND_ASSIGNMENT_OPERATOR":
                return True
            case "CALL_EXPR" if inner.referenced is None or hands_out(inner.referenced):
                return True
    return False


def written_and_read(arguments: list[Cursor]) -> set[str]:
    """The variables in an argument with effects that another argument names too."""
    named = [
        {inner.spelling for inner in descendants(argument) if kind(inner) == "DECL_REF_EXPR"}
        for argument in arguments
    ]
    return {
        name
        for number, argument in enumerate(arguments)
        if changes(argument)
        for other, names in enumerate(named)
        if other != number
        for name in named[number] & names
    }


def postpones(cursor: Cursor) -> bool:
    """Whether an expression holds an x++ or x--, which happens after its value is read."""
    steps = (inner for inner in descendants(cursor) if kind(inner) == "UNARY_OPERATOR")
    return any(operator(step)[-2:] in ("++", "--") and operator(step)[:3] != "pre" for step in steps)


def hands_out(function: Cursor) -> bool:
    """Whether a function may write through one of its parameters."""
    if kind(function) in ("CXX_METHOD", "CONSTRUCTOR"):
        return function.spelling in (*MUTATORS, "operator=")
    for parameter in function.get_arguments():
        kind_of = parameter.type.get_canonical()
        if kind_of.kind.name == "POINTER" and not kind_of.get_pointee().is_const_qualified():
            return True
        if changeable(parameter.type):
            return True
    return False


def returns(function: Cursor) -> list[Cursor]:
    """All return statements of a function."""
    return [cursor for cursor in descendants(function) if kind(cursor) == "RETURN_STMT"]


def body(function: Cursor) -> Cursor:
    """The statements of a function definition."""
    return children(function)[-1]
