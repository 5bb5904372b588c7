"""Where the time of a model goes here, engine by engine; what keeps it slow, and what to do about it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.backend.onnx import write_onnx
from tensmith.engine.base import BASELINE_ENGINE, ENGINES, Arrays
from tensmith.engine.compiled import NATIVE
from tensmith.engine.profile import Profiled, StepTime, profile
from tensmith.engine.signature import read_signature
from tensmith.equality.apart import farthest
from tensmith.errors import EngineError
from tensmith.evaluate.bench import BenchResult, bench, random_inputs
from tensmith.evaluate.count import node_costs
from tensmith.evaluate.open_sizes import open_sizes
from tensmith.frontend.onnx import read_onnx
from tensmith.hardware import detect_cpu, load_target
from tensmith.hardware.cpu import INT8_DOT
from tensmith.ir import Node, Program
from tensmith.ir.ops.quantization import decodes, encodes
from tensmith.progress import Progress, silent
from tensmith.report.metric import Metric
from tensmith.rewrite.trail import simplify

# What engines call a change of layout, the model's and one of their own, or of the kind of number; what ONNX
# Runtime adds to names of blocked convolutions.
_BLOCKED = "_nchwc"
_TRANSPOSED, _REORDERED = ("transpose", "permute"), ("reorder", "nchwc")
_FORMULAS = ("computed",)
_NUMBERS = ("quantizelinear", "dequantize", "convert", "cast", "quantize")
# Shares of the time that are worth a word; how many times over its bound a step is far from it.
_WORTH, _LARGE, _FAR = 0.03, 0.05, 8.0
_SHOWN, _CLEARLY = 5, 1.1


@dataclass(frozen=True)
class Bottleneck:
    """What keeps a model slow, where, and what to do. share: of the time in `engine`, where that is known."""

    what: str
    where: tuple[str, ...]
    advice: str
    engine: str = ""
    share: float | None = None


@dataclass(frozen=True)
class TimedStep:
    """A step of an engine beside what its multiply-adds take at this machine's peak (fewer of them, as
    Winograd's, take less); None where nobody knows what it computes, or there are none."""

    step: StepTime
    share: float
    peak_seconds: float | None


@dataclass(frozen=True)
class Diagnosis:
    """Latencies of inferences; the steps of each engine that tells them; findings, the largest first."""

    model: Path
    latencies: BenchResult
    steps: Mapping[str, Sequence[TimedStep]]
    untold: Mapping[str, str]
    findings: tuple[Bottleneck, ...]

    def to_json(self) -> dict[str, Any]:
        """{"model", "engines", "steps": {engine: [{"name", "kind", "ms", ...}]}, "untold", "findings"}."""
        steps = {
            engine: [
                {"name": t.step.name, "kind": t.step.kind, "ms": 1e3 * t.step.seconds, "share": t.share,
                 "peak_ms": None if t.peak_seconds is None else 1e3 * t.peak_seconds}
                for t in timed
            ]
            for engine, timed in self.steps.items()
        }  # fmt: skip
        rows = self.latencies.to_json()["models"][0]["engines"]
        findings = [asdict(finding) for finding in self.findings]
        return {"model": str(self.model), "engines": rows, "steps": steps,
                "untold": dict(self.untold), "findings": findings}  # fmt: skip


def diagnose(
    path: Path,
    engines: Sequence[str] | None = None,
    threads: int = 1,
    seconds: float = 10.0,
    sizes: Mapping[str, int] | None = None,
    tell: Progress = silent,
) -> Diagnosis:
    """The diagnosis of an ONNX file for one sample, half of `seconds` for latencies and half for steps.

    Raises what `evaluate.bench.bench` raises, and ModelError for a file that cannot be read.
    """
    program = read_onnx(path)
    latencies = bench([path], engines, threads, seconds=seconds / 2, progress=tell, sizes=sizes)
    inputs = random_inputs(read_signature(path).inputs, sizes=sizes)
    inference = {each: found.latency.value / 1e3 for each, found in latencies.latencies.items()}
    telling = [each for each in inference if isinstance(ENGINES[each.engine], Profiled)]
    steps: dict[str, list[TimedStep]] = {}
    untold = {each.engine_name: reason for each, reason in latencies.failures.items()}
    taken = open_sizes(read_signature(path).inputs, 1, sizes or {})
    peak = _Peak(program, taken, threads)
    for each in telling:
        name = each.engine_name
        tell(f"looking into {name}")
        try:
            part = seconds / 2 / len(telling)
            found = profile(each.engine, path, threads, inputs, part, **dict(each.settings))
            steps[name] = _timed(found, inference[each], peak)
        except EngineError as error:
            untold[name] = str(error)
    findings = [*_of_program(program, taken), *_of_steps(steps), *_of_engines(latencies, untold)]
    findings.sort(key=lambda finding: -(finding.share or 0.0))
    return Diagnosis(path, latencies, steps, untold, tuple(findings))


