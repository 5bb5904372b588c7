"""`tensmith diff` on real graphs: equal ones of two exporters are equal in time, mutants are found.

    python -m benchmarks.trust.differences [--mutants 20] [--seed 0] [--output FILE] [NAME ...]

pair/NAME     a network of published size by PyTorch's two exporters: what is known, and in how many seconds
mutants/NAME  a real graph against copies that differ in one place: a weight, an attribute, an operator, an
              operand, the order of operands. ONNX Runtime says on random inputs whether a copy computes
              something else; one that does not is `alike`, and says nothing. A fault is one that is called
              equal although its outputs are apart, or too few that are called different.
"""

from __future__ import annotations

import contextlib
import io
import random
import sys
import time
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import DATA, parts
from tensmith.equality.apart import distance
from tensmith.equality.sampling import normal_inputs, symbols
from tensmith.errors import TensmithError
from tensmith.files import TemporaryFolder
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Node, Program
from tensmith.verify.difference import compare_models, values_of

# Networks, and the seconds that comparing two exports of one may take.
PAIRS = {"resnet50": 30.0, "bert_base": 60.0, "mobilenet_v2": 30.0, "gpt2": 60.0}
MODELS = ("resnet20_cifar10", "resnet8_cifar10", "mobilenetv2_imagenet", "squeezenet1_1_imagenet",
          "stories260k", "fastestdet_coco")  # fmt: skip
FOUND = 0.95
# Outputs that are so far apart, of the largest number, are no rounding; what is nearer is no difference that
# anybody could see on the inputs at hand.
_APART = 1e-4
# An operator in the place of another of the same form.
_SWAPPED = {
    "relu": "softplus", "clip": "relu", "sigmoid": "tanh", "tanh": "sigmoid", "add": "sub", "sub": "add",
    "mul": "div", "div": "mul", "max_pool": "average_pool", "exp": "sigmoid", "sqrt": "exp",
    "reduce_mean": "reduce_sum", "global_average_pool": "global_max_pool", "max": "min", "min": "max",
}  # fmt: skip


def pair(name: str, limit: float) -> parts.Found:
    """Two exports of one module, by the exporter of today and the one before it."""
    import torch

    from benchmarks.models import build

    torch.manual_seed(0)
    module, example = build(name)
    with TemporaryFolder("differences") as folder:
        files = [Path(folder) / f"{way}.onnx" for way in ("dynamo", "script")]
        for file, dynamo in zip(files, (True, False)):
            with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
                warnings.simplefilter("ignore")
                torch.onnx.export(module, example, str(file), dynamo=dynamo)
        began = time.monotonic()
        found = compare_models(read_onnx(files[0]), read_onnx(files[1]))
        seconds = time.monotonic() - began
    wrong = []
    if found.verdict != "equal":
        wrong.append(f"{name}: two exports of one module are called {found.verdict} ({found.reason})")
    if seconds > limit:
        wrong.append(f"{name}: {seconds:.0f} s, more than {limit:.0f}")
    known = (
        found.evidence if found.evidence == "proved" else f"{found.evidence} {found.error_probability:.0e}"
    )
    return parts.Found(row={"verdict": found.verdict, "known": known, "seconds": seconds}, wrong=tuple(wrong))


def mutants(program: Program, seed: int) -> Iterator[tuple[str, Program]]:
    """Copies that differ in one place and are programs still, with what was changed."""
    draw = random.Random(seed)
    live = [node for node in program.nodes if node.output not in program.static_values]
    ways = (_weight, _attribute, _operator, _operand, _order)
    while True:
        found = draw.choice(ways)(program, draw.choice(live), draw)
        if found is None:
            continue
        what, mutant = found
        try:
            same = [mutant.type(name) for name in program.outputs] == [
                program.type(name) for name in program.outputs
            ]
        except TensmithError:
            continue
        if same:
            yield what, mutant


_Mutant = tuple[str, Program] | None


def _weight(program: Program, node: Node, draw: random.Random) -> _Mutant:
    """A number of a constant, doubled and a little more."""
    names = [n for n in node.inputs if n in program.constants and program.constants[n].dtype.kind == "f"]
    names = [name for name in names if program.constants[name].size]
    if not names:
        return None
    name = draw.choice(names)
    array = program.constants[name].copy()
    place = draw.randrange(array.size)
    array.flat[place] = 2 * array.flat[place] + array.dtype.type(np.abs(array).mean() + 0.1)
    changed = replace(program, constants={**program.constants, name: array}, _known={})
    return f"element {place} of {name}", changed


def _attribute(program: Program, node: Node, draw: random.Random) -> _Mutant:
    """A number of an attribute, one more or one less."""
    numbers = [name for name, value in node.attrs.items() if _numbers(value)]
    if not numbers:
        return None
    name = draw.choice(numbers)
    values = list(_numbers(node.attrs[name]))
    place = draw.randrange(len(values))
    step = draw.choice((-1, 1))
    values[place] += step if isinstance(values[place], int) else 0.5 * step
    value = tuple(values) if isinstance(node.attrs[name], tuple) else values[0]
    return f"{name} of {node.label}", _with(program, node, replace(node, attrs={**node.attrs, name: value}))


