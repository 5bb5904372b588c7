"""Programs before and after a rule, as text without the frame."""

from __future__ import annotations

from textwrap import dedent, indent

from tensmith.ir import Program
from tensmith.ir.text import parse_program
from tensmith.rewrite.rule import EXACT
from tensmith.rewrite.trail import Traced, exhaust


def program(body: str) -> Program:
    """The program of a text without its frame."""
    return parse_program(f"program p {{\n{indent(dedent(body).strip(), '  ')}\n}}\n")


def after(body: str, *rules: str) -> str:
    """The text after some rules, without its frame; an empty line first, so that texts read as blocks."""
    changed = exhaust(Traced(program(body)), [EXACT[rule] for rule in rules]).program
    return "\n" + dedent("\n".join(str(changed).splitlines()[1:-1])) + "\n"


def block(text: str) -> str:
    """A text as `after` gives it."""
    return "\n" + dedent(text).strip() + "\n"


def reasons(body: str, rule: str) -> list[str]:
    """Why a rule does not apply at each node, where it nearly does."""
    found = program(body)
    return [r for node in found.nodes if (r := EXACT[rule].why_not(found, node))]
