"""Every rule applied to programs with numbers: by the interpreter and by ONNX Runtime, before and after.

Programs are the left sides of a rule's own claims at sizes 0, 1 and odd ones, so every case of a rule is
run; SAMPLES are programs for rules whose claims do not look like what they match.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnxruntime
from golden import program
from onnxruntime.capi import onnxruntime_pybind11_state as refusal

from tensmith.backend.onnx import to_onnx
from tensmith.errors import ProgramError
from tensmith.ir import Program
from tensmith.ir.interpreter import interpret, interpret_in_float64
from tensmith.ir.types import DTYPES
from tensmith.rewrite.instance import numbers, size_names
from tensmith.rewrite.rule import Rule
from tensmith.rewrite.told import ToldRule
from tensmith.rewrite.trials import agree, assignments

Array = np.ndarray
# What ONNX Runtime raises of models and inputs that it does not take.
_REFUSALS = (refusal.Fail, refusal.InvalidArgument, refusal.InvalidGraph, refusal.NotImplemented,
             refusal.RuntimeException)  # fmt: skip
Arrays = Mapping[str, Array]

# Rule -> programs it applies to; "n" is drawn like other sizes.
SAMPLES: dict[str, tuple[str, ...]] = {
    "codes_again": (
        """
        input %x: u8[n, 2]
        const %s: f32[] = 0.5
        const %z: u8[] = 7
        %a: f32[n, 2] = dequantize_linear(%x, %s, %z)
        %b: u8[n, 2] = quantize_linear(%a, %s, %z)
        %y: f32[n, 2] = dequantize_linear(%b, %s, %z)
        return %y
        """,
    ),
    "parts_quantized": (
        """
        input %x: f32[n, 2]
        input %z: f32[n, 3]
        const %s: f32[] = 0.5
        const %o: i8[] = 7
        %a: f32[n, 5] = concat(%x, %z) {axis = 1}
        %b: i8[n, 5] = quantize_linear(%a, %s, %o)
        %y: f32[n, 5] = dequantize_linear(%b, %s, %o)
        return %y
        """,
    ),
    "cast_like_to_cast": (
        """
        input %x: f32[n, 2]
        input %c: i64[2]
        %like: f32[2] = cast_like(%c, %x)
        %y: f32[n, 2] = add(%x, %like)
        return %y
        """,
    ),
    "common_subexpressions": (
        """
        input %x: f32[n, 2]
        %a: f32[n, 2] = exp(%x)
        %b: f32[n, 2] = exp(%x)
        %y: f32[n, 2] = div(%a, %b)
        return %y
        """,
    ),
    "dead_code": (
        """
        input %x: f32[n, 2]
        %a: f32[n, 2] = exp(%x)
        %y: f32[n, 2] = relu(%x)
        return %y
        """,
    ),
    "fold_constants": (
        """
        input %x: f32[n, 2]
        const %a: f32[2] = [0.5, -3.0]
        const %b: f32[2] = [7.0, 0.125]
        %c: f32[2] = mul(%a, %b)
        %y: f32[n, 2] = add(%x, %c)
        return %y
        """,
    ),
    "known_values": (
        """
        input %x: f32[3, 2]
        input %z: f32[6]
        %s: i64[2] = shape(%x)
        %y: f32[3, 2] = reshape(%z, %s)
        return %y
        """,
    ),
    "expand_to_literal": (
        """
        input %x: f32[n, 1]
        input %z: f32[n, 4]
        %s: i64[2] = shape(%z)
        %y: f32[n, 4] = expand(%x, %s)
        return %y
        """,
    ),
    "reshape_to_literal": (
        """
        input %x: f32[n, 3, 4]
        input %z: f32[n, 12]
        %s: i64[2] = shape(%z)
        %y: f32[n, 12] = reshape(%x, %s)
        return %y
        """,
    ),
    "in_patches": (
        """
        input %x: f32[1, 2, 5]
        const %w: f32[2, 2, 2] = [[[1.0, 2.0], [-1.0, 0.5]], [[4.0, 3.0], [0.25, -2.0]]]
        %y: f32[1, 2, 4] = conv(%x, %w)
        return %y
        """,
        """
        input %x: f32[1, 2, 7, 3]
        %y: f32[1, 2, 7, 3] = relu(%x)
        return %y
        """,
    ),
    "merge_parallel_matmuls": (
        """
        input %x: f32[n, 2]
        const %v: f32[2, 3] = [[1.0, 2.0, -1.0], [0.5, 4.0, 3.0]]
        const %w: f32[2, 1] = [[-2.0], [5.0]]
        %a: f32[n, 3] = matmul(%x, %v)
        %b: f32[n, 1] = matmul(%x, %w)
        %y: f32[n, 3] = sub(%a, %b)
        return %y
        """,
    ),
    "merge_parallel_convs": (
        """
        input %x: f32[n, 1, 5]
        const %v: f32[2, 1, 3] = [[[1.0, 2.0, -1.0]], [[0.5, 4.0, 3.0]]]
        const %w: f32[1, 1, 3] = [[[-2.0, 5.0, 0.5]]]
        %a: f32[n, 2, 3] = conv(%x, %v)
        %b: f32[n, 1, 3] = conv(%x, %w)
        %y: f32[n, 2, 3] = mul(%a, %b)
        return %y
        """,
    ),
    "scale_there_and_back": (
        """
        input %x: f32[n, 3]
        %a: f32[n, 3] = relu(%x)
        %y: f32[n, 3] = exp(%a)
        return %y
        """,
    ),
}
# What steps tell rules that take parameters.
PARAMS: dict[str, Mapping[str, object]] = {
    "in_patches": {"rows": 2, "columns": 1},
    "scale_there_and_back": {"exponents": [3, 0, -2]},
}
# Sizes that a rule's programs take: of an empty tensor, no operand says the shape in numbers.
SAMPLE_SIZES = {"reshape_to_literal": (1, 3, 7)}


@dataclass(frozen=True)
class Instance:
    """A program with inputs, and where it came from."""

    origin: str
    program: Program
    inputs: Arrays


def instances(rule: Rule, count: int, seed: int = 0) -> Iterator[Instance]:
    """For each claim of a rule, and each of its samples, `count` programs or as many as there are."""
    generator = np.random.default_rng([seed, *rule.name.encode()])
    for obligation in rule.obligations():
        if obligation.terms is None:
            continue
        left, right, case = obligation.terms
        found = 0
        for sizes in assignments(size_names(left, right, case=case), case.lower, generator):
            if found == count:
                break
            try:
                drawn = numbers(left, case, sizes, generator)
                made = drawn.program(left)
                interpret(made, drawn.inputs)
            except ProgramError:
                continue  # no tensors of these sizes
            found += 1
            yield Instance(f"{obligation.name} {sizes}", made, drawn.inputs)
    for text in SAMPLES.get(rule.name, ()):
        made = program(text)
        for size in SAMPLE_SIZES.get(rule.name, (0, 1, 3, 7))[:count]:
            inputs = {
                name: generator.normal(size=[d if isinstance(d, int) else size for d in type_.dims]).astype(
                    type_.numpy
                )
                for name, type_ in made.inputs.items()
            }
            yield Instance(f"sample of {rule.name}, n={size}", made, inputs)


def retyped(instance: Instance, dtype: str) -> Instance | None:
    """An instance whose floats are of another type; None where that is no program."""
    type_ = DTYPES[dtype]

    def turned(arrays: Arrays) -> Arrays:
        return {name: a.astype(type_) if a.dtype == np.float32 else a for name, a in arrays.items()}

    made, inputs = instance.program, turned(instance.inputs)
    made = replace(
        made,
        inputs={n: t.with_dtype(dtype) if t.dtype == "f32" else t for n, t in made.inputs.items()},
        constants=turned(made.constants),
        _known={},
    )
    try:
        len(made.facts)
    except ProgramError:
        return None
    return Instance(f"{instance.origin} of {dtype}", made, inputs)


def as_written(instance: Instance) -> Instance:
    """An instance as a file can say it: its scalars, of which rules take any, have the type of what is
    beside them."""
    made = instance.program
    try:
        to_onnx(made)
    except ProgramError:
        constants = {n: a if a.ndim else a.astype(np.float32) for n, a in made.constants.items()}
        return replace(instance, program=replace(made, constants=constants, _known={}))
    return instance


def applied(rule: Rule, instance: Instance) -> Program | None:
    """The program after the rule, at the first site it takes; None if it takes none."""
    if isinstance(rule, ToldRule):
        rule = rule.told(PARAMS[rule.name])
    site = next(iter(rule.sites(instance.program)), None)
    return None if site is None else rule.apply(instance.program, site)


def difference(before: Program, after: Program, inputs: Arrays) -> str:
    """Why a rewritten program is another by the interpreter; "" if it is the same."""
    for name, wanted in interpret(before, inputs).items():
        got = interpret(after, inputs)[name]
        if got.dtype != wanted.dtype or got.shape != wanted.shape:
            return f"{wanted.dtype}{wanted.shape} and {got.dtype}{got.shape}"
    ours, theirs = (interpret_in_float64(side, inputs) for side in (before, after))
    same = all(agree(ours[name], theirs[name]) for name in ours)
    return "" if same else "other numbers by the interpreter"


def runtime_difference(before: Program, after: Program, inputs: Arrays, rtol: float = 1e-4) -> str | None:
    """Why ONNX Runtime disagrees about them, "" where it does not; None where it does not run the first, or
    that gives no number.

    `rtol` is of the largest number in 32 bits, through a few hundred terms.
    """
    ours = run_onnx(before, inputs)
    if isinstance(ours, str):
        return None
    theirs = run_onnx(after, inputs)
    if isinstance(theirs, str):
        return f"ONNX Runtime ran it before, and not after: {theirs}"
    for wanted, got in zip(ours, theirs, strict=True):
        if wanted.dtype != got.dtype or wanted.shape != got.shape:
            return f"ONNX Runtime gives {wanted.dtype}{wanted.shape} and {got.dtype}{got.shape}"
        there = np.isfinite(wanted)
        a, b = wanted[there].astype(np.float64), got[there].astype(np.float64)
        if not np.all(np.abs(a - b) <= rtol * max(1.0, np.max(np.abs(a), initial=0.0))):
            return "other numbers by ONNX Runtime"
    return "" if any(np.isfinite(wanted).any() for wanted in ours) else None


def run_onnx(made: Program, inputs: Arrays) -> list[Array] | str:
    """The outputs of a program by ONNX Runtime without its own rewrites, or why it refuses."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(
            to_onnx(made).SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return [np.asarray(array) for array in session.run(list(made.outputs), dict(inputs))]
    except (ProgramError, *_REFUSALS) as error:
        return str(error).splitlines()[0][:200]
