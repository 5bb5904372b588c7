"""What becomes of every node of Python's syntax and of every field of it: read by a handler, without effect
on values, or refused by name. What is not listed here is refused, as newer versions of Python will add to it.

A node that is refused in one place and read in another (a tuple, a slice) is listed as read; where no
handler reads it, `ELSEWHERE` has the words.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

from tensmith.formula.expr import SourcePosition
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.python.module import place

Field = str | tuple[str, str]  # of every node, or of one


def _each(names: str, text: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), text)


_NO_DEL = "del cannot be lifted; leave it out"
_TYPE_PARAMETERS = "type parameters cannot be lifted; write the types out"
_NAMES = "*args, **kwargs and keyword-only parameters cannot be lifted; name every parameter in order"
_TRY = "try cannot be lifted; handle errors where the function is called"
_WITH = "with cannot be lifted; open and close things where the function is called"
_INSIDE = "a function inside a function cannot be lifted; move it to the top of the file"
_IMPORT = "an import inside a function cannot be lifted; move it to the top of the file"
_ASYNC = "async cannot be lifted; write a plain for"
_STRING = "a string cannot be lifted; use numbers, lists of numbers and loops"
_MATCH = "match cannot be lifted; write if and elif"

# What handlers read: a node, and those of its fields that hold parts of the body. `FunctionDef` is the
# function that is lifted; one inside another is refused.
READ: Mapping[str, str] = {
    "FunctionDef": "name args body",
    "arguments": "posonlyargs args",
    "arg": "arg",
    "Return": "value",
    "Assign": "targets value",
    "AugAssign": "target op value",
    "AnnAssign": "target value",
    "For": "target iter body orelse",
    "While": "test body orelse",
    "If": "test body orelse",
    "Assert": "",
    "Expr": "value",
    "Pass": "",
    "Continue": "",
    "Break": "",
    "Constant": "value",
    "Name": "id",
    "Attribute": "value attr",
    "Subscript": "value slice",
    "Slice": "lower upper step",
    "BinOp": "left op right",
    "UnaryOp": "op operand",
    "Compare": "left ops comparators",
    "BoolOp": "op values",
    "IfExp": "test body orelse",
    "Call": "func args keywords",
    "List": "elts",
    "Tuple": "elts",
    "ListComp": "elt generators",
    "GeneratorExp": "elt generators",
    "comprehension": "target iter ifs",
    "keyword": "arg value",
    **_each("Add Sub Mult Div Mod Pow FloorDiv LShift RShift BitOr BitXor BitAnd", ""),
    **_each("And Or Invert Not UAdd USub Eq NotEq Lt LtE Gt GtE Load Store", ""),
}
# Fields without effect on values, and those that one function reads by itself.
SKIPPED: Collection[Field] = {
    "type_comment",
    "ctx",  # said by where the node stands
    ("FunctionDef", "decorator_list"),  # inline.plain_function
    ("FunctionDef", "returns"),  # infer.Inference.returned
    ("arguments", "defaults"),  # inline._arguments
    ("arg", "annotation"),  # kinds.read_annotation
    ("AnnAssign", "annotation"),  # not evaluated inside a function, and binds nothing
    ("AnnAssign", "simple"),  # whether the target stands in parentheses
    ("Assert", "test"),  # asserts.assertion
    ("Assert", "msg"),  # evaluated where the assertion fails
    ("Constant", "kind"),  # the u of a string
}
# Fields that are refused unless they are empty.
EMPTY: Mapping[Field, str] = {
    "type_params": _TYPE_PARAMETERS,
    "vararg": _NAMES,
    "kwonlyargs": _NAMES,
    "kw_defaults": _NAMES,
    "kwarg": _NAMES,
    "is_async": _ASYNC,
}
REFUSED: Mapping[str, str] = {
    # Statements.
    **_each("Raise", "raise ends the function where the data says; check the condition in the caller"),
    **_each("Try TryStar", _TRY),
    **_each("With AsyncWith", _WITH),
    **_each("AsyncFor", _ASYNC),
    **_each("Global", "a global variable is written; pass the value in and return the new one"),
    **_each(
        "Nonlocal", "a variable of an outer function is written; pass the value in and return the new one"
    ),
    **_each("Delete", _NO_DEL),
    **_each("Match", _MATCH),
    **_each("FunctionDef", _INSIDE),
    **_each("AsyncFunctionDef", "an async function cannot be lifted; write a plain def"),
    **_each("ClassDef", "a class cannot be lifted; use lists and numbers"),
    **_each("Import ImportFrom", _IMPORT),
    **_each("TypeAlias", "a type alias inside a function cannot be lifted; write the type out"),
    # Expressions.
    **_each(
        "Dict DictComp", "a dictionary cannot be lifted; use numbers, lists of numbers and loops"
    ),
    **_each("Set SetComp", "a set cannot be lifted; use numbers, lists of numbers and loops"),
    **_each("JoinedStr FormattedValue TemplateStr Interpolation", _STRING),
    **_each("Lambda", "a lambda cannot be lifted; use numbers, lists of numbers and loops"),
    **_each("Yield YieldFrom", "a generator cannot be lifted; append to a list and return it"),
    **_each("Await", "await cannot be lifted; use numbers, lists of numbers and loops"),
    **_each("NamedExpr", "an assignment inside an expression cannot be lifted; write it on a line before"),
    **_each("Starred", "an unpacked argument or a starred name cannot be lifted; name them one by one"),
    # Parts of them.
    **_each("ExceptHandler", _TRY),
    **_each("withitem", _WITH),
    **_each("match_case", _MATCH),
    **_each("MatchValue MatchSingleton MatchSequence MatchMapping", _MATCH),
    **_each("MatchClass MatchStar MatchAs MatchOr", _MATCH),
    **_each("alias", _IMPORT),
    **_each("TypeVar ParamSpec TypeVarTuple", _TYPE_PARAMETERS),
    **_each("MatMult", "the product of matrices cannot be lifted from an operator; write the loops"),
    **_each("Is IsNot In NotIn", "is and in cannot be lifted; compare numbers by == and <"),
    **_each("Del", _NO_DEL),
    # What never stands inside a function, and what no parser makes any more.
    **_each("Module TypeIgnore Interactive Expression FunctionType", "only files are read; give a file"),
    **_each(
        "AugLoad AugStore Param Suite Index ExtSlice Num Str Bytes NameConstant Ellipsis",
        "syntax of an older Python; write it for this one",
    ),
}  # fmt: skip

# Words for what is read in some places only, where it stands in another.
ELSEWHERE = {
    "Slice": "a slice",
    "Tuple": "a tuple",
    "GeneratorExp": "a generator outside of sum, min and max",
}


def admit(root: ast.AST) -> tuple[ast.AST, ...]:
    """The expressions of a function or of a constant's value that a handler has to read, outer ones first.

    Raises a Refusal at the first node or field that is refused or not listed.
    """
    found: list[ast.AST] = []
    stack = [(root, place(root))]
    while stack:
        node, where = stack.pop()
        kind = type(node).__name__
        whole = node is root and isinstance(node, ast.FunctionDef)
        if kind in REFUSED and not whole:
            raise Refusal(REFUSED[kind], where)
        if kind not in READ:
            raise Refusal(f"{kind} is not known here; write it in older syntax", where)
        if isinstance(node, ast.expr):
            found.append(node)
        stack += reversed([(part, _place(part, where)) for part in _children(node, kind, where)])
    return tuple(found)


def _place(node: object, otherwise: SourcePosition) -> SourcePosition:
    return place(node) if isinstance(node, ast.AST) and hasattr(node, "lineno") else otherwise


def _children(node: ast.AST, kind: str, where: SourcePosition) -> Iterator[ast.AST]:
    """The nodes in the fields that are read, in order."""
    for name in node._fields:
        held = getattr(node, name, None)
        parts = [part for part in (held if isinstance(held, list) else [held]) if part]
        empty = EMPTY.get((kind, name)) or EMPTY.get(name)
        if name in READ[kind].split():
            yield from (part for part in parts if isinstance(part, ast.AST))
        elif empty and parts:
            raise Refusal(empty, _place(parts[0], where))
        elif not empty and name not in SKIPPED and (kind, name) not in SKIPPED:
            raise Refusal(f"{name} is not known here; write it in older syntax", where)
