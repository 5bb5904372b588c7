"""The C or C++ text of a call of a function whose arguments lie in slots; see call.h.

Every scalar and array of `Function.fields` has a slot of its own, the result the last.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tensmith.formula.types import MachineType
from tensmith.lifting.loops import Array, Function, Parameter, Struct
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.source.c.cursor import Cursor, Type, namespaces
from tensmith.lifting.source.c.types import (
    is_array,
    is_pointer,
    is_reference,
    plain,
    record,
    scalar,
    vector_element,
)

_TYPES = {
    "i8": "signed char", "i16": "short", "i32": "int", "i64": "long", "u8": "unsigned char",
    "u16": "unsigned short", "u32": "unsigned int", "u64": "unsigned long", "f32": "float", "f64": "double",
}  # fmt: skip


def call_text(number: int, function: Function, cursor: Cursor) -> str:
    """`call_NUMBER`, which calls a function. Raises Refusal for a signature that it cannot serve."""
    writing = _Writing(function.language == "c++")
    given = [
        writing.argument(parameter, declared.type)
        for parameter, declared in zip(function.parameters, cursor.get_arguments(), strict=True)
    ]
    name = "::".join([*filter(None, namespaces(cursor)), cursor.spelling])
    called = f"{'::' if writing.cpp else ''}{name}({', '.join(given)})"
    assert not isinstance(function.returns, tuple), "C returns one value"
    lines = [*writing.before, writing.returned(called, function.returns), *writing.after]
    body = "\n".join(f"    {line}" for line in lines)
    return f"static void call_{number}(struct ts_slot *ts_s, struct ts_slot *ts_result) {{\n{body}\n}}\n"


@dataclass
class _Writing:
    """before and after: lines around the call; slots: how many are taken."""

    cpp: bool
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    slots: int = 0

    def name(self, type_: MachineType) -> str:
        return _TYPES.get(type_) or ("bool" if self.cpp else "_Bool")

    def slot(self) -> str:
        self.slots += 1
        return f"ts_s[{self.slots - 1}]"

    def argument(self, parameter: Parameter, type_: Type) -> str:
        """The expression that is passed for a parameter."""
        if isinstance(parameter.type, Struct):
            return self.struct(parameter.type, type_)
        if isinstance(parameter.type, MachineType):
            return self.scalar(self.slot(), parameter.type, type_)
        return self.array(self.slot(), parameter.type, type_)

    def scalar(self, slot: str, type_: MachineType, declared: Type) -> str:
        cast = f"({plain(declared).get_declaration().type.spelling})" if _is_enum(declared) else ""
        return f"{cast}*({self.name(type_)} *){slot}.data"

    def array(self, slot: str, type_: Array, declared: Type) -> str:
        if vector_element(declared) is not None:
            local = f"v{self.slots}"
            self.before.append(f"{_unqualified(declared)} {local};")
            self.before.append(f"ts_load({local}, {slot});")
            self.after.append(f"ts_store({local}, {slot});")
            return local
        if is_reference(declared) and scalar(declared) is not None:
            return f"*({self.name(type_.element)} *){slot}.data"
        if is_reference(declared):
            raise Refusal("it takes a reference to an array")
        if type_.memory == "nested":
            if type_.rank != 2:
                raise Refusal("it takes pointers to pointers to pointers")
            rows = f"ts_rows(&{slot}, sizeof({self.name(type_.element)}))"
            return f"ts_pointer{{{rows}}}" if self.cpp else rows
        return f"TS_POINTER({slot})"

    def struct(self, type_: Struct, declared: Type) -> str:
        """A local struct, its fields from their slots, and back where they are memory."""
        declaration = record(declared)
        assert declaration is not None
        local = f"v{self.slots}_"
        self.before.append(f"{declaration.type.spelling} {local} = {'{}' if self.cpp else '{0}'};")
        kinds = {part.spelling: part.type for part in declaration.type.get_fields()}
        for name, inner in type_.fields:
            place = f"{local}.{name}"
            slot, found = self.slot(), kinds[name]
            if isinstance(inner, MachineType):
                self.before.append(f"{place} = {self.scalar(slot, inner, found)};")
            elif vector_element(found) is not None:
                self.before.append(f"ts_load({place}, {slot});")
                self.after.append(f"ts_store({place}, {slot});")
            elif is_array(found):
                self.before.append(f"__builtin_memcpy({place}, {slot}.data, sizeof {place});")
                self.after.append(f"__builtin_memcpy({slot}.data, {place}, sizeof {place});")
            elif is_pointer(found):
                self.before.append(f"{place} = {self.array(slot, inner, found)};")
            else:  # a scalar that is written
                value = f"*({self.name(inner.element)} *){slot}.data"
                self.before.append(f"{place} = {value};")
                self.after.append(f"{value} = {place};")
        return f"&{local}" if is_pointer(declared) else local

    def returned(self, called: str, type_: MachineType | Array | None) -> str:
        if type_ is None:
            return f"{called};"
        if isinstance(type_, MachineType):
            return f"*({self.name(type_)} *)ts_result->data = {called};"
        if self.cpp and type_.memory == "nested":
            return f"ts_store({called}, *ts_result);"
        return f"__builtin_memcpy(ts_result->data, {called}, (unsigned long)ts_result->bytes);"


def _is_enum(type_: Type) -> bool:
    return bool(plain(type_).kind.name == "ENUM")


def _unqualified(type_: Type) -> str:
    return str(plain(type_).spelling).removeprefix("const ")


def table(count: int) -> str:
    """The table of calls that the driver reads."""
    entries = ", ".join(f"call_{number}" for number in range(count))
    return f"TS_TABLE const ts_call ts_calls[] = {{{entries}}};\n"
