"""E-graphs of the extraction gym (egraphs-good/extraction-gym), as files.

`nodes` by id with `op`, `cost`, `eclass` and `children`, which are node ids that stand for their classes, and
`root_eclasses`.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tensmith import gate
from tensmith.egraph.graph import EGraph, ENode
from tensmith.errors import UsageError

EGRAPH = gate.FileKind("an e-graph, .json or .json.xz", UsageError, 256 << 20, "bound its saturation")
_MOST_NODES = 2_000_000


def read_egraph(path: Path) -> EGraph:
    """The e-graph of a file; UsageError where it is too large or no e-graph."""
    try:
        document = json.loads(_text(path))
        return egraph_of(document)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path} is no e-graph of the extraction gym ({error!r})") from error


def egraph_of(document: Mapping[str, Any]) -> EGraph:
    """The e-graph of a document of the gym; ValueError, KeyError or TypeError where it is none."""
    nodes: Mapping[str, Mapping[str, Any]] = document["nodes"]
    if not 0 < len(nodes) <= _MOST_NODES:
        raise ValueError(f"{len(nodes)} nodes; 1 to {_MOST_NODES} can be read")
    numbers: dict[str, int] = {}
    for node in nodes.values():
        numbers.setdefault(_word(node["eclass"]), len(numbers))
    classes: list[list[ENode]] = [[] for _ in numbers]
    for name, node in nodes.items():
        read = dict.fromkeys(numbers[nodes[child]["eclass"]] for child in _words(node["children"]))
        classes[numbers[node["eclass"]]].append(ENode(name, _price(node["cost"]), tuple(read)))
    roots = tuple(dict.fromkeys(numbers[word] for word in _words(document["root_eclasses"])))
    if not roots:
        raise ValueError("no root is named")
    return EGraph(tuple(map(tuple, classes)), roots)


def _text(path: Path) -> bytes:
    data = gate.read_bytes(path, EGRAPH)
    if path.suffix != ".xz":
        return data
    most = gate.most_decompressed(len(data))
    try:
        text = lzma.LZMADecompressor().decompress(data, most + 1)
    except lzma.LZMAError as error:
        raise UsageError(f"{path} is damaged: {error}") from error
    if len(text) > most:
        raise UsageError(f"{path} decompresses to more than {most} bytes, as bombs do")
    return text


def _word(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no name")
    return value


def _words(values: Sequence[Any]) -> Iterable[str]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r} is no list of names")
    return map(_word, values)


def _price(value: Any) -> float:
    """A cost that can be added up: finite and not below zero."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e30:
        raise ValueError(f"cost {value!r} is no number from 0")
    return float(value)
