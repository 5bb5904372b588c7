"""Every attribute of every op, given values nobody means: refused, left opaque, or as ONNX Runtime has it.

The uses come from the node tests of the ONNX standard; what is wrong with a value is not written down here:
ONNX Runtime's answer is the reference. So an op that is added is covered, and so are attributes that nobody
thought of. Known integer inputs (axes, pads, indices, sizes) are treated alike.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from benchmarks.trust.onnx_conformance import as_array, node_cases
from onnx import AttributeProto, numpy_helper

from tensmith.errors import TensmithError
from tensmith.formula.arith import Array
from tensmith.frontend.onnx import read_onnx
from tensmith.ir.interpreter import interpret
from tensmith.ir.op import find_onnx

pytestmark = pytest.mark.xdist_group("node_cases")  # see test_node_conformance

SECONDS = 20
_INTEGERS = (0, -1, 1, 2, 7, -100, 2**31, -(2**63))
_CONSTANTS = tuple(value for value in _INTEGERS if value != 2**31)  # a right size, and too large to run
_FLOATS = (0.0, -1.0, float("nan"), float("inf"), 1e30)
_WORDS = ("", "NOTSET", "SAME_UPPER", "constant", "add", "x" * 50)
# What ONNX Runtime says of uses that are right, but beyond it.
UNABLE = (
    "NOT_IMPLEMENTED", "is under development", "No Op registered", "Could not find an implementation",
    "No corresponding Numpy type", "Failed to allocate memory", "rotary_embedding_dim",
    "Batchwise recurrent operations",
    "saturate",  # only small floats have it, the standard says of others that it is ignored
)  # fmt: skip
# Uses with several right answers: elements in any order.
FREE = ("test_top_k sorted=0",)
Case = tuple[str, onnx.ModelProto, list[Array]]


def uses(most: int) -> Iterator[Case]:
    """Small node tests of one node that tensmith claims, at most so many an operator."""
    count: dict[str, int] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = sorted(node_cases(), key=lambda case: (case.model.ByteSize(), case.name))
    for case in cases:
        graph = case.model.graph
        if len(graph.node) != 1 or not all(
            v.type.HasField("tensor_type") for v in (*graph.input, *graph.output)
        ):
            continue
        node = graph.node[0]
        if find_onnx(node.domain, node.op_type) is None or count.get(node.op_type, 0) >= most:
            continue
        inputs = [as_array(value) for value in case.data_sets[0][0]]
        if any(array.dtype.kind not in "iufb" or array.dtype.itemsize < 1 for array in inputs):
            continue
        count[node.op_type] = count.get(node.op_type, 0) + 1
        yield case.name, case.model, inputs


def with_constants(model: onnx.ModelProto, inputs: list[Array]) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The model whose small integer inputs, but for the first, are initializers; and what it is fed."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    fed: dict[str, Array] = {}
    kept = []
    for position, (value, array) in enumerate(zip(model.graph.input, inputs)):
        if position and array.dtype in (np.int64, np.int32) and array.size <= 16:
            found.graph.initializer.append(numpy_helper.from_array(array, value.name))
        else:
            kept.append(value)
            fed[value.name] = array
    del found.graph.input[:]
    found.graph.input.extend(kept)
    for output in found.graph.output:  # what is stated of the original is no longer so
        output.type.tensor_type.ClearField("shape")
    return found, fed


def mutants(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.ModelProto]]:
    """(what was changed, the model): one attribute, or one integer constant, at a time."""
    node = model.graph.node[0]
    schema = onnx.defs.get_schema(node.op_type, model.opset_import[0].version, node.domain)
    for name, declared in schema.attributes.items():
        for value in values_of(declared.type, node, name):
            changed = onnx.ModelProto()
            changed.CopyFrom(model)
            target = changed.graph.node[0]
            kept = [attribute for attribute in target.attribute if attribute.name != name]
            del target.attribute[:]
            target.attribute.extend(
                [*kept, onnx.helper.make_attribute(name, value, attr_type=int(declared.type))]
            )
            yield f"{name}={value}", changed
    for position, tensor in enumerate(model.graph.initializer):
        array = numpy_helper.to_array(tensor)
        for value in constants_of(array):
            changed = onnx.ModelProto()
            changed.CopyFrom(model)
            changed.graph.initializer[position].CopyFrom(numpy_helper.from_array(value, tensor.name))
            yield f"{tensor.name}={value.tolist()}", changed


def values_of(kind: Any, node: onnx.NodeProto, name: str) -> Iterator[Any]:
    """Hostile values of an attribute of a kind; lists are changed in one place, cut short and made longer."""
    kind = int(kind)
    if kind == AttributeProto.INT:
        yield from _INTEGERS
    elif kind == AttributeProto.FLOAT:
        yield from _FLOATS
    elif kind == AttributeProto.STRING:
        yield from _WORDS
    elif kind == AttributeProto.INTS:
        given = next((list(a.ints) for a in node.attribute if a.name == name), [1, 1])
        for value in _INTEGERS:
            yield [*given[:-1], value]
        yield from ([], given[:-1], [*given, 1], [0] * len(given), [-1] * len(given))


def constants_of(array: Array) -> Iterator[Array]:
    """Hostile values of an integer constant."""
    with contextlib.suppress(OverflowError):
        for value in _CONSTANTS:
            changed = array.copy()
            if changed.size:
                changed.reshape(-1)[-1] = value
                yield changed
    yield array.reshape(-1)[:-1]
    yield np.append(array.reshape(-1), array.dtype.type(1))


def ours(model: onnx.ModelProto, fed: dict[str, Array]) -> list[Array] | str:
    """The interpreter's answers; why not, where the model is refused, left opaque, or fails as it runs."""
    try:
        program = read_onnx(model)
        if any(node.opaque is not None for node in program.nodes):
            return "opaque"
        found = interpret(program, fed)
    except (TensmithError, MemoryError) as error:
        return str(error)
    return [found[name] for name in program.outputs]


