"""The C signature of a lifted function: the source's parameters in its order, then what is written."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence

from tensmith.ctext.dialect import CTYPES
from tensmith.ctext.names import Names, enclosed, poly_text
from tensmith.ctext.scalar import CUnit
from tensmith.formula.bounds import Ranges
from tensmith.formula.poly import FloorDiv, Poly, product
from tensmith.formula.types import MachineType
from tensmith.lifting.lifted import Lifted, Output, result_name
from tensmith.lifting.loops import Array, dtype_of
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.returned import returned_place
from tensmith.lifting.summary import length_of, length_symbol


class FunctionSignature:
    """Names and types of everything that is passed.

    arrays: array parameter -> C pointer; outputs: written array, or what is returned -> C pointer or
    lvalue; single: those of them that are scalars; scalars: scalar parameter -> C name; rooms: returned array
    -> how many elements it needs; symbol_lines: definitions of every symbol used so far, in order; signed:
    C names of the unsigned parameters of 64 bits that polynomials take as signed. Whoever prints the function
    says what that takes: truth: how a truth value of the program is written, after the statements it takes;
    unit: where divisions of parameters, which may be negative, find their helper.
    """

    def __init__(self, lifted: Lifted, names: Names) -> None:
        self.lifted = lifted
        self.names = names
        self.function = self.names.fresh(lifted.function.name)
        self.arrays: dict[str, str] = {}
        self.outputs: dict[str, str] = {}
        self.scalars: dict[str, str] = {}
        self.rooms: dict[str, Poly] = {}
        self.single: set[str] = set()
        self._types = lifted.function.arrays
        self._lengths: dict[str, str] = {}
        self._parameters: list[tuple[str, str]] = []  # declaration before the name, and the name
        self._notes: list[str] = []
        self._symbols: dict[str, str] = {}
        self.symbol_lines: list[str] = []
        self.signed: list[str] = []
        self.unit: CUnit | None = None
        self.truth: Callable[[str], tuple[list[str], str]] = lambda value: ([], value)
        for name, type_ in lifted.function.fields:
            self._add(name, type_)
        for name, outputs in lifted.written.items():
            self._add_output(name, outputs)
        for name, output in lifted.returned.items():
            self._add_return(name, output)

    # Declarations

    def _add(self, name: str, type_: MachineType | Array) -> None:
        base = self.names.fresh(name)
        if isinstance(type_, MachineType):
            self.scalars[name] = base
            self._parameters.append((self._ctype(type_), base))
            return
        self.arrays[name] = base
        self._parameters.append((f"const {self._ctype(type_.element)} *RESTRICT ", base))
        axes = type_.axes
        for axis in range(axes):
            length = self.names.fresh(f"{base}_length" if axes == 1 else f"{base}_length_{axis}")
            self._lengths[length_symbol(name, axis)] = length
            self._parameters.append(("size_t", length))

    def _add_output(self, name: str, outputs: Sequence[Output]) -> None:
        target = self.names.fresh(f"out_{name}")
        self.outputs[name] = target
        self._parameters.append((f"{self._ctype(self._types[name].element)} *RESTRICT ", target))
        self._notes.append(f"{target}: {name} after the call, as long as {name}; it overlaps nothing else.")
        if any(output.whole for output in outputs):
            self._notes.append(f"{self.arrays[name]}: may be NULL, since all of it is written.")

    def _add_return(self, name: str, output: Output) -> None:
        target = self.names.fresh(result_name(name))
        place = returned_place(name)
        which = f" {place}" if place else ""
        self._parameters.append((f"{self._ctype(output.type)} *RESTRICT ", target))
        shape = self.lifted.program.type(output.name).dims
        if not shape:
            self.single.add(name)
            self.outputs[name] = f"*{target}"
            self._notes.append(f"{target}: the return value{which}.")
            return
        self.outputs[name] = target
        self.rooms[target] = Poly.of(product(shape))
        self._parameters.append(("size_t", self.names.fresh(f"{target}_length")))
        extents = " x ".join(str(extent) for extent in shape)
        self._notes.append(
            f"{target}: the returned array{which}, {extents} elements, row-major; it overlaps nothing else."
        )

    def _ctype(self, type_: MachineType) -> str:
        name = dtype_of(type_)
        if name not in CTYPES:
            function = self.lifted.function
            raise Refusal(
                f"C has no portable type for {name}; use float or an integer of 8 to 64 bits",
                function.position,
                function.name,
            )
        return CTYPES[name]

    def declaration(self, restrict: str) -> str:
        """`int F(...)`, one parameter after the other."""
        entries = [
            f"{kind.replace('RESTRICT', restrict).rstrip()}{' ' if not kind.endswith('*') else ''}{name}"
            for kind, name in self._parameters
        ]
        line = f"int {self.function}({', '.join(entries) or 'void'})"
        if len(line) <= 100:
            return line
        indent = " " * (len(self.function) + 5)
        return f"int {self.function}(" + f",\n{indent}".join(entries) + ")"

    def contract(self, requirements: Sequence[str]) -> Iterator[str]:
        """The sentences of the header."""
        function = self.lifted.function
        yield f"{function.name} of {self.lifted.source}, as a tensor program."
        yield ""
        yield "Arrays are row-major; their lengths are counted in elements, one an axis. Inputs are never"
        yield "modified and may overlap each other; no output overlaps an input or another output."
        yield from self._notes
        yield ""
        yield "Returns 0, or the number of the requirement that does not hold; outputs are then unspecified."
        for number, text in enumerate(requirements, 1):
            yield from _wrapped(f"{number}. {text}")
        if self.lifted.assumes:
            yield ""
            yield "Assumed and not checked:"
            for text in self.lifted.assumes:
                yield from _wrapped(f"- {text}")

        for text in self.lifted.notes:
            yield ""
            yield from _wrapped(f"Note: {text}.")

    # Symbols of polynomials

    def symbol(self, name: str) -> str:
        """The C variable of a size, a length or an integer parameter."""
        if name not in self._symbols:
            variable, text = self._bind(name)
            self._symbols[name] = variable
            self.symbol_lines.append(f"const int64_t {variable} = {text};")
        return self._symbols[name]

    def _bind(self, name: str) -> tuple[str, str]:
        size = next((size for size in self.lifted.sizes if size.symbol == name), None)
        if size is not None:
            text = self._exact_text(size.poly)
            variable = self.names.fresh(f"size_{name}")
            natural = size.poly.symbols() <= self._lengths.keys() and len(size.poly.terms) == 1
            tests = [] if natural else [f"{enclosed(text)} > 0"]
            if size.when:
                lines, test = self.truth(size.when)
                self.symbol_lines += lines
                tests.insert(0, enclosed(test))
            return variable, f"{' && '.join(tests)} ? {text} : 0" if tests else text
        length = length_of(name)
        if length is None:
            return self.names.fresh(f"{name}_whole"), self.exact(name)
        array, axis = length
        suffix = f"_{axis}" if self._types[array].axes > 1 else ""
        return self.names.fresh(f"len_{array}{suffix}"), self.exact(name)

    def exact(self, name: str) -> str:
        """An integer parameter or a length itself, not the size made of it."""
        if name in self._lengths:
            return f"(int64_t){self._lengths[name]}"
        if name in self.scalars:
            scalar = self.scalars[name]
            if dict(self.lifted.function.fields)[name] == "u64" and scalar not in self.signed:
                self.signed.append(scalar)
            return f"(int64_t){scalar}"
        if any(size.symbol == name for size in self.lifted.sizes):
            return self.symbol(name)
        raise Refusal(f"the size '{name}' comes from no parameter", self.lifted.function.position)

    def exact_poly(self, poly: Poly) -> str:
        """A polynomial over parameters themselves, as requirements are stated."""
        return enclosed(self._exact_text(poly))

    def _exact_text(self, poly: Poly) -> str:
        """Over parameters that are not checked yet: what divides by 0 is 0, and then refused or not used."""
        assert self.unit is not None, "polynomials are printed into a unit"
        lower = {name: 0 if length_of(name) else -(2**63) for name in poly.symbols()}
        divide = self.unit.divide(Ranges({}, lower))

        def total(division: FloorDiv, top: str, bottom: str) -> str:
            text = divide(division, top, bottom)
            return text if division.bottom.constant else f"({enclosed(bottom)} == 0 ? 0 : {text})"

        return poly_text(poly, self.exact, total)

    def elements(self, array: str) -> str:
        """The number of elements of an array parameter."""
        axes = self._types[array].axes
        return " * ".join(self.symbol(length_symbol(array, axis)) for axis in range(axes))

    def unused(self, text: str) -> list[str]:
        """Parameters that a function's text does not mention."""
        words = set(re.findall(r"\w+", text))
        return [name for _, name in self._parameters if name not in words]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        text.replace("*/", "* /"), 101,
        subsequent_indent="   ", break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
