"""YAML that may be a stranger's: opened by the gate, of bounded size, and errors that name the line."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from tensmith import gate
from tensmith.errors import UsageError, nearest

Model = TypeVar("Model", bound=BaseModel)


class YamlPart(BaseModel):
    """A mapping of a file: it has no other entries than these, none of them infinite, and never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


# What pydantic's errors say, in the words of this house.
_DEMANDS = {
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "literal_error": "{expected}",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "entries NAME: VALUE",
    "model_type": "entries NAME: VALUE",
}

# Entries of a file with its aliases written out, which may stand for many more than they take in it.
_MOST_ENTRIES = 1_000_000


@dataclass(frozen=True)
class YamlText(Generic[Model]):
    """What a file says, and where."""

    path: Path
    content: Model
    root: Any

    def wrong(self, place: Sequence[Any], what: str) -> UsageError:
        """The error of an entry."""
        return UsageError(f"{self.path}:{_line(self.root, place)}: {what}")


def place_in(path: Path, *place: Any) -> str:
    """PATH:LINE of an entry of a file that is YAML."""
    return f"{path}:{_line(_parsed(path)[0], place)}"


def yaml_document(path: Path) -> Any:
    """What a YAML file says; UsageError where it is none."""
    return _parsed(path)[1]


def faulty(name: str, error: Any) -> str:
    """What pydantic finds wrong with the value called `name`, as a sentence."""
    wanted = _DEMANDS.get(error["type"])
    if error["type"] == "missing":
        return f"{name} is missing"
    if wanted is None:
        return f"{name}: {error['msg'].removeprefix('Value error, ')}"
    wanted = wanted.format(**error.get("ctx", {}))
    return f"{name} must be {wanted}, not {reprlib.repr(error['input'])}"


def read_yaml(
    path: Path, form: type[Model], parts: Mapping[str, type[BaseModel]], wanted: str
) -> YamlText[Model]:
    """The content of a file in a form; UsageError naming line and nearest word where it has another one.

    parts: the forms of its entries that are mappings, or lists of them, by name. wanted: what the file is.
    """
    root, document = _parsed(path)
    if not isinstance(document, dict):
        raise UsageError(f"{path} is not {wanted}")
    try:
        return YamlText(path, form.model_validate(document), root)
    except (ValidationError, RecursionError) as error:
        if isinstance(error, RecursionError):
            raise UsageError(f"{path} is too deep") from error
        first = error.errors()[0]
        raise UsageError(f"{path}:{_line(root, first['loc'])}: {_told(first, form, parts)}") from error


def _parsed(path: Path) -> tuple[Any, Any]:
    """The tree of a file, whose nodes know their lines, and what it says; UsageError where it is no YAML."""
    text = gate.read_text(path, gate.CONFIG)
    try:
        loader = yaml.SafeLoader(text)
        try:
            root = loader.get_single_node()
            _demand_bounded(root)
            return root, loader.construct_document(root) if root is not None else None
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no YAML: {error}") from error
    except (LookupError, AttributeError) as error:  # how the loader says that a tag does not fit its value
        raise UsageError(f"{path} is no YAML: a tag (!!) does not fit what it is of; leave it out") from error


def _told(error: Any, form: type[BaseModel], parts: Mapping[str, type[BaseModel]]) -> str:
    """What is wrong with one entry, and what may have been meant."""
    place = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        *above, word = error["loc"]
        named = [step for step in above if step in parts]
        fields = (parts[named[-1]] if named else form).model_fields
        return f"there is no '{word}' here{nearest(str(word), list(fields))}"
    return faulty(place, error) if place else str(error["msg"]).removeprefix("Value error, ")


def _line(node: Any, place: Sequence[Any]) -> int:
    """The line of an entry of a YAML tree, or of the nearest thing above it."""
    line = 1
    for step in place:
        if isinstance(node, yaml.MappingNode):
            found = [pair for pair in node.value if pair[0].value == step]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            found = [(item, item) for item in node.value[step : step + 1]]
        else:
            break
        if not found:
            break
        line, node = found[0][0].start_mark.line + 1, found[0][1]
    return line


def _demand_bounded(root: Any) -> None:
    """ValueError where a tree has too many entries once each alias is what it stands for, or one twice."""
    waiting, count = [root], 0
    while waiting:
        node, count = waiting.pop(), count + 1
        if count > _MOST_ENTRIES:
            raise ValueError(f"it stands for more than {_MOST_ENTRIES} entries")
        if isinstance(node, yaml.MappingNode):
            waiting += [part for pair in node.value for part in pair]
            _demand_once(node)
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value


def _demand_once(node: yaml.MappingNode) -> None:
    """ValueError where an entry stands twice, of which the loader would take the last."""
    seen = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            if (key.tag, key.value) in seen:
                line = key.start_mark.line + 1
                raise ValueError(f"line {line} has '{key.value}' for the second time; leave out one of them")
            seen.add((key.tag, key.value))
