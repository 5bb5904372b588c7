"""Front ends with one table entry or rule damaged: generated programs must show every one.

A mutant stands for a mistake that a front end could have: an operator taken for another, a width or a sign
lost, a side effect dropped. Under it programs are still proved, of what was misread; the second reader sees
the difference.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import tensmith.lifting.source
from lifting.generate.program import Generated
from lifting.generate.trial import LANGUAGES, trial
from tensmith.formula.expr import Call
from tensmith.formula.types import F64, I32, MachineType
from tensmith.lifting.source.c.arithmetic import cast

PART, PARTS = 12, 4  # programs that are lifted together, and how often at most


@dataclass(frozen=True)
class Mutant:
    """What is damaged: `name` of a module of `lifting.source`, changed by `change`; constructs: the beginning
    of the names of those that a program must have to show it."""

    language: str
    module: str
    name: str
    change: Callable[[Any], Any]
    constructs: tuple[str, ...]


def swapped(one: str, other: str) -> Callable[[tuple[str, ...]], tuple[str, ...]]:
    """A table of words with two exchanged."""
    exchange = {one: other, other: one}
    return lambda table: tuple(exchange.get(word, word) for word in table)


def entry(**changes: Any) -> Callable[[dict[Any, Any]], dict[Any, Any]]:
    """A table with other values of some keys, by the names of the keys."""

    def change(table: dict[Any, Any]) -> dict[Any, Any]:
        found = {key: changes.get(getattr(key, "__name__", key), value) for key, value in table.items()}
        assert found != table, f"there is none of {', '.join(changes)}"
        return found

    return change


def exchanged(one: Any, other: Any) -> Callable[[dict[Any, Any]], dict[Any, Any]]:
    """A table with the values of two keys exchanged, by the names of the keys."""

    def change(table: dict[Any, Any]) -> dict[Any, Any]:
        keys = {getattr(key, "__name__", key): key for key in table}
        return {**table, keys[one]: table[keys[other]], keys[other]: table[keys[one]]}

    return change


def renamed(one: str, other: str) -> Callable[[Any], Any]:
    """A function that makes a Number, with an operator taken for another."""

    def change(function: Any) -> Any:
        def damaged(*arguments: Any, **named: Any) -> Any:
            number = function(*arguments, **named)
            expr = number.expr
            if isinstance(expr, Call) and expr.function == one:
                return replace(number, expr=replace(expr, function=other))
            return number

        return damaged

    return change


def unsigned_for_signed(cast: Any) -> Any:
    """Values that are cast are first taken for unsigned ones of 8 bits where they go to a signed type."""

    def damaged(value: Any, kind: MachineType, position: Any = None) -> Any:
        if kind.kind == "int" and kind.signed and kind.bits == 8:
            return cast(cast(value, MachineType(f"u{kind.bits}"), position), I32, position)
        return cast(value, kind, position)

    return damaged


def in_left_type(updated: Any) -> Any:
    """A compound assignment without promotion: its right side goes to the type of its left one."""
    return lambda old, sign, by, where: updated(old, sign, cast(by, old.type, where), where)


def unsigned_left(updated: Any) -> Any:
    """A compound assignment to a signed place taken for one to an unsigned place."""

    def damaged(old: Any, sign: str, by: Any, where: Any) -> Any:
        kind = MachineType(f"u{old.type.bits}") if old.type.kind == "int" else old.type
        return updated(cast(old, kind, where), sign, by, where)

    return damaged


def kept_as_int(cast: Any) -> Any:
    """Values of unsigned types of 32 bits keep their value where they go to int."""

    def damaged(value: Any, kind: MachineType, position: Any = None) -> Any:
        if kind == I32 and value.type == MachineType("u32"):
            return replace(value, type=kind)
        return cast(value, kind, position)

    return damaged


def _binary(one: str, other: str, *constructs: str) -> Mutant:
    return Mutant("c", "c.cursor", "BINARY", swapped(one, other), constructs)


def _unary(one: str, other: str, *constructs: str) -> Mutant:
    return Mutant("c", "c.cursor", "UNARY", swapped(one, other), constructs)


def _scalar(kind: str, other: MachineType, *constructs: str) -> Mutant:
    return Mutant("c", "c.types", "SCALARS", entry(**{kind: other}), constructs)


def _python(name: str, one: str, other: str, *constructs: str) -> Mutant:
    return Mutant("python", "python.expressions", name, exchanged(one, other), constructs)


def _int(bits: int, signed: bool = True) -> MachineType:
    return MachineType(f"{'i' if signed else 'u'}{bits}")


MUTANTS = {
    "C + as -": _binary("add", "sub", "binary + of"),
    "C * as +": _binary("mul", "add", "binary * of"),
    "C / as *": _binary("div", "mul", "binary / of"),
    "C % as /": _binary("mod", "div", "binary % of"),
    "C < as <=": _binary("less", "less_equal", "comparison <"),
    "C > as >=": _binary("greater", "greater_equal", "comparison >"),
    "C > as <": _binary("greater", "less", "comparison >"),
    "C == as !=": _binary("equal", "not_equal", "comparison =="),
    "C & as |": _binary("bitwise_and", "bitwise_or", "binary & of"),
    "C | as ^": _binary("bitwise_or", "bitwise_xor", "binary | of"),
    "C << as >>": _binary("left_shift", "right_shift", "binary << of"),
    "C && as ||": _binary("&&", "||", "&&"),
    "C += as -=": _binary("add=", "sub=", "sum +=", "element +="),
    "C *= as +=": _binary("mul=", "add=", "sum *=", "element *="),
    "C &= as |=": _binary("bitwise_and=", "bitwise_or=", "sum &=", "element &=", "sum |=", "element |="),
    "C ^= as |=": _binary("bitwise_xor=", "bitwise_or=", "sum ^=", "element ^=", "element |="),
    "C x++ as ++x": _unary("post++", "pre++", "++ inside", "prefix ++"),
    "C x++ as x--": _unary("post++", "post--", "++ inside", "s++"),
    "C ++x as --x": _unary("pre++", "pre--", "prefix ++", "++s"),
    "C -x as +x": _unary("neg", "+", "unary -"),
    "C ~x as -x": _unary("bitwise_not", "neg", "unary ~"),
    "C !x as +x": _unary("!", "+", "unary !", "condition !"),
    "C unsigned as int": _scalar("UINT", _int(32), "type unsigned"),
    "C unsigned char as signed char": _scalar("UCHAR", _int(8), "type unsigned char"),
    "C signed char as unsigned char": _scalar("SCHAR", _int(8, False), "type signed char", "type int8_t"),
    "C char as unsigned char": _scalar("CHAR_S", _int(8, False), "type char"),
    "C unsigned short as short": _scalar("USHORT", _int(16), "type unsigned short", "type uint16_t"),
    "C short as unsigned short": _scalar("SHORT", _int(16, False), "type short", "type int16_t"),
    "C short as int": _scalar("SHORT", _int(32), "cast to short", "cast to int16_t"),
    "C long as int": _scalar("LONG", _int(32), "type long", "type int64_t"),
    "C float as double": _scalar("FLOAT", F64, "type float"),
    "C casts to 8 bits as to more": Mutant(
        "c", "c.arithmetic", "cast", unsigned_for_signed,
        ("cast to signed char", "cast to int8_t", "cast to char"),
    ),
    "C op= in the type of its left side": Mutant(
        "c", "c.assignment", "updated", in_left_type, ("narrow /=", "narrow %=")
    ),
    "C >>= of an unsigned left side": Mutant("c", "c.assignment", "updated", unsigned_left, ("narrow >>=",)),
    "C conversions to int dropped": Mutant(
        "c", "c.arithmetic", "cast", kept_as_int, ("scalar converted",)
    ),
    "C a > b as b <= a": Mutant(
        "c", "c.expressions", "MIRRORED", entry(greater="less_equal", greater_equal="less"), ("comparison >",)
    ),
    "Python + as -": _python("_BINARY", "Add", "Sub", "binary + of"),
    "Python * as +": _python("_BINARY", "Mult", "Add", "binary * of"),
    "Python << as >>": _python("_BITWISE", "LShift", "RShift", "binary << of"),
    "Python & as |": _python("_BITWISE", "BitAnd", "BitOr", "binary & of"),
    "Python ^ as |": _python("_BITWISE", "BitXor", "BitOr", "binary ^ of"),
    "Python < as <=": _python("_COMPARISONS", "Lt", "LtE", "comparison <"),
    "Python > as >=": _python("_COMPARISONS", "Gt", "GtE", "comparison >"),
    "Python > as <": _python("_COMPARISONS", "Gt", "Lt", "comparison >"),
    "Python == as !=": _python("_COMPARISONS", "Eq", "NotEq", "comparison =="),
    "Python // truncates": Mutant(
        "python", "python.arithmetic", "floor_divide", renamed("floor_div", "div"), ("binary // of integers",)
    ),
    "Python % truncates": Mutant(
        "python", "python.arithmetic", "remainder", renamed("mod", "fmod"), ("binary % of integers",)
    ),
    "Python and as or": Mutant(
        "python", "python.arithmetic", "both", lambda _: _module("python.arithmetic").either, ("and",)
    ),
    "Python max as min": Mutant(
        "python", "python.arithmetic", "python_extreme",
        lambda extreme: lambda operator, *numbers: extreme("minimum", *numbers), ("max",)
    ),
    "Python abs dropped": Mutant(
        "python", "python.arithmetic", "absolute", lambda _: lambda number, position: number, ("abs",)
    ),
    "Python not dropped": Mutant(
        "python", "python.arithmetic", "negation", lambda _: lambda condition, position: condition, ("not",)
    ),
    "Python negation dropped": Mutant(
        "python", "python.arithmetic", "negate", lambda _: lambda number, position: number, ("unary -",)
    ),
    "NumPy uint8 as int8": Mutant(
        "python", "python.kinds", "DTYPES", exchanged("uint8", "int8"), ("dtype uint8",)
    ),
    "NumPy int16 as int32": Mutant(
        "python", "python.kinds", "DTYPES", exchanged("int16", "int32"), ("dtype int16",)
    ),
}  # fmt: skip


def _module(name: str) -> Any:
    return importlib.import_module(f"tensmith.lifting.source.{name}")


@contextlib.contextmanager
def damaged(mutant: Mutant) -> Iterator[None]:
    """The front end with a mutant in it, in every module that holds what it damages."""
    package = tensmith.lifting.source
    for found in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{found.name}")
    before = getattr(_module(mutant.module), mutant.name)
    after = mutant.change(before)
    holders = [
        (module, name)
        for key, module in list(sys.modules.items())
        if key.startswith(package.__name__)
        for name, value in list(vars(module).items())
        if value is before
    ]
    for module, name in holders:
        setattr(module, name, after)
    try:
        yield
    finally:
        for module, name in holders:
            setattr(module, name, before)


def suitable(mutant: Mutant) -> Iterator[Generated]:
    """Programs that have what the mutant damages."""
    for seed in count():
        program = LANGUAGES[mutant.language].program(seed, f"f{seed}")
        if any(used.startswith(mutant.constructs) for used in program.constructs):
            yield program


def caught(name: str) -> str | None:
    """The first generated program, by name, that is proved and differs under a mutant and not without it;
    None if there is none."""
    mutant = MUTANTS[name]
    programs = suitable(mutant)
    with tempfile.TemporaryDirectory(prefix="tensmith-mutants-") as place:
        for _ in range(PARTS):
            made = list(islice(programs, PART))
            with damaged(mutant):
                found = trial(mutant.language, made, Path(place)).different
            wrong = [program for program in made if any(program.text == text for text, _ in found)]
            for program in wrong:
                if not trial(mutant.language, [program], Path(place)).different:
                    return program.name
    return None