@dataclass(frozen=True)
class Fixed:
    """A simpler file for a model: by how many exact steps, how far answers are apart (see
    `largest_difference`), and by engine its speed over the model's, in turns."""

    file: Path
    steps: int
    apart: float
    speedups: Mapping[str, Metric]

    def to_json(self) -> dict[str, Any]:
        """{"file", "steps", "apart", "speedup": {engine: metric}}."""
        speedups = {engine: ratio.to_json() for engine, ratio in self.speedups.items()}
        return {"file": str(self.file), "steps": self.steps, "apart": self.apart, "speedup": speedups}


def write_fixed(
    found: Diagnosis,
    file: Path,
    threads: int = 1,
    seconds: float = 10.0,
    sizes: Mapping[str, int] | None = None,
    tell: Progress = silent,
) -> Fixed:
    """Writes the model as the exact rules make it, and compares both in every engine that ran.

    An interrupt that comes after the file was written says so.
    """
    tell("applying exact rules")
    program, steps = fixed_program(found.model)
    write_onnx(program, file)
    try:
        apart = largest_difference(found.model, file, sizes)
        names = [each.engine_name for each in found.latencies.latencies]
        speedups: dict[str, Metric] = {}
        for name in names:
            result = bench([found.model, file], [name], threads, seconds=seconds / len(names), sizes=sizes)
            if not result.failures:
                speedups.update(
                    (name, each.ratio) for one, each in result.latencies.items() if one.path == file
                )
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(f"{file} was written, and is not compared with the model") from error
    return Fixed(file, steps, apart, speedups)


def fixed_program(path: Path) -> tuple[Program, int]:
    """The model after every exact rule that makes it simpler, and how many steps that took."""
    traced = simplify(read_onnx(path))
    return traced.program, len(traced.trail)


def largest_difference(first: Path, second: Path, sizes: Mapping[str, int] | None = None) -> float:
    """The largest difference between two files' answers to random inputs in ONNX Runtime, over the largest
    number of the output; 0 for answers that are the same."""
    inputs = random_inputs(read_signature(first).inputs, sizes=sizes)
    return farthest(*(_answers(path, inputs) for path in (first, second)))


def _answers(path: Path, inputs: Arrays) -> dict[str, np.ndarray[Any, Any]]:
    session = ENGINES[BASELINE_ENGINE].prepare(path, 1)
    try:
        return session.run(inputs)
    finally:
        session.close()


class _Peak:
    """What the multiply-adds behind a step take at this machine's peak."""

    def __init__(self, program: Program, sizes: Mapping[str, int], threads: int) -> None:
        target = load_target("host")
        self._program = program
        self._seconds = {
            node.output: 2 * cost.macs / target.peak(cost.dtype, threads)
            for node, cost in node_costs(program, sizes)
        }
        self._nodes = {node.name: node for node in program.nodes if node.name}

    def values(self, step: StepTime) -> list[str]:
        """The values of the model that a step computes: those that it tells, or those of the node or value
        whose name it begins with."""
        if _turns_layouts(step):
            return []
        name = step.name.partition("/")[0].removesuffix(_BLOCKED)
        named = self._nodes[name].output if name in self._nodes else name
        told = step.values if step.name == name else ()
        return [value for value in told or (named,) if value in self._program.producers]

    def seconds(self, step: StepTime, ends: set[str]) -> float | None:
        """For the nodes between the step's values and those of other steps; None if there are none."""
        values = self.values(step)
        total, seen = 0.0, set()
        while values:
            value = values.pop()
            node = self._program.producers.get(value)
            if node is None or node.output in seen:
                continue
            seen.add(node.output)
            total += self._seconds.get(node.output, 0.0)
            values += [name for name in node.inputs if name and name not in ends]
        return total or None


def _timed(steps: Sequence[StepTime], inference: float, peak: _Peak) -> list[TimedStep]:
    """Steps with their shares of an inference's seconds: watching them slows the short ones."""
    total = sum(step.seconds for step in steps) or 1.0
    ends = {value for step in steps for value in peak.values(step)}
    return [
        TimedStep(replace(step, seconds=step.seconds / total * inference), step.seconds / total, at_peak)
        for step in steps
        for at_peak in [peak.seconds(step, ends)]
    ]