def reference(model: onnx.ModelProto, fed: dict[str, Array]) -> list[Array] | str:
    """ONNX Runtime's answers, or why it has none; "cannot tell" where it lacks the operator."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        return list(session.run(None, fed))
    except Exception as error:
        text = str(error)
        return "cannot tell" if any(words in text for words in UNABLE) else text


def verdict(model: onnx.ModelProto, fed: dict[str, Array]) -> str | None:
    """What is wrong with how we take a model; None if nothing is."""
    mine = ours(model, fed)
    if isinstance(mine, str):
        return None
    theirs = reference(model, fed)
    if isinstance(theirs, str):
        return None if theirs == "cannot tell" else f"accepted, but ONNX Runtime says: {theirs[:150]}"
    for own, other in zip(mine, theirs):
        if own.shape != other.shape:
            return f"shape {own.shape}, ONNX Runtime's is {other.shape}"
        if own.dtype.kind in "iub" and not np.array_equal(own, other):
            return "other integers than ONNX Runtime's"
        close = np.isclose(own.astype(float), other.astype(float), rtol=1e-2, atol=1e-2, equal_nan=True)
        if own.dtype.kind == "f" and not close.all():
            return "other numbers than ONNX Runtime's"
    return None


def verdicts(model: onnx.ModelProto, fed: dict[str, Array]) -> Iterator[tuple[str, str]]:
    """(change, what is wrong) of all mutants, in children: ONNX Runtime crashes on some of them."""
    changes = list(mutants(model))
    start = 0
    while start < len(changes):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _judge(changes[start:], fed, writer)
        os.close(writer)
        with os.fdopen(reader) as lines:
            found = [json.loads(line) for line in lines]
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        for (change, _), told in zip(changes[start:], found):
            if told is not None:
                yield change, told
        start += len(found)
        if start < len(changes):
            if code != -signal.SIGALRM:
                yield changes[start][0], f"accepted, but ONNX Runtime died of {code}"
            else:
                yield changes[start][0], "no end"
            start += 1


def _judge(changes: list[tuple[str, onnx.ModelProto]], fed: dict[str, Array], writer: int) -> None:
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _, model in changes:
                signal.alarm(SECONDS)
                try:
                    told = verdict(model, fed)
                except Exception as error:
                    told = f"{type(error).__name__}: {error}"
                os.write(writer, (json.dumps(told) + "\n").encode())
    finally:
        os._exit(0)


@pytest.fixture(scope="module")
def wrong() -> dict[str, str]:
    """Everything that was taken wrongly: use and change -> how."""
    found = {}
    for name, model, inputs in uses(most=1):
        changed, fed = with_constants(model, inputs)
        found |= {f"{name} {change}": told for change, told in verdicts(changed, fed)}
    return {use: told for use, told in found.items() if use not in FREE}


def test_hostile_attributes_are_refused_or_mean_what_they_mean_elsewhere(wrong: dict[str, str]) -> None:
    assert wrong == {}
