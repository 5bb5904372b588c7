"""The text form of programs, which parses back to the same program (see text_parser).

    program main {
      input %x: f32[batch, 3]
      const %w: f32[3, 2] = [[1.0, 0.5], [0.0, -1.0], [2.0, 0.25]]
      %y: f32[batch, 2] = matmul(%x, %w)
      %z: f32[batch, 1] = reduce_sum(%y, %axes) {keepdims = 0} @pool
      return %z
    }

Attributes are shown where they differ from the op's default. Small constants are literals; of larger ones
the text holds base64 ("inline"), a hash ("hash") or nothing ("elide", "structure": to read, not to parse).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np

from tensmith.formula.arith import Array
from tensmith.ir.op import REQUIRED, Node
from tensmith.ir.program import Origin, Program
from tensmith.ir.text_parser import parse_program
from tensmith.ir.text_values import array_bytes_of, array_digest, base64_text, literal, number
from tensmith.ir.types import TensorType

__all__ = ["Weights", "array_digest", "parse_program", "print_program"]

# How constants are shown that no short literal tells; "structure" shows none but the integers that shape.
Weights: TypeAlias = Literal["inline", "hash", "elide", "structure"]

# Elements of an array of integers that may shape something.
_SHAPING = 16

_PLAIN_NAME = re.compile(r"[\w./$-]+(?::+[\w./$-]+)*", re.ASCII)


def print_program(program: Program, weights: Weights = "inline") -> str:
    """The text of a program, one node a line."""
    lines = [f"program {_name(program.name)} {{"]
    lines += [f"  {line}" for line in _lines(program, weights)]
    return "\n".join([*lines, "}", ""])


def _lines(program: Program, weights: Weights) -> Iterator[str]:
    yield from _origin_lines(program.origin)
    for name, type_ in program.inputs.items():
        yield f"input %{_name(name)}: {type_}"
    for name, array in program.constants.items():
        value = _constant(array, weights)
        yield f"const %{_name(name)}: {TensorType.of(array)}{f' = {value}' if value else ''}"
    for node in program.nodes:
        yield _node(program, node, weights)
    yield "return " + ", ".join(f"%{_name(name)}" for name in program.outputs)


def _origin_lines(origin: Origin) -> Iterator[str]:
    """What differs from a program that came from no file."""
    default = Origin()
    if origin.opsets != default.opsets:
        yield "opset " + ", ".join(f"{_name(domain or 'onnx')} {v}" for domain, v in origin.opsets.items())
    if origin.ir_version != default.ir_version:
        yield f"ir_version {origin.ir_version}"
    for key in ("producer", "doc"):
        if getattr(origin, key):
            yield f"{key} {json.dumps(getattr(origin, key))}"
    for key, text in origin.metadata.items():
        yield f"metadata {json.dumps(key)} = {json.dumps(text)}"


def _name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else json.dumps(name)


# Nodes


def _node(program: Program, node: Node, weights: Weights) -> str:
    outputs = ", ".join(_definition(program, name) for name in node.outputs)
    inputs = ", ".join(f"%{_name(name)}" if name else "_" for name in node.inputs)
    text = f"{outputs} = {_name(node.op)}({inputs})"
    if node.opaque is not None:
        text += " opaque" if weights in ("elide", "structure") else f" opaque {base64_text(node.opaque)}"
    elif attributes := _attributes(node):
        text += f" {{{attributes}}}"
    return f"{text} @{_name(node.name)}" if node.name else text


def _definition(program: Program, name: str) -> str:
    if not name:
        return "_"
    type_ = program.facts[name].type
    return f"%{_name(name)}: {'?' if type_ is None else type_}"


def _attributes(node: Node) -> str:
    defaults: Mapping[str, Any] = node.definition.attributes
    shown = {
        name: value
        for name, value in sorted(node.attrs.items())
        if name not in defaults or defaults[name] is REQUIRED or not _same(value, defaults[name])
    }
    return ", ".join(f"{name} = {_attribute(value)}" for name, value in shown.items())


def _same(value: Any, default: Any) -> bool:
    if isinstance(value, np.ndarray) or isinstance(default, np.ndarray):
        return value is default
    return type(value) is type(default) and bool(value == default)


def _attribute(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, np.ndarray):
        return f"{TensorType.of(value)} {_constant(value, 'inline')}"
    if isinstance(value, bytes):
        return base64_text(value)
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_attribute, value))}]"
    if isinstance(value, str):
        return json.dumps(value)
    return number(value)


def _constant(array: Array, weights: Weights) -> str:
    """A literal where that is short and exact, else what `weights` asks for."""
    shaping = array.dtype.kind in "iub" and array.dtype.itemsize > 1 and array.size <= _SHAPING
    text = literal(array) if shaping or weights != "structure" else ""
    if text is not None:
        return text
    if weights == "elide":
        return ""
    return f"sha256:{array_digest(array)}" if weights == "hash" else base64_text(array_bytes_of(array))
