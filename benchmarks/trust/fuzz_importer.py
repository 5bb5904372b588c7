"""Feeds damaged ONNX files to the importer: only TensmithError may come out, soon and in little memory.

    python -m benchmarks.trust.fuzz_importer [mutants] [first seed]

Every mutant is made from a number, so a failure is repeated by `check(mutant(number))`. Batches run in
processes of their own: one that dies, hangs or fills its memory names the mutant that did it.
"""

from __future__ import annotations

import multiprocessing
import random
import resource
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model

from benchmarks import parts
from tensmith.backend.onnx import to_onnx
from tensmith.errors import TensmithError
from tensmith.frontend.onnx import read_onnx
from tensmith.ir.text import print_program

SECONDS_A_MUTANT = 10
BYTES_OVER_START = 2 << 30
BATCH = 250


# Seeds: small models that together use every part of the importer.


def _network() -> onnx.ModelProto:
    random_weights = np.random.default_rng(0).standard_normal
    model = parse_model("""
        <ir_version: 8, opset_import: ["" : 17], producer_name: "seed">
        network (float[batch, 3, 8, 8] x) => (float[batch, 5] y) {
            c = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w, b)
            n = BatchNormalization (c, scale, shift, mean, var)
            low = Constant <value = float {0.0}> ()
            high = Constant <value_float = 6.0> ()
            r = Clip (n, low, high)
            m = ReduceMean <axes = [2, 3], keepdims = 0> (r)
            shape = Shape (x)
            zero = Constant <value_int = 0> ()
            one = Constant <value_ints = [0]> ()
            first = Gather (shape, zero)
            lead = Unsqueeze (first, one)
            tail = Constant <value_ints = [-1]> ()
            target = Concat <axis = 0> (lead, tail)
            flat = Reshape (m, target)
            g = Gemm <transB = 1> (flat, fc, fb)
            y = Softmax <axis = -1> (g)
        }
    """)
    shapes = {"w": (4, 3, 3, 3), "b": (4,), "scale": (4,), "shift": (4,), "mean": (4,), "var": (4,),
              "fc": (5, 4), "fb": (5,)}  # fmt: skip
    for name, shape in shapes.items():
        array = np.abs(random_weights(shape)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def _control() -> onnx.ModelProto:
    return parse_model("""
        <ir_version: 8, opset_import: ["" : 18, "local" : 1]>
        control (float[n, 4] x, bool flag) => (float[n, 4] y, int64[k] shape) {
            scaled = local.scale <factor = 2.0> (x)
            branch = If (flag) <
                then_branch = then () => (t) { t = Add (scaled, x) },
                else_branch = other () => (e) { e = Relu (scaled) }
            >
            parts = SplitToSequence <axis = 0> (branch)
            joined = ConcatFromSequence <axis = 0> (parts)
            y = Identity (joined)
            shape = Shape (joined)
        }
        <domain: "local", opset_import: ["" : 18]>
        scale <factor> (a) => (b) {
            f = Constant <value_float: float = @factor> ()
            b = Mul (a, f)
        }
    """)


def _tensors() -> onnx.ModelProto:
    """Element types, storage forms, sparse and string tensors; an old opset."""
    initializers = [
        numpy_helper.from_array(np.arange(6).reshape(2, 3).astype(dtype), f"t{dtype}")
        for dtype in ("float16", "float64", "int8", "uint16", "int32", "int64", "bool")
    ]
    initializers += [
        helper.make_tensor("fields", TensorProto.FLOAT, (2, 3), np.arange(6.0)),
        helper.make_tensor("half", TensorProto.FLOAT16, (2, 3), np.arange(6.0)),
        helper.make_tensor("packed", TensorProto.INT4, (5,), [1, -2, 3, -4, 5]),
        helper.make_tensor("words", TensorProto.STRING, (2,), [b"a", b"bc"]),
    ]
    values = helper.make_tensor("sparse", TensorProto.FLOAT, (2,), [1.0, 2.0])
    indices = helper.make_tensor("at", TensorProto.INT64, (2,), [1, 5])
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["x", "fields"], ["a"]),
            helper.make_node("Add", ["a", "sparse"], ["b"]),
            helper.make_node("Dropout", ["b"], ["c"]),
            helper.make_node("Squeeze", ["c"], ["d"], axes=[0]),
            helper.make_node("Custom", ["d"], ["e"], domain="my.domain", levels=[1, 2], text="t"),
        ],
        "tensors",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 3])],
        [helper.make_tensor_value_info("e", TensorProto.FLOAT, [2, 3])],
        initializers,
        sparse_initializer=[helper.make_sparse_tensor(values, indices, [2, 3])],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 11), helper.make_opsetid("my.domain", 1)], ir_version=6
    )


@cache
def seeds() -> tuple[bytes, ...]:
    """The files that mutants are made from."""
    return tuple(model.SerializeToString() for model in (_network(), _control(), _tensors()))


# Mutants


def mutant(number: int) -> bytes:
    """The damaged file of a number."""
    rng = random.Random(number)
    data = bytearray(rng.choice(seeds()))
    kind = rng.choice(["flip", "cut", "splice", "field", "field", "field", "fields"])
    if kind == "flip":
        for _ in range(rng.choice([1, 1, 2, 4, 16])):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del data[rng.randrange(len(data)) :]
    elif kind == "splice":
        start, end = sorted((rng.randrange(len(data)), rng.randrange(len(data))))
        at = rng.randrange(len(data))
        data[at:at] = data[start : min(end, start + 64)]
    else:
        model = onnx.ModelProto.FromString(bytes(data))
        for _ in range(1 if kind == "field" else rng.randrange(2, 8)):
            mutate(model, rng)
        return model.SerializeToString()
    return bytes(data)


