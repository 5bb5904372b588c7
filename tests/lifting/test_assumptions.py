"""Every sentence that a lift assumes is known, and says what it excuses."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tensmith.lifting
from tensmith.lifting import assumptions
from tensmith.lifting.assumptions import Assumption, Excuse, excused

LIFTING = Path(tensmith.lifting.__file__).parent
KNOWN = {name: each for name, each in vars(assumptions).items() if isinstance(each, Assumption)}


def stated(node: ast.AST) -> bool:
    """Whether an expression is `assumptions.NAME(...)`."""
    match node:
        case ast.Call(ast.Attribute(ast.Name("assumptions"), name)):
            return name in KNOWN
    return False


def sentences(path: Path) -> list[ast.Call]:
    """The calls of `note` in a file; those of its definitions aside."""
    tree = ast.parse(path.read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "note"]


def test_front_ends_note_nothing_in_words_of_their_own() -> None:
    found = {path: sentences(path) for path in LIFTING.rglob("*.py")}
    assert sum(map(len, found.values())) > 25
    wrong = [
        f"{path.name}:{call.lineno}"
        for path, calls in found.items()
        for call in calls
        if not all(map(stated, call.args))
    ]
    assert not wrong


def test_every_assumption_is_stated_somewhere() -> None:
    texts = "".join(path.read_text() for path in LIFTING.rglob("*.py"))
    assert not [name for name in KNOWN if f"assumptions.{name}(" not in texts]


@pytest.mark.parametrize("name", KNOWN)
def test_a_sentence_is_known_again(name: str) -> None:
    each = KNOWN[name]
    sentence = each(*["x"] * each.template.count("{"))
    assert each.matches(sentence) and not each.matches(f"{sentence} at times")
    assert excused([sentence]) == each.excuses != frozenset()


def test_an_unknown_sentence_excuses_nothing() -> None:
    with pytest.raises(ValueError, match="nobody knows"):
        excused(["divisors are not zero"])
    assert Excuse.DIVISION not in excused([assumptions.REALS()])
