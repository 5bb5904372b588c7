"""Laws as text that declares them: lines for a file of rules (see CONTRIBUTING.md, "An exact rule")."""

from __future__ import annotations

import keyword
from collections import Counter
from collections.abc import Iterable

from tensmith.discovery.selection import Discovery
from tensmith.discovery.vocabulary import variables_of
from tensmith.rewrite.term import Const, Number, Term, Use, Var, parts

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@"}


def lines(found: Iterable[Discovery]) -> list[str]:
    """Laws that stand in one file: those of the same name are numbered."""
    met: Counter[str] = Counter()
    texts = []
    for each in found:
        name = _name(each.left)
        met[name] += 1
        texts.append(written(each, name if met[name] == 1 else f"{name}_{met[name]}"))
    return texts


def written(found: Discovery, name: str = "") -> str:
    """law("name", left, right, wrong=..., ...), with variables in capital letters."""
    shapes = [f'{name}="{words}"' for name, words in found.vocabulary.conditions(found.left).items()]
    instance = found.vocabulary.instance
    used = set(variables_of(found.left))
    types = {name: dtype for name, dtype in instance.dtypes.items() if name in used}
    given = f", given=[Instance({instance.name!r}, {dict(instance.shapes)}, dtypes={types})]"
    sides = _text(found.left), _text(found.right), f"wrong={_text(found.wrong)}"
    told = [f'"{name or _name(found.left)}"', *sides]
    return f"law({', '.join([*told, *shapes])}{given if types else ''}, found='enumeration')"


def _name(term: Term) -> str:
    """The ops of a term, outermost first, and its variables."""
    found = (part for part in parts(term) if isinstance(part, Use | Var))
    return "_".join(part.op if isinstance(part, Use) else part.name for part in found)


def _text(term: Term) -> str:
    match term:
        case Var(name):
            return name.upper()
        case Number(value):
            return f"{value:g}"
        case Const(value):
            return f"np.array({value.tolist()})"
        case Use("neg", (arg,)):
            return f"-{_operand(arg)}"
        case Use(op, (left, right)) if op in _SIGNS and _signed(left, right):
            return f"{_operand(left)} {_SIGNS[op]} {_operand(right)}"
        case Use(op, args, attrs):
            texts = list(map(_text, args))
            last = [f"attrs={dict(attrs)}"] if isinstance(attrs, dict) else []
            if keyword.iskeyword(op):
                return f'Use("{op}", ({", ".join(texts)},))'
            return f"ops.{op}({', '.join([*texts, *last])})"
    raise TypeError(f"no term of an enumeration: {term!r}")


def _signed(left: Term, right: Term) -> bool:
    """Whether an operand is a term, so that Python's sign between them makes one."""
    return any(isinstance(side, Var | Use) for side in (left, right))


def _operand(term: Term) -> str:
    match term:
        case Use(op) if op in (*_SIGNS, "neg"):
            return f"({_text(term)})"
    return _text(term)
