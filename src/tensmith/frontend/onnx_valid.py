"""What protobuf does not check of an ONNX file: that names are text, and attributes hold what they say."""

from __future__ import annotations

import onnx
from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped]
from google.protobuf.message import Message  # type: ignore[import-untyped]
from onnx import AttributeProto

from tensmith.errors import ModelError

# AttributeProto.AttributeType -> the field that holds the value.
_FIELDS: dict[int, str] = {
    1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 6: "floats", 7: "ints", 8: "strings", 9: "tensors", 10: "graphs",
    11: "sparse_tensor", 12: "sparse_tensors", 13: "tp", 14: "type_protos",
}  # fmt: skip
_HOLDERS = frozenset(_FIELDS.values())


def check_fields(message: Message, label: str) -> None:
    """Raises ModelError naming the first field that is wrong. Elements of tensors are not looked at."""
    if isinstance(message, onnx.TensorProto):  # listing its fields would copy its elements
        _check_text(message.name, "a tensor's name", label)
        return
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for item in value if field.is_repeated else (value,):
                check_fields(item, label)
        elif field.type == FieldDescriptor.TYPE_STRING:
            for item in value if field.is_repeated else (value,):
                _check_text(item, field.full_name, label)
    if isinstance(message, AttributeProto):
        _check_attribute(message, label)


def _check_text(value: object, what: str, label: str) -> None:
    if not isinstance(value, str):  # protobuf gives bytes where they are not UTF-8
        raise ModelError(
            f"{label} holds a {what} that is not text; the file is damaged, export or copy it again"
        )


def _check_attribute(attribute: AttributeProto, label: str) -> None:
    expected = _FIELDS.get(attribute.type)
    held = {field.name for field, _ in attribute.ListFields()} & _HOLDERS
    fits = expected is not None and (held <= {expected} or bool(attribute.ref_attr_name))
    if not attribute.name or not fits:
        raise ModelError(
            f"{label}: the attribute '{attribute.name}' does not hold the type it says; "
            "the file is damaged, export or copy it again"
        )