def _messages(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for item in value if field.is_repeated else [value]:
                yield from _messages(item)


def mutate(model: onnx.ModelProto, rng: random.Random) -> None:
    """Changes one field of one message: removed, repeated, moved, or given another value."""
    message = rng.choice(list(_messages(model)))
    fields = list(message.DESCRIPTOR.fields)
    present = [field for field, _ in message.ListFields()]
    field = rng.choice(present or fields) if rng.random() < 0.8 else rng.choice(fields)
    if rng.random() < 0.15:
        message.ClearField(field.name)
    elif field.is_repeated:
        _mutate_list(getattr(message, field.name), field, model, rng)
    elif field.message_type is None:
        setattr(message, field.name, _value(field, model, rng))


def _mutate_list(items: Any, field: FieldDescriptor, model: onnx.ModelProto, rng: random.Random) -> None:
    action = rng.choice(["delete", "repeat", "swap", "append"])
    if action == "append" and field.message_type is None:
        items.append(_value(field, model, rng))
    elif items and action == "delete":
        del items[rng.randrange(len(items))]
    elif items and action == "repeat":
        copy = rng.choice(items)
        items.append(copy)
    elif items:
        first, second = rng.randrange(len(items)), rng.randrange(len(items))
        if field.message_type is None:
            items[first] = _value(field, model, rng)
        else:
            items[first].CopyFrom(items[second])


def _value(field: FieldDescriptor, model: onnx.ModelProto, rng: random.Random) -> Any:
    if field.enum_type is not None:
        return rng.choice([value.number for value in field.enum_type.values])
    if field.cpp_type in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return rng.choice([0.0, -1.0, float("nan"), float("inf"), 1e30])
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        names = [name for node in model.graph.node for name in (*node.input, *node.output, node.op_type)]
        text = rng.choice([*names, "", "x", "../secret", "é" * 9, "Loop", "Constant"])
        return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text
    limit = 31 if "32" in str(field.type) or field.cpp_type == FieldDescriptor.CPPTYPE_INT32 else 63
    return rng.choice(
        [
            0,
            1,
            2,
            3,
            7,
            13,
            30,
            10**6,
            10**9,
            2**limit - 1,
            *(
                [-1, -(2**limit)]
                if field.cpp_type in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64)
                else []
            ),
        ]
    )


# Checking


def check(data: bytes) -> str:
    """Imports a file, and what came through is printed and written. Only TensmithError is caught."""
    try:
        program = read_onnx(data)
        print_program(program, "hash")
    except TensmithError as error:
        return str(error)
    try:
        to_onnx(program)
    except TensmithError:
        return "imported, not written"
    return "imported"


def _expired(signum: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"a mutant took over {SECONDS_A_MUTANT} s")


def _batch(first: int, count: int, results: Connection) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (used + BYTES_OVER_START, used + BYTES_OVER_START))
    signal.signal(signal.SIGALRM, _expired)
    for number in range(first, first + count):
        results.send((number, "started"))
        signal.alarm(SECONDS_A_MUTANT)
        try:
            results.send((number, "imported" if check(mutant(number)).startswith("imported") else "refused"))
        except Exception as error:
            results.send((number, f"{type(error).__name__}: {error}"))
        signal.alarm(0)
    results.send(None)


def run(count: int, first: int = 0) -> tuple[Counter[str], dict[int, str]]:
    """How many mutants were imported and refused, and what the others did."""
    context = multiprocessing.get_context("fork")
    totals: Counter[str] = Counter()
    failures: dict[int, str] = {}
    number, end = first, first + count
    while number < end:
        reader, writer = context.Pipe(duplex=False)
        worker = context.Process(target=_batch, args=(number, min(BATCH, end - number), writer))
        worker.start()
        writer.close()
        outcome = (number, "died")
        while reader.poll(4 * SECONDS_A_MUTANT):
            try:
                received = reader.recv()
            except EOFError:
                break
            if received is None:
                outcome = (min(number + BATCH, end) - 1, "")
                break
            outcome = received
            if outcome[1] in ("imported", "refused"):
                totals[outcome[1]] += 1
            elif outcome[1] != "started":
                failures[outcome[0]] = outcome[1]
        if outcome[1] == "started":
            worker.kill()
            failures[outcome[0]] = "the process died or hung"
        worker.join()
        number = outcome[0] + 1
    return totals, failures


def part(numbers: range) -> parts.Found:
    """What became of the mutants of some numbers."""
    totals, failures = run(len(numbers), numbers.start)
    return parts.Found(totals, tuple(f"mutant({number}): {failure}" for number, failure in failures.items()))


def main() -> int:
    """1 if anything but a refusal came out."""
    parser = parts.arguments(__doc__)
    parser.add_argument("mutants", nargs="?", type=int, default=10_000)
    parser.add_argument("first", nargs="?", type=int, default=0, help="number")
    options = parser.parse_args()
    for data in seeds():
        assert check(data) == "imported", check(data)
    end = options.first + options.mutants
    every = {str(n): range(n, min(n + BATCH, end)) for n in range(options.first, end, BATCH)}
    return parts.main(every, part, options.output, {"bench": "fuzz_importer"})


if __name__ == "__main__":
    sys.exit(main())
