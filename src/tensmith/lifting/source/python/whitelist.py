"""What becomes of every node of Python's syntax and of every field of it: read by a handler, without effect
on values, or refused by name. What is not listed here is refused, as newer versions of Python will add to it.

A node that is refused in one place and read in another (a tuple, a slice) is listed as read; where no
handler reads it, `ELSEWHERE` has the words.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tensmith.lifting.loops import SourcePosition
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.python.module import place
from tensmith.lifting.source.verdict import NoEffect, RefusedSyntax


@dataclass(frozen=True)
class ReadField:
    """by: the function that gives it its meaning, "module.function" in this folder.

    apart: that function alone says what it may hold; it is no expression of the body.
    """

    by: str
    apart: bool = False


Verdict: TypeAlias = ReadField | NoEffect | RefusedSyntax


@dataclass(frozen=True)
class AllowedNode:
    """A kind of node and its fields by name."""

    verdict: Verdict
    fields: Mapping[str, Verdict] = field(default_factory=dict)


def _node(by: str, *read: str, **others: Verdict) -> AllowedNode:
    return AllowedNode(ReadField(by), {**{name: ReadField(by) for name in read}, **others})


def _refused(names: str, sentence: str) -> dict[str, AllowedNode]:
    return {name: AllowedNode(RefusedSyntax(sentence)) for name in names.split()}


def _operators(by: str, names: str) -> dict[str, AllowedNode]:
    return {name: _node(f"expressions.{by}") for name in names.split()}


_COMMENT = NoEffect("a comment")
_CONTEXT = NoEffect("said by where the node stands")
_NO_DEL = RefusedSyntax("del cannot be lifted; leave it out")
_TYPE_PARAMETERS = RefusedSyntax("type parameters cannot be lifted; write the types out")
_NAMES = RefusedSyntax(
    "*args, **kwargs and keyword-only parameters cannot be lifted; name every parameter in order"
)
_TRY = "try cannot be lifted; handle errors where the function is called"
_WITH = "with cannot be lifted; open and close things where the function is called"
_INSIDE = "a function inside a function cannot be lifted; move it to the top of the file"
_IMPORT = "an import inside a function cannot be lifted; move it to the top of the file"
_ASYNC = "async cannot be lifted; write a plain for"
_STRING = "a string cannot be lifted; use numbers, lists of numbers and loops"
_MATCH = "match cannot be lifted; write if and elif"

# The function that is lifted, and the parts of its signature. One inside another is refused, see `NODES`.
FUNCTION = _node(
    "read.read_function",
    "name",
    "args",
    "body",
    decorator_list=ReadField("inline.plain_function", apart=True),
    returns=ReadField("infer.Inference.returned", apart=True),
    type_comment=_COMMENT,
    type_params=_TYPE_PARAMETERS,
)
_SIGNATURE = {
    "arguments": _node(
        "read._lower",
        "posonlyargs",
        "args",
        vararg=_NAMES,
        kwonlyargs=_NAMES,
        kw_defaults=_NAMES,
        kwarg=_NAMES,
        defaults=ReadField("inline._arguments", apart=True),
    ),
    "arg": _node(
        "read._lower",
        "arg",
        annotation=ReadField("kinds.read_annotation", apart=True),
        type_comment=_COMMENT,
    ),
}
_STATEMENTS = {
    "Return": _node("statements._returned", "value"),
    "Assign": _node("statements._assign", "targets", "value", type_comment=_COMMENT),
    "AugAssign": _node("statements._augmented", "target", "op", "value"),
    "AnnAssign": _node(
        "statements._assign",
        "target",
        "value",
        annotation=NoEffect("not evaluated inside a function, and binds nothing"),
        simple=NoEffect("whether the target stands in parentheses"),
    ),
    "For": _node(
        "statements._for",
        "target",
        "iter",
        "body",
        orelse=RefusedSyntax("an else after a loop is not lifted; move it after the loop"),
        type_comment=_COMMENT,
    ),
    "While": _node(
        "statements._while",
        "test",
        "body",
        orelse=RefusedSyntax("an else after a loop is not lifted; move it after the loop"),
    ),
    "If": _node("statements._if", "test", "body", "orelse"),
    "Assert": _node(
        "asserts.assertion",
        test=ReadField("asserts.assertion", apart=True),
        msg=NoEffect("evaluated where the assertion fails"),
    ),
    "Expr": _node("statements._expression", "value"),
    "Pass": _node("statements._statement"),
    "Continue": _node("jumps.structured"),
    **_refused(
        "Break",
        "break ends the loop where the data says; give the loop its number of iterations, "
        "or guard its body by an if",
    ),
    **_refused("Raise", "raise ends the function where the data says; check the condition in the caller"),
    **_refused("Try TryStar", _TRY),
    **_refused("With AsyncWith", _WITH),
    **_refused("AsyncFor", _ASYNC),
    **_refused("Global", "a global variable is written; pass the value in and return the new one"),
    **_refused(
        "Nonlocal", "a variable of an outer function is written; pass the value in and return the new one"
    ),
    **_refused("Delete", _NO_DEL.why),
    **_refused("Match", _MATCH),
    **_refused("FunctionDef", _INSIDE),
    **_refused("AsyncFunctionDef", "an async function cannot be lifted; write a plain def"),
    **_refused("ClassDef", "a class cannot be lifted; use lists and numbers"),
    **_refused("Import ImportFrom", _IMPORT),
    **_refused("TypeAlias", "a type alias inside a function cannot be lifted; write the type out"),
}  # fmt: skip
_EXPRESSIONS = {
    "Constant": _node("expressions._constant", "value", kind=NoEffect("the u of a string")),
    "Name": _node("expressions._name", "id", ctx=_CONTEXT),
    "Attribute": _node("expressions._attribute", "value", "attr", ctx=_CONTEXT),
    "Subscript": _node("expressions._subscript", "value", "slice", ctx=_CONTEXT),
    "Slice": _node("comprehensions.row_copy", "lower", "upper", "step"),
    "BinOp": _node("expressions._binary", "left", "op", "right"),
    "UnaryOp": _node("expressions._unary", "op", "operand"),
    "Compare": _node("expressions._compare", "left", "ops", "comparators"),
    "BoolOp": _node("expressions._logic", "op", "values"),
    "IfExp": _node("expressions._choice", "test", "body", "orelse"),
    "Call": _node("calls._call", "func", "args", "keywords"),
    "List": _node("comprehensions._display", "elts", ctx=_CONTEXT),
    "Tuple": _node("statements._unpack", "elts", ctx=_CONTEXT),
    "ListComp": _node("comprehensions._comprehension", "elt", "generators"),
    "GeneratorExp": _node("comprehensions.each", "elt", "generators"),
    **_refused(
        "Dict DictComp", "a dictionary cannot be lifted; use numbers, lists of numbers and loops"
    ),
    **_refused("Set SetComp", "a set cannot be lifted; use numbers, lists of numbers and loops"),
    **_refused("JoinedStr FormattedValue TemplateStr Interpolation", _STRING),
    **_refused("Lambda", "a lambda cannot be lifted; use numbers, lists of numbers and loops"),
    **_refused("Yield YieldFrom", "a generator cannot be lifted; append to a list and return it"),
    **_refused("Await", "await cannot be lifted; use numbers, lists of numbers and loops"),
    **_refused("NamedExpr", "an assignment inside an expression cannot be lifted; write it on a line before"),
    **_refused("Starred", "an unpacked argument or a starred name cannot be lifted; name them one by one"),
}  # fmt: skip
_PARTS = {
    "comprehension": _node("comprehensions.clauses", "target", "iter", "ifs", is_async=RefusedSyntax(_ASYNC)),
    "keyword": _node("names.check_arguments", "arg", "value"),
    **_refused("ExceptHandler", _TRY),
    **_refused("withitem", _WITH),
    **_refused("match_case", _MATCH),
    **_refused("MatchValue MatchSingleton MatchSequence MatchMapping", _MATCH),
    **_refused("MatchClass MatchStar MatchAs MatchOr", _MATCH),
    **_refused("alias", _IMPORT),
    **_refused("TypeVar ParamSpec TypeVarTuple", _TYPE_PARAMETERS.why),
}
_OPERATORS = {
    **_operators("operate", "Add Sub Mult Div Mod Pow FloorDiv LShift RShift BitOr BitXor BitAnd"),
    **_operators("_logic", "And Or"),
    **_operators("_unary", "Invert Not UAdd USub"),
    **_operators("_compare", "Eq NotEq Lt LtE Gt GtE"),
    **_refused("MatMult", "the product of matrices cannot be lifted from an operator; write the loops"),
    **_refused("Is IsNot In NotIn", "is and in cannot be lifted; compare numbers by == and <"),
}
_CONTEXTS = {
    "Load": _node("scope.value"),
    "Store": _node("statements._put"),
    "Del": AllowedNode(_NO_DEL),
}
# Whole sources; only Module is ever made here. Those that no parser makes any more are named all the same.
_SOURCES = {
    "Module": _node("module.parse_module", "body", type_ignores=_COMMENT),
    "TypeIgnore": AllowedNode(_COMMENT),
    **_refused("Interactive Expression FunctionType", "only files are read; give a file"),
    **_refused(
        "AugLoad AugStore Param Suite Index ExtSlice Num Str Bytes NameConstant Ellipsis",
        "syntax of an older Python; write it for this one",
    ),
}
NODES: Mapping[str, AllowedNode] = {
    **_SIGNATURE,
    **_STATEMENTS,
    **_EXPRESSIONS,
    **_PARTS,
    **_OPERATORS,
    **_CONTEXTS,
    **_SOURCES,
}

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
        rule = FUNCTION if node is root and isinstance(node, ast.FunctionDef) else NODES.get(_kind(node))
        if rule is None:
            raise Refusal(f"{_kind(node)} is not known here; write it in older syntax", where)
        if isinstance(rule.verdict, RefusedSyntax):
            raise Refusal(rule.verdict.why, where)
        if isinstance(node, ast.expr):
            found.append(node)
        stack += reversed([(part, _place(part, where)) for part in _children(node, rule, where)])
    return tuple(found)


def _kind(node: ast.AST) -> str:
    return type(node).__name__


def _place(node: object, otherwise: SourcePosition) -> SourcePosition:
    return place(node) if isinstance(node, ast.AST) and hasattr(node, "lineno") else otherwise


def _children(node: ast.AST, rule: AllowedNode, where: SourcePosition) -> Iterator[ast.AST]:
    """The nodes in the fields that are read, in order."""
    for name in node._fields:
        held = getattr(node, name, None)
        parts = [part for part in (held if isinstance(held, list) else [held]) if part]
        match rule.fields.get(name):
            case None:
                raise Refusal(f"{name} is not known here; write it in older syntax", where)
            case RefusedSyntax(sentence) if parts:
                raise Refusal(sentence, _place(parts[0], where))
            case ReadField(apart=False):
                yield from (part for part in parts if isinstance(part, ast.AST))