def _numbers(value: object) -> tuple[int | float, ...]:
    values = value if isinstance(value, tuple) else (value,)
    return tuple(v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool))


def _operator(program: Program, node: Node, draw: random.Random) -> _Mutant:
    """Another operator on the same operands."""
    if node.op not in _SWAPPED:
        return None
    op = _SWAPPED[node.op]
    attrs = {} if op in ("relu", "softplus") else node.attrs
    inputs = node.inputs[:1] if op in ("relu", "softplus") else node.inputs
    return f"{op} for {node.label}", _with(program, node, replace(node, op=op, attrs=attrs, inputs=inputs))


def _operand(program: Program, node: Node, draw: random.Random) -> _Mutant:
    """Another value of the same type, of those that are there."""
    place = draw.randrange(len(node.inputs)) if node.inputs else 0
    name = node.inputs[place] if node.inputs else ""
    if not name:
        return None
    before: list[str] = []
    for other in program.nodes:
        if other is node:
            break
        before += [n for n in other.outputs if n and n != name and n not in program.static_values]
    alike = [n for n in before if program.facts[n].type == program.facts[name].type]
    if not alike:
        return None
    inputs = (*node.inputs[:place], draw.choice(alike), *node.inputs[place + 1 :])
    return f"operand {place} of {node.label}", _with(program, node, replace(node, inputs=inputs))


def _order(program: Program, node: Node, draw: random.Random) -> _Mutant:
    """Two operands the other way round."""
    if len(node.inputs) < 2 or "" in node.inputs[:2]:
        return None
    inputs = (node.inputs[1], node.inputs[0], *node.inputs[2:])
    return f"order of {node.label}", _with(program, node, replace(node, inputs=inputs))


def _with(program: Program, node: Node, other: Node) -> Program:
    nodes = tuple(other if each is node else each for each in program.nodes)
    return replace(program, nodes=nodes, _known={})


def hunted(name: str, options: Namespace) -> parts.Found:
    """What became of a model's mutants."""
    program = read_onnx(DATA / "models" / f"{name}.onnx")
    counts = {"mutants": 0, "different": 0, "unknown": 0, "equal": 0, "alike": 0, "no model": 0}
    wrong, missed, slowest = [], [], 0.0
    for what, mutant in mutants(program, options.seed):
        if counts["mutants"] == options.mutants or counts["alike"] + counts["no model"] > 2 * options.mutants:
            break
        began = time.monotonic()
        try:
            found = compare_models(program, mutant, seed=options.seed, seconds=20.0)
            alike = found.verdict == "equal" and not _apart(program, mutant)
        except TensmithError:  # ONNX Runtime refuses it
            counts["no model"] += 1
            continue
        slowest = max(slowest, time.monotonic() - began)
        if alike:
            counts["alike"] += 1
            continue
        counts["mutants"] += 1
        counts[found.verdict] += 1
        if found.verdict == "equal":
            wrong.append(f"{name}, {what}: called equal ({found.evidence}), and it is not")
        elif found.verdict != "different":
            missed.append(f"{what}: {found.reason}")
    share = counts["different"] / max(1, counts["mutants"])
    if share < FOUND:
        wrong.append(
            f"{name}: {share:.0%} of mutants are found, less than {FOUND:.0%}; {'; '.join(missed[:3])}"
        )
    return parts.Found(row={"slowest": slowest, "missed": missed}, counts=counts, wrong=tuple(wrong))


def _apart(program: Program, mutant: Program) -> bool:
    """Whether outputs on random inputs are further apart than rounding takes them."""
    batches, lengths = symbols(program)
    given = normal_inputs(program, dict.fromkeys(lengths, 16) | dict.fromkeys(batches, 2), 1)
    ours, theirs = (values_of(each, given) for each in (program, mutant))
    return any(distance(ours[name], theirs[name]).share > _APART for name in program.outputs)


def main() -> int:
    """1 where something is called equal that is not, or too little is found."""
    parser = parts.arguments(__doc__)
    parser.add_argument("names", nargs="*", help="of parts; all if none is given")
    parser.add_argument("--mutants", type=int, default=20, help="of each model")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    works: dict[str, Callable[[], parts.Found]] = {
        f"pair/{name}": partial(pair, name, limit) for name, limit in PAIRS.items()
    }
    works |= {f"mutants/{name}": partial(hunted, name, options) for name in MODELS}
    chosen = {name: work for name, work in works.items() if not options.names or name in options.names}
    settings = {"bench": "differences", "mutants": options.mutants, "seed": options.seed}
    return parts.main(chosen, lambda work: work(), options.output, settings)


if __name__ == "__main__":
    sys.exit(main())