def _of_program(program: Program, sizes: Mapping[str, int] | None = None) -> Iterator[Bottleneck]:
    """What the graph itself shows, at `sizes` as `node_costs`."""
    simpler = simplify(program).program
    if (gone := len(program.nodes) - len(simpler.nodes)) > 0:  # an einsum may become several
        yield Bottleneck(
            f"{gone} of {len(program.nodes)} operators go by exact rules, to the same answers",
            (),
            "write the simpler model: tensmith diagnose MODEL --fix FILE",
        )
    layers = [node.output for node, cost in node_costs(simpler, sizes) if cost.macs]
    others = (node for node in simpler.nodes if node.output not in layers)
    if islands := [node.output for node in others if _is_island(simpler, node)]:
        yield Bottleneck(
            f"{len(islands)} operators between quantized ones compute in floats, so numbers are turned to 8 "
            "bits and back around them",
            tuple(islands),
            "quantize them as well: tensmith compress takes quantized models further",
        )
    if loose := [name for name in layers if _only_weights(simpler, name)]:
        yield Bottleneck(
            f"{len(loose)} layers have 8-bit weights and compute in floats: most engines decode the weights "
            "at every inference",
            tuple(loose),
            "quantize what goes into them as well (tensmith compress), or run them in the native engine",
        )
    if any(decodes(node) for node in simpler.nodes) and not INT8_DOT & set(detect_cpu().features):
        yield Bottleneck(
            "this processor has no instruction for sums of 8-bit products; engines widen to 16 bits, some "
            "with saturation",
            (),
            "compare the answers with those of a processor that has one (tensmith doctor names them)",
        )


def _is_island(program: Program, node: Node) -> bool:
    """Whether a node computes floats between decoding and encoding."""
    if decodes(node) or encodes(node) or node.opaque is not None or node.picked:
        return False
    given = [program.producers.get(name) for name in node.inputs if name and name not in program.constants]
    readers = program.consumers.get(node.output, ())
    around = bool(given) and all(each is not None and decodes(each) for each in given)
    return around and bool(readers) and all(encodes(reader) for reader in readers)


def _only_weights(program: Program, site: str) -> bool:
    """Whether a layer reads decoded weights and numbers that are not decoded."""
    stored = [
        (source := program.producers.get(name)) is not None and decodes(source)
        for name in program.producers[site].inputs[:2]
    ]
    return len(stored) == 2 and stored[1] and not stored[0]


def _of_steps(steps: Mapping[str, Sequence[TimedStep]]) -> Iterator[Bottleneck]:
    """What the times of an engine's steps show."""
    for engine, timed in steps.items():
        for words, what, advice in (
            (_TRANSPOSED, "is spent on transposing", "move transposes together: tensmith diagnose --fix"),
            (
                _REORDERED,
                "is spent on turning numbers into the engine's own layout and back",
                "another engine may need no such layout: tensmith bench",
            ),
            (
                _FORMULAS,
                "is spent on operators without a kernel of their own, computed by their formulas",
                "another engine may have kernels for them: tensmith bench",
            ),
            (_NUMBERS, "is spent on turning numbers into others", "quantize whole chains, not single layers"),
        ):
            steps_of = [t for t in timed if _begins(t.step, words)]
            share = sum(t.share for t in steps_of)
            if share >= _WORTH:
                where = tuple(t.step.name for t in steps_of)
                yield Bottleneck(f"{share:.0%} of the time {what}", where[:_SHOWN], advice, engine, share)
        far = [
            t for t in timed
            if t.share >= _LARGE and t.peak_seconds and t.step.seconds > _FAR * t.peak_seconds
        ]  # fmt: skip
        for t in sorted(far, key=lambda each: -each.share)[:_SHOWN]:
            assert t.peak_seconds is not None
            yield Bottleneck(
                f"a step ({t.step.kind}) takes {t.step.seconds / t.peak_seconds:.0f} times what its "
                "multiply-adds take at this machine's peak",
                (t.step.name,),
                "another engine may have a better kernel for it; tensmith tune times the native engine's",
                engine,
                t.share,
            )


def _of_engines(latencies: BenchResult, untold: Mapping[str, str]) -> Iterator[Bottleneck]:
    """What the engines side by side show."""
    if NATIVE in untold:
        yield Bottleneck(f"the native engine does not take the model: {untold[NATIVE]}", (),
                      "tensmith compile --mixed compiles what stands around such an operator")  # fmt: skip
    found = latencies.latencies
    if len(found) < 2:
        return
    fastest = min(found, key=lambda each: found[each].latency.value)
    first = next(iter(found))
    ratio = found[fastest].ratio
    if fastest is not first and ratio.low > _CLEARLY:
        yield Bottleneck(
            f"{fastest.engine_name} runs the very same file {ratio.value:.2f}x as fast as "
            f"{first.engine_name}",
            (),
            "deploy it there" + ("; tensmith compile writes a library" if fastest.engine == NATIVE else ""),
        )


def _turns_layouts(step: StepTime) -> bool:
    return _begins(step, (*_TRANSPOSED, *_REORDERED))


def _begins(step: StepTime, words: tuple[str, ...]) -> bool:
    return _word(step.kind).lower().startswith(words)


def _word(kind: str) -> str:
    """The first word of what an engine calls a step."""
    found = re.match(r"\w+", kind)
    return found.group() if found is not None else kind


def by_kind(timed: Sequence[TimedStep]) -> dict[str, float]:
    """Shares of the time by the first word of what engines call their steps, the largest first."""
    shares: dict[str, float] = defaultdict(float)
    for each in timed:
        shares[_word(each.step.kind)] += each.share
    return dict(sorted(shares.items(), key=lambda item: -item[1]))
