"""Rooms ask what an op is to them, by a trait or a family that it declares, by `Handlers`, or by a pattern.

A comparison with an op's name outside of the room that declares ops is a fact about the op that stands in the
wrong place: a new op would be overlooked there. The ones that are left are listed with their reasons.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from tensmith.ir.op import OPS

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "tensmith"

# File -> (how many lines compare names, why). `lifting` is not counted: it has a term language of its own.
LEFT = {
    "rewrite/match.py": (1, "the matcher of patterns itself"),
    "rewrite/tokens/caching.py": (
        3,
        "a mask's triangle, what is spread, and slices, cut by the rows that are new",
    ),
    "rewrite/tokens/row_rules.py": (2, "shapes that say how many rows there are"),
    "rewrite/term.py": (1, "sums and products without an operand"),
    "rewrite/rule.py": (1, "rules are offered nodes of the ops that they declare"),
    "rewrite/law.py": (1, "whether a node is one of the ops that a law writes itself"),
    "backend/native/steps/patterns.py": (1, "the one test for sums of two values, for all epilogues"),
    "backend/native/steps/parts.py": (2, "a padding of a slice is one copy"),
    "backend/native/prepare/packed.py": (1, "a pass over one op"),
    "equality/cuts.py": (1, "a guess where degrees grow; a wrong one costs time alone"),
    "equality/sampling.py": (1, "the numbers at which an op cuts a size"),
    "evaluate/count.py": (1, "what engines take into the kernel beside it"),
    "rewrite/exact/codes.py": (2, "the ops that the rule's lemmas are about"),
    "rewrite/exact/elementwise.py": (1, "a pattern with any elementwise op at its root"),
    "rewrite/exact/identity.py": (1, "an identity needs no other one in its place"),
    "rewrite/exact/merge.py": (3, "the ops that the rule's lemmas are about"),
    "rewrite/exact/transpose.py": (1, "patterns with any elementwise op between two transposes"),
    "rewrite/kept.py": (1, "a table of words is a layer"),
    "rewrite/lossy/placement.py": (2, "the ops for which engines have 8-bit kernels"),
    "rewrite/lossy/weights.py": (2, "weights that are stored turned; rows that are looked up"),
    "verify/difference.py": (1, "a mask is what is added before a softmax"),
}
MOST = 30


def is_op(expr: ast.expr) -> bool:
    """Whether an expression is the name of something's op, or several in a tuple."""
    if isinstance(expr, ast.Tuple):
        return any(map(is_op, expr.elts))
    return isinstance(expr, ast.Attribute) and expr.attr == "op"


def names_an_op(node: ast.AST) -> bool:
    """Whether a piece of code compares an op's name, matches it, or looks it up in a table of names."""
    match node:
        case ast.Compare(left=left, comparators=others):
            return any(map(is_op, (left, *others)))
        case ast.Match(subject=subject):
            return is_op(subject)
        case ast.Call(func=ast.Attribute(attr="get"), args=args):
            return any(map(is_op, args))
        case ast.Call(func=ast.Attribute(attr="kind"), args=[ast.Name(id=name)]):
            return name in {type(op).__name__ for op in OPS.values()}  # one op's class is its name, too
    return False


def found(package: Path) -> Counter[str]:
    """Lines by file."""
    lines: set[tuple[str, int]] = set()
    for path in package.rglob("*.py"):
        inside = path.relative_to(package)
        if inside.parts[0] not in ("ir", "lifting"):
            code = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            lines.update((inside.as_posix(), node.lineno) for node in code if names_an_op(node))
    return Counter(name for name, _ in lines)


def test_names_of_ops_are_compared_where_there_is_a_reason() -> None:
    counted = found(PACKAGE)
    assert counted == Counter({name: count for name, (count, _) in LEFT.items()})
    assert counted.total() <= MOST


def test_name_tests_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "a = node.op == 'add'\nb = 'add' != node.op\nc = x.y.op in NAMES\nd = TABLE.get(node.op)\n"
        "f = node.kind(Gemm)\ng = node.kind(Elementwise)\nh = (a.op, b.op) == ('mul', 'add')\n"
        "match node.op:\n    case 'add':\n        pass\n"
    )
    assert found(tmp_path) == Counter({"a.py": 7})
