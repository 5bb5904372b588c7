"""The text form read back: a recursive-descent parser, whose errors give line and column.

    program   = "program" name "{" {header | input | constant | node} "return" values "}"
    header    = "opset" name int {"," name int} | "ir_version" int | ("producer" | "doc") string
              | "metadata" string "=" string
    input     = "input" value ":" type
    constant  = "const" value ":" type ["=" (literal | base64 | "sha256:" hex)]
    node      = result {"," result} "=" name "(" [operand {"," operand}] ")"
                ["opaque" base64 | "{" name "=" attribute {"," name "=" attribute} "}"] ["@" name]
    result    = value [":" (type | "?")] | "_"
    type      = dtype "[" ["*" | size {"," size}] "]"

Comments run from "#" to the end of the line.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.formula.poly import Dim, Poly, floor_div
from tensmith.ir.infer import Facts, constant_facts, infer_node
from tensmith.ir.op import OPS, REQUIRED, Node
from tensmith.ir.program import Origin, Program
from tensmith.ir.text_values import array_digest, array_of_bytes, literal_array
from tensmith.ir.types import DTYPES, TensorType

_SPACE = re.compile(r"(?:\s|#[^\n]*)*")
_NAME = re.compile(r"[\w./$-]+(?::+[\w./$-]+)*", re.ASCII)
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SIZE = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_BASE64 = re.compile(r'base64"([A-Za-z0-9+/=]*)"')
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_INTEGER = re.compile(r"-?\d+")
_FLOAT = re.compile(r"-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|inf\b|nan\b)")
_MAX_DEPTH = 64
_MAX_DIGITS = 400

T = TypeVar("T")


def parse_program(text: str, constants: Mapping[str, Array] | None = None) -> Program:
    """The program of a text; `constants` supplies the arrays that the text gives by hash or not at all.

    Types of results may be left out; where they stand, they must be what the ops infer. Raises ProgramError
    with line and column.
    """
    return _Parser(text, constants or {}).program()


@dataclass
class _Result:
    """A value a node defines: its name ("" if unused), the type the text states, and where it stands."""

    name: str
    type: TensorType | None
    at: int


class _Parser:
    def __init__(self, text: str, supplied: Mapping[str, Array]) -> None:
        self.text = text
        self.at = _end(_SPACE.match(text))
        self.supplied = supplied
        self.depth = 0
        self.inputs: dict[str, TensorType] = {}
        self.constants: dict[str, Array] = {}
        self.hints: dict[str, TensorType] = {}
        self.nodes: list[Node] = []
        self.facts: dict[str, Facts] = {}
        self.origin: dict[str, Any] = {"metadata": {}}

    # Reading text

    def fail(self, message: str, at: int | None = None) -> ProgramError:
        """The error at a position, by default the current one."""
        position = self.at if at is None else at
        line = self.text.count("\n", 0, position) + 1
        column = position - self.text.rfind("\n", 0, position)
        return ProgramError(f"line {line}, column {column}: {message}")

    def try_take(self, pattern: re.Pattern[str]) -> str | None:
        """The text of a token if it stands here."""
        match = pattern.match(self.text, self.at)
        if match is None:
            return None
        self.at = _end(_SPACE.match(self.text, match.end()))
        return match.group()

    def take(self, pattern: re.Pattern[str], what: str) -> str:
        """The text of a token that must stand here."""
        found = self.try_take(pattern)
        if found is None:
            raise self.fail(f"expected {what}, found {self._found()}")
        return found

    def accept(self, symbol: str) -> bool:
        """Whether a symbol stands here; if so it is passed over."""
        if not self.text.startswith(symbol, self.at):
            return False
        self.at = _end(_SPACE.match(self.text, self.at + len(symbol)))
        return True

    def keyword(self, word: str) -> bool:
        """Whether a whole word stands here; if so it is passed over."""
        match = _WORD.match(self.text, self.at)
        return match is not None and match.group() == word and self.accept(word)

    def expect(self, symbol: str) -> None:
        """Passes over a symbol that must stand here."""
        if not self.accept(symbol):
            raise self.fail(f"expected '{symbol}', found {self._found()}")

    def _found(self) -> str:
        rest = self.text[self.at : self.at + 20].split("\n")[0]
        return f"'{rest}'" if rest else "the end"

    def many(self, item: Callable[[], T], end: str) -> list[T]:
        """Items between commas up to a closing symbol, which is passed over."""
        found: list[T] = []
        while not self.accept(end):
            if found:
                self.expect(",")
            found.append(item())
        return found

    def nested(self, item: Callable[[], T]) -> T:
        """An item one level deeper; depth is bounded."""
        if self.depth == _MAX_DEPTH:
            raise self.fail(f"nested more than {_MAX_DEPTH} deep")
        self.depth += 1
        found = item()
        self.depth -= 1
        return found

    # Words

    def string(self) -> str:
        """A quoted string, JSON's escapes."""
        start = self.at
        try:
            return str(json.loads(self.take(_STRING, "a string")))
        except ValueError as error:
            raise self.fail(f"a string with a wrong escape: {error}", start) from error

    def name(self) -> str:
        """A bare or quoted name."""
        return self.string() if self.text.startswith('"', self.at) else self.take(_NAME, "a name")

    def value(self) -> str:
        """A value's name after its sign."""
        self.expect("%")
        return self.name()

    def integer(self) -> int:
        """A decimal integer."""
        digits = self.take(_INTEGER, "an integer")
        if len(digits) > _MAX_DIGITS:
            raise self.fail(f"an integer of over {_MAX_DIGITS} digits")
        return int(digits)

    def base64(self) -> bytes:
        """Bytes in base64."""
        start = self.at
        try:
            return base64.b64decode(self.take(_BASE64, "base64")[7:-1], validate=True)
        except binascii.Error as error:
            raise self.fail(f"damaged base64: {error}", start) from error

    # Types

    def type(self) -> TensorType:
        """An element type and a shape."""
        start = self.at
        dtype = self.take(_WORD, "an element type")
        if dtype not in DTYPES:
            raise self.fail(f"unknown element type '{dtype}'; known: {', '.join(DTYPES)}", start)
        self.expect("[")
        if self.accept("*"):
            self.expect("]")
            return TensorType(dtype, None)
        return TensorType(dtype, tuple(self.many(self.size, "]")))

    def size(self) -> Dim:
        """A polynomial of sizes: sums of products of powers, floor division in parentheses."""
        total = self.product()
        while True:
            if self.accept("+"):
                total = total + self.product()
            elif self.accept("-"):
                total = total - self.product()
            else:
                return total

    def product(self) -> Poly:
        """Factors between asterisks, then at most a floor division."""
        sign = -1 if self.accept("-") else 1
        result = self.power() * sign
        while True:
            if self.accept("//"):
                start = self.at
                divisor = self.power()
                if divisor == 0:
                    raise self.fail("division by zero", start)
                result = floor_div(result, divisor)
            elif self.accept("*"):
                result = result * self.power()
            else:
                return result

    def power(self) -> Poly:
        """A number, a variable or a parenthesis, perhaps to a small power."""
        if self.accept("("):
            base = Poly.of(self.nested(self.size))
            self.expect(")")
        else:
            word = self.try_take(_SIZE)
            base = Poly.symbol(word) if word is not None else Poly.of(self.integer())
        if not self.accept("**"):
            return base
        start, exponent = self.at, self.integer()
        if not 0 < exponent <= 16 or len(base.terms) != 1:
            raise self.fail("a power must be 1 to 16, of one factor", start)
        result = base
        for _ in range(exponent - 1):
            result = result * base
        return result

    # Values

    def literal(self) -> Any:
        """A scalar or nested lists of them."""
        if self.accept("["):
            return self.nested(lambda: self.many(self.literal, "]"))
        return self.scalar()

    def scalar(self) -> Any:
        """A string, a truth value, a float or an integer."""
        if self.text.startswith('"', self.at):
            return self.string()
        if self.keyword("true"):
            return True
        if self.keyword("false"):
            return False
        decimal = self.try_take(_FLOAT)
        return float(decimal) if decimal is not None else self.integer()

    def attribute(self) -> Any:
        """None, bytes, a scalar, a tuple, or an array after its type."""
        if self.keyword("none"):
            return None
        if self.text.startswith('base64"', self.at):
            return self.base64()
        if self.accept("["):
            return tuple(self.nested(lambda: self.many(self.attribute, "]")))
        word = _WORD.match(self.text, self.at)
        if word is not None and word.group() in DTYPES:
            return self.array(self.type())
        return self.scalar()

    def array(self, type_: TensorType, name: str = "") -> Array:
        """An array of a known type: a literal, base64 or a hash of a supplied constant."""
        start = self.at
        digest = self.try_take(_HASH)
        try:
            if digest is not None:
                return self.supply(name, type_, digest[7:])
            if self.text.startswith('base64"', self.at):
                return array_of_bytes(self.base64(), type_)
            return literal_array(self.literal(), type_)
        except ProgramError as error:
            raise error if str(error).startswith("line ") else self.fail(str(error), start) from error

    def supply(self, name: str, type_: TensorType, digest: str | None) -> Array:
        """The constant the caller supplies, checked against the text."""
        if name not in self.supplied:
            raise ProgramError(f"the text does not hold '{name}'; supply it in `constants`")
        array = self.supplied[name]
        if TensorType.of(array) != type_ or (digest is not None and array_digest(array) != digest):
            raise ProgramError(f"the supplied '{name}' is not the array the text was made from")
        return array

    # Statements

    def program(self) -> Program:
        """The whole text."""
        if not self.keyword("program"):
            raise self.fail(f"expected 'program', found {self._found()}")
        name = self.name()
        self.expect("{")
        while not self.keyword("return"):
            self.statement()
        outputs = tuple(self.many(self.read, "}"))
        if self.at != len(self.text):
            raise self.fail(f"expected the end, found {self._found()}")
        return Program(
            name, self.inputs, outputs, tuple(self.nodes), self.constants, self.hints, Origin(**self.origin)
        )

    def statement(self) -> None:
        """One line."""
        if self.text[self.at : self.at + 1] in ("%", "_"):
            self.node()
        elif self.keyword("input"):
            self.input()
        elif self.keyword("const"):
            self.constant()
        elif self.keyword("opset"):
            self.origin["opsets"] = {}
            self.opset()
            while self.accept(","):
                self.opset()
        elif self.keyword("ir_version"):
            self.origin["ir_version"] = self.integer()
        else:
            self.remark()

    def opset(self) -> None:
        """A domain and its version."""
        domain = self.name()
        self.origin["opsets"]["" if domain == "onnx" else domain] = self.integer()

    def remark(self) -> None:
        """What else the file said."""
        for key in ("producer", "doc"):
            if self.keyword(key):
                self.origin[key] = self.string()
                return
        if self.keyword("metadata"):
            entry = self.string()
            self.expect("=")
            self.origin["metadata"][entry] = self.string()
            return
        raise self.fail(f"expected a statement, found {self._found()}")

    def define(self, name: str, facts: Facts, at: int) -> None:
        """Enters a value."""
        if name in self.facts:
            raise self.fail(f"'{name}' is defined a second time", at)
        self.facts[name] = facts

    def input(self) -> None:
        """An input and its type."""
        start, name = self.at, self.value()
        self.expect(":")
        self.inputs[name] = self.type()
        self.define(name, Facts(self.inputs[name], None), start)

    def constant(self) -> None:
        """A constant: its type, and its elements where the text holds them."""
        start, name = self.at, self.value()
        self.expect(":")
        type_ = self.type()
        if self.accept("="):
            array = self.array(type_, name)
        else:
            try:
                array = self.supply(name, type_, None)
            except ProgramError as error:
                raise self.fail(str(error), start) from error
        self.constants[name] = array
        self.define(name, constant_facts(array), start)

    def read(self) -> str:
        """A value defined before."""
        start, name = self.at, self.value()
        if name not in self.facts:
            raise self.fail(f"'{name}' is not defined before this", start)
        return name

    def operand(self) -> str:
        """A value, or an omitted input."""
        return "" if self.keyword("_") else self.read()

    def result(self) -> _Result:
        """A value to be defined."""
        start = self.at
        if self.keyword("_"):
            return _Result("", None, start)
        name = self.value()
        if not self.accept(":"):
            return _Result(name, None, start)
        return _Result(name, None if self.accept("?") else self.type(), start)

    def node(self) -> None:
        """One node: its results, op, operands and attributes."""
        start = self.at
        results = self.many(self.result, "=")
        at_op, op = self.at, self.name()
        self.expect("(")
        inputs = tuple(self.many(self.operand, ")"))
        opaque = self.base64() if self.keyword("opaque") else None
        attrs = {} if opaque is not None else self.attributes(op, at_op)
        label = self.name() if self.accept("@") else ""
        node = Node(op, inputs, tuple(result.name for result in results), attrs, label, opaque)
        for result, facts in zip(results, self.infer(node, results, start)):
            if result.name:
                self.define(result.name, facts, result.at)
        self.nodes.append(node)

    def attributes(self, op: str, at: int) -> dict[str, Any]:
        """All attributes of an op, defaults filled in."""
        if op not in OPS:
            raise self.fail(f"unknown op '{op}'", at)
        values: dict[str, Any] = dict(OPS[op].attributes)
        if self.accept("{"):
            while not self.accept("}"):
                start, name = self.at, self.take(_WORD, "an attribute")
                if name not in values:
                    raise self.fail(
                        f"op '{op}' has no attribute '{name}'; it has {', '.join(values) or 'none'}", start
                    )
                self.expect("=")
                values[name] = self.attribute()
                self.accept(",")
        missing = [name for name, value in values.items() if value is REQUIRED]
        if missing:
            raise self.fail(f"op '{op}' needs the attribute '{missing[0]}'", at)
        return values

    def infer(self, node: Node, results: list[_Result], at: int) -> tuple[Facts, ...]:
        """Facts of the results; a stated type is a hint where nothing is inferred, else a check."""
        given = tuple(self.facts[name] if name else None for name in node.inputs)
        try:
            found = infer_node(node, given, {})
        except ProgramError as error:
            raise self.fail(str(error), at) from error
        for result, facts in zip(results, found):
            if result.type is None or facts.type == result.type:
                continue
            if facts.type is not None and (
                facts.type.shape is not None or facts.type.dtype != result.type.dtype
            ):
                raise self.fail(f"'{result.name}' is {facts.type}, not {result.type}", result.at)
            self.hints[result.name] = result.type
        return infer_node(node, given, self.hints)


def _end(match: re.Match[str] | None) -> int:
    assert match is not None  # the pattern matches the empty string
    return match.end()
