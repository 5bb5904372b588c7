"""Python expressions with their precedence, and how an op becomes one: a line in a target's table.

TABLE = {"add": infix("+", SUM), "exp": call("np.exp"), "cast": cast}
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tensmith.ir import Node

# Binding strength of Python's operators, weakest first.
OR, AND, NOT, COMPARISON, BITS, SHIFT, SUM, PRODUCT, SIGN, ATOM = range(10)


@dataclass(frozen=True)
class ExpressionText:
    """An expression and how strongly its outermost operator binds.

    literal: a plain Python number, which takes the element type of what it meets.
    """

    code: str
    level: int = ATOM
    literal: bool = False

    def within(self, level: int) -> str:
        """The code as an operand of an operator of that level."""
        return self.code if self.level >= level else f"({self.code})"

    @property
    def atom(self) -> str:
        """The code where a name could stand."""
        return self.within(ATOM)


# (writer, node, operands) -> text
Rule: TypeAlias = Callable[[Any, Node, list[ExpressionText]], ExpressionText]


def infix(operator: str, level: int) -> Rule:
    """a + b + ...; the right operand of the same level is put in parentheses."""

    def rule(_: Any, node: Node, operands: list[ExpressionText]) -> ExpressionText:
        first, *others = operands
        strict = min(level + 1, ATOM)
        left = (
            strict if level in (COMPARISON, BITS) else level
        )  # comparisons do not chain, bits read better so
        return ExpressionText(
            f" {operator} ".join([first.within(left), *(o.within(strict) for o in others)]), level
        )

    return rule


def prefix(operator: str, level: int = SIGN) -> Rule:
    """-a."""
    return lambda _, node, operands: ExpressionText(f"{operator}{operands[0].within(level)}", level)


def call(function: str) -> Rule:
    """function(a, b, ...)."""
    return lambda _, node, operands: ExpressionText(f"{function}({', '.join(o.code for o in operands)})")


def nested(function: str) -> Rule:
    """function(function(a, b), c): a function of two, of any number."""

    def rule(_: Any, node: Node, operands: list[ExpressionText]) -> ExpressionText:
        code = operands[0].code
        for operand in operands[1:]:
            code = f"{function}({code}, {operand.code})"
        return ExpressionText(code)

    return rule


ARITHMETIC: dict[str, Rule] = {
    "add": infix("+", SUM), "sub": infix("-", SUM), "mul": infix("*", PRODUCT), "neg": prefix("-"),
    "less": infix("<", COMPARISON), "less_or_equal": infix("<=", COMPARISON),
    "greater": infix(">", COMPARISON), "greater_or_equal": infix(">=", COMPARISON),
    "equal": infix("==", COMPARISON), "and": infix("&", BITS), "or": infix("|", BITS),
    "xor": infix("^", BITS), "not": prefix("~"), "bitwise_and": infix("&", BITS),
    "bitwise_or": infix("|", BITS), "bitwise_xor": infix("^", BITS), "bitwise_not": prefix("~"),
    "matmul": infix("@", PRODUCT), "pow": call("pow"), "identity": lambda _, node, operands: operands[0],
}  # fmt: skip
