"""The ONNX standard as data: element type codes, and whether a use of an operator fits an opset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from onnx.defs import OpSchema

OLDEST_OPSET = 13
NEWEST_OPSET: int = onnx.defs.onnx_opset_version()

# TensorProto.DataType -> TensIR's name.
ELEMENT_TYPES: dict[int, str] = {
    1: "f32", 2: "u8", 3: "i8", 4: "u16", 5: "i16", 6: "i32", 7: "i64", 8: "string", 9: "bool", 10: "f16",
    11: "f64", 12: "u32", 13: "u64", 14: "c64", 15: "c128", 16: "bf16", 17: "f8e4m3fn", 18: "f8e4m3fnuz",
    19: "f8e5m2", 20: "f8e5m2fnuz", 21: "u4", 22: "i4", 23: "f4e2m1", 24: "f8e8m0", 25: "u2", 26: "i2",
}  # fmt: skip
ELEMENT_CODES: dict[str, int] = {name: code for code, name in ELEMENT_TYPES.items()}

_TYPE_STRINGS: dict[str, str] = {
    name: f"tensor({onnx.TensorProto.DataType.Name(code).lower()})" for code, name in ELEMENT_TYPES.items()
}
_TYPE_NAMES = {text: name for name, text in _TYPE_STRINGS.items()}

UNKNOWN = "?"


def standard_domain(domain: str) -> str:
    """The default domain has two names; this is the short one."""
    return "" if domain == "ai.onnx" else domain


def operator_name(domain: str, op_type: str) -> str:
    """The qualified name an opaque node carries, as "onnx.Loop" or "com.microsoft.FusedConv"."""
    return f"{standard_domain(domain) or 'onnx'}.{op_type}"


@lru_cache(maxsize=8192)
def find_schema(domain: str, op_type: str, version: int) -> OpSchema | None:
    """The operator's schema in force at an opset, or None where ONNX does not know it."""
    try:
        return onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return None


def tidy_float(value: float) -> float:
    """The shortest decimal that is the same float32: ONNX stores 1e-05 as 9.999999747378752e-06."""
    return float(str(np.float32(value)))


def schema_default(domain: str, op_type: str, version: int, attribute: str, default: Any) -> Any:
    """The default an attribute has at an opset, which newer opsets may have changed; else `default`."""
    schema = find_schema(domain, op_type, version)
    if schema is None or default is None or attribute not in schema.attributes:
        return default
    proto = schema.attributes[attribute].default_value
    if proto.type == onnx.AttributeProto.UNDEFINED:
        return default
    value = onnx.helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float):
        return tidy_float(value)
    return tuple(value) if isinstance(value, list) else value


def attribute_kind(schema: OpSchema, name: str) -> int:
    """The AttributeProto.type of an attribute."""
    return int(schema.attributes[name].type)  # type: ignore[call-overload, no-any-return]


@lru_cache(maxsize=8192)
def _parameters(
    domain: str, op_type: str, version: int, outputs: bool
) -> tuple[tuple[str, bool, bool, str, frozenset[str] | None], ...]:
    """Per formal parameter: name, optional, variadic, type variable, allowed element types (None = any)."""
    schema = find_schema(domain, op_type, version)
    assert schema is not None
    constraints = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    rows = []
    for formal in schema.outputs if outputs else schema.inputs:
        allowed = constraints.get(formal.type_str, [formal.type_str])
        names = frozenset(_TYPE_NAMES[text] for text in allowed if text in _TYPE_NAMES)
        variadic = formal.option == OpSchema.FormalParameterOption.Variadic
        variable = formal.type_str if not variadic or formal.is_homogeneous else ""
        optional = formal.option != OpSchema.FormalParameterOption.Single
        rows.append((formal.name, optional, variadic, variable, names or None))
    return tuple(rows)


def misfit(
    domain: str,
    op_type: str,
    version: int,
    attributes: Mapping[str, int | None],
    dtypes: Sequence[str],
    n_outputs: int,
) -> str | None:
    """Why a use of an operator is outside its schema at `version`; None if it fits or has no schema.

    `attributes` are their types (AttributeProto.type), None where any will do; `dtypes` the inputs' element
    types, "" for an omitted one, UNKNOWN where not known.
    """
    schema = find_schema(domain, op_type, version)
    if schema is None:
        return f"opset {version} has no {op_type}" if not domain else None
    for name, kind in attributes.items():
        if name not in schema.attributes:
            return f"attribute '{name}' is not one of {op_type} at opset {version}"
        if kind is not None and kind != attribute_kind(schema, name):
            return f"attribute '{name}' is not of the type that {op_type} has"
    if not schema.min_output <= n_outputs <= schema.max_output:
        return f"{op_type} at opset {version} does not have {n_outputs} outputs"
    if len(dtypes) > schema.max_input:
        return f"{op_type} at opset {version} takes at most {schema.max_input} inputs, not {len(dtypes)}"
    return _input_misfit(_parameters(domain, op_type, version, False), op_type, version, dtypes)


def _input_misfit(
    formals: Sequence[tuple[str, bool, bool, str, frozenset[str] | None]],
    op_type: str, version: int, dtypes: Sequence[str],
) -> str | None:  # fmt: skip
    bound: dict[str, str] = {}
    for position in range(max(len(dtypes), len(formals))):
        name, optional, variadic, variable, allowed = formals[min(position, len(formals) - 1)]
        dtype = dtypes[position] if position < len(dtypes) else ""
        if not dtype:
            if not optional and not variadic:
                return f"input '{name}' is missing"
            continue
        if dtype == UNKNOWN:
            continue
        if allowed is not None and dtype not in allowed:
            return f"input '{name}' is {dtype}, which {op_type} at opset {version} does not take"
        if variable and bound.setdefault(variable, dtype) != dtype:
            return f"inputs of {op_type} must have one element type, not {bound[variable]} and {dtype}"
    return None
