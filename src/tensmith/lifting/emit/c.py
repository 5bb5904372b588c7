"""C11: one function in F.c, its contract in F.h.

Whole chains of elementwise operations are one loop nest; a sum is a loop of its own only where inlining would
repeat it. `gcc -O3` vectorizes the loops as they stand.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensmith.ctext.loops import nest_lines
from tensmith.ctext.names import Names, enclosed, unmixed
from tensmith.ctext.scalar import CBlock, CUnit
from tensmith.formula.poly import FloorDiv, Poly, product
from tensmith.formula.types import MachineType
from tensmith.lifting.emit import EmittedFiles, Emitter, emitter
from tensmith.lifting.emit.kernel.body import Rooms, add_loops, constant_tables, rooms
from tensmith.lifting.emit.kernel.elements import KernelElements, least
from tensmith.lifting.emit.kernel.plan import LoopNest, LoopPlan, make_plan, output_key
from tensmith.lifting.emit.signature import FunctionSignature
from tensmith.lifting.lifted import ArrayView, Lifted
from tensmith.lifting.summary import Requirement, as_shown, length_symbol

_NO_MEMORY = "memory for intermediate values can be allocated"
_NO_ZERO = "no integer is divided by zero"


@emitter
class C(Emitter):
    """C11 source and header."""

    name = "c"

    def emit(self, lifted: Lifted) -> EmittedFiles:
        """F.c and F.h."""
        plan = make_plan(lifted)
        return unmixed(lambda names: CSource(lifted, plan, names), CSource.own).files()


class CSource:
    """The text of one function; other targets in C take its parts."""

    def __init__(self, lifted: Lifted, plan: LoopPlan, names: Names) -> None:
        self.lifted = lifted
        self.plan: LoopPlan = plan
        self.signature = FunctionSignature(lifted, names)
        self.requirements = [entry.text for entry in lifted.requires]
        self.unit = self._unit()
        self.signature.unit, self.signature.truth = self.unit, self._truth
        self._body = self._function_lines()

    # Files

    def files(self) -> EmittedFiles:
        """F.c and F.h."""
        name = self.lifted.function.name
        files = {f"{name}.c": self.text().encode(), f"{name}.h": self.header().encode()}
        return EmittedFiles(files, tuple(note for note in self.notes() if note))

    def text(self) -> str:
        """F.c."""
        constants = "".join(constant_tables(self.lifted.program, self.unit.buffers, "\n".join(self._body)))
        helpers = "".join(f"{text}\n\n" for text in self.unit.helpers.values())
        parts = [self._includes(), constants and f"{constants}\n", helpers, self._sentences()]
        return "".join(parts) + "\n".join(self._body) + "\n"

    def own(self) -> str:
        """What F is made of, and what stands beside it: names that its parameters must not have."""
        return "\n".join([*self._body, *self.unit.helpers, "TENSMITH_RESTRICT"])

    def header(self) -> str:
        """F.h, which says all that a caller must know."""
        name = self.signature.function
        guard = f"{name}_H"  # f and F are two functions
        lines = [*self.signature.contract(self.requirements), *self.notes()]
        comment = "\n".join(f" * {line}".rstrip() for line in lines)
        return (
            f"#ifndef {guard}\n#define {guard}\n\n#include <stdbool.h>\n#include <stddef.h>\n"
            f'#include <stdint.h>\n\n#ifdef __cplusplus\nextern "C" {{\n#define TENSMITH_RESTRICT\n#else\n'
            f"#define TENSMITH_RESTRICT restrict\n#endif\n\n/*\n{comment}\n */\n"
            f"{self.signature.declaration('TENSMITH_RESTRICT')};\n\n{self.declarations()}"
            f"/* What a status other than 0 says, as a sentence; NULL for 0 and for unknown numbers. */\n"
            f"const char *{name}_requirement(int status);\n\n#undef TENSMITH_RESTRICT\n"
            f"#ifdef __cplusplus\n}}\n#endif\n\n#endif\n"
        )

    def _includes(self) -> str:
        body = "\n".join(self._body)
        used = [
            ("math.h", self.unit.uses_math or "INFINITY" in body or "NAN" in body),
            ("stdlib.h", "malloc(" in body),
            ("string.h", "memcpy(" in body),
        ]
        lines = [f'#include "{self.lifted.function.name}.h"', ""]
        lines += [f"#include <{name}>" for name, wanted in used if wanted]
        return "\n".join(lines).rstrip() + "\n\n"

    def _sentences(self) -> str:
        name = self.signature.function
        rows = "".join(f"        {_quoted(text)},\n" for text in self.requirements)
        count = len(self.requirements)
        if not count:
            return (
                f"const char *{name}_requirement(int status)\n{{\n    (void)status;\n    return NULL;\n}}\n\n"
            )
        return (
            f"const char *{name}_requirement(int status)\n{{\n"
            f"    static const char *const sentences[] = {{\n{rows}"
            f"    }};\n    return status >= 1 && status <= {count} ? sentences[status - 1] : NULL;\n}}\n\n"
        )

    # The function

    def _unit(self) -> CUnit:
        signature, program = self.signature, self.lifted.program
        buffers = dict(signature.arrays)
        buffers |= {output_key(name): text for name, text in signature.outputs.items()}
        buffers |= {name: signature.names.fresh(name) for name in self.plan.stored}
        buffers |= {name: signature.names.fresh(f"table_{name}") for name in program.constants}
        single = {name for name in self.plan.stored if not program.type(name).dims}
        single |= set(map(output_key, signature.single))
        return CUnit(
            signature.names,
            signature.symbol,
            buffers,
            signature.scalars,
            frozenset(single),
            least=least(self.lifted),
        )

    def _truth(self, value: str) -> tuple[list[str], str]:
        """A truth value of the program that scalars decide, after the statements it takes."""
        scope = CBlock(self.unit)
        text = scope.value(KernelElements(self.lifted).at(value, ()))
        return [line.strip() for line in scope.lines], text

    def _function_lines(self) -> list[str]:
        scope = CBlock(self.unit)
        self._checks(scope)
        self._copies(scope)
        self.run(scope)
        scope.line(self._result())
        products = list(self._products())
        signed = [
            f"    if ({name} > INT64_MAX) return {self._status_of(f'{name} < 2**63')};"
            for name in self.signature.signed
        ]
        declared = [f"    {line}" for line in self.signature.symbol_lines]
        if self.unit.divides:
            declared.append("    int zero = 0;")
        if self.unit.looks_up:
            declared.append("    int outside = 0;")
        unused = [
            f"    (void){name};" for name in self.signature.unused("\n".join([*declared, *scope.lines]))
        ]
        head = self.signature.declaration("restrict")
        return [head, "{", *unused, *signed, *products, *declared, *scope.lines, "}"]

    def _products(self) -> Iterator[str]:
        """Tests that products with unsigned parameters are signed integers, in floats, which only round."""
        fields = dict(self.lifted.function.fields)
        required = [requirement.poly for requirement in self.lifted.requires if requirement.poly is not None]
        for factors in dict.fromkeys(factors for poly in required for factors in _products_of(poly)):
            kinds = [kind for name in factors if isinstance(kind := fields.get(name), MachineType)]
            if all(kind.signed for kind in kinds):
                continue  # the source does not overflow
            status = self._status_of(f"{'*'.join(map(as_shown, factors))} < 2**60")
            text = " * ".join(f"(double){self.signature.exact(name)}" for name in factors)
            for sign in ("", "-") if any(kind.signed for kind in kinds) else ("",):
                yield f"    if ({sign}{text} >= {2**60}.0) return {status};"

    def run(self, scope: CBlock) -> None:
        """Adds the loops of every step."""
        add_loops(scope, self.plan, self.rooms(), self.no_memory, self.nest)

    def rooms(self) -> Rooms:
        """The buffers to get memory for."""
        return rooms(self.lifted.program, self.plan)

    def nest(self, scope: CBlock, step: LoopNest) -> None:
        """Adds the loops of a step."""
        nest_lines(scope, step)

    def notes(self) -> list[str]:
        """What else the header says."""
        return []

    def declarations(self) -> str:
        """What the header declares beside the function."""
        return ""

    def no_memory(self) -> int:
        """The status where memory cannot be had."""
        return self._status_of(_NO_MEMORY)

    def _result(self) -> str:
        found = "outside" if self.unit.looks_up else "0"
        if self.unit.divides:
            known = (number for number, r in enumerate(self.lifted.requires, 1) if r.kind == "nonzero")
            found = f"zero ? {next(known, 0) or self._status_of(_NO_ZERO)} : {found}"
        return f"return {found};"

    def _status_of(self, text: str) -> int:
        """The number of a requirement, added if it is not one of the source's."""
        if text not in self.requirements:
            self.requirements.append(text)
        return self.requirements.index(text) + 1

    def _checks(self, scope: CBlock) -> None:
        elements = KernelElements(self.lifted)
        # What decides, first.
        numbered = sorted(enumerate(self.lifted.requires, 1), key=lambda entry: len(entry[1].where))
        for number, requirement in numbered:
            when = scope.value(elements.at(requirement.when, ())) if requirement.when else ""
            if requirement.kind == "ordered":
                self._ordered(scope, requirement, number)
            elif requirement.poly is not None:
                test = f"{enclosed(when)} && " if when else ""
                scope.line(f"if ({test}{self._unmet(scope, requirement)}) return {number};")
        for array, room in self.signature.rooms.items():
            needed = enclosed(scope.poly(room))
            text = f"{array}_length is at least the number of elements returned"
            scope.line(f"if ((int64_t){array}_length < {needed}) return {self._status_of(text)};")

    def _unmet(self, scope: CBlock, requirement: Requirement) -> str:
        assert requirement.poly is not None
        if requirement.kind == "length":
            symbol = length_symbol(requirement.array, requirement.axis)
            return f"{scope.symbol(symbol)} < {self.signature.exact_poly(requirement.poly)}"
        sign = "!=" if requirement.kind == "equal" else "==" if requirement.kind == "nonzero" else "<"
        if sign != "<" and requirement.poly.atom in self.signature.scalars:  # 0 is 0, signed or not
            return f"{self.signature.scalars[str(requirement.poly)]} {sign} 0"
        return f"{self.signature.exact_poly(requirement.poly)} {sign} 0"

    def _ordered(self, scope: CBlock, requirement: Requirement, number: int) -> None:
        if requirement.array in self.signature.scalars:
            name = self.signature.scalars[requirement.array]
            scope.line(f"if ({name} != {name}) return {number};")
            return
        array = self.unit.buffers[requirement.array]
        index = self.unit.names.fresh("i")
        found = self.unit.names.fresh("unordered")
        scope.line(f"int {found} = 0;")  # a loop that leaves early would not be vectorized
        scope.line(
            f"for (int64_t {index} = 0; {index} < {self.signature.elements(requirement.array)}; {index}++)"
        )
        scope.line(f"    {found} |= {array}[{index}] != {array}[{index}];")
        scope.line(f"if ({found}) return {number};")

    def _copies(self, scope: CBlock) -> None:
        """What stays as it was: outputs begin as copies of their parameters unless all is written."""
        for array, (output, *_) in self.lifted.written.items():
            assert output.view is not None
            source, target = self.unit.buffers[array], self.unit.buffers[output_key(array)]
            count = self.signature.elements(array)
            tests = [f"{source} != NULL"] if output.whole else []
            partly = self._partly(scope, output.view)
            tests.append(partly or f"{count} > 0")
            places, number = [target, source], f"({count})"
            if partly and len(output.view.offset) == 1:  # what is written need not be copied
                front = enclosed(scope.poly(Poly.of(product(output.view.shape))))
                places, number = [f"{place} + {front}" for place in places], f"({count} - {front})"
            copy = f"memcpy({', '.join(places)}, (size_t){number} * sizeof *{target});"
            scope.line(f"if ({' && '.join(tests)}) {copy}")

    def _partly(self, scope: CBlock, view: ArrayView) -> str:
        """Whether a view that begins an array leaves some of it out; "" where that is not known."""
        if not view.front:
            return ""
        axes = len(view.offset)
        extents = view.shape if axes > 1 else [Poly.of(product(view.shape))]
        lengths = [scope.symbol(length_symbol(view.array, axis)) for axis in range(axes)]
        tests = [f"{length} != {enclosed(scope.poly(e))}" for length, e in zip(lengths, extents)]
        text = " || ".join(tests)
        return f"({text})" if len(tests) > 1 else text


def _products_of(poly: Poly) -> Iterator[tuple[str, ...]]:
    """The variables of each product in a polynomial and in its divisions."""
    for monomial, _ in poly.terms:
        yield from (
            found
            for atom, _ in monomial
            if isinstance(atom, FloorDiv)
            for part in (atom.top, atom.bottom)
            for found in _products_of(part)
        )
        factors = tuple(atom for atom, power in monomial if isinstance(atom, str) for _ in range(power))
        if len(factors) > 1:
            yield factors


def _quoted(text: str) -> str:
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    if char in '"\\?':
        return f"\\{char}"
    return char if " " <= char <= "~" else "".join(f"\\{byte:03o}" for byte in char.encode())
